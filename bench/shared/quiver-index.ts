// How do the candidates of one of Quiver's indexes become an answer?

import type { Candidates } from "../../packages/engine/src/index/contract.ts";

/** Postings that an idle index merges between two looks at what else is to be done. */
export const tidiedAtOnce = 100_000;

/** The k best, best first: an index hands its candidates out in any order, with all ties at the boundary. */
export function bestFirst({ ordinals, scores }: Candidates, k: number): number[] {
  const places = Array.from(ordinals, (_, i) => i).sort((x, y) => scores[y] - scores[x]);
  return places.slice(0, k).map((place) => ordinals[place]);
}
