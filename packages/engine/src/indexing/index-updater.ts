// How is one index brought up to date?
//
// An updater applies the change log to an index, from where it stands:
//
//   closedVersion   the updater has applied all closures up to this version;
//   cursor          the index has all records with smaller ordinals that are live at `closedVersion`.
//
// Given a read transaction at version v, a step applies the closures of (closedVersion, v] and then adds the records from `cursor` on. A closed
// record is not in the read transaction, so every record that the step finds is live at v. A new index, a loaded one and one that lags by one
// commit take the same path: building, recovery and catching up are one loop. When the cursor reaches the end of v, the index equals the
// replay of the log up to v (invariant 4).
//
// When the log no longer reaches back to `closedVersion`, the updater *reconciles*: a record that the index holds below the cursor and
// that the read transaction does not have was closed, at the read transaction's version at the latest.
//
// When a read of the store fails, the next step continues from the same place. An index that fails in the middle of a change may be
// inconsistent. It is *stuck*: the indexer builds another one (indexer.ts).
//
// Other threads analyse the texts when there are many (read-ahead.ts). An index may have a checkpoint (checkpointer.ts): its updater starts
// with `restore`, and writes a new one when `keep` is called.
//
// One file: all of it moves the two positions above, and asserts how they stand to each other.

import type { IndexKind } from "@quiver/protocol/shapes/index-definition";
import { readU32Key } from "../base/bytes.ts";
import { invariant } from "../base/invariant.ts";
import type { Head } from "../collection/head.ts";
import { RecordReader } from "../collection/record-reader.ts";
import { ordinalKey } from "../collection/tables.ts";
import { oldestVersion, readClosed, readVersion } from "../collection/versions.ts";
import type { Index } from "../index/contract.ts";
import type { Kind, KindStatus, MeasuredRecall, Preparation } from "../index/kind.ts";
import type { Reader, ReadTransaction } from "../storage/store.ts";
import type { Checkpointer } from "./checkpointer.ts";
import { type Analysts, ReadAhead } from "./read-ahead.ts";

/** Rows read between two checks of the clock. */
const rowsPerLook = 16;

/** From this many ordinals on, other threads help; adding fewer takes less time than posting them. */
const readAheadMin = 2_000;

/** Analysing a text of this many bytes takes a whole time slice or longer, so another thread does it. */
const longRowBytes = 64 * 1024;

/** Keys scanned between two checks of the clock. */
const keysPerLook = 256;

/** How other threads prepare the records of an index. */
export type Helpers = {
  readonly preparation: Preparation;
  readonly analysts: Analysts;
};

