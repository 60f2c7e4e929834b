// What does a segment of postings contain, and which of its records still exist?
//
// A segment counts the removed records of a list when a search asks for them, and caches the count together with the number of
// removals that it covers. Most terms are never asked for.
//
// The owner has a `Segment`. A thread that reads it has a `SegmentReader` for each moment, which knows the records that were removed by then
// by the log of removals. Later removals concern only records that its version does not see (they are hidden from it anyway), so it
// does not matter which of them the shared bits show when the kernel reads them. Readers of one segment share what never changes, and
// the counts.

import { entry, entryBytes, kinds, segmentRecordsMax, windowRecords } from "@quiverdb/kernels/postings";
import type { Column } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import { firstFrom } from "../ordinal-sets.ts";
import { columnsOf, type ExactColumn, exactColumnOf, segmentHeader } from "./segment-layout.ts";
import type { SegmentMemory } from "./segment-memory.ts";

/** Per list: how many of its records were removed, and how many removals were looked at for that. Empty before the first query. */
type RemovedCounts = { removed: Uint32Array; seen: Uint32Array };

/** Removed records are looked up one by one if that is less work than walking a list. */
const probeCost = 16;

/** A segment as it is at a moment. Can be posted to another thread. */
export type SharedSegment = {
  readonly at: number;
  readonly bytes: number;
  /** No other segment of the index has it. */
  readonly number: number;
  /** Records in the order of their removal. */
  readonly removed: Column;
};

/** A segment, for reading. */
export class SegmentReader {
  readonly arena: SegmentMemory;
  readonly at: number;
  readonly kind: number;
  /** Quantized impacts are at most this. */
  readonly levels: number;
  readonly recordCount: number;
  readonly listCount: number;
  /** Postings, those of removed records included. */
  readonly postings: number;
  readonly hasNegative: boolean;
  /** Of the texts when the quantized impacts were made; bounds hold for it. */
  readonly averageLength: number;
  /** By number of the record. */
  readonly ordinals: Uint32Array;
  /** By record number; empty if there are none. */
  readonly lengths: Uint32Array;
  /** Of each list, ascending. */
  readonly terms: Uint32Array;
  readonly #entriesAt: number;
  readonly #listsOf: ListsOfTerms;
  /** In the arena, a bit for each record: whether it was removed by now. */
  readonly removedBits: Uint8Array;
  /** ... by the reader's moment. The owner's are those of the arena. */
  protected bits: Uint8Array;
  /** In the order of removal. */
  protected removed: Column = { values: new Uint32Array(0), length: 0 };
  readonly #counts: RemovedCounts;

  /** @param other a reader of the same segment */
  constructor(arena: SegmentMemory, at: number, other?: SegmentReader) {
    const field = (name: keyof typeof segmentHeader): number => arena.words[(at + segmentHeader[name]) >>> 2];
    const column = (name: keyof typeof segmentHeader, count: number): Uint32Array =>
      new Uint32Array(arena.words.buffer, at + field(name), count);
    this.arena = arena;
    this.at = at;
    this.kind = field("kind");
    this.levels = field("levels");
    this.recordCount = field("records");
    this.listCount = field("lists");
    this.postings = field("postings");
    invariant(
      at + field("bytes") <= arena.bytes.length,
      () =>
        `a segment ends at ${at + field("bytes")} of an arena of which ${arena.bytes.length} bytes are seen`,
    );
    invariant(
      this.recordCount > 0 && this.recordCount <= segmentRecordsMax,
      () => `there is no segment at ${at}: it would have ${this.recordCount} records`,
    );
    invariant(
      other === undefined || (other.at === at && other.postings === this.postings),
      () => `the segment at ${at} is read as the one that was at ${other?.at}`,
    );
    this.hasNegative = field("hasNegative") === 1;
    this.averageLength = arena.doubles[(at + segmentHeader.averageLength) >> 3];
    this.ordinals = column("ordinalsAt", this.recordCount);
    this.lengths = column("lengthsAt", this.kind === kinds.sparse ? 0 : this.recordCount);
    this.terms = column("termsAt", this.listCount);
    this.#entriesAt = at + field("entriesAt");
    this.#listsOf = other === undefined ? new ListsOfTerms(this.terms) : other.#listsOf;
    this.#counts =
      other === undefined ? { removed: new Uint32Array(0), seen: new Uint32Array(0) } : other.#counts;
    const bits = Math.ceil(this.recordCount / windowRecords) * windowRecords;
    this.removedBits = new Uint8Array(arena.bytes.buffer, at + field("removedAt"), bits / 8);
    this.bits = this.removedBits;
  }

