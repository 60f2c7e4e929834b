// Which indexes does a collection have, and which of them are in use?
//
//   When building an index fails, the index stays in use while a *successor* is built beside it. The successor then replaces it.
//   A deleted or replaced index is closed when its last search has ended.
//
// An index that has a checkpoint is loaded from it first.

import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import type { Background } from "../base/background.ts";
import { invariant } from "../base/invariant.ts";
import type { Index } from "../index/contract.ts";
import type { Store } from "../storage/store.ts";
import type { IndexUpdater } from "./index-updater.ts";

/** Name of the background task, in the log and in the status. */
export const building = (kind: IndexKind) => `building the ${kind} index`;

export type UpdatersEvents = {
  /** There is something to do. */
  wake(): void;
  /** Whether a search may still be using an index. */
  isSearched(index: Index): boolean;
  /** Rejects the searches that wait for an index. */
  refuse(kind: IndexKind, reason: unknown): void;
  /** A successor has replaced its index. */
  onReplaced(): void;
};

function removeFrom(index: Index, ordinal: number): void {
  try {
    index.remove(ordinal);
  } catch {
    // The index is out of use, and is closed when its last search has ended.
  }
}

export class IndexUpdaters {
  readonly #store: Store;
  readonly #background: Background;
  readonly #events: UpdatersEvents;
  readonly #updaters = new Map<IndexKind, IndexUpdater>();
  /** Replacements for indexes that failed, and the callbacks for their ends. */
  readonly #successors = new Map<
    IndexKind,
    { updater: IndexUpdater; done(): void; failed(error: unknown): void }
  >();
  /** Updaters whose failure is being handled. */
  readonly #failed = new WeakSet<IndexUpdater>();
  /** Updaters of indexes that are out of use; a checkpoint may still be being written or read. */
  readonly #dropped = new Set<IndexUpdater>();
  /** Indexes that only running searches still use. */
  #closing: Index[] = [];
  #isStopped = false;

  constructor(store: Store, background: Background, events: UpdatersEvents) {
    this.#store = store;
    this.#background = background;
    this.#events = events;
  }

