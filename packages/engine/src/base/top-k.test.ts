import fc from "fast-check";
import { expect, test } from "vitest";
import { Growable } from "./growable.ts";
import { Greatest, keepBest } from "./top-k.ts";

const aNumber = fc.oneof(fc.integer({ min: -5, max: 5 }), fc.double({ noNaN: true }));
/** Few and many: they go different ways. */
const someNumbers = fc.oneof(fc.array(aNumber), fc.array(aNumber, { minLength: 40, maxLength: 120 }));

test("the floor is the k-th greatest number", () => {
  fc.assert(
    fc.property(someNumbers, fc.integer({ min: 1, max: 20 }), (numbers, k) => {
      const greatest = new Greatest(k);
      for (const number of numbers) greatest.offer(number);
      const sorted = numbers.toSorted((a, b) => b - a);
      expect(greatest.floor === (sorted[k - 1] ?? Number.NEGATIVE_INFINITY)).toBe(true);
    }),
  );
});

test("the best are the k greatest and all that tie with the k-th", () => {
  fc.assert(
    fc.property(someNumbers, fc.integer({ min: 0, max: 20 }), (numbers, k) => {
      const scores = Float64Array.from(numbers);
      const best = keepBest(Uint32Array.from(scores.keys()), scores, scores.length, k);
      const sorted = numbers.toSorted((a, b) => b - a);
      const floor = k === 0 ? Number.POSITIVE_INFINITY : (sorted[k - 1] ?? Number.NEGATIVE_INFINITY);
      const expected = [...scores.keys()].filter((i) => k > 0 && scores[i] >= floor);
      expect([...best.ordinals]).toEqual(expected);
      expect([...best.scores]).toEqual(expected.map((i) => scores[i]));
      expect(best.count).toBe(expected.length);
    }),
  );
});

test("a growing column keeps pushed values, and releases memory", () => {
  const column = new Growable(Uint32Array, 1);
  for (let i = 0; i < 1_000; i++) column.push(i);
  expect([...column.values.subarray(0, column.length)]).toEqual(Array.from({ length: 1_000 }, (_, i) => i));
  column.truncate(3);
  column.push(7);
  expect([...column.values.subarray(0, column.length)]).toEqual([0, 1, 2, 7]);
  expect(column.memoryBytes).toBeLessThan(100);
});
