// Which records are in no segment yet?
//
// The newest records of an index, at most a few thousand. A mutable buffer has plain arrays of slots and values by term; searches
// find a record as soon as it is added. Slots count from 0, by ascending ordinal, and are not reused. When the buffer is long enough,
// the index freezes all of it into a segment, without the removed records, and starts an empty one.
//
// Everything but the marks of removed records lies in shared memory and is only appended to. A thread that was told how many slots
// there are and which of them were removed reads the buffer as it was then (`BufferReader`), whatever the owner appends or removes.

import { type Column, Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import type { ArrayClass } from "../../base/shared-memory.ts";
import { firstFrom } from "../ordinal-sets.ts";
import { Postings, type SharedTermLists, TermListReader, TermLists } from "./lists.ts";
import { PostingListReader, type PostingsRead, type SharedPostings } from "./posting-list-reader.ts";

type Values = Float32Array | Uint32Array;
type MakeValues<V extends Values> = ArrayClass<V> & (new (length: number) => V);

/** A mutable buffer as it is at a moment. Can be posted to another thread. */
export type SharedBuffer = {
  readonly ordinals: Column;
  readonly lengths: Column;
  /** By slot: 1 where it was removed; null: none was. */
  readonly removed: Uint8Array | null;
  readonly count: number;
  readonly lists: SharedTermLists;
  readonly postings: SharedPostings<Values>;
};

/** A mutable buffer, for reading. */
export class BufferReader<V extends Values = Values> {
  /** By slot. */
  readonly ordinals: Column;
  /** By slot: the length of a text. */
  readonly lengths: Column;
  /** By slot: 1 where it was removed. */
  readonly removed: { readonly values: Uint8Array };
  protected readonly postingReader: PostingListReader<V>;
  protected readonly listReader: TermListReader;
  protected removedCount: number;

  protected constructor(
    columns: { ordinals: Column; lengths: Column; removed: { readonly values: Uint8Array } },
    postings: PostingListReader<V>,
    lists: TermListReader,
    removedCount = 0,
  ) {
    this.ordinals = columns.ordinals;
    this.lengths = columns.lengths;
    this.removed = columns.removed;
    this.postingReader = postings;
    this.listReader = lists;
    this.removedCount = removedCount;
  }

  /** The mutable buffer of another thread. @param isText whether its postings have frequencies */
  static attach(shared: SharedBuffer, isText: boolean): BufferReader {
    const { ordinals, lengths, removed, count, lists } = shared;
    invariant(
      lengths.length === ordinals.length && count >= 0 && count <= ordinals.length,
      () => `a buffer of ${ordinals.length} records has ${lengths.length} lengths, and ${count} are left`,
    );
    invariant(
      removed === null ? count === ordinals.length : removed.length === ordinals.length,
      () =>
        `a buffer of ${ordinals.length} records tells of ${removed?.length ?? 0} whether they were removed`,
    );
    const make: MakeValues<Values> = isText ? Uint32Array : Float32Array;
    return new BufferReader<Values>(
      { ordinals, lengths, removed: { values: removed ?? new Uint8Array(ordinals.length) } },
      PostingListReader.attach<Values>(make, shared.postings),
      new TermListReader(lists),
      ordinals.length - count,
    );
  }

  /** Records that were not removed. */
  get count(): number {
    return this.ordinals.length - this.removedCount;
  }

  /** Slots are below this. */
  get slotsEnd(): number {
    return this.ordinals.length;
  }

  /** The slot of a record that was not removed, or -1. */
  slotOf(ordinal: number): number {
    const { values, length } = this.ordinals;
    const slot = firstFrom(values, ordinal, length);
    return slot < length && values[slot] === ordinal && !this.isRemoved(slot) ? slot : -1;
  }

  isRemoved(slot: number): boolean {
    return this.removed.values[slot] === 1;
  }

  /** The list of a term, or -1. */
  listOf(term: number): number {
    // At rest it is empty, and a search asks for each of its terms.
    return this.ordinals.length === 0 ? -1 : this.listReader.get(term);
  }

  /** Copies a list out, those of removed records included. The answer is overwritten by the next call. */
  read(list: number): PostingsRead<V> {
    return this.postingReader.read(list, this.ordinals.length);
  }
}

export class MutableBuffer<V extends Values = Values> extends BufferReader<V> {
  readonly postings: Postings<V>;
  /** Term -> list. */
  readonly lists: TermLists;
  readonly #ordinals: Growable<Uint32Array>;
  readonly #lengths: Growable<Uint32Array>;
  readonly #removed: Growable<Uint8Array>;

  constructor(make: MakeValues<V>) {
    const ordinals = new Growable(Uint32Array, 16, true);
    const lengths = new Growable(Uint32Array, 16, true);
    const removed = new Growable(Uint8Array);
    const postings = new Postings(make);
    const lists = new TermLists();
    super({ ordinals, lengths, removed }, postings, lists);
    this.postings = postings;
    this.lists = lists;
    this.#ordinals = ordinals;
    this.#lengths = lengths;
    this.#removed = removed;
  }

  /** What another thread needs to read the buffer as it is now. */
  get shared(): SharedBuffer {
    return {
      ordinals: this.#ordinals.column,
      lengths: this.#lengths.column,
      removed: this.removedCount === 0 ? null : this.#removed.values.slice(0, this.slotsEnd),
      count: this.count,
      lists: this.lists.shared,
      postings: this.postings.shared,
    };
  }

  /** Begins a record; its postings are appended next. @returns its slot */
  add(ordinal: number, length: number): number {
    const slot = this.#ordinals.length;
    invariant(
      slot === 0 || ordinal > this.#ordinals.values[slot - 1],
      () => `ordinal ${ordinal} is added to a buffer behind ${this.#ordinals.values[slot - 1]}`,
    );
    this.#ordinals.push(ordinal);
    this.#lengths.push(length);
    this.#removed.push(0);
    return slot;
  }

  /** @returns whether the term is new to the mutable buffer */
  append(term: number, slot: number, value: number): boolean {
    const list = this.lists.get(term);
    if (list >= 0) {
      this.postings.append(list, slot, value);
      return false;
    }
    const made = this.postings.create();
    invariant(made === this.lists.size, () => `the list ${made} is of the term number ${this.lists.size}`);
    this.lists.set(term, made);
    this.postings.append(made, slot, value);
    return true;
  }

  /** Removes a record that is there. */
  remove(ordinal: number): void {
    const slot = this.slotOf(ordinal);
    invariant(slot >= 0, `ordinal ${ordinal} is removed from a mutable buffer that does not have it`);
    this.#removed.values[slot] = 1;
    this.removedCount++;
  }

  get memoryBytes(): number {
    const columns = [this.#ordinals, this.#lengths, this.#removed];
    const bytes = columns.reduce((sum, column) => sum + column.memoryBytes, 0);
    return this.postings.memoryBytes + bytes + this.lists.memoryBytes;
  }

  check(): void {
    this.postings.check();
    let postings = 0;
    for (const term of this.lists.terms) {
      const { count, slots } = this.read(this.lists.get(term));
      invariant(count > 0, `term ${term} has an empty list in the mutable buffer`);
      postings += count;
      for (let i = 0; i < count; i++)
        invariant(
          slots[i] < this.slotsEnd && (i === 0 || slots[i] > slots[i - 1]),
          `slot ${slots[i]} of ${this.slotsEnd} is out of order in the list of term ${term}`,
        );
    }
    invariant(postings === this.postings.total, `lists have ${postings} postings of ${this.postings.total}`);
    const { values } = this.#ordinals;
    let removed = 0;
    for (let slot = 0; slot < this.slotsEnd; slot++) {
      invariant(slot === 0 || values[slot] > values[slot - 1], `slot ${slot} has ordinal ${values[slot]}`);
      if (this.isRemoved(slot)) removed++;
    }
    invariant(removed === this.removedCount, `${removed} slots are removed, not ${this.removedCount}`);
  }
}
