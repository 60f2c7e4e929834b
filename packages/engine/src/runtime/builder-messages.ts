// Which messages do the builder pool and its threads exchange?

import type { CollectionDefinition } from "../collection/definition.ts";
import type { CalibrationRequest } from "../index/hnsw/calibrate.ts";
import type { GraphJob, PostedTarget } from "../index/hnsw/jobs.ts";
import type { TruthRequest } from "../index/hnsw/truth.ts";
import type { TextAnalysisOptions } from "../index/kind.ts";

export type BuilderStart = {
  /** Of this builder, and how many there are: they take the last blocks of scratch memory of a graph. */
  readonly number: number;
  readonly width: number;
};

/** Stored records whose texts are to be analysed. */
export type TextRows = {
  /** Ascending. */
  readonly ordinals: Uint32Array;
  /** End offset of each record in `bytes`. */
  readonly ends: Uint32Array;
  readonly bytes: Uint8Array;
};

/** The description in a checkpoint file. */
export type CheckpointMeta = {
  /** Everything that determines the content of the index. A checkpoint with another configuration is unusable. */
  readonly configuration: string;
  /** The index has applied all closings of records up to this version, whose hash is `hash`. */
  readonly version: number;
  readonly hash: string;
  /** Bytes that the restored index takes; absent in checkpoints of earlier versions of Quiver. */
  readonly restoredBytes?: number;
  /** Number of records in the index. */
  readonly records?: number;
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

export type BuilderMessage = {
  readonly number: number;
  /** The collection that sent it. A builder gives each owner the same share of time. */
  readonly owner: number;
  readonly task: BuilderTask;
};

export type BuilderReply =
  | { readonly number: number; readonly ok: true; readonly value: unknown }
  | { readonly number: number; readonly ok: false; readonly error: unknown };
