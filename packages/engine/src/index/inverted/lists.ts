// How do the postings of the newest records grow?
//
// The lists of posting-list-reader.ts, with what only their writer needs. What a chunk has no room for goes to the free list of its size.
//
// Invariants (see check): all slices of a list but the last are full, and the last is not empty; every place belongs to
// one slice of one list, or to one free slice, or lies behind `#top`.

import { Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import { type ArrayClass, grownShared, sharedArray } from "../../base/shared-memory.ts";
import {
  chunkBits,
  chunkLength,
  chunkMask,
  linkTo,
  none,
  PostingListReader,
  type SharedPostings,
  sizeClasses,
  sizeClassOf,
  sliceAt,
  sliceLength,
  type Values,
} from "./posting-list-reader.ts";

/** The first chunk begins small and doubles: most collections are. */
const firstChunkLength = 256;

/** `new Postings(Float32Array)` holds weights, `new Postings(Uint32Array)` frequencies. */
export class Postings<V extends Values> extends PostingListReader<V> {
  readonly #makeShared: (length: number) => V;
  /** The position behind everything that was ever handed out. */
  #top = 0;
  readonly #free = new Array<number>(sizeClasses).fill(none);
  readonly #heads: Growable<Uint32Array>;
  readonly #counts: Growable<Uint32Array>;
  // Of each list: its last slice, and where its next posting goes.
  readonly #lasts = new Growable(Uint32Array);
  readonly #ends = new Growable(Uint32Array);
  #total = 0;

  constructor(make: ArrayClass<V> & (new (length: number) => V)) {
    const heads = new Growable(Uint32Array, 16, true);
    const counts = new Growable(Uint32Array, 16, true);
    super(make, { slots: [], values: [], heads, counts });
    this.#heads = heads;
    this.#counts = counts;
    this.#makeShared = (length) => sharedArray(make, length);
  }

  get shared(): SharedPostings<V> {
    const { slots, values } = this;
    return {
      slots: [...slots],
      values: [...values],
      heads: this.#heads.values,
      counts: this.#counts.values,
    };
  }

  /** Postings in all lists. */
  get total(): number {
    return this.#total;
  }

  /** Numbers of lists are below this. */
  get listsEnd(): number {
    return this.#heads.length;
  }

  lengthOf(list: number): number {
    return this.#counts.values[list];
  }

  /** Makes an empty list and returns its number. */
  create(): number {
    this.#heads.push(linkTo(none));
    this.#lasts.push(linkTo(none));
    this.#ends.push(0);
    this.#counts.push(0);
    return this.#heads.length - 1;
  }

  /** Appends a posting. */
  append(list: number, slot: number, value: number): void {
    const last = sliceAt(this.#lasts.values[list]);
    if (last === none || this.#ends.values[list] === last + this.#lengthOf(last)) this.#addSlice(list);
    const at = this.#ends.values[list]++;
    this.slots[at >>> chunkBits][at & chunkMask] = slot + 1;
    this.values[at >>> chunkBits][at & chunkMask] = value;
    this.#counts.values[list]++;
    this.#total++;
  }

  get memoryBytes(): number {
    const columns = [this.#heads, this.#lasts, this.#ends, this.#counts];
    let bytes = columns.reduce((sum, column) => sum + column.memoryBytes, 0);
    for (const chunk of this.slots) bytes += 2 * chunk.byteLength;
    return bytes + this.readBytes;
  }

  check(): void {
    const owners = new Map<number, string>();
    let places = 0;
    const own = (slice: number, length: number, owner: string): void => {
      invariant(slice + length <= this.#top, `a slice of ${owner} at ${slice} was never allocated`);
      invariant(!owners.has(slice), `the slice at ${slice} belongs to ${owners.get(slice)} and ${owner}`);
      owners.set(slice, owner);
      places += length;
    };
    let total = 0;
    for (let list = 0; list < this.listsEnd; list++) {
      total += this.lengthOf(list);
      this.#checkList(list, own);
    }
    invariant(total === this.#total, `the lists have ${total} postings, counted were ${this.#total}`);
    for (let sizeClass = 0; sizeClass < sizeClasses; sizeClass++) {
      for (let slice = this.#free[sizeClass]; slice !== none; slice = this.#nextOf(slice))
        own(slice, sliceLength(sizeClass), "the free slices");
    }
    invariant(places === this.#top, `slices cover ${places} of ${this.#top} places`);
  }

  #checkList(list: number, own: (slice: number, length: number, owner: string) => void): void {
    const count = this.lengthOf(list);
    let left = count;
    let number = 0;
    for (let slice = sliceAt(this.#heads.values[list]); slice !== none; slice = this.#nextOf(slice)) {
      const capacity = this.#lengthOf(slice) - 1;
      invariant(this.#numberOf(slice) === number++, `list ${list} has slices out of order`);
      invariant(left > 0, `list ${list} ends with an empty slice`);
      own(slice, capacity + 1, `list ${list}`);
      if (left <= capacity) {
        const end = slice + 1 + left;
        invariant(this.#ends.values[list] === end, `list ${list} has a wrong place for its next posting`);
        invariant(sliceAt(this.#lasts.values[list]) === slice, `list ${list} has a wrong last slice`);
      }
      left -= Math.min(left, capacity);
    }
    invariant(left === 0, `list ${list} lacks ${left} of its ${count} postings`);
  }

  #addSlice(list: number): void {
    const last = sliceAt(this.#lasts.values[list]);
    const number = last === none ? 0 : this.#numberOf(last) + 1;
    const slice = this.#take(sizeClassOf(number));
    this.#setNext(slice, none);
    this.values[slice >>> chunkBits][slice & chunkMask] = number;
    if (last !== none) this.#setNext(last, slice);
    else this.#heads.values[list] = linkTo(slice);
    this.#lasts.values[list] = linkTo(slice);
    this.#ends.values[list] = slice + 1;
  }

  /** A slice of a size: a free one, or from the top. */
  #take(sizeClass: number): number {
    const free = this.#free[sizeClass];
    if (free !== none) {
      this.#free[sizeClass] = this.#nextOf(free);
      return free;
    }
    const length = sliceLength(sizeClass);
    const room = chunkLength - (this.#top & chunkMask);
    if (room < length) this.#freeRoom(room);
    const slice = this.#top;
    invariant(slice + length < 0xffff_ffff, "an inverted index is full: it has 2^32 places for postings");
    this.#reserve(slice, length);
    this.#top += length;
    return slice;
  }

  /** Turns the rest of the chunk at the top into free slices. */
  #freeRoom(room: number): void {
    let left = room;
    for (let sizeClass = sizeClasses - 1; sizeClass >= 0; sizeClass--) {
      for (; left >= sliceLength(sizeClass); left -= sliceLength(sizeClass)) {
        this.#reserve(this.#top, sliceLength(sizeClass));
        this.#setFree(this.#top, sizeClass);
        this.#top += sliceLength(sizeClass);
      }
    }
  }

  /** Ensures that memory is allocated for the positions from `at` on, which are in one chunk. */
  #reserve(at: number, length: number): void {
    const number = at >>> chunkBits;
    const needed = (at & chunkMask) + length;
    if (number === this.slots.length) {
      const initial = number === 0 ? firstChunkLength : chunkLength;
      this.slots.push(sharedArray(Uint32Array, initial));
      this.values.push(this.#makeShared(initial));
    }
    while (this.slots[number].length < needed) {
      const slots = sharedArray(Uint32Array, 2 * this.slots[number].length);
      const values = this.#makeShared(slots.length);
      slots.set(this.slots[number]);
      values.set(this.values[number]);
      this.slots[number] = slots;
      this.values[number] = values;
    }
    invariant(
      number < this.slots.length && needed <= this.values[number].length,
      () => `the places up to ${needed} of chunk ${number} are not allocated`,
    );
  }

  #setFree(slice: number, sizeClass: number): void {
    this.#setNext(slice, this.#free[sizeClass]);
    this.#free[sizeClass] = slice;
  }

  #nextOf(slice: number): number {
    return sliceAt(this.slots[slice >>> chunkBits][slice & chunkMask]);
  }

  #setNext(slice: number, next: number): void {
    this.slots[slice >>> chunkBits][slice & chunkMask] = linkTo(next);
  }

  #numberOf(slice: number): number {
    return this.values[slice >>> chunkBits][slice & chunkMask];
  }

  /** Places of a slice of a list, header included. */
  #lengthOf(slice: number): number {
    return sliceLength(sizeClassOf(this.#numberOf(slice)));
  }
}

// ---- Which list of the mutable buffer does a term have?
//
// Numbers of terms and most dimensions are small: arrays have them, at a third of the time of a Map, one for each block of numbers that has
// a list. Others go to a table with open addressing and linear probing, half full at most. Its hash has a random seed, so that nobody can
// choose dimensions that all collide.
//
// All lie in shared memory. Lists are set once and never moved in place: growth replaces the first array or the table. A thread that was
// given them finds each list that was set by then. Of a list that is set later it may read the term and no list yet, which is 0, or the
// list, whose postings are all too young for it.

const arrayMax = 2 ** 22;
const blockBits = 16;
const inBlock = 2 ** blockBits - 1;
const firstMin = 1_024;
const tableMin = 16;

/** What another thread needs to look lists up. Can be posted to it. */
export type SharedTermLists = {
  readonly arrays: readonly (Uint32Array | undefined)[];
  readonly table: Uint32Array;
  readonly seed: number;
};

/** The lists of terms, for reading. */
export class TermListReader {
  /** By block of terms, and there by term: the number of its list and 1; 0 for none. */
  protected readonly arrays: readonly (Uint32Array | undefined)[];
  /** Pairs: a term, and the number of its list and 1; 0 for none. */
  protected table: Uint32Array;
  protected readonly seed: number;

  constructor({ arrays, table, seed }: SharedTermLists) {
    this.arrays = arrays;
    this.table = table;
    this.seed = seed;
  }

  /** The list of a term, or -1. */
  get(term: number): number {
    if (term >= arrayMax) return this.table[this.place(term) + 1] - 1;
    return (this.arrays[term >>> blockBits]?.[term & inBlock] ?? 0) - 1;
  }

  /** Where in the table a term is, or would go. */
  protected place(term: number): number {
    const { table } = this;
    const mask = table.length / 2 - 1;
    // The finalizer of MurmurHash3.
    let hash = term ^ this.seed;
    hash = Math.imul(hash ^ (hash >>> 16), 0x85eb_ca6b);
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2_ae35);
    let at = (hash ^ (hash >>> 16)) & mask;
    while (table[2 * at] !== 0 && table[2 * at] !== term) at = (at + 1) & mask;
    return 2 * at;
  }
}

export class TermLists extends TermListReader {
  declare protected readonly arrays: (Uint32Array | undefined)[];
  readonly #terms: number[] = [];
  #inTable = 0;

  constructor() {
    super({
      arrays: [sharedArray(Uint32Array, firstMin)],
      table: sharedArray(Uint32Array, 2 * tableMin),
      seed: Math.floor(Math.random() * 2 ** 32),
    });
  }

  get shared(): SharedTermLists {
    const { arrays, table, seed } = this;
    return { arrays: [...arrays], table, seed };
  }

  get size(): number {
    return this.#terms.length;
  }

  /** Sets the list of a term that has none. */
  set(term: number, list: number): void {
    invariant(this.get(term) < 0, () => `term ${term} has a list already`);
    this.#terms.push(term);
    if (term >= arrayMax) {
      this.#setInTable(term, list);
      return;
    }
    this.#arrayOf(term)[term & inBlock] = list + 1;
  }

  #arrayOf(term: number): Uint32Array {
    const block = term >>> blockBits;
    const known = this.arrays[block];
    if (known !== undefined && (term & inBlock) < known.length) return known;
    const full = inBlock + 1;
    const array =
      known === undefined
        ? sharedArray(Uint32Array, full)
        : grownShared(Uint32Array, known, Math.min(full, 2 * term + 1));
    this.arrays[block] = array;
    return array;
  }

  #setInTable(term: number, list: number): void {
    if (4 * ++this.#inTable > this.table.length) {
      const before = this.table;
      this.table = sharedArray(Uint32Array, 2 * before.length);
      for (let at = 0; at < before.length; at += 2) {
        if (before[at] === 0) continue;
        const place = this.place(before[at]);
        this.table[place] = before[at];
        this.table[place + 1] = before[at + 1];
      }
    }
    invariant(
      4 * this.#inTable <= this.table.length,
      () => `a table of ${this.table.length / 2} places has ${this.#inTable} terms`,
    );
    const place = this.place(term);
    // Who reads meanwhile finds the term without a list, or with this one.
    this.table[place] = term;
    this.table[place + 1] = list + 1;
  }

  /** In the order in which they were set. */
  get terms(): readonly number[] {
    return this.#terms;
  }

  get memoryBytes(): number {
    const arrays = this.arrays.reduce((sum, array) => sum + (array?.byteLength ?? 0), 0);
    return arrays + this.table.byteLength + 8 * this.#terms.length;
  }
}
