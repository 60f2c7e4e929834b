// What does the dense benchmark require of an engine?
//
// Nearest neighbours at several beam widths: the effort of an engine is its beam width ef, which is never less than k. All graphs are built
// with the same M and ef_construction.

import type { Engine as AnyEngine, EngineKind as AnyEngineKind } from "../shared/engine.ts";

/** M and ef_construction of all engines in which they can be set. */
export const m = 16;
export const efConstruction = 200;

export type Metric = "cosine" | "euclidean" | "dot_product";

/** The properties of the set that an engine will index. */
export type Shape = {
  readonly dimension: number;
  readonly metric: Metric;
  /** Total number of rows to add. */
  readonly count: number;
  /** An empty directory for this engine. */
  readonly directory: string;
};

export type Engine = AnyEngine<Float32Array>;
export type EngineKind = AnyEngineKind<Shape, Float32Array>;

/** A new array of length 1; of zeros where `values` are. */
export function normalised(values: Float32Array): Float32Array {
  let squared = 0;
  for (const value of values) squared += value * value;
  const scale = squared > 0 ? 1 / Math.sqrt(squared) : 0;
  return values.map((value) => value * scale);
}
