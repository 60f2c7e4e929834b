// How do new records get into a mutable buffer, and when does it become a segment?
//
// Records are added to the youngest buffer. When it is long enough, it is frozen (freezing.ts), piece by piece, while records are added to
// a second one. A buffer that lost all its records is replaced: other threads may be reading it.

import { kinds } from "@quiverdb/kernels/postings";
import { invariant } from "../../base/invariant.ts";
import type { Steps } from "../../base/steps.ts";
import { assertAscending } from "../contract.ts";
import { Freezing } from "./freezing.ts";
import { MutableBuffer } from "./mutable-buffer.ts";
import type { OwnedParts } from "./posting-parts.ts";
import type { SegmentSet, SegmentSetOptions } from "./segment-set.ts";

export type BufferOptions = Pick<SegmentSetOptions, "formulaOf" | "onTermUsed"> & {
  /** Postings have frequencies, and records a length. */
  readonly isText: boolean;
  /** The greatest quantized impact, 15 to 255: the resolution of bounds. */
  readonly levels: number;
  /** Records and postings of the longest mutable buffer; less for tests. */
  readonly bufferRecordsMax?: number;
  readonly bufferPostingsMax?: number;
};

/** Postings that are frozen at a step. */
const postingsPerStep = 16_384;

const bufferRecords = 8_192;
const bufferPostings = 524_288;

/** Of a mutable buffer without records. */
export const emptyBufferBytes = new MutableBuffer(Uint32Array).memoryBytes;

export class Buffers {
  readonly #parts: OwnedParts;
  readonly #segments: SegmentSet;
  readonly #options: BufferOptions;
  readonly #recordsMax: number;
  readonly #postingsMax: number;
  #freezing: Freezing | undefined;
  #last = -1;
  #frozenEnd = 0;
  /** The value of `#frozenEnd` once freezing is done. */
  #freezingEnd = 0;
  /** Whether the youngest buffer has a frequency that takes more than a byte. */
  #hasWide = false;

  /** @param parts whose buffers these are. @param segments get the frozen ones */
  constructor(parts: OwnedParts, segments: SegmentSet, options: BufferOptions) {
    this.#parts = parts;
    this.#segments = segments;
    this.#options = options;
    this.#recordsMax = options.bufferRecordsMax ?? bufferRecords;
    this.#postingsMax = options.bufferPostingsMax ?? bufferPostings;
    this.#addBuffer();
  }

  /** Every record with a smaller ordinal is in a segment, or removed. */
  get frozenEnd(): number {
    return this.#frozenEnd;
  }

  /** Continues after the records of a checkpoint. @param end of their ordinals */
  restore(end: number): void {
    const { segments, youngest } = this.#parts;
    const last = segments.at(-1)?.lastOrdinal ?? -1;
    invariant(
      end > last && youngest.slotsEnd === 0,
      `a checkpoint ends at ${end}; its last record is ${last}, and ${youngest.slotsEnd} were added since`,
    );
    this.#last = end - 1;
    this.#frozenEnd = end;
  }

  get isFreezing(): boolean {
    return this.#freezing !== undefined;
  }

