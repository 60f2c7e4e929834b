// How is a segment written?
//
// The writer allocates the most that the segment can take. It writes the records, then the lists by ascending term, and last the
// directory, in steps, as it is as long as the lists where most terms have one posting, and frees the rest of the allocation. A list's quantized impacts are made from its own
// greatest impact, so that one outlier among the terms coarsens no other.

import {
  blockRecords,
  blocksMax,
  entry,
  entryBytes,
  kinds,
  longList,
  segmentRecordsMax,
  topImpactBits,
  topImpactsMax,
  windowRecords,
  windowsMax,
} from "@quiverdb/kernels/postings";
import { invariant } from "../../base/invariant.ts";
import type { Arena } from "./arena.ts";
import { Segment } from "./segment.ts";
import {
  blockImpactsAt,
  columnsOf,
  exactBytesOf,
  highImpactBytes,
  highImpactCountOf,
  segmentHeader,
  segmentHeaderBytes,
  windowImpactsAt,
  windowsBytes,
} from "./segment-layout.ts";

/** The contribution of a posting to a score at weight 1. */
export type ImpactOf = (value: number, length: number) => number;

export type SegmentPlan = {
  readonly kind: number;
  readonly levels: number;
  /** Of the texts, by which `impactOf` goes. */
  readonly averageLength: number;
  readonly impactOf: ImpactOf;
  /** Ascending. */
  readonly ordinals: Uint32Array;
  /** Side by side with the ordinals; empty for sparse vectors. */
  readonly lengths: Uint32Array;
  /** Maximum number of lists, and of postings in all of them. */
  readonly listsMax: number;
  readonly postingsMax: number;
};

