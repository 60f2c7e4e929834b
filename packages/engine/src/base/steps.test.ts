import fc from "fast-check";
import { expect, test } from "vitest";
import { finishAtOnce, sortInSteps } from "./steps.ts";

test("sorting in steps is sorting, and leaves what ties in its order", () => {
  const items = fc.array(fc.nat(50), { maxLength: 20, size: "max" });
  fc.assert(
    fc.property(items, fc.integer({ min: 1, max: 700 }), (drawn, times) => {
      const keyed = Array.from({ length: drawn.length * times }, (_, at) => ({
        key: drawn[at % drawn.length] ^ (at % 7),
        at,
      }));
      const byKey = (a: { key: number }, b: { key: number }) => a.key - b.key;
      expect(finishAtOnce(sortInSteps([...keyed], byKey))).toEqual([...keyed].sort(byKey));
    }),
    { numRuns: 50 },
  );
});

test("no step of sorting compares very many", () => {
  let compared = 0;
  let most = 0;
  const numbers = Array.from({ length: 40_000 }, (_, i) => (i * 7_919) % 40_009);
  const steps = sortInSteps(numbers, (a, b) => {
    compared++;
    return a - b;
  });
  for (let isDone = false; !isDone; most = Math.max(most, compared), compared = 0)
    isDone = steps.next().done === true;
  expect(most).toBeLessThan(15_000);
});
