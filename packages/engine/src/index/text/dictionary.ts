// How do terms get and lose their numbers?
//
// In flat columns (dictionary-reader.ts): a checkpoint writes them and a restore takes them over as they are, without touching a single term.
// A JavaScript Map of strings takes about the same time for a look-up and twice the memory, and has to be built key by key.
//
// No call takes long, however many terms there are: a dictionary of four million terms has 150 MB, and the thread that changes it also
// answers requests. So the columns grow by blocks; a checkpoint gets the blocks themselves, which are copied only where they change while
// it is written (`save`); and what must be moved is moved in steps, by the terms that are added:
//
//   - The slot of a term that is removed is marked as left, and another term may take it. When half of the slots are not free, new ones are
//     made, twice as many where terms need them. The old ones stay until all of them have moved. Nothing is removed from old slots. An old
//     slot may name a number that has moved, is free, or belongs to another term: a look-up compares the number's term, so its answer is right.
//   - When most units belong to terms that are gone, the others are copied behind the last ones, and then the blocks of before are free.
//
// Invariants (see check): each number in use is in exactly one slot, or in an old one that has not moved, and no free slot lies
// between that and the place of its hash; at most half of the slots are not free.

import { BlockColumn, blockGrowth, blockImages } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import { grownShared, sharedArray } from "../../base/shared-memory.ts";
import type { Steps } from "../../base/steps.ts";
import {
  type DictionaryColumns,
  DictionaryReader,
  hashOf,
  left,
  maskOf,
  wordBits,
} from "./dictionary-reader.ts";

const slotsMin = 1_024;
const unitsMin = 8 * slotsMin;

/** Old slots that move with a term that is added: they have all moved long before the new ones are to be doubled. */
const movedPerTerm = 8;

/** While units are closed up: so many numbers are looked at whenever so many terms were added. */
const closedUpPerStep = 4_096;
const addedPerStep = 256;

/** Numbers that are looked at in a step, where all are. */
export const numbersPerStep = 16_384;

/** What a checkpoint stores of a dictionary, besides its columns. */
export type DictionaryState = {
  readonly bits: number;
  readonly size: number;
  readonly numbersEnd: number;
  readonly slots: number;
  /** 0: no slots are being moved. */
  readonly old: number;
  readonly movedEnd: number;
  /** Slots that are not free. */
  readonly filled: number;
  /** Units in use of each block, those of terms that are gone included. */
  readonly units: readonly number[];
  /** Units are added to this block. */
  readonly block: number;
  readonly unitsUsed: number;
};

const noUnits = new Uint16Array(0);

export class Dictionary extends DictionaryReader {
  declare protected slots: BlockColumn<Uint32Array>;
  declare protected old: BlockColumn<Uint32Array> | null;
  declare protected hashes: BlockColumn<Uint32Array>;
  declare protected begins: BlockColumn<Uint32Array>;
  declare protected lengths: BlockColumn<Uint16Array>;
  /** Blocks without terms are empty. The next term's units go into `#block`, which ends at `#ends[#block]`. */
  declare protected units: Uint16Array[];
  /** Slots of `old` from here on have not moved. */
  #movedEnd = 0;
  #size = 0;
  /** Slots that are not free. */
  #filled = 0;
  #ends = [0];
  #block = 0;
  #unitsUsed = 0;
  /** While units are closed up: the next number, and the blocks that will be free. */
  #closing: { number: number; readonly blocks: ReadonlySet<number> } | undefined;
  #addedWhileClosing = 0;

  /** @param slots at first: a power of two; fewer in tests, as the bits of a block */
  constructor(slots = slotsMin, bits = wordBits) {
    const [hashes, begins] = [new BlockColumn(Uint32Array, bits), new BlockColumn(Uint32Array, bits)];
    const lengths = new BlockColumn(Uint16Array, bits);
    for (const column of [hashes, begins, lengths]) column.reserve(Math.min(slotsMin, 1 << bits));
    const units = [sharedArray(Uint16Array, Math.min(unitsMin, 2 << bits))];
    super({ bits, slots: slotColumn(bits, slots), old: null, hashes, begins, lengths, units, numbersEnd: 0 });
  }

  /** What another thread needs to look terms up as they are now. */
  get shared(): DictionaryColumns {
    const { bits, numbersEnd } = this;
    return {
      bits,
      slots: this.slots.shared,
      old: this.old === null ? null : this.old.shared,
      hashes: this.hashes.shared,
      begins: this.begins.shared,
      lengths: this.lengths.shared,
      units: [...this.units],
      numbersEnd,
    };
  }

