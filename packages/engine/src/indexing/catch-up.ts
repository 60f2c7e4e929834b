// How do a collection's indexes follow its truth?
//
//                 wake (a commit, an index, a load)
//        idle ----------------------------------> working: one slice per turn of the event loop
//         ^                                          |
//         |   all built indexes are at the snapshot's version: publish a view, then go on with those that
//         |   are being built; one that is done joins the next view
//         +------------------------------------------+
//         |                     an error: remembered, told to those who wait; the next wake tries again
//
// Invariants:
//   - A published view's version is the version of its snapshot and of all its indexes (4).
//   - A slice holds the event loop for about `limits.indexingSliceMs`, so that requests go on between slices.
//   - A search that must see version v calls `reach(v)`. It works along, and so a small lag costs no wait.
//   - Building one index does not hold up searches of the others.
//
// Indexes are cheap to feed, so the records between watermark and version are simply fed when a search needs them;
// scanning them aside would cost the same and be lost (docs/decisions/fresh-tail.md). An index whose insertion is dear takes
// records into a tail of its own, which it scans, and links them in the background: it says by `linkedEnd` how far it has come, and
// a version is *complete* when every index has come so far.

import { QuiverError } from "@quiver/protocol/errors";
import { limits } from "@quiver/protocol/limits";
import type { IndexKind } from "@quiver/protocol/shapes/index-definition";
import { Deadline } from "../base/deadline.ts";
import { nextTurn } from "../base/turns.ts";
import { readHead } from "../collection/head.ts";
import { Visibility } from "../collection/visibility.ts";
import type { Index } from "../index/contract.ts";
import { HnswIndex } from "../index/hnsw/hnsw-index.ts";
import { type LiveIndexes, type View, Views } from "../runtime/view.ts";
import type { Snapshot, Store } from "../storage/store.ts";
import { Backlog, type Standing } from "./backlog.ts";
import type { Feed } from "./feed.ts";

export type CatchUpEvents = {
  /** Every index has all records of this version in their final places. */
  onComplete(version: number): void;
  /** Indexing stopped on an error, such as a corrupted record. */
  onFailed(error: unknown): void;
};

/** How much of what can wait is done between two looks at the clock, in postings. */
const postingsPerLook = 20_000;

/** Versions that are remembered until they are complete. */
const incompleteMax = 1_000;

type Waiter = {
  version: number;
  kinds: readonly IndexKind[];
  resolve(view: View): void;
  reject(error: unknown): void;
};

/** Lets an index go on with what can wait, until the time is over. @returns whether there is more */
function hasMoreToDo(index: Index, end: number): boolean {
  if (index.tidy === undefined) return false;
  while (index.tidy(postingsPerLook)) if (performance.now() >= end) return true;
  return false;
}

export class CatchUp {
  readonly #store: Store;
  readonly #events: CatchUpEvents;
  readonly #feeds = new Map<IndexKind, Feed>();
  readonly #views: Views;
  readonly #visibility = new Visibility();
  #waiters: Waiter[] = [];
  #watermark = -1;
  /** Published versions that are not complete, ascending, and the ordinals that they end at. */
  #incomplete: { version: number; ordinalEnd: number }[] = [];
  #completed = -1;
  #scheduled = false;
  #stopped = false;
  /** Indexes that are out of use but for searches that run. */
  #closing: Index[] = [];
  readonly #backlog = new Backlog(() => this.#standing());
  /** The ordinal at which the newest version that was seen ends. */
  #seenEnd = 0;
  #hasFailed = false;

