// Which of the candidates are results that differ from each other?
//
// Maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998), with d the diversity from 0 to 1. The first result is the best
// candidate. The next one is always the candidate c with the greatest
//
//     (1 - d) * score(c) - d * (the greatest score between c and a result before it),
//
// of equal ones that which ranks higher. The score between two records is that of a search for the earlier result: the exact score by the
// metric of the index. The result for any number is the beginning of the one for a greater number of the same candidates.
//
// The candidates are the best by score, ten for each result (`candidatesFor`), in steps: each result is compared with every candidate that is left.

import { limits } from "@quiverdb/protocol/limits";
import type { Steps } from "../base/steps.ts";
import { readFloats } from "../vector/floats.ts";
import type { Metric } from "../vector/metric.ts";
import type { SearchedView } from "../views/view.ts";
import { metricOf, vectorsOf } from "./legs.ts";
import type { Hit } from "./rank.ts";

const candidatesPerResult = 10;
const candidatesMin = 100;

/** Results that can be chosen at most: their vectors are in memory, and each is compared with all others. */
export const diverseMax = (dimension: number): number =>
  Math.min(limits.diversityCandidatesMax, Math.floor(limits.diversityBytesMax / (4 * dimension)));

/** Candidates from which so many results are chosen, at most `diverseMax`. */
export const candidatesFor = (results: number, dimension: number): number =>
  Math.min(diverseMax(dimension), Math.max(candidatesMin, candidatesPerResult * results));

/** Values that are read or compared at a step, about. */
const valuesPerStep = 262_144;

/** Vectors of records, and how two of them compare. */
export interface Vectors {
  metric(): Metric;
  /** Borrowed until the next call. */
  vectorOf(ordinal: number): Uint8Array;
}

export const vectorsIn = (view: SearchedView): Vectors => ({
  metric: () => metricOf(view),
  vectorOf: vectorsOf(view),
});

/**
 * Chooses results, in the order of choice.
 * @param candidates best first
 * @param diversity greater than 0
 */
export function* diverse<T extends { readonly hit: Hit }>(
  vectors: Vectors,
  candidates: readonly T[],
  count: number,
  diversity: number,
): Steps<T[]> {
  const metric = vectors.metric();
  let worked = 0;
  const isStep = (values: number) => {
    worked = worked >= valuesPerStep ? values : worked + values;
    return worked >= valuesPerStep;
  };
  const left: { candidate: T; vector: Float32Array; nearest: number }[] = [];
  for (const candidate of candidates) {
    const vector = readFloats(vectors.vectorOf(candidate.hit.ordinal));
    left.push({ candidate, vector, nearest: Number.NEGATIVE_INFINITY });
    if (isStep(vector.length)) yield;
  }
  const chosen: T[] = [];
  while (chosen.length < count && left.length > 0) {
    const at = chosen.length === 0 ? 0 : bestAt(left, diversity);
    const [{ candidate, vector }] = left.splice(at, 1);
    if (chosen.push(candidate) === count) break;
    const distanceTo = metric.exactDistance(vector);
    for (const one of left) {
      one.nearest = Math.max(one.nearest, metric.score(distanceTo(one.vector, 0)));
      if (isStep(vector.length)) yield;
    }
  }
  return chosen;
}

function bestAt(
  left: readonly { readonly candidate: { readonly hit: Hit }; readonly nearest: number }[],
  diversity: number,
): number {
  let best = Number.NEGATIVE_INFINITY;
  let at = 0;
  for (const [i, { candidate, nearest }] of left.entries()) {
    const value = (1 - diversity) * candidate.hit.score - diversity * nearest;
    if (value <= best) continue;
    best = value;
    at = i;
  }
  return at;
}
