// What does the pool of builders call its threads for?

import type { CollectionDefinition } from "../collection/definition.ts";
import type { CheckpointMeta } from "../index/checkpoint-adapter.ts";
import type { CalibrationRequest } from "../index/hnsw/calibrate.ts";
import type { GraphJob, PostedTarget } from "../index/hnsw/jobs.ts";
import type { TruthRequest } from "../index/hnsw/truth.ts";
import type { TextAnalysisOptions, TextRows } from "../index/kind.ts";

export type BuilderStart = {
  /** Of this builder, and how many there are: they take the last blocks of scratch memory of a graph. */
  readonly number: number;
  readonly width: number;
};

export type BuilderTask =
  | { readonly kind: "job"; readonly id: number; readonly target?: PostedTarget; readonly job: GraphJob }
  | { readonly kind: "forget"; readonly id: number }
  | { readonly kind: "calibrate"; readonly request: CalibrationRequest }
  | { readonly kind: "truth"; readonly request: TruthRequest }
  | { readonly kind: "analyse"; readonly rows: TextRows; readonly analysis: TextAnalysisOptions }
  /** Writes a checkpoint: a state of plain values and typed arrays, and images in shared memory. */
  | {
      readonly kind: "save";
      readonly path: string;
      readonly meta: CheckpointMeta;
      readonly state: unknown;
      readonly images: readonly Uint8Array[];
    }
  /** Reads the description and the state of a checkpoint. */
  | { readonly kind: "open"; readonly path: string }
  /** Verifies a collection's store before it is opened; replies with findings. */
  | { readonly kind: "verify"; readonly directory: string; readonly definition: CollectionDefinition }
  /** Reads the images into shared memory. */
  | { readonly kind: "load"; readonly path: string; readonly images: readonly Uint8Array[] };

export type TaskCall = {
  /** The collection that sent it. A builder gives each owner the same share of time. */
  readonly owner: number;
  readonly task: BuilderTask;
};
