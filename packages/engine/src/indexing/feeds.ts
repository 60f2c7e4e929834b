// Which indexes does a collection have, and which of them are in use?
//
//   an index whose building has failed goes on as it is; another one, its successor, is built beside it and takes its place
//   one that is deleted, or replaced, is closed when its last search has ended
//
// Each is read from its checkpoint first, where it has one.

import type { IndexKind } from "@quiver/protocol/shapes/index-definition";
import type { Background } from "../base/background.ts";
import type { Index } from "../index/contract.ts";
import type { Store } from "../storage/store.ts";
import type { Feed } from "./feed.ts";

/** A task of the background, as the log and the status name it. */
export const building = (kind: IndexKind) => `building the ${kind} index`;

export type FeedsEvents = {
  /** There is something to do. */
  wake(): void;
  /** Whether a search may still be using an index. */
  isSearched(index: Index): boolean;
  /** Searches that wait for an index wait in vain. */
  refuse(kind: IndexKind, reason: unknown): void;
  /** A successor has taken its place. */
  onReplaced(): void;
};

function removeFrom(index: Index, ordinal: number): void {
  try {
    index.remove(ordinal);
  } catch {
    // It is out of use, and closed when its last search has ended.
  }
}

export class Feeds {
  readonly #store: Store;
  readonly #background: Background;
  readonly #events: FeedsEvents;
  readonly #feeds = new Map<IndexKind, Feed>();
  /** What is built in the place of indexes whose building has failed, and who is told how that ends. */
  readonly #successors = new Map<IndexKind, { feed: Feed; done(): void; failed(error: unknown): void }>();
  /** Those whose failure is being seen to. */
  readonly #failed = new WeakSet<Feed>();
  /** Feeds of indexes that are out of use, which may still be being written to disk. */
  readonly #dropped = new Set<Feed>();
  /** Indexes that are out of use but for searches that run. */
  #closing: Index[] = [];
  #isStopped = false;

  constructor(store: Store, background: Background, events: FeedsEvents) {
    this.#store = store;
    this.#background = background;
    this.#events = events;
  }

  /** Those in use, successors aside. */
  get inUse(): Feed[] {
    return [...this.#feeds.values()];
  }

  /** Those that are being built in the place of others. */
  get successors(): Feed[] {
    return [...this.#successors.values()].map(({ feed }) => feed);
  }

  hasSuccessor(kind: IndexKind): boolean {
    return this.#successors.has(kind);
  }

  /** Whether an index is stuck, and nobody sees to it yet. */
  get hasUnseenFailure(): boolean {
    return this.inUse.some((feed) => feed.isStuck && !this.#failed.has(feed));
  }

  /** Whether a failure, or a successor, is to be seen to. */
  get needsReplacing(): boolean {
    return this.#successors.size > 0 || this.inUse.some((feed) => feed.failure !== undefined);
  }

  get isAnyClosing(): boolean {
    return this.#closing.length > 0;
  }

  /** No version sees the record any more. */
  remove(ordinal: number): void {
    for (const feed of this.all()) feed.remove(ordinal);
    // A search may still go through an index that is out of use, and nothing hides the ordinal from it any more.
    for (const index of this.#closing) removeFrom(index, ordinal);
  }

  feed(kind: IndexKind): Feed | undefined {
    return this.#feeds.get(kind);
  }

  /** Whether an index waits for memory. */
  get isPostponed(): boolean {
    return [...this.#feeds.values()].some(({ index }) => index.isPostponed === true);
  }

  get memoryBytes(): number {
    let bytes = 0;
    for (const feed of this.all()) bytes += feed.index.memoryBytes;
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

  /** Share of a range of ordinals that the slowest index has taken over, 0 to 1. */
  progress(first: number, count: number): number {
    let least = 1;
    for (const feed of this.#feeds.values()) least = Math.min(least, feed.progress(first, count));
    return least;
  }

  /** Adds an index; it is built from the records that are there. */
  add(feed: Feed): void {
    this.#feeds.set(feed.kind, feed);
    this.#restore(feed);
  }

  *all(): Generator<Feed> {
    yield* this.#feeds.values();
    for (const { feed } of this.#successors.values()) yield feed;
  }

  /** Reads what was kept of an index, once; what cannot be read is built from the records. */
  #restore(feed: Feed): void {
    this.#events.wake();
    let isTried = false;
    this.#background.run(`reading the ${feed.kind} index from disk`, async () => {
      if (!isTried) {
        isTried = true;
        await feed.restore(() => this.#store.snapshot());
      }
      if (this.#isStopped) feed.index.close();
      else this.#events.wake();
    });
  }

  /** Sees to indexes whose building has failed, and puts a successor that has come as far in its place. */
  replaceFailed(version: number, ordinalEnd: number): void {
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
        if (this.#feeds.get(kind)?.isStuck) this.#events.refuse(kind, feed.failure);
      } else if (feed.watermark === version && feed.finalEnd >= ordinalEnd) {
        this.#successors.delete(kind);
        this.#closing.push((this.#feeds.get(kind) as Feed).index);
        this.#feeds.set(kind, feed);
        this.#events.onReplaced();
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

  /** Keeps on disk what is worth it; resolves when that is over, with what failed. To be called before `stop`, if at all. */
  async keepLast(): Promise<unknown[]> {
    const keeping = [...this.#feeds.values()].map(async (feed) =>
      feed.keep(() => this.#store.snapshot(), true),
    );
    return (await Promise.allSettled(keeping)).flatMap((kept) =>
      kept.status === "rejected" ? [kept.reason] : [],
    );
  }

  keep(): void {
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
    if (dropped) this.#closing.push(dropped.index);
    this.closeIndexes();
    if (dropped !== undefined) {
      this.#dropped.add(dropped);
      this.#background.run(`removing what was kept of the ${kind} index`, async () => {
        await dropped.forget();
        this.#dropped.delete(dropped);
      });
    }
  }

  /** Indexes are closed when no search has them any more. */
  closeIndexes(): void {
    const closable = this.#closing.filter((index) => !this.#events.isSearched(index));
    this.#closing = this.#closing.filter((index) => !closable.includes(index));
    for (const index of closable) index.close();
  }

  /** Takes all out; they are closed when their last searches have ended. */
  stop(): void {
    this.#isStopped = true;
    for (const kind of this.#feeds.keys()) this.#background.forget(building(kind));
    for (const feed of this.all()) {
      this.#closing.push(feed.index);
      this.#dropped.add(feed);
    }
    this.#feeds.clear();
    this.#successors.clear();
    this.closeIndexes();
  }

  /** After `stop`: resolves when no thread writes any index to disk. Only then may the collection's directory be removed. */
  async written(): Promise<void> {
    await Promise.all([...this.#dropped].map((feed) => feed.settled()));
  }
}
