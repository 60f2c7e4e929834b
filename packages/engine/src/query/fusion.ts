// How are several rankings fused into one?
//
// Reciprocal rank fusion (Cormack, Clarke and Buettcher, SIGIR 2009), with weights: score(d) = sum over the rankings
// that have d of weight / (k + rank), rank from 1. The sum runs in the order of the legs, so that equal requests
// give equal bits.

import type { Hit } from "./rank.ts";

/** A ranking, best first, and how much it counts. */
export type Ranking = { hits: readonly Hit[]; weight: number };

/** The contribution of a ranking to the score of its record at `rank`, from 1. */
export function contributionOf(weight: number, k: number, rank: number): number {
  return weight / (k + rank);
}

/**
 * @param k the fusion constant, greater than 0
 * @returns every ordinal of any ranking with its fused score, in no particular order
 */
export function fuse(rankings: readonly Ranking[], k: number): Hit[] {
  const fused = new Map<number, Hit>();
  for (const { hits, weight } of rankings)
    for (let i = 0; i < hits.length; i++) {
      const { ordinal } = hits[i];
      const score = contributionOf(weight, k, i + 1);
      const hit = fused.get(ordinal);
      if (hit === undefined) fused.set(ordinal, { ordinal, score });
      else hit.score += score;
    }
  return [...fused.values()];
}
