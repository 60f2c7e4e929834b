// What must every index return, by brute force?

import assert from "node:assert/strict";
import type { Candidates } from "../../src/index/contract.ts";

/** Results as ordinal -> score, for comparison; fails if an ordinal occurs twice or the arrays disagree. */
export function asMap(candidates: Candidates): Map<number, number> {
  assert.equal(candidates.ordinals.length, candidates.count);
  assert.equal(candidates.scores.length, candidates.count);
  const map = new Map([...candidates.ordinals].map((ordinal, i) => [ordinal, candidates.scores[i]]));
  assert.equal(map.size, candidates.count);
  return map;
}

/** Two results as maps are equal, whatever their order, and -0 equals 0. */
export function expectSame(found: ReadonlyMap<number, number>, expected: ReadonlyMap<number, number>): void {
  const sorted = (map: ReadonlyMap<number, number>) =>
    [...map].sort(([a], [b]) => a - b).map(([ordinal, score]) => [ordinal, score + 0]);
  assert.deepEqual(sorted(found), sorted(expected));
}
