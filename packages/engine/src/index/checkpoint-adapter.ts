// How does the checkpointer save an index of any kind, and how does it restore one?

import type { Index } from "./contract.ts";

/** The description of a checkpoint. */
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

/** Where the checkpoint of one index is stored. */
export interface CheckpointPlace {
  /** Whether there is a checkpoint. */
  readonly isThere: boolean;
  /** Reads the description and the state. @throws if the checkpoint is missing or damaged */
  open(): Promise<{ readonly meta: CheckpointMeta; readonly state: unknown }>;
  /** Reads the images into shared memory. @throws if they are damaged */
  load(images: readonly Uint8Array[]): Promise<void>;
  /**
   * Writes a checkpoint in place of the one before. The images lie in shared memory and must not change until it resolves.
   * @param rowBytes see WriteCheckpoint
   */
  save(meta: CheckpointMeta, state: unknown, images: readonly Uint8Array[], rowBytes?: number): Promise<void>;
  remove(): void;
}

/**
 * Writes a checkpoint. Resolves with whether it was written; from then on the images may change again.
 * @param rowBytes of images that consist of equal rows: the bytes of each, a multiple of 4. They take less on disk then
 */
export type WriteCheckpoint = (
  state: unknown,
  images: readonly Uint8Array[],
  rowBytes?: number,
) => Promise<boolean>;

/** How the indexes of one kind are checkpointed. */
export interface CheckpointAdapter<Held extends Index, State> {
  /**
   * Records that are new or closed since the last checkpoint of the index; undefined while no checkpoint is possible.
   * @param isLast also count the records that only the last `save` writes
   */
  changes(index: Held, isLast: boolean): number | undefined;
  /** Whether the index has learnt something else that is worth a checkpoint. */
  hasNews(index: Held): boolean;
  /** Whether the index stays as it is until the next change: no background work is left. */
  isIdle(index: Held): boolean;
  /**
   * Writes a checkpoint, now or a little later, unless the index closes first; resolves when it is done.
   * @param isLast the index is not used afterwards
   */
  save(index: Held, write: WriteCheckpoint, isLast: boolean): Promise<void>;
  /** The checkpoint has every record with a smaller ordinal that was not closed. */
  endOf(state: State): number;
  /** Restores an index from a checkpoint. @param load fills the images with the checkpoint's bytes */
  restored(state: State, load: (images: readonly Uint8Array[]) => Promise<void>): Promise<Held>;
}
