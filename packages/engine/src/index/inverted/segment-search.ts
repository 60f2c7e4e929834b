// Which records of the segments have the greatest scores?
//
// The kernel searches one segment at a time. This file passes it the lists of the query's terms and the floor, a score that k records
// are known to reach, and reads back what it found and the raised floor.
//
// A search that may miss some goes twice through the segments: first it gathers more candidates than are wanted, by their greatest
// postings alone, and then it has those scored in full.

import {
  scratch as fields,
  foundBytes,
  queryTerm,
  queryTermBytes,
  windowRecords,
} from "@quiverdb/kernels/postings";
import { invariant } from "../../base/invariant.ts";
import { type Candidates, nothing } from "../contract.ts";
import type { Allowed, OrdinalBitmap } from "../ordinal-bitmap.ts";
import { firstFrom, type OrdinalSet } from "../ordinal-sets.ts";
import { Best } from "./best.ts";
import type { Formula, Hidden, WeightedTerm } from "./query.ts";
import type { SegmentReader } from "./segment-reader.ts";

/** The search parameters: see PostingIndex.search. */
type SegmentSearch = {
  readonly terms: readonly WeightedTerm[];
  readonly k: number;
  readonly formula: Formula;
  readonly hidden: Hidden | null;
  /** The ordinals that may be found at all. */
  readonly allowed: Allowed;
  /** Minimum contribution of a posting that counts when candidates are gathered, if no impact is negative; null: exact search. */
  readonly least: number | null;
};

const none: readonly number[] = [];

/** The mask of a search that names its records itself. */
const unmasked = (segment: SegmentReader): NonNullable<Mask> => ({
  at: segment.removedBits.byteOffset,
  missing: 0,
});

/** Capacity for found records. */
const foundMax = windowRecords;

/** How many candidates are gathered for the k best. With half and with twice the surplus for 10, a recall of 0.95 costs as much. */
const candidatesFor = (k: number): number => k + 10;

/**
 * The k best records of the segments and of earlier results, with all ties at the boundary.
 * @param before results from elsewhere
 */
export function searchSegments(
  segments: readonly SegmentReader[],
  search: SegmentSearch,
  before: Candidates,
): Candidates {
  const isExact =
    search.least === null || !segments.every((segment) => segment.arena.reserveRecords(segment.recordCount));
  if (isExact) return bestOfSegments(segments, { ...search, least: null }, before);
  const gathered = bestOfSegments(segments, { ...search, k: candidatesFor(search.k) }, nothing);
  const best = new Best(search.k, before);
  addScored(segments, search, gathered, best);
  return best.bestOfAdded();
}

function bestOfSegments(
  segments: readonly SegmentReader[],
  search: SegmentSearch,
  before: Candidates,
): Candidates {
  const best = new Best(search.k, before);
  const hasNegative = search.terms.some(({ weight }) => weight < 0);
  let { floor } = best;
  for (let i = 0; i < segments.length; i++)
    floor = searchSegment(segments[i], i, search, best, floor, hasNegative);
  return best.bestOfHeap();
}

/** Searches a segment. @returns the floor that is known then */
function searchSegment(
  segment: SegmentReader,
  number: number,
  search: SegmentSearch,
  best: Best,
  floor: number,
  hasNegative: boolean,
): number {
  const { arena } = segment;
  const mask = maskOf(segment, search.hidden?.segments[number] ?? none, search.allowed);
  if (mask === null || !enter(segment, number, search, mask, floor, hasNegative)) return floor;
  const floorAt = (arena.scratch + fields.floor) >>> 3;
  best.enter(arena);
  const { searchSegment, gatherSegment } = arena.kernels;
  const go = search.least === null ? searchSegment : gatherSegment;
  for (let isDone = false; !isDone; ) {
    isDone = go(arena.scratch) !== 0;
    best.take(segment, arena.doubles[floorAt]);
  }
  return arena.doubles[floorAt];
}

/**
 * The k best allowed records of the segments, and of earlier results, with all ties at the boundary. Only the allowed records are looked up
 * in the lists.
 * @param ordinals ascending
 */
export function searchListed(
  segments: readonly SegmentReader[],
  search: SegmentSearch,
  ordinals: OrdinalSet,
  before: Candidates,
): Candidates {
  const best = new Best(search.k, before);
  for (let i = 0, at = 0; i < segments.length && at < ordinals.length; i++) {
    const segment = segments[i];
    const from = at;
    at = from + firstFrom(ordinals.subarray(from), segment.lastOrdinal + 1);
    const hidden = new Set(search.hidden?.segments[i]);
    const listed: number[] = [];
    for (let j = from; j < at; j++) {
      const record = segment.recordOf(ordinals[j]);
      if (record >= 0 && !hidden.has(record)) listed.push(ordinals[j]);
    }
    if (listed.length > 0) best.add(scored(segment, i, search, listed));
  }
  return best.bestOfAdded();
}

