// What does the indexer do in a time slice?
//
//   remove records that no search sees -> bring the built indexes to the target version -> publish a view
//   -> continue with the indexes that are being built, or tidy up if there are none
//
// Invariants:
//   - A published view has one version: that of its read transaction and of all its indexes (4).
//   - A time slice holds the event loop for about `limits.sliceMs`. Requests run between slices.
//   - All built indexes reach one target version before a newer target is chosen. So views are published however fast commits arrive.

import { limits } from "@quiverdb/protocol/limits";
import { invariant } from "../base/invariant.ts";
import { type Head, readHead } from "../collection/head.ts";
import type { Visibility } from "../collection/visibility.ts";
import type { ReadTransaction, Store } from "../storage/store.ts";
import type { LiveIndexes, View, Views } from "../views/view.ts";
import type { IdleCompaction } from "./idle-compaction.ts";
import type { IndexUpdater } from "./index-updater.ts";
import type { IndexUpdaters } from "./index-updaters.ts";

/** Postings of deferred work (merging) between two checks of the clock. */
const postingsPerLook = 20_000;

/** Records that are removed between two checks of the clock, and the share of a time slice that removals may take first. */
const reclaimedPerLook = 16;
const reclaimingShare = 0.25;

/** A read transaction, and its head. */
type Newest = { readonly readTxn: ReadTransaction; readonly head: Head };

export type SliceEvents = {
  /** A view was published; it is not pinned. */
  onPublished(view: View): void;
  /** There is nothing to do until something is committed, or arrives from another thread. */
  onIdle(): void;
  /** All indexes have applied all changes of a version, whose records have ordinals below `ordinalEnd`. */
  onCaughtUp(version: number, ordinalEnd: number): void;
};

const indexesOf = (updaters: readonly IndexUpdater[]) => updaters.map(({ index }) => index);

export class IndexingSlices {
  readonly #store: Store;
  readonly #updaters: IndexUpdaters;
  readonly #views: Views;
  readonly #visibility: Visibility;
  readonly #rest: IdleCompaction;
  readonly #events: SliceEvents;
  /** The version that built indexes are brought to, over several slices. */
  #target: Newest | undefined;
  #seenEnd = 0;
  /** The newest known version. */
  #seenVersion = -1;
  /** Whether the last slice left nothing to do. */
  #wasIdle = false;

  constructor(
    store: Store,
    updaters: IndexUpdaters,
    views: Views,
    visibility: Visibility,
    rest: IdleCompaction,
    events: SliceEvents,
  ) {
    this.#store = store;
    this.#updaters = updaters;
    this.#views = views;
    this.#visibility = visibility;
    this.#rest = rest;
    this.#events = events;
  }

  /** The end of the ordinals of the newest known version. */
  get seenEnd(): number {
    return this.#seenEnd;
  }

