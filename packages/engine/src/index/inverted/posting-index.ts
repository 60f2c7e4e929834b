// How does an inverted index add and remove records?
//
// The engine under sparse vectors and texts. A record's score is the sum over the query's terms of weight * impact, where the
// impact is the posting's weight, or for a text tf / (tf + fixed + perTerm * length).
//
//     add                    freeze                     merge: several small ones, or many records of one removed
//   -------> mutable buffer ---------> small segment ----------------------------------------------------> segment
//                   \______________________/                                                                  |
//                     remove: never found again; the next merge drops its postings  <--------------------------'
//
// The *mutable buffer* (mutable-buffer.ts) is plain and scored in full; a *segment* (segment.ts) never changes and is searched in
// WebAssembly with pruning. All scores are f64, added in the order of the query's terms, in both: a record's score does not depend
// on where it lies.
//
// Freezing and merging (segment-set.ts) run in pieces. Each change does some of this work, in proportion to its size; `tidy` does the
// rest while the collection is idle. An idle index also freezes a mutable buffer that is long enough, and merges small neighbours:
// without that, a search would visit some ten more segments for each term.
//
// This class is the writer's side; `reader` and `searcher` cannot change anything. It keeps the buffers (buffers.ts) and the segments in step.

import { invariant } from "../../base/invariant.ts";
import type { Task } from "../../base/scheduler.ts";
import { nextMemoryId } from "../../base/shared-memory.ts";
import type { Steps } from "../../base/steps.ts";
import type { Leisure } from "../contract.ts";
import { type SharedParts, sharedParts } from "./attached-parts.ts";
import { type BufferOptions, Buffers } from "./buffers.ts";
import { checkParts } from "./check.ts";
import type { CheckpointData } from "./checkpoint-data.ts";
import { OwnedParts } from "./posting-parts.ts";
import { PostingReader } from "./posting-reader.ts";
import { PostingSearcher } from "./posting-search.ts";
import type { Segment, SegmentState } from "./segment.ts";
import { SegmentSet, type SegmentSetOptions } from "./segment-set.ts";

export type PostingOptions = SegmentSetOptions & BufferOptions;

/** What a checkpoint stores, besides the images of the segments. */
export type PostingState = {
  /** Every record with a smaller ordinal is in a segment, or removed. */
  readonly end: number;
  readonly segments: readonly SegmentState[];
  /** Records of segments that were retired and not yet removed. */
  readonly retired: Uint32Array;
};

/** Postings merged for each posting that is added or removed. Each is merged about twice, so merging keeps up. */
const mergeFactor = 6;
/** Postings that one change freezes or merges at most: a few milliseconds. */
const workMax = 50_000;

export class PostingIndex {
  readonly reader: PostingReader;
  readonly searcher: PostingSearcher;
  readonly #id = nextMemoryId();
  readonly #options: PostingOptions;
  readonly #parts: OwnedParts;
  readonly #segments: SegmentSet;
  readonly #buffers: Buffers;
  /** Postings still to be frozen or merged for past changes. */
  #owed = 0;

