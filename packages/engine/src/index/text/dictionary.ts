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
// When the slots double, the old ones stay, and each added term moves some of them: rehashing four million terms at once takes half a
// second, in which the thread would answer nothing else. Nothing is removed from old slots. An old slot may name a number that has
// moved, is free, or belongs to another term: a look-up compares the number's term, so its answer is right.
//
// Invariants (see check): each number in use is in exactly one slot, or in an old one that has not moved, and no free slot lies
// between that and the place of its hash; at most half of the slots are used.
//
// The table is one class: every method reads the same columns.

import { invariant } from "../../base/invariant.ts";
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
};

export class Dictionary {
  #slots: Uint32Array;
  /** Slots that have not moved yet: those of `slots` from `at`. */
  #old: { readonly slots: Uint32Array; at: number } | null = null;
  #hashes: Uint32Array = new Uint32Array(slotsMin);
  #begins: Uint32Array = new Uint32Array(slotsMin);
  #lengths: Uint16Array = new Uint16Array(slotsMin);
  #units: Uint16Array = new Uint16Array(8 * slotsMin);
  #size = 0;
  /** Numbers in use are below this. */
  #numbersEnd = 0;
  /** Where the next term's units go, and how many of those before are in use. */
  #unitsEnd = 0;
  #unitsUsed = 0;

  /** @param slots at first: a power of two; fewer in tests */
  constructor(slots = slotsMin) {
    this.#slots = new Uint32Array(slots);
  }

  get size(): number {
    return this.#size;
  }

