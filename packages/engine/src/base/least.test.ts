// Are the least items found, whatever is offered in whatever order?

import fc from "fast-check";
import { expect, test } from "vitest";
import { finishAtOnce } from "./steps.ts";
import { Least } from "./top-k.ts";

test("the least of many items are those that sorting finds, and few are kept meanwhile", () => {
  const anyItems = fc.oneof(
    fc.array(fc.integer(), { maxLength: 5_000 }),
    fc.integer({ min: 0, max: 5_000 }).map((count) => Array.from({ length: count }, (_, i) => i)),
    fc.integer({ min: 0, max: 5_000 }).map((count) => Array.from({ length: count }, (_, i) => -i)),
  );
  fc.assert(
    fc.property(anyItems, fc.integer({ min: 1, max: 3_000 }), (items, wanted) => {
      const compare = (a: number, b: number) => a - b;
      const least = new Least<number>(wanted, compare);
      let cuts = 0;
      for (const item of items)
        if (least.offer(item)) {
          cuts++;
          finishAtOnce(least.cut());
        }
      expect(least.missing).toBe(Math.max(0, wanted - items.length));
      expect(finishAtOnce(least.take())).toEqual(items.toSorted(compare).slice(0, wanted));
      expect(cuts).toBeLessThanOrEqual(items.length / Math.max(512, wanted));
    }),
    { numRuns: 200 },
  );
});
