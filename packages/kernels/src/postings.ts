/// <reference path="./webassembly.d.ts" />

// How does a program get at the kernel that searches postings?
//
// Where things lie in a segment, a term and a search's scratch memory is drawn in assembly/postings/layout.ts; the numbers here are
// the same.

import { instantiateBuild } from "./loader.ts";

/** Records that a segment has at most: their numbers have 16 bits. */
export const segmentRecordsMax = 65_536;

/** Records that are looked up together in a long list, and searched at a time where there is no memory for the sums of all. */
export const windowRecords = 4_096;

/** Windows of the longest segment. */
export const windowsMax = segmentRecordsMax / windowRecords;

/** Number of records for which a long list stores the greatest quantized impact. */
export const blockRecords = 512;

/** Blocks of the longest segment. */
export const blocksMax = segmentRecordsMax / blockRecords;

/** A list with this many postings has windows. */
export const longList = 512;

/** One in this many postings of a long list of sparse vectors is a high-impact posting. */
export const highImpactShare = 8;

/** Bytes of a term of a search. */
export const termBytes = 64;

/** Bytes of a list's entry in the directory; its fields: u32, then f32, then the top-k impact bounds, u8. */
export const entryBytes = 32;
export const entry = { place: 0, count: 4, base: 8, slope: 12, most: 16, topImpacts: 20 } as const;

/**
 * Top-k impact bounds are the quantized impacts of the 2 ** topImpactBits-th greatest posting, the 2 ** (topImpactBits + 1)-th, and so on;
 * this is their number.
 */
export const topImpactBits = 4;
export const topImpactsMax = 12;

/** Bytes of a term of a query, and the offsets of its written fields: the entry of its list (u32) and a weight (f64). */
export const queryTermBytes = 40;
export const queryTerm = { entry: 0, weight: 8 } as const;

/** Byte offsets of the fields of a search's scratch memory: u32, except floor, fixed, perTerm, growth, shrinkage and least, which are f64. */
export const scratch = {
  terms: 0,
  order: 8,
  hidden: 12,
  lengths: 16,
  kind: 20,
  k: 24,
  heap: 28,
  heapCount: 32,
  sums: 36,
  marks: 40,
  found: 44,
  foundCount: 48,
  recordCount: 56,
  floor: 64,
  fixed: 80,
  perTerm: 88,
  sinks: 104,
  query: 108,
  queryCount: 112,
  levels: 116,
  missing: 120,
  isEntered: 124,
  growth: 128,
  shrinkage: 136,
  least: 144,
  sorted: 152,
  recordSums: 156,
  touched: 160,
  segment: 168,
  hasSums: 172,
} as const;

/** Bytes of scratch memory's fields. */
export const scratchBytes = 208;

/** Bytes of the sums and of the candidates of a search of a segment with so many records; both a multiple of 64. */
export const recordSumsBytes = (records: number): number =>
  Math.ceil(Math.max(4 * records, 8 * Math.min(records, 16_384)) / 64) * 64;
export const candidatesBytes = (records: number): number => Math.ceil((4 * (records + 1)) / 64) * 64;

/** Bytes of a record that was found: its score, f64, its number, u32, and 4 unused. */
export const foundBytes = 16;

/** The form of an exact impact: a weight (f32), or a tf in one byte or four. */
export const kinds = { sparse: 0, text: 1, wideText: 2 } as const;

export type PostingsKernels = {
  /**
   * Searches the segment given in the scratch memory, from the start if it is not entered yet, until all is done or more than
   * `windowRecords` records were found; returns 1 when all is done. Before the next call, the caller takes the found records and sets their
   * count to 0. With `hasSums`, `recordSums` and `touched` must have room for the segment.
   */
  readonly searchSegment: (scratch: number) => number;
  /**
   * The same, but only postings that add at least the search's `least` (positive) count, and the score of a found record is their sum. No
   * impact may be negative, and `recordSums` and `touched` must have room for the segment.
   */
  readonly gatherSegment: (scratch: number) => number;
  /** Sets the scores of the given found records: NaN for a record without any of the terms. The floor must be minus infinity. */
  readonly scoreRecords: (scratch: number) => void;
  /**
   * Copies the records and exact impacts of a list to other places in the memory.
   * @param records, exact the places of these columns; `exactBytes` of one exact impact
   * @param added to the number of each record
   * @param to, exactTo where they go; no part of where they are
   */
  readonly copyPostings: (
    records: number,
    exact: number,
    count: number,
    exactBytes: number,
    added: number,
    to: number,
    exactTo: number,
  ) => void;
  /**
   * Writes what follows from the postings of a list: quantized impacts, windows, and the entry but for its place and count.
   * @param records, exact, windows the places of these columns; the quantized impacts follow the records
   * @param lengths of the records of the segment, u32; only of texts
   * @param fixed, perTerm of the impacts of texts
   * @param counters 2,048 bytes for the time of the call
   * @returns 1 when an impact is negative
   */
  readonly writeList: (
    records: number,
    exact: number,
    windows: number,
    count: number,
    kind: number,
    levels: number,
    lengths: number,
    fixed: number,
    perTerm: number,
    entry: number,
    counters: number,
  ) => number;
};

/** The kernel, bound to a shared memory that the caller lays out and grows. Throws if it has not been built. */
export function instantiatePostings(
  memory: WebAssembly.Memory,
  { debug = false }: { debug?: boolean } = {},
): PostingsKernels {
  const build = `postings-${debug ? "debug" : "release"}`;
  return instantiateBuild(build, memory) as PostingsKernels;
}
