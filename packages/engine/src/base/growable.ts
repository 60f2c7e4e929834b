// How are numbers stored if their count is not known in advance?
//
// In a typed array that doubles its capacity. Hot loops read `values` directly, up to `length`. A push may replace the array.

type Numbers = Uint8Array | Uint32Array | Float64Array;

/** A growing column of numbers of one type: `new Growable(Uint32Array)`. */
export class Growable<T extends Numbers> {
  /** The numbers at 0 to length - 1; the rest is unused. Replaced when it grows. */
  values: T;
  length = 0;
  readonly #make: new (
    length: number,
  ) => T;

  constructor(make: new (length: number) => T, capacity = 16) {
    this.#make = make;
    this.values = new make(capacity);
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

  get memoryBytes(): number {
    return this.values.byteLength;
  }

  #resize(capacity: number): void {
    const grown = new this.#make(capacity);
    grown.set(this.values.subarray(0, this.length));
    this.values = grown;
  }
}
