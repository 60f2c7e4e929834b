import { expect, test } from "vitest";
import { randomNumbers } from "../../packages/kernels/src/random.ts";
import { acceptedShare, PlainIndex } from "./plain-index.ts";

const rowCount = 60;
const listCount = 12;
const k = 5;

/** Rows of small whole values, so that there are ties and sums are exact. */
function filled(seed: number): { index: PlainIndex; values: number[][] } {
  const next = randomNumbers(seed);
  const index = new PlainIndex(rowCount);
  const values = Array.from({ length: rowCount }, (_, row) =>
    Array.from({ length: listCount }, (_, list) => {
      const value = next() < 0.3 ? 1 + Math.floor(next() * 3) : 0;
      if (value > 0) index.append(list, row, value);
      return value;
    }),
  );
  index.finish();
  return { index, values };
}

test("what is found and what is accepted are the best by brute force, ties and all", () => {
  for (let seed = 0; seed < 50; seed++) {
    const { index, values } = filled(seed);
    const terms = [0, 1 + (seed % 5), listCount + 3].map((list) => ({ list, weight: 1 + (list % 2) }));
    const scores = values.map((row) =>
      terms.reduce((sum, { list, weight }) => sum + weight * (row[list] ?? 0), 0),
    );
    const best = scores.filter((score) => score > 0).sort((a, b) => b - a);
    const found = index.search(terms, k);
    expect(found.map((row) => scores[row])).toEqual(best.slice(0, k));
    const { count, ids } = index.accepted(terms, k);
    expect(count).toBe(Math.min(k, best.length));
    const last = best[count - 1];
    expect([...ids].sort((a, b) => a - b)).toEqual([...scores.keys()].filter((row) => scores[row] >= last));
  }
});

test("any tied row is right, and none counts twice", () => {
  const truth = [{ count: 2, ids: new Set([4, 7, 9]) }];
  expect(acceptedShare(Int32Array.of(4, 9), truth, 2)).toBe(1);
  expect(acceptedShare(Int32Array.of(7, 7), truth, 2)).toBe(0.5);
  expect(acceptedShare(Int32Array.of(7, -1), truth, 2)).toBe(0.5);
});
