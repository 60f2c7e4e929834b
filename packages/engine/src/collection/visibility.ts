// Which records does a search at a version see?
//
// Invariant 2: ordinal o is visible at version v exactly when born(o) <= v < died(o).
//
// Ordinals are given in the order of versions, so `born(o) <= v` is `o < end`, where `end` is the first
// ordinal that v had not given yet. A live record has no `died`; a closed one is remembered here until no
// search can be pinned to a version that saw it, and is then handed out once, to be removed from the indexes.
// So the cost is a map of the records closed since the oldest running search, not sixteen bytes a record.
//
// Versions are integers below 2^53: at a million commits a second they last 285 years.

export type VisibleAt = (ordinal: number) => boolean;

export class Visibility {
  readonly #died = new Map<number, number>();
  /** All ordinals that were given to an index are smaller. */
  #indexedEnd = 0;
  /** Everything that is invisible from this version on has been taken out. */
  #reclaimedAt = -1;

  /**
   * An ordinal closed at `version` is still in the indexes. Said more than once, the earliest version counts: an index that
   * has to reconcile knows only that it was closed by then.
   */
  close(ordinal: number, version: number): void {
    const earlier = this.#died.get(ordinal);
    this.#died.set(ordinal, earlier === undefined ? version : Math.min(earlier, version));
    if (version <= this.#reclaimedAt) this.#reclaimedAt = -1;
  }

  /** Indexes have been given records up to `end`, exclusive. */
  indexedUpTo(end: number): void {
    if (end > this.#indexedEnd) this.#indexedEnd = end;
  }

  /**
   * The test for a search pinned at a version, or null when the indexes hold nothing that it may not see.
   * Valid until the indexes next change.
   * @param end the ordinal that the version would have given next
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
    if (reclaimed.length < most) this.#reclaimedAt = oldestPinned;
    return reclaimed;
  }

  get closedCount(): number {
    return this.#died.size;
  }
}