  /**
   * A segment of another thread as it was at a moment.
   * @param arena its arena, seen from this thread
   * @param other a reader of the segment at another moment
   */
  static attach(arena: SegmentMemory, { at, removed }: SharedSegment, other?: SegmentReader): SegmentReader {
    if (other?.removed.length === removed.length) return other;
    const segment = new SegmentReader(arena, at, other);
    invariant(
      removed.length <= segment.recordCount,
      () => `${removed.length} of ${segment.recordCount} records were removed`,
    );
    const isLater = other !== undefined && other.removed.length < removed.length;
    segment.bits = isLater ? other.bits.slice() : new Uint8Array(segment.removedBits.length);
    segment.removed = removed;
    for (let i = isLater ? other.removed.length : 0; i < removed.length; i++)
      segment.bits[removed.values[i] >> 3] |= 1 << (removed.values[i] & 7);
    return segment;
  }

  /** Bytes of the allocation. */
  get bytes(): number {
    return this.arena.words[(this.at + segmentHeader.bytes) >>> 2];
  }

  /** Bytes outside the allocation. */
  get extraBytes(): number {
    return (
      this.#listsOf.memoryBytes +
      this.removed.values.byteLength +
      this.#counts.removed.byteLength +
      this.#counts.seen.byteLength
    );
  }

  get removedCount(): number {
    return this.removed.length;
  }

  /** Records that were not removed. */
  get count(): number {
    return this.recordCount - this.removed.length;
  }

  get firstOrdinal(): number {
    return this.ordinals[0];
  }

  get lastOrdinal(): number {
    return this.ordinals[this.recordCount - 1];
  }

  /** The number of a record that was not removed, or -1. */
  recordOf(ordinal: number): number {
    const record = firstFrom(this.ordinals, ordinal);
    return this.ordinals[record] === ordinal && !this.isRemoved(record) ? record : -1;
  }

  isRemoved(record: number): boolean {
    return ((this.bits[record >> 3] >> (record & 7)) & 1) === 1;
  }

  /** The list of a term, or -1. */
  listOf(term: number): number {
    return this.#listsOf.of(term);
  }

  /** Where a list's entry lies in the arena. */
  entryOf(list: number): number {
    return this.#entriesAt + entryBytes * list;
  }

  /** Postings of a list, those of removed records included. */
  countOf(list: number): number {
    return this.arena.words[(this.entryOf(list) + entry.count) >>> 2];
  }

  /** Where a list lies in the arena. */
  placeOf(list: number): number {
    return this.at + this.arena.words[(this.entryOf(list) + entry.place) >>> 2];
  }

  /** Postings of a list whose records were removed. */
  removedIn(list: number): number {
    const removals = this.removed.length;
    if (removals === 0) return 0;
    const counts = this.#counts;
    if (counts.seen.length === 0) {
      counts.removed = new Uint32Array(this.listCount);
      counts.seen = new Uint32Array(this.listCount);
    }
    invariant(list >= 0 && list < this.listCount, () => `list ${list} of ${this.listCount} is asked for`);
    const since = removals - counts.seen[list];
    if (since === 0) return counts.removed[list];
    // A reader of a later moment has asked before.
    if (since < 0) return this.#countRemoved(list);
    if (probeCost * since < this.countOf(list)) {
      let found = 0;
      for (let i = removals - since; i < removals; i++)
        if (this.postingOf(list, this.removed.values[i]) >= 0) found++;
      counts.removed[list] += found;
    } else {
      counts.removed[list] = this.#countRemoved(list);
    }
    counts.seen[list] = removals;
    invariant(
      counts.removed[list] <= this.countOf(list),
      () => `${counts.removed[list]} of ${this.countOf(list)} postings of list ${list} were removed`,
    );
    return counts.removed[list];
  }

