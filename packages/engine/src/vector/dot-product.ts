// What does the dot product mean as a metric?
//
// score = q . x, any number; distance = -(q . x).
//
// Bound: the kernel's sum is off by at most gamma * sum |q_i x_i| (kernels/rounding), and the sum of magnitudes is at
// most |q| |x| (Cauchy and Schwarz), so a row keeps its norm as its factor.

import { relativeError, underflowPerTerm } from "@quiverdb/kernels/rounding";
import { exactDot, squaredNorm } from "./exact.ts";
import type { Metric } from "./metric.ts";

export const dotProduct: Metric = {
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
