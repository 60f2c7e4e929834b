// How is a segment written?
//
// The writer allocates the most that the segment can take. It writes the records, then the lists by ascending term, and last the
// directory, in steps, as it is as long as the lists where most terms have one posting, and frees the rest of the allocation. The caller
// puts the postings of a list into their columns, in any order of lists; a kernel writes what follows from them. A list's quantized impacts
// are made from its own greatest impact, so that one outlier among the terms coarsens no other.

import {
  entry,
  entryBytes,
  kinds,
  longList,
  segmentRecordsMax,
  windowRecords,
} from "@quiverdb/kernels/postings";
import { invariant } from "../../base/invariant.ts";
import type { Arena } from "./arena.ts";
import type { Formula } from "./query.ts";
import { Segment } from "./segment.ts";
import {
  columnsOf,
  type ExactColumn,
  exactBytesOf,
  exactColumnOf,
  highImpactBytes,
  highImpactCountOf,
  segmentHeader,
  segmentHeaderBytes,
  windowsBytes,
} from "./segment-layout.ts";
import type { SegmentMemory } from "./segment-memory.ts";

export type SegmentPlan = {
  readonly kind: number;
  readonly levels: number;
  /** Of impacts, at the present average length. */
  readonly formula: Formula;
  /** Ascending. */
  readonly ordinals: Uint32Array;
  /** Side by side with the ordinals; empty for sparse vectors. */
  readonly lengths: Uint32Array;
  /** Maximum number of lists, and of postings in all of them. */
  readonly listsMax: number;
  readonly postingsMax: number;
};

const align = (bytes: number): number => (bytes + 63) & ~63;

export class SegmentWriter {
  readonly #arena: Arena;
  readonly #plan: SegmentPlan;
  readonly #at: number;
  readonly #ordinalsAt: number;
  readonly #lengthsAt: number;
  readonly #removedAt = segmentHeaderBytes;
  readonly #listsAt: number;
  readonly #terms: Uint32Array;
  readonly #entries: Uint32Array;
  #lists = 0;
  /** Lists that are in the directory. */
  #closed = 0;
  #postings = 0;
  #hasNegative = false;
  /** Offset of the next list in the allocation. */
  #top: number;

  /** @returns undefined where the arena is too full */
  static begin(arena: Arena, plan: SegmentPlan): SegmentWriter | undefined {
    const at = arena.allocate(bytesMax(plan));
    return at === undefined ? undefined : new SegmentWriter(arena, plan, at);
  }

