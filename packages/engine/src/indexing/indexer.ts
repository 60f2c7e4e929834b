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
// When it works and who is told is one state machine, and so one file; what it does in a slice is indexing-slices.ts.
//
// Invariants:
//   - A search that must see version v calls `acquireView(v)`. It helps with the indexing, so a small lag costs no wait.
//   - Building one index does not delay searches of the others.
//   - A write is acknowledged when a published view contains it (`published`). So the current view serves every search at once, and a
//     client that writes a lot waits for the indexes itself.
//
// Adding a record to an index is cheap, so a search adds the records that are missing: scanning them separately would cost the same, and
// the work would be lost (docs/decisions/shared-readers.md). An index with expensive insertion first puts records into a mutable buffer that
// searches scan, and links them in the background. `linkedEnd` says how far it is. A version is *complete* when every index has linked
// all of its records.
//
// This file says when the loop runs, and who waits for it. What it does in a slice: indexing-slices.ts.

import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import type { Background } from "../base/background.ts";
import { Deadline } from "../base/deadline.ts";
import { inBackground, type Timer } from "../base/host.ts";
import { invariant } from "../base/invariant.ts";
import { Task } from "../base/scheduler.ts";
import { RecordIdCache } from "../collection/record-id-cache.ts";
import { Visibility } from "../collection/visibility.ts";
import type { Store } from "../storage/store.ts";
import type { SharedBoard } from "../views/board.ts";
import { type SharedView, type View, Views } from "../views/view.ts";
import { Backlog, type Standing } from "./backlog.ts";
import { Completion, ViewWaiters, type Working } from "./completion.ts";
import { IdleCompaction } from "./idle-compaction.ts";
import type { IndexUpdater } from "./index-updater.ts";
import { IndexUpdaters } from "./index-updaters.ts";
import { IndexingSlices } from "./indexing-slices.ts";

export type IndexerEvents = {
  /** Every index has all records of this version in their final places. */
  onComplete(version: number): void;
  /** Whether this many more bytes may be taken for optional memory. Default: always. */
  mayTake?(bytes: number): boolean;
};

/** What an indexer is of. */
export type IndexerOptions = {
  /** Of the collection, for the scheduler. */
  readonly name?: string;
  /** Other threads that may search, at most; their slots are numbered from 1. Default 0. */
  readonly readerSlots?: number;
};

/** Name of the background task, in the log and in the status. */
export const indexing = "indexing";

/** Milliseconds after which other threads learn of progress that goes on. An index of a million records is described in microseconds. */
const refreshMs = 250;

export class Indexer {
  readonly #background: Background;
  readonly #updaters: IndexUpdaters;
  readonly #views: Views;
  readonly #visibility: Visibility;
  readonly #slices: IndexingSlices;
  readonly #waiters = new ViewWaiters();
  readonly #completion: Completion;
  /** All background indexing is one key of the scheduler; collections get equal shares of it. */
  readonly #task: Task;
  #scheduled = false;
  #stopped = false;
  readonly #backlog: Backlog;
  #refreshing: Timer | undefined;
  #hasFailed = false;

