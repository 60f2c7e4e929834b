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
  kinds,
  queryTerm,
  queryTermBytes,
  windowRecords,
} from "@quiverdb/kernels/postings";
import { invariant } from "../../base/invariant.ts";
import { type Candidates, nothing } from "../contract.ts";
import type { Allowed } from "../ordinal-bitmap.ts";
import { firstFrom, type OrdinalSet } from "../ordinal-sets.ts";
import { Best } from "./best.ts";
import type { Formula, Hidden, WeightedTerm } from "./query.ts";
import { type Mask, maskOf } from "./segment-mask.ts";
import type { SegmentReader } from "./segment-reader.ts";

/** The search parameters: see PostingIndex.search. */
export type SegmentSearch = {
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
  if (!enter(segment, number, search, unmasked(segment), Number.NEGATIVE_INFINITY, false)) return nothing;
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

/** Writes the query to the kernel's memory. @returns whether the segment has any of the terms */
function enter(
  segment: SegmentReader,
  number: number,
  { terms, k, formula, least }: SegmentSearch,
  mask: NonNullable<Mask>,
  floor: number,
  hasNegative: boolean,
): boolean {
  const { arena } = segment;
  invariant(arena.reserve(terms.length, k), "there is no memory for a search");
  // Texts are searched by windows, and so is a segment if there is no memory for its sums.
  const hasSums = segment.kind === kinds.sparse && arena.reserveRecords(segment.recordCount);
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
