// How are several segments merged into one?
//
// A merge writes list by list, in the order of terms, a bounded piece at a time, while searches use the old segments. It leaves out
// records that were removed before it began. Records removed while it runs are removed from the new segment when it is put in place.

import { kinds } from "@quiverdb/kernels/postings";
import type { Arena } from "./arena.ts";
import type { Segment } from "./segment.ts";
import { type ImpactOf, SegmentWriter } from "./segment-writer.ts";

/** No record of the new segment. */
const gone = 0xffff_ffff;

export class Merge {
  /** Neighbours, by ascending ordinals. */
  readonly sources: readonly Segment[];
  readonly #writer: SegmentWriter;
  /** Of each source: the new number of a record, or `gone`. */
  readonly #renumbered: readonly Uint32Array[];
  /** Per source: the next list. */
  readonly #at: number[];
  #records = new Uint16Array(1_024);
  #values: Float32Array | Uint32Array;
  readonly #removedLater: number[] = [];

  /** @returns undefined if the arena is too full. @param sources segments with at least one record between them */
  static begin(
    arena: Arena,
    sources: readonly Segment[],
    averageLength: number,
    impactOf: ImpactOf,
  ): Merge | undefined {
    const count = sources.reduce((sum, segment) => sum + segment.count, 0);
    const isText = sources[0].kind !== kinds.sparse;
    const ordinals = new Uint32Array(count);
    const lengths = new Uint32Array(isText ? count : 0);
    const renumbered: Uint32Array[] = [];
    let next = 0;
    for (const segment of sources) {
      const numbers = new Uint32Array(segment.recordCount).fill(gone);
      for (let record = 0; record < segment.recordCount; record++) {
        if (segment.isRemoved(record)) continue;
        ordinals[next] = segment.ordinals[record];
        if (isText) lengths[next] = segment.lengths[record];
        numbers[record] = next++;
      }
      renumbered.push(numbers);
    }
    const writer = SegmentWriter.begin(arena, {
      // A frequency that needs four bytes makes the segment wide.
      kind: Math.max(...sources.map((segment) => segment.kind)),
      levels: sources[0].levels,
      averageLength,
      impactOf,
      ordinals,
      lengths,
      listsMax: countTerms(sources),
      postingsMax: sources.reduce((sum, segment) => sum + segment.postings, 0),
    });
    return writer && new Merge(sources, writer, renumbered, isText);
  }

  private constructor(
    sources: readonly Segment[],
    writer: SegmentWriter,
    renumbered: readonly Uint32Array[],
    isText: boolean,
  ) {
    this.sources = sources;
    this.#writer = writer;
    this.#renumbered = renumbered;
    this.#at = sources.map(() => 0);
    this.#values = isText ? new Uint32Array(1_024) : new Float32Array(1_024);
  }

  /** Notes that a record of a source was removed while the merge runs. */
  remove(ordinal: number): void {
    this.#removedLater.push(ordinal);
  }

  /** Merges lists with about this many postings. @returns whether all lists are written */
  step(postings: number): boolean {
    for (let budget = postings; budget > 0; ) {
      const term = this.#nextTerm();
      if (term === undefined) return true;
      budget -= this.#mergeList(term) + 4;
    }
    return this.#nextTerm() === undefined;
  }

  /** The new segment. */
  finish(): Segment {
    const segment = this.#writer.finish();
    for (const ordinal of this.#removedLater) segment.remove(segment.recordOf(ordinal));
    return segment;
  }

  #nextTerm(): number | undefined {
    let least: number | undefined;
    for (const [i, segment] of this.sources.entries()) {
      const at = this.#at[i];
      if (at < segment.listCount && (least === undefined || segment.terms[at] < least))
        least = segment.terms[at];
    }
    return least;
  }

  /** @returns how many postings were read */
  #mergeList(term: number): number {
    let read = 0;
    for (const [i, segment] of this.sources.entries())
      if (segment.terms[this.#at[i]] === term) read += segment.countOf(this.#at[i]);
    this.#reserve(read);
    let count = 0;
    for (const [i, segment] of this.sources.entries()) {
      const list = this.#at[i];
      if (segment.terms[list] !== term) continue;
      this.#at[i]++;
      count = this.#append(segment, list, this.#renumbered[i], count);
    }
    this.#writer.addList(term, count, this.#records, this.#values);
    return read;
  }

  /** Appends the remaining postings of a list after the first `count`; returns the new count. */
  #append(segment: Segment, list: number, renumbered: Uint32Array, count: number): number {
    const records = this.#records;
    const values = this.#values;
    const length = segment.countOf(list);
    const numbers = segment.arena.halves;
    const first = segment.recordsAt(list);
    const exact = segment.exactColumn;
    const exactAt = segment.exactAt(list);
    let end = count;
    for (let i = 0; i < length; i++) {
      const record = renumbered[numbers[first + i]];
      if (record === gone) continue;
      records[end] = record;
      values[end++] = exact[exactAt + i];
    }
    return end;
  }

  #reserve(count: number): void {
    if (this.#records.length >= count) return;
    this.#records = new Uint16Array(2 * count);
    const Values = this.#values.constructor as new (length: number) => Float32Array | Uint32Array;
    this.#values = new Values(2 * count);
  }
}

/** Different terms in all segments. */
function countTerms(segments: readonly Segment[]): number {
  if (segments.length === 1) return segments[0].listCount;
  const at = segments.map(() => 0);
  for (let count = 0; ; count++) {
    let least = Number.POSITIVE_INFINITY;
    for (let i = 0; i < segments.length; i++)
      if (at[i] < segments[i].listCount) least = Math.min(least, segments[i].terms[at[i]]);
    if (least === Number.POSITIVE_INFINITY) return count;
    for (let i = 0; i < segments.length; i++) if (segments[i].terms[at[i]] === least) at[i]++;
  }
}
