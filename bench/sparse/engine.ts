// What does the sparse benchmark ask of an engine?
//
// The ten rows with the greatest dot product. An effort of 0 is the exact search; what else it means is the engine's own:
// Quiver's `early_terminate_threshold`, the beam of a graph.

import type { EngineKind as AnyEngineKind } from "../shared/engine.ts";

export const k = 10;

/** Different dimensions, ascending, and their values, greater than 0, side by side. */
export type SparseVector = { readonly indices: Uint32Array; readonly values: Float32Array };

/** What an engine is told of the set that it will hold. */
export type Shape = {
  /** Rows that will be added, all in all. */
  readonly count: number;
  /** An empty directory of its own. */
  readonly directory: string;
};

export type EngineKind = AnyEngineKind<Shape, SparseVector>;