export class IndexUpdater {
  readonly kind: IndexKind;
  readonly #kind: Kind;
  readonly #helpers: Helpers | undefined;
  /** Present while many records are to be added. */
  #ahead: ReadAhead | undefined;
  readonly #checkpointer: Checkpointer | undefined;
  readonly #make: () => Index;
  #index: Index;
  #cursor = 0;
  #closedVersion = -1;
  #watermark = -1;
  /** Progress of reconciling: from `at` up to `end`; undefined when there is nothing to reconcile. */
  #reconciling: { at: number; end: number } | undefined;
  #isRestoring = false;
  /** The ordinal that the watermark's version ends at. */
  #watermarkEnd = 0;
  #wasFinal = false;
  /** The error that stopped the index in the middle of a change. */
  #stuckBy: unknown;

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
    this.#index = make();
  }

  /** A new updater of the same index, which starts from its checkpoint or from nothing. */
  anew(): IndexUpdater {
    return new IndexUpdater(this.#kind, this.#make, this.#checkpointer, this.#helpers);
  }

  /** Why building the index cannot continue; undefined when it can. */
  get failure(): unknown {
    return this.#stuckBy ?? this.#index.failure;
  }

  /** Whether the index may be inconsistent and must be replaced. */
  get isStuck(): boolean {
    return this.#stuckBy !== undefined;
  }

  /** Changes the index, and notes that it is stuck when that fails. */
  #change<T>(act: (index: Index) => T): T {
    try {
      return act(this.#index);
    } catch (error) {
      this.#stuckBy ??= error ?? new Error("an index failed");
      throw error;
    }
  }

  /** Does deferred work of the index until the time is over. @returns whether there is more */
  tidy(postings: number, isTimeOver: () => boolean): boolean {
    return this.#change((index) => {
      if (index.tidy === undefined) return false;
      while (index.tidy(postings)) if (isTimeOver()) return true;
      return false;
    });
  }

  get index(): Index {
    return this.#index;
  }

  /** Writes wait when the index is more records behind than this. */
  get backlogMax(): number {
    return this.#kind.backlogMax?.(this.#index) ?? Number.POSITIVE_INFINITY;
  }

  /** The part of the status that is special to the kind of index. */
  get status(): KindStatus {
    return this.#kind.status(this.#index);
  }

  /** The recall that was measured last; undefined for kinds that do not measure it. */
  get recall(): MeasuredRecall | undefined {
    return this.#kind.recall?.(this.#index);
  }

  get cursor(): number {
    return this.#cursor;
  }

  /** The version up to which the index equals the replay of the log; -1 while it is first built. */
  get watermark(): number {
    return this.#watermark;
  }

  get isBuilt(): boolean {
    return this.#watermark >= 0;
  }

  /** The index has all records with smaller ordinals, in their final places. */
  get finalEnd(): number {
    return Math.min(this.#cursor, this.#index.linkedEnd ?? Number.POSITIVE_INFINITY);
  }

  /** Whether the index has been complete for some version since the updater started. */
  get wasFinal(): boolean {
    this.#wasFinal ||= this.#watermark >= 0 && this.finalEnd >= this.#watermarkEnd;
    return this.#wasFinal;
  }

  /** Whether the updater waits for another thread; `onArrival` is called when that is done. */
  get isWaiting(): boolean {
    return this.#ahead?.isWaiting === true;
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
      invariant(
        this.#cursor === 0 && this.#closedVersion < 0,
        `a checkpoint is read when the index has records up to ${this.#cursor}`,
      );
      invariant(
        kept.version >= 0 && kept.cursor >= 0,
        `a checkpoint is of version ${kept.version}, up to ${kept.cursor}`,
      );
      this.#index.close();
      this.#index = kept.index;
      this.#cursor = kept.cursor;
      this.#closedVersion = kept.version;
    } finally {
      this.#isRestoring = false;
    }
  }

  /** Writes a checkpoint when enough has changed. @param isLast the index is about to be closed */
  keep(reader: () => ReadTransaction, isLast = false): Promise<void> | undefined {
    if (this.#isRestoring || this.#closedVersion < 0 || this.#reconciling) return undefined;
    return this.#checkpointer?.keep(this.#index, () => this.#closedVersion, reader, isLast);
  }

  /** Resolves when no checkpoint is being written. */
  async settled(): Promise<void> {
    await this.#checkpointer?.settled();
  }

  /** Removes the checkpoint. */
  forget(): Promise<void> | undefined {
    return this.#checkpointer?.forget();
  }

  /** Share of the ordinals [first, first + count) that the index has in their final places, 0 to 1. */
  progress(first: number, count: number): number {
    return count === 0 ? 1 : Math.min(1, Math.max(0, (this.finalEnd - first) / count));
  }

  /**
   * Applies the changes up to the read transaction's version, until the time is over.
   * @param onClosed called with each closed ordinal that the index may hold, and the version that closed it
   * @returns whether the index is at the version of `head`
   */
  step(
    reader: Reader,
    head: Head,
    isTimeOver: () => boolean,
    onClosed: (ordinal: number, version: number) => void,
  ): boolean {
    invariant(!this.#isRestoring, "an index is changed while its checkpoint is read");
    if (this.#closedVersion < 0) this.#closedVersion = head.version;
    invariant(
      this.#closedVersion <= head.version && this.#cursor <= head.nextOrdinal,
      () =>
        `the index is at ${this.#closedVersion} and ${this.#cursor}, the log at ${head.version} and ${head.nextOrdinal}`,
    );
    if (this.#closedVersion < head.version) this.#applyClosures(reader, head, onClosed);
    if (this.#reconciling && !this.#reconcile(reader, head, isTimeOver, onClosed)) return false;
    if (!this.#addRows(reader, head, isTimeOver)) return false;
    invariant(
      this.#cursor === head.nextOrdinal && this.#closedVersion === head.version,
      () =>
        `an index at ${this.#closedVersion} and ${this.#cursor} is called complete at ${head.version} and ${head.nextOrdinal}`,
    );
    this.#watermark = head.version;
    this.#watermarkEnd = head.nextOrdinal;
    return true;
  }

  #applyClosures(reader: Reader, head: Head, onClosed: (ordinal: number, version: number) => void): void {
    if (oldestVersion(reader) > this.#closedVersion + 1) {
      this.#reconciling = { at: 0, end: this.#cursor };
      // It is unknown which of the records that were read in advance are closed.
      this.#ahead = undefined;
      this.#closedVersion = head.version;
      return;
    }
    for (let version = this.#closedVersion + 1; version <= head.version; version++) {
      invariant(readVersion(reader, version) !== undefined, `version ${version} is missing from the log`);
      for (const part of readClosed(reader, version))
        for (const ordinal of part) {
          if (ordinal >= this.#cursor) {
            this.#ahead?.close(ordinal);
            continue;
          }
          this.#change((index) => index.retire(ordinal));
          onClosed(ordinal, version);
        }
      this.#closedVersion = version;
    }
  }

  /**
   * Closes the records that the index holds and the read transaction does not have. The exact closing versions are lost; the read transaction's version
   * is as good, because no view of the versions in between was ever published.
   */
  #reconcile(
    reader: Reader,
    head: Head,
    isTimeOver: () => boolean,
    onClosed: (ordinal: number, version: number) => void,
  ): boolean {
    const work = this.#reconciling as { at: number; end: number };
    const closeUpTo = (end: number) => {
      for (; work.at < end; work.at++) {
        if (!this.#index.has(work.at)) continue;
        this.#change((index) => index.retire(work.at));
        onClosed(work.at, head.version);
      }
    };
    let keys = 0;
    for (const key of reader.keys(this.#kind.table, {
      start: ordinalKey(work.at),
      end: ordinalKey(work.end),
    })) {
      closeUpTo(readU32Key(key));
      work.at++;
      if (++keys % keysPerLook === 0 && isTimeOver()) return false;
    }
    closeUpTo(work.end);
    invariant(work.at >= work.end, () => `reconciling ended at ordinal ${work.at} of ${work.end}`);
    this.#reconciling = undefined;
    return true;
  }

  #addRows(reader: Reader, head: Head, isTimeOver: () => boolean): boolean {
    if (this.#cursor === head.nextOrdinal) return true;
    if (this.#helpers !== undefined && head.nextOrdinal - this.#cursor >= readAheadMin)
      this.#ahead ??= new ReadAhead(this.#helpers.analysts, this.#cursor);
    if (this.#ahead !== undefined) return this.#addAhead(this.#ahead, reader, head, isTimeOver);
    let rows = 0;
    for (const [key, stored] of reader.entries(this.#kind.table, { start: ordinalKey(this.#cursor) })) {
      const ordinal = readU32Key(key);
      invariant(
        ordinal >= this.#cursor && ordinal < head.nextOrdinal,
        () => `ordinal ${ordinal} is not in ${this.#cursor} ... ${head.nextOrdinal}`,
      );
      if (this.#helpers !== undefined && stored.length >= longRowBytes) {
        this.#cursor = ordinal;
        this.#ahead = new ReadAhead(this.#helpers.analysts, ordinal);
        return this.#addAhead(this.#ahead, reader, head, isTimeOver);
      }
      this.#change((index) => this.#kind.add(index, ordinal, stored, () => new RecordReader(stored)));
      this.#cursor = ordinal + 1;
      if (++rows % rowsPerLook === 0 && isTimeOver()) return this.#cursor === head.nextOrdinal;
    }
    this.#cursor = head.nextOrdinal;
    return true;
  }

  #addAhead(ahead: ReadAhead, reader: Reader, head: Head, isTimeOver: () => boolean): boolean {
    const { preparation } = this.#helpers as Helpers;
    try {
      const isThere = ahead.step(
        reader,
        head.nextOrdinal,
        (prepared) => this.#change((index) => preparation.enter(index, prepared)),
        isTimeOver,
        (cursor) => {
          invariant(cursor >= this.#cursor, () => `the cursor goes back from ${this.#cursor} to ${cursor}`);
          this.#cursor = cursor;
        },
      );
      if (isThere) this.#ahead = undefined;
      return isThere;
    } catch (error) {
      // The next step starts again.
      this.#ahead = undefined;
      throw error;
    }
  }

  /** Removes a record that no version sees any more. A failure makes the index stuck; there is no caller to report it to. */
  remove(ordinal: number): void {
    try {
      this.#change((index) => index.remove(ordinal));
    } catch {
      // It is stuck.
    }
  }
}
