// How is one index brought up to date?
//
// Its updater applies the change log to it (log-cursor.ts). An index may have a checkpoint (checkpointer.ts): its updater starts with
// `restore`, and writes a new one when `keep` is called.
//
// An index that fails in the middle of a change may be inconsistent. It is *stuck*: the indexer builds another one (indexer.ts).

import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import { invariant } from "../base/invariant.ts";
import type { Index, Leisure } from "../index/contract.ts";
import type { Kind, KindStatus, MeasuredRecall } from "../index/kind.ts";
import type { ReadTransaction } from "../storage/store.ts";
import type { Checkpointer } from "./checkpointer.ts";
import { GuardedIndex, type Helpers, LogCursor } from "./log-cursor.ts";

export class IndexUpdater {
  readonly kind: IndexKind;
  readonly #kind: Kind;
  readonly #helpers: Helpers | undefined;
  readonly #checkpointer: Checkpointer | undefined;
  readonly #make: () => Index;
  readonly #guarded: GuardedIndex;
  readonly #log: LogCursor;
  #isRestoring = false;

  /**
   * @param make makes an empty index of the definition
   * @param checkpointer keeps the index on disk
   * @param helpers where adding a record can take long
   */
  constructor(kind: Kind, make: () => Index, checkpointer?: Checkpointer, helpers?: Helpers) {
    this.#checkpointer = checkpointer;
    this.#helpers = helpers;
    this.#kind = kind;
    this.kind = kind.name;
    this.#make = make;
    this.#guarded = new GuardedIndex(make());
    this.#log = new LogCursor(kind, this.#guarded, helpers);
  }

  /** A new updater of the same index, which starts from its checkpoint or from nothing. */
  anew(): IndexUpdater {
    return new IndexUpdater(this.#kind, this.#make, this.#checkpointer, this.#helpers);
  }

  /** Why building the index cannot continue; undefined when it can. */
  get failure(): unknown {
    return this.#guarded.stuckBy ?? this.index.failure;
  }

  /** Whether the index may be inconsistent and must be replaced. */
  get isStuck(): boolean {
    return this.#guarded.stuckBy !== undefined;
  }

  /** Does deferred work of the index until the time is over. @returns whether there is more */
  tidy(postings: number, isTimeOver: () => boolean, leisure: Leisure): boolean {
    return this.#guarded.change((index) => {
      if (index.tidy === undefined) return false;
      while (index.tidy(postings, leisure)) if (isTimeOver()) return true;
      return false;
    });
  }

  get index(): Index {
    return this.#guarded.index;
  }

  /** Writes wait when the index is more records behind than this. */
  get backlogMax(): number {
    return this.#kind.backlogMax?.(this.index) ?? Number.POSITIVE_INFINITY;
  }

  /** The part of the status that is special to the kind of index. */
  get status(): KindStatus {
    return this.#kind.status(this.index);
  }

  /** The recall that was measured last; undefined for kinds that do not measure it. */
  get recall(): MeasuredRecall | undefined {
    return this.#kind.recall?.(this.index);
  }

  get cursor(): number {
    return this.#log.cursor;
  }

  /** The version up to which the index equals the replay of the log; -1 while it is first built. */
  get watermark(): number {
    return this.#log.watermark;
  }

  get isBuilt(): boolean {
    return this.#log.watermark >= 0;
  }

  /** The index has all records with smaller ordinals, in their final places. */
  get finalEnd(): number {
    return this.#log.finalEnd;
  }

  /** Whether the index has been complete for some version since the updater started. */
  get wasFinal(): boolean {
    return this.#log.wasFinal;
  }

  /** Whether the updater waits for another thread; `onArrival` is called when that is done. */
  get isWaiting(): boolean {
    return this.#log.isWaiting;
  }

  /** Whether the checkpoint is being read; do not call `step` meanwhile. */
  get isRestoring(): boolean {
    return this.#isRestoring;
  }

  /** Loads the checkpoint, if there is a valid one. @param reader at the newest version */
  async restore(reader: () => ReadTransaction): Promise<void> {
    if (!this.#checkpointer?.isThere) return;
    this.#isRestoring = true;
    try {
      const kept = await this.#checkpointer.restore(reader);
      if (kept === null) return;
      this.#log.restore(kept);
      this.index.close();
      this.#guarded.index = kept.index;
    } finally {
      this.#isRestoring = false;
    }
  }

  /** Writes a checkpoint when enough has changed. @param isLast the index is about to be closed */
  keep(reader: () => ReadTransaction, isLast = false): Promise<void> | undefined {
    if (this.#isRestoring || this.#log.closedVersion < 0 || this.#log.isReconciling) return undefined;
    return this.#checkpointer?.keep(this.index, () => this.#log.closedVersion, reader, isLast);
  }

  /** Resolves when no checkpoint is being written or read. */
  async settled(): Promise<void> {
    await this.#checkpointer?.settled();
  }

  /** Removes the checkpoint. */
  async forget(): Promise<void> {
    await this.#checkpointer?.forget();
  }

  /** Share of the ordinals [first, first + count) that the index has in their final places, 0 to 1. */
  progress(first: number, count: number): number {
    return count === 0 ? 1 : Math.min(1, Math.max(0, (this.finalEnd - first) / count));
  }

  /** Applies the changes up to the read transaction's version, until the time is over: see LogCursor.step. */
  step(...how: Parameters<LogCursor["step"]>): boolean {
    invariant(!this.#isRestoring, "an index is changed while its checkpoint is read");
    return this.#log.step(...how);
  }

  /** Removes a record that no version sees any more. A failure makes the index stuck; there is no caller to report it to. */
  remove(ordinal: number): void {
    try {
      this.#guarded.change((index) => index.remove(ordinal));
    } catch {
      // It is stuck.
    }
  }
}
