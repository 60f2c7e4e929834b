// How do the indexes of a collection follow its records?
//
//                 wake (a commit, a new index, a load)
//        idle ----------------------------------> working: one time slice per turn of the event loop
//         ^                                          |
//         |   all built indexes are at the target version: publish a view, then continue with the indexes that are
//         |   still being built; an index that is done joins the next view
//         +------------------------------------------+
//         |     on an error: reject the searches that wait; the next search tries again, and so does the background task
//
//   When building an index fails, the index stays in use, and the indexer builds another one beside it and then replaces it
//   (index-updaters.ts). An index that fails in the middle of a change may be inconsistent: it is out of use until it is replaced,
//   and its searches get the error. The other indexes are not affected.
//
// Invariants:
//   - A published view has one version: that of its read transaction and of all its indexes (4).
//   - A time slice holds the event loop for about `limits.sliceMs`. Requests run between slices.
//   - A search that must see version v calls `acquireView(v)`. It helps with the indexing, so a small lag costs no wait.
//   - Building one index does not delay searches of the others.
//   - All built indexes reach one target version before a newer target is chosen. So views are published however fast commits arrive.
//   - A write is acknowledged when a published view contains it (`published`). So the current view serves every search at once, and a
//     client that writes a lot waits for the indexes itself.
//
// Adding a record to an index is cheap, so a search adds the records that are missing: scanning them separately would cost the same, and
// the work would be lost (docs/decisions/fresh-tail.md). An index with expensive insertion first puts records into a mutable buffer that
// searches scan, and links them in the background. `linkedEnd` says how far it is. A version is *complete* when every index has linked
// all of its records.
//
// One file: it is the one loop above and what wakes it; the parts with a state of their own have files (index-updaters.ts, view-waiters.ts,
// backlog.ts, completion.ts).

import { QuiverError } from "@quiver/protocol/errors";
import { limits } from "@quiver/protocol/limits";
import type { IndexKind } from "@quiver/protocol/shapes/index-definition";
import type { Background } from "../base/background.ts";
import { Deadline } from "../base/deadline.ts";
import { invariant } from "../base/invariant.ts";
import { Task } from "../base/scheduler.ts";
import { type Head, readHead } from "../collection/head.ts";
import { Identities } from "../collection/identities.ts";
import { Visibility } from "../collection/visibility.ts";
import { type LiveIndexes, type View, Views } from "../runtime/view.ts";
import type { ReadTransaction, Store } from "../storage/store.ts";
import { Backlog, type Standing } from "./backlog.ts";
import { Completion } from "./completion.ts";
import type { IndexUpdater } from "./index-updater.ts";
import { IndexUpdaters } from "./index-updaters.ts";
import { ViewWaiters, type Working } from "./view-waiters.ts";

export type IndexerEvents = {
  /** Every index has all records of this version in their final places. */
  onComplete(version: number): void;
  /** Whether this many more bytes may be taken for optional memory. Default: always. */
  mayTake?(bytes: number): boolean;
};

/** Name of the background task, in the log and in the status. */
export const indexing = "indexing";

/** Postings of deferred work (merging) between two checks of the clock. */
const postingsPerLook = 20_000;

/** Records that are removed between two checks of the clock, and the share of a time slice that removals may take first. */
const reclaimedPerLook = 16;
const reclaimingShare = 0.25;

/** A read transaction, and its head. */
type Newest = { readonly readTxn: ReadTransaction; readonly head: Head };

export class Indexer {
  readonly #store: Store;
  readonly #background: Background;
  readonly #updaters: IndexUpdaters;
  readonly #views: Views;
  readonly #visibility: Visibility;
  readonly #identities: Identities;
  readonly #waiters = new ViewWaiters();
  readonly #completion: Completion;
  /** The version that built indexes are brought to, over several slices. */
  #target: Newest | undefined;
  /** All background indexing is one key of the scheduler; collections get equal shares of it. */
  readonly #task: Task;
  #scheduled = false;
  #stopped = false;
  readonly #backlog: Backlog;
  /** The end of the ordinals of the newest known version. */
  #seenEnd = 0;
  /** The newest known version. */
  #seenVersion = -1;
  #hasFailed = false;
  /** Whether the last slice left nothing to do. */
  #wasIdle = false;

