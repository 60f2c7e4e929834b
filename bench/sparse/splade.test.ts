import { expect, test } from "vitest";
import { makeQueries, makeRows, queryEntries, rowEntries, vocabulary } from "./splade.ts";

test("rows are the same each time, however many are made", () => {
  expect(makeRows(3)).toEqual(makeRows(8).slice(0, 3));
});

test("vectors have ascending dimensions of the vocabulary and values greater than 0", () => {
  for (const [vectors, entries] of [
    [makeRows(5), rowEntries],
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
