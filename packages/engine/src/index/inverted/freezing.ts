// How does a mutable buffer become a segment?
//
// Freezing writes list by list, in the order of terms, a bounded piece at a time. Searches still use the mutable buffer meanwhile;
// nothing is added to it. Freezing leaves out records that were removed before it began. Records removed while it runs are removed
// from the segment when it replaces the mutable buffer.

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
  /** Ascending. */
  readonly #terms: Uint32Array;
  #at = 0;
  readonly #records: Uint16Array;
  readonly #values: Float32Array | Uint32Array;
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
    how: Pick<SegmentPlan, "kind" | "levels" | "averageLength" | "impactOf">,
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
      postingsMax: buffer.postings.total,
    });
    return writer && new Freezing(buffer, isText, writer, numbers);
  }

  private constructor(buffer: MutableBuffer, isText: boolean, writer: SegmentWriter, numbers: Uint32Array) {
    this.buffer = buffer;
    this.#writer = writer;
    this.#numbers = numbers;
    this.#terms = Uint32Array.from(buffer.lists.terms).sort();
    this.#records = new Uint16Array(buffer.slotsEnd);
    this.#values = isText ? new Uint32Array(buffer.slotsEnd) : new Float32Array(buffer.slotsEnd);
  }

  /** Notes that a record was removed while its mutable buffer is being frozen. */
  remove(ordinal: number): void {
    invariant(this.buffer.slotOf(ordinal) < 0, () => `ordinal ${ordinal} is still in the buffer`);
    this.#removedLater.push(ordinal);
  }

  /** Writes lists with about this many postings. @returns whether everything is written */
  step(postings: number): boolean {
    let budget = postings;
    while (budget > 0 && this.#at < this.#terms.length)
      budget -= this.#writeList(this.#terms[this.#at++]) + 4;
    return this.#at === this.#terms.length && this.#writer.close(closedIn(budget));
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

  /** @returns how many postings were read */
  #writeList(term: number): number {
    const read = this.buffer.read(this.buffer.listOf(term));
    let count = 0;
    for (let i = 0; i < read.count; i++) {
      const record = this.#numbers[read.slots[i]];
      if (record === gone) continue;
      this.#records[count] = record;
      this.#values[count++] = read.values[i];
    }
    if (count === 0) this.gone.push(term);
    this.#writer.addList(term, count, this.#records, this.#values);
    return read.count;
  }
}
