// Which records does a search at a version see?
//
// Invariant 2: ordinal o is visible at version v exactly when born(o) <= v < died(o).
//
// Versions assign ascending ordinals, so `born(o) <= v` means `o < end`, where `end` is the first ordinal after those of v. A live record
// has no `died`. A closed record is remembered here until no search can be pinned to a version that contains it. Then `reclaim`
// returns it once, and the indexes remove it. So the cost is a map of the records closed since the oldest running search, instead of
// sixteen bytes for every record.
//
// Versions are integers below 2^53: at a million commits a second they last 285 years.

import { invariant } from "../base/invariant.ts";

export type VisibleAt = (ordinal: number) => boolean;

export class Visibility {
  readonly #died = new Map<number, number>();
  /** All ordinals in the indexes are smaller. */
  #indexedEnd = 0;
  /** All records that are invisible from this version on have been returned for removal. */
  #reclaimedAt = -1;

  /**
   * Notes that an ordinal closed at `version` is still in the indexes. If noted more than once, the earliest version counts: an index
   * that reconciles knows only that the ordinal was closed by then.
   */
  close(ordinal: number, version: number): void {
    invariant(version >= 0, () => `ordinal ${ordinal} dies at version ${version}`);
    const earlier = this.#died.get(ordinal);
    this.#died.set(ordinal, earlier === undefined ? version : Math.min(earlier, version));
    if (version <= this.#reclaimedAt) this.#reclaimedAt = -1;
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
    if (this.#died.size === 0 && this.#indexedEnd <= end) return null;
    const died = this.#died;
    return (ordinal) => ordinal < end && version < (died.get(ordinal) ?? Number.POSITIVE_INFINITY);
  }

  /** Takes out some ordinals that no version from `oldestPinned` on can see; fewer than `most` when these were the last. */
  reclaim(oldestPinned: number, most = Number.POSITIVE_INFINITY): number[] {
    if (oldestPinned === this.#reclaimedAt) return [];
    const reclaimed: number[] = [];
    for (const [ordinal, died] of this.#died) {
      if (reclaimed.length >= most) break;
      if (died <= oldestPinned) reclaimed.push(ordinal);
    }
    for (const ordinal of reclaimed) this.#died.delete(ordinal);
    invariant(
      reclaimed.length <= most,
      () => `${reclaimed.length} ordinals are reclaimed, of ${most} at most`,
    );
    if (reclaimed.length < most) this.#reclaimedAt = oldestPinned;
    return reclaimed;
  }

  get closedCount(): number {
    return this.#died.size;
  }
}