  /** Works for one time slice. @returns whether there is nothing to do until something is committed, or arrives from another thread */
  run(): boolean {
    const { readTxn, head } = this.#takeTarget();
    let isKept = false;
    try {
      const beganMs = performance.now();
      const end = beganMs + limits.sliceMs;
      const isTimeOver = () => performance.now() >= end;
      const reclaimEnd = beganMs + reclaimingShare * limits.sliceMs;
      // Removals must keep up even when commits arrive without a pause.
      this.#reclaim(() => performance.now() >= reclaimEnd);
      const advance = (updater: IndexUpdater) => {
        const isThere = updater.step(readTxn, head, isTimeOver, (ordinal, version) =>
          this.#visibility.close(ordinal, version),
        );
        this.#visibility.indexedUpTo(updater.cursor);
        return isThere;
      };
      this.#updaters.replaceFailed(head.version, head.nextOrdinal);
      const updaters = this.#updaters.inUse.filter((updater) => !updater.isRestoring && !updater.isStuck);
      for (const updater of updaters) {
        if (!updater.isBuilt || updater.watermark >= head.version || advance(updater)) continue;
        isKept = true;
        this.#target = { readTxn, head };
        // A commit of millions of words takes minutes.
        this.#updaters.keep();
        return updater.isWaiting;
      }
      const built = updaters.filter((updater) => updater.watermark === head.version);
      const isStale = this.#wasIdle && this.#views.hasRetired;
      this.#wasIdle = false;
      if (isStale || !this.#isPublished(head.version, built)) {
        isKept = true;
        this.#publish(head.version, head.nextOrdinal, readTxn, built);
      }
      const behind = [
        ...updaters.filter((updater) => !updater.isBuilt),
        ...this.#updaters.successors.filter(
          (updater) => !updater.isRestoring && updater.watermark < head.version,
        ),
      ];
      const isReclaiming = this.#reclaim(isTimeOver);
      if (this.#updaters.hasUnseenFailure) return false;
      if (behind.length === 0) {
        if (updaters.length === this.#updaters.inUse.length)
          this.#events.onCaughtUp(head.version, head.nextOrdinal);
        const isMore = this.#tidy(updaters, head.version, isTimeOver);
        this.#updaters.keep();
        // A commit that arrived during the work on an older target did not wake the indexer.
        this.#wasIdle = !isMore && !isReclaiming && head.version === this.#seenVersion;
        if (this.#wasIdle) {
          this.#rest.idle(head.version, indexesOf(updaters));
          this.#events.onIdle();
        }
        // What was retired is freed after one more view; without this, only the next commit would publish one.
        return this.#wasIdle && !this.#views.hasRetired;
      }
      const next = behind.find((updater) => !updater.isWaiting);
      if (next && !isTimeOver()) advance(next);
      this.#updaters.keep();
      return (
        behind.every((updater) => updater.isWaiting) && !isReclaiming && head.version === this.#seenVersion
      );
    } finally {
      if (!isKept) readTxn.release();
    }
  }

  /** The version that this slice works towards: the unfinished target, or the newest version. */
  #takeTarget(): Newest {
    const readTxn = this.#store.beginRead();
    try {
      const head = readHead(readTxn);
      invariant(
        head.version >= this.#seenVersion && head.nextOrdinal >= this.#seenEnd,
        () => `the log goes back from version ${this.#seenVersion} to ${head.version}`,
      );
      this.#seenEnd = head.nextOrdinal;
      this.#seenVersion = head.version;
      const target = this.#target;
      if (target === undefined) return { readTxn, head };
      this.#target = undefined;
      invariant(
        target.head.version <= head.version,
        () => `the indexes follow version ${target.head.version}, and the log is at ${head.version}`,
      );
      readTxn.release();
      return target;
    } catch (error) {
      readTxn.release();
      throw error;
    }
  }

  #isPublished(version: number, built: readonly IndexUpdater[]): boolean {
    const current = this.#views.current;
    return (
      current !== null &&
      current.version === version &&
      Object.keys(current.indexes).length === built.length &&
      built.every((updater) => current.indexes[updater.kind] === updater.index)
    );
  }

  #publish(
    version: number,
    ordinalEnd: number,
    readTxn: ReadTransaction,
    built: readonly IndexUpdater[],
  ): void {
    for (const { kind, watermark, cursor } of built)
      invariant(
        watermark === version && cursor === ordinalEnd,
        () => `a view of version ${version} gets a ${kind} index of version ${watermark}, up to ${cursor}`,
      );
    const indexes: LiveIndexes = Object.fromEntries(built.map(({ kind, index }) => [kind, index]));
    const statistics = Object.fromEntries(built.map(({ kind, index }) => [kind, index.statistics?.()]));
    this.#views.publish({ version, ordinalEnd, readTxn, indexes, statistics }, this.#visibility);
    this.#events.onPublished(this.#views.current as View);
  }

  /** Removes records that no search can see any more, until the time is over. Returns whether there may be more. */
  #reclaim(isTimeOver: () => boolean): boolean {
    if (this.#visibility.closedCount === 0) return false;
    const oldest = this.#views.oldestVersion;
    for (let count = reclaimedPerLook; count === reclaimedPerLook; ) {
      const reclaimed = this.#visibility.reclaim(oldest, reclaimedPerLook);
      count = reclaimed.length;
      for (const ordinal of reclaimed) this.#updaters.remove(ordinal);
      if (count === reclaimedPerLook && isTimeOver()) return true;
    }
    return false;
  }

  /** Puts indexes in order that are up to date. @returns whether there is more to do */
  #tidy(updaters: readonly IndexUpdater[], version: number, isTimeOver: () => boolean): boolean {
    const leisure = this.#rest.leisureAt(version);
    const beganMs = performance.now();
    const isMore = updaters.some((updater) => updater.tidy(postingsPerLook, isTimeOver, leisure));
    if (leisure === "resting")
      this.#rest.spent(performance.now() - beganMs, isMore ? undefined : indexesOf(updaters));
    return isMore;
  }

  /** Ends it in the middle of a target. */
  stop(): void {
    this.#rest.stop();
    this.#target?.readTxn.release();
    this.#target = undefined;
  }
}
