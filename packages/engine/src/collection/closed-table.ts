// Which version closed a record, and how do other threads look that up?
//
// A hash table in shared memory, with open addressing and linear probing, three words a slot:
//
//   | ordinal + 1, 0: free | low 32 bits of the version | high 32 bits |
//
// One thread writes; any number of threads read, without locks:
//   - An entry is published by its first word, stored last.
//   - An entry's version is only ever lowered, or the ordinal is hidden from everybody before and after. Its three stores, and the order of a reader's two loads, let a reader meet only values
//     that are at most the old one. A reader's version is never between the two (see Visibility.close), so both hide the record from it.
//   - Nothing is taken out. An entry that nobody needs any more gets the version 0, which hides its ordinal from everybody: ordinals are
//     never used again. A table that is full is replaced, without such entries; who has the old one goes on with it.
//
// At most three quarters of the slots are used.

import { invariant } from "../base/invariant.ts";

/** What a thread needs to look up. Can be posted to it. */
export type SharedClosed = { readonly words: Uint32Array<SharedArrayBuffer> };

const slotWords = 3;
const slotsMin = 64;
const high = 2 ** 32;

export class ClosedTable {
  readonly #words: Uint32Array<SharedArrayBuffer>;
  /** A hash's top bits are the number of its slot. */
  readonly #shift: number;
  /** Slots that are not free. */
  #used = 0;

  /** Attaches to a table of another thread, or makes one. */
  constructor(shared?: SharedClosed, slots = slotsMin) {
    this.#words = shared?.words ?? new Uint32Array(new SharedArrayBuffer(4 * slotWords * slots));
    this.#shift = 32 - Math.log2(this.#words.length / slotWords);
  }

  /** A table with room for twice so many entries. */
  static for(entries: number): ClosedTable {
    return new ClosedTable(undefined, Math.max(slotsMin, 2 ** Math.ceil(Math.log2((8 / 3) * (entries + 1)))));
  }

  get shared(): SharedClosed {
    return { words: this.#words };
  }

  /** The version that closed an ordinal; Infinity where none is known, 0 where nobody needs to know. */
  versionOf(ordinal: number): number {
    const at = this.#find(ordinal);
    if (at < 0) return Number.POSITIVE_INFINITY;
    // In this order, see `set`.
    const low = Atomics.load(this.#words, at + 1);
    return Atomics.load(this.#words, at + 2) * high + low;
  }

  /** Whether another entry needs a larger table. */
  get isFull(): boolean {
    return 4 * (this.#used + 1) > 3 * (this.#words.length / slotWords);
  }

  /** Adds an entry, or lowers its version; one of 0 may rise. */
  set(ordinal: number, version: number): void {
    const words = this.#words;
    const at = this.#find(ordinal);
    if (at >= 0) {
      const before = this.versionOf(ordinal);
      invariant(version <= before || before === 0, `the version that closed ${ordinal} rises to ${version}`);
      Atomics.store(words, at + 1, 0);
      Atomics.store(words, at + 2, Math.floor(version / high));
      Atomics.store(words, at + 1, version % high);
      return;
    }
    invariant(!this.isFull, "an entry is added to a full table");
    const free = -1 - at;
    words[free + 1] = version % high;
    words[free + 2] = Math.floor(version / high);
    Atomics.store(words, free, ordinal + 1);
    this.#used++;
  }

  /** The entries whose version is not 0. */
  *entries(): Generator<[ordinal: number, version: number]> {
    for (let at = 0; at < this.#words.length; at += slotWords) {
      if (this.#words[at] === 0) continue;
      const version = this.#words[at + 2] * high + this.#words[at + 1];
      if (version > 0) yield [this.#words[at] - 1, version];
    }
  }

  /** Where an ordinal's entry is; of one without, -1 less the free slot at which it would be. */
  #find(ordinal: number): number {
    const words = this.#words;
    const key = ordinal + 1;
    for (let at = slotWords * (Math.imul(ordinal, 0x9e37_79b1) >>> this.#shift); ; ) {
      const found = Atomics.load(words, at);
      if (found === key) return at;
      if (found === 0) return -1 - at;
      at += slotWords;
      if (at === words.length) at = 0;
    }
  }
}
