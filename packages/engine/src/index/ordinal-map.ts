// Where in the index is the record with this ordinal?
//
// Ordinals are handed out one after the other, so a table by ordinal is nearly as dense as a list: pages of 1,024
// ordinals, made when the first of them appears and given back when the last is gone, behind two levels of
// directory. A record costs 4 bytes while its neighbours live too; there is no rehashing that would make one call
// slow. A JavaScript Map would take some 40 bytes and end at 2^24 entries.
//
//   ordinal   | 11 bits: directory | 11 bits: page | 10 bits: place in the page |

import { invariant } from "../base/invariant.ts";

/** What `get` returns for an ordinal that is not in the map. */
export const absent = 0xffff_ffff;

const pageLength = 1_024;

/** Bytes of a page with its place in the directory. */
const pageBytes = 4 * pageLength + 200 + 8;

/** Bytes of a map with the given number of pages. */
export const ordinalMapBytes = (pages: number): number => pages * pageBytes;

type Page = { readonly values: Uint32Array; count: number };

/** A map from ordinals (u32) to numbers (u32 below `absent`). */
export class OrdinalMap {
  /** Arrays of pages; both levels grow to the greatest ordinal, at most 2,048 entries each. */
  readonly #directory: (Page | undefined)[][] = [];
  #size = 0;
  #pages = 0;

  get size(): number {
    return this.#size;
  }

  /** The value of an ordinal, or `absent`. */
  get(ordinal: number): number {
    const high = ordinal >>> 21;
    if (high >= this.#directory.length) return absent;
    const pages = this.#directory[high];
    const middle = (ordinal >>> 10) & 2_047;
    const page = middle < pages.length ? pages[middle] : undefined;
    return page === undefined ? absent : page.values[ordinal & 1_023];
  }

  /** Sets or replaces the value of an ordinal. */
  set(ordinal: number, value: number): void {
    const page = this.#page(ordinal);
    const place = ordinal & 1_023;
    if (page.values[place] === absent) {
      page.count++;
      this.#size++;
    }
    page.values[place] = value;
  }

  /** Removes an ordinal; a missing one is ignored. */
  delete(ordinal: number): void {
    if (this.get(ordinal) === absent) return;
    const pages = this.#directory[ordinal >>> 21];
    const page = pages[(ordinal >>> 10) & 2_047] as Page;
    page.values[ordinal & 1_023] = absent;
    this.#size--;
    if (--page.count > 0) return;
    pages[(ordinal >>> 10) & 2_047] = undefined;
    this.#pages--;
  }

  /** All ordinals and their values, ascending. The map must not change meanwhile. */
  *entries(): Generator<[ordinal: number, value: number]> {
    for (let high = 0; high < this.#directory.length; high++) {
      const pages = this.#directory[high];
      for (let middle = 0; middle < pages.length; middle++) {
        const page = pages[middle];
        if (page === undefined) continue;
        for (let low = 0; low < pageLength; low++) {
          if (page.values[low] !== absent) yield [high * 0x20_0000 + middle * 1_024 + low, page.values[low]];
        }
      }
    }
  }

  clear(): void {
    this.#directory.length = 0;
    this.#size = 0;
    this.#pages = 0;
  }

  get memoryBytes(): number {
    const entries = this.#directory.reduce((sum, pages) => sum + pages.length, this.#directory.length);
    return 8 * entries + this.#pages * (pageBytes - 8);
  }

  /** Proves that the counts agree with the pages. */
  check(): void {
    let size = 0;
    for (const _ of this.entries()) size++;
    invariant(size === this.#size, `the ordinal map counts ${this.#size} ordinals and holds ${size}`);
  }

  #page(ordinal: number): Page {
    const high = ordinal >>> 21;
    const middle = (ordinal >>> 10) & 2_047;
    while (this.#directory.length <= high) this.#directory.push([]);
    const pages = this.#directory[high];
    while (pages.length <= middle) pages.push(undefined);
    let page = pages[middle];
    if (page === undefined) {
      page = { values: new Uint32Array(pageLength).fill(absent), count: 0 };
      pages[middle] = page;
      this.#pages++;
    }
    return page;
  }
}
