// Does a reader of another thread find all that its version sees, while the owner goes on?

import { randomNumbers } from "@quiverdb/kernels/random";
import { expect, test } from "vitest";
import { LateBuilders } from "../../../test/index/dense/late-builders.ts";
import { bytesOfFloats } from "../../vector/floats.ts";
import { HnswIndex } from "./hnsw-index.ts";
import type { HnswOptions } from "./hnsw-options.ts";
import { HnswReader } from "./hnsw-search.ts";
import type { HnswState } from "./saved-changes.ts";

test("a search finds k records although most of them were linked after the graphs were described", () => {
  const random = randomNumbers(1);
  const vectors = Array.from({ length: 2_000 }, () => Float32Array.from({ length: 8 }, random));
  const builders = new LateBuilders();
  const index = new HnswIndex({
    dimension: 8,
    metric: "euclidean",
    dataType: "f32",
    searchers: 2,
    sampleCount: 1,
    builders,
  });
  const addUpTo = (end: number) => {
    for (let n = index.count; n < end; n++) index.add(n, bytesOfFloats(vectors[n]));
  };
  const linkAll = () => {
    for (let turn = 0; turn < 10_000 && index.tailCount > 0; turn++) builders.work();
  };
  addUpTo(6);
  linkAll();
  addUpTo(20);
  const { descriptor } = index;
  expect(descriptor.vectors.graphs?.count).toBe(6);
  const reader = HnswReader.attach(descriptor, 1);
  addUpTo(vectors.length);
  linkAll();
  expect(index.tailCount).toBe(0);
  const visible = (ordinal: number) => ordinal < 20;
  const vectorOf = (ordinal: number) => vectors[ordinal];
  for (const k of [1, 5, 6, 7, 19, 20, 30])
    for (const query of vectors.slice(0, 50))
      expect(reader.search(query, k, { ef: 30, visible, vectorOf }).count).toBe(Math.min(k, 20));
});

/** A checkpoint of an index, opened again for two searching threads. */
async function reopened(
  vectors: readonly Float32Array[],
  options: Pick<HnswOptions, "readVector" | "onNotice" | "cacheMax">,
): Promise<HnswIndex> {
  const shape = { dimension: 8, metric: "euclidean", dataType: "u8", sampleCount: 50, searchers: 2 } as const;
  const before = new HnswIndex(shape);
  for (const [ordinal, vector] of vectors.entries()) before.add(ordinal, bytesOfFloats(vector));
  const images: Uint8Array[] = [];
  let state: HnswState | undefined;
  before.save((saved, graphs, done) => {
    state = saved;
    images.push(...graphs.map(({ image }) => image.slice()));
    done(true);
  });
  return HnswIndex.restored({ ...shape, ...options }, state as HnswState, async (graphs) => {
    for (const [i, { image }] of graphs.entries()) image.set(images[i]);
  });
}

test("after a restore, vectors are read into memory once, and other threads find them there", async () => {
  const random = randomNumbers(2);
  const vectors = Array.from({ length: 1_000 }, () => Float32Array.from({ length: 8 }, random));
  let reads = 0;
  const index = await reopened(vectors, {
    readVector: (ordinal) => {
      reads++;
      return bytesOfFloats(vectors[ordinal]);
    },
  });
  while (index.tidy());
  expect(reads).toBe(vectors.length);
  const reader = HnswReader.attach(index.descriptor, 1);
  const vectorOf = () => {
    throw new Error("a vector is read");
  };
  for (const [ordinal, query] of vectors.entries()) {
    expect(reader.search(query, 5, { ef: 50, vectorOf }).ordinals[0]).toBe(ordinal);
  }
  expect(reads).toBe(vectors.length);
});

test("no more vectors are read into memory than may be, and none after one that is damaged", async () => {
  const random = randomNumbers(2);
  const vectors = Array.from({ length: 500 }, () => Float32Array.from({ length: 8 }, random));
  let reads = 0;
  const read = (ordinal: number) => {
    reads++;
    return bytesOfFloats(vectors[ordinal]);
  };
  const small = await reopened(vectors, { readVector: read, cacheMax: 100 });
  while (small.tidy());
  expect(reads).toBe(100);
  const notices: string[] = [];
  reads = 0;
  const damaged = await reopened(vectors, {
    readVector: (ordinal) => {
      if (ordinal === 200) throw new Error("it is damaged");
      return read(ordinal);
    },
    onNotice: (notice) => notices.push(notice),
  });
  while (damaged.tidy());
  expect(reads).toBe(200);
  expect(notices).toEqual(["vectors are no longer read into memory in advance: Error: it is damaged"]);
  expect(damaged.failure).toBeUndefined();
});