  /** The place of a record's posting in a list, or -1. */
  postingOf(list: number, record: number): number {
    const { halves } = this.arena;
    const first = this.recordsAt(list);
    let low = first;
    let high = first + this.countOf(list);
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (halves[middle] < record) low = middle + 1;
      else high = middle;
    }
    return low < first + this.countOf(list) && halves[low] === record ? low - first : -1;
  }

  /** The arena's view that exact columns are read in. */
  get exactColumn(): ExactColumn {
    return exactColumnOf(this.arena, this.kind);
  }

  /** Where a list's exact column begins in that view. */
  exactAt(list: number): number {
    const at = this.placeOf(list) + columnsOf(this.kind, this.countOf(list)).exact;
    return this.kind === kinds.text ? at : at >>> 2;
  }

  /** Where a list's records begin in the arena's `halves`. */
  recordsAt(list: number): number {
    return this.placeOf(list) >>> 1;
  }

  /** A weight or a frequency. */
  valueOf(list: number, posting: number): number {
    return this.exactColumn[this.exactAt(list) + posting];
  }

  /** The record of a posting. */
  recordAt(list: number, posting: number): number {
    return this.arena.halves[this.recordsAt(list) + posting];
  }

  #countRemoved(list: number): number {
    const { halves } = this.arena;
    const { bits } = this;
    const first = this.recordsAt(list);
    const end = first + this.countOf(list);
    let removed = 0;
    for (let at = first; at < end; at++) removed += (bits[halves[at] >> 3] >> (halves[at] & 7)) & 1;
    return removed;
  }
}

// ---- Which list of a segment has the postings of a term?
//
// A binary search in the ascending terms, narrowed by a table: where the lists begin of each *step* of 2 ** bits terms, some four lists to a
// step, as terms mostly are spread.

class ListsOfTerms {
  readonly #terms: Uint32Array;
  readonly #steps: Uint32Array;
  readonly #stepBits: number;

  /** @param terms of each list, ascending; kept */
  constructor(terms: Uint32Array) {
    this.#terms = terms;
    this.#stepBits = stepBitsFor(terms);
    this.#steps = stepsOf(terms, this.#stepBits);
  }

  /** Bytes besides the terms. */
  get memoryBytes(): number {
    return this.#steps.byteLength;
  }

  /** The list of a term, or -1. */
  of(term: number): number {
    const terms = this.#terms;
    const step = term >>> this.#stepBits;
    if (step >= this.#steps.length - 1) return -1;
    let low = this.#steps[step];
    let high = this.#steps[step + 1];
    while (high - low > 8) {
      const middle = (low + high) >>> 1;
      if (terms[middle] <= term) low = middle;
      else high = middle;
    }
    for (; low < high; low++) if (terms[low] === term) return low;
    return -1;
  }
}

/** The least bits by which there are four lists to a step on average, or more. */
function stepBitsFor(terms: Uint32Array): number {
  const last = terms[terms.length - 1] ?? 0;
  let bits = 0;
  while (bits < 31 && 4 * (last >>> bits) > terms.length) bits++;
  return bits;
}

function stepsOf(terms: Uint32Array, bits: number): Uint32Array {
  const steps = new Uint32Array(((terms[terms.length - 1] ?? 0) >>> bits) + 2);
  for (let step = 0, list = 0; step < steps.length; step++) {
    while (list < terms.length && terms[list] >>> bits < step) list++;
    steps[step] = list;
  }
  return steps;
}
