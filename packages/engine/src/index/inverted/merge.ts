// How are several segments merged into one?
//
// A merge counts the terms, and then writes list by list, in the order of terms, a bounded piece at a time, while searches use the old
// segments. It leaves out records that were removed before it began. Records removed while it runs are removed from the new segment when it
// is put in place.

import { kinds, segmentRecordsMax } from "@quiverdb/kernels/postings";
import { invariant } from "../../base/invariant.ts";
import type { Leisure } from "../contract.ts";
import { closedIn } from "./freezing.ts";
import type { Formula } from "./query.ts";
import type { Segment } from "./segment.ts";
import type { SegmentPlan, SegmentWriter } from "./segment-writer.ts";

/** No record of the new segment. */
const gone = 0xffff_ffff;

export class Merge {
  /** Neighbours, by ascending ordinals. */
  readonly sources: readonly Segment[];
  readonly #plan: Omit<SegmentPlan, "listsMax">;
  readonly #begin: (plan: SegmentPlan) => SegmentWriter | undefined;
  /** Undefined while the terms are counted. */
  #writer: SegmentWriter | undefined;
  #terms = 0;
  /** Of each source: the new number of a record, or `gone`. */
  readonly #renumbered: readonly Uint32Array[];
  /** ... and whether any is gone. */
  readonly #hadRemoved: readonly boolean[];
  /** Per source: the next list. */
  #at: number[];
  readonly #removedLater: number[] = [];
  /** Terms of which there are fewer lists than in the sources, once for each list. */
  readonly gone: number[] = [];

