// Where are the records of a posting index stored?
//
// In *segments*, which never change except for the bits of removed records, and in one or two mutable buffers, by ascending,
// non-overlapping ranges of ordinals. The writer (posting-index.ts, segment-set.ts) changes them; readers (posting-reader.ts,
// posting-search.ts) only read them.

import { absent } from "../ordinal-map.ts";
import type { MutableBuffer } from "./mutable-buffer.ts";
import type { Segment } from "./segment.ts";

export type AnyBuffer = MutableBuffer<Float32Array | Uint32Array>;

export class PostingParts {
  /** Postings have frequencies, and records a length. */
  readonly isText: boolean;
  /** By ascending ordinals. */
  segments: Segment[] = [];
  /** One, or one that is being frozen and the one that records are added to. */
  readonly buffers: AnyBuffer[] = [];
  /** Records that are held and were retired. */
  readonly retired = new Set<number>();
  /** Whether a weight that was ever added is negative. */
  hadNegative = false;
  /** Changes whenever lists move. */
  layout = 0;

  constructor(isText: boolean) {
    this.isText = isText;
  }

  get count(): number {
    return this.segments.reduce((sum, segment) => sum + segment.count, this.bufferedCount);
  }

  /** Records that are in no segment. */
  get bufferedCount(): number {
    return this.buffers.reduce((sum, buffer) => sum + buffer.count, 0);
  }

  /** The mutable buffer that records are added to. */
  get youngest(): AnyBuffer {
    return this.buffers[this.buffers.length - 1];
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

  segmentOf(ordinal: number): Segment | undefined {
    return this.segments[this.segmentNumberOf(ordinal)];
  }

  /** The mutable buffer that a record is in. */
  bufferOf(ordinal: number): AnyBuffer | undefined {
    return this.buffers.find((buffer) => buffer.slotOf(ordinal) >= 0);
  }

  /** Ordinals that are held, descending. */
  *fromYoungest(): Generator<number> {
    for (const { ordinals, slotsEnd } of this.buffers.toReversed())
      for (let slot = slotsEnd - 1; slot >= 0; slot--)
        if (ordinals.values[slot] !== absent) yield ordinals.values[slot];
    for (let i = this.segments.length - 1; i >= 0; i--) {
      const segment = this.segments[i];
      for (let record = segment.recordCount - 1; record >= 0; record--)
        if (!segment.isRemoved(record)) yield segment.ordinals[record];
    }
  }

  /** All records that are held, and their lengths, by ascending ordinal. */
  *records(): Generator<[ordinal: number, length: number]> {
    for (const segment of this.segments)
      for (let record = 0; record < segment.recordCount; record++)
        if (!segment.isRemoved(record)) yield [segment.ordinals[record], segment.lengths[record] ?? 0];
    for (const buffer of this.buffers)
      for (let slot = 0; slot < buffer.slotsEnd; slot++) {
        const ordinal = buffer.ordinals.values[slot];
        if (ordinal !== absent) yield [ordinal, buffer.lengths.values[slot]];
      }
  }
}
