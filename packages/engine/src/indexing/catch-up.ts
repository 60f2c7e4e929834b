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
//   an index whose building has failed goes on as it is; another one is built beside it and takes its place. One that has failed
//   in the midst of a change is out of use until then, and its searches are told; those of other indexes go on
//
// Invariants:
//   - A published view's version is the version of its snapshot and of all its indexes (4).
//   - A slice holds the event loop for about `limits.sliceMs`, so that requests go on between slices.
//   - A search that must see version v calls `reach(v)`. It works along, and so a small lag costs no wait.
//   - Building one index does not hold up searches of the others.
//   - Built indexes are brought to one version before they are given the next, so that views are published however fast versions are made.
//   - A write is acknowledged when a view has it (`published`). So searches are served by the view in place, and it is whoever writes much
//     that waits for the indexes, not whoever searches.
//
// Indexes are cheap to feed, so the records between watermark and version are simply fed when a search needs them;
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
import type { Index } from "../index/contract.ts";
import { type LiveIndexes, type View, Views } from "../runtime/view.ts";
import type { Snapshot, Store } from "../storage/store.ts";
import { Backlog, type Standing } from "./backlog.ts";
import type { Feed } from "./feed.ts";

export type CatchUpEvents = {
  /** Every index has all records of this version in their final places. */
  onComplete(version: number): void;
};

/** Tasks of the background, as the log and the status name them. */
export const indexing = "indexing";
export const building = (kind: IndexKind) => `building the ${kind} index`;

/** How much of what can wait is done between two looks at the clock, in postings. */
const postingsPerLook = 20_000;

/** Records that are removed between two looks at the clock, and the share of a slice that removing may take before all else. */
const reclaimedPerLook = 16;
const reclaimingShare = 0.25;

/** Versions that are remembered until they are complete. */
const incompleteMax = 1_000;

type Waiter = {
  version: number;
  kinds: readonly IndexKind[];
  resolve(view: View): void;
  reject(error: unknown): void;
};

/** A snapshot, and its head. */
type Newest = { readonly snapshot: Snapshot; readonly head: Head };

/** Someone who works along; with a refusal from when it is in vain. */
type Working = { readonly kinds: readonly IndexKind[]; refusal?: { reason: unknown } };

function removeFrom(index: Index, ordinal: number): void {
  try {
    index.remove(ordinal);
  } catch {
    // It is out of use, and closed when its last search has ended.
  }
}

export class CatchUp {
  readonly #store: Store;
  readonly #events: CatchUpEvents;
  readonly #background: Background;
  readonly #feeds = new Map<IndexKind, Feed>();
  /** What is built in the place of indexes whose building has failed, and who is told how that ends. */
  readonly #successors = new Map<IndexKind, { feed: Feed; done(): void; failed(error: unknown): void }>();
  /** Those whose failure is being seen to. */
  readonly #failed = new WeakSet<Feed>();
  readonly #views: Views;
  readonly #visibility = new Visibility();
  #waiters: Waiter[] = [];
  /** Who works along, which is told between two slices when what it works for has gone. */
  readonly #working = new Set<Working>();
  #watermark = -1;
  /** Published versions that are not complete, ascending, and the ordinals that they end at. */
  #incomplete: { version: number; ordinalEnd: number }[] = [];
  #completed = -1;
  /** What built indexes are being brought to, in several slices. */
  #target: Newest | undefined;
  /** Background indexing is one key to the scheduler, of which collections get equal shares. */
  readonly #task: Task;
  #scheduled = false;
  #stopped = false;
  /** Feeds of indexes that are out of use, which may still be being written to disk. */
  readonly #dropped = new Set<Feed>();
  /** Indexes that are out of use but for searches that run. */
  #closing: Index[] = [];
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
  constructor(store: Store, events: CatchUpEvents, background: Background, name = "") {
    this.#task = new Task({ key: "indexing", group: name });
    this.#store = store;
    this.#events = events;
    this.#background = background;
    this.#backlog = new Backlog(() => this.#standing(), background);
    this.#views = new Views(() => {
      if (this.#closing.length > 0) this.#closeIndexes();
      if (this.#visibility.closedCount > 0) this.wake();
    });
  }

  feed(kind: IndexKind): Feed | undefined {
    return this.#feeds.get(kind);
  }

  /** Version up to which every index has taken over all changes; -1 while one is first built. */
  get watermark(): number {
    return this.#watermark;
  }

  /** Version up to which every index has all records in their final places; -1 for none yet. */
  get completed(): number {
    return this.#completed;
  }

  get isStopped(): boolean {
    return this.#stopped;
  }

