// How is a run written?
//
// Into a block that has room for the most that it can become: first its records, then list after list by ascending term, and
// last the directory is closed up and what is left of the block is given back. A list's codes are made from its own
// greatest amount, so that one outlier among the terms coarsens no other.

import {
  entry,
  entryBytes,
  kinds,
  longList,
  rankBits,
  ranksMax,
  runRecordsMax,
  stretchesMax,
  stretchRecords,
  windowRecords,
  windowsMax,
} from "@quiver/kernels/postings";
import { invariant } from "../../base/invariant.ts";
import type { Arena } from "./arena.ts";
import { Run } from "./run.ts";
import {
  columnsOf,
  exactBytesOf,
  peakBytes,
  peaksOf,
  runHeader,
  runHeaderBytes,
  stretchCodesAt,
  windowCodesAt,
  windowsBytes,
} from "./run-layout.ts";

/** What a posting adds to a score at weight 1. */
export type AmountOf = (value: number, length: number) => number;

export type RunPlan = {
  readonly kind: number;
  readonly levels: number;
  /** Of the texts, by which `amountOf` goes. */
  readonly averageLength: number;
  readonly amountOf: AmountOf;
  /** Ascending. */
  readonly ordinals: Uint32Array;
  /** Side by side with the ordinals; empty for sparse vectors. */
  readonly lengths: Uint32Array;
  /** At most so many lists, and postings in all of them. */
  readonly listsMax: number;
  readonly postingsMax: number;
};

/** Margin by which a slope is too great rather than too small, for it is an f32. */
const slopeMargin = 1 + 2 ** -22;

const align = (bytes: number): number => (bytes + 63) & ~63;

