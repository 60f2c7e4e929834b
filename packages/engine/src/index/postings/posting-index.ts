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
// While one mutable buffer is being frozen, records are added to a second one. This class is the writer's side; `reader` and
// `searcher` cannot change anything. Records, freezing and checkpoints share the buffers, so they are one class.

import { kinds } from "@quiver/kernels/postings";
import { invariant } from "../../base/invariant.ts";
import { nextMemoryId } from "../attached.ts";
import { assertAscending } from "../contract.ts";
import { type SharedParts, sharedParts } from "./attached-parts.ts";
import type { CheckpointData } from "./checkpoint-data.ts";
import { Freezing } from "./freezing.ts";
import { MutableBuffer } from "./mutable-buffer.ts";
import { OwnedParts } from "./posting-parts.ts";
import { PostingReader } from "./posting-reader.ts";
import { PostingSearcher } from "./posting-search.ts";
import { checkParts } from "./posting-walk.ts";
import type { SegmentState } from "./segment.ts";
import { SegmentSet, type SegmentSetOptions } from "./segment-set.ts";

export type PostingOptions = SegmentSetOptions & {
  /** Postings have frequencies, and records a length. */
  readonly isText: boolean;
  /** The greatest quantized impact, 15 to 255: the resolution of bounds. */
  readonly levels: number;
  /** Records and postings of the longest mutable buffer; less for tests. */
  readonly bufferRecordsMax?: number;
  readonly bufferPostingsMax?: number;
};

/** What a checkpoint stores, besides the images of the segments. */
export type PostingState = {
  /** Every record with a smaller ordinal is in a segment, or removed. */
  readonly end: number;
  readonly segments: readonly SegmentState[];
  /** Records of segments that were retired and not yet removed. */
  readonly retired: Uint32Array;
};

const bufferRecords = 8_192;
const bufferPostings = 262_144;

/** Of a mutable buffer without records. */
export const emptyBufferBytes = new MutableBuffer(Uint32Array).memoryBytes;

/** Postings merged for each posting that is added or removed. Each is merged about twice, so merging keeps up. */
const mergeFactor = 6;
/** Postings that one change freezes or merges at most: a few milliseconds. */
const workMax = 50_000;

export class PostingIndex {
  readonly reader: PostingReader;
  readonly searcher: PostingSearcher;
  readonly #id = nextMemoryId();
  readonly #options: PostingOptions;
  readonly #bufferRecordsMax: number;
  readonly #bufferPostingsMax: number;
  readonly #parts: OwnedParts;
  readonly #segments: SegmentSet;
  #freezing: Freezing | undefined;
  #last = -1;
  #frozenEnd = 0;
  /** The value of `#frozenEnd` once freezing is done. */
  #freezingEnd = 0;
  /** Postings still to be frozen or merged for past changes. */
  #owed = 0;
  #bufferHasWide = false;