  /** Whether an index waits for memory. */
  get isPostponed(): boolean {
    return [...this.#feeds.values()].some(({ index }) => index.isPostponed === true);
  }

  get memoryBytes(): number {
    let bytes = 0;
    for (const feed of this.#all()) bytes += feed.index.memoryBytes;
    return bytes;
  }

  /** Gives up so many bytes that indexes can do without, or all there are. */
  giveUp(bytes: number): void {
    let left = bytes;
    for (const { index } of this.#feeds.values()) {
      if (left <= 0) return;
      const before = index.memoryBytes;
      index.giveUp?.(left);
      left -= before - index.memoryBytes;
    }
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
    for (const { isRestoring, finalEnd, failure, backlogMax } of this.#feeds.values()) {
      if (isRestoring || this.#hasFailed || failure !== undefined) continue;
      limit = Math.min(limit, backlogMax);
      taken = Math.min(taken, finalEnd);
    }
    return { taken, committed: this.#seenEnd, limit };
  }

  /** Share of a range of ordinals that the slowest index has taken over, 0 to 1. */
  progress(first: number, count: number): number {
    let least = 1;
    for (const feed of this.#feeds.values()) least = Math.min(least, feed.progress(first, count));
    return least;
  }

  /** Adds an index; it is built from the records that are there. */
  add(feed: Feed): void {
    this.#feeds.set(feed.kind, feed);
    this.#watermark = -1;
    this.#restore(feed);
  }

  *#all(): Generator<Feed> {
    yield* this.#feeds.values();
    for (const { feed } of this.#successors.values()) yield feed;
  }

  /** Reads what was kept of an index, once; what cannot be read is built from the records. */
  #restore(feed: Feed): void {
    this.wake();
    let isTried = false;
    this.#background.run(`reading the ${feed.kind} index from disk`, async () => {
      if (!isTried) {
        isTried = true;
        await feed.restore(() => this.#store.snapshot());
      }
      if (this.#stopped) feed.index.close();
      else this.wake();
    });
  }

  /** Sees to indexes whose building has failed, and puts a successor that has come as far in its place. */
  #replaceFailed(version: number, ordinalEnd: number): void {
    for (const feed of this.#feeds.values()) {
      if (feed.failure === undefined || this.#failed.has(feed) || feed.isRestoring) continue;
      this.#failed.add(feed);
      const { kind } = feed;
      this.#background.failed(building(kind), feed.failure, () => this.#buildSuccessor(kind));
    }
    for (const [kind, { feed, done, failed }] of this.#successors) {
      if (feed.failure !== undefined) {
        this.#dropSuccessor(kind);
        failed(feed.failure);
        if (this.#feeds.get(kind)?.isStuck) this.#refuse(kind, feed.failure);
      } else if (feed.watermark === version && feed.finalEnd >= ordinalEnd) {
        this.#successors.delete(kind);
        this.#closing.push((this.#feeds.get(kind) as Feed).index);
        this.#feeds.set(kind, feed);
        this.#complete();
        done();
      }
    }
  }

  /** Builds an index beside the one whose building has failed. Resolves when it has taken its place. */
  #buildSuccessor(kind: IndexKind): Promise<void> {
    return new Promise((done, failed) => {
      const feed = (this.#feeds.get(kind) as Feed).anew();
      this.#successors.set(kind, { feed, done, failed });
      this.#restore(feed);
    });
  }

  #dropSuccessor(kind: IndexKind): void {
    const dropped = this.#successors.get(kind);
    this.#successors.delete(kind);
    dropped?.feed.index.close();
  }

  /** An index has come further with what it does in the background. */
  progressed(): void {
    if (this.#stopped) return;
    this.#complete();
    this.#keep();
    // What has failed, or is done, is seen to by a step.
    if (this.#successors.size > 0 || [...this.#feeds.values()].some((feed) => feed.failure !== undefined))
      this.wake();
  }

  /** Keeps on disk what is worth it; resolves when that is over, with what failed. To be called before `stop`, if at all. */
  async keepLast(): Promise<unknown[]> {
    const keeping = [...this.#feeds.values()].map(async (feed) =>
      feed.keep(() => this.#store.snapshot(), true),
    );
    return (await Promise.allSettled(keeping)).flatMap((kept) =>
      kept.status === "rejected" ? [kept.reason] : [],
    );
  }

  #keep(): void {
    for (const feed of this.#feeds.values())
      this.#background.run(`keeping the ${feed.kind} index on disk`, () =>
        feed.keep(() => this.#store.snapshot()),
      );
  }

  /** Takes an index out. Searches that run keep it until they end; those that wait for it are refused. */
  drop(kind: IndexKind): void {
    const dropped = this.#feeds.get(kind);
    this.#feeds.delete(kind);
    this.#dropSuccessor(kind);
    this.#background.forget(building(kind));
    this.#views.withdraw();
    if (dropped) this.#closing.push(dropped.index);
    this.#closeIndexes();
    if (dropped !== undefined) {
      this.#dropped.add(dropped);
      this.#background.run(`removing what was kept of the ${kind} index`, async () => {
        await dropped.forget();
        this.#dropped.delete(dropped);
      });
    }
    const error = new QuiverError("index_not_found", `The ${kind} index was deleted meanwhile.`, {
      index_type: kind,
    });
    this.#refuse(kind, error);
    this.wake();
  }

  /** Refuses those who wait for an index. */
  #refuse(kind: IndexKind, reason: unknown): void {
    const refused = this.#waiters.filter((waiter) => waiter.kinds.includes(kind));
    this.#waiters = this.#waiters.filter((waiter) => !waiter.kinds.includes(kind));
    for (const waiter of refused) waiter.reject(reason);
    for (const each of this.#working) if (each.kinds.includes(kind)) each.refusal = { reason };
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
  reach(
    version: number,
    kinds: readonly IndexKind[],
    deadline: Deadline = Deadline.none,
  ): View | Promise<View> {
    const view = this.#serving(version, kinds);
    return view === null ? this.#workAlong(version, kinds, deadline) : view.pin();
  }

  async #workAlong(version: number, kinds: readonly IndexKind[], deadline: Deadline): Promise<View> {
    const { task } = deadline;
    const working: Working = { kinds };
    this.#working.add(working);
    try {
      while (!this.#stopped) {
        const isAllDone = this.#step();
        this.#background.succeeded(indexing);
        const view = this.#serving(version, kinds);
        if (view !== null) return view.pin();
        if (isAllDone) break;
        await task.slice();
        if (working.refusal) throw working.refusal.reason;
      }
    } finally {
      this.#working.delete(working);
    }
    const stuck = kinds.map((kind) => this.#feeds.get(kind)).find((feed) => feed?.isStuck);
    if (stuck !== undefined && !this.#successors.has(stuck.kind)) throw stuck.failure;
    return this.#waitFor(version, kinds, deadline);
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
    return new Promise((resolve, reject) => {
      if (this.#stopped) {
        reject(new QuiverError("shutting_down", "The collection was unloaded meanwhile; search again."));
        return;
      }
      if (this.#waiters.length >= limits.viewWaitersMax) {
        reject(
          new QuiverError(
            "overloaded",
            `${this.#waiters.length} searches wait for the collection's indexes already. Send the request again later.`,
          ),
        );
        return;
      }
      const waiter: Waiter = { version, kinds, resolve, reject };
      const end = deadline.onOver((reason) => {
        this.#waiters = this.#waiters.filter((other) => other !== waiter);
        reject(reason);
      });
      if (deadline.isOver) return;
      waiter.resolve = (reached) => {
        end();
        resolve(reached);
      };
      waiter.reject = (error) => {
        end();
        reject(error);
      };
      this.#waiters.push(waiter);
      this.wake();
    });
  }

  /** Drops the indexes; running searches keep their view until they end, waiting ones are refused. */
  stop(reason: unknown): void {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#backlog.stop(reason);
    for (const waiter of this.#waiters.splice(0)) waiter.reject(reason);
    for (const task of [indexing, ...[...this.#feeds.keys()].map(building)]) this.#background.forget(task);
    this.#views.withdraw();
    for (const feed of this.#all()) {
      this.#closing.push(feed.index);
      this.#dropped.add(feed);
    }
    this.#feeds.clear();
    this.#successors.clear();
    this.#target?.snapshot.release();
    this.#target = undefined;
    this.#closeIndexes();
  }

  /** After `stop`: resolves when no thread writes any index to disk. Only then may the collection's directory be removed. */
  async written(): Promise<void> {
    await Promise.all([...this.#dropped].map((feed) => feed.settled()));
  }

  /** Indexes are closed when no search has them any more. */
  #closeIndexes(): void {
    const closable = this.#closing.filter((index) => !this.#views.uses(index));
    this.#closing = this.#closing.filter((index) => !closable.includes(index));
    for (const index of closable) index.close();
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
      for (const waiter of this.#waiters.splice(0)) waiter.reject(error);
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
      const advance = (feed: Feed) => {
        const isThere = feed.step(snapshot, head, isTimeOver, (ordinal, version) =>
          this.#visibility.close(ordinal, version),
        );
        this.#visibility.indexedUpTo(feed.cursor);
        return isThere;
      };
      this.#replaceFailed(head.version, head.nextOrdinal);
      const feeds = [...this.#feeds.values()].filter((feed) => !feed.isRestoring && !feed.isStuck);
      for (const feed of feeds) {
        if (!feed.isBuilt || feed.watermark >= head.version || advance(feed)) continue;
        isKept = true;
        this.#target = { snapshot, head };
        return feed.isWaiting;
      }
      const built = feeds.filter((feed) => feed.watermark === head.version);
      if (!this.#isPublished(head.version, built)) {
        isKept = true;
        this.#publish(head.version, head.nextOrdinal, snapshot, built);
      }
      const behind = [
        ...feeds.filter((feed) => !feed.isBuilt),
        ...[...this.#successors.values()]
          .map(({ feed }) => feed)
          .filter((feed) => !feed.isRestoring && feed.watermark < head.version),
      ];
      const isReclaiming = this.#reclaim(isTimeOver);
      if ([...this.#feeds.values()].some((feed) => feed.isStuck && !this.#failed.has(feed))) return false;
      if (behind.length === 0) {
        if (feeds.length === this.#feeds.size) this.#rise(head.version, head.nextOrdinal);
        const isMore = feeds.some((feed) => feed.tidy(postingsPerLook, isTimeOver));
        this.#keep();
        // What came while an older version was worked towards has woken nobody.
        return !isMore && !isReclaiming && head.version === this.#seenVersion;
      }
      const next = behind.find((feed) => !feed.isWaiting);
      if (next && !isTimeOver()) advance(next);
      this.#keep();
      return behind.every((feed) => feed.isWaiting) && !isReclaiming && head.version === this.#seenVersion;
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

  #isPublished(version: number, built: readonly Feed[]): boolean {
    const current = this.#views.current;
    return (
      current !== null &&
      current.version === version &&
      Object.keys(current.indexes).length === built.length &&
      built.every((feed) => current.indexes[feed.kind] === feed.index)
    );
  }

  #publish(version: number, ordinalEnd: number, snapshot: Snapshot, built: readonly Feed[]): void {
    const indexes: LiveIndexes = Object.fromEntries(built.map((feed) => [feed.kind, feed.index]));
    const textStatistics = indexes["tf-idf"]?.statistics() ?? { documents: 0, totalLength: 0 };
    this.#views.publish({ version, ordinalEnd, snapshot, indexes, textStatistics }, this.#visibility);
    const view = this.#views.current as View;
    const isServed = (waiter: Waiter) =>
      waiter.version <= version && waiter.kinds.every((kind) => indexes[kind] !== undefined);
    const served = this.#waiters.filter(isServed);
    this.#waiters = this.#waiters.filter((waiter) => !isServed(waiter));
    for (const waiter of served) waiter.resolve(view.pin());
  }

  #rise(version: number, ordinalEnd: number): void {
    if (this.#watermark >= version) return;
    this.#watermark = version;
    // Where very many wait, the newest two are told as one.
    if (this.#incomplete.length >= incompleteMax) this.#incomplete.pop();
    this.#incomplete.push({ version, ordinalEnd });
    this.#complete();
  }

  #complete(): void {
    let end = Number.POSITIVE_INFINITY;
    for (const feed of this.#feeds.values()) end = Math.min(end, feed.isRestoring ? 0 : feed.finalEnd);
    let version = -1;
    while (this.#incomplete.length > 0 && this.#incomplete[0].ordinalEnd <= end)
      version = (this.#incomplete.shift() as { version: number }).version;
    if (version <= this.#completed) return;
    this.#completed = version;
    this.#events.onComplete(version);
  }

  /** Removes from the indexes what no search sees any more, until the time is over; returns whether there may be more. */
  #reclaim(isTimeOver: () => boolean): boolean {
    if (this.#visibility.closedCount === 0) return false;
    const oldest = this.#views.oldestVersion;
    for (let count = reclaimedPerLook; count === reclaimedPerLook; ) {
      const reclaimed = this.#visibility.reclaim(oldest, reclaimedPerLook);
      count = reclaimed.length;
      for (const ordinal of reclaimed) {
        for (const feed of this.#all()) feed.remove(ordinal);
        // A search may still go through an index that is out of use, and nothing hides the ordinal from it any more.
        for (const index of this.#closing) removeFrom(index, ordinal);
      }
      if (count === reclaimedPerLook && isTimeOver()) return true;
    }
    return false;
  }
}
