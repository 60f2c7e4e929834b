// Which number does a term have?
//
//   slots u32      | number + 1, or 0 for a free slot |      by hash of the term: open addressing, linear probing
//   hashes u32     | begins u32 | lengths u16 |              by number; length 0: the number is free
//   units u16      | the terms' UTF-16 code units, one term behind the other |
//
// Other threads look terms up, too, in the columns as they were at a moment. These lie in shared memory. The writer
// (dictionary.ts) appends to them, replaces them when they grow or are closed up, and overwrites three things without waiting for readers:
//   - A slot that was free or left gets a term. Terms never move within a table, so those that were there are found as before.
//   - A term that is removed gets the length 0, and its slot is left.
//   - A number that was free gets another term, and no reader is waited for.
// A term is removed, and its number free, when the last record that has it was removed from the index. No version that is pinned sees such
// records. So whatever a reader makes of the number or of its term, old, new or half of each, it finds nothing there that its version
// sees. A term that its version has keeps its number, and is compared as a whole.

import type { Steps } from "../../base/steps.ts";
import type { UnitsTest } from "./word-test.ts";

/** Terms that are tested at a step. */
const termsPerStep = 1_024;

/** In place of a number and 1: the slot's term was removed. */
export const left = 0xffff_ffff;

/** A dictionary as it is at a moment. Can be posted to another thread. */
export type SharedDictionary = {
  readonly slots: Uint32Array;
  readonly old: Uint32Array | null;
  readonly hashes: Uint32Array;
  readonly begins: Uint32Array;
  readonly lengths: Uint16Array;
  readonly units: Uint16Array;
  readonly numbersEnd: number;
};

/** A dictionary, for reading. */
export class DictionaryReader {
  protected slots: Uint32Array;
  /** Slots some of which have not moved yet. */
  protected old: Uint32Array | null;
  protected hashes: Uint32Array;
  protected begins: Uint32Array;
  protected lengths: Uint16Array;
  protected units: Uint16Array;
  /** Numbers in use are below this. */
  numbersEnd: number;

  constructor({ slots, old, hashes, begins, lengths, units, numbersEnd }: SharedDictionary) {
    this.slots = slots;
    this.old = old;
    this.hashes = hashes;
    this.begins = begins;
    this.lengths = lengths;
    this.units = units;
    this.numbersEnd = numbersEnd;
  }

  /** The number of a term, or undefined. */
  get(term: string): number | undefined {
    const hash = hashOf(term);
    let number = this.#find(this.slots, hash, term);
    if (number < 0 && this.old !== null) number = this.#find(this.old, hash, term);
    return number < 0 ? undefined : number;
  }

  /** @returns the term's number, or -1 */
  #find(slots: Uint32Array, hash: number, term: string): number {
    const mask = slots.length - 1;
    for (let at = hash & mask; ; at = (at + 1) & mask) {
      const slot = slots[at];
      if (slot === 0) return -1;
      if (slot !== left && this.hashes[slot - 1] === hash && this.#isTerm(slot - 1, term)) return slot - 1;
    }
  }

  #isTerm(number: number, term: string): boolean {
    if (this.lengths[number] !== term.length) return false;
    const begin = this.begins[number];
    for (let i = 0; i < term.length; i++) if (this.units[begin + i] !== term.charCodeAt(i)) return false;
    return true;
  }

  /** The term of a number in use. */
  termOf(number: number): string {
    return this.#termFrom(this.begins[number], this.lengths[number]);
  }

  #termFrom(begin: number, length: number): string {
    return String.fromCharCode(...this.units.subarray(begin, begin + length));
  }

  /**
   * The terms that pass a test, in no particular order, in steps, between which terms may be added and removed. Terms that exist throughout
   * are reported once.
   * @param passes called with code units: those of a term are from `begin` to `end`, exclusive
   */
  *termsThat(passes: UnitsTest): Steps<string[]> {
    const found: string[] = [];
    for (let number = 0; number < this.numbersEnd; number++) {
      if (number % termsPerStep === termsPerStep - 1) yield;
      const begin = this.begins[number];
      const length = this.lengths[number];
      if (length > 0 && passes(this.units, begin, begin + length)) found.push(this.#termFrom(begin, length));
    }
    return found;
  }
}

/** Allocates the columns of a dictionary of a checkpoint, for what is in use: slots, hashes, begins, lengths, units. */
export function columnsFor({
  slots,
  numbersEnd,
  unitsEnd,
}: Record<"slots" | "numbersEnd" | "unitsEnd", number>): Uint8Array[] {
  const bytes = [4 * slots, 4 * numbersEnd, 4 * numbersEnd, 2 * numbersEnd, 2 * unitsEnd];
  return bytes.map((length) => new Uint8Array(new SharedArrayBuffer(length)));
}

/** FNV-1a over code units, followed by the finalizer of MurmurHash3, because only the lowest bits select the slot. */
export function hashOf(term: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < term.length; i++) hash = Math.imul(hash ^ term.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
