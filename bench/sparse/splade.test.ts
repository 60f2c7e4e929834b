import { expect, test } from "vitest";
import { makeQueries, queryEntries, rowEntries, rowMaker, vocabulary } from "./splade.ts";

const rowsOf = (count: number) => {
  const next = rowMaker();
  return Array.from({ length: count }, () => next());
};

test("rows are the same each time, however many are made", () => {
  expect(rowsOf(3)).toEqual(rowsOf(8).slice(0, 3));
});

test("vectors have ascending dimensions of the vocabulary and values greater than 0", () => {
  for (const [vectors, entries] of [
    [rowsOf(5), rowEntries],
    [makeQueries(5), queryEntries],
  ] as const)
    for (const { indices, values } of vectors) {
      expect(indices).toHaveLength(entries);
      expect([...indices]).toEqual([...new Set(indices)].sort((a, b) => a - b));
      expect(indices[entries - 1]).toBeLessThan(vocabulary);
      expect(values).toHaveLength(entries);
      expect(Math.min(...values)).toBeGreaterThan(0);
    }
});
