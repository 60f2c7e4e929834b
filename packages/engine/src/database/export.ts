// How does a slow reader export a whole version?
//
// An export holds a snapshot of the store and a cursor between two reads. Both must be released before the store closes (LMDB crashes on
// a cursor that outlives its environment). So a closing collection stops its exports. The reader gets the error and does not take the
// truncated export for a complete one.

import { readHead } from "../collection/head.ts";
import { allVectors, type StoredVector, vectorsAt } from "../collection/reading.ts";
import type { OrdinalBitmap } from "../index/ordinal-bitmap.ts";
import type { ReadTransaction } from "../storage/store.ts";
import type { VectorExport } from "./contract.ts";

export class RunningExport implements VectorExport, Iterator<StoredVector> {
  readonly version: number;
  readonly count: number;
  readonly #readTxn: ReadTransaction;
  readonly #vectors: Generator<StoredVector>;
  readonly #onEnd: () => void;
  #stoppedBy: Error | null = null;
  #isOver = false;

  /**
   * Takes ownership of the snapshot.
   * @param only the records that are exported, which the snapshot must have; null: all of them
   */
  constructor(readTxn: ReadTransaction, only: OrdinalBitmap | null, onEnd: () => void) {
    const { version, live } = readHead(readTxn);
    this.version = version;
    this.count = only?.count ?? live;
    this.#readTxn = readTxn;
    this.#vectors = only === null ? allVectors(readTxn) : vectorsAt(readTxn, only.toOrdinals());
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

  /** Releases the snapshot and the cursor. Idempotent. */
  release(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#vectors.return(undefined);
    this.#readTxn.release();
    this.#onEnd();
  }

  /** Stops the export; the next read throws `reason`. */
  stop(reason: Error): void {
    if (this.#isOver) return;
    this.#stoppedBy = reason;
    this.release();
  }
}
