// Which number does a term have?
//
// In flat columns: a checkpoint writes them and a restore takes them over as they are, without touching a single term:
//
//   slots u32      | number + 1, or 0 for a free slot |      by hash of the term: open addressing, linear probing
//   hashes u32     | begins u32 | lengths u16 |              by number; length 0: the number is free
//   units u16      | the terms' UTF-16 code units, one term behind the other |
//
// A JavaScript Map of strings takes about the same time for a look-up and twice the memory, and has to be built key by key.
//
// The slot of a term that is removed is marked as left, and another term may take it. When half of the slots are not free, new ones are
// made, twice as many where terms need them. The old ones stay, and each added term moves some of them: rehashing four million terms at
// once takes half a second, in which the thread would answer nothing else. Nothing is removed from old slots. An old slot may name a
// number that has moved, is free, or belongs to another term: a look-up compares the number's term, so its answer is right.
//
// Other threads look terms up, too (`DictionaryReader`), in the columns as they were at a moment. These lie in shared memory. They are
// appended to, replaced when they grow or are closed up, and overwritten in three places, without waiting for readers:
//   - A slot that was free or left gets a term. Terms never move within a table, so those that were there are found as before.
//   - A term that is removed gets the length 0, and its slot is left.
//   - A number that was free gets another term, and no reader is waited for.
// A term is removed, and its number free, when the last record that has it was removed from the index. No version that is pinned sees such
// records. So whatever a reader makes of the number or of its term, old, new or half of each, it finds nothing there that its version
// sees. A term that its version has keeps its number, and is compared as a whole.
//
// Invariants (see check): each number in use is in exactly one slot, or in an old one that has not moved, and no free slot lies
// between that and the place of its hash; at most half of the slots are not free.

import { invariant } from "../../base/invariant.ts";
import { sharedArray } from "../../base/shared-array.ts";
import type { Steps } from "../../base/steps.ts";

const slotsMin = 1_024;
/** Full columns grow by this fraction, so less than this is unused. */
const growth = 1.25;

/** Old slots that move with a term that is added: they have all moved long before the new ones are to be doubled. */
const movedPerTerm = 8;

/** Terms that are tested at a step. */
const termsPerStep = 1_024;

/** What a checkpoint stores of a dictionary, besides its columns. */
export type DictionaryState = {
  readonly size: number;
  readonly numbersEnd: number;
  readonly unitsEnd: number;
  readonly unitsUsed: number;
  readonly slots: number;
  /** Slots that are not free. */
  readonly filled: number;
};

