// Which vectors may be equal to this one?
//
// A hash table from the contents of vectors to their vector keys (duplicate-vectors.ts), by 64 bits of a hash whose key is drawn for each index: nobody
// can make vectors that collide. Open addressing with linear probing in one typed array, three words a slot:
//
//   | vector key u32 (`absent`: free) | low 32 bits | high 32 bits |
//
// Vector keys are never used again, so nothing is deleted: an entry whose vector key is gone is passed over, and dropped when the table grows.
// At most three quarters are full. 16 to 32 bytes a vector.

import { invariant } from "../../base/invariant.ts";
import { absent } from "../ordinal-map.ts";

export type FingerprintKey = readonly [low: number, high: number];

const slotWords = 3;
const slotsMin = 1_024;

export class Fingerprints {
  readonly #key: FingerprintKey;
  #slots = emptySlots(slotsMin);
  /** Slots that are not free. */
  #used = 0;
  /** The hash of the last vector that `find` searched for. */
  #low = 0;
  #high = 0;

  constructor(key: FingerprintKey) {
    this.#key = key;
  }

  /**
   * The vector key of an equal vector; `absent` if there is none.
   * @param words the bits of the vector's values, no minus zero among them
   * @param isEqual whether the vector of a vector key exists and is equal
   */
  find(words: Uint32Array, isEqual: (vectorKey: number) => boolean): number {
    this.#hash(words);
    const slots = this.#slots;
    for (let at = this.#home(this.#low); slots[at] !== absent; at = this.#next(at)) {
      if (slots[at + 1] === this.#low && slots[at + 2] === this.#high && isEqual(slots[at])) return slots[at];
    }
    return absent;
  }

  /** Adds the last vector that `find` searched for. @param isThere whether the vector of a vector key exists */
  add(vectorKey: number, isThere: (vectorKey: number) => boolean): void {
    if (4 * (this.#used + 1) > 3 * (this.#slots.length / slotWords)) this.#grow(isThere);
    this.#put(vectorKey, this.#low, this.#high);
    // A search ends at a free slot.
    invariant(slotWords * this.#used < this.#slots.length, () => `${this.#used} vector keys fill all slots`);
  }

  /** Entries of the requested vector keys, three words each, for `restore`. */
  entries(isWanted: (vectorKey: number) => boolean): Uint32Array {
    const slots = this.#slots;
    const kept: number[] = [];
    for (let at = 0; at < slots.length; at += slotWords)
      if (slots[at] !== absent && isWanted(slots[at])) kept.push(slots[at], slots[at + 1], slots[at + 2]);
    return Uint32Array.from(kept);
  }

  restore(entries: Uint32Array): void {
    invariant(this.#used === 0 && entries.length % slotWords === 0, "fingerprints are restored once, whole");
    this.#slots = emptySlots(slotsFor(entries.length / slotWords));
    for (let i = 0; i < entries.length; i += slotWords) this.#put(entries[i], entries[i + 1], entries[i + 2]);
  }

  get memoryBytes(): number {
    return this.#slots.byteLength;
  }

  clear(): void {
    this.#slots = emptySlots(slotsMin);
    this.#used = 0;
  }

  #home(low: number): number {
    return slotWords * (low & (this.#slots.length / slotWords - 1));
  }

  #next(at: number): number {
    const next = at + slotWords;
    return next === this.#slots.length ? 0 : next;
  }

  #put(vectorKey: number, low: number, high: number): void {
    let at = this.#home(low);
    while (this.#slots[at] !== absent) at = this.#next(at);
    this.#slots[at] = vectorKey;
    this.#slots[at + 1] = low;
    this.#slots[at + 2] = high;
    this.#used++;
  }

  #grow(isThere: (vectorKey: number) => boolean): void {
    const old = this.#slots;
    let living = 0;
    for (let at = 0; at < old.length; at += slotWords)
      if (old[at] !== absent && isThere(old[at])) living++;
      else old[at] = absent;
    // Leaves enough room that the next entry does not make it grow again.
    this.#slots = emptySlots(slotsFor(Math.ceil(1.25 * (living + 1))));
    this.#used = 0;
    for (let at = 0; at < old.length; at += slotWords)
      if (old[at] !== absent) this.#put(old[at], old[at + 1], old[at + 2]);
  }

  /** Two MurmurHash3 of 32 bits by different keys, in one pass. */
  #hash(words: Uint32Array): void {
    let low = this.#key[0] | 0;
    let high = this.#key[1] | 0;
    for (let i = 0; i < words.length; i++) {
      let mixed = Math.imul(words[i], 0xcc9e_2d51);
      mixed = Math.imul((mixed << 15) | (mixed >>> 17), 0x1b87_3593);
      low ^= mixed;
      low = Math.imul((low << 13) | (low >>> 19), 5) + 0xe654_6b64;
      mixed = Math.imul(words[i], 0x85eb_ca6b);
      mixed = Math.imul((mixed << 16) | (mixed >>> 16), 0xc2b2_ae35);
      high ^= mixed;
      high = Math.imul((high << 17) | (high >>> 15), 9) + 0x52dc_e729;
    }
    this.#low = finalized(low ^ words.length);
    this.#high = finalized(high ^ words.length);
  }
}

function finalized(hash: number): number {
  let mixed = Math.imul(hash ^ (hash >>> 16), 0x85eb_ca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2_ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}

/** Bytes of a table with the given number of vector keys. */
export const fingerprintBytes = (vectorKeys: number): number => 4 * slotWords * slotsFor(vectorKeys);

/** A power of two of slots, at most three quarters full with the given number of vector keys. */
const slotsFor = (vectorKeys: number): number =>
  Math.max(slotsMin, 2 ** Math.ceil(Math.log2((4 * Math.max(1, vectorKeys)) / 3)));

const emptySlots = (count: number): Uint32Array => new Uint32Array(slotWords * count).fill(absent);
