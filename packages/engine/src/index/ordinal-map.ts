// Where in the index is the record with this ordinal?
//
// Ordinals are handed out one after the other, so a table by ordinal is nearly as dense as a list: pages of 1,024
// ordinals, made when the first of them appears and given back when the last is gone, behind directories. A record costs 4 bytes
// while its neighbours live too; there is no rehashing that would make one call slow. A JavaScript Map would take some 40 bytes and end
// at 2^24 entries.
//
//   ordinal              | 11 bits: directory | 11 bits: its entry | 10 bits: place in the page |
//   entry of a directory | 28 bits: chunk | 4 bits: page in the chunk |     0: no page; so page 0 of chunk 0 is not used
//   place in a page      value + 1; 0: none
//
// All of it lies in shared memory, and other threads look up while one writes. Whoever attaches knows the chunks and the directories of that
// time. For every ordinal that the map had then, and has still, it gets the value; for others the value, or none. Each look is one load of
// a directory and one of the page, and each is right by itself:
//   - A directory is replaced when it grows; what it grows by is not known to those who have the old one.
//   - A page has only zeros before it gets an entry in a directory, and when it loses it. It gets another entry only when no search goes
//     on that may have found the first (`retire`): else a thread would look up one ordinal and get the value of another.

import { invariant } from "../base/invariant.ts";

/** What `get` returns for an ordinal that is not in the map. */
export const absent = 0xffff_ffff;

export const pageLength = 1_024;
const chunkPages = 16;
const directoryMin = 16;
const directoryMax = 2_048;

/** Bytes of a page, with its entry in the directory and its share of what a chunk takes besides. */
const pageBytes = 4 * pageLength + 8 + 12;

/** Bytes of a map with the given number of pages. */
export const ordinalMapBytes = (pages: number): number => pages * pageBytes;

type Words = Uint32Array<SharedArrayBuffer>;

/** What a thread needs to look up. Can be posted to it. */
export type SharedOrdinalMap = {
  readonly directories: readonly (Words | undefined)[];
  readonly chunks: readonly (Words | undefined)[];
};

const wordsOf = (length: number): Words => new Uint32Array(new SharedArrayBuffer(4 * length));

/** A map from ordinals (u32) to numbers (u32 below `absent`), that can only be read. */
export class OrdinalMapReader {
  protected directories: (Words | undefined)[];
  protected chunks: (Words | undefined)[];

  constructor({ directories, chunks }: SharedOrdinalMap) {
    this.directories = [...directories];
    this.chunks = [...chunks];
  }

  /** The value of an ordinal, or `absent`. */
  get(ordinal: number): number {
    const page = this.#pageNumber(ordinal);
    const chunk = page === 0 ? undefined : this.chunks[page >>> 4];
    return chunk === undefined ? absent : (chunk[((page & 15) << 10) | (ordinal & 1_023)] - 1) >>> 0;
  }

  /** The page of an ordinal, for who looks up many: of each of its 1,024 ordinals the value + 1, or 0. */
  pageOf(ordinal: number): Uint32Array | undefined {
    const page = this.#pageNumber(ordinal);
    const from = (page & 15) * pageLength;
    return page === 0 ? undefined : this.chunks[page >>> 4]?.subarray(from, from + pageLength);
  }

  /** 0: there is none. */
  #pageNumber(ordinal: number): number {
    const high = ordinal >>> 21;
    const directory = high < this.directories.length ? this.directories[high] : undefined;
    const entry = (ordinal >>> 10) & 2_047;
    return directory === undefined || entry >= directory.length ? 0 : directory[entry];
  }
}

/** The map of the thread that writes. */
export class OrdinalMap extends OrdinalMapReader {
  /** Ordinals of each page, by its number; undefined for one that was never in use, and takes no memory. */
  readonly #counts: (number | undefined)[] = [];
  /** Pages that are not in use, by number. */
  #free: number[] = [];
  /** Pages of each chunk that are in use, or were and may still be met. */
  readonly #used: number[] = [];
  /** Pages that were ever in use, of the chunks that are there. */
  #touched = 0;
  #size = 0;
  readonly #retire: (free: () => void) => void;

  /** @param retire calls when no search goes on that has begun before; default: at once */
  constructor(retire: (free: () => void) => void = (free) => free()) {
    super({ directories: [], chunks: [] });
    this.#retire = retire;
  }

  get shared(): SharedOrdinalMap {
    return { directories: [...this.directories], chunks: [...this.chunks] };
  }

  get size(): number {
    return this.#size;
  }

