// Where are the records of a posting index stored?
//
// In *segments*, which never change but for the bits of removed records, and in one mutable buffer or two, by ascending ranges of
// ordinals that do not overlap. The writer (posting-index.ts, segment-set.ts) changes what is here; readers (posting-reader.ts,
// posting-search.ts) look at it. Those of other threads look at the parts as they were at a moment (attached-parts.ts).

import { type Column, Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import type { BufferReader, MutableBuffer } from "./mutable-buffer.ts";
import type { Hidden, Located } from "./query.ts";
import type { Segment } from "./segment.ts";
import type { SegmentReader } from "./segment-reader.ts";

/** What readers look at, in any thread. */
export class PostingParts<
  SegmentType extends SegmentReader = SegmentReader,
  BufferType extends BufferReader = BufferReader,
> {
  /** Postings have frequencies, and records a length. */
  readonly isText: boolean;
  /** By ascending ordinals. */
  segments: SegmentType[];
  /** One, or one that is being frozen and the one that records are added to. */
  readonly buffers: BufferType[];
  /** Records that were retired, each once; some of them were removed. */
  readonly retired: { readonly log: Column };
  /** Whether a weight that was ever added is negative. */
  hadNegative = false;
  /** Changes whenever lists move. */
  layout = 0;

  constructor(
    isText: boolean,
    segments: SegmentType[],
    buffers: BufferType[],
    retired: { readonly log: Column },
  ) {
    this.isText = isText;
    this.segments = segments;
    this.buffers = buffers;
    this.retired = retired;
  }

  has(ordinal: number): boolean {
    const segment = this.segmentOf(ordinal);
    return segment !== undefined ? segment.recordOf(ordinal) >= 0 : this.bufferOf(ordinal) !== undefined;
  }

  /** The number of the segment whose range has an ordinal, or -1. */
  segmentNumberOf(ordinal: number): number {
    let low = 0;
    let high = this.segments.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.segments[middle].lastOrdinal < ordinal) low = middle + 1;
      else high = middle;
    }
    return low < this.segments.length ? low : -1;
  }

  segmentOf(ordinal: number): SegmentType | undefined {
    return this.segments[this.segmentNumberOf(ordinal)];
  }

  /** The mutable buffer that a record is in. */
  bufferOf(ordinal: number): BufferType | undefined {
    return this.buffers.find((buffer) => buffer.slotOf(ordinal) >= 0);
  }

  /** Asserts that a term was located in the present layout, or records hidden: by places of another one, other lists would be read. */
  assertLocated({ segments, buffers }: Pick<Located | Hidden, "segments" | "buffers">): void {
    invariant(
      segments.length === this.segments.length && buffers.length === this.buffers.length,
      () =>
        `places in ${segments.length} segments and ${buffers.length} buffers are used, there are ${this.segments.length} and ${this.buffers.length}`,
    );
  }

  /** Ordinals that are held, descending. */
  *fromYoungest(): Generator<number> {
    for (const buffer of this.buffers.toReversed())
      for (let slot = buffer.slotsEnd - 1; slot >= 0; slot--)
        if (!buffer.isRemoved(slot)) yield buffer.ordinals.values[slot];
    for (let i = this.segments.length - 1; i >= 0; i--) {
      const segment = this.segments[i];
      for (let record = segment.recordCount - 1; record >= 0; record--)
        if (!segment.isRemoved(record)) yield segment.ordinals[record];
    }
  }
}

/** What the writer changes. */
export class OwnedParts extends PostingParts<Segment, MutableBuffer> {
  /** Records that are held and were retired. */
  declare readonly retired: RetiredOrdinals;

  constructor(isText: boolean) {
    super(isText, [], [], new RetiredOrdinals());
  }

  get count(): number {
    return this.segments.reduce((sum, segment) => sum + segment.count, this.bufferedCount);
  }

  /** Records that are in no segment. */
  get bufferedCount(): number {
    return this.buffers.reduce((sum, buffer) => sum + buffer.count, 0);
  }

  /** The mutable buffer that records are added to. */
  get youngest(): MutableBuffer {
    return this.buffers[this.buffers.length - 1];
  }

  /** All records that are held, and their lengths, by ascending ordinal. */
  *records(): Generator<[ordinal: number, length: number]> {
    for (const segment of this.segments)
      for (let record = 0; record < segment.recordCount; record++)
        if (!segment.isRemoved(record)) yield [segment.ordinals[record], segment.lengths[record] ?? 0];
    for (const buffer of this.buffers)
      for (let slot = 0; slot < buffer.slotsEnd; slot++)
        if (!buffer.isRemoved(slot)) yield [buffer.ordinals.values[slot], buffer.lengths.values[slot]];
  }
}

// ---- Which records are held and were retired?
//
// A set, and a log of what was added to it, in shared memory. Another thread gets the log as it was at one moment. The log still has
// records that were removed since; the thread ignores those, because it knows which records are held. When most of the log is out of
// date, it is written anew.

/** Of a Set of numbers, as measured in V8. */
const setEntryBytes = 20;

/** A log is not written anew before it is so long. */
const logMin = 64;

export class RetiredOrdinals {
  readonly #held = new Set<number>();
  #log = new Growable(Uint32Array, 16, true);

  get size(): number {
    return this.#held.size;
  }

  has(ordinal: number): boolean {
    return this.#held.has(ordinal);
  }

  add(ordinal: number): void {
    if (this.#held.has(ordinal)) return;
    this.#held.add(ordinal);
    this.#log.push(ordinal);
    invariant(
      this.#held.size <= this.#log.length,
      () => `${this.#held.size} records are retired, their log has ${this.#log.length}`,
    );
  }

  /** @returns whether it was there */
  delete(ordinal: number): boolean {
    if (!this.#held.delete(ordinal)) return false;
    if (this.#log.length > logMin && this.#log.length > 2 * this.#held.size) this.#rewrite();
    return true;
  }

  /** The ordinals, each once, and some that were removed. */
  get log(): Column {
    return this.#log;
  }

  /** The log as it is now, for other threads. */
  get shared(): Column {
    return this.#log.column;
  }

  [Symbol.iterator](): IterableIterator<number> {
    return this.#held.values();
  }

  clear(): void {
    this.#held.clear();
    this.#rewrite();
  }

  get memoryBytes(): number {
    return setEntryBytes * this.#held.size + this.#log.memoryBytes;
  }

  #rewrite(): void {
    this.#log = new Growable(Uint32Array, Math.max(16, this.#held.size), true);
    for (const ordinal of this.#held) this.#log.push(ordinal);
    invariant(this.#log.length === this.#held.size, "the log of retired records was not written anew");
  }
}