/** Adds records that were gathered, with their exact scores. */
function addScored(
  segments: readonly SegmentReader[],
  search: SegmentSearch,
  { ordinals }: Candidates,
  best: Best,
): void {
  const ascending = ordinals.toSorted((a, b) => a - b);
  let at = 0;
  for (let i = 0; i < segments.length && at < ascending.length; i++) {
    const segment = segments[i];
    const from = at;
    while (at < ascending.length && ascending[at] <= segment.lastOrdinal) at++;
    if (at > from) best.add(scored(segment, i, search, ascending.slice(from, at)));
  }
}

/** Those of some records of a segment that have one of the terms, with their exact scores. */
function scored(
  segment: SegmentReader,
  number: number,
  search: SegmentSearch,
  ordinals: readonly number[],
): Candidates {
  const { arena } = segment;
  const found = { ordinals: [] as number[], scores: [] as number[] };
  if (!enter(segment, number, search, unmasked(segment), Number.NEGATIVE_INFINITY, null)) return nothing;
  const foundAt = arena.field("found");
  for (let from = 0; from < ordinals.length; from += foundMax) {
    const count = Math.min(foundMax, ordinals.length - from);
    for (let i = 0; i < count; i++)
      arena.words[(foundAt + i * foundBytes + 8) >>> 2] = segment.recordOf(ordinals[from + i]);
    arena.words[(arena.scratch + fields.foundCount) >>> 2] = count;
    arena.kernels.scoreRecords(arena.scratch);
    for (let i = 0; i < count; i++) {
      const score = arena.doubles[(foundAt + i * foundBytes) >>> 3];
      if (Number.isNaN(score)) continue;
      found.ordinals.push(ordinals[from + i]);
      found.scores.push(score);
    }
  }
  arena.words[(arena.scratch + fields.foundCount) >>> 2] = 0;
  return { count: found.ordinals.length, ...found };
}

/**
 * Writes the query to the kernel's memory.
 * @param hasNegative whether a weight is negative; null: records are only looked up, and nothing is added up
 * @returns whether the segment has any of the terms
 */
function enter(
  segment: SegmentReader,
  number: number,
  { terms, k, formula, least }: SegmentSearch,
  mask: NonNullable<Mask>,
  floor: number,
  hasNegative: boolean | null,
): boolean {
  const { arena } = segment;
  invariant(arena.reserve(terms.length, k), "there is no memory for a search");
  // Without memory for the sums of its records, a segment is searched by windows.
  const hasSums = hasNegative !== null && arena.reserveRecords(segment.recordCount);
  const count = writeQuery(segment, number, terms);
  if (count === 0) return false;
  const { words, doubles } = arena;
  const at = arena.scratch >>> 2;
  const doublesAt = arena.scratch >>> 3;
  words[at + fields.queryCount / 4] = count;
  words[at + fields.segment / 4] = segment.at;
  words[at + fields.hidden / 4] = mask.at;
  words[at + fields.missing / 4] = mask.missing;
  words[at + fields.lengths / 4] = segment.lengths.byteOffset;
  words[at + fields.kind / 4] = segment.kind;
  words[at + fields.levels / 4] = segment.levels;
  words[at + fields.k / 4] = k;
  words[at + fields.sinks / 4] = segment.hasNegative || hasNegative ? 1 : 0;
  words[at + fields.foundCount / 4] = 0;
  words[at + fields.recordCount / 4] = segment.recordCount;
  words[at + fields.isEntered / 4] = 0;
  words[at + fields.hasSums / 4] = hasSums ? 1 : 0;
  doubles[doublesAt + fields.floor / 8] = floor;
  doubles[doublesAt + fields.least / 8] = least ?? Number.NEGATIVE_INFINITY;
  doubles[doublesAt + fields.fixed / 8] = formula.fixed;
  doubles[doublesAt + fields.perTerm / 8] = formula.perTerm;
  doubles[doublesAt + fields.growth / 8] = growthOf(segment, formula);
  doubles[doublesAt + fields.shrinkage / 8] = shrinkageOf(segment, formula);
  return true;
}

/** Writes where the segment has the query's terms; returns how many it has. */
function writeQuery(segment: SegmentReader, number: number, terms: readonly WeightedTerm[]): number {
  const { arena } = segment;
  const { words, doubles } = arena;
  const from = arena.field("query");
  let at = from;
  for (let i = 0; i < terms.length; i++) {
    const list = terms[i].located.segments[number];
    if (list < 0) continue;
    words[(at + queryTerm.entry) >>> 2] = segment.entryOf(list);
    doubles[(at + queryTerm.weight) >>> 3] = terms[i].weight;
    at += queryTermBytes;
  }
  return (at - from) / queryTermBytes;
}

