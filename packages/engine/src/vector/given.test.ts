import { limits } from "@quiverdb/protocol/limits";
import fc from "fast-check";
import { expect, test } from "vitest";
import { sortSparse } from "./given.ts";

const anyIndex = fc.oneof(fc.nat(30), fc.constantFrom(0xffff_ffff, 0xffff_fffe, 0x8000_0000));

test("sparse vectors are sorted by index, values as given; a repeated index is refused with both positions", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(anyIndex, fc.float({ noNaN: true, noDefaultInfinity: true }))), (pairs) => {
      const given = { indices: pairs.map(([index]) => index), values: pairs.map(([, value]) => value) };
      const sorted = pairs.toSorted(([a], [b]) => a - b);
      const repeated = given.indices.some((index, i) => given.indices.indexOf(index) < i);
      if (!repeated) {
        const { indices, values } = sortSparse(given, "sparse_values");
        expect(Array.from(indices)).toEqual(sorted.map(([index]) => index));
        expect(Array.from(values)).toEqual(sorted.map(([, value]) => value));
        return;
      }
      let message = "";
      try {
        sortSparse(given, "sparse_values", "sparse_indices");
      } catch (error) {
        ({ message } = error as Error);
      }
      const [, at, index, first] =
        /^sparse_indices\[(\d+)\] repeats the index (\d+) of position (\d+)/.exec(message) ?? [];
      expect([given.indices[Number(at)], given.indices[Number(first)]]).toEqual([
        Number(index),
        Number(index),
      ]);
      expect(Number(first)).toBeLessThan(Number(at));
    }),
  );
});

test("the longest sparse vector keeps its positions", () => {
  const count = limits.sparseEntriesMax;
  const indices = Array.from({ length: count }, (_, i) => 0xffff_ffff - i);
  const values = Float64Array.from({ length: count }, (_, i) => i);
  const sorted = sortSparse({ indices, values }, "sparse_values");
  expect([sorted.indices[0], sorted.values[0]]).toEqual([0xffff_ffff - count + 1, count - 1]);
  expect([sorted.indices[count - 1], sorted.values[count - 1]]).toEqual([0xffff_ffff, 0]);
});

test("an index of another type is refused with its position", () => {
  for (const index of ["5", 5n, -1, 2 ** 32, 0.5, Number.NaN, null] as never[])
    expect(() => sortSparse({ indices: [1, index], values: [1, 1] }, "v", "i")).toThrow(/^i\[1\] is/);
});