  /**
   * @param background of the collection: stopped when the collection closes
   * @param name of the collection, for the scheduler
   */
  constructor(store: Store, events: IndexerEvents, background: Background, name = "") {
    this.#task = new Task({ key: "indexing", group: name });
    this.#store = store;
    this.#background = background;
    this.#completion = new Completion((version) => events.onComplete(version));
    this.#backlog = new Backlog(() => this.#standing(), background);
    this.#updaters = new IndexUpdaters(store, background, {
      wake: () => this.wake(),
      isSearched: (index) => this.#views.uses(index),
      refuse: (kind, reason) => this.#waiters.refuse(kind, reason),
      onReplaced: () => this.#complete(),
    });
    this.#views = new Views(() => {
      if (this.#updaters.isAnyClosing) this.#updaters.closeIndexes();
      if (this.#visibility.closedCount > 0) this.wake();
    });
    this.#visibility = new Visibility((free) => this.retire(free));
    this.#identities = new Identities((bytes) => events.mayTake?.(bytes) ?? true);
  }

  /** Frees something that searches cannot find any more, when none goes on that has found it (runtime/view.ts). */
  retire(free: () => void): void {
    this.#views.retire(free);
    this.wake();
  }

  updater(kind: IndexKind): IndexUpdater | undefined {
    return this.#updaters.updater(kind);
  }

  /** Version up to which every index has applied all changes; -1 during the first build of one. */
  get watermark(): number {
    return this.#completion.watermark;
  }

  /** Version up to which every index has all records in their final places; -1 for none yet. */
  get completed(): number {
    return this.#completion.completed;
  }

  get isStopped(): boolean {
    return this.#stopped;
  }

  /** Whether an index waits for memory. */
  get isPostponed(): boolean {
    return this.#updaters.isPostponed;
  }

  get memoryBytes(): number {
    return this.#updaters.memoryBytes + this.#identities.memoryBytes;
  }

  /** Of `memoryBytes`, what remembers ids of records. */
  get identityBytes(): number {
    return this.#identities.memoryBytes;
  }

  /** Frees up to the given number of bytes of caches. */
  giveUp(bytes: number): void {
    const left = bytes - this.#identities.memoryBytes;
    this.#identities.clear();
    if (left > 0) this.#updaters.giveUp(left);
  }

  /** Writes that wait for the indexes. */
  get waitingWrites(): number {
    return this.#backlog.waiting;
  }

  /** Resolves when a streaming write of this many records is admitted (backlog.ts); undefined: at once. */
  admitWrite(records: number, deadline: Deadline): Promise<void> | undefined {
    return this.#stopped ? undefined : this.#backlog.admit(records, deadline);
  }

  /** How far behind the indexes are. An index that failed, or that is being read from disk, does not delay writes. */
  #standing(): Standing {
    let taken = this.#seenEnd;
    let limit: number = limits.indexBacklogRecordsMax;
    for (const { isRestoring, finalEnd, failure, backlogMax } of this.#updaters.inUse) {
      if (isRestoring || this.#hasFailed || failure !== undefined) continue;
      limit = Math.min(limit, backlogMax);
      taken = Math.min(taken, finalEnd);
    }
    return { taken, committed: this.#seenEnd, limit };
  }

  /** Fraction of a range of ordinals that the slowest index has applied, 0 to 1. */
  progress(first: number, count: number): number {
    return this.#updaters.progress(first, count);
  }

  /** Adds an index, which is built from the existing records. */
  add(updater: IndexUpdater): void {
    this.#completion.watermark = -1;
    this.#updaters.add(updater);
  }

  /** Drops an index. Running searches keep it until they end; waiting ones are rejected. */
  drop(kind: IndexKind): void {
    this.#views.withdraw();
    this.#updaters.drop(kind);
    const error = new QuiverError("index_not_found", `The ${kind} index was deleted meanwhile.`, {
      index_type: kind,
    });
    this.#waiters.refuse(kind, error);
    this.wake();
  }

  /** Called when background work on an index has made progress. */
  progressed(): void {
    if (this.#stopped) return;
    this.#complete();
    this.#updaters.keep();
    // The next step handles failures and finished replacements.
    if (this.#updaters.needsReplacing) this.wake();
  }

  /** Writes the last checkpoints, if worthwhile. Resolves with the errors. Call it before `stop`. */
  checkpointLast(): Promise<unknown[]> {
    return this.#updaters.checkpointLast();
  }

  /** Schedules a step: something was committed or changed. */
  wake(): void {
    if (this.#scheduled || this.#stopped) return;
    this.#scheduled = true;
    this.#background.run(indexing, async () => {
      await this.#task.slice();
      this.#scheduled = false;
      if (!this.#stopped && !this.#step()) this.wake();
    });
  }

  /**
   * A view at `version` or later that has the given indexes, pinned for the caller, who unpins it.
   * Helps with the indexing in time slices of the caller. Waits, until the deadline, for work that only builder threads can do.
   */
  acquireView(
    version: number,
    kinds: readonly IndexKind[],
    deadline: Deadline = Deadline.none,
  ): View | Promise<View> {
    invariant(version >= 0, () => `a view of version ${version} is acquired`);
    const view = this.#serving(version, kinds);
    return view === null ? this.#workAlong(version, kinds, deadline) : view.pin();
  }

  async #workAlong(version: number, kinds: readonly IndexKind[], deadline: Deadline): Promise<View> {
    const view = await this.#waiters.along(kinds, (working) =>
      this.#workUntil(version, kinds, deadline, working),
    );
    if (view !== null) return view;
    const stuck = kinds.map((kind) => this.#updaters.updater(kind)).find((updater) => updater?.isStuck);
    if (stuck !== undefined && !this.#updaters.hasSuccessor(stuck.kind)) throw stuck.failure;
    return this.#waitFor(version, kinds, deadline);
  }

  /** Helps until a view serves the request; null when only builder threads can do the rest. */
  async #workUntil(
    version: number,
    kinds: readonly IndexKind[],
    { task }: Deadline,
    working: Working,
  ): Promise<View | null> {
    while (!this.#stopped) {
      const isAllDone = this.#step();
      this.#background.succeeded(indexing);
      const view = this.#serving(version, kinds);
      if (view !== null) return view.pin();
      if (isAllDone) return null;
      await task.slice();
      if (working.refusal) throw working.refusal.reason;
    }
    return null;
  }

  /** The current view, if it is at `version` or later; not pinned. */
  viewAt(version: number): View | null {
    return this.#serving(version, []);
  }

  /**
   * Resolves when a view is at `version` or later, or when waiting longer is useless: indexing fails, the collection is unloaded, or
   * `patience` is over. Returns undefined when there is nothing to wait for.
   */
  published(version: number, patience: Deadline): Promise<void> | undefined {
    if (this.#stopped || this.#hasFailed || this.#serving(version, []) !== null) return undefined;
    // The write itself has succeeded. Searches report why the indexes lag.
    return this.#waitFor(version, [], patience).then(
      (view) => view.unpin(),
      () => undefined,
    );
  }

  /** The current view, if it is new enough and has these indexes. */
  #serving(version: number, kinds: readonly IndexKind[]): View | null {
    const view = this.#views.current;
    return view?.serves(version, kinds) ? view : null;
  }

  /** Waits for a view that the background publishes. */
  #waitFor(version: number, kinds: readonly IndexKind[], deadline: Deadline): Promise<View> {
    if (this.#stopped)
      return Promise.reject(
        new QuiverError("shutting_down", "The collection was unloaded meanwhile; search again."),
      );
    const view = this.#waiters.wait(version, kinds, deadline);
    this.wake();
    return view;
  }

  /** Drops all indexes. Running searches keep their views until they end; waiting ones are rejected. */
  stop(reason: unknown): void {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#backlog.stop(reason);
    this.#waiters.refuseAll(reason);
    this.#background.forget(indexing);
    this.#views.withdraw();
    this.#updaters.stop();
    this.#target?.readTxn.release();
    this.#target = undefined;
  }

  /** After `stop`: resolves when no thread writes a checkpoint any more. Only then may the collection's directory be removed. */
  written(): Promise<void> {
    return this.#updaters.written();
  }

  /**
   * Works for one time slice.
   * @returns whether it is idle until the next `wake`
   * @throws the error that also rejects the waiting searches
   */
  #step(): boolean {
    try {
      const isDone = this.#slice();
      this.#hasFailed = false;
      return isDone;
    } catch (error) {
      this.#hasFailed = true;
      this.#waiters.refuseAll(error);
      throw error;
    }
  }

  #slice(): boolean {
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
        if (updaters.length === this.#updaters.inUse.length) this.#rise(head.version, head.nextOrdinal);
        const isMore = updaters.some((updater) => updater.tidy(postingsPerLook, isTimeOver));
        this.#updaters.keep();
        // A commit that arrived during the work on an older target did not wake the indexer.
        this.#wasIdle = !isMore && !isReclaiming && head.version === this.#seenVersion;
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
    this.#views.publish(
      { version, ordinalEnd, readTxn, identities: this.#identities, indexes, statistics },
      this.#visibility,
    );
    this.#waiters.serve(this.#views.current as View);
  }

  #rise(version: number, ordinalEnd: number): void {
    if (this.#completion.rise(version, ordinalEnd)) this.#complete();
  }

  #complete(): void {
    let end = Number.POSITIVE_INFINITY;
    for (const updater of this.#updaters.inUse)
      end = Math.min(end, updater.isRestoring ? 0 : updater.finalEnd);
    this.#completion.reach(end);
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
}
