// What does the dense benchmark ask of an engine?
//
// Nearest neighbours, at several beams: an engine's effort is its beam, ef, which is never less than k. All graphs are asked
// for with the same M and ef_construction.

import type { Engine as AnyEngine, EngineKind as AnyEngineKind } from "../shared/engine.ts";

/** Links of a node, and the beam of the building, everywhere where they can be set. */
export const m = 16;
export const efConstruction = 200;

export type Metric = "cosine" | "euclidean" | "dot_product";

/** What an engine is told of the set that it will hold. */
export type Shape = {
  readonly dimension: number;
  readonly metric: Metric;
  /** Rows that will be added, all in all. */
  readonly count: number;
  /** An empty directory of its own. */
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