  /** Sets or replaces the value of an ordinal. */
  set(ordinal: number, value: number): void {
    invariant(value >= 0 && value < absent, () => `ordinal ${ordinal} gets the value ${value}`);
    const entry = (ordinal >>> 10) & 2_047;
    const directory = this.#directoryFor(ordinal >>> 21, entry);
    let page = directory[entry];
    if (page === 0) {
      page = this.#take();
      directory[entry] = page;
    }
    const chunk = this.chunks[page >>> 4] as Words;
    const place = ((page & 15) << 10) | (ordinal & 1_023);
    if (chunk[place] === 0) {
      this.#counts[page] = (this.#counts[page] ?? 0) + 1;
      this.#size++;
    }
    chunk[place] = value + 1;
  }

  /** Removes an ordinal; a missing one is ignored. */
  delete(ordinal: number): void {
    if (this.get(ordinal) === absent) return;
    const directory = this.directories[ordinal >>> 21] as Words;
    const page = directory[(ordinal >>> 10) & 2_047];
    const chunk = this.chunks[page >>> 4] as Words;
    chunk[((page & 15) << 10) | (ordinal & 1_023)] = 0;
    this.#size--;
    const count = (this.#counts[page] ?? 0) - 1;
    this.#counts[page] = count;
    invariant(
      count >= 0 && this.#size >= count,
      () => `page ${page} counts ${count} of ${this.#size} ordinals`,
    );
    if (count > 0) return;
    directory[(ordinal >>> 10) & 2_047] = 0;
    this.#retire(() => this.#give(page, chunk));
  }

  /** All ordinals and their values, ascending. The map must not change meanwhile. */
  *entries(): Generator<[ordinal: number, value: number]> {
    for (const [high, directory] of this.directories.entries()) {
      for (let entry = 0; entry < (directory?.length ?? 0); entry++) {
        if (directory?.[entry] === 0) continue;
        for (let low = 0; low < pageLength; low++) {
          const ordinal = high * 0x20_0000 + entry * pageLength + low;
          const value = this.get(ordinal);
          if (value !== absent) yield [ordinal, value];
        }
      }
    }
  }

  /** Drops everything. Who has attached goes on with what there was. */
  clear(): void {
    this.directories = [];
    this.chunks = [];
    this.#counts.length = 0;
    this.#used.length = 0;
    this.#touched = 0;
    this.#free = [];
    this.#size = 0;
  }

  get memoryBytes(): number {
    const entries = this.directories.reduce((sum, directory) => sum + (directory?.length ?? 0), 0);
    return 8 * this.directories.length + 4 * entries + this.#touched * (pageBytes - 8);
  }

  /** Proves that the counts agree with the pages. */
  check(): void {
    let size = 0;
    for (const _ of this.entries()) size++;
    invariant(size === this.#size, `the ordinal map counts ${this.#size} ordinals and holds ${size}`);
  }

  #directoryFor(high: number, entry: number): Words {
    const before = this.directories[high];
    if (before !== undefined && entry < before.length) return before;
    while (this.directories.length <= high) this.directories.push(undefined);
    const length = Math.max(directoryMin, 2 ** Math.ceil(Math.log2(entry + 1)));
    const directory = wordsOf(Math.min(directoryMax, length));
    if (before !== undefined) directory.set(before);
    this.directories[high] = directory;
    return directory;
  }

  /** A page of zeros. */
  #take(): number {
    if (this.#free.length === 0) this.#addChunk();
    const page = this.#free.pop() as number;
    invariant(page !== 0, "page 0 means that there is none");
    invariant(
      (this.#counts[page] ?? 0) === 0,
      () => `page ${page} is taken, and has ${this.#counts[page]} ordinals`,
    );
    this.#used[page >>> 4]++;
    if (this.#counts[page] === undefined) this.#touched++;
    this.#counts[page] = 0;
    return page;
  }

  #addChunk(): void {
    const dropped = this.chunks.indexOf(undefined);
    const number = dropped >= 0 ? dropped : this.chunks.length;
    this.chunks[number] = wordsOf(chunkPages * pageLength);
    this.#used[number] = 0;
    for (let page = chunkPages - 1; page >= 0; page--)
      if (number > 0 || page > 0) this.#free.push(number * chunkPages + page);
  }

  /** No search can have found the page. @param chunk that of the page; another one where the map was cleared meanwhile */
  #give(page: number, chunk: Words): void {
    const number = page >>> 4;
    if (this.chunks[number] !== chunk) return;
    invariant(
      this.#counts[page] === 0 && this.#used[number] > 0,
      () => `page ${page} is given back with ${this.#counts[page]} ordinals`,
    );
    this.#free.push(page);
    if (--this.#used[number] > 0) return;
    this.chunks[number] = undefined;
    this.#free = this.#free.filter((other) => other >>> 4 !== number);
    for (let each = number * chunkPages; each < (number + 1) * chunkPages; each++) {
      if (this.#counts[each] !== undefined) this.#touched--;
      this.#counts[each] = undefined;
    }
  }
}
