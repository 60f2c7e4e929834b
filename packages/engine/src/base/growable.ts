// How are numbers stored if their count is not known in advance?
//
// In a typed array that doubles its capacity. Hot loops read `values` directly, up to `length`. A push may replace the array.
//
// The array of a shared column lies in shared memory. It is replaced and never shrunk in place, so a thread that was given `values` and
// `length` finds these numbers there for as long as it likes, whatever is pushed.

import { type ArrayClass, sharedArray } from "./shared-array.ts";

type Numbers = Uint8Array | Uint32Array | Float64Array;

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
