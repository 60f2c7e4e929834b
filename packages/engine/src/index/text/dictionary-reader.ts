// Which number does a term have?
//
//   slots u32      | number + 1, or 0 for a free slot |      by hash of the term: open addressing, linear probing
//   hashes u32     | begins u32 | lengths u16 |              by number; length 0: the number is free
//   units u16      | the terms' UTF-16 code units, one term behind the other |
//
// All of them lie in blocks (growable.ts), and a term's units in one block.
//
// One reader looks terms up in any thread: the writer's (dictionary.ts) in the columns as they are, others in the columns as they were at a
// moment. All lie in shared memory. The writer appends to them, replaces blocks, and overwrites three things without waiting for readers:
//   - A slot that was free or left gets a term. Terms never move within a table, so those that were there are found as before.
//   - A term that is removed gets the length 0, and its slot is left.
//   - A number that was free gets another term, and no reader is waited for.
// A term is removed, and its number free, when the last record that has it was removed from the index. No version that is pinned sees such
// records. So whatever a reader makes of the number or of its term, old, new or half of each, it finds nothing there that its version
// sees: the units can be in a block that the reader was not given. A term that its version has keeps its number, and is compared as a whole.

import { blockBytes } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import type { Steps } from "../../base/steps.ts";
import type { UnitsTest } from "./word-test.ts";

/** Terms that are tested at a step. */
const termsPerStep = 1_024;

/** In place of a number and 1: the slot's term was removed. */
export const left = 0xffff_ffff;

/** Words in a block are 2 to the power of this, units twice as many. */
export const wordBits = Math.log2(blockBytes / 4);

type Words = readonly Uint32Array[];
type Units = readonly Uint16Array[];

/** A dictionary's columns in blocks, as they are, or as they were at a moment: then they can be posted to another thread. */
export type DictionaryColumns = {
  /** Of the blocks of words; those of units have one more. */
  readonly bits: number;
  readonly slots: { readonly blocks: Words };
  /** Slots some of which have not moved yet. */
  readonly old: { readonly blocks: Words } | null;
  readonly hashes: { readonly blocks: Words };
  readonly begins: { readonly blocks: Words };
  readonly lengths: { readonly blocks: Units };
  readonly units: Units;
  readonly numbersEnd: number;
};

/** The table of slots has 2 to the power of a whole number: the number of its last slot is a mask. */
export const maskOf = (slots: Words, bits: number): number =>
  ((slots.length - 1) << bits) + slots[slots.length - 1].length - 1;

const noUnits = new Uint16Array(0);

/** A dictionary, for reading. */
export class DictionaryReader {
  protected readonly bits: number;
  protected slots: DictionaryColumns["slots"];
  protected old: DictionaryColumns["old"];
  protected hashes: DictionaryColumns["hashes"];
  protected begins: DictionaryColumns["begins"];
  protected lengths: DictionaryColumns["lengths"];
  protected units: Units;
  /** Numbers in use are below this. */
  numbersEnd: number;

  constructor({ bits, slots, old, hashes, begins, lengths, units, numbersEnd }: DictionaryColumns) {
    this.bits = bits;
    this.slots = slots;
    this.old = old;
    this.hashes = hashes;
    this.begins = begins;
    this.lengths = lengths;
    this.units = units;
    this.numbersEnd = numbersEnd;
    const mask = maskOf(slots.blocks, bits);
    invariant((mask & (mask + 1)) === 0, `a dictionary has ${mask + 1} slots, which is no power of two`);
    invariant(
      hashes.blocks.length === begins.blocks.length && hashes.blocks.length === lengths.blocks.length,
      "the columns of a dictionary have different lengths",
    );
    invariant(
      numbersEnd <= hashes.blocks.length << bits,
      `${numbersEnd} numbers are in ${hashes.blocks.length} blocks`,
    );
  }

  /** The number of a term, or undefined. */
  get(term: string): number | undefined {
    const hash = hashOf(term);
    let number = this.#find(this.slots.blocks, hash, term);
    if (number < 0 && this.old !== null) number = this.#find(this.old.blocks, hash, term);
    return number < 0 ? undefined : number;
  }

  /** @returns the term's number, or -1 */
  #find(slots: Words, hash: number, term: string): number {
    const { bits } = this;
    const hashes = this.hashes.blocks;
    const inBlock = (1 << bits) - 1;
    const mask = maskOf(slots, bits);
    for (let at = hash & mask; ; at = (at + 1) & mask) {
      const slot = slots[at >>> bits][at & inBlock];
      if (slot === 0) return -1;
      if (slot === left) continue;
      const number = slot - 1;
      if (hashes[number >>> bits]?.[number & inBlock] === hash && this.#isTerm(number, term)) return number;
    }
  }

  #isTerm(number: number, term: string): boolean {
    if (this.lengthOf(number) !== term.length) return false;
    const begin = this.beginOf(number);
    const units = this.blockOf(begin);
    const at = this.placeOf(begin);
    for (let i = 0; i < term.length; i++) if (units[at + i] !== term.charCodeAt(i)) return false;
    return true;
  }

  protected lengthOf(number: number): number {
    return this.lengths.blocks[number >>> this.bits]?.[number & ((1 << this.bits) - 1)] ?? 0;
  }

  /** Where the units of a number begin: the block, and the place in it. */
  protected beginOf(number: number): number {
    return this.begins.blocks[number >>> this.bits][number & ((1 << this.bits) - 1)];
  }

  protected blockOf(begin: number): Uint16Array {
    return this.units[begin >>> (this.bits + 1)] ?? noUnits;
  }

  protected placeOf(begin: number): number {
    return begin & ((2 << this.bits) - 1);
  }

  /** The term of a number in use. */
  termOf(number: number): string {
    const length = this.lengthOf(number);
    invariant(length > 0, () => `number ${number} has no term`);
    return this.#termFrom(this.beginOf(number), length);
  }

  #termFrom(begin: number, length: number): string {
    const at = this.placeOf(begin);
    return String.fromCharCode(...this.blockOf(begin).subarray(at, at + length));
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
      const length = this.lengthOf(number);
      if (length === 0) continue;
      const begin = this.beginOf(number);
      const units = this.blockOf(begin);
      const at = this.placeOf(begin);
      // Of a later term of the number, which is in a block that this thread does not have.
      if (at + length > units.length) continue;
      if (passes(units, at, at + length)) found.push(this.#termFrom(begin, length));
    }
    return found;
  }
}

/** FNV-1a over code units, followed by the finalizer of MurmurHash3, because only the lowest bits select the slot. */
export function hashOf(term: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < term.length; i++) hash = Math.imul(hash ^ term.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