/** Margin that makes a slope too large rather than too small, because it is rounded to f32. */
const slopeMargin = 1 + 2 ** -22;

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
  /** The same memory three times. */
  readonly #entries: {
    readonly words: Uint32Array;
    readonly floats: Float32Array;
    readonly bytes: Uint8Array;
  };
  #lists = 0;
  /** Lists that are in the directory. */
  #closed = 0;
  #postings = 0;
  #hasNegative = false;
  /** Offset of the next list in the allocation. */
  #top: number;
  #impacts = new Float64Array(1_024);

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
    const words = new Uint32Array((entryBytes / 4) * plan.listsMax);
    this.#entries = { words, floats: new Float32Array(words.buffer), bytes: new Uint8Array(words.buffer) };
    arena.bytes.fill(0, at, at + this.#ordinalsAt);
    arena.words.set(ordinals, (at + this.#ordinalsAt) >>> 2);
    arena.words.set(lengths, (at + this.#lengthsAt) >>> 2);
  }

  /**
   * Writes a list; the term is greater than that of the list before. One without postings is none.
   * @param count of `records`, ascending numbers, and `values`, side by side
   */
  addList(term: number, count: number, records: Uint16Array, values: Float32Array | Uint32Array): void {
    if (count === 0) return;
    invariant(this.#closed === 0, "a list is written behind the directory");
    invariant(
      this.#lists === 0 || term > this.#terms[this.#lists - 1],
      () => `the list of term ${term} is written behind that of ${this.#terms[this.#lists - 1]}`,
    );
    invariant(
      this.#lists < this.#plan.listsMax && this.#postings + count <= this.#plan.postingsMax,
      () =>
        `a segment planned for ${this.#plan.listsMax} lists and ${this.#plan.postingsMax} postings gets more`,
    );
    const { kind } = this.#plan;
    const place = this.#top;
    const columns = columnsOf(kind, count);
    const at = this.#at + place;
    const { bytes, halves, words, floats } = this.#arena;
    halves.set(records.subarray(0, count), at >>> 1);
    const exact = at + columns.exact;
    if (kind === kinds.text) bytes.set(values.subarray(0, count), exact);
    else if (kind === kinds.sparse) floats.set(values.subarray(0, count), exact >>> 2);
    else words.set(values.subarray(0, count), exact >>> 2);
    this.#encode(at, count, records, values);
    if (count >= longList) {
      const quantized = bytes.subarray(at + columns.quantizedImpacts, at + columns.quantizedImpacts + count);
      const havingImpact = writeWindows(this.#arena, at + columns.windows, quantized, records);
      writeTopImpacts(this.#entries.bytes, entryBytes * this.#lists + entry.topImpacts, havingImpact);
      if (kind === kinds.sparse)
        writeHighImpact(this.#arena, at + columns.windows + windowsBytes, quantized, records, havingImpact);
    }
    this.#terms[this.#lists] = term;
    const entryAt = entryBytes * this.#lists++;
    this.#entries.words[(entryAt + entry.place) >>> 2] = place;
    this.#entries.words[(entryAt + entry.count) >>> 2] = count;
    this.#postings += count;
    this.#top = place + columns.end;
  }

  /** Writes the directory of about so many more lists, when all lists are written. @returns whether it is complete */
  close(lists: number): boolean {
    const { words } = this.#arena;
    const { termsAt, entriesAt } = this.#directory;
    const [from, to] = [this.#closed, Math.min(this.#lists, this.#closed + Math.ceil(lists))];
    const entryWords = entryBytes / 4;
    words.set(this.#terms.subarray(from, to), ((this.#at + termsAt) >>> 2) + from);
    const entries = this.#entries.words.subarray(entryWords * from, entryWords * to);
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
    const { kind, levels, averageLength, ordinals } = this.#plan;
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
    doubles[(this.#at + segmentHeader.averageLength) >> 3] = averageLength;
    this.#arena.shrink(this.#at, end);
    return new Segment(this.#arena, this.#at);
  }

  /** Writes base, slope and quantized impacts. */
  #encode(at: number, count: number, records: Uint16Array, values: Float32Array | Uint32Array): void {
    const { kind, levels, lengths, impactOf } = this.#plan;
    if (this.#impacts.length < count) this.#impacts = new Float64Array(2 * count);
    const impacts = this.#impacts;
    let least = Number.POSITIVE_INFINITY;
    let most = Number.NEGATIVE_INFINITY;
    for (let i = 0; i < count; i++) {
      const impact = impactOf(values[i], lengths[records[i]]);
      impacts[i] = impact;
      if (impact < least) least = impact;
      if (impact > most) most = impact;
    }
    if (least < 0) this.#hasNegative = true;
    // The contribution of a term approaches zero in long texts, and with another average length even more so.
    const base = kind === kinds.sparse ? least : 0;
    const slope = slopeFor(most - base, levels);
    const { bytes } = this.#arena;
    const { floats } = this.#entries;
    const boundsAt = (entryBytes * this.#lists + entry.base) >>> 2;
    floats[boundsAt] = base;
    floats[boundsAt + 1] = slope;
    // A weight is an f32, and stays as it is.
    floats[boundsAt + 2] = kind === kinds.sparse ? most : most * slopeMargin;
    const quantizedImpacts = at + columnsOf(kind, count).quantizedImpacts;
    const perImpact = slope > 0 ? 1 / slope : 0;
    for (let i = 0; i < count; i++) {
      let quantized = Math.min(levels, Math.ceil((impacts[i] - base) * perImpact));
      // A quotient can be rounded to the wrong side of an integer.
      if (quantized > 0 && base + slope * (quantized - 1) >= impacts[i]) quantized--;
      if (base + slope * quantized < impacts[i]) quantized++;
      bytes[quantizedImpacts + i] = quantized;
    }
  }
}

/** An f32 whose product with `levels` is at least `range`, and hardly more. */
function slopeFor(range: number, levels: number): number {
  const slope = Math.fround((range / levels) * slopeMargin);
  // Only among the smallest numbers that there are.
  return slope * levels >= range ? slope : Math.fround(slope + 2 ** -149);
}

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

// ---- What is written of a long list, besides its postings?
//
//   windows       where the postings of each window of records begin, and the greatest quantized impact of each window and block
//   top impacts   the quantized impact that 2 ** i postings reach, for several i: in the list's entry
//   high impact   of sparse vectors: a prefix of the list in the order of descending impact

/**
 * Writes the windows of a list.
 * @param at their place in the arena
 * @param quantized impact of each posting
 * @param records ascending numbers, side by side
 * @returns how many postings have each quantized impact
 */
function writeWindows(
  { bytes, words }: Arena,
  at: number,
  quantized: Uint8Array,
  records: Uint16Array,
): Uint32Array {
  const { length: count } = quantized;
  const havingImpact = new Uint32Array(256);
  const blocks = bytes.subarray(at + blockImpactsAt, at + blockImpactsAt + blocksMax).fill(0);
  let i = 0;
  for (let window = 0; window < windowsMax; window++) {
    words[(at >>> 2) + window] = i;
    let greatest = 0;
    for (const end = (window + 1) * windowRecords; i < count && records[i] < end; i++) {
      const impact = quantized[i];
      havingImpact[impact]++;
      if (impact > greatest) greatest = impact;
      const block = Math.floor(records[i] / blockRecords);
      if (impact > blocks[block]) blocks[block] = impact;
    }
    bytes[at + windowImpactsAt + window] = greatest;
  }
  words[(at >>> 2) + windowsMax] = count;
  return havingImpact;
}

/** Writes the impacts that the top postings reach. @param at their place in `bytes` */
function writeTopImpacts(bytes: Uint8Array, at: number, havingImpact: Uint32Array): void {
  let impact = 255;
  let above = havingImpact[255];
  for (let i = 0; i < topImpactsMax; i++) {
    const rank = 2 ** (topImpactBits + i);
    while (impact > 0 && above < rank) above += havingImpact[--impact];
    bytes[at + i] = above >= rank ? impact : 0;
  }
}

/** Writes the high-impact prefix of a list. @param at its place in the arena */
function writeHighImpact(
  { bytes, halves }: Arena,
  at: number,
  quantized: Uint8Array,
  records: Uint16Array,
  havingImpact: Uint32Array,
): void {
  const { length: count } = quantized;
  const highImpact = highImpactCountOf(count);
  // Where the next posting of each quantized impact goes.
  const places = new Uint32Array(256);
  for (let impact = 254; impact >= 0; impact--)
    places[impact] = places[impact + 1] + havingImpact[impact + 1];
  for (let i = 0; i < count; i++) {
    const impact = quantized[i];
    const place = places[impact]++;
    if (place >= highImpact) continue;
    halves[(at >>> 1) + place] = records[i];
    bytes[at + 2 * highImpact + place] = impact;
  }
}
