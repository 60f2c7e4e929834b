// How near are two vectors?
//
// Each metric is one object that holds all its functions (the registry is metrics.ts); no other code switches on names
// elsewhere. A *distance* is inside: smaller is nearer, and it is what is cheap to compute. A *score* is what the API
// answers: greater is better. `score` converts, and is the one place that does.
//
// Exact distances are f64 sums over f32 values, added in one fixed order (see exact.ts), so the same two vectors have
// the same score in every index and in the scan of the fresh tail. No f32 input makes them overflow: the largest
// sum is 65,535 * (2 * 3.4e38)^2 = 3.1e82.

import type { KernelName } from "@quiverdb/kernels/loader";
import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";

/** The exact distance of the query to the row that begins at `offset` of `rows`, both counted in floats. */
export type ExactDistance = (rows: Float32Array, offset: number) => number;

/**
 * What a kernel's f32 value v of a row says about the row's exact distance D. With the row's factor f, and
 *
 *     c = v * (scale + scaleByFactor * f)
 *     e = slack + slackByFactor * f
 *
 * it holds for every finite v that  c - c * relative - e  <=  D  <=  c + c * relative + e.
 * (`relative` is 0 where c can be negative.) A kernel value that is not finite says nothing.
 */
export type KernelBound = {
  readonly scale: number;
  readonly scaleByFactor: number;
  readonly relative: number;
  readonly slack: number;
  readonly slackByFactor: number;
};

export type Metric = {
  readonly name: MetricName;
  /** The kernel whose value leads to the distance. */
  readonly kernel: KernelName;
  /** The number f that an index stores with a row, computed from the f64 sum of the row's squares. */
  rowFactor(squaredNorm: number): number;
  /** How the kernel's values for this query bound exact distances. The query is borrowed. */
  kernelBound(query: Float32Array, dimensionPadded: number): KernelBound;
  /** Prepares a query for exact distances to rows of its dimension. The query is retained and must not change. */
  exactDistance(query: Float32Array): ExactDistance;
  /** Which exact sums of a row (kernels/assembly/exact-sums.ts) make its exact distance, and how: the same bits as `exactDistance`. */
  readonly exactKind: 0 | 1;
  /** Prepares a query. */
  distanceOfSums(query: Float32Array): (sum: number, squaredNorm: number) => number;
  /** The score of a distance; never NaN, never minus zero. Descends with the distance, not always strictly. */
  score(distance: number): number;
  /** A distance beyond which every score is lower than `score`. */
  distanceCeiling(score: number): number;
};

/** The exact score of two vectors of equal dimension: finite, and equal to the score of every exact search. */
export function exactScore(metric: Metric, query: Float32Array, vector: Float32Array): number {
  return metric.score(metric.exactDistance(query)(vector, 0));
}
