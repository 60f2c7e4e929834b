// How does an index hand out what a checkpoint keeps of it, and how is it taken back?

import type { Index } from "./contract.ts";

/** Writes what an index hands out. Resolves with whether it was kept; the images may change again then. */
export type WriteCheckpoint = (state: unknown, images: readonly Uint8Array[]) => Promise<boolean>;

/** How an index of a kind is kept. */
export interface CheckpointAdapter<Held extends Index, State> {
  /**
   * Records that are new or closed since the last checkpoint of the index; undefined while it cannot be kept at all.
   * @param isLast with those that only a last `save` keeps
   */
  changes(index: Held, isLast: boolean): number | undefined;
  /** Whether the index has learnt something else that is worth being kept. */
  hasNews(index: Held): boolean;
  /** Whether the index is as it will be without new changes. */
  isIdle(index: Held): boolean;
  /**
   * Has what is to be kept written, now or a little later, unless the index ends before; resolves when that is over.
   * @param isLast the index is out of use afterwards
   */
  save(index: Held, write: WriteCheckpoint, isLast: boolean): Promise<void>;
  /** Every record with a smaller ordinal is in the kept index, or was closed. */
  endOf(state: State): number;
  /** The index as it was kept. @param load fills the images with the checkpoint's bytes */
  restored(state: State, load: (images: readonly Uint8Array[]) => Promise<void>): Promise<Held>;
}