  constructor(store: Store, events: CatchUpEvents) {
    this.#store = store;
    this.#events = events;
    this.#views = new Views(() => this.#reclaim());
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

  get memoryBytes(): number {
    let bytes = 0;
    for (const feed of this.#feeds.values()) bytes += feed.index.memoryBytes;
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
    for (const { index, isRestoring, finalEnd } of this.#feeds.values()) {
      if (isRestoring || this.#hasFailed) continue;
      if (index instanceof HnswIndex) {
        if (index.failure !== undefined) continue;
        limit = Math.min(limit, Math.ceil(limits.indexBacklogBytesMax / (4 * index.dimension)));
      }
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
    this.wake();
    void feed
      .restore(() => this.#store.snapshot())
      .then(() => {
        if (this.#stopped) feed.index.close();
        else this.wake();
      });
  }

  /** An index has come further with what it does in the background. */
  progressed(): void {
    if (this.#stopped) return;
    this.#complete();
    this.#keep();
  }

  /** Keeps on disk what is worth it; resolves when that is done. To be called before `stop`, if at all. */
  async keepLast(): Promise<void> {
    await Promise.all([...this.#feeds.values()].map((feed) => feed.keep(() => this.#store.snapshot(), true)));
  }

  #keep(): void {
    for (const feed of this.#feeds.values()) void feed.keep(() => this.#store.snapshot());
  }

  /** Takes an index out. Searches that run keep it until they end; those that wait for it are refused. */
  drop(kind: IndexKind): void {
    const dropped = this.#feeds.get(kind);
    this.#feeds.delete(kind);
    this.#views.withdraw();
    if (dropped) this.#closing.push(dropped.index);
    this.#closeIndexes();
    void dropped?.forget()?.catch((error: unknown) => this.#events.onFailed(error));
    const refused = this.#waiters.filter((waiter) => waiter.kinds.includes(kind));
    this.#waiters = this.#waiters.filter((waiter) => !waiter.kinds.includes(kind));
    const error = new QuiverError("index_not_found", `The ${kind} index was deleted meanwhile.`, {
      index_type: kind,
    });
    for (const waiter of refused) waiter.reject(error);
    this.wake();
  }

  /** Something was committed or changed: look soon. */
  wake(): void {
    if (this.#scheduled || this.#stopped) return;
    this.#scheduled = true;
    void nextTurn().then(() => {
      this.#scheduled = false;
      if (!this.#stopped && !this.#step()) this.wake();
    });
  }

  /**
   * A view at `version` or later that has the given indexes, pinned for the caller, who unpins it.
   * Works one slice along at once; where that is not enough, waits for the background, until the deadline.
   */
  reach(
    version: number,
    kinds: readonly IndexKind[],
    deadline: Deadline = Deadline.none,
  ): View | Promise<View> {
    const serving = (): View | null => {
      const view = this.#views.current;
      if (view === null || view.version < version) return null;
      return kinds.every((kind) => view.indexes[kind] !== undefined) ? view : null;
    };
    let view = serving();
    if (view === null && !this.#stopped) {
      this.#step();
      view = serving();
    }
    if (view) return view.pin();
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
    this.#views.withdraw();
    for (const feed of this.#feeds.values()) this.#closing.push(feed.index);
    this.#feeds.clear();
    this.#closeIndexes();
  }

  /** Indexes are closed when no search has them any more. */
  #closeIndexes(): void {
    const closable = this.#closing.filter((index) => !this.#views.uses(index));
    this.#closing = this.#closing.filter((index) => !closable.includes(index));
    for (const index of closable) index.close();
  }

  /** Works for one slice. @returns whether there is nothing left to do, or nothing before someone wakes it */
  #step(): boolean {
    const snapshot = this.#store.snapshot();
    let isKept = false;
    try {
      const head = readHead(snapshot);
      this.#seenEnd = head.nextOrdinal;
      const end = performance.now() + limits.indexingSliceMs;
      const advance = (feed: Feed) => {
        const isThere = feed.step(
          snapshot,
          head,
          () => performance.now() >= end,
          (ordinal, version) => this.#visibility.close(ordinal, version),
        );
        this.#visibility.indexedUpTo(feed.cursor);
        return isThere;
      };
      const feeds = [...this.#feeds.values()].filter((feed) => !feed.isRestoring);
      for (const feed of feeds)
        if (feed.isBuilt && feed.watermark < head.version && !advance(feed)) return feed.isWaiting;
      const built = feeds.filter((feed) => feed.watermark === head.version);
      if (!this.#isPublished(head.version, built)) {
        isKept = true;
        this.#publish(head.version, head.nextOrdinal, snapshot, built);
      }
      this.#hasFailed = false;
      const building = feeds.filter((feed) => !feed.isBuilt);
      if (building.length === 0) {
        if (feeds.length === this.#feeds.size) this.#rise(head.version, head.nextOrdinal);
        const isMore = feeds.some((feed) => hasMoreToDo(feed.index, end));
        this.#keep();
        return !isMore;
      }
      const next = building.find((feed) => !feed.isWaiting);
      if (next && performance.now() < end) advance(next);
      this.#keep();
      return building.every((feed) => feed.isWaiting);
    } catch (error) {
      this.#hasFailed = true;
      for (const waiter of this.#waiters.splice(0)) waiter.reject(error);
      this.#events.onFailed(error);
      return true;
    } finally {
      if (!isKept) snapshot.release();
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
    this.#reclaim();
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

  #reclaim(): void {
    if (this.#closing.length > 0) this.#closeIndexes();
    if (this.#visibility.closedCount === 0) return;
    for (const ordinal of this.#visibility.reclaim(this.#views.oldestVersion)) {
      for (const feed of this.#feeds.values()) feed.remove(ordinal);
      // A search may still go through an index that is out of use, and nothing hides the ordinal from it any more.
      for (const index of this.#closing) index.remove(ordinal);
    }
  }
}
