// How are numbers stored if their count is not known in advance?
//
// In a typed array that doubles its capacity. Hot loops read `values` directly, up to `length`. A push may replace the array.
//
// The array of a shared column lies in shared memory. It is replaced and never shrunk in place, so a thread that was given `values` and
// `length` finds these numbers there for as long as it likes, whatever is pushed.

import { invariant } from "./invariant.ts";
import { type ArrayClass, grownShared, sharedArray } from "./shared-memory.ts";

type Numbers = Uint8Array | Uint32Array | Float32Array | Float64Array;

/** Numbers that do not change: the first `length` of `values`. */
export type Column<T extends Numbers = Uint32Array> = { readonly values: T; readonly length: number };

/** A growing column of numbers of one type: `new Growable(Uint32Array)`. */
export class Growable<T extends Numbers> {
  /** The numbers at 0 to length - 1; the rest of the array is unused. A push may replace the array by a larger one. */
  values: T;
  length = 0;
  readonly #make: (length: number) => T;

  constructor(make: ArrayClass<T> & (new (length: number) => T), capacity = 16, isShared = false) {
    this.#make = isShared ? (length) => sharedArray(make, length) : (length) => new make(length);
    this.values = this.#make(capacity);
  }

  push(value: number): void {
    if (this.length === this.values.length) this.#resize(Math.max(16, 2 * this.length));
    this.values[this.length++] = value;
  }

  /** Makes room for so many more numbers, which the caller writes behind the others before it sets `length`. */
  reserve(more: number): void {
    if (this.length + more > this.values.length) this.#resize(Math.max(this.length + more, 2 * this.length));
  }

  /** Keeps the first `length` numbers, and shrinks the array if most of it becomes unused. */
  truncate(length: number): void {
    this.length = length;
    if (this.values.length > 64 && 4 * length < this.values.length) this.#resize(2 * length);
  }

  /** The numbers as they are now, for other threads; only of a shared column that is never truncated. */
  get column(): Column<T> {
    return { values: this.values, length: this.length };
  }

  get memoryBytes(): number {
    return this.values.byteLength;
  }

  #resize(capacity: number): void {
    const grown = this.#make(capacity);
    grown.set(this.values.subarray(0, this.length));
    this.values = grown;
  }
}

// ---- How does a long column of numbers grow, and how is it written to disk, without a long step?
//
// In blocks of shared memory of the same length. Only the last one can be shorter, and only that is replaced when the column grows: where a
// column of one piece of 100 MB is copied, the thread answers nothing else for a tenth of a second, and ten times as long on a busy machine.
//
// A column that is *held* keeps the bytes that it had, for a thread that writes them to disk: a block is copied before it changes.
// Other threads read the blocks as they were at a moment (`shared`). They may see what was changed in them since, or not.

type BlockNumbers = Uint16Array | Uint32Array;

/** A block that is too short grows by this fraction, up to its full length. */
export const blockGrowth = 1.25;

/** Bytes of a full block: copying it takes a fraction of a millisecond. */
export const blockBytes = 2 ** 20;

/** A growing column: `new BlockColumn(Uint32Array, 18)` has blocks of 2^18 numbers. */
export class BlockColumn<T extends BlockNumbers> {
  /** Number `at` is in block `at >>> bits`. */
  readonly bits: number;
  readonly #make: ArrayClass<T>;
  readonly #blocks: T[];
  /** By block: whether it must not change. Empty: none is held. */
  #held: boolean[] = [];

  /** @param blocks of a column that is restored, all full but the last; kept */
  constructor(make: ArrayClass<T>, bits: number, blocks: T[] = []) {
    this.bits = bits;
    this.#make = make;
    this.#blocks = blocks;
  }

  /** The blocks as they are now; do not change them. */
  get blocks(): readonly T[] {
    return this.#blocks;
  }

  /** Numbers that it has room for. */
  get capacity(): number {
    const count = this.#blocks.length;
    return count === 0 ? 0 : ((count - 1) << this.bits) + this.#blocks[count - 1].length;
  }

  /** Ensures room for so many numbers; new ones are 0. */
  reserve(length: number): void {
    while (this.capacity < length) {
      const full = 1 << this.bits;
      const last = this.#blocks.length - 1;
      const isGrown = last >= 0 && this.#blocks[last].length < full;
      const block = isGrown ? last : last + 1;
      const least = isGrown
        ? Math.ceil(blockGrowth * this.#blocks[last].length)
        : block === 0
          ? 0
          : full >>> 3;
      const wanted = Math.max(least, length - (block << this.bits));
      this.#blocks[block] = isGrown
        ? (grownShared(this.#make, this.#blocks[last], Math.min(full, wanted)) as T)
        : sharedArray(this.#make, Math.min(full, wanted));
      if (this.#held.length > 0) this.#held[block] = false;
    }
  }

  /** A block, to be changed. */
  changing(block: number): T {
    return this.#held[block] === true ? this.copied(block) : this.#blocks[block];
  }

  /** A block, to be changed so that other threads keep what they were given of it. */
  copied(block: number): T {
    const before = this.#blocks[block];
    const copy = grownShared(this.#make, before, before.length) as T;
    this.#blocks[block] = copy;
    if (this.#held.length > 0) this.#held[block] = false;
    return copy;
  }

  set(at: number, value: number): void {
    this.changing(at >>> this.bits)[at & ((1 << this.bits) - 1)] = value;
  }

  /** The blocks as they are now, for another thread. */
  get shared(): { readonly blocks: readonly T[] } {
    return { blocks: [...this.#blocks] };
  }

  /** The bytes of the first numbers, by block, which stay as they are until `release`. */
  hold(length: number): Uint8Array[] {
    invariant(length <= this.capacity, () => `${length} of ${this.capacity} numbers are held`);
    this.#held = this.#blocks.map(() => true);
    return bytesOf(this.#blocks, length, this.bits);
  }

  release(): void {
    this.#held = [];
  }

  get memoryBytes(): number {
    return this.#blocks.reduce((sum, block) => sum + block.byteLength, 0);
  }
}

function bytesOf(blocks: readonly BlockNumbers[], length: number, bits: number): Uint8Array[] {
  const count = Math.ceil(length / (1 << bits));
  return blocks.slice(0, count).map(({ buffer, byteOffset, BYTES_PER_ELEMENT }, block) => {
    const numbers = Math.min(1 << bits, length - (block << bits));
    return new Uint8Array(buffer, byteOffset, BYTES_PER_ELEMENT * numbers);
  });
}

/** Memory for a column of so many numbers, by block: what `hold` returns of one, to be filled. Zeros take no time. */
export function blockImages(bytesPerNumber: number, length: number, bits: number): Uint8Array[] {
  const buffer = new SharedArrayBuffer(bytesPerNumber * length);
  const blockBytes = bytesPerNumber << bits;
  return Array.from({ length: Math.ceil(length / (1 << bits)) }, (_, block) => {
    const at = block * blockBytes;
    return new Uint8Array(buffer, at, Math.min(blockBytes, buffer.byteLength - at));
  });
}
