// How is a whole version read by someone who takes their time?
//
// An export holds a snapshot of the store, and a cursor in it, between two reads. Both must be given back before the
// store closes (LMDB does not survive a cursor that outlives its environment), so a collection that closes stops its
// exports; the reader is then told why instead of taking the rest for missing.

import { readHead } from "../collection/head.ts";
import { allVectors, type StoredVector } from "../collection/reading.ts";
import type { Snapshot } from "../storage/store.ts";
import type { VectorExport } from "./contract.ts";

export class RunningExport implements VectorExport, Iterator<StoredVector> {
  readonly version: number;
  readonly count: number;
  readonly #snapshot: Snapshot;
  readonly #vectors: Generator<StoredVector>;
  readonly #onEnd: () => void;
  #stoppedBy: Error | null = null;
  #isOver = false;

  /** Takes over the snapshot. */
  constructor(snapshot: Snapshot, onEnd: () => void) {
    const { version, live } = readHead(snapshot);
    this.version = version;
    this.count = live;
    this.#snapshot = snapshot;
    this.#vectors = allVectors(snapshot);
    this.#onEnd = onEnd;
  }

  [Symbol.iterator](): this {
    return this;
  }

  next(): IteratorResult<StoredVector> {
    if (this.#stoppedBy) throw this.#stoppedBy;
    if (this.#isOver) return { done: true, value: undefined };
    try {
      const result = this.#vectors.next();
      if (result.done) this.release();
      return result;
    } catch (error) {
      this.release();
      throw error;
    }
  }

  return(): IteratorResult<StoredVector> {
    this.release();
    return { done: true, value: undefined };
  }

  /** Gives snapshot and cursor back. Saying it twice is the same as once. */
  release(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#vectors.return(undefined);
    this.#snapshot.release();
    this.#onEnd();
  }

  /** Ends the export from outside; the next read throws `reason`. */
  stop(reason: Error): void {
    if (this.#isOver) return;
    this.#stoppedBy = reason;
    this.release();
  }
}
