// How does a test make reads of a store fail?
//
// It wraps every read transaction of an LMDB store in this thread. It counts each step (its beginning, a value, the next entry or key), and
// makes the chosen steps throw the error of a failing disk.

import { LmdbStore } from "../../src/storage/lmdb.ts";
import type { Range, ReadTransaction } from "../../src/storage/store.ts";

export class FailingReads {
  /** Number of reads before the first one that fails; Infinity if none is to fail. */
  left = Number.POSITIVE_INFINITY;
  /** How many consecutive reads fail. */
  times = 1;
  /** Reads that have failed. */
  failed = 0;
  #isAside = false;
  readonly #original = LmdbStore.prototype.beginRead;

  /** Starts to count the reads of all stores, until `end`. */
  constructor() {
    const count = () => this.#count();
    const original = this.#original;
    LmdbStore.prototype.beginRead = function (this: LmdbStore): ReadTransaction {
      count();
      return wrapped(original.call(this), count);
    };
  }

  end(): void {
    LmdbStore.prototype.beginRead = this.#original;
  }

  /** Makes the n-th read from now on fail, and the given number after it. */
  fail(n: number, times = 1): void {
    this.left = n;
    this.times = times;
    this.failed = 0;
  }

  /** Whether all reads that were to fail have failed. */
  get isOver(): boolean {
    return this.failed >= this.times;
  }

  /** Runs reads that do not count, such as those of the test itself. Synchronous. */
  aside<T>(read: () => T): T {
    this.#isAside = true;
    try {
      return read();
    } finally {
      this.#isAside = false;
    }
  }

  #count(): void {
    if (this.#isAside || --this.left > 0 || this.isOver) return;
    this.failed++;
    throw new Error("EIO: a read that the test has fail");
  }
}

function wrapped(readTxn: ReadTransaction, count: () => void): ReadTransaction {
  function* each<T>(items: Iterable<T>): Generator<T> {
    count();
    for (const item of items) {
      yield item;
      count();
    }
  }
  return {
    get(table: string, key: Uint8Array) {
      count();
      return readTxn.get(table, key);
    },
    entries: (table: string, range?: Range) => each(readTxn.entries(table, range)),
    keys: (table: string, range?: Range) => each(readTxn.keys(table, range)),
    release: () => readTxn.release(),
  };
}
