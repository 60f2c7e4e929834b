// Under which vector key does a vector lie in the index?
//
// Equal vectors have one vector key (duplicate-vectors.ts); a hash table finds it (fingerprints.ts). Values are compared as numbers: 0 and -0 are
// equal, and every score by them is the same.

import { invariant } from "../../base/invariant.ts";
import { absent } from "../ordinal-map.ts";
import { DuplicateVectors, type DuplicateVectorsState } from "./duplicate-vectors.ts";
import { type FingerprintKey, Fingerprints } from "./fingerprints.ts";

/** What a checkpoint stores. */
export type VectorKeysState = {
  readonly key: FingerprintKey;
  readonly fingerprints: Uint32Array;
  readonly duplicates: DuplicateVectorsState;
  /** The vector key of the vector without direction; `absent`: there is none. */
  readonly directionless: number;
};

export class VectorKeys {
  readonly duplicates: DuplicateVectors;
  /** The vector key of the vector whose values are all zero, where that has no direction; else `absent`. */
  directionless: number = absent;
  /** The vector that was read last: owned, and overwritten by the next one. */
  readonly vector: Float32Array;
  readonly bytes: Uint8Array;
  readonly #words: Uint32Array;
  readonly #key: FingerprintKey;
  readonly #fingerprints: Fingerprints;

  /** @param retire see Copies */
  constructor(dimension: number, key: FingerprintKey, retire?: (free: () => void) => void) {
    this.duplicates = new DuplicateVectors(retire);
    this.vector = new Float32Array(dimension);
    this.bytes = new Uint8Array(this.vector.buffer);
    this.#words = new Uint32Array(this.vector.buffer);
    this.#key = key;
    this.#fingerprints = new Fingerprints(key);
  }

  /** Restores from a checkpoint. Returns the vector keys of which the checkpoint has no record. */
  static restored(
    dimension: number,
    state: VectorKeysState,
    retire?: (free: () => void) => void,
  ): { vectorKeys: VectorKeys; empty: number[] } {
    const vectorKeys = new VectorKeys(dimension, state.key, retire);
    vectorKeys.#fingerprints.restore(state.fingerprints);
    vectorKeys.directionless = state.directionless;
    return { vectorKeys, empty: vectorKeys.duplicates.restore(state.duplicates) };
  }

  /** Makes these little-endian f32 values, `4 * dimension` bytes at any offset, the vector that the next calls are about. */
  read(values: Uint8Array): void {
    invariant(
      values.length === this.bytes.length,
      () => `a vector has ${values.length} bytes instead of ${this.bytes.length}`,
    );
    this.bytes.set(values);
    const words = this.#words;
    for (let i = 0; i < words.length; i++) if (words[i] === 0x8000_0000) words[i] = 0;
  }

  /** Whether all values of the vector are zero. */
  get isZero(): boolean {
    return this.#words.every((word) => word === 0);
  }

  /** The vector key of the vector; `absent`: it has none yet. @param isEqual whether a vector key is held, with this vector */
  find(isEqual: (vectorKey: number, vector: Float32Array) => boolean): number {
    return this.#fingerprints.find(this.#words, (vectorKey) => isEqual(vectorKey, this.vector));
  }

  /** Assigns a vector key to the vector that `find` did not find. @param isHeld whether a vector key is in use */
  add(vectorKey: number, isHeld: (vectorKey: number) => boolean): void {
    this.#fingerprints.add(vectorKey, isHeld);
  }

  /** What a checkpoint stores of the vector keys that it contains: their records below `end`. */
  state(isCheckpointed: (vectorKey: number) => boolean, end: number): VectorKeysState {
    const isDirectionlessKept = this.directionless < end;
    const kept = (vectorKey: number) =>
      isCheckpointed(vectorKey) || (isDirectionlessKept && vectorKey === this.directionless);
    return {
      key: this.#key,
      fingerprints: this.#fingerprints.entries(kept),
      duplicates: this.duplicates.state(kept, end),
      directionless: isDirectionlessKept ? this.directionless : absent,
    };
  }

  get memoryBytes(): number {
    return this.duplicates.memoryBytes + this.#fingerprints.memoryBytes + this.bytes.byteLength;
  }

  clear(): void {
    this.duplicates.clear();
    this.#fingerprints.clear();
    this.directionless = absent;
  }
}

/** Whether two vectors of one length have the same numbers. */
export function isEqualTo(a: Float32Array, b: Float32Array): boolean {
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
