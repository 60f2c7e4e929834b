// Which records does a search at a version see?
//
// Invariant 2: ordinal o is visible at version v exactly when born(o) <= v < died(o).
//
// Versions assign ascending ordinals, so `born(o) <= v` means `o < end`, where `end` is the first ordinal after those of v. A live record
// has no `died`. A closed record is remembered here until no search can be pinned to a version that contains it. Then `reclaim`
// returns it once, and the indexes remove it. So the cost is a table of the records closed since the oldest running search, instead of
// sixteen bytes for every record.
//
// Searches in other threads look up in the same table. A search that has begun before a record is removed may still meet
// it in an index: the table hides the record until no such search goes on (`retire`).
//
// Versions are integers below 2^53: at a million commits a second they last 285 years.

import { invariant } from "../base/invariant.ts";

export type VisibleAt = (ordinal: number) => boolean;

/** What a thread needs to test visibility, at any version that it has pinned. Can be posted to it. */
export type SharedVisibility = SharedClosed;

export class Visibility {
  /** Of the records that `reclaim` has not returned. */
  readonly #died = new Map<number, number>();
  /** Of those that it has returned and that a search may still meet: how often it has. */
  readonly #leaving = new Map<number, number>();
  /** Of both. */
  #table = new ClosedTable();
  readonly #retire: (free: () => void) => void;
  /** All ordinals in the indexes are smaller. */
  #indexedEnd = 0;
  /** All records that are invisible from this version on have been returned for removal. */
  #reclaimedAt = -1;

  /** @param retire calls when no search goes on that has begun before; default: at once */
  constructor(retire: (free: () => void) => void = (free) => free()) {
    this.#retire = retire;
  }

  /** For another thread: `visibleAt` tests by it what a version sees that was published before. */
  get shared(): SharedVisibility {
    return this.#table.shared;
  }

  /**
   * Notes that an ordinal closed at `version` is still in the indexes. If noted more than once, the earliest version counts: an index
   * that reconciles knows only that the ordinal was closed by then. Versions are published when all indexes have noted what they closed,
   * so no search is pinned to one between the earlier and the later.
   */
  close(ordinal: number, version: number): void {
    invariant(version >= 0, () => `ordinal ${ordinal} dies at version ${version}`);
    const earlier = this.#died.get(ordinal);
    if (version <= this.#reclaimedAt) this.#reclaimedAt = -1;
    if (earlier !== undefined && earlier <= version) return;
    this.#died.set(ordinal, version);
    if (this.#table.isFull) this.#replaceTable();
    // An index that reconciles may note what was reclaimed once more.
    if (!this.#leaving.has(ordinal)) this.#table.set(ordinal, version);
  }

  /** Notes that the indexes have records up to `end`, exclusive. */
  indexedUpTo(end: number): void {
    if (end > this.#indexedEnd) this.#indexedEnd = end;
  }

  /**
   * The visibility test for a search pinned at a version; null if everything in the indexes is visible to it. Valid until the indexes
   * next change.
   * @param end the next unused ordinal at that version
   */
  at(version: number, end: number): VisibleAt | null {
    if (this.#died.size === 0 && this.#leaving.size === 0 && this.#indexedEnd <= end) return null;
    return testOf(this.#table, version, end);
  }

  /** Takes out some ordinals that no version from `oldestPinned` on can see; fewer than `most` when these were the last. */
  reclaim(oldestPinned: number, most = Number.POSITIVE_INFINITY): number[] {
    if (oldestPinned === this.#reclaimedAt) return [];
    const reclaimed: number[] = [];
    for (const [ordinal, died] of this.#died) {
      if (reclaimed.length >= most) break;
      if (died <= oldestPinned) reclaimed.push(ordinal);
    }
    for (const ordinal of reclaimed) {
      this.#died.delete(ordinal);
      this.#leaving.set(ordinal, 1 + (this.#leaving.get(ordinal) ?? 0));
    }
    invariant(
      reclaimed.length <= most,
      () => `${reclaimed.length} ordinals are reclaimed, of ${most} at most`,
    );
    if (reclaimed.length < most) this.#reclaimedAt = oldestPinned;
    if (reclaimed.length > 0) this.#retire(() => this.#forget(reclaimed));
    return reclaimed;
  }

  get closedCount(): number {
    return this.#died.size;
  }

  /** No search meets these records any more. */
  #forget(ordinals: readonly number[]): void {
    for (const ordinal of ordinals) {
      const times = this.#leaving.get(ordinal) ?? 0;
      if (times > 1) this.#leaving.set(ordinal, times - 1);
      else {
        this.#leaving.delete(ordinal);
        if (!this.#died.has(ordinal)) this.#table.set(ordinal, 0);
      }
    }
    if (this.#died.size === 0 && this.#leaving.size === 0) this.#table = new ClosedTable();
  }

  /** Without the entries that nobody needs. */
  #replaceTable(): void {
    const table = ClosedTable.for(this.#died.size + this.#leaving.size);
    for (const [ordinal, version] of this.#table.entries()) table.set(ordinal, version);
    this.#table = table;
  }
}

/** The same test in another thread, which has pinned the version. @param end the next unused ordinal at that version */
export const visibleAt = (shared: SharedVisibility, version: number, end: number): VisibleAt =>
  testOf(new ClosedTable(shared), version, end);

const testOf =
  (closed: ClosedTable, version: number, end: number): VisibleAt =>
  (ordinal) =>
    ordinal < end && version < closed.versionOf(ordinal);

// ---- Which version closed a record, and how do other threads look that up?
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

/** What a thread needs to look up. Can be posted to it. */
type SharedClosed = { readonly words: Uint32Array<SharedArrayBuffer> };

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
