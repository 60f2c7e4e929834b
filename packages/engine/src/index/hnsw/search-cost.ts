// What does a dense search cost, by following links or by comparing vectors?
//
// Estimates in microseconds, as measured on vectors of 32 to 768 dimensions (docs/decisions/allowed.md). They are there to be compared
// with each other: the way with the least is taken.

import type { SearchedVectors } from "./searched-vectors.ts";

/** What a search costs, in microseconds: by the graphs, by comparing what is allowed, and by comparing everything. */
export type DenseEstimate = { readonly graphUs: number; readonly allowedUs: number; readonly allUs: number };

/** Nanoseconds for a place of the beam, for a vector that is compared in its order, for one that is looked up, and for one that is read. */
const placeNs = (dimension: number): number => 400 + 2 * dimension;
const inOrderNs = (dimension: number): number => 6 + 0.22 * dimension;
const lookedUpNs = (dimension: number): number => 120 + 0.65 * dimension;
const readNs = (dimension: number): number => 800 + 1.7 * dimension;

/** @param graph of a search where everything is allowed: the places of its beam, and the vectors that it scores exactly */
export function estimateOf(
  vectors: SearchedVectors,
  allowedCount: number,
  { beam, scored }: { readonly beam: number; readonly scored: number } = { beam: 0, scored: 0 },
): DenseEstimate {
  const { dimension, tailCount, cache, count } = vectors;
  const linked = vectors.graphs?.count ?? 0;
  const share = Math.min(1, allowedCount / Math.max(1, count));
  // Vectors that are not in the cache have to be read, in any order.
  const readShare = linked === 0 ? 0 : Math.max(0, linked - cache.count) / Math.max(1, count);
  const readEachNs = readShare * readNs(dimension);
  const places = share === 0 ? Number.POSITIVE_INFINITY : beam / share;
  return {
    graphUs: (placeNs(dimension) * places + readEachNs * scored + inOrderNs(dimension) * tailCount) / 1_000,
    allowedUs: ((lookedUpNs(dimension) + readEachNs) * allowedCount) / 1_000,
    allUs: (inOrderNs(dimension) * count + readEachNs * allowedCount) / 1_000,
  };
}

/** The longest beam that costs less than comparing what is allowed, or everything. */
export function longestBeam(vectors: SearchedVectors, allowedCount: number): number {
  const { allowedUs, allUs } = estimateOf(vectors, allowedCount);
  return Math.floor((1_000 * Math.min(allowedUs, allUs)) / placeNs(vectors.dimension));
}
