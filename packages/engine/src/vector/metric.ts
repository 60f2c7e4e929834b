// How near are two vectors?
//
// Each metric is one object that holds all its functions, in the table `metrics`; no other code switches on names
// elsewhere. A *distance* is inside: smaller is nearer, and it is what is cheap to compute. A *score* is what the API
// answers: greater is better. `score` converts, and is the one place that does.
//
// Exact distances are f64 sums over f32 values, added in one fixed order (see exact.ts), so the same two vectors have
// the same score in every index and in the scan of the fresh tail. No f32 input makes them overflow: the largest
// sum is 65,535 * (2 * 3.4e38)^2 = 3.1e82.

import type { KernelName } from "@quiverdb/kernels/loader";
import { relativeError, underflowPerTerm } from "@quiverdb/kernels/rounding";
import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import { exactDot, exactDotAndNorm, exactSquaredDistance, found, squaredNorm } from "./exact.ts";

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

// ---- What does the euclidean distance mean as a metric?
//
// score = 1 / (1 + |q - x|), in (0, 1]; distance = |q - x|^2.
//
// Bound: all terms are positive, so the kernel's relative error is that of the sum itself, and a row needs no factor:
// v in D * [1 - gamma, 1 + gamma] means D in v * [1 / (1 + gamma), 1 / (1 - gamma)].

/** Some f64 roundings more than `score` makes. */
const fewRoundings = 1 + 2 ** -50;

const euclidean: Metric = {
  name: "euclidean",
  kernel: "l2Rows",
  rowFactor: () => 0,
  kernelBound: (_query, dimensionPadded) => {
    const gamma = relativeError(dimensionPadded);
    const relative = gamma / (1 - gamma);
    return {
      scale: 1,
      scaleByFactor: 0,
      relative,
      slack: dimensionPadded * underflowPerTerm * (1 + relative),
      slackByFactor: 0,
    };
  },
  exactDistance: (query) => (rows, offset) => exactSquaredDistance(query, rows, offset),
  exactKind: 1,
  distanceOfSums: () => (squared) => squared,
  score: (distance) => 1 / (1 + Math.sqrt(distance)),
  // Different distances share a score where 1 + root rounds them together, as all below 1e-32 share the score 1.
  distanceCeiling: (score) => {
    const root = (1 / score) * fewRoundings - 1;
    return root * root * fewRoundings;
  },
};

// ---- What does the dot product mean as a metric?
//
// score = q . x, any number; distance = -(q . x).
//
// Bound: the kernel's sum is off by at most gamma * sum |q_i x_i| (kernels/rounding), and the sum of magnitudes is at
// most |q| |x| (Cauchy and Schwarz), so a row keeps its norm as its factor.

const dotProduct: Metric = {
  name: "dot_product",
  kernel: "dotRows",
  rowFactor: Math.sqrt,
  kernelBound: (query, dimensionPadded) => ({
    scale: -1,
    scaleByFactor: 0,
    relative: 0,
    slack: dimensionPadded * underflowPerTerm,
    slackByFactor: relativeError(dimensionPadded) * Math.sqrt(squaredNorm(query, 0, query.length)),
  }),
  exactDistance: (query) => (rows, offset) => 0 - exactDot(query, rows, offset),
  exactKind: 0,
  distanceOfSums: () => (dot) => 0 - dot,
  score: (distance) => 0 - distance,
  distanceCeiling: (score) => 0 - score,
};

// ---- What does the cosine similarity mean as a metric?
//
// score = q . x / (|q| |x|), in [-1, 1], and 0 where either is the zero vector; distance = -cosine. (The usual
// 1 - cosine would round the small differences between near vectors away.) The exact quotient is taken by the root of
// the product of both squared norms: a vector and its multiples by powers of two then score exactly 1.
//
// Bound: as for the dot product, divided by the norms; a row keeps 1 / |x| as its factor, 0 for the zero vector.

const reciprocalNorm = (squared: number): number => (squared === 0 ? 0 : 1 / Math.sqrt(squared));

const cosine: Metric = {
  name: "cosine",
  kernel: "dotRows",
  rowFactor: reciprocalNorm,
  kernelBound: (query, dimensionPadded) => {
    const ofQuery = reciprocalNorm(squaredNorm(query, 0, query.length));
    return {
      scale: 0,
      scaleByFactor: -ofQuery,
      relative: 0,
      slack: relativeError(dimensionPadded),
      slackByFactor: dimensionPadded * underflowPerTerm * ofQuery,
    };
  },
  exactDistance: (query) => {
    const ofQuery = squaredNorm(query, 0, query.length);
    return (rows, offset) => {
      exactDotAndNorm(query, rows, offset);
      const norms = ofQuery * found[1];
      return norms === 0 ? 0 : 0 - found[0] / Math.sqrt(norms);
    };
  },
  exactKind: 0,
  distanceOfSums: (query) => {
    const ofQuery = squaredNorm(query, 0, query.length);
    return (dot, squared) => {
      const norms = ofQuery * squared;
      return norms === 0 ? 0 : 0 - dot / Math.sqrt(norms);
    };
  },
  // An exact cosine can leave [-1, 1] by a rounding.
  score: (distance) => Math.min(1, Math.max(-1, 0 - distance)),
  distanceCeiling: (score) => (score <= -1 ? Number.POSITIVE_INFINITY : 0 - score),
};

// ---- Which metrics exist?

/** All metrics, by the name that the API uses. A new one is a file next to this one and a line here. */
export const metrics: Readonly<Record<MetricName, Metric>> = { cosine, dot_product: dotProduct, euclidean };