  get size(): number {
    return this.#size;
  }

  /** Adds a term that is not there, under a number that has none. */
  add(term: string, number: number): void {
    invariant(term.length > 0 && term.length <= 0xffff, `a term of ${term.length} characters`);
    invariant(!this.isUsed(number), () => `number ${number} of "${term}" is that of another term`);
    if (number >= this.numbersEnd) {
      for (const column of [this.hashes, this.begins, this.lengths]) column.reserve(number + 1);
      this.numbersEnd = number + 1;
    }
    this.hashes.set(number, hashOf(term));
    this.begins.set(number, this.#write(term));
    this.lengths.set(number, term.length);
    this.#size++;
    if (2 * (this.#filled + 1) > this.slots.capacity) this.#makeSlots();
    this.#enter(number);
    this.#move(movedPerTerm);
    if (this.#closing !== undefined && ++this.#addedWhileClosing % addedPerStep === 0) this.#closeUp();
  }

  #makeSlots(): void {
    this.#move(Number.POSITIVE_INFINITY);
    this.old = this.slots;
    this.#movedEnd = 0;
    // Half of the slots or fewer had terms that were removed: as many will do.
    const { capacity } = this.old;
    this.slots = slotColumn(this.bits, 4 * this.#size > capacity ? 2 * capacity : capacity);
    this.#filled = 0;
    invariant(
      2 * this.#size <= this.slots.capacity,
      () => `${this.#size} terms are to move to ${this.slots.capacity} slots`,
    );
  }

  /** Forgets the term of a number. */
  remove(number: number): void {
    invariant(this.isUsed(number), () => `number ${number} is removed, and has no term`);
    const at = this.#slotOf(number, false);
    if (this.#slotAt(at) !== 0) this.slots.set(at, left);
    else invariant(this.old !== null, `number ${number} is in no slot`);
    this.#unitsUsed -= this.lengthOf(number);
    this.lengths.set(number, 0);
    this.#size--;
  }

  /** Whether a number has a term. */
  isUsed(number: number): boolean {
    return number < this.numbersEnd && this.lengthOf(number) > 0;
  }

  *entries(): Generator<[term: string, number: number]> {
    for (let number = 0; number < this.numbersEnd; number++)
      if (this.lengthOf(number) > 0) yield [this.termOf(number), number];
  }

  /** Numbers below the greatest in use that are free. */
  *freeNumbers(): Steps<number[]> {
    const free: number[] = [];
    for (let number = 0; number < this.numbersEnd; number++) {
      if (this.lengthOf(number) === 0) free.push(number);
      if (number % numbersPerStep === numbersPerStep - 1) yield;
    }
    return free;
  }

  get #held(): BlockColumn<Uint32Array | Uint16Array>[] {
    const columns = [this.slots, this.hashes, this.begins, this.lengths];
    return (this.old === null ? columns : [...columns, this.old]) as BlockColumn<Uint32Array>[];
  }

  /** What a checkpoint stores. The images are those of the columns, which stay as they are until `done`. */
  save(): { state: DictionaryState; images: Uint8Array[]; done(): void } {
    const { bits, numbersEnd } = this;
    const state = {
      bits,
      size: this.#size,
      numbersEnd,
      slots: this.slots.capacity,
      old: this.old?.capacity ?? 0,
      movedEnd: this.#movedEnd,
      filled: this.#filled,
      units: [...this.#ends],
      block: this.#block,
      unitsUsed: this.#unitsUsed,
    };
    const held = this.#held;
    const images = [
      ...this.slots.hold(state.slots),
      ...(this.old?.hold(state.old) ?? []),
      ...this.hashes.hold(numbersEnd),
      ...this.begins.hold(numbersEnd),
      ...this.lengths.hold(numbersEnd),
      // What is behind the end of a block is written to while the checkpoint is.
      ...this.units.map(({ buffer }, block) => new Uint8Array(buffer, 0, 2 * this.#ends[block])),
    ];
    const done = () => {
      for (const column of held) column.release();
    };
    return { state, images, done };
  }

  /** Memory for the images of a checkpoint. */
  static imagesFor({ bits, slots, old, numbersEnd, units }: DictionaryState): Uint8Array[] {
    return [
      ...blockImages(4, slots, bits),
      ...blockImages(4, old, bits),
      ...blockImages(4, numbersEnd, bits),
      ...blockImages(4, numbersEnd, bits),
      ...blockImages(2, numbersEnd, bits),
      ...units.map((length) => new Uint8Array(new SharedArrayBuffer(2 * length))),
    ];
  }

  /** Restores a dictionary from a checkpoint. @param images from `imagesFor`, filled from a checkpoint; the new object owns them */
  static restored(state: DictionaryState, images: readonly Uint8Array[]): Dictionary {
    const { bits, numbersEnd } = state;
    const dictionary = new Dictionary(1, bits);
    const rest = [...images];
    const take = (length: number) => rest.splice(0, Math.ceil(length / (1 << bits)));
    const words = (length: number) => new BlockColumn(Uint32Array, bits, take(length).map(wordsOf));
    dictionary.slots = words(state.slots);
    dictionary.old = state.old === 0 ? null : words(state.old);
    dictionary.#movedEnd = state.movedEnd;
    dictionary.hashes = words(numbersEnd);
    dictionary.begins = words(numbersEnd);
    dictionary.lengths = new BlockColumn(Uint16Array, bits, take(numbersEnd).map(unitsOf));
    dictionary.units = rest.map(unitsOf);
    dictionary.#ends = [...state.units];
    dictionary.#block = state.block;
    dictionary.#unitsUsed = state.unitsUsed;
    dictionary.#size = state.size;
    dictionary.#filled = state.filled;
    dictionary.numbersEnd = numbersEnd;
    invariant(
      rest.length === state.units.length && state.size <= numbersEnd && state.block < rest.length,
      `${state.size} terms of ${numbersEnd} numbers have ${rest.length} blocks, not ${state.units.length}`,
    );
    invariant(
      2 * state.filled <= state.slots && (state.old === 0 || state.movedEnd <= state.old),
      `${state.filled} of ${state.slots} slots are filled, and ${state.movedEnd} of ${state.old} have moved`,
    );
    return dictionary;
  }

  get memoryBytes(): number {
    const columns = this.#held.reduce((sum, column) => sum + column.memoryBytes, 0);
    return this.units.reduce((sum, block) => sum + block.byteLength, columns);
  }

  check(): void {
    this.#move(Number.POSITIVE_INFINITY);
    let terms = 0;
    let units = 0;
    for (const [term, number] of this.entries()) {
      terms++;
      units += term.length;
      invariant(this.get(term) === number, `"${term}" has number ${number}, and ${this.get(term)} is found`);
      const begin = this.beginOf(number);
      const end = this.placeOf(begin) + term.length;
      const blockEnd = this.#ends[begin >>> (this.bits + 1)];
      invariant(end <= blockEnd, () => `"${term}" ends at ${end} of ${blockEnd}`);
    }
    const slots = this.slots.blocks.flatMap((block) => [...block.filter((slot) => slot !== 0)]);
    const used = slots.filter((slot) => slot !== left).length;
    invariant(terms === this.#size && used === terms, `${terms} terms in ${used} slots, not ${this.#size}`);
    invariant(
      slots.length === this.#filled && 2 * this.#filled <= this.slots.capacity,
      `${slots.length} of ${this.slots.capacity} slots are not free, counted were ${this.#filled}`,
    );
    invariant(units === this.#unitsUsed, `terms have ${units} characters, not ${this.#unitsUsed}`);
  }

  #slotAt(at: number): number {
    return this.slots.blocks[at >>> this.bits][at & ((1 << this.bits) - 1)];
  }

  /** The slot of a number; or else the one where it would go, which is free, or was left where `takesLeft`. */
  #slotOf(number: number, takesLeft: boolean): number {
    const mask = maskOf(this.slots.blocks, this.bits);
    let vacant = -1;
    let at = this.hashes.blocks[number >>> this.bits][number & ((1 << this.bits) - 1)] & mask;
    for (let slot = this.#slotAt(at); slot !== 0 && slot !== number + 1; slot = this.#slotAt(at)) {
      if (slot === left && vacant < 0) vacant = at;
      at = (at + 1) & mask;
    }
    return takesLeft && vacant >= 0 && this.#slotAt(at) === 0 ? vacant : at;
  }

  /** Enters a number, unless it is there. */
  #enter(number: number): void {
    const at = this.#slotOf(number, true);
    const slot = this.#slotAt(at);
    if (slot === number + 1) return;
    if (slot === 0) this.#filled++;
    this.slots.set(at, number + 1);
  }

  /** Moves the given number of old slots. */
  #move(count: number): void {
    const old = this.old;
    if (old === null) return;
    const end = Math.min(old.capacity, this.#movedEnd + count);
    for (; this.#movedEnd < end; this.#movedEnd++) {
      const slot = old.blocks[this.#movedEnd >>> this.bits][this.#movedEnd & ((1 << this.bits) - 1)];
      if (slot !== 0 && slot !== left && this.lengthOf(slot - 1) > 0) this.#enter(slot - 1);
    }
    if (end < old.capacity) return;
    this.old = null;
    // The term that is being added may not have a slot yet.
    invariant(
      this.#filled + 1 >= this.#size,
      () => `all slots have moved, and ${this.#filled} have ${this.#size} terms`,
    );
  }

  /** Writes the units of a term. @returns where they begin */
  #write(term: string): number {
    const begin = this.#reserve(term.length);
    const units = this.units[this.#block];
    for (let i = 0; i < term.length; i++) units[begin + i] = term.charCodeAt(i);
    return this.#block * (2 << this.bits) + begin;
  }

  /** Takes room for the given number of units in one block. @returns the place in `#block` */
  #reserve(units: number): number {
    const full = 2 << this.bits;
    invariant(units <= full, `a term of ${units} characters`);
    if (this.#ends[this.#block] + units > this.units[this.#block].length) {
      if (this.#closing === undefined && this.#isSparse) this.#beginClosingUp();
      else if (this.#ends[this.#block] + units > full) this.#beginBlock();
    }
    const begin = this.#ends[this.#block];
    const end = begin + units;
    const block = this.units[this.#block];
    if (end > block.length) {
      const longer = Math.min(full, Math.max(Math.ceil(blockGrowth * block.length), end));
      this.units[this.#block] = grownShared(Uint16Array, block, longer);
    }
    this.#ends[this.#block] = end;
    this.#unitsUsed += units;
    return begin;
  }

  /** Whether most units belong to terms that are gone. */
  get #isSparse(): boolean {
    const units = this.#ends.reduce((sum, end) => sum + end, 0);
    return units >= unitsMin && 2 * this.#unitsUsed < units;
  }

  #beginBlock(): void {
    const free = this.units.findIndex(({ length }) => length === 0);
    this.#block = free < 0 ? this.units.length : free;
    invariant(this.#block < 2 ** (31 - this.bits), "a dictionary is full: it has 2^32 places for characters");
    const full = 2 << this.bits;
    const first = Math.max(unitsMin, Math.min(full >>> 3, this.#unitsUsed));
    this.units[this.#block] = sharedArray(Uint16Array, Math.min(full, first));
    this.#ends[this.#block] = 0;
  }

  #beginClosingUp(): void {
    const blocks = new Set<number>();
    for (const [block, { length }] of this.units.entries()) if (length > 0) blocks.add(block);
    this.#beginBlock();
    this.#closing = { number: 0, blocks };
  }

  /** Copies the units of some terms behind the last ones, and frees the blocks of before when all were copied. */
  #closeUp(): void {
    const closing = this.#closing;
    if (closing === undefined) return;
    const end = Math.min(this.numbersEnd, closing.number + closedUpPerStep);
    let copied = -1;
    for (; closing.number < end; closing.number++) {
      const { number } = closing;
      const length = this.lengthOf(number);
      const from = length === 0 ? 0 : this.beginOf(number);
      if (length === 0 || !closing.blocks.has(from >>> (this.bits + 1))) continue;
      // Readers of the old units go by the old begins.
      if (copied !== number >>> this.bits) {
        copied = number >>> this.bits;
        this.begins.copied(copied);
      }
      const units = this.blockOf(from);
      const at = this.placeOf(from);
      const to = this.#reserve(length);
      this.#unitsUsed -= length;
      this.units[this.#block].set(units.subarray(at, at + length), to);
      this.begins.set(number, this.#block * (2 << this.bits) + to);
    }
    if (end < this.numbersEnd) return;
    invariant(!closing.blocks.has(this.#block), "the block that gets units is among those that are freed");
    for (const block of closing.blocks) {
      this.units[block] = noUnits;
      this.#ends[block] = 0;
    }
    this.#closing = undefined;
  }
}

const slotColumn = (bits: number, slots: number): BlockColumn<Uint32Array> =>
  new BlockColumn(Uint32Array, bits, blockImages(4, slots, bits).map(wordsOf));

const wordsOf = ({ buffer, byteOffset, length }: Uint8Array): Uint32Array =>
  new Uint32Array(buffer, byteOffset, length / 4);
const unitsOf = ({ buffer, byteOffset, length }: Uint8Array): Uint16Array =>
  new Uint16Array(buffer, byteOffset, length / 2);
