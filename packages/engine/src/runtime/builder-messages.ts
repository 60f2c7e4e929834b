// What is said between the builders' pool and its threads?

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

/** Records as they are stored, to be analysed. */
export type TextRows = {
  /** Ascending. */
  readonly ordinals: Uint32Array;
  /** Where each record's bytes end. */
  readonly ends: Uint32Array;
  readonly bytes: Uint8Array;
};

/** What a checkpoint file says of itself. */
export type CheckpointMeta = {
  /** Everything that decides what the index is made of; a checkpoint of another is of no use. */
  readonly configuration: string;
  /** The index has taken over all closures up to this version, whose hash stands beside it. */
  readonly version: number;
  readonly hash: string;
  /** Bytes that the index takes when it is restored; checkpoints of before do not have it. */
  readonly restoredBytes?: number;
  /** Records that it has. */
  readonly records?: number;
};

export type BuilderTask =
  | { readonly kind: "job"; readonly id: number; readonly target?: PostedTarget; readonly job: GraphJob }
  | { readonly kind: "forget"; readonly id: number }
  | { readonly kind: "calibrate"; readonly request: CalibrationRequest }
  | { readonly kind: "truth"; readonly request: TruthRequest }
  | { readonly kind: "analyse"; readonly rows: TextRows; readonly analysis: TextAnalysisOptions }
  /** Writes a checkpoint: a state of plain values and typed arrays, and images, which lie in shared memory. */
  | {
      readonly kind: "save";
      readonly path: string;
      readonly meta: CheckpointMeta;
      readonly state: unknown;
      readonly images: readonly Uint8Array[];
    }
  /** Reads what a checkpoint says of itself, and its state. */
  | { readonly kind: "open"; readonly path: string }
  /** Verifies a collection's store before it is opened; answers with findings. */
  | { readonly kind: "verify"; readonly directory: string; readonly definition: CollectionDefinition }
  /** Reads the images into shared memory. */
  | { readonly kind: "load"; readonly path: string; readonly images: readonly Uint8Array[] };

export type BuilderMessage = {
  readonly number: number;
  /** Who wants it: a builder gives each the same time. */
  readonly owner: number;
  readonly task: BuilderTask;
};

export type BuilderReply =
  | { readonly number: number; readonly ok: true; readonly value: unknown }
  | { readonly number: number; readonly ok: false; readonly error: unknown };
