// Under which name does a vector lie in the index?
//
// Equal vectors have one name (duplicate-vectors.ts); a hash table finds it (fingerprints.ts). Values are compared as numbers: 0 and -0 are
// equal, and every score by them is the same.

import { absent } from "../ordinal-map.ts";
import { DuplicateVectors, type DuplicateVectorsState } from "./duplicate-vectors.ts";
import { type FingerprintKey, Fingerprints } from "./fingerprints.ts";

/** What a checkpoint stores. */
export type NamesState = {
  readonly key: FingerprintKey;
  readonly fingerprints: Uint32Array;
  readonly copies: DuplicateVectorsState;
  /** The name of the vector without direction; `absent`: there is none. */
  readonly directionless: number;
};

export class Names {
  readonly copies: DuplicateVectors;
  /** The name of the vector whose values are all zero, where that has no direction; else `absent`. */
  directionless: number = absent;
  /** The vector that was read last: owned, and overwritten by the next one. */
  readonly vector: Float32Array;
  readonly bytes: Uint8Array;
  readonly #words: Uint32Array;
  readonly #key: FingerprintKey;
  readonly #fingerprints: Fingerprints;

  /** @param retire see Copies */
  constructor(dimension: number, key: FingerprintKey, retire?: (free: () => void) => void) {
    this.copies = new DuplicateVectors(retire);
    this.vector = new Float32Array(dimension);
    this.bytes = new Uint8Array(this.vector.buffer);
    this.#words = new Uint32Array(this.vector.buffer);
    this.#key = key;
    this.#fingerprints = new Fingerprints(key);
  }

  /** Restores from a checkpoint. Returns the names of which the checkpoint has no record. */
  static restored(
    dimension: number,
    state: NamesState,
    retire?: (free: () => void) => void,
  ): { names: Names; empty: number[] } {
    const names = new Names(dimension, state.key, retire);
    names.#fingerprints.restore(state.fingerprints);
    names.directionless = state.directionless;
    return { names, empty: names.copies.restore(state.copies) };
  }

  /** Makes these little-endian f32 values, `4 * dimension` bytes at any offset, the vector that the next calls are about. */
  read(values: Uint8Array): void {
    this.bytes.set(values);
    const words = this.#words;
    for (let i = 0; i < words.length; i++) if (words[i] === 0x8000_0000) words[i] = 0;
  }

  /** Whether all values of the vector are zero. */
  get isZero(): boolean {
    return this.#words.every((word) => word === 0);
  }

  /** The name of the vector; `absent`: it has none yet. @param isEqual whether a name is held, with this vector */
  find(isEqual: (name: number, vector: Float32Array) => boolean): number {
    return this.#fingerprints.find(this.#words, (name) => isEqual(name, this.vector));
  }

  /** Assigns a name to the vector that `find` did not find. @param isHeld whether a name is in use */
  add(name: number, isHeld: (name: number) => boolean): void {
    this.#fingerprints.add(name, isHeld);
  }

  /** What a checkpoint stores of the names that it contains: their records below `end`. */
  state(isCheckpointed: (name: number) => boolean, end: number): NamesState {
    const isDirectionlessKept = this.directionless < end;
    const kept = (name: number) =>
      isCheckpointed(name) || (isDirectionlessKept && name === this.directionless);
    return {
      key: this.#key,
      fingerprints: this.#fingerprints.entries(kept),
      copies: this.copies.state(kept, end),
      directionless: isDirectionlessKept ? this.directionless : absent,
    };
  }

  get memoryBytes(): number {
    return this.copies.memoryBytes + this.#fingerprints.memoryBytes + this.bytes.byteLength;
  }

  clear(): void {
    this.copies.clear();
    this.#fingerprints.clear();
    this.directionless = absent;
  }
}

/** Whether two vectors of one length have the same numbers. */
export function isEqualTo(a: Float32Array, b: Float32Array): boolean {
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
