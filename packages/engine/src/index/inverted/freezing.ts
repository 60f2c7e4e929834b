// How does a mutable buffer become a segment?
//
// By counting, a bounded piece at a time: how many postings each list has says where it lies; then the postings go there in the order in
// which the buffer has them, record by record; and then each list is finished, in the order of terms. Searches still use the mutable buffer
// meanwhile; nothing is added to it. Freezing leaves out records that were removed before it began. Records removed while it runs are
// removed from the segment when it replaces the mutable buffer.

import { invariant } from "../../base/invariant.ts";
import type { Arena } from "./arena.ts";
import type { MutableBuffer } from "./mutable-buffer.ts";
import type { Segment } from "./segment.ts";
import { type SegmentPlan, SegmentWriter } from "./segment-writer.ts";

/** No record of the segment. */
const gone = 0xffff_ffff;

/** How many lists get their entries in the directory in the time of some postings; and at least, which takes no time worth counting. */
export const closedIn = (postings: number): number => Math.max(1_024, 2 * postings);

export class Freezing {
  readonly buffer: MutableBuffer;
  readonly #writer: SegmentWriter;
  /** By slot: the number of the record, or `gone`. */
  readonly #numbers: Uint32Array;
  /** By list of the buffer, side by side: where its next record and its next value go. */
  readonly #places: Uint32Array;
  /** The records with smaller slots are placed. */
  #slot = 0;
  /** Lists of the segment, and how many of them are finished. */
  #lists = 0;
  #ended = 0;
  readonly #removedLater: number[] = [];
  /** Terms of the buffer that the segment has no postings of. */
  readonly gone: number[] = [];

  /**
   * @param buffer a mutable buffer with at least one record
   * @returns undefined if the arena is too full
   */
  static begin(
    arena: Arena,
    buffer: MutableBuffer,
    isText: boolean,
    how: Pick<SegmentPlan, "kind" | "levels" | "formula">,
  ): Freezing | undefined {
    const numbers = new Uint32Array(buffer.slotsEnd).fill(gone);
    const ordinals = new Uint32Array(buffer.count);
    const lengths = new Uint32Array(isText ? buffer.count : 0);
    let next = 0;
    for (let slot = 0; slot < buffer.slotsEnd; slot++) {
      if (buffer.isRemoved(slot)) continue;
      ordinals[next] = buffer.ordinals.values[slot];
      if (isText) lengths[next] = buffer.lengths.values[slot];
      numbers[slot] = next++;
    }
    invariant(next === buffer.count, `a buffer of ${buffer.count} records is frozen with ${next}`);
    const writer = SegmentWriter.begin(arena, {
      ...how,
      ordinals,
      lengths,
      listsMax: buffer.lists.size,
      postingsMax: buffer.postings,
    });
    return writer && new Freezing(buffer, writer, numbers);
  }

  private constructor(buffer: MutableBuffer, writer: SegmentWriter, numbers: Uint32Array) {
    this.buffer = buffer;
    this.#writer = writer;
    this.#numbers = numbers;
    this.#places = new Uint32Array(2 * buffer.lists.size);
    const counts = this.#counts();
    for (const term of Uint32Array.from(buffer.lists.terms).sort()) {
      const list = buffer.listOf(term);
      if (counts[list] === 0) {
        this.gone.push(term);
        continue;
      }
      const made = writer.beginList(term, counts[list]);
      this.#places[2 * list] = writer.recordsAt(made);
      this.#places[2 * list + 1] = writer.exactAt(made);
      this.#lists++;
    }
  }

  /** By list: its postings, but for those of removed records. */
  #counts(): Uint32Array {
    const { ends, lists } = this.buffer.records;
    const counts = new Uint32Array(this.buffer.lists.size);
    for (let slot = 0, at = 0; slot < ends.length; slot++) {
      const end = ends.values[slot];
      if (this.#numbers[slot] === gone) at = end;
      else for (; at < end; at++) counts[lists.values[at]]++;
    }
    return counts;
  }

  /** Notes that a record was removed while its mutable buffer is being frozen. */
  remove(ordinal: number): void {
    invariant(this.buffer.slotOf(ordinal) < 0, () => `ordinal ${ordinal} is still in the buffer`);
    this.#removedLater.push(ordinal);
  }

  /** Writes about this many postings. @returns whether everything is written */
  step(postings: number): boolean {
    const { ends } = this.buffer.records;
    let budget = postings;
    while (budget > 0 && this.#slot < ends.length) budget -= this.#place(this.#slot++) + 1;
    for (; budget > 0 && this.#ended < this.#lists; this.#ended++) {
      this.#writer.endList(this.#ended);
      budget -= this.#writer.countOf(this.#ended) + 4;
    }
    return this.#ended === this.#lists && this.#writer.close(closedIn(budget));
  }

  /** The segment. */
  finish(): Segment {
    const segment = this.#writer.finish();
    for (const ordinal of this.#removedLater) segment.remove(segment.recordOf(ordinal));
    invariant(
      segment.count === this.buffer.count,
      () => `a segment has ${segment.count} records of the ${this.buffer.count} of its buffer`,
    );
    return segment;
  }

  /** Puts the postings of a record where they belong. @returns how many there are */
  #place(slot: number): number {
    const { ends, lists, values } = this.buffer.records;
    const begin = slot === 0 ? 0 : ends.values[slot - 1];
    const end = ends.values[slot];
    const record = this.#numbers[slot];
    if (record === gone) return 0;
    const { recordsColumn, exactColumn } = this.#writer;
    const places = this.#places;
    for (let at = begin; at < end; at++) {
      const place = 2 * lists.values[at];
      recordsColumn[places[place]++] = record;
      exactColumn[places[place + 1]++] = values.values[at];
    }
    return end - begin;
  }
}
