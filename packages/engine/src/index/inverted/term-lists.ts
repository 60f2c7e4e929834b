// Which list of the mutable buffer does a term have?
//
// Numbers of terms and most dimensions are small: arrays have them, at a third of the time of a Map, one for each block of numbers that has
// a list. Others go to a table with open addressing and linear probing, half full at most. Its hash has a random seed, so that nobody can
// choose dimensions that all collide.
//
// All lie in shared memory. Lists are set once and never moved in place: growth replaces the first array or the table. A thread that was
// given them finds each list that was set by then. Of a list that is set later it may read the term and no list yet, which is 0, or the
// list, which none of the records has that it knows.

import { invariant } from "../../base/invariant.ts";
import { grownShared, sharedArray } from "../../base/shared-memory.ts";

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

  /** Gives the next list to a term that has none. @returns its number */
  add(term: number): number {
    invariant(this.get(term) < 0, () => `term ${term} has a list already`);
    const list = this.#terms.length;
    this.#terms.push(term);
    if (term >= arrayMax) this.#setInTable(term, list);
    else this.#arrayOf(term)[term & inBlock] = list + 1;
    return list;
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

  /** By list. */
  get terms(): readonly number[] {
    return this.#terms;
  }

  get memoryBytes(): number {
    const arrays = this.arrays.reduce((sum, array) => sum + (array?.byteLength ?? 0), 0);
    return arrays + this.table.byteLength + 8 * this.#terms.length;
  }
}