  /** @param background of the collection: stopped when the collection closes */
  constructor(
    store: Store,
    events: IndexerEvents,
    background: Background,
    { name = "", readerSlots = 0 }: IndexerOptions = {},
  ) {
    this.#task = new Task({ key: "indexing", group: name });
    this.#background = background;
    this.#completion = new Completion((version) => {
      this.#views.refresh();
      events.onComplete(version);
    });
    this.#backlog = new Backlog(() => this.#standing(), background);
    this.#updaters = new IndexUpdaters(store, background, {
      wake: () => this.wake(),
      isSearched: (index) => this.#views.uses(index),
      refuse: (kind, reason) => this.#waiters.refuse(kind, reason),
      onReplaced: () => this.#complete(),
    });
    const recordIds = new RecordIdCache((bytes) => events.mayTake?.(bytes) ?? true);
    const onOldestReleased = () => {
      this.#updaters.closeIndexes();
      if (this.#visibility.closedCount > 0) this.wake();
    };
    this.#views = new Views(onOldestReleased, readerSlots, recordIds);
    this.#visibility = new Visibility((free) => this.retire(free));
    const rest = new IdleCompaction(() => this.wake());
    this.#slices = new IndexingSlices(store, this.#updaters, this.#views, this.#visibility, rest, {
      onPublished: (view) => this.#waiters.serve(view),
      onIdle: () => this.#views.refresh(),
      onCaughtUp: (version, ordinalEnd) => {
        if (this.#completion.rise(version, ordinalEnd)) this.#complete();
      },
    });
  }

  /** Frees something that searches cannot find any more, when none goes on that has found it (views/view.ts). */
  retire(free: () => void): void {
    this.#views.retire(free);
    this.wake();
  }

  /** Ends what a thread that has died was doing. */
  abandon(slot: number): void {
    this.#views.abandon(slot);
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
    return this.#updaters.memoryBytes + this.#views.recordIds.memoryBytes;
  }

  /** Of `memoryBytes`, what remembers ids of records. */
  get identityBytes(): number {
    return this.#views.recordIds.memoryBytes;
  }

  /** Frees up to the given number of bytes of caches. */
  giveUp(bytes: number): void {
    const left = bytes - this.#views.recordIds.memoryBytes;
    this.#views.recordIds.clear();
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
    let taken = this.#slices.seenEnd;
    let limit: number = limits.indexBacklogRecordsMax;
    for (const { isRestoring, finalEnd, failure, backlogMax } of this.#updaters.inUse) {
      if (isRestoring || this.#hasFailed || failure !== undefined) continue;
      limit = Math.min(limit, backlogMax);
      taken = Math.min(taken, finalEnd);
    }
    return { taken, committed: this.#slices.seenEnd, limit };
  }

  /** Fraction of a range of ordinals that the slowest index has applied, 0 to 1. */
  progress(first: number, count: number): number {
    return this.#updaters.progress(first, count);
  }

  /** Adds an index, which is built from the existing records. */
  add(updater: IndexUpdater): void {
    // It can declare a field as a time: other threads ask again for the matches of filters.
    this.#views.renew();
    this.#completion.watermark = -1;
    this.#updaters.add(updater);
  }

  /** Drops an index. Running searches keep it until they end; waiting ones are rejected. @returns see IndexUpdaters.drop */
  drop(kind: IndexKind): Promise<void> {
    this.#views.withdraw();
    const removed = this.#updaters.drop(kind);
    const error = new QuiverError("index_not_found", `The ${kind} index was deleted meanwhile.`, {
      index_type: kind,
    });
    this.#waiters.refuse(kind, error);
    this.wake();
    return removed;
  }

  /** Called when background work on an index has made progress. */
  progressed(): void {
    if (this.#stopped) return;
    this.#complete();
    this.#refreshSoon();
    this.#updaters.keep();
    // The next step handles failures and finished replacements.
    if (this.#updaters.needsReplacing) this.wake();
  }

  /** Other threads attach again to what they search, if it has changed since. */
  refreshViews(): void {
    this.#views.refresh();
  }

  /** The board for a thread that is posted a view. */
  boardOf(view: SharedView): SharedBoard {
    return this.#views.boardOf(view);
  }

  #refreshSoon(): void {
    if (this.#refreshing !== undefined) return;
    const refresh = () => {
      this.#refreshing = undefined;
      this.#views.refresh();
    };
    this.#refreshing = inBackground(setTimeout(refresh, refreshMs));
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
      if (this.#stopped || this.#step()) return;
      this.#refreshSoon();
      this.wake();
    });
  }

  /**
   * A view at `version` or later that has the given indexes, pinned for the caller, who unpins it.
   * Until the deadline, it helps with the indexing in time slices of the caller, and waits for work that only builder threads can do.
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
    deadline: Deadline,
    working: Working,
  ): Promise<View | null> {
    while (!this.#stopped) {
      const isAllDone = this.#step();
      this.#background.succeeded(indexing);
      const view = this.#serving(version, kinds);
      if (view !== null) return view.pin();
      if (isAllDone) return null;
      await deadline.task.slice();
      deadline.check();
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
    clearTimeout(this.#refreshing);
    this.#backlog.stop(reason);
    this.#waiters.refuseAll(reason);
    this.#background.forget(indexing);
    this.#views.withdraw();
    this.#updaters.stop();
    this.#slices.stop();
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
      const isDone = this.#slices.run();
      this.#hasFailed = false;
      return isDone;
    } catch (error) {
      this.#hasFailed = true;
      this.#waiters.refuseAll(error);
      throw error;
    }
  }

  #complete(): void {
    let end = Number.POSITIVE_INFINITY;
    for (const updater of this.#updaters.inUse)
      end = Math.min(end, updater.isRestoring ? 0 : updater.finalEnd);
    this.#completion.reach(end);
  }
}
