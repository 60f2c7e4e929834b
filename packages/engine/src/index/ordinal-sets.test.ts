import fc from "fast-check";
import { expect, test } from "vitest";
import { finishAtOnce } from "../base/steps.ts";
import { contains, differenceOf, intersectionOf, unionInSteps, unionOf } from "./ordinal-sets.ts";

/** Sets of very different lengths, up to the last ordinal. */
const anySet = fc
  .oneof(fc.uniqueArray(fc.nat(60)), fc.uniqueArray(fc.nat(60), { minLength: 40 }), fc.uniqueArray(fc.nat(3)))
  .map((ordinals) => [...ordinals, 0xffff_fffe].slice(ordinals.length % 2))
  .map((ordinals) => Uint32Array.from(ordinals).sort());

test("sets of ordinals are sets", () => {
  fc.assert(
    fc.property(fc.array(anySet, { minLength: 1, maxLength: 4 }), fc.nat(61), (sets, ordinal) => {
      const all = [...new Set(sets.flatMap((set) => [...set]))].sort((a, b) => a - b);
      expect([...unionOf(sets)]).toEqual(all);
      expect([...finishAtOnce(unionInSteps(sets))]).toEqual(all);
      expect([...intersectionOf(sets)]).toEqual(all.filter((one) => sets.every((set) => set.includes(one))));
      const [first] = sets;
      const rest = unionOf(sets.slice(1));
      expect([...differenceOf(first, rest)]).toEqual([...first].filter((one) => !rest.includes(one)));
      expect(contains(first, ordinal)).toBe(first.includes(ordinal));
      expect(contains(first, -1)).toBe(false);
    }),
    { numRuns: 1_000 },
  );
  expect([...unionOf([])]).toEqual([]);
});
