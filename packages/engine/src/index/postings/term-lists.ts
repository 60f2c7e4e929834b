// Which list of the mutable buffer does a term have?
//
// Numbers of terms and most dimensions are small: an array has them, at a third of the time of a Map. Others go to a table with open
// addressing and linear probing, half full at most. Its hash has a random seed, so that nobody can choose dimensions that all collide.
//
// Both lie in shared memory. Lists are set once and never moved in place: growth replaces the array or the table. A thread that was
// given both finds each list that was set by then. Of a list that is set later it may read the term and no list yet, which is 0, or the
// list, whose postings are all too young for it.

import { grownShared, sharedArray } from "../../base/shared-array.ts";

const arrayMax = 2 ** 22;
const tableMin = 16;

/** What another thread needs to look lists up. Can be posted to it. */
export type SharedTermLists = {
  readonly array: Uint32Array;
  readonly table: Uint32Array;
  readonly seed: number;
};

/** The lists of terms, for reading. */
export class TermListReader {
  /** By term: the number of its list and 1; 0 for none. */
  protected array: Uint32Array;
  /** Pairs: a term, and the number of its list and 1; 0 for none. */
  protected table: Uint32Array;
  protected readonly seed: number;

  constructor({ array, table, seed }: SharedTermLists) {
    this.array = array;
    this.table = table;
    this.seed = seed;
  }

  /** The list of a term, or -1. */
  get(term: number): number {
    if (term >= arrayMax) return this.table[this.place(term) + 1] - 1;
    return term < this.array.length ? this.array[term] - 1 : -1;
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
  readonly #terms: number[] = [];
  #inTable = 0;

  constructor() {
    super({
      array: sharedArray(Uint32Array, 1_024),
      table: sharedArray(Uint32Array, 2 * tableMin),
      seed: Math.floor(Math.random() * 2 ** 32),
    });
  }

  get shared(): SharedTermLists {
    const { array, table, seed } = this;
    return { array, table, seed };
  }

  get size(): number {
    return this.#terms.length;
  }

  /** Sets the list of a term that has none. */
  set(term: number, list: number): void {
    this.#terms.push(term);
    if (term >= arrayMax) {
      this.#setInTable(term, list);
      return;
    }
    if (term >= this.array.length)
      this.array = grownShared(Uint32Array, this.array, Math.min(arrayMax, 2 * term + 1));
    this.array[term] = list + 1;
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
    const place = this.place(term);
    this.table[place] = term;
    this.table[place + 1] = list + 1;
  }

  /** In the order in which they were set. */
  get terms(): readonly number[] {
    return this.#terms;
  }

  get memoryBytes(): number {
    return this.array.byteLength + this.table.byteLength + 8 * this.#terms.length;
  }
}