export class RunWriter {
  readonly #arena: Arena;
  readonly #plan: RunPlan;
  readonly #at: number;
  readonly #ordinalsAt: number;
  readonly #lengthsAt: number;
  readonly #removedAt = runHeaderBytes;
  readonly #listsAt: number;
  readonly #terms: Uint32Array;
  /** The same memory three times. */
  readonly #entries: {
    readonly words: Uint32Array;
    readonly floats: Float32Array;
    readonly bytes: Uint8Array;
  };
  #lists = 0;
  #postings = 0;
  #hasNegative = false;
  /** Where the next list goes, from the block's beginning. */
  #top: number;
  #amounts = new Float64Array(1_024);

  /** @returns undefined where the arena is too full */
  static begin(arena: Arena, plan: RunPlan): RunWriter | undefined {
    const at = arena.allocate(bytesMax(plan));
    return at === undefined ? undefined : new RunWriter(arena, plan, at);
  }

  private constructor(arena: Arena, plan: RunPlan, at: number) {
    const { ordinals, lengths } = plan;
    invariant(ordinals.length > 0 && ordinals.length <= runRecordsMax, `a run of ${ordinals.length} records`);
    this.#arena = arena;
    this.#plan = plan;
    this.#at = at;
    this.#ordinalsAt = align(this.#removedAt + bitBytes(plan));
    this.#lengthsAt = align(this.#ordinalsAt + 4 * ordinals.length);
    this.#listsAt = align(this.#lengthsAt + 4 * lengths.length);
    this.#top = this.#listsAt;
    // The directory is as long as there are lists: it is kept here until that is known.
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
      const havingCode = this.#addWindows(at + columns.windows, at + columns.codes, count, records);
      const peaksAt = at + columns.windows + windowsBytes;
      if (kind === kinds.sparse) this.#addPeaks(peaksAt, at + columns.codes, count, records, havingCode);
    }
    this.#terms[this.#lists] = term;
    const entryAt = entryBytes * this.#lists++;
    this.#entries.words[(entryAt + entry.place) >>> 2] = place;
    this.#entries.words[(entryAt + entry.count) >>> 2] = count;
    this.#postings += count;
    this.#top = place + columns.end;
  }

  /** Closes the block. */
  finish(): Run {
    const { kind, levels, averageLength, ordinals } = this.#plan;
    const { words, doubles } = this.#arena;
    const termsAt = align(this.#top);
    const entriesAt = align(termsAt + 4 * this.#lists);
    const end = entriesAt + entryBytes * this.#lists;
    words.set(this.#terms.subarray(0, this.#lists), (this.#at + termsAt) >>> 2);
    words.set(this.#entries.words.subarray(0, (entryBytes / 4) * this.#lists), (this.#at + entriesAt) >>> 2);
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
      words[(this.#at + runHeader[name as keyof typeof header]) >>> 2] = value;
    doubles[(this.#at + runHeader.averageLength) >> 3] = averageLength;
    this.#arena.shrink(this.#at, end);
    return new Run(this.#arena, this.#at);
  }

  /** Writes base, slope and codes. */
  #encode(at: number, count: number, records: Uint16Array, values: Float32Array | Uint32Array): void {
    const { kind, levels, lengths, amountOf } = this.#plan;
    if (this.#amounts.length < count) this.#amounts = new Float64Array(2 * count);
    const amounts = this.#amounts;
    let least = Number.POSITIVE_INFINITY;
    let most = Number.NEGATIVE_INFINITY;
    for (let i = 0; i < count; i++) {
      const amount = amountOf(values[i], lengths[records[i]]);
      amounts[i] = amount;
      if (amount < least) least = amount;
      if (amount > most) most = amount;
    }
    if (least < 0) this.#hasNegative = true;
    // What a text's term adds comes close to nothing in long texts, and with another average length closer.
    const base = kind === kinds.sparse ? least : 0;
    const slope = slopeFor(most - base, levels);
    const { bytes } = this.#arena;
    const { floats } = this.#entries;
    const boundsAt = (entryBytes * this.#lists + entry.base) >>> 2;
    floats[boundsAt] = base;
    floats[boundsAt + 1] = slope;
    // A weight is an f32, and stays as it is.
    floats[boundsAt + 2] = kind === kinds.sparse ? most : most * slopeMargin;
    const codes = at + columnsOf(kind, count).codes;
    const perAmount = slope > 0 ? 1 / slope : 0;
    for (let i = 0; i < count; i++) {
      let code = Math.min(levels, Math.ceil((amounts[i] - base) * perAmount));
      // A quotient can be rounded to the wrong side of a whole number.
      if (code > 0 && base + slope * (code - 1) >= amounts[i]) code--;
      if (base + slope * code < amounts[i]) code++;
      bytes[codes + i] = code;
    }
  }

  /** @returns how many postings have each code */
  #addWindows(at: number, codesAt: number, count: number, records: Uint16Array): Uint32Array {
    const { bytes, words } = this.#arena;
    const codes = bytes.subarray(codesAt, codesAt + count);
    const havingCode = new Uint32Array(256);
    const stretches = bytes.subarray(at + stretchCodesAt, at + stretchCodesAt + stretchesMax).fill(0);
    let i = 0;
    for (let window = 0; window < windowsMax; window++) {
      words[(at >>> 2) + window] = i;
      let greatest = 0;
      for (const end = (window + 1) * windowRecords; i < count && records[i] < end; i++) {
        const code = codes[i];
        havingCode[code]++;
        if (code > greatest) greatest = code;
        const stretch = Math.floor(records[i] / stretchRecords);
        if (code > stretches[stretch]) stretches[stretch] = code;
      }
      bytes[at + windowCodesAt + window] = greatest;
    }
    words[(at >>> 2) + windowsMax] = count;
    let code = 255;
    let above = havingCode[255];
    const ranksAt = entryBytes * this.#lists + entry.ranks;
    for (let i = 0; i < ranksMax; i++) {
      const rank = 2 ** (rankBits + i);
      while (code > 0 && above < rank) above += havingCode[--code];
      this.#entries.bytes[ranksAt + i] = above >= rank ? code : 0;
    }
    return havingCode;
  }

  #addPeaks(at: number, codesAt: number, count: number, records: Uint16Array, havingCode: Uint32Array): void {
    const { bytes, halves } = this.#arena;
    const peaks = peaksOf(count);
    // Where the next posting of each code goes.
    const places = new Uint32Array(256);
    for (let code = 254; code >= 0; code--) places[code] = places[code + 1] + havingCode[code + 1];
    for (let i = 0; i < count; i++) {
      const code = bytes[codesAt + i];
      const place = places[code]++;
      if (place >= peaks) continue;
      halves[(at >>> 1) + place] = records[i];
      bytes[at + 2 * peaks + place] = code;
    }
  }
}

/** An f32 that `levels` times is at least `range`, and hardly more. */
function slopeFor(range: number, levels: number): number {
  const slope = Math.fround((range / levels) * slopeMargin);
  // Only among the smallest numbers that there are.
  return slope * levels >= range ? slope : Math.fround(slope + 2 ** -149);
}

function bitBytes({ ordinals }: RunPlan): number {
  return Math.ceil(ordinals.length / windowRecords) * (windowRecords / 8);
}

/** Bytes that a run of a plan takes at most. */
function bytesMax(plan: RunPlan): number {
  const { kind, ordinals, lengths, listsMax, postingsMax } = plan;
  const records = bitBytes(plan) + 4 * (ordinals.length + lengths.length) + 5 * 64;
  // Up to six bytes of padding, and what is in the directory.
  const lists = listsMax * (6 + 4 + entryBytes) + (3 + exactBytesOf(kind)) * postingsMax;
  const peaks = kind === kinds.sparse ? peakBytes * peaksOf(postingsMax) : 0;
  return runHeaderBytes + records + lists + Math.floor(postingsMax / longList) * (windowsBytes + 3) + peaks;
}
