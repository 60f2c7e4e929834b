// How are the candidates of one of Quiver's indexes turned into results?

import type { Candidates } from "../../packages/engine/src/index/contract.ts";

/** Postings that an idle index merges in one step. */
export const tidiedAtOnce = 100_000;

/** The k best, best first: an index returns its candidates in any order, with all ties at the boundary. */
export function bestFirst({ ordinals, scores }: Candidates, k: number): number[] {
  const places = Array.from(ordinals, (_, i) => i).sort((x, y) => scores[y] - scores[x]);
  return places.slice(0, k).map((place) => ordinals[place]);
}
