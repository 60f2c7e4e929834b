// What does a checkpoint of a dense index store, and what has changed since the last one?

import { invariant } from "../../base/invariant.ts";
import type { MeasuredBeams } from "../kind.ts";
import type { MaintenanceState } from "./graph-maintenance.ts";
import type { Quality } from "./quality.ts";
import type { VectorKeysState } from "./vector-keys.ts";

/** What a checkpoint stores of an index, besides the images of its graphs. */
export type HnswState = MaintenanceState & {
  readonly vectorKeys: VectorKeysState;
  /** The checkpoint has every record with a smaller ordinal, or it was removed. */
  readonly linkedEnd: number;
  /** Records that were retired and not yet removed. */
  readonly retired: Uint32Array;
  readonly measuredBeams: MeasuredBeams | undefined;
};

/** Counts what is not in a checkpoint yet. */
export class SavedChanges {
  /** Records that were added to or removed from a graph since the last checkpoint. */
  changes = 0;
  /** Records that were retired and not yet removed. */
  readonly retired = new Set<number>();
  #measuredBeams: MeasuredBeams | undefined;
  #areBeamsSaved = true;
  #quality: Quality | undefined;

  /** The measured recall of each beam. */
  get measuredBeams(): MeasuredBeams | undefined {
    return this.#measuredBeams;
  }

  set measuredBeams(measured: MeasuredBeams | undefined) {
    this.#measuredBeams = measured;
    this.#areBeamsSaved = false;
  }

  /** Whether anything was measured since the last checkpoint. @param quality of the graphs now */
  hasNewBeams(quality: Quality | undefined): boolean {
    return !this.#areBeamsSaved || this.#quality !== quality;
  }

  /** A checkpoint was written. @param changes those that it has */
  saved({ measuredBeams, quality }: HnswState, changes: number): void {
    this.changes -= changes;
    invariant(this.changes >= 0, () => `a checkpoint has ${-this.changes} changes more than there were`);
    this.#areBeamsSaved = this.#measuredBeams === measuredBeams;
    this.#quality = quality;
  }

  /** A checkpoint was read. */
  restored({ measuredBeams, quality }: HnswState): void {
    this.#measuredBeams = measuredBeams;
    this.#quality = quality;
  }
}
