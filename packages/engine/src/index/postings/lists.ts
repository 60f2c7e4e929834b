// Where are the postings of the newest records stored?
//
// A posting is a record's slot (see mutable-buffer.ts) and a number: a weight (f32) of a sparse vector, or how often a
// term occurs (u32). The postings of one dimension or term are a *list*, in the order in which they were appended. There
// are many lists and most are short, so a list is no object: all share one pool of typed arrays, in which a list is a
// chain of *slices*:
//
//   slots | next slice | slot | slot | ... |        values | number of slice | value | value | ... |
//
// Slice i of a list takes 4 * 2^min(floor(i / 2), 10) places, header included, so that at most a third of a long list
// is unused. What a chunk has no room for goes to the free list of its size. A position is chunk * 65,536 + place in
// the chunk; no slice crosses chunks. The scheme is that of in-memory inversion with linked blocks (Zobel and Moffat,
// Inverted Files for Text Search Engines, ACM Computing Surveys 38(2), 2006, section 5) with sizes after Lucene's.
//
// Invariants (see check): all slices of a list but the last are full, and the last is not empty; every place belongs to
// one slice of one list, or to one free slice, or lies behind `#top`.

import { Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";

type Values = Float32Array | Uint32Array;
type MakeValues<V extends Values> = new (length: number) => V;

/** No position: the end of a chain. */
const none = 0xffff_ffff;

const chunkBits = 16;
const chunkLength = 1 << chunkBits;
const chunkMask = chunkLength - 1;
/** The first chunk begins small and doubles: most collections are. */
const firstChunkLength = 256;
const sizeClasses = 11;

const sizeClassOf = (slice: number): number => Math.min(slice >> 1, sizeClasses - 1);
const sliceLength = (sizeClass: number): number => 4 << sizeClass;

/** A list as returned by `read`: the first `count` entries of both arrays, valid until the next call. */
export type PostingsRead<V extends Values> = {
  count: number;
  slots: Uint32Array;
  values: V;
};

/** `new Postings(Float32Array)` holds weights, `new Postings(Uint32Array)` frequencies. */
export class Postings<V extends Values> {
  readonly #make: MakeValues<V>;
  readonly #slots: Uint32Array[] = [];
  readonly #values: V[] = [];
  /** The position after everything that was ever allocated. */
  #top = 0;
  readonly #free = new Uint32Array(sizeClasses).fill(none);
  // Of each list: its first and last slice, where its next posting goes, and its length.
  readonly #heads = new Growable(Uint32Array);
  readonly #lasts = new Growable(Uint32Array);
  readonly #ends = new Growable(Uint32Array);
  readonly #counts = new Growable(Uint32Array);
  readonly #read: PostingsRead<V>;
  #total = 0;

  constructor(make: MakeValues<V>) {
    this.#make = make;
    this.#read = { count: 0, slots: new Uint32Array(64), values: new make(64) };
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
    this.#heads.push(none);
    this.#lasts.push(none);
    this.#ends.push(none);
    this.#counts.push(0);
    return this.#heads.length - 1;
  }

  /** Appends a posting. */
  append(list: number, slot: number, value: number): void {
    const last = this.#lasts.values[list];
    if (last === none || this.#ends.values[list] === last + this.#lengthOf(last)) this.#addSlice(list);
    const at = this.#ends.values[list]++;
    this.#slots[at >>> chunkBits][at & chunkMask] = slot;
    this.#values[at >>> chunkBits][at & chunkMask] = value;
    this.#counts.values[list]++;
    this.#total++;
  }

  /** Copies a list, so that loops use plain arrays. The next call overwrites the result. */
  read(list: number): PostingsRead<V> {
    const read = this.#read;
    read.count = this.lengthOf(list);
    if (read.slots.length < read.count) {
      const capacity = Math.max(read.count, 2 * read.slots.length);
      read.slots = new Uint32Array(capacity);
      read.values = new this.#make(capacity);
    }
    let done = 0;
    for (let slice = this.#heads.values[list]; slice !== none; slice = this.#nextOf(slice)) {
      const from = (slice & chunkMask) + 1;
      const length = Math.min(this.#lengthOf(slice) - 1, read.count - done);
      const slots = this.#slots[slice >>> chunkBits];
      const values = this.#values[slice >>> chunkBits];
      // Slices are short, and a view of one takes longer to make than it takes to copy.
      for (let i = 0; i < length; i++) {
        read.slots[done + i] = slots[from + i];
        read.values[done + i] = values[from + i];
      }
      done += length;
    }
    return read;
  }

  get memoryBytes(): number {
    const columns = [this.#heads, this.#lasts, this.#ends, this.#counts];
    let bytes = columns.reduce((sum, column) => sum + column.memoryBytes, 0);
    for (const chunk of this.#slots) bytes += 2 * chunk.byteLength;
    return bytes + 2 * this.#read.slots.byteLength;
  }

  close(): void {
    this.#slots.length = 0;
    this.#values.length = 0;
    for (const column of [this.#heads, this.#lasts, this.#ends, this.#counts]) column.truncate(0);
    this.#free.fill(none);
    this.#top = 0;
    this.#total = 0;
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
    for (let slice = this.#heads.values[list]; slice !== none; slice = this.#nextOf(slice)) {
      const capacity = this.#lengthOf(slice) - 1;
      invariant(this.#numberOf(slice) === number++, `list ${list} has slices out of order`);
      invariant(left > 0, `list ${list} ends with an empty slice`);
      own(slice, capacity + 1, `list ${list}`);
      if (left <= capacity) {
        const end = slice + 1 + left;
        invariant(this.#ends.values[list] === end, `list ${list} has a wrong place for its next posting`);
        invariant(this.#lasts.values[list] === slice, `list ${list} has a wrong last slice`);
      }
      left -= Math.min(left, capacity);
    }
    invariant(left === 0, `list ${list} lacks ${left} of its ${count} postings`);
  }

  #setEnds(list: number, head: number, last: number, end: number): void {
    this.#heads.values[list] = head;
    this.#lasts.values[list] = last;
    this.#ends.values[list] = end;
  }

  #addSlice(list: number): void {
    const last = this.#lasts.values[list];
    const number = last === none ? 0 : this.#numberOf(last) + 1;
    const slice = this.#take(sizeClassOf(number));
    this.#slots[slice >>> chunkBits][slice & chunkMask] = none;
    this.#values[slice >>> chunkBits][slice & chunkMask] = number;
    if (last !== none) this.#slots[last >>> chunkBits][last & chunkMask] = slice;
    this.#setEnds(list, last === none ? slice : this.#heads.values[list], slice, slice + 1);
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
    invariant(slice + length < none, "an inverted index is full: it has 2^32 places for postings");
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
    if (number === this.#slots.length) {
      const initial = number === 0 ? firstChunkLength : chunkLength;
      this.#slots.push(new Uint32Array(initial));
      this.#values.push(new this.#make(initial));
    }
    while (this.#slots[number].length < needed) {
      const slots = new Uint32Array(2 * this.#slots[number].length);
      const values = new this.#make(slots.length);
      slots.set(this.#slots[number]);
      values.set(this.#values[number]);
      this.#slots[number] = slots;
      this.#values[number] = values;
    }
  }

  #setFree(slice: number, sizeClass: number): void {
    this.#slots[slice >>> chunkBits][slice & chunkMask] = this.#free[sizeClass];
    this.#free[sizeClass] = slice;
  }

  #nextOf(slice: number): number {
    return this.#slots[slice >>> chunkBits][slice & chunkMask];
  }

  #numberOf(slice: number): number {
    return this.#values[slice >>> chunkBits][slice & chunkMask];
  }

  /** Places of a slice of a list, header included. */
  #lengthOf(slice: number): number {
    return sliceLength(sizeClassOf(this.#numberOf(slice)));
  }
}
