import { expect, test } from "vitest";
import { finishAtOnce } from "../../base/steps.ts";
import type { PostingHashes, StoredContent } from "../../index/kind.ts";
import { sparseKind } from "../../index/sparse/kind.ts";
import { SparseIndex } from "../../index/sparse/sparse-index.ts";
import { differingOrdinals } from "./index-comparison.ts";

const count = 70_000;
const contentOf = (ordinal: number, value = 1): StoredContent => ({
  sparse: { indices: Uint32Array.of(ordinal % 7, 10 + (ordinal % 3)), values: Float32Array.of(value, 2) },
  text: null,
  metadataBytes: null,
});
type Records = [number, StoredContent | undefined][];

/** An index of many records, in segments and in the mutable buffer, and what it should have. */
function indexed(): { index: SparseIndex; postings: PostingHashes; records: Records } {
  const index = new SparseIndex({});
  const records: Records = [];
  for (let ordinal = 0; ordinal < count; ordinal++) {
    const content = contentOf(ordinal);
    const { indices, values } = content.sparse as NonNullable<StoredContent["sparse"]>;
    index.add(ordinal, indices, values);
    records.push([ordinal, content]);
  }
  return { index, postings: sparseKind.postings?.(index) as PostingHashes, records };
}

test("[Z1] [Z2] every record whose postings differ is found, and no other", () => {
  const { index, postings, records } = indexed();
  const differing = (sees: (ordinal: number) => boolean = () => true) =>
    finishAtOnce(differingOrdinals(postings, sees, records));
  expect(differing()).toEqual([]);
  records[69_999] = [69_999, contentOf(69_999, 1.5)];
  records[3] = [3, contentOf(4)];
  records.push([count, contentOf(count)]);
  expect(differing()).toEqual([3, 69_999, count]);
  // The index still has postings of a record that is gone; one that cannot be read is not compared.
  records.splice(500, 1);
  records[3] = [3, undefined];
  expect(differing()).toEqual([500, 69_999, count]);
  expect(differing((ordinal) => ordinal !== 500)).toEqual([69_999, count]);
  index.close();
});

test("a comparison during which segments are merged is given up", () => {
  const { index, postings, records } = indexed();
  const steps = differingOrdinals(postings, () => true, records);
  expect(steps.next().done).toBe(false);
  for (let ordinal = 0; ordinal < count; ordinal += 2) index.remove(ordinal);
  while (index.tidy(1_000_000));
  expect(finishAtOnce(steps)).toBeUndefined();
  index.close();
});