  private constructor(arena: Arena, plan: SegmentPlan, at: number) {
    const { ordinals, lengths } = plan;
    invariant(
      ordinals.length > 0 && ordinals.length <= segmentRecordsMax,
      `a segment of ${ordinals.length} records`,
    );
    this.#arena = arena;
    this.#plan = plan;
    this.#at = at;
    this.#ordinalsAt = align(this.#removedAt + bitBytes(plan));
    this.#lengthsAt = align(this.#ordinalsAt + 4 * ordinals.length);
    this.#listsAt = align(this.#lengthsAt + 4 * lengths.length);
    this.#top = this.#listsAt;
    // The length of the directory depends on the number of lists, so it is collected here until that is known.
    this.#terms = new Uint32Array(plan.listsMax);
    this.#entries = new Uint32Array(entryWords * plan.listsMax);
    arena.bytes.fill(0, at, at + this.#ordinalsAt);
    arena.words.set(ordinals, (at + this.#ordinalsAt) >>> 2);
    arena.words.set(lengths, (at + this.#lengthsAt) >>> 2);
  }

  /**
   * Makes room for a list; the term is greater than that of the list before. Then its records, ascending numbers, go to `recordsAt`, their
   * values to `exactAt`, and `endList` finishes it.
   * @param count of its postings, at least 1
   * @returns its number
   */
  beginList(term: number, count: number): number {
    invariant(this.#closed === 0, "a list is written behind the directory");
    invariant(
      this.#lists === 0 || term > this.#terms[this.#lists - 1],
      () => `the list of term ${term} is written behind that of ${this.#terms[this.#lists - 1]}`,
    );
    invariant(
      count > 0 && this.#lists < this.#plan.listsMax && this.#postings + count <= this.#plan.postingsMax,
      () =>
        `a segment planned for ${this.#plan.listsMax} lists and ${this.#plan.postingsMax} postings gets more`,
    );
    const list = this.#lists++;
    this.#terms[list] = term;
    this.#entries[entryWords * list + entry.place / 4] = this.#top;
    this.#entries[entryWords * list + entry.count / 4] = count;
    this.#postings += count;
    this.#top += columnsOf(this.#plan.kind, count).end;
    return list;
  }

  /** Where the records of a list go in the arena's `halves`. */
  recordsAt(list: number): number {
    return this.#placeOf(list) >>> 1;
  }

  /** Where the values of a list go in `exactColumn`. */
  exactAt(list: number): number {
    const at = this.#placeOf(list) + columnsOf(this.#plan.kind, this.countOf(list)).exact;
    return this.#plan.kind === kinds.text ? at : at >>> 2;
  }

  /** Whether the segment is written into this arena. */
  isIn(arena: SegmentMemory): boolean {
    return arena === this.#arena;
  }

  /** The arena's records of postings. */
  get recordsColumn(): Uint16Array {
    return this.#arena.halves;
  }

  /** The arena's view that exact columns are written in. */
  get exactColumn(): ExactColumn {
    return exactColumnOf(this.#arena, this.#plan.kind);
  }

  /** Writes what follows from the postings of a list. */
  endList(list: number): void {
    const { kind, levels, formula } = this.#plan;
    const { words, kernels } = this.#arena;
    const at = this.#placeOf(list);
    const count = this.countOf(list);
    const columns = columnsOf(kind, count);
    // What searches have found is taken before the next list is written, so its memory is free now.
    const entryAt = this.#arena.field("found");
    const isNegative = kernels.writeList(
      at,
      at + columns.exact,
      at + columns.windows,
      count,
      kind,
      levels,
      this.#at + this.#lengthsAt,
      formula.fixed,
      formula.perTerm,
      entryAt,
      entryAt + entryBytes,
    );
    if (isNegative) this.#hasNegative = true;
    for (let word = boundsWord; word < entryWords; word++)
      this.#entries[entryWords * list + word] = words[(entryAt >>> 2) + word];
  }

  #placeOf(list: number): number {
    return this.#at + this.#entries[entryWords * list + entry.place / 4];
  }

  /** Postings of a list. */
  countOf(list: number): number {
    return this.#entries[entryWords * list + entry.count / 4];
  }

  /** Writes the directory of about so many more lists, when all lists are written. @returns whether it is complete */
  close(lists: number): boolean {
    const { words } = this.#arena;
    const { termsAt, entriesAt } = this.#directory;
    const [from, to] = [this.#closed, Math.min(this.#lists, this.#closed + Math.ceil(lists))];
    words.set(this.#terms.subarray(from, to), ((this.#at + termsAt) >>> 2) + from);
    const entries = this.#entries.subarray(entryWords * from, entryWords * to);
    words.set(entries, ((this.#at + entriesAt) >>> 2) + entryWords * from);
    this.#closed = to;
    return to === this.#lists;
  }

  get #directory(): { termsAt: number; entriesAt: number } {
    const termsAt = align(this.#top);
    return { termsAt, entriesAt: align(termsAt + 4 * this.#lists) };
  }

  /** Closes the allocation. */
  finish(): Segment {
    invariant(this.#closed === this.#lists, "a segment is finished before its directory is written");
    const { kind, levels, formula, ordinals } = this.#plan;
    const { words, doubles } = this.#arena;
    const { termsAt, entriesAt } = this.#directory;
    const end = entriesAt + entryBytes * this.#lists;
    invariant(end <= bytesMax(this.#plan), `a segment has ${end} bytes of ${bytesMax(this.#plan)}`);
    const header = {
      bytes: end,
      kind,
      levels,
      records: ordinals.length,
      lists: this.#lists,
      postings: this.#postings,
      hasNegative: this.#hasNegative ? 1 : 0,
      removedAt: this.#removedAt,
      ordinalsAt: this.#ordinalsAt,
      lengthsAt: this.#lengthsAt,
      termsAt,
      entriesAt,
    };
    for (const [name, value] of Object.entries(header))
      words[(this.#at + segmentHeader[name as keyof typeof header]) >>> 2] = value;
    doubles[(this.#at + segmentHeader.averageLength) >> 3] = formula.averageLength;
    this.#arena.shrink(this.#at, end);
    return new Segment(this.#arena, this.#at);
  }
}

/** Words of a list's entry in the directory, and the first one after its place and count. */
const entryWords = entryBytes / 4;
const boundsWord = entry.base / 4;

function bitBytes({ ordinals }: SegmentPlan): number {
  return Math.ceil(ordinals.length / windowRecords) * (windowRecords / 8);
}

/** Bytes that a segment of a plan takes at most. */
function bytesMax(plan: SegmentPlan): number {
  const { kind, ordinals, lengths, listsMax, postingsMax } = plan;
  const records = bitBytes(plan) + 4 * (ordinals.length + lengths.length) + 5 * 64;
  // Up to six bytes of padding, and the directory entry.
  const lists = listsMax * (6 + 4 + entryBytes) + (3 + exactBytesOf(kind)) * postingsMax;
  const highImpact = kind === kinds.sparse ? highImpactBytes * highImpactCountOf(postingsMax) : 0;
  return (
    segmentHeaderBytes +
    records +
    lists +
    Math.floor(postingsMax / longList) * (windowsBytes + 3) +
    highImpact
  );
}
