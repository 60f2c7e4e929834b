// What does the cosine similarity mean as a metric?
//
// score = q . x / (|q| |x|), in [-1, 1], and 0 where either is the zero vector; distance = -cosine. (The usual
// 1 - cosine would round the small differences between near vectors away.) The exact quotient is taken by the root of
// the product of both squared norms: a vector and its multiples by powers of two then score exactly 1.
//
// Bound: as for the dot product, divided by the norms; a row keeps 1 / |x| as its factor, 0 for the zero vector.

import { relativeError, underflowPerTerm } from "@quiverdb/kernels/rounding";
import { exactDotAndNorm, found, squaredNorm } from "./exact.ts";
import type { Metric } from "./metric.ts";

const reciprocalNorm = (squared: number): number => (squared === 0 ? 0 : 1 / Math.sqrt(squared));

export const cosine: Metric = {
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
