// How do terms get and lose their numbers?
//
// In flat columns (dictionary-reader.ts): a checkpoint writes them and a restore takes them over as they are, without touching a single term.
// A JavaScript Map of strings takes about the same time for a look-up and twice the memory, and has to be built key by key.
//
// The slot of a term that is removed is marked as left, and another term may take it. When half of the slots are not free, new ones are
// made, twice as many where terms need them. The old ones stay, and each added term moves some of them: rehashing four million terms at
// once takes half a second, in which the thread would answer nothing else. Nothing is removed from old slots. An old slot may name a
// number that has moved, is free, or belongs to another term: a look-up compares the number's term, so its answer is right.
//
// Invariants (see check): each number in use is in exactly one slot, or in an old one that has not moved, and no free slot lies
// between that and the place of its hash; at most half of the slots are not free.

import { invariant } from "../../base/invariant.ts";
import { grownShared, sharedArray } from "../../base/shared-array.ts";
import { columnsFor, DictionaryReader, hashOf, left, type SharedDictionary } from "./dictionary-reader.ts";

const slotsMin = 1_024;
/** Full columns grow by this fraction, so less than this is unused. */
const growth = 1.25;

/** Old slots that move with a term that is added: they have all moved long before the new ones are to be doubled. */
const movedPerTerm = 8;

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
    const { slots, old, hashes, begins, lengths, units, numbersEnd } = this;
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
    return number < this.numbersEnd && this.lengths[number] > 0;
  }

  *entries(): Generator<[term: string, number: number]> {
    for (let number = 0; number < this.numbersEnd; number++)
      if (this.lengths[number] > 0) yield [this.termOf(number), number];
  }

  /** Numbers below the greatest in use that are free. */
  freeNumbers(): number[] {
    const free: number[] = [];
    for (let number = 0; number < this.numbersEnd; number++)
      if (this.lengths[number] === 0) free.push(number);
    return free;
  }

  /** What a checkpoint stores. The columns are copies, in shared memory. */
  save(): { state: DictionaryState; columns: Uint8Array[] } {
    this.#move(Number.POSITIVE_INFINITY);
    const state = {
      size: this.#size,
      numbersEnd: this.numbersEnd,
      unitsEnd: this.#unitsEnd,
      unitsUsed: this.#unitsUsed,
      slots: this.slots.length,
      filled: this.#filled,
    };
    const columns = columnsFor(state);
    columns.forEach((column, i) => {
      const { buffer, byteOffset } = this.#columns[i];
      column.set(new Uint8Array(buffer, byteOffset, column.length));
    });
    return { state, columns };
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
    dictionary.numbersEnd = state.numbersEnd;
    dictionary.#unitsEnd = state.unitsEnd;
    dictionary.#unitsUsed = state.unitsUsed;
    return dictionary;
  }

  get #columns(): readonly (Uint32Array | Uint16Array)[] {
    return [this.slots, this.hashes, this.begins, this.lengths, this.units];
  }

  get memoryBytes(): number {
    return this.#columns.reduce((sum, column) => sum + column.byteLength, this.old?.byteLength ?? 0);
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
    const slots = this.slots.filter((slot) => slot !== 0);
    const used = slots.filter((slot) => slot !== left).length;
    invariant(terms === this.#size && used === terms, `${terms} terms in ${used} slots, not ${this.#size}`);
    invariant(
      slots.length === this.#filled && 2 * this.#filled <= this.slots.length,
      `${slots.length} of ${this.slots.length} slots are not free, counted were ${this.#filled}`,
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
      this.hashes = grownShared(Uint32Array, this.hashes, length);
      this.begins = grownShared(Uint32Array, this.begins, length);
      this.lengths = grownShared(Uint16Array, this.lengths, length);
    }
    this.numbersEnd = Math.max(this.numbersEnd, number + 1);
    if (this.#unitsEnd + units <= this.units.length) return;
    // Where many units belong to terms that are gone, the others are closed up instead.
    const needed = Math.ceil(growth * (this.#unitsUsed + units));
    this.#closeUp(Math.max(needed, Math.min(this.units.length, 2 * needed)));
  }

  #closeUp(length: number): void {
    if (this.#unitsUsed === this.#unitsEnd) {
      this.units = grownShared(Uint16Array, this.units, length);
      return;
    }
    const units = sharedArray(Uint16Array, length);
    // Readers of the old units go by the old begins.
    const begins = sharedArray(Uint32Array, this.begins.length);
    let end = 0;
    for (let number = 0; number < this.numbersEnd; number++) {
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