  /** The number of a term, or undefined. */
  get(term: string): number | undefined {
    const hash = hashOf(term);
    let number = this.#find(this.#slots, hash, term);
    if (number < 0 && this.#old !== null) number = this.#find(this.#old.slots, hash, term);
    return number < 0 ? undefined : number;
  }

  /** @returns the term's number, or -1 */
  #find(slots: Uint32Array, hash: number, term: string): number {
    const mask = slots.length - 1;
    for (let at = hash & mask; ; at = (at + 1) & mask) {
      const number = slots[at] - 1;
      if (number < 0 || (this.#hashes[number] === hash && this.#isTerm(number, term))) return number;
    }
  }

  /** Adds a new term under a free number. */
  add(term: string, number: number): void {
    invariant(term.length > 0 && term.length <= 0xffff, `a term of ${term.length} characters`);
    this.#reserve(number, term.length);
    const begin = this.#unitsEnd;
    for (let i = 0; i < term.length; i++) this.#units[begin + i] = term.charCodeAt(i);
    this.#unitsEnd += term.length;
    this.#unitsUsed += term.length;
    this.#hashes[number] = hashOf(term);
    this.#begins[number] = begin;
    this.#lengths[number] = term.length;
    this.#size++;
    if (2 * this.#size > this.#slots.length) {
      this.#move(Number.POSITIVE_INFINITY);
      this.#old = { slots: this.#slots, at: 0 };
      this.#slots = new Uint32Array(2 * this.#slots.length);
    }
    this.#enter(number);
    this.#move(movedPerTerm);
  }

  /** Forgets the term of a number. */
  remove(number: number): void {
    const mask = this.#slots.length - 1;
    let free = this.#hashes[number] & mask;
    while (this.#slots[free] !== number + 1 && this.#slots[free] !== 0) free = (free + 1) & mask;
    if (this.#slots[free] !== 0) this.#free(free, mask);
    else invariant(this.#old !== null, `number ${number} is in no slot`);
    this.#unitsUsed -= this.#lengths[number];
    this.#lengths[number] = 0;
    this.#size--;
  }

  #free(slot: number, mask: number): void {
    let free = slot;
    // Moves following entries up if their hash allows it, so that no gap makes them unreachable (Knuth, volume 3, algorithm 6.4R).
    for (let at = (free + 1) & mask; this.#slots[at] !== 0; at = (at + 1) & mask) {
      const home = this.#hashes[this.#slots[at] - 1] & mask;
      if (((at - home) & mask) < ((at - free) & mask)) continue;
      this.#slots[free] = this.#slots[at];
      free = at;
    }
    this.#slots[free] = 0;
  }

  /** Whether a number has a term. */
  isUsed(number: number): boolean {
    return number < this.#numbersEnd && this.#lengths[number] > 0;
  }

  /** The term of a number in use. */
  termOf(number: number): string {
    const begin = this.#begins[number];
    return String.fromCharCode(...this.#units.subarray(begin, begin + this.#lengths[number]));
  }

  *entries(): Generator<[term: string, number: number]> {
    for (let number = 0; number < this.#numbersEnd; number++)
      if (this.#lengths[number] > 0) yield [this.termOf(number), number];
  }

  /**
   * The terms that pass a test, in no particular order, in steps, between which terms may be added and removed. Terms that exist throughout
   * are reported once.
   * @param passes called with code units: those of a term are from `begin` to `end`, exclusive
   */
  *termsThat(passes: (units: Uint16Array, begin: number, end: number) => boolean): Steps<string[]> {
    const found: string[] = [];
    for (let number = 0; number < this.#numbersEnd; number++) {
      if (number % termsPerStep === termsPerStep - 1) yield;
      const begin = this.#begins[number];
      const length = this.#lengths[number];
      if (length > 0 && passes(this.#units, begin, begin + length)) found.push(this.termOf(number));
    }
    return found;
  }

  /** Numbers below the greatest in use that are free. */
  freeNumbers(): number[] {
    const free: number[] = [];
    for (let number = 0; number < this.#numbersEnd; number++)
      if (this.#lengths[number] === 0) free.push(number);
    return free;
  }

  /** Numbers in use are below this. */
  get numbersEnd(): number {
    return this.#numbersEnd;
  }

  /** What a checkpoint stores. The columns are copies, in shared memory. */
  save(): { state: DictionaryState; columns: Uint8Array[] } {
    this.#move(Number.POSITIVE_INFINITY);
    const state = {
      size: this.#size,
      numbersEnd: this.#numbersEnd,
      unitsEnd: this.#unitsEnd,
      unitsUsed: this.#unitsUsed,
      slots: this.#slots.length,
    };
    const columns = columnsOf(state);
    const from = [this.#slots, this.#hashes, this.#begins, this.#lengths, this.#units];
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
    dictionary.#slots = new Uint32Array(slots.buffer);
    dictionary.#hashes = new Uint32Array(hashes.buffer);
    dictionary.#begins = new Uint32Array(begins.buffer);
    dictionary.#lengths = new Uint16Array(lengths.buffer);
    dictionary.#units = new Uint16Array(units.buffer);
    dictionary.#size = state.size;
    dictionary.#numbersEnd = state.numbersEnd;
    dictionary.#unitsEnd = state.unitsEnd;
    dictionary.#unitsUsed = state.unitsUsed;
    return dictionary;
  }

  close(): void {
    this.#slots = new Uint32Array(slotsMin);
    this.#old = null;
    this.#hashes = new Uint32Array(slotsMin);
    this.#begins = new Uint32Array(slotsMin);
    this.#lengths = new Uint16Array(slotsMin);
    this.#units = new Uint16Array(8 * slotsMin);
    this.#size = 0;
    this.#numbersEnd = 0;
    this.#unitsEnd = 0;
    this.#unitsUsed = 0;
  }

  get memoryBytes(): number {
    const columns = [this.#slots, this.#hashes, this.#begins, this.#lengths, this.#units];
    return columns.reduce((sum, column) => sum + column.byteLength, this.#old?.slots.byteLength ?? 0);
  }

  check(): void {
    this.#move(Number.POSITIVE_INFINITY);
    let terms = 0;
    let units = 0;
    for (const [term, number] of this.entries()) {
      terms++;
      units += term.length;
      invariant(this.get(term) === number, `"${term}" has number ${number}, and ${this.get(term)} is found`);
      const end = this.#begins[number] + term.length;
      invariant(end <= this.#unitsEnd, `"${term}" ends at ${end} of ${this.#unitsEnd}`);
    }
    const used = this.#slots.reduce((sum, slot) => sum + (slot === 0 ? 0 : 1), 0);
    invariant(terms === this.#size && used === terms, `${terms} terms in ${used} slots, not ${this.#size}`);
    invariant(2 * used <= this.#slots.length, `${used} of ${this.#slots.length} slots are used`);
    invariant(units === this.#unitsUsed, `terms have ${units} characters, not ${this.#unitsUsed}`);
  }

  #isTerm(number: number, term: string): boolean {
    if (this.#lengths[number] !== term.length) return false;
    const begin = this.#begins[number];
    for (let i = 0; i < term.length; i++) if (this.#units[begin + i] !== term.charCodeAt(i)) return false;
    return true;
  }

  /** Inserts a number, unless it is present. */
  #enter(number: number): void {
    const mask = this.#slots.length - 1;
    let at = this.#hashes[number] & mask;
    while (this.#slots[at] !== 0 && this.#slots[at] !== number + 1) at = (at + 1) & mask;
    this.#slots[at] = number + 1;
  }

  /** Moves the given number of old slots. */
  #move(count: number): void {
    const old = this.#old;
    if (old === null) return;
    const end = Math.min(old.slots.length, old.at + count);
    for (; old.at < end; old.at++) {
      const number = old.slots[old.at] - 1;
      if (number >= 0 && this.#lengths[number] > 0) this.#enter(number);
    }
    if (end === old.slots.length) this.#old = null;
  }

  /** Ensures room for a number and the given number of units. */
  #reserve(number: number, units: number): void {
    if (number >= this.#begins.length) {
      const length = Math.max(Math.ceil(growth * this.#begins.length), number + 1);
      this.#hashes = grown(this.#hashes, new Uint32Array(length));
      this.#begins = grown(this.#begins, new Uint32Array(length));
      this.#lengths = grown(this.#lengths, new Uint16Array(length));
    }
    this.#numbersEnd = Math.max(this.#numbersEnd, number + 1);
    if (this.#unitsEnd + units <= this.#units.length) return;
    // Where many units belong to terms that are gone, the others are closed up instead.
    const needed = Math.ceil(growth * (this.#unitsUsed + units));
    this.#closeUp(new Uint16Array(Math.max(needed, Math.min(this.#units.length, 2 * needed))));
  }

  #closeUp(units: Uint16Array): void {
    if (this.#unitsUsed === this.#unitsEnd) {
      this.#units = grown(this.#units, units);
      return;
    }
    let end = 0;
    for (let number = 0; number < this.#numbersEnd; number++) {
      const begin = this.#begins[number];
      const length = this.#lengths[number];
      this.#begins[number] = end;
      for (let i = 0; i < length; i++) units[end + i] = this.#units[begin + i];
      end += length;
    }
    this.#units = units;
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
