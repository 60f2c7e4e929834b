// What does the euclidean distance mean as a metric?
//
// score = 1 / (1 + |q - x|), in (0, 1]; distance = |q - x|^2.
//
// Bound: all terms are positive, so the kernel's relative error is that of the sum itself, and a row needs no factor:
// v in D * [1 - gamma, 1 + gamma] means D in v * [1 / (1 + gamma), 1 / (1 - gamma)].

import { relativeError, underflowPerTerm } from "@quiverdb/kernels/rounding";
import { exactSquaredDistance } from "./exact.ts";
import type { Metric } from "./metric.ts";

/** Some f64 roundings more than `score` makes. */
const fewRoundings = 1 + 2 ** -50;

export const euclidean: Metric = {
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