  /**
   * @param sources segments with at least one record between them
   * @param begin undefined where there is no memory
   */
  constructor(
    sources: readonly Segment[],
    formula: Formula,
    begin: (plan: SegmentPlan) => SegmentWriter | undefined,
  ) {
    const count = sources.reduce((sum, segment) => sum + segment.count, 0);
    const isText = sources[0].kind !== kinds.sparse;
    const ordinals = new Uint32Array(count);
    const lengths = new Uint32Array(isText ? count : 0);
    const renumbered: Uint32Array[] = [];
    let next = 0;
    for (const [i, segment] of sources.entries()) {
      invariant(
        i === 0 || sources[i - 1].lastOrdinal < segment.firstOrdinal,
        `a segment from ${segment.firstOrdinal} on is merged behind one up to ${sources[i - 1]?.lastOrdinal}`,
      );
      invariant(
        (segment.kind === kinds.sparse) === !isText && segment.levels === sources[0].levels,
        "segments of two sorts of index are merged",
      );
      const numbers = new Uint32Array(segment.recordCount).fill(gone);
      for (let record = 0; record < segment.recordCount; record++) {
        if (segment.isRemoved(record)) continue;
        ordinals[next] = segment.ordinals[record];
        if (isText) lengths[next] = segment.lengths[record];
        numbers[record] = next++;
      }
      renumbered.push(numbers);
    }
    invariant(next === count && count > 0, `${next} of ${count} records are merged`);
    this.#plan = {
      // A frequency that needs four bytes makes the segment wide.
      kind: Math.max(...sources.map((segment) => segment.kind)),
      levels: sources[0].levels,
      formula,
      ordinals,
      lengths,
      postingsMax: sources.reduce((sum, segment) => sum + segment.postings, 0),
    };
    this.#begin = begin;
    this.sources = sources;
    this.#renumbered = renumbered;
    this.#hadRemoved = sources.map(({ removedCount }) => removedCount > 0);
    this.#at = sources.map(() => 0);
  }

  /** Notes that a record of a source was removed while the merge runs. */
  remove(ordinal: number): void {
    this.#removedLater.push(ordinal);
  }

  /** Merges lists with about this many postings. @returns whether everything is written; "full" where there is no memory for it */
  step(postings: number): boolean | "full" {
    let budget = postings;
    if (this.#writer === undefined) {
      budget = this.#count(postings);
      if (budget <= 0) return false;
      this.#writer = this.#begin({ ...this.#plan, listsMax: this.#terms });
      if (this.#writer === undefined) return "full";
      this.#at = this.sources.map(() => 0);
    }
    let term = this.#nextTerm();
    for (; budget > 0 && term !== undefined; term = this.#nextTerm())
      budget -= this.#mergeList(term, this.#writer) + 4;
    return term === undefined && this.#writer.close(closedIn(budget));
  }

  /** Counts different terms of all sources. @returns what is left of a number of postings when they are counted; otherwise none */
  #count(postings: number): number {
    const { sources } = this;
    const at = this.#at;
    for (let budget = postings; budget > 0; budget--) {
      const term = this.#nextTerm();
      if (term === undefined) return budget;
      this.#terms++;
      for (let i = 0; i < at.length; i++)
        if (at[i] < sources[i].listCount && sources[i].terms[at[i]] === term) at[i]++;
    }
    return 0;
  }

  /** The new segment. */
  finish(): Segment {
    invariant(this.#writer !== undefined, "a merge is finished before it has begun to write");
    const segment = this.#writer.finish();
    for (const ordinal of this.#removedLater) segment.remove(segment.recordOf(ordinal));
    const count = this.sources.reduce((sum, source) => sum + source.count, 0);
    invariant(segment.count === count, `a merged segment has ${segment.count} of ${count} records`);
    return segment;
  }

  #nextTerm(): number | undefined {
    const { sources } = this;
    const at = this.#at;
    let least: number | undefined;
    for (let i = 0; i < at.length; i++) {
      if (at[i] === sources[i].listCount) continue;
      const term = sources[i].terms[at[i]];
      if (least === undefined || term < least) least = term;
    }
    return least;
  }

  /** @returns how many postings were read */
  #mergeList(term: number, writer: SegmentWriter): number {
    let read = 0;
    let count = 0;
    let lists = 0;
    for (let i = 0; i < this.sources.length; i++) {
      const segment = this.sources[i];
      if (segment.terms[this.#at[i]] !== term) continue;
      read += segment.countOf(this.#at[i]);
      count += this.#leftOf(i);
      lists++;
    }
    for (let left = count === 0 ? 0 : 1; left < lists; left++) this.gone.push(term);
    const list = count === 0 ? -1 : writer.beginList(term, count);
    let to = list < 0 ? 0 : writer.recordsAt(list);
    let exactTo = list < 0 ? 0 : writer.exactAt(list);
    for (let i = 0; i < this.sources.length; i++) {
      if (this.sources[i].terms[this.#at[i]] !== term) continue;
      if (list >= 0) {
        const copied = this.#copy(i, writer, to, exactTo);
        to += copied;
        exactTo += copied;
      }
      this.#at[i]++;
    }
    if (list >= 0) writer.endList(list);
    return read;
  }

  /** Postings of the next list of a source, but for those of records that were removed when the merge began. */
  #leftOf(source: number): number {
    const segment = this.sources[source];
    const renumbered = this.#renumbered[source];
    const list = this.#at[source];
    const count = segment.countOf(list);
    if (!this.#hadRemoved[source]) return count;
    const { halves } = segment.arena;
    const first = segment.recordsAt(list);
    let left = 0;
    for (let i = 0; i < count; i++) if (renumbered[halves[first + i]] !== gone) left++;
    return left;
  }

  /** Copies these postings to their places in the columns of the new segment. @returns how many */
  #copy(source: number, writer: SegmentWriter, to: number, exactTo: number): number {
    const segment = this.sources[source];
    const renumbered = this.#renumbered[source];
    const list = this.#at[source];
    const length = segment.countOf(list);
    const first = segment.recordsAt(list);
    const exactAt = segment.exactAt(list);
    // Where none is removed, records keep their distances. In TypeScript that is an eighth of the time of building an index.
    if (!this.#hadRemoved[source] && segment.kind === this.#plan.kind && writer.isIn(segment.arena)) {
      const bytes = segment.kind === kinds.text ? 1 : 4;
      segment.arena.kernels.copyPostings(
        2 * first,
        bytes * exactAt,
        length,
        bytes,
        renumbered[0],
        2 * to,
        bytes * exactTo,
      );
      return length;
    }
    const { recordsColumn, exactColumn } = writer;
    const numbers = segment.arena.halves;
    const exact = segment.exactColumn;
    let copied = 0;
    for (let i = 0; i < length; i++) {
      const record = renumbered[numbers[first + i]];
      if (record === gone) continue;
      recordsColumn[to + copied] = record;
      exactColumn[exactTo + copied++] = exact[exactAt + i];
    }
    return copied;
  }
}

// ---- Which segments become one next?

/** A segment with this many records, or this fraction of the maximum number of postings, is not merged; smaller neighbours are. */
const fullShare = 7 / 8;
const full = fullShare * segmentRecordsMax;
const smallSegmentsMin = 8;

/**
 * The adjacent segments of the next merge: enough to make a full one; or eight, none of them longer than the others together, so that a
 * posting is merged two or three times until its segment is full.
 * @param leisure if idle, any segments that are not full, if the longest of them grows by at least a quarter, so that a posting is merged
 *   at most about ten times; if resting, any that are not full
 */
export function toMerge(
  segments: readonly Segment[],
  postingsMax: number,
  leisure: Leisure,
): Segment[] | undefined {
  const isFull = (records: number, postings: number) =>
    records >= full || postings >= fullShare * postingsMax;
  for (let begin = 0; begin < segments.length; begin++) {
    let end = begin;
    let [records, postings, longest] = [0, 0, 0];
    for (; end < segments.length && !isFull(segments[end].count, segments[end].postings); end++) {
      if (
        records + segments[end].count > segmentRecordsMax ||
        postings + segments[end].postings > postingsMax
      )
        break;
      records += segments[end].count;
      postings += segments[end].postings;
      longest = Math.max(longest, segments[end].postings);
    }
    const isEnough = {
      busy: end - begin >= smallSegmentsMin && 2 * longest <= postings,
      idle: 4 * (postings - longest) >= longest,
      resting: true,
    };
    if (end - begin >= 2 && (isFull(records, postings) || isEnough[leisure]))
      return segments.slice(begin, end);
    if (4 * segments[begin].removedCount > segments[begin].recordCount) return [segments[begin]];
  }
  return undefined;
}
