// Which records does a search at a version see?
//
// Invariant 2: ordinal o is visible at version v exactly when born(o) <= v < died(o).
//
// Versions assign ascending ordinals, so `born(o) <= v` means `o < end`, where `end` is the first ordinal after those of v. A live record
// has no `died`. A closed record is remembered here until no search can be pinned to a version that contains it. Then `reclaim`
// returns it once, and the indexes remove it. So the cost is a table of the records closed since the oldest running search, instead of
// sixteen bytes for every record.
//
// Searches in other threads look up in the same table (closed-table.ts). A search that has begun before a record is removed may still meet
// it in an index: the table hides the record until no such search goes on (`retire`).
//
// Versions are integers below 2^53: at a million commits a second they last 285 years.

import { invariant } from "../base/invariant.ts";
import { ClosedTable, type SharedClosed } from "./closed-table.ts";

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