  /** Adds a record, as PostingIndex.add does. */
  add(ordinal: number, length: number, terms: ArrayLike<number>, values: ArrayLike<number>): void {
    assertAscending(ordinal, this.#last);
    invariant(
      terms.length === values.length,
      () => `ordinal ${ordinal} has ${terms.length} terms and ${values.length} values`,
    );
    this.#last = ordinal;
    const buffer = this.#parts.youngest;
    buffer.add(ordinal, length, terms, values, this.#options.onTermUsed);
    for (let i = 0; i < values.length; i++) {
      if (values[i] > 255) this.#hasWide = true;
      if (values[i] < 0) this.#parts.hadNegative = true;
    }
  }

  /** Removes a record, if a buffer has it. */
  remove(ordinal: number): void {
    const buffer = this.#parts.bufferOf(ordinal);
    if (buffer === undefined) return;
    buffer.remove(ordinal);
    if (buffer === this.#freezing?.buffer) this.#freezing.remove(ordinal);
    else if (buffer.count === 0) {
      invariant(buffer === this.#parts.youngest, "an old buffer is emptied that is not being frozen");
      this.#parts.buffers.pop();
      this.#addBuffer();
      this.#segments.forget(buffer.lists.terms);
    }
  }

  /** Whether the youngest buffer must be frozen. */
  get isFull(): boolean {
    const { slotsEnd, postings } = this.#parts.youngest;
    return slotsEnd >= this.#recordsMax || postings >= this.#postingsMax;
  }

  /** Whether it is worth a segment while there is time: searching it takes longer than searching a segment as long. */
  isLong(isResting: boolean): boolean {
    const { count, slotsEnd, postings } = this.#parts.youngest;
    if (count === 0) return false;
    const share = isResting ? 64 : 8;
    return share * slotsEnd >= this.#recordsMax || share * postings >= this.#postingsMax;
  }

  #addBuffer(): void {
    this.#parts.layout++;
    this.#parts.buffers.push(
      this.#options.isText
        ? new MutableBuffer<Float32Array | Uint32Array>(Uint32Array)
        : new MutableBuffer<Float32Array | Uint32Array>(Float32Array),
    );
    this.#hasWide = false;
  }

  /** Begins to freeze the youngest buffer; finishes an earlier freezing first. */
  beginFreezing(): void {
    this.goOn(Number.POSITIVE_INFINITY);
    const buffer = this.#parts.youngest;
    invariant(this.#freezing === undefined, "a buffer is frozen before the one before it");
    if (buffer.count === 0) return;
    this.#segments.dropCompaction();
    const { isText, levels, formulaOf } = this.#options;
    const how = {
      kind: !isText ? kinds.sparse : this.#hasWide ? kinds.wideText : kinds.text,
      levels,
      formula: formulaOf(this.#segments.averageLength),
    };
    this.#freezing = this.#segments.inArena((arena) => Freezing.begin(arena, buffer, isText, how));
    invariant(this.#freezing !== undefined, "there is no memory for a segment of postings");
    this.#freezingEnd = this.#last + 1;
    this.#addBuffer();
  }

  /** Freezes about this many postings of the buffer that is being frozen, and replaces it by its segment when that is finished. */
  goOn(postings: number): void {
    const freezing = this.#freezing;
    if (freezing === undefined || !freezing.step(postings)) return;
    const segment = freezing.finish();
    invariant(this.#parts.buffers[0] === freezing.buffer, "another buffer was frozen than the oldest one");
    invariant(
      this.#freezingEnd >= this.#frozenEnd,
      () => `records are frozen up to ${this.#freezingEnd}, and were up to ${this.#frozenEnd}`,
    );
    this.#freezing = undefined;
    this.#frozenEnd = this.#freezingEnd;
    this.#parts.buffers.shift();
    this.#parts.layout++;
    this.#segments.changes += segment.recordCount;
    this.#segments.append(segment, freezing.gone);
    this.#segments.beginMerge();
  }

  /** Freezes all records that are in no segment now. */
  *freeze(): Steps<void> {
    while (this.isFreezing) {
      this.goOn(postingsPerStep);
      yield;
    }
    this.beginFreezing();
    const freezing = this.#freezing;
    while (freezing !== undefined && this.#freezing === freezing) {
      this.goOn(postingsPerStep);
      yield;
    }
  }

  get memoryBytes(): number {
    return this.#parts.buffers.reduce((sum, buffer) => sum + buffer.memoryBytes, 0);
  }

  /** Bytes that the records of the buffers take after a restore. */
  get restoredBytes(): number {
    const held = this.#parts.buffers.filter(({ count }) => count > 0);
    return held.reduce((sum, buffer) => sum + buffer.memoryBytes, emptyBufferBytes);
  }

  close(): void {
    this.#freezing = undefined;
    this.#parts.buffers.length = 0;
    this.#addBuffer();
  }

  check(): void {
    const { length } = this.#parts.buffers;
    invariant(length === (this.isFreezing ? 2 : 1), `there are ${length} mutable buffers`);
  }
}
