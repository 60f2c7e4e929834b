// Which records are held and were retired?
//
// A set, and a log of what was added to it, in shared memory. Another thread gets the log as it was at one moment. The log still has
// records that were removed since; the thread ignores those, because it knows which records are held. When most of the log is out of
// date, it is written anew.

import { type Column, Growable } from "../../base/growable.ts";

/** Of a Set of numbers, as measured in V8. */
const setEntryBytes = 20;

/** A log is not written anew before it is so long. */
const logMin = 64;

export class RetiredOrdinals {
  readonly #held = new Set<number>();
  #log = new Growable(Uint32Array, 16, true);

  get size(): number {
    return this.#held.size;
  }

  has(ordinal: number): boolean {
    return this.#held.has(ordinal);
  }

  add(ordinal: number): void {
    if (this.#held.has(ordinal)) return;
    this.#held.add(ordinal);
    this.#log.push(ordinal);
  }

  /** @returns whether it was there */
  delete(ordinal: number): boolean {
    if (!this.#held.delete(ordinal)) return false;
    if (this.#log.length > logMin && this.#log.length > 2 * this.#held.size) this.#rewrite();
    return true;
  }

  /** The ordinals, each once, and some that were removed. */
  get log(): Column {
    return this.#log;
  }

  /** The log as it is now, for other threads. */
  get shared(): Column {
    return this.#log.column;
  }

  [Symbol.iterator](): IterableIterator<number> {
    return this.#held.values();
  }

  clear(): void {
    this.#held.clear();
    this.#rewrite();
  }

  get memoryBytes(): number {
    return setEntryBytes * this.#held.size + this.#log.memoryBytes;
  }

  #rewrite(): void {
    this.#log = new Growable(Uint32Array, Math.max(16, this.#held.size), true);
    for (const ordinal of this.#held) this.#log.push(ordinal);
  }
}
