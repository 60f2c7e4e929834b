// How do the records of a segment come to be removed, and what does a checkpoint store of it?
//
// A segment is one allocation of an arena (segment-layout.ts) that never changes once written (segment-writer.ts), except for the bits of
// removed records. Its owner has a `Segment`, other threads a `SegmentReader`.

import { Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import type { Arena } from "./arena.ts";
import { segmentHeader, segmentHeaderBytes } from "./segment-layout.ts";
import { SegmentReader, type SharedSegment } from "./segment-reader.ts";

/** What a checkpoint stores of a segment besides its image. */
export type SegmentState = {
  /** Of the whole allocation. */
  readonly bytes: number;
  readonly header: Uint8Array;
  /** A bit for each record: whether it was removed. */
  readonly removed: Uint8Array;
};

/** The number of the segment that is made next. */
let nextNumber = 0;

export class Segment extends SegmentReader {
  declare readonly arena: Arena;
  readonly #number = nextNumber++;
  readonly #removed = new Growable(Uint32Array, 0, true);

  constructor(arena: Arena, at: number) {
    super(arena, at);
    this.removed = this.#removed;
  }

  /** What another thread needs to read the segment as it is now. */
  get shared(): SharedSegment {
    const { at, bytes } = this;
    return { at, bytes, number: this.#number, removed: this.#removed.column };
  }

  /** The segment's state now. */
  state(): SegmentState {
    const { arena, at } = this;
    return {
      bytes: this.bytes,
      header: arena.bytes.slice(at, at + segmentHeaderBytes),
      removed: this.removedBits.slice(),
    };
  }

  /** The part of the allocation that never changes: everything except the header and the bits of removed records. */
  get image(): Uint8Array {
    const { arena, at } = this;
    return arena.bytes.subarray(this.ordinals.byteOffset, at + this.bytes);
  }

  /** Room for a segment of a checkpoint, into which its image is to be written; undefined where there is none. */
  static makeRoom(
    arena: Arena,
    { bytes, header, removed }: SegmentState,
  ): { arena: Arena; at: number; image: Uint8Array } | undefined {
    const at = arena.allocate(bytes);
    if (at === undefined) return undefined;
    arena.bytes.set(header, at);
    const begin = arena.words[(at + segmentHeader.ordinalsAt) >>> 2];
    invariant(
      header.length === segmentHeaderBytes && header.length + removed.length <= begin && begin <= bytes,
      `a segment of ${bytes} bytes has its records at ${begin}, behind ${header.length} and ${removed.length}`,
    );
    arena.bytes.fill(0, at + header.length, at + begin);
    arena.bytes.set(removed, at + arena.words[(at + segmentHeader.removedAt) >>> 2]);
    return { arena, at, image: arena.bytes.subarray(at + begin, at + bytes) };
  }

  /** Restores a segment from a checkpoint. */
  static restored(arena: Arena, at: number): Segment {
    const segment = new Segment(arena, at);
    segment.readRemoved();
    return segment;
  }

  /** Takes the removed records from the bits, once, which were written after the segment was made. */
  readRemoved(): void {
    invariant(this.#removed.length === 0, `${this.#removed.length} removed records are read twice`);
    for (let record = 0; record < this.recordCount; record++)
      if (this.isRemoved(record)) this.#removed.push(record);
  }

  /** @param record not removed yet */
  remove(record: number): void {
    invariant(
      record >= 0 && record < this.recordCount && !this.isRemoved(record),
      () => `record ${record} of ${this.recordCount} is removed, which is not there`,
    );
    this.bits[record >> 3] |= 1 << (record & 7);
    this.#removed.push(record);
  }

  /** Frees the allocation; the segment must not be used afterwards. */
  free(): void {
    this.arena.free(this.at);
  }
}