/**
 * By which factor a posting can add more than when the quantized impacts were computed: if the average length has grown, a text is
 * relatively shorter.
 */
function growthOf(segment: SegmentReader, { averageLength }: Formula): number {
  if (segment.averageLength === 0) return 1;
  // Without an average the length does not count at all.
  if (averageLength === 0) return Number.MAX_SAFE_INTEGER;
  return Math.max(1, averageLength / segment.averageLength);
}

/** ... and how much less. */
function shrinkageOf(segment: SegmentReader, { averageLength }: Formula): number {
  return averageLength > 0 && averageLength < segment.averageLength
    ? averageLength / segment.averageLength
    : 1;
}

// ---- Which records of a segment must a search not find?
//
// The kernel reads one bit for each record: 1 where the record was removed, is not visible to the version, or is not allowed.
// Ordinals in a segment have few gaps, so the bits of 32 records are usually one shifted word of the allowed set.

/** Where the bits are in the arena's bytes, and how many records of the segment they exclude; null: all of them. */
type Mask = { readonly at: number; readonly missing: number } | null;

/** @param hidden numbers of records that the version does not see */
function maskOf(segment: SegmentReader, hidden: readonly number[], allowed: Allowed): Mask {
  if (allowed !== null) return writeAllowed(segment, hidden, allowed);
  const missing = segment.removedCount + hidden.length;
  if (hidden.length === 0) return { at: segment.removedBits.byteOffset, missing };
  const { bytes, hiddenAt } = segment.arena;
  bytes.set(segment.removedBits, hiddenAt);
  exclude(segment, hidden);
  return { at: hiddenAt, missing };
}

function exclude({ arena: { bytes, hiddenAt } }: SegmentReader, records: readonly number[]): void {
  for (const record of records) bytes[hiddenAt + (record >>> 3)] |= 1 << (record & 7);
}

function writeAllowed(segment: SegmentReader, hidden: readonly number[], allowed: OrdinalBitmap): Mask {
  const { ordinals, recordCount, removedBits } = segment;
  const { words, hiddenAt } = segment.arena;
  const removedAt = removedBits.byteOffset >>> 2;
  const at = hiddenAt >>> 2;
  let found = 0;
  for (let first = 0, word = 0; first < recordCount; first += 32, word++) {
    const may = allowedBits(ordinals, first, recordCount, allowed) & ~words[removedAt + word];
    words[at + word] = ~may;
    if (may !== 0) found += ones(may);
  }
  if (found === 0) return null;
  // Up to the end of the last window.
  words.fill(0xffff_ffff, at + Math.ceil(recordCount / 32), at + removedBits.length / 4);
  exclude(segment, hidden);
  return { at: hiddenAt, missing: recordCount - found + hidden.length };
}

/** Which of 32 records from one on are allowed: the first in the lowest bit. */
function allowedBits(ordinals: Uint32Array, first: number, count: number, allowed: OrdinalBitmap): number {
  const { words, firstWord } = allowed;
  const end = Math.min(first + 32, count);
  const ordinal = ordinals[first];
  const last = ordinals[end - 1];
  const low = (ordinal >>> 5) - firstWord;
  const high = (last >>> 5) - firstWord;
  if (high < 0 || low >= words.length) return 0;
  // At the ends of the set.
  if (low < 0 || high >= words.length) return bitsOf(ordinals, first, end, allowed);
  // 32 records without a gap between them; fewer may span as many ordinals. Shifts use their number modulo 32, so the upper part is
  // shifted in two steps.
  if (end - first === 32 && last - ordinal === 31)
    return (words[low] >>> (ordinal & 31)) | ((words[high] << (31 - (ordinal & 31))) << 1);
  // Without branches: the processor cannot predict which records are allowed.
  let bits = 0;
  for (let i = first; i < end; i++)
    bits |= ((words[(ordinals[i] >>> 5) - firstWord] >>> (ordinals[i] & 31)) & 1) << (i - first);
  return bits;
}

function bitsOf(ordinals: Uint32Array, first: number, end: number, allowed: OrdinalBitmap): number {
  let bits = 0;
  for (let i = first; i < end; i++) if (allowed.has(ordinals[i])) bits |= 1 << (i - first);
  return bits;
}

/** How many bits are 1 (Warren, Hacker's Delight, 5-1). */
function ones(word: number): number {
  let bits = word - ((word >>> 1) & 0x5555_5555);
  bits = (bits & 0x3333_3333) + ((bits >>> 2) & 0x3333_3333);
  return Math.imul((bits + (bits >>> 4)) & 0x0f0f_0f0f, 0x0101_0101) >>> 24;
}
