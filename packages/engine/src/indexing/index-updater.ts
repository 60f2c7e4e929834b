// How is one index brought up to date with the truth?
//
// A updater gives an index what the log says, from where it stands:
//
//   closedVersion   all closures of versions up to this one have been applied;
//   cursor          all records with smaller ordinals that are live at `closedVersion` are in the index.
//
// In a snapshot at version v, a step first applies the closures of (closedVersion, v], then adds records from
// `cursor` on. A closed record is gone from the snapshot, so what it finds at an ordinal is live at v, whether
// the index is new, was loaded, or only lags one commit behind: building, recovery and catching up are the
// same loop. The index equals the replay of the log up to v when the cursor reaches v's end (invariant 4).
//
// Where the log no longer reaches back to `closedVersion`, the closures are found by *reconciling*: what the index holds
// below the cursor and the snapshot does not have was closed since, by the snapshot's version at the latest.
//
// A read of the store that fails leaves the updater where it stands: the next step goes on from there. An index that fails in the midst of a
// change may be half changed. It is *stuck* then: it is not fed any more, and another one has to be built (indexer.ts).
//
// Where very many texts are to be added, other threads analyse them (read-ahead.ts).
//
// An index may be kept on disk (checkpointer.ts): such a updater begins with `restore`, and is told when to `keep` itself.

import type { IndexKind } from "@quiver/protocol/shapes/index-definition";
import { readU32Key } from "../base/bytes.ts";
import { invariant } from "../base/invariant.ts";
import type { Head } from "../collection/head.ts";
import { RecordReader } from "../collection/record.ts";
import { ordinalKey } from "../collection/tables.ts";
import { oldestVersion, readClosed, readVersion } from "../collection/versions.ts";
import type { Index } from "../index/contract.ts";
import type { Kind, KindStatus, MeasuredRecall, Preparation } from "../index/kind.ts";
import type { Reader, Snapshot } from "../storage/store.ts";
import type { Checkpointer } from "./checkpointer.ts";
import { type Analysts, ReadAhead } from "./read-ahead.ts";

/** Rows read between two looks at the clock. */
const rowsPerLook = 16;

/** So many ordinals behind, a updater reads ahead; fewer are added sooner than told of. */
const readAheadMin = 2_000;

/** A text of so many bytes takes as long to analyse as a slice may last, or longer: other threads do it. */
const longRowBytes = 64 * 1024;

/** Keys passed between two looks at the clock. */
const keysPerLook = 256;

/** What an index of a kind is prepared by, where it is prepared in other threads. */
export type Helpers = {
  readonly preparation: Preparation;
  readonly analysts: Analysts;
};

export class IndexUpdater {
  readonly kind: IndexKind;
  readonly #kind: Kind;
  readonly #helpers: Helpers | undefined;
  /** While there is very much to be added. */
  #ahead: ReadAhead | undefined;
  readonly #checkpointer: Checkpointer | undefined;
  readonly #make: () => Index;
  #index: Index;
  #cursor = 0;
  #closedVersion = -1;
  #watermark = -1;
  /** Where reconciling goes on, and what it goes up to; undefined while it is not needed. */
  #reconciling: { at: number; end: number } | undefined;
  #isRestoring = false;
  /** The ordinal that the watermark's version ends at. */
  #watermarkEnd = 0;
  #wasFinal = false;
  /** What the index failed with in the midst of a change. */
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