  constructor(options: PostingOptions) {
    this.#options = options;
    this.#bufferRecordsMax = options.bufferRecordsMax ?? bufferRecords;
    this.#bufferPostingsMax = options.bufferPostingsMax ?? bufferPostings;
    this.#parts = new OwnedParts(options.isText);
    this.#segments = new SegmentSet(this.#parts, options);
    this.reader = new PostingReader(this.#parts);
    this.searcher = new PostingSearcher(this.#parts, this.reader);
    this.#addBuffer();
  }

  /** The segments and mutable buffers, for code that walks all postings (posting-walk.ts). */
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

  /** Segments, for tests. */
  get segmentCount(): number {
    return this.#parts.segments.length;
  }

  /** Records that are in no segment. */
  get bufferedCount(): number {
    return this.#parts.bufferedCount;
  }

  /** Whether nothing is being frozen or merged. */
  get isIdle(): boolean {
    return !this.#segments.isMerging && this.#freezing === undefined;
  }

  /** Records of segments that are new or closed since the last checkpoint of the index. */
  get changes(): number {
    return this.#segments.changes;
  }

  /** Every record with a smaller ordinal is in a segment, or removed. */
  get frozenEnd(): number {
    return this.#frozenEnd;
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
    assertAscending(ordinal, this.#last);
    this.#last = ordinal;
    const buffer = this.#parts.youngest;
    const slot = buffer.add(ordinal, length);
    for (let i = 0; i < terms.length; i++) {
      if (buffer.append(terms[i], slot, values[i])) this.#options.onTermUsed?.(terms[i]);
      if (values[i] > 255) this.#bufferHasWide = true;
      if (values[i] < 0) this.#parts.hadNegative = true;
    }
    this.averageLength = averageLength;
    if (buffer.slotsEnd >= this.#bufferRecordsMax || buffer.postings.total >= this.#bufferPostingsMax)
      this.#beginFreezing();
    this.#workOff(mergeFactor * (terms.length + 1));
  }

  retire(ordinal: number): void {
    if (!this.has(ordinal)) return;
    this.#parts.retired.add(ordinal);
    if (this.#parts.segmentOf(ordinal) !== undefined) this.#segments.changes++;
  }

  /** Removes an existing record. */
  remove(ordinal: number): void {
    const wasRetired = this.#parts.retired.delete(ordinal);
    const segment = this.#parts.segmentOf(ordinal);
    if (segment === undefined) {
      this.#removeFromBuffer(ordinal);
      return;
    }
    if (!wasRetired) this.#segments.changes++;
    this.#segments.remove(segment, ordinal);
    this.#workOff(mergeFactor * Math.ceil(segment.postings / segment.recordCount));
  }

  #removeFromBuffer(ordinal: number): void {
    const buffer = this.#parts.bufferOf(ordinal);
    if (buffer === undefined) return;
    buffer.remove(ordinal);
    if (buffer === this.#freezing?.buffer) this.#freezing.remove(ordinal);
    else if (buffer.count === 0) {
      // Other threads may be reading it: a new one takes its place.
      this.#parts.buffers.pop();
      this.#addBuffer();
      this.#giveUp(buffer);
    }
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
    if (this.#freezing === undefined) return this.#segments.work(postings);
    if (!this.#freezing.step(postings)) return true;
    this.#endFreezing();
    return this.#segments.isMerging;
  }

  /** Like `work`, for an idle index: also freezes and merges what only pays off when there is time. */
  tidy(postings: number): boolean {
    if (this.isIdle && this.#isBufferLong()) this.#beginFreezing();
    this.#segments.beginMerge(true);
    this.work(postings);
    this.#segments.beginMerge(true);
    if (!this.isIdle || this.#isBufferLong()) return true;
    return this.#segments.compact(postings);
  }

  /** Whether the mutable buffer is worth a segment while there is time: searching it takes longer than searching a segment as long. */
  #isBufferLong(): boolean {
    const { count, slotsEnd, postings } = this.#parts.youngest;
    if (count === 0) return false;
    return 8 * slotsEnd >= this.#bufferRecordsMax || 8 * postings.total >= this.#bufferPostingsMax;
  }

  // ---- Freezing

  #addBuffer(): void {
    this.#parts.layout++;
    this.#parts.buffers.push(
      this.#options.isText
        ? new MutableBuffer<Float32Array | Uint32Array>(Uint32Array)
        : new MutableBuffer<Float32Array | Uint32Array>(Float32Array),
    );
    this.#bufferHasWide = false;
  }

  /** Freezes all records that are in no segment, at once. */
  freeze(): void {
    this.#beginFreezing();
    this.#freezing?.step(Number.POSITIVE_INFINITY);
    if (this.#freezing !== undefined) this.#endFreezing();
  }

  /** Begins to freeze the newest mutable buffer; finishes an earlier freezing first. */
  #beginFreezing(): void {
    if (this.#freezing !== undefined) {
      this.#freezing.step(Number.POSITIVE_INFINITY);
      this.#endFreezing();
    }
    const buffer = this.#parts.youngest;
    if (buffer.count === 0) return;
    this.#segments.dropCompaction();
    const { isText, levels, impactOf } = this.#options;
    const { averageLength } = this.#segments;
    const how = {
      kind: !isText ? kinds.sparse : this.#bufferHasWide ? kinds.wideText : kinds.text,
      levels,
      averageLength,
      impactOf: impactOf(averageLength),
    };
    this.#freezing = this.#segments.inArena((arena) => Freezing.begin(arena, buffer, isText, how));
    invariant(this.#freezing !== undefined, "there is no memory for a segment of postings");
    this.#freezingEnd = this.#last + 1;
    this.#addBuffer();
  }

  /** Replaces a mutable buffer by its finished segment. */
  #endFreezing(): void {
    const { buffer } = this.#freezing as Freezing;
    const segment = (this.#freezing as Freezing).finish();
    this.#freezing = undefined;
    this.#frozenEnd = this.#freezingEnd;
    this.#parts.buffers.shift();
    this.#parts.layout++;
    this.#segments.changes += segment.recordCount;
    this.#segments.append(segment);
    this.#giveUp(buffer);
    this.#segments.beginMerge();
  }

  /** Forgets a mutable buffer that is no part of the index any more. */
  #giveUp(buffer: MutableBuffer): void {
    const { onTermUnused } = this.#options;
    if (onTermUnused) for (const term of buffer.lists.terms) onTermUnused(term);
  }

  // ---- Memory and checkpoints

  get memoryBytes(): number {
    const { buffers, retired } = this.#parts;
    const bytes = this.searcher.memoryBytes + retired.memoryBytes + this.#segments.memoryBytes;
    return buffers.reduce((sum, buffer) => sum + buffer.memoryBytes, bytes);
  }

  get restoredBytes(): number {
    const buffers = this.#parts.buffers.filter(({ count }) => count > 0);
    return buffers.reduce(
      (sum, buffer) => sum + buffer.memoryBytes,
      this.#segments.restoredBytes + emptyBufferBytes,
    );
  }

  /**
   * What a checkpoint stores: all segments. The images are those of the segments themselves, which stay as they are until `done`, whatever
   * is added, removed or merged meanwhile; only one exists at a time. The records of the mutable buffer must be added again after a
   * restore.
   */
  save(): CheckpointData<PostingState> {
    const { segments, done } = this.#segments.hold();
    const retired = Uint32Array.from(this.#parts.retired);
    return {
      state: {
        end: this.#frozenEnd,
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
   */
  static async restored(
    options: PostingOptions,
    state: PostingState,
    load: (images: Uint8Array[]) => Promise<void>,
  ): Promise<PostingIndex> {
    const index = new PostingIndex(options);
    await index.#segments.restore(state.segments, load);
    index.#last = state.end - 1;
    index.#frozenEnd = state.end;
    return index;
  }

  close(): void {
    this.#segments.close();
    this.#parts.retired.clear();
    this.#freezing = undefined;
    this.#parts.buffers.length = 0;
    this.#addBuffer();
  }

  check(): void {
    this.#segments.checkArenas();
    const { buffers } = this.#parts;
    invariant(buffers.length === (this.#freezing ? 2 : 1), `there are ${buffers.length} mutable buffers`);
    checkParts(
      this.#parts,
      this.#frozenEnd,
      (segment) => this.#segments.isMerged(segment),
      this.#options.impactOf,
    );
  }
}
