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
import type { IndexUpdater } from "./index-updater.ts";

/** A task of the background, as the log and the status name it. */
export const building = (kind: IndexKind) => `building the ${kind} index`;

export type UpdatersEvents = {
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

export class IndexUpdaters {
  readonly #store: Store;
  readonly #background: Background;
  readonly #events: UpdatersEvents;
  readonly #updaters = new Map<IndexKind, IndexUpdater>();
  /** What is built in the place of indexes whose building has failed, and who is told how that ends. */
  readonly #successors = new Map<
    IndexKind,
    { updater: IndexUpdater; done(): void; failed(error: unknown): void }
  >();
  /** Those whose failure is being seen to. */
  readonly #failed = new WeakSet<IndexUpdater>();
  /** IndexUpdaters of indexes that are out of use, which may still be being written to disk. */
  readonly #dropped = new Set<IndexUpdater>();
  /** Indexes that are out of use but for searches that run. */
  #closing: Index[] = [];
  #isStopped = false;

  constructor(store: Store, background: Background, events: UpdatersEvents) {
    this.#store = store;
    this.#background = background;
    this.#events = events;
  }

  /** Those in use, successors aside. */
  get inUse(): IndexUpdater[] {
    return [...this.#updaters.values()];
  }

  /** Those that are being built in the place of others. */
  get successors(): IndexUpdater[] {
    return [...this.#successors.values()].map(({ updater }) => updater);
  }

  hasSuccessor(kind: IndexKind): boolean {
    return this.#successors.has(kind);
  }

  /** Whether an index is stuck, and nobody sees to it yet. */
  get hasUnseenFailure(): boolean {
    return this.inUse.some((updater) => updater.isStuck && !this.#failed.has(updater));
  }

  /** Whether a failure, or a successor, is to be seen to. */
  get needsReplacing(): boolean {
    return this.#successors.size > 0 || this.inUse.some((updater) => updater.failure !== undefined);
  }

  get isAnyClosing(): boolean {
    return this.#closing.length > 0;
  }

  /** No version sees the record any more. */
  remove(ordinal: number): void {
    for (const updater of this.all()) updater.remove(ordinal);
    // A search may still go through an index that is out of use, and nothing hides the ordinal from it any more.
    for (const index of this.#closing) removeFrom(index, ordinal);
  }

  updater(kind: IndexKind): IndexUpdater | undefined {
    return this.#updaters.get(kind);
  }

  /** Whether an index waits for memory. */
  get isPostponed(): boolean {
    return [...this.#updaters.values()].some(({ index }) => index.isPostponed === true);
  }

  get memoryBytes(): number {
    let bytes = 0;
    for (const updater of this.all()) bytes += updater.index.memoryBytes;
    return bytes;
  }

  /** Gives up so many bytes that indexes can do without, or all there are. */
  giveUp(bytes: number): void {
    let left = bytes;
    for (const { index } of this.#updaters.values()) {
      if (left <= 0) return;
      const before = index.memoryBytes;
      index.giveUp?.(left);
      left -= before - index.memoryBytes;
    }
  }

  /** Share of a range of ordinals that the slowest index has taken over, 0 to 1. */
  progress(first: number, count: number): number {
    let least = 1;
    for (const updater of this.#updaters.values()) least = Math.min(least, updater.progress(first, count));
    return least;
  }

  /** Adds an index; it is built from the records that are there. */
  add(updater: IndexUpdater): void {
    this.#updaters.set(updater.kind, updater);
    this.#restore(updater);
  }

  *all(): Generator<IndexUpdater> {
    yield* this.#updaters.values();
    for (const { updater } of this.#successors.values()) yield updater;
  }

  /** Reads what was kept of an index, once; what cannot be read is built from the records. */
  #restore(updater: IndexUpdater): void {
    this.#events.wake();
    let isTried = false;
    this.#background.run(`reading the ${updater.kind} index from disk`, async () => {
      if (!isTried) {
        isTried = true;
        await updater.restore(() => this.#store.snapshot());
      }
      if (this.#isStopped) updater.index.close();
      else this.#events.wake();
    });
  }

  /** Sees to indexes whose building has failed, and puts a successor that has come as far in its place. */
  replaceFailed(version: number, ordinalEnd: number): void {
    for (const updater of this.#updaters.values()) {
      if (updater.failure === undefined || this.#failed.has(updater) || updater.isRestoring) continue;
      this.#failed.add(updater);
      const { kind } = updater;
      this.#background.failed(building(kind), updater.failure, () => this.#buildSuccessor(kind));
    }
    for (const [kind, { updater, done, failed }] of this.#successors) {
      if (updater.failure !== undefined) {
        this.#dropSuccessor(kind);
        failed(updater.failure);
        if (this.#updaters.get(kind)?.isStuck) this.#events.refuse(kind, updater.failure);
      } else if (updater.watermark === version && updater.finalEnd >= ordinalEnd) {
        this.#successors.delete(kind);
        this.#closing.push((this.#updaters.get(kind) as IndexUpdater).index);
        this.#updaters.set(kind, updater);
        this.#events.onReplaced();
        done();
      }
    }
  }

  /** Builds an index beside the one whose building has failed. Resolves when it has taken its place. */
  #buildSuccessor(kind: IndexKind): Promise<void> {
    return new Promise((done, failed) => {
      const updater = (this.#updaters.get(kind) as IndexUpdater).anew();
      this.#successors.set(kind, { updater, done, failed });
      this.#restore(updater);
    });
  }

  #dropSuccessor(kind: IndexKind): void {
    const dropped = this.#successors.get(kind);
    this.#successors.delete(kind);
    dropped?.updater.index.close();
  }

  /** Keeps on disk what is worth it; resolves when that is over, with what failed. To be called before `stop`, if at all. */
  async checkpointLast(): Promise<unknown[]> {
    const keeping = [...this.#updaters.values()].map(async (updater) =>
      updater.keep(() => this.#store.snapshot(), true),
    );
    return (await Promise.allSettled(keeping)).flatMap((kept) =>
      kept.status === "rejected" ? [kept.reason] : [],
    );
  }

  keep(): void {
    for (const updater of this.#updaters.values())
      this.#background.run(`keeping the ${updater.kind} index on disk`, () =>
        updater.keep(() => this.#store.snapshot()),
      );
  }

  /** Takes an index out. Searches that run keep it until they end; those that wait for it are refused. */
  drop(kind: IndexKind): void {
    const dropped = this.#updaters.get(kind);
    this.#updaters.delete(kind);
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
    for (const kind of this.#updaters.keys()) this.#background.forget(building(kind));
    for (const updater of this.all()) {
      this.#closing.push(updater.index);
      this.#dropped.add(updater);
    }
    this.#updaters.clear();
    this.#successors.clear();
    this.closeIndexes();
  }

  /** After `stop`: resolves when no thread writes any index to disk. Only then may the collection's directory be removed. */
  async written(): Promise<void> {
    await Promise.all([...this.#dropped].map((updater) => updater.settled()));
  }
}
