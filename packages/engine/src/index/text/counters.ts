// How are counts kept that other threads read as they are at a moment?
//
// The counts change in place, and no other thread sees them. Whoever asks is given copies in shared memory, in blocks: of a block that
// has not changed since, the copy of before. Where nobody asks there are none.

import { Growable } from "../../base/growable.ts";
import { sharedArray } from "../../base/shared-array.ts";

const blockBits = 14;
const blockLength = 1 << blockBits;

/** Counts as they are at a moment. Can be posted to another thread. */
export type SharedCounts = readonly Uint32Array[];

/** A count of another thread. */
export const countIn = (counts: SharedCounts, number: number): number =>
  counts[number >>> blockBits]?.[number & (blockLength - 1)] ?? 0;

export class Counters {
  readonly #values = new Growable(Uint32Array);
  /** By block; undefined where it has changed since it was copied. Empty where nobody has asked. */
  readonly #copies: (Uint32Array | undefined)[] = [];

  /** Numbers are below this. */
  get length(): number {
    return this.#values.length;
  }

  of(number: number): number {
    return this.#values.values[number];
  }

  /** Adds a number, of count 0. */
  push(): void {
    this.#values.push(0);
    this.#change(this.#values.length - 1);
  }

  /** @returns the count of before */
  increase(number: number): number {
    this.#change(number);
    return this.#values.values[number]++;
  }

  /** @returns the count after it */
  decrease(number: number): number {
    this.#change(number);
    return --this.#values.values[number];
  }

  get shared(): SharedCounts {
    const { values, length } = this.#values;
    for (let block = 0; block << blockBits < length; block++) {
      if (this.#copies[block] !== undefined) continue;
      const part = values.subarray(block << blockBits, Math.min(length, (block + 1) << blockBits));
      const copy = sharedArray(Uint32Array, part.length);
      copy.set(part);
      this.#copies[block] = copy;
    }
    return [...(this.#copies as Uint32Array[])];
  }

  clear(): void {
    this.#values.truncate(0);
    this.#copies.length = 0;
  }

  get memoryBytes(): number {
    const copies = this.#copies.reduce((sum, copy) => sum + (copy?.byteLength ?? 0), 0);
    return this.#values.memoryBytes + copies;
  }

  #change(number: number): void {
    if (this.#copies.length > 0) this.#copies[number >>> blockBits] = undefined;
  }
}