  /** A updater of the same index, which begins from what is kept of it, or from nothing. */
  anew(): IndexUpdater {
    return new IndexUpdater(this.#kind, this.#make, this.#checkpointer, this.#helpers);
  }

  /** Why the index cannot be built any further, if it cannot. */
  get failure(): unknown {
    return this.#stuckBy ?? this.#index.failure;
  }

  /** Whether it cannot be fed, either. */
  get isStuck(): boolean {
    return this.#stuckBy !== undefined;
  }

  /** Changes the index. */
  #change<T>(act: (index: Index) => T): T {
    try {
      return act(this.#index);
    } catch (error) {
      this.#stuckBy ??= error ?? new Error("an index failed");
      throw error;
    }
  }

  /** Lets the index go on with what can wait, until the time is over. @returns whether there is more */
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

  /** Most records that it may be behind before writes wait. */
  get backlogMax(): number {
    return this.#kind.backlogMax?.(this.#index) ?? Number.POSITIVE_INFINITY;
  }

  /** What it says of itself, besides what all indexes say. */
  get status(): KindStatus {
    return this.#kind.status(this.#index);
  }

  /** What it was last seen to find; undefined where that is not measured. */
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

  /** Every record with a smaller ordinal is where it belongs: in the index, and there in its final place. */
  get finalEnd(): number {
    return Math.min(this.#cursor, this.#index.linkedEnd ?? Number.POSITIVE_INFINITY);
  }

  /** Whether all records of some version were in their final places since the updater began. */
  get wasFinal(): boolean {
    this.#wasFinal ||= this.#watermark >= 0 && this.finalEnd >= this.#watermarkEnd;
    return this.#wasFinal;
  }

  /** Whether the updater can go on only when other threads are done, of which `onArrival` tells. */
  get isWaiting(): boolean {
    return this.#ahead?.isWaiting === true;
  }

  /** Whether the index is being read from disk; it is not to be stepped meanwhile. */
  get isRestoring(): boolean {
    return this.#isRestoring;
  }

  /** Takes over what was kept of the index, if it is of use. @param reader at the newest version */
  async restore(reader: () => Snapshot): Promise<void> {
    if (!this.#checkpointer?.isThere) return;
    this.#isRestoring = true;
    try {
      const kept = await this.#checkpointer.restore(reader);
      if (kept === null) return;
      this.#index.close();
      this.#index = kept.index;
      this.#cursor = kept.cursor;
      this.#closedVersion = kept.version;
    } finally {
      this.#isRestoring = false;
    }
  }

  /** Keeps the index on disk where enough of it has changed. @param isLast nothing will change any more */
  keep(reader: () => Snapshot, isLast = false): Promise<void> | undefined {
    if (this.#isRestoring || this.#closedVersion < 0 || this.#reconciling) return undefined;
    return this.#checkpointer?.keep(this.#index, () => this.#closedVersion, reader, isLast);
  }

  /** Resolves when nothing of the index is being written to disk. */
  async settled(): Promise<void> {
    await this.#checkpointer?.settled();
  }

  /** Removes what was kept of the index. */
  forget(): Promise<void> | undefined {
    return this.#checkpointer?.forget();
  }

  /** Share of the ordinals [first, first + count) that the index has taken over, 0 to 1. */
  progress(first: number, count: number): number {
    return count === 0 ? 1 : Math.min(1, Math.max(0, (this.finalEnd - first) / count));
  }

  /**
   * Applies what the snapshot has, until it is at the snapshot's version or the time is over.
   * @param onClosed told each closed ordinal that the index may hold, and the version that closed it
   * @returns whether the index is at the version of `head`
   */
  step(
    reader: Reader,
    head: Head,
    isTimeOver: () => boolean,
    onClosed: (ordinal: number, version: number) => void,
  ): boolean {
    if (this.#closedVersion < 0) this.#closedVersion = head.version;
    if (this.#closedVersion < head.version) this.#applyClosures(reader, head, onClosed);
    if (this.#reconciling && !this.#reconcile(reader, head, isTimeOver, onClosed)) return false;
    if (!this.#addRows(reader, head, isTimeOver)) return false;
    this.#watermark = head.version;
    this.#watermarkEnd = head.nextOrdinal;
    return true;
  }

  #applyClosures(reader: Reader, head: Head, onClosed: (ordinal: number, version: number) => void): void {
    if (oldestVersion(reader) > this.#closedVersion + 1) {
      this.#reconciling = { at: 0, end: this.#cursor };
      // Of what was read ahead it is not known what was closed.
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
   * Closes what the index holds and the snapshot does not have, from where it stands. A record of a gap died at some version
   * up to the snapshot's: no view of the versions between was ever published.
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
      invariant(ordinal >= this.#cursor && ordinal < head.nextOrdinal, `ordinal ${ordinal} is out of order`);
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
          this.#cursor = cursor;
        },
      );
      if (isThere) this.#ahead = undefined;
      return isThere;
    } catch (error) {
      // The next step begins anew.
      this.#ahead = undefined;
      throw error;
    }
  }

  /** No version sees the record any more. A failure is a state, for there is nobody who could be told. */
  remove(ordinal: number): void {
    try {
      this.#change((index) => index.remove(ordinal));
    } catch {
      // It is stuck.
    }
  }
}
