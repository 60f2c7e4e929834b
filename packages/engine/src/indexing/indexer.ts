// How do a collection's indexes follow its truth?
//
//                 wake (a commit, an index, a load)
//        idle ----------------------------------> working: one slice per turn of the event loop
//         ^                                          |
//         |   all built indexes are at the snapshot's version: publish a view, then go on with those that
//         |   are being built; one that is done joins the next view
//         +------------------------------------------+
//         |     an error: told to those who wait; tried again by the next search, and soon by itself (base/background.ts)
//
//   an index whose building has failed goes on as it is; another one is built beside it and takes its place (index-updaters.ts). One that has
//   failed in the midst of a change is out of use until then, and its searches are told; those of other indexes go on
//
// Invariants:
//   - A published view's version is the version of its snapshot and of all its indexes (4).
//   - A slice holds the event loop for about `limits.sliceMs`, so that requests go on between slices.
//   - A search that must see version v calls `acquireView(v)`. It works along, and so a small lag costs no wait.
//   - Building one index does not hold up searches of the others.
//   - Built indexes are brought to one version before they are given the next, so that views are published however fast versions are made.
//   - A write is acknowledged when a view has it (`published`). So searches are served by the view in place, and it is whoever writes much
//     that waits for the indexes, not whoever searches.
//
// Indexes are cheap to updater, so the records between watermark and version are simply fed when a search needs them;
// scanning them aside would cost the same and be lost (docs/decisions/fresh-tail.md). An index whose insertion is dear takes
// records into a tail of its own, which it scans, and links them in the background: it says by `linkedEnd` how far it has come, and
// a version is *complete* when every index has come so far.

import { QuiverError } from "@quiver/protocol/errors";
import { limits } from "@quiver/protocol/limits";
import type { IndexKind } from "@quiver/protocol/shapes/index-definition";
import type { Background } from "../base/background.ts";
import { Deadline } from "../base/deadline.ts";
import { Task } from "../base/scheduler.ts";
import { type Head, readHead } from "../collection/head.ts";
import { Visibility } from "../collection/visibility.ts";
import { type LiveIndexes, type View, Views } from "../runtime/view.ts";
import type { Snapshot, Store } from "../storage/store.ts";
import { Backlog, type Standing } from "./backlog.ts";
import { Completion } from "./completion.ts";
import type { IndexUpdater } from "./index-updater.ts";
import { IndexUpdaters } from "./index-updaters.ts";
import { ViewWaiters, type Working } from "./view-waiters.ts";

export type IndexerEvents = {
  /** Every index has all records of this version in their final places. */
  onComplete(version: number): void;
};

/** A task of the background, as the log and the status name it. */
export const indexing = "indexing";

/** How much of what can wait is done between two looks at the clock, in postings. */
const postingsPerLook = 20_000;

/** Records that are removed between two looks at the clock, and the share of a slice that removing may take before all else. */
const reclaimedPerLook = 16;
const reclaimingShare = 0.25;

/** A snapshot, and its head. */
type Newest = { readonly snapshot: Snapshot; readonly head: Head };

