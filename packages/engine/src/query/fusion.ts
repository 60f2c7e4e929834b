// How do several rankings become one?
//
// Reciprocal rank fusion (Cormack, Clarke and Buettcher, SIGIR 2009): score(d) = sum over the rankings that
// have d of 1 / (k + rank), rank from 1. The sum runs in the order of the legs, so that equal requests give
// equal bits.

import type { Hit } from "./rank.ts";

/**
 * @param legs rankings, best first
 * @param k the fusion constant, greater than 0
 * @returns every ordinal of any leg with its fused score, in no particular order
 */
export function fuse(legs: readonly (readonly Hit[])[], k: number): Hit[] {
  const scores = new Map<number, number>();
  for (const leg of legs)
    for (const [i, { ordinal }] of leg.entries())
      scores.set(ordinal, (scores.get(ordinal) ?? 0) + 1 / (k + i + 1));
  return Array.from(scores, ([ordinal, score]) => ({ ordinal, score }));
}
