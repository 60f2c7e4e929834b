// How are counts kept that other threads read as they are at a moment?
//
// The counts change in place, in blocks, and no other thread sees them. Whoever asks is given copies of the blocks in shared memory: of one
// that has not changed since, the copy of before. Where nobody asks there are none.

import { invariant } from "../../base/invariant.ts";
import { sharedArray } from "../../base/shared-memory.ts";

const blockBits = 14;
const blockLength = 1 << blockBits;
const inBlock = blockLength - 1;
const firstMin = 16;

/** Counts as they are at a moment. Can be posted to another thread. */
export type SharedCounts = readonly Uint32Array[];

/** Counts, for reading: as they are, or as they were at a moment. */
export class CountsReader {
  /** All have the same length, but for the first one, which begins short. */
  protected readonly blocks: SharedCounts;

  constructor(blocks: SharedCounts) {
    this.blocks = blocks;
  }

  /** The count of a number; 0 where it has none. */
  of(number: number): number {
    return this.blocks[number >>> blockBits]?.[number & inBlock] ?? 0;
  }
}

/** Bytes of that many counts which nobody has asked for. */
export const countersBytes = (counts: number): number =>
  4 *
  (counts > blockLength
    ? blockLength * Math.ceil(counts / blockLength)
    : 2 ** Math.ceil(Math.log2(Math.max(firstMin, counts))));

export class Counters extends CountsReader {
  declare protected readonly blocks: Uint32Array[];
  #length = 0;
  /** By block; undefined where it has changed since it was copied. Empty where nobody has asked. */
  readonly #copies: (Uint32Array | undefined)[] = [];

  constructor() {
    super([]);
  }

  /** Numbers are below this. */
  get length(): number {
    return this.#length;
  }

  /** Adds numbers of count 0, up to a length. */
  extend(length: number): void {
    while (this.#capacity < length) {
      const [first] = this.blocks;
      if (first === undefined) this.blocks.push(new Uint32Array(firstMin));
      else if (first.length === blockLength) this.blocks.push(new Uint32Array(blockLength));
      else {
        this.blocks[0] = new Uint32Array(2 * first.length);
        this.blocks[0].set(first);
      }
    }
    for (let block = this.#length >>> blockBits; block << blockBits < length; block++)
      this.#change(block << blockBits);
    this.#length = Math.max(this.#length, length);
    invariant(this.#length <= this.#capacity, () => `${this.#length} counts have room for ${this.#capacity}`);
  }

  get #capacity(): number {
    const { length } = this.blocks;
    return length === 0 ? 0 : (length - 1) * blockLength + this.blocks[length - 1].length;
  }

  /** Adds a number, of count 0. */
  push(): void {
    this.extend(this.#length + 1);
  }

  set(number: number, count: number): void {
    this.#change(number);
    this.blocks[number >>> blockBits][number & inBlock] = count;
  }

  /** @returns the count of before */
  increase(number: number): number {
    this.#change(number);
    return this.blocks[number >>> blockBits][number & inBlock]++;
  }

  /** @returns the count after it */
  decrease(number: number): number {
    invariant(this.of(number) > 0, () => `the count of number ${number} falls below 0`);
    this.#change(number);
    return --this.blocks[number >>> blockBits][number & inBlock];
  }

  get shared(): SharedCounts {
    for (let block = 0; block << blockBits < this.#length; block++) {
      if (this.#copies[block] !== undefined) continue;
      const part = this.blocks[block].subarray(0, this.#length - (block << blockBits));
      const copy = sharedArray(Uint32Array, part.length);
      copy.set(part);
      this.#copies[block] = copy;
    }
    return [...(this.#copies as Uint32Array[])];
  }

  clear(): void {
    this.blocks.length = 0;
    this.#length = 0;
    this.#copies.length = 0;
  }

  get memoryBytes(): number {
    const copies = this.#copies.reduce((sum, copy) => sum + (copy?.byteLength ?? 0), 0);
    return this.blocks.reduce((sum, block) => sum + block.byteLength, copies);
  }

  #change(number: number): void {
    if (this.#copies.length > 0) this.#copies[number >>> blockBits] = undefined;
  }
}
