// What does the sparse benchmark require of an engine?
//
// The ten rows with the greatest dot product. An effort of 0 is the exact search; other efforts depend on the engine: Quiver's
// `early_terminate_threshold`, the beam width of a graph.

import type { EngineKind as AnyEngineKind } from "../shared/engine.ts";

export const k = 10;

/** Different dimensions, ascending, and their values, greater than 0, side by side. */
export type SparseVector = { readonly indices: Uint32Array; readonly values: Float32Array };

/** The properties of the set that an engine will index. */
export type Shape = {
  /** Total number of rows to add. */
  readonly count: number;
  /** An empty directory for this engine. */
  readonly directory: string;
};

export type EngineKind = AnyEngineKind<Shape, SparseVector>;
