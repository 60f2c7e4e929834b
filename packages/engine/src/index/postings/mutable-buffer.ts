// Which records are in no segment yet?
//
// The newest records of an index, at most a few thousand. A mutable buffer has plain arrays of slots and values by term; searches
// find a record as soon as it is added. Slots count from 0 and are not reused. When the buffer is long enough, the index freezes all
// of it into a segment, without the removed records, and starts an empty one.

import { Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import { absent } from "../ordinal-map.ts";
import { Postings } from "./lists.ts";
import { mapEntryBytes, TermLists } from "./term-lists.ts";

type Values = Float32Array | Uint32Array;

export class MutableBuffer<V extends Values> {
  readonly postings: Postings<V>;
  /** Term -> list. */
  readonly lists = new TermLists();
  /** By slot: the ordinal, or `absent` if it was removed. */
  readonly ordinals = new Growable(Uint32Array);
  /** By slot: the length of a text. */
  readonly lengths = new Growable(Uint32Array);
  #slots = new Map<number, number>();

  constructor(make: new (length: number) => V) {
    this.postings = new Postings(make);
  }

  /** Records that were not removed. */
  get count(): number {
    return this.#slots.size;
  }

  /** Slots are below this. */
  get slotsEnd(): number {
    return this.ordinals.length;
  }

  /** Begins a record; its postings are appended next. @returns its slot */
  add(ordinal: number, length: number): number {
    const slot = this.ordinals.length;
    this.ordinals.push(ordinal);
    this.lengths.push(length);
    this.#slots.set(ordinal, slot);
    return slot;
  }

  /** @returns whether the term is new to the mutable buffer */
  append(term: number, slot: number, value: number): boolean {
    const list = this.lists.get(term);
    if (list !== undefined) {
      this.postings.append(list, slot, value);
      return false;
    }
    const made = this.postings.create();
    this.lists.set(term, made);
    this.postings.append(made, slot, value);
    return true;
  }

  /** The slot of a record, or -1. */
  slotOf(ordinal: number): number {
    return this.#slots.get(ordinal) ?? -1;
  }

  /** Removes an existing record. */
  remove(ordinal: number): void {
    this.ordinals.values[this.slotOf(ordinal)] = absent;
    this.#slots.delete(ordinal);
  }

  /** Begins anew. */
  clear(): void {
    this.postings.close();
    this.lists.clear();
    this.ordinals.truncate(0);
    this.lengths.truncate(0);
    this.#slots = new Map();
  }

  get memoryBytes(): number {
    const columns = this.ordinals.memoryBytes + this.lengths.memoryBytes;
    return this.postings.memoryBytes + columns + this.lists.memoryBytes + mapEntryBytes * this.#slots.size;
  }

  check(): void {
    this.postings.check();
    let postings = 0;
    for (const term of this.lists.terms) {
      const { count, slots } = this.postings.read(this.lists.get(term) as number);
      invariant(count > 0, `term ${term} has an empty list in the mutable buffer`);
      postings += count;
      for (let i = 0; i < count; i++)
        invariant(
          slots[i] < this.slotsEnd && (i === 0 || slots[i] > slots[i - 1]),
          `slot ${slots[i]} of ${this.slotsEnd} is out of order in the list of term ${term}`,
        );
    }
    invariant(postings === this.postings.total, `lists have ${postings} postings of ${this.postings.total}`);
    for (const [ordinal, slot] of this.#slots)
      invariant(this.ordinals.values[slot] === ordinal, `slot ${slot} does not have ordinal ${ordinal}`);
    const used = this.ordinals.values.subarray(0, this.slotsEnd).filter((ordinal) => ordinal !== absent);
    invariant(used.length === this.count, `${used.length} slots are used by ${this.count} records`);
    for (let i = 1; i < used.length; i++)
      invariant(used[i] > used[i - 1], `ordinal ${used[i]} follows ${used[i - 1]} in the mutable buffer`);
  }
}
