// What does a checkpoint of a dense index store, and what has changed since the last one?

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
  readonly measuredEf: MeasuredEf | undefined;
};

/** Which fraction of the exact results each beam width finds, as measured by query/recall.ts. */
export type MeasuredEf = {
  /** By number of results: beam widths, ascending, and the recall of each, 0 to 1. */
  readonly rows: readonly (readonly { readonly ef: number; readonly recall: number }[])[];
  /** Records, and what had been linked or removed, when that was measured. */
  readonly count: number;
  readonly work: number;
};

/** Counts what is not in a checkpoint yet. */
export class SavedChanges {
  /** Records that were added to or removed from a graph since the last checkpoint. */
  changes = 0;
  /** Records that were retired and not yet removed. */
  readonly retired = new Set<number>();
  #measuredEf: MeasuredEf | undefined;
  #isEfSaved = true;
  #quality: Quality | undefined;

  /** The measured recall of each beam. */
  get measuredEf(): MeasuredEf | undefined {
    return this.#measuredEf;
  }

  set measuredEf(measured: MeasuredEf | undefined) {
    this.#measuredEf = measured;
    this.#isEfSaved = false;
  }

  /** Whether anything was measured since the last checkpoint. @param quality of the graphs now */
  hasNewEf(quality: Quality | undefined): boolean {
    return !this.#isEfSaved || this.#quality !== quality;
  }

  /** A checkpoint was written. @param changes those that it has */
  saved({ measuredEf, quality }: HnswState, changes: number): void {
    this.changes -= changes;
    this.#isEfSaved = this.#measuredEf === measuredEf;
    this.#quality = quality;
  }

  /** A checkpoint was read. */
  restored({ measuredEf, quality }: HnswState): void {
    this.#measuredEf = measuredEf;
    this.#quality = quality;
  }
}
