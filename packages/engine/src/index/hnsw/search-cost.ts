// What does a dense search cost, by following links or by comparing vectors?
//
// Estimates in microseconds, as measured on vectors of 32 to 768 dimensions (docs/decisions/allowed.md). They only serve for comparison:
// the cheapest way is chosen.

import type { SearchedVectors } from "./searched-vectors.ts";

/** The cost of a search in microseconds: by the graphs, by a scan of the allowed records, and by a scan of all. */
export type DenseEstimate = { readonly graphUs: number; readonly allowedUs: number; readonly allUs: number };

/** Nanoseconds per beam entry, per vector in a sequential scan, per looked-up vector, and per vector read from the store. */
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
  // Vectors that are not in the cache must be read, in random order.
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
