// Which records of a mutable buffer have a term?
//
// The postings of a buffer are in the order of its records, because appending to its lists would touch memory all over the place for each
// posting. Searches want lists. So the first read turns the postings that are there into a *run*, by counting: the slots and values of list
// 0, of list 1, and so on. The postings that come later become another run, and take in the runs before that are not much longer: a posting
// moves a few times until its buffer is frozen, and a read goes through a few runs. So few postings that a run is not worth its making are
// looked through instead.
//
// Readers of several moments share what a thread has made of a buffer: each leaves out what comes after its own moment.

import type { Column } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";

/** Of postings. */
export type Values = Float32Array | Uint32Array;

/** The postings of a buffer, record by record, as they are at a moment. */
export type RecordColumns<V extends Values = Values> = {
  /** By slot: where the postings of the record end. */
  readonly ends: Column;
  /** Of each posting: the number of its list, and its value. */
  readonly lists: { readonly values: Uint32Array };
  readonly values: { readonly values: V };
};

/** A list as returned by `read`: the first `count` entries of both arrays, valid until the next call. */
export type PostingsRead<V extends Values> = {
  count: number;
  slots: Uint32Array;
  values: V;
};

/** Postings of some records by list: those of list `i` are from `begins[i]` to `begins[i + 1]`, by ascending slot. */
type Run<V extends Values> = {
  readonly firstSlot: number;
  readonly begins: Uint32Array;
  readonly slots: Uint32Array;
  readonly values: V;
};

/** Fewer postings than this are looked through: for 40 terms that takes some 20 µs. */
const runMin = 1_024;

export class BufferLists<V extends Values> {
  readonly #make: new (
    length: number,
  ) => V;
  readonly #runs: Run<V>[] = [];
  /** Records with smaller slots are in runs. */
  #slotsEnd = 0;
  #read: PostingsRead<V>;

  constructor(make: new (length: number) => V) {
    this.#make = make;
    this.#read = { count: 0, slots: new Uint32Array(64), values: new make(64) };
  }

  /** The postings of a list, by ascending slot. The answer is overwritten by the next call. */
  read(list: number, columns: RecordColumns<V>): PostingsRead<V> {
    const { ends } = columns;
    if (endOf(ends, ends.length) - endOf(ends, this.#slotsEnd) >= runMin) this.#addRun(columns);
    this.#read.count = 0;
    for (const run of this.#runs) if (run.firstSlot < ends.length) this.#copy(run, list);
    this.#lookThrough(list, columns);
    const read = this.#read;
    while (read.count > 0 && read.slots[read.count - 1] >= ends.length) read.count--;
    return read;
  }

  get memoryBytes(): number {
    let bytes = 2 * this.#read.slots.byteLength;
    for (const { begins, slots } of this.#runs) bytes += begins.byteLength + 2 * slots.byteLength;
    return bytes;
  }

  #copy({ begins, slots, values }: Run<V>, list: number): void {
    if (list + 1 >= begins.length) return;
    const from = begins[list];
    const count = begins[list + 1] - from;
    this.#reserve(count);
    const read = this.#read;
    // Lists are short, and a view of one takes longer to make than it takes to copy.
    for (let i = 0; i < count; i++) {
      read.slots[read.count + i] = slots[from + i];
      read.values[read.count + i] = values[from + i];
    }
    read.count += count;
  }

  /** Appends what records have that are in no run. */
  #lookThrough(list: number, { ends, lists, values }: RecordColumns<V>): void {
    for (let slot = this.#slotsEnd, at = endOf(ends, slot); slot < ends.length; slot++) {
      const end = ends.values[slot];
      while (at < end && lists.values[at] !== list) at++;
      if (at < end) {
        this.#reserve(1);
        this.#read.slots[this.#read.count] = slot;
        this.#read.values[this.#read.count++] = values.values[at];
      }
      at = end;
    }
  }

  #addRun({ ends, lists: { values: lists }, values: { values } }: RecordColumns<V>): void {
    const slotsEnd = ends.length;
    const end = endOf(ends, slotsEnd);
    let firstSlot = this.#slotsEnd;
    for (let last = this.#runs.at(-1); last !== undefined; last = this.#runs.at(-1)) {
      if (last.slots.length > 2 * (end - endOf(ends, firstSlot))) break;
      ({ firstSlot } = last);
      this.#runs.pop();
    }
    const first = endOf(ends, firstSlot);
    let listsEnd = 0;
    for (let at = first; at < end; at++) if (lists[at] >= listsEnd) listsEnd = lists[at] + 1;
    const begins = new Uint32Array(listsEnd + 1);
    for (let at = first; at < end; at++) begins[lists[at] + 1]++;
    for (let list = 0; list < listsEnd; list++) begins[list + 1] += begins[list];
    const places = begins.slice();
    const run = {
      firstSlot,
      begins,
      slots: new Uint32Array(end - first),
      values: new this.#make(end - first),
    };
    for (let slot = firstSlot, at = first; slot < slotsEnd; slot++)
      for (const recordEnd = ends.values[slot]; at < recordEnd; at++) {
        const place = places[lists[at]]++;
        run.slots[place] = slot;
        run.values[place] = values[at];
      }
    invariant(
      begins[listsEnd] === end - first,
      () => `a run of ${end - first} postings has ${begins[listsEnd]}`,
    );
    this.#runs.push(run);
    this.#slotsEnd = slotsEnd;
  }

  /** Makes room for so many more postings of the list that is read. */
  #reserve(more: number): void {
    const { count, slots, values } = this.#read;
    if (count + more <= slots.length) return;
    const capacity = Math.max(count + more, 2 * slots.length);
    const larger = { count, slots: new Uint32Array(capacity), values: new this.#make(capacity) };
    larger.slots.set(slots.subarray(0, count));
    larger.values.set(values.subarray(0, count));
    this.#read = larger;
  }
}

/** Where the postings of the records with smaller slots end. */
const endOf = ({ values }: Pick<Column, "values">, slot: number): number =>
  slot === 0 ? 0 : values[slot - 1];