  /** Without successors. */
  get inUse(): IndexUpdater[] {
    return [...this.#updaters.values()];
  }

  /** Replacements that are being built. */
  get successors(): IndexUpdater[] {
    return [...this.#successors.values()].map(({ updater }) => updater);
  }

  hasSuccessor(kind: IndexKind): boolean {
    return this.#successors.has(kind);
  }

  /** Whether an index is stuck and not handled yet. */
  get hasUnseenFailure(): boolean {
    return this.inUse.some((updater) => updater.isStuck && !this.#failed.has(updater));
  }

  /** Whether there is a failure to handle, or a successor to put in place. */
  get needsReplacing(): boolean {
    return this.#successors.size > 0 || this.inUse.some((updater) => updater.failure !== undefined);
  }

  /** No version sees the record any more. */
  remove(ordinal: number): void {
    for (const updater of this.all()) updater.remove(ordinal);
    // A running search may still use an index that is being closed, and the visibility test no longer hides the ordinal.
    for (const index of this.#closing) removeFrom(index, ordinal);
  }

  updater(kind: IndexKind): IndexUpdater | undefined {
    return this.#updaters.get(kind);
  }

  /** Whether an index waits for memory. */
  get isPostponed(): boolean {
    return this.inUse.some(({ index }) => index.isPostponed === true);
  }

  get memoryBytes(): number {
    let bytes = 0;
    for (const updater of this.all()) bytes += updater.index.memoryBytes;
    return bytes;
  }

  /** Frees up to the given number of bytes of caches. */
  giveUp(bytes: number): void {
    let left = bytes;
    for (const { index } of this.#updaters.values()) {
      if (left <= 0) return;
      const before = index.memoryBytes;
      index.giveUp?.(left);
      left -= before - index.memoryBytes;
    }
  }

  /** Fraction of a range of ordinals that the slowest index has applied, 0 to 1. */
  progress(first: number, count: number): number {
    let least = 1;
    for (const updater of this.#updaters.values()) least = Math.min(least, updater.progress(first, count));
    return least;
  }

  /** Adds an index, which is built from the existing records. */
  add(updater: IndexUpdater): void {
    invariant(!this.#updaters.has(updater.kind), `there is a ${updater.kind} index already`);
    invariant(!this.#isStopped, `a ${updater.kind} index is added after the end`);
    this.#updaters.set(updater.kind, updater);
    this.#restore(updater);
  }

  *all(): Generator<IndexUpdater> {
    yield* this.#updaters.values();
    for (const { updater } of this.#successors.values()) yield updater;
  }

  /** Loads the checkpoint of an index, once. If that fails, the index is built from the records. */
  #restore(updater: IndexUpdater): void {
    this.#events.wake();
    let isTried = false;
    this.#background.run(`reading the ${updater.kind} index from disk`, async () => {
      if (!isTried) {
        isTried = true;
        await updater.restore(() => this.#store.beginRead());
      }
      // It may have been dropped meanwhile.
      if ([...this.all()].includes(updater)) this.#events.wake();
      else updater.index.close();
    });
  }

  /** Starts replacements for indexes that failed, and puts those in place that have caught up. */
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
        invariant(updater.isBuilt, `the ${kind} index is replaced by one that is not built`);
        this.#successors.delete(kind);
        this.#closing.push((this.#updaters.get(kind) as IndexUpdater).index);
        this.#updaters.set(kind, updater);
        this.#events.onReplaced();
        done();
      }
    }
  }

  /** Builds a replacement. Resolves when it is in place. */
  #buildSuccessor(kind: IndexKind): Promise<void> {
    return new Promise((done, failed) => {
      const before = this.#updaters.get(kind);
      invariant(before !== undefined, `a successor is built of a ${kind} index that is not there`);
      invariant(!this.#successors.has(kind), `the ${kind} index has a successor already`);
      const updater = before.anew();
      this.#successors.set(kind, { updater, done, failed });
      this.#restore(updater);
    });
  }

  #dropSuccessor(kind: IndexKind): void {
    const dropped = this.#successors.get(kind);
    this.#successors.delete(kind);
    dropped?.updater.index.close();
  }

  /** Writes the last checkpoints, if worthwhile. Resolves with the errors. */
  async checkpointLast(): Promise<unknown[]> {
    const keeping = this.inUse.map(async (updater) => updater.keep(() => this.#store.beginRead(), true));
    return (await Promise.allSettled(keeping)).flatMap((kept) =>
      kept.status === "rejected" ? [kept.reason] : [],
    );
  }

  keep(): void {
    for (const updater of this.#updaters.values())
      this.#background.run(`keeping the ${updater.kind} index on disk`, () =>
        updater.keep(() => this.#store.beginRead()),
      );
  }

  /** Drops an index. Running searches keep it until they end. @returns resolves when its checkpoint is gone, or could not be removed */
  async drop(kind: IndexKind): Promise<void> {
    const dropped = this.#updaters.get(kind);
    this.#updaters.delete(kind);
    this.#dropSuccessor(kind);
    this.#background.forget(building(kind));
    if (dropped) this.#closing.push(dropped.index);
    this.closeIndexes();
    if (dropped === undefined) return;
    this.#dropped.add(dropped);
    const remove = async () => {
      await dropped.forget();
      this.#dropped.delete(dropped);
    };
    const first = remove();
    let attempts = 0;
    this.#background.run(`removing the checkpoint of the ${kind} index`, () =>
      attempts++ === 0 ? first : remove(),
    );
    await Promise.allSettled([first]);
  }

  /** Closes the indexes that no search uses any more. */
  closeIndexes(): void {
    const closable = this.#closing.filter((index) => !this.#events.isSearched(index));
    this.#closing = this.#closing.filter((index) => !closable.includes(index));
    for (const index of closable) index.close();
  }

  /** Drops all indexes. */
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

  /** After `stop`: resolves when no thread writes or reads a checkpoint any more. Only then may others, or remove the collection's directory. */
  async written(): Promise<void> {
    await Promise.all([...this.#dropped].map((updater) => updater.settled()));
  }
}
