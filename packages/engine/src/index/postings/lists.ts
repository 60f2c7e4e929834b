// How do the postings of the newest records grow?
//
// The lists of posting-list-reader.ts, with what only their writer needs. What a chunk has no room for goes to the free list of its size.
//
// Invariants (see check): all slices of a list but the last are full, and the last is not empty; every place belongs to
// one slice of one list, or to one free slice, or lies behind `#top`.

import { Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import { type ArrayClass, sharedArray } from "../../base/shared-array.ts";

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