/** In place of a number and 1: the slot's term was removed. */
const left = 0xffff_ffff;

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
  protected end: number;

  constructor({ slots, old, hashes, begins, lengths, units, numbersEnd }: SharedDictionary) {
    this.slots = slots;
    this.old = old;
    this.hashes = hashes;
    this.begins = begins;
    this.lengths = lengths;
    this.units = units;
    this.end = numbersEnd;
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
  *termsThat(passes: (units: Uint16Array, begin: number, end: number) => boolean): Steps<string[]> {
    const found: string[] = [];
    for (let number = 0; number < this.end; number++) {
      if (number % termsPerStep === termsPerStep - 1) yield;
      const begin = this.begins[number];
      const length = this.lengths[number];
      if (length > 0 && passes(this.units, begin, begin + length)) found.push(this.#termFrom(begin, length));
    }
    return found;
  }
}

export class Dictionary extends DictionaryReader {
  /** Slots of `old` from here on have not moved. */
  #movedEnd = 0;
  #size = 0;
  /** Slots that are not free. */
  #filled = 0;
  /** Where the next term's units go, and how many of those before are in use. */
  #unitsEnd = 0;
  #unitsUsed = 0;

  /** @param slots at first: a power of two; fewer in tests */
  constructor(slots = slotsMin) {
    super({
      slots: sharedArray(Uint32Array, slots),
      old: null,
      hashes: sharedArray(Uint32Array, slotsMin),
      begins: sharedArray(Uint32Array, slotsMin),
      lengths: sharedArray(Uint16Array, slotsMin),
      units: sharedArray(Uint16Array, 8 * slotsMin),
      numbersEnd: 0,
    });
  }

  /** What another thread needs to look terms up as they are now. */
  get shared(): SharedDictionary {
    const { slots, old, hashes, begins, lengths, units, end: numbersEnd } = this;
    return { slots, old, hashes, begins, lengths, units, numbersEnd };
  }

  get size(): number {
    return this.#size;
  }

  /** Adds a term that is not there, under a number that has none. */
  add(term: string, number: number): void {
    invariant(term.length > 0 && term.length <= 0xffff, `a term of ${term.length} characters`);
    this.#reserve(number, term.length);
    const begin = this.#unitsEnd;
    for (let i = 0; i < term.length; i++) this.units[begin + i] = term.charCodeAt(i);
    this.#unitsEnd += term.length;
    this.#unitsUsed += term.length;
    this.hashes[number] = hashOf(term);
    this.begins[number] = begin;
    this.lengths[number] = term.length;
    this.#size++;
    if (2 * (this.#filled + 1) > this.slots.length) {
      this.#move(Number.POSITIVE_INFINITY);
      this.old = this.slots;
      this.#movedEnd = 0;
      // Half of the slots or fewer had terms that were removed: as many will do.
      const isCrowded = 4 * this.#size > this.old.length;
      this.slots = sharedArray(Uint32Array, isCrowded ? 2 * this.old.length : this.old.length);
      this.#filled = 0;
    }
    this.#enter(number);
    this.#move(movedPerTerm);
  }

  /** Forgets the term of a number. */
  remove(number: number): void {
    const mask = this.slots.length - 1;
    let at = this.hashes[number] & mask;
    while (this.slots[at] !== number + 1 && this.slots[at] !== 0) at = (at + 1) & mask;
    if (this.slots[at] !== 0) this.slots[at] = left;
    else invariant(this.old !== null, `number ${number} is in no slot`);
    this.#unitsUsed -= this.lengths[number];
    this.lengths[number] = 0;
    this.#size--;
  }

  /** Whether a number has a term. */
  isUsed(number: number): boolean {
    return number < this.end && this.lengths[number] > 0;
  }

  *entries(): Generator<[term: string, number: number]> {
    for (let number = 0; number < this.end; number++)
      if (this.lengths[number] > 0) yield [this.termOf(number), number];
  }

  /** Numbers below the greatest in use that are free. */
  freeNumbers(): number[] {
    const free: number[] = [];
    for (let number = 0; number < this.end; number++) if (this.lengths[number] === 0) free.push(number);
    return free;
  }

  /** Numbers in use are below this. */
  get numbersEnd(): number {
    return this.end;
  }

  /** What a checkpoint stores. The columns are copies, in shared memory. */
  save(): { state: DictionaryState; columns: Uint8Array[] } {
    this.#move(Number.POSITIVE_INFINITY);
    const state = {
      size: this.#size,
      numbersEnd: this.end,
      unitsEnd: this.#unitsEnd,
      unitsUsed: this.#unitsUsed,
      slots: this.slots.length,
      filled: this.#filled,
    };
    const columns = columnsOf(state);
    const from = [this.slots, this.hashes, this.begins, this.lengths, this.units];
    columns.forEach((column, i) => {
      const { buffer, byteOffset } = from[i];
      column.set(new Uint8Array(buffer, byteOffset, column.length));
    });
    return { state, columns };
  }

  /** Allocates the columns of a dictionary of a checkpoint. */
  static columnsFor(state: DictionaryState): Uint8Array[] {
    return columnsOf(state);
  }

  /** Restores a dictionary from a checkpoint. @param columns from `columnsFor`, filled from a checkpoint; the new object owns them */
  static restored(state: DictionaryState, columns: readonly Uint8Array[]): Dictionary {
    const dictionary = new Dictionary();
    const [slots, hashes, begins, lengths, units] = columns;
    dictionary.slots = new Uint32Array(slots.buffer);
    dictionary.hashes = new Uint32Array(hashes.buffer);
    dictionary.begins = new Uint32Array(begins.buffer);
    dictionary.lengths = new Uint16Array(lengths.buffer);
    dictionary.units = new Uint16Array(units.buffer);
    dictionary.#size = state.size;
    dictionary.#filled = state.filled;
    dictionary.end = state.numbersEnd;
    dictionary.#unitsEnd = state.unitsEnd;
    dictionary.#unitsUsed = state.unitsUsed;
    return dictionary;
  }

  close(): void {
    const empty = new Dictionary().shared;
    this.slots = empty.slots;
    this.old = null;
    this.hashes = empty.hashes;
    this.begins = empty.begins;
    this.lengths = empty.lengths;
    this.units = empty.units;
    this.#size = 0;
    this.#filled = 0;
    this.end = 0;
    this.#unitsEnd = 0;
    this.#unitsUsed = 0;
  }

  get memoryBytes(): number {
    const columns = [this.slots, this.hashes, this.begins, this.lengths, this.units];
    return columns.reduce((sum, column) => sum + column.byteLength, this.old?.byteLength ?? 0);
  }

  check(): void {
    this.#move(Number.POSITIVE_INFINITY);
    let terms = 0;
    let units = 0;
    for (const [term, number] of this.entries()) {
      terms++;
      units += term.length;
      invariant(this.get(term) === number, `"${term}" has number ${number}, and ${this.get(term)} is found`);
      const end = this.begins[number] + term.length;
      invariant(end <= this.#unitsEnd, `"${term}" ends at ${end} of ${this.#unitsEnd}`);
    }
    const used = this.slots.reduce((sum, slot) => sum + (slot === 0 || slot === left ? 0 : 1), 0);
    invariant(terms === this.#size && used === terms, `${terms} terms in ${used} slots, not ${this.#size}`);
    const filled = this.slots.reduce((sum, slot) => sum + (slot === 0 ? 0 : 1), 0);
    invariant(
      filled === this.#filled && 2 * filled <= this.slots.length,
      `${filled} of ${this.slots.length} slots are not free, counted were ${this.#filled}`,
    );
    invariant(units === this.#unitsUsed, `terms have ${units} characters, not ${this.#unitsUsed}`);
  }

  /** Enters a number, unless it is there. */
  #enter(number: number): void {
    const mask = this.slots.length - 1;
    let vacant = -1;
    let at = this.hashes[number] & mask;
    for (; this.slots[at] !== 0; at = (at + 1) & mask) {
      if (this.slots[at] === number + 1) return;
      if (this.slots[at] === left && vacant < 0) vacant = at;
    }
    if (vacant < 0) this.#filled++;
    this.slots[vacant < 0 ? at : vacant] = number + 1;
  }

  /** Moves the given number of old slots. */
  #move(count: number): void {
    const { old } = this;
    if (old === null) return;
    const end = Math.min(old.length, this.#movedEnd + count);
    for (; this.#movedEnd < end; this.#movedEnd++) {
      const slot = old[this.#movedEnd];
      if (slot !== 0 && slot !== left && this.lengths[slot - 1] > 0) this.#enter(slot - 1);
    }
    if (end === old.length) this.old = null;
  }

  /** Ensures room for a number and the given number of units. */
  #reserve(number: number, units: number): void {
    if (number >= this.begins.length) {
      const length = Math.max(Math.ceil(growth * this.begins.length), number + 1);
      this.hashes = grown(this.hashes, sharedArray(Uint32Array, length));
      this.begins = grown(this.begins, sharedArray(Uint32Array, length));
      this.lengths = grown(this.lengths, sharedArray(Uint16Array, length));
    }
    this.end = Math.max(this.end, number + 1);
    if (this.#unitsEnd + units <= this.units.length) return;
    // Where many units belong to terms that are gone, the others are closed up instead.
    const needed = Math.ceil(growth * (this.#unitsUsed + units));
    this.#closeUp(sharedArray(Uint16Array, Math.max(needed, Math.min(this.units.length, 2 * needed))));
  }

  #closeUp(units: Uint16Array): void {
    if (this.#unitsUsed === this.#unitsEnd) {
      this.units = grown(this.units, units);
      return;
    }
    // Readers of the old units go by the old begins.
    const begins = sharedArray(Uint32Array, this.begins.length);
    let end = 0;
    for (let number = 0; number < this.end; number++) {
      const begin = this.begins[number];
      const length = this.lengths[number];
      begins[number] = end;
      for (let i = 0; i < length; i++) units[end + i] = this.units[begin + i];
      end += length;
    }
    this.begins = begins;
    this.units = units;
    this.#unitsEnd = end;
  }
}

/** Columns of the bytes that are in use: slots, hashes, begins, lengths, units. */
function columnsOf({ slots, numbersEnd, unitsEnd }: DictionaryState): Uint8Array[] {
  const bytes = [4 * slots, 4 * numbersEnd, 4 * numbersEnd, 2 * numbersEnd, 2 * unitsEnd];
  return bytes.map((length) => new Uint8Array(new SharedArrayBuffer(length)));
}

function grown<T extends Uint16Array | Uint32Array>(from: T, to: T): T {
  to.set(from);
  return to;
}

/** FNV-1a over code units, followed by the finalizer of MurmurHash3, because only the lowest bits select the slot. */
export function hashOf(term: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < term.length; i++) hash = Math.imul(hash ^ term.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