  constructor(options: PostingOptions) {
    this.#options = options;
    this.#parts = new OwnedParts(options.isText);
    this.#segments = new SegmentSet(this.#parts, options);
    this.reader = new PostingReader(this.#parts);
    this.searcher = new PostingSearcher(this.#parts, this.reader);
    this.#buffers = new Buffers(this.#parts, this.#segments, options);
  }

  /** The segments and mutable buffers, for code that walks all postings (check.ts). */
  get parts(): OwnedParts {
    return this.#parts;
  }

  /** What another thread needs to read the postings as they are now (attached-parts.ts). */
  get shared(): SharedParts {
    return sharedParts(this.#id, this.#parts);
  }

  get count(): number {
    return this.#parts.count;
  }

  /** Memories that segments lie in. */
  get arenaCount(): number {
    return this.#segments.arenaCount;
  }

  /** Records that are in no segment. */
  get bufferedCount(): number {
    return this.#parts.bufferedCount;
  }

  /** Whether nothing is being frozen or merged. */
  get isIdle(): boolean {
    return !this.#segments.isMerging && !this.#buffers.isFreezing && !this.#segments.isReporting;
  }

  /** Records of segments that are new or closed since the last checkpoint of the index. */
  get changes(): number {
    return this.#segments.changes;
  }

  /** Every record with a smaller ordinal is in a segment, or removed. */
  get frozenEnd(): number {
    return this.#buffers.frozenEnd;
  }

  has(ordinal: number): boolean {
    return this.#parts.has(ordinal);
  }

  /** Whether a record that is held was retired. */
  isRetired(ordinal: number): boolean {
    return this.#parts.retired.has(ordinal);
  }

  // ---- Records come and go

  /**
   * Adds a record.
   * @param length of a text, in terms
   * @param terms unique, with finite values side by side
   * @param averageLength of the texts there are now
   */
  add(
    ordinal: number,
    length: number,
    terms: ArrayLike<number>,
    values: ArrayLike<number>,
    averageLength: number,
  ): void {
    invariant(
      averageLength >= 0 && Number.isFinite(averageLength),
      () => `texts have an average length of ${averageLength}`,
    );
    this.#buffers.add(ordinal, length, terms, values);
    this.averageLength = averageLength;
    if (this.#buffers.isFull) this.#buffers.beginFreezing();
    this.#workOff(mergeFactor * (terms.length + 1));
  }

  retire(ordinal: number): void {
    if (!this.has(ordinal)) return;
    this.#parts.retired.add(ordinal);
    if (this.#parts.segmentOf(ordinal) !== undefined) this.#segments.changes++;
  }

  /** Removes an existing record. */
  remove(ordinal: number): void {
    invariant(this.has(ordinal), () => `ordinal ${ordinal} is removed, and not held`);
    const wasRetired = this.#parts.retired.delete(ordinal);
    const segment = this.#parts.segmentOf(ordinal);
    if (segment === undefined) {
      this.#buffers.remove(ordinal);
      return;
    }
    if (!wasRetired) this.#segments.changes++;
    this.#segments.remove(segment, ordinal);
    this.#workOff(mergeFactor * Math.ceil(segment.postings / segment.recordCount));
  }

  /** The average length of texts, if the caller knows it better than from the last `add`. */
  set averageLength(length: number) {
    this.#segments.averageLength = length;
  }

  // ---- Work that can wait

  /** Freezes and merges this many postings and those left over from earlier changes, up to `workMax`; leaves the rest for later. */
  #workOff(postings: number): void {
    this.#owed += postings;
    const some = Math.min(this.#owed, workMax);
    this.#owed = this.work(some) ? this.#owed - some : 0;
  }

  /** Continues freezing and merging for about this many postings. @returns whether there is more to do */
  work(postings: number): boolean {
    const left = this.#segments.report(postings);
    if (left > 0 && this.#buffers.isFreezing) this.#buffers.goOn(left);
    else if (left > 0) this.#segments.work(left);
    return !this.isIdle;
  }

  /**
   * Like `work`, for an index that has time: also freezes and merges what only pays off then. While it rests, segments become as few as
   * possible.
   */
  tidy(postings: number, leisure: Leisure = "idle"): boolean {
    if (leisure === "busy") return this.work(postings);
    const isResting = leisure === "resting";
    if (this.isIdle && this.#buffers.isLong(isResting)) this.#buffers.beginFreezing();
    this.#segments.beginMerge(leisure);
    this.work(postings);
    this.#segments.beginMerge(leisure);
    if (!this.isIdle || this.#buffers.isLong(isResting)) return true;
    return this.#segments.compact(postings);
  }

  /** Freezes all records that are in no segment now, in steps. */
  freeze(): Steps<void> {
    return this.#buffers.freeze();
  }

  /** Begins to freeze them, unless others are being frozen. */
  beginFreezing(): void {
    if (!this.#buffers.isFreezing) this.#buffers.beginFreezing();
  }

  // ---- Memory and checkpoints

  get memoryBytes(): number {
    const others = this.searcher.memoryBytes + this.#parts.retired.memoryBytes;
    return others + this.#segments.memoryBytes + this.#buffers.memoryBytes;
  }

  get restoredBytes(): number {
    return this.#segments.restoredBytes + this.#buffers.restoredBytes;
  }

  /**
   * What a checkpoint stores: all segments. The images are those of the segments themselves, which stay as they are until `done`, whatever
   * is added, removed or merged meanwhile; only one exists at a time. The records of the mutable buffer must be added again after a
   * restore.
   */
  save(): CheckpointData<PostingState> {
    const { segments, done } = this.#segments.hold();
    const retired = Uint32Array.from(this.#parts.retired);
    const last = segments.at(-1)?.lastOrdinal ?? -1;
    invariant(
      last < this.frozenEnd,
      () => `a checkpoint up to ${this.frozenEnd} has a segment with record ${last}`,
    );
    return {
      state: {
        end: this.frozenEnd,
        segments: segments.map((segment) => segment.state()),
        retired: retired.filter((ordinal) => this.#parts.segmentOf(ordinal) !== undefined),
      },
      images: segments.map((segment) => segment.image),
      done,
    };
  }

  /**
   * Restores an index from a checkpoint. It includes retired records, which must be removed.
   * @param load fills the images with the checkpoint's bytes, in the order of `save`
   * @param task in whose time slices this is done
   */
  static async restored(
    options: PostingOptions,
    state: PostingState,
    load: (images: Uint8Array[]) => Promise<void>,
    task: Task,
  ): Promise<PostingIndex> {
    const index = new PostingIndex(options);
    await index.#segments.restore(state.segments, load, task);
    index.#buffers.restore(state.end);
    return index;
  }

  close(): void {
    this.#segments.close();
    this.#parts.retired.clear();
    this.#buffers.close();
  }

  check(): void {
    this.#segments.report(Number.POSITIVE_INFINITY);
    this.#segments.checkArenas();
    this.#buffers.check();
    const isMerged = (segment: Segment) => this.#segments.isMerged(segment);
    checkParts(this.#parts, this.frozenEnd, isMerged, this.#options.formulaOf);
  }
}