export class Indexer {
  readonly #store: Store;
  readonly #background: Background;
  readonly #updaters: IndexUpdaters;
  readonly #views: Views;
  readonly #visibility = new Visibility();
  readonly #waiters = new ViewWaiters();
  readonly #completion: Completion;
  /** What built indexes are being brought to, in several slices. */
  #target: Newest | undefined;
  /** Background indexing is one key to the scheduler, of which collections get equal shares. */
  readonly #task: Task;
  #scheduled = false;
  #stopped = false;
  readonly #backlog: Backlog;
  /** The ordinal at which the newest version that was seen ends. */
  #seenEnd = 0;
  /** The newest version that was seen. */
  #seenVersion = -1;
  #hasFailed = false;

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
  }

  updater(kind: IndexKind): IndexUpdater | undefined {
    return this.#updaters.updater(kind);
  }

  /** Version up to which every index has taken over all changes; -1 while one is first built. */
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
    return this.#updaters.memoryBytes;
  }

  /** Gives up so many bytes that indexes can do without, or all there are. */
  giveUp(bytes: number): void {
    this.#updaters.giveUp(bytes);
  }

  /** Writes that wait for the indexes. */
  get waitingWrites(): number {
    return this.#backlog.waiting;
  }

  /** Resolves when a streaming write of so many records may be made (backlog.ts); undefined: at once. */
  admitWrite(records: number, deadline: Deadline): Promise<void> | undefined {
    return this.#stopped ? undefined : this.#backlog.admit(records, deadline);
  }

  /** An index that has stopped on an error, or is being read from disk, holds up no writes. */
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

  /** Share of a range of ordinals that the slowest index has taken over, 0 to 1. */
  progress(first: number, count: number): number {
    return this.#updaters.progress(first, count);
  }

  /** Adds an index; it is built from the records that are there. */
  add(updater: IndexUpdater): void {
    this.#completion.watermark = -1;
    this.#updaters.add(updater);
  }

  /** Takes an index out. Searches that run keep it until they end; those that wait for it are refused. */
  drop(kind: IndexKind): void {
    this.#views.withdraw();
    this.#updaters.drop(kind);
    const error = new QuiverError("index_not_found", `The ${kind} index was deleted meanwhile.`, {
      index_type: kind,
    });
    this.#waiters.refuse(kind, error);
    this.wake();
  }

  /** An index has come further with what it does in the background. */
  progressed(): void {
    if (this.#stopped) return;
    this.#complete();
    this.#updaters.keep();
    // What has failed, or is done, is seen to by a step.
    if (this.#updaters.needsReplacing) this.wake();
  }

  /** Keeps on disk what is worth it; resolves when that is over, with what failed. To be called before `stop`, if at all. */
  checkpointLast(): Promise<unknown[]> {
    return this.#updaters.checkpointLast();
  }

  /** Something was committed or changed: look soon. */
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
   * Works along in slices of the caller's own, so that it waits for nobody else's turn; what only builder threads can do is waited
   * for, until the deadline.
   */
  acquireView(
    version: number,
    kinds: readonly IndexKind[],
    deadline: Deadline = Deadline.none,
  ): View | Promise<View> {
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

  /** Works until a view serves; null where only others can do what is left. */
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

  /** The current view, where it is at `version` or later; not pinned. */
  viewAt(version: number): View | null {
    return this.#serving(version, []);
  }

  /**
   * Resolves when a view is at `version` or later, or when none will be soon: indexing fails, the collection is unloaded, or
   * `patience` is over. Undefined: at once.
   */
  published(version: number, patience: Deadline): Promise<void> | undefined {
    if (this.#stopped || this.#hasFailed || this.#serving(version, []) !== null) return undefined;
    // The write is done, and has nothing to do with what keeps the indexes; searches are told of that.
    return this.#waitFor(version, [], patience).then(
      (view) => view.unpin(),
      () => undefined,
    );
  }

  /** The current view, where it has what is asked for. */
  #serving(version: number, kinds: readonly IndexKind[]): View | null {
    const view = this.#views.current;
    if (view === null || view.version < version) return null;
    return kinds.every((kind) => view.indexes[kind] !== undefined) ? view : null;
  }

  /** Waits for the background, whose next view may serve. */
  #waitFor(version: number, kinds: readonly IndexKind[], deadline: Deadline): Promise<View> {
    if (this.#stopped)
      return Promise.reject(
        new QuiverError("shutting_down", "The collection was unloaded meanwhile; search again."),
      );
    const view = this.#waiters.wait(version, kinds, deadline);
    this.wake();
    return view;
  }

  /** Drops the indexes; running searches keep their view until they end, waiting ones are refused. */
  stop(reason: unknown): void {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#backlog.stop(reason);
    this.#waiters.refuseAll(reason);
    this.#background.forget(indexing);
    this.#views.withdraw();
    this.#updaters.stop();
    this.#target?.snapshot.release();
    this.#target = undefined;
  }

  /** After `stop`: resolves when no thread writes any index to disk. Only then may the collection's directory be removed. */
  written(): Promise<void> {
    return this.#updaters.written();
  }

  /**
   * Works for one slice.
   * @returns whether there is nothing left to do, or nothing before someone wakes it
   * @throws what it failed with, which those who wait are told, too
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
    const { snapshot, head } = this.#takeTarget();
    let isKept = false;
    try {
      const beganMs = performance.now();
      const end = beganMs + limits.sliceMs;
      const isTimeOver = () => performance.now() >= end;
      const reclaimEnd = beganMs + reclaimingShare * limits.sliceMs;
      // So that removals keep up where versions are made without a pause.
      this.#reclaim(() => performance.now() >= reclaimEnd);
      const advance = (updater: IndexUpdater) => {
        const isThere = updater.step(snapshot, head, isTimeOver, (ordinal, version) =>
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
        this.#target = { snapshot, head };
        return updater.isWaiting;
      }
      const built = updaters.filter((updater) => updater.watermark === head.version);
      if (!this.#isPublished(head.version, built)) {
        isKept = true;
        this.#publish(head.version, head.nextOrdinal, snapshot, built);
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
        // What came while an older version was worked towards has woken nobody.
        return !isMore && !isReclaiming && head.version === this.#seenVersion;
      }
      const next = behind.find((updater) => !updater.isWaiting);
      if (next && !isTimeOver()) advance(next);
      this.#updaters.keep();
      return (
        behind.every((updater) => updater.isWaiting) && !isReclaiming && head.version === this.#seenVersion
      );
    } finally {
      if (!isKept) snapshot.release();
    }
  }

  /** What the slice works towards: where the last one left off, or the newest version. */
  #takeTarget(): Newest {
    const snapshot = this.#store.snapshot();
    try {
      const head = readHead(snapshot);
      this.#seenEnd = head.nextOrdinal;
      this.#seenVersion = head.version;
      const target = this.#target;
      if (target === undefined) return { snapshot, head };
      this.#target = undefined;
      snapshot.release();
      return target;
    } catch (error) {
      snapshot.release();
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

  #publish(version: number, ordinalEnd: number, snapshot: Snapshot, built: readonly IndexUpdater[]): void {
    const indexes: LiveIndexes = Object.fromEntries(built.map(({ kind, index }) => [kind, index]));
    const statistics = Object.fromEntries(built.map(({ kind, index }) => [kind, index.statistics?.()]));
    this.#views.publish({ version, ordinalEnd, snapshot, indexes, statistics }, this.#visibility);
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

  /** Removes from the indexes what no search sees any more, until the time is over; returns whether there may be more. */
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
