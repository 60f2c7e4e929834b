// Which changes of the log does an index have, and how does it get the next ones?
//
// From where it stands:
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
// When a read of the store fails, the next step continues from the same place. Other threads analyse the texts when there are many
// (text-analysis-pipeline.ts).

import { readU32Key } from "../base/bytes.ts";
import { invariant } from "../base/invariant.ts";
import type { Head } from "../collection/head.ts";
import { RecordReader } from "../collection/record.ts";
import { ordinalKey } from "../collection/tables.ts";
import { oldestVersion, readClosed, readVersion } from "../collection/versions.ts";
import type { Index } from "../index/contract.ts";
import type { Kind, Preparation } from "../index/kind.ts";
import type { Reader } from "../storage/store.ts";
import { type Analysts, TextAnalysisPipeline } from "./text-analysis-pipeline.ts";

/** Rows read between two checks of the clock, and bytes of them: 16 texts of a thousand words take 160 ms. */
const rowsPerLook = 16;
const bytesPerLook = 4_096;

/** From this many ordinals on, other threads help; adding fewer takes less time than posting them, unless they have so many bytes. */
const readAheadMin = 2_000;
const readAheadBytes = 128 * 1024;

/** Analysing a text of this many bytes takes a whole time slice or longer, so another thread does it. */
const longRowBytes = 64 * 1024;

/** Keys scanned between two checks of the clock. */
const keysPerLook = 256;

/** How other threads prepare the records of an index. */
export type Helpers = {
  readonly preparation: Preparation;
  readonly analysts: Analysts;
};

export class LogCursor {
  readonly #kind: Kind;
  readonly #guarded: GuardedIndex;
  readonly #helpers: Helpers | undefined;
  /** Present while many records are to be added. */
  #ahead: TextAnalysisPipeline | undefined;
  #cursor = 0;
  /** Bytes of the rows that were added without help since the index had all rows. */
  #bytesAlone = 0;
  #closedVersion = -1;
  #watermark = -1;
  /** Progress of reconciling: from `at` up to `end`; undefined when there is nothing to reconcile. */
  #reconciling: { at: number; end: number } | undefined;
  /** The ordinal that the watermark's version ends at. */
  #watermarkEnd = 0;
  #wasFinal = false;

  constructor(kind: Kind, guarded: GuardedIndex, helpers: Helpers | undefined) {
    this.#kind = kind;
    this.#guarded = guarded;
    this.#helpers = helpers;
  }

  get cursor(): number {
    return this.#cursor;
  }

  get closedVersion(): number {
    return this.#closedVersion;
  }

  /** The version up to which the index equals the replay of the log; -1 while it is first built. */
  get watermark(): number {
    return this.#watermark;
  }

  get isReconciling(): boolean {
    return this.#reconciling !== undefined;
  }

  /** Begins with what a checkpoint has. */
  restore({ cursor, version }: { readonly cursor: number; readonly version: number }): void {
    invariant(
      this.#cursor === 0 && this.#closedVersion < 0,
      `a checkpoint is read when the index has records up to ${this.#cursor}`,
    );
    invariant(version >= 0 && cursor >= 0, `a checkpoint is of version ${version}, up to ${cursor}`);
    this.#cursor = cursor;
    this.#closedVersion = version;
  }

  /** The index has all records with smaller ordinals, in their final places. */
  get finalEnd(): number {
    return Math.min(this.#cursor, this.#guarded.index.linkedEnd ?? Number.POSITIVE_INFINITY);
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
          this.#guarded.change((index) => index.retire(ordinal));
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
        if (!this.#guarded.index.has(work.at)) continue;
        this.#guarded.change((index) => index.retire(work.at));
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
      this.#ahead ??= new TextAnalysisPipeline(this.#helpers.analysts, this.#cursor);
    if (this.#ahead !== undefined) return this.#addAhead(this.#ahead, reader, head, isTimeOver);
    let rows = 0;
    let bytes = 0;
    for (const [key, stored] of reader.entries(this.#kind.table, { start: ordinalKey(this.#cursor) })) {
      const ordinal = readU32Key(key);
      invariant(
        ordinal >= this.#cursor && ordinal < head.nextOrdinal,
        () => `ordinal ${ordinal} is not in ${this.#cursor} ... ${head.nextOrdinal}`,
      );
      const isLong = stored.length >= longRowBytes || this.#bytesAlone >= readAheadBytes;
      if (this.#helpers !== undefined && isLong) {
        this.#cursor = ordinal;
        this.#ahead = new TextAnalysisPipeline(this.#helpers.analysts, ordinal);
        return this.#addAhead(this.#ahead, reader, head, isTimeOver);
      }
      this.#guarded.change((index) => this.#kind.add(index, ordinal, stored, () => new RecordReader(stored)));
      this.#cursor = ordinal + 1;
      this.#bytesAlone += stored.length;
      bytes += stored.length;
      if (++rows % rowsPerLook !== 0 && bytes < bytesPerLook) continue;
      bytes = 0;
      if (isTimeOver()) return this.#isAtEnd(head);
    }
    this.#cursor = head.nextOrdinal;
    return this.#isAtEnd(head);
  }

  #isAtEnd({ nextOrdinal }: Head): boolean {
    if (this.#cursor !== nextOrdinal) return false;
    this.#bytesAlone = 0;
    return true;
  }

  #addAhead(ahead: TextAnalysisPipeline, reader: Reader, head: Head, isTimeOver: () => boolean): boolean {
    const { preparation } = this.#helpers as Helpers;
    try {
      const isThere = ahead.step(
        reader,
        head.nextOrdinal,
        (prepared) => this.#guarded.change((index) => preparation.enter(index, prepared)),
        isTimeOver,
        (cursor) => {
          invariant(cursor >= this.#cursor, () => `the cursor goes back from ${this.#cursor} to ${cursor}`);
          this.#cursor = cursor;
        },
      );
      if (!isThere) return false;
      this.#ahead = undefined;
      this.#bytesAlone = 0;
      return true;
    } catch (error) {
      // The next step starts again.
      this.#ahead = undefined;
      throw error;
    }
  }
}

// ---- Is an index still consistent?

/** An index, and the error that stopped it in the middle of a change. */
export class GuardedIndex {
  /** Replaced only before the first change. */
  index: Index;
  #stuckBy: unknown;

  constructor(index: Index) {
    this.index = index;
  }

  /** Why a change of the index failed, after which it may be inconsistent; undefined if none did. */
  get stuckBy(): unknown {
    return this.#stuckBy;
  }

  /** Changes the index, and notes that it is stuck when that fails. */
  change<T>(act: (index: Index) => T): T {
    try {
      return act(this.index);
    } catch (error) {
      this.#stuckBy ??= error ?? new Error("an index failed");
      throw error;
    }
  }
}
