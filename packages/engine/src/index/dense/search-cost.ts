// What does a dense search cost, by following links or by comparing vectors?
//
// Estimates in microseconds, as measured on vectors of 32 to 768 dimensions. They only serve for comparison: the cheapest way is chosen
// (how often rightly: docs/decisions/filters.md).

import type { SearchedVectors } from "./searched-vectors.ts";

/** The cost of a search in microseconds: by the graphs, by a scan of the allowed records, and by a scan of all. */
export type DenseEstimate = { readonly graphUs: number; readonly allowedUs: number; readonly allUs: number };

/** Nanoseconds per beam entry, per vector in a sequential scan, per looked-up vector, and per vector read from the store. */
const placeNs = (dimension: number): number => 400 + 2 * dimension;
const inOrderNs = (dimension: number): number => 6 + 0.22 * dimension;
const lookedUpNs = (dimension: number): number => 120 + 0.65 * dimension;
const readNs = (dimension: number): number => 800 + 1.7 * dimension;
/** The longest beam that costs no more than a sequential scan of so many vectors. */
export const beamOfScan = (dimension: number, count: number): number =>
  Math.floor((inOrderNs(dimension) * count) / placeNs(dimension));
/**
 * Nanoseconds for the node of an allowed record, and for 32 nodes of a graph; the latter are a margin, too: with 8 for sets whose nodes are not
 * known, a beam among half of all nodes was chosen, which finds less where these are far from the query (0.983 instead of 0.989).
 */
const nodeNs = 3;
const blockNs = 60;
/** From this share on, a wider beam through all nodes costs less than one of allowed nodes alone. */
const amongShareMax = 0.7;
/**
 * The beam of allowed nodes alone, in proportion to that of a search of all. It finds as much with fewer entries, because the lists that it
 * follows are denser; but where few nodes are allowed, these lists have few of them.
 */
export const amongBeam = (share: number): number => 0.75 * Math.max(1, Math.sqrt(0.1 / share));
/** What an entry of a beam of allowed nodes costs more than one of a beam of all: the lists of other nodes that are read. */
const amongFactor = (share: number): number => 1 + Math.min(2, 0.12 / share);

/** A search where everything is allowed: the places of its beam, and the vectors that it scores exactly. */
export type UsualSearch = {
  readonly beam: number;
  readonly scored: number;
  /** Whether the nodes of the allowed records are known; absent: it cannot go by allowed nodes. */
  readonly hasNodes?: boolean;
};

/** The cost of a beam through all nodes that is as wide as the share of allowed ones requires, in microseconds. */
export const wideUs = (vectors: SearchedVectors, allowedCount: number, { beam }: UsualSearch): number =>
  (placeNs(vectors.dimension) * beam) / (1_000 * Math.min(1, allowedCount / Math.max(1, vectors.count)));

/** The cost of a beam of allowed nodes alone, in microseconds; infinite where that is no way. */
export function amongUs(
  vectors: SearchedVectors,
  allowedCount: number,
  { beam, hasNodes }: UsualSearch,
): number {
  const share = allowedCount / Math.max(1, vectors.count);
  if (hasNodes === undefined || share >= amongShareMax || share === 0) return Number.POSITIVE_INFINITY;
  const nodesNs = (hasNodes ? 0 : nodeNs * allowedCount) + (blockNs * vectors.count) / 32;
  return (placeNs(vectors.dimension) * beam * amongFactor(share) + nodesNs) / 1_000;
}

export function estimateOf(
  vectors: SearchedVectors,
  allowedCount: number,
  usual: UsualSearch = { beam: 0, scored: 0 },
): DenseEstimate {
  const { scored } = usual;
  const { dimension, waitingCount, rows, count } = vectors;
  const linked = vectors.graphs?.count ?? 0;
  // Vectors that are not in memory must be read, in random order.
  const readShare = linked === 0 ? 0 : Math.max(0, linked - rows.linkedCount) / Math.max(1, count);
  const readEachNs = readShare * readNs(dimension);
  const beamUs = Math.min(wideUs(vectors, allowedCount, usual), amongUs(vectors, allowedCount, usual));
  return {
    graphUs: beamUs + (readEachNs * scored + inOrderNs(dimension) * waitingCount) / 1_000,
    allowedUs: ((lookedUpNs(dimension) + readEachNs) * allowedCount) / 1_000,
    allUs: (inOrderNs(dimension) * count + readEachNs * allowedCount) / 1_000,
  };
}

/** The longest beam that costs less than comparing what is allowed, or everything. */
export function longestBeam(vectors: SearchedVectors, allowedCount: number): number {
  const { allowedUs, allUs } = estimateOf(vectors, allowedCount);
  return Math.floor((1_000 * Math.min(allowedUs, allUs)) / placeNs(vectors.dimension));
}
