// How much memory will postings take?
//
// By the layout of runs (run.ts, run-writer.ts), when all records are in runs as long as runs become.

import { entryBytes, kinds, longList, runRecordsMax, windowRecords } from "@quiver/kernels/postings";
import { arenaBytes } from "./arena.ts";
import { emptyTailBytes } from "./posting-index.ts";
import { exactBytesOf, peakBytes, peaksOf, runHeaderBytes, windowsBytes } from "./run-layout.ts";

export type PostingCounts = {
  readonly records: number;
  /** Of all records. */
  readonly postings: number;
  /** Different terms of a run. */
  readonly terms: number;
  /** Terms of a run that 512 of its records have, or more. */
  readonly longLists: number;
};

/** A list's padding, on the average, and what tells from which list a term is. */
const paddingBytes = 2.5;
const stepBytes = 1;

/** Bytes of an index with such postings that has nothing left to merge. */
export function postingBytes(isText: boolean, counts: PostingCounts): number {
  const { records, postings, terms, longLists } = counts;
  const runs = Math.max(1, Math.ceil(records / runRecordsMax));
  const length = records / runs;
  const kind = isText ? kinds.text : kinds.sparse;
  const bits = (Math.ceil(length / windowRecords) * windowRecords) / 8;
  const lists = terms * (4 + entryBytes + paddingBytes) + longLists * windowsBytes;
  // Nearly all postings of many terms are in long lists.
  const peaks = isText || longLists === 0 ? 0 : peakBytes * peaksOf(Math.max(longList, postings / runs));
  const perRecord = isText ? 8 : 4;
  const run =
    runHeaderBytes + bits + perRecord * length + (3 + exactBytesOf(kind)) * (postings / runs) + lists + peaks;
  return arenaBytes(new Array(runs).fill(Math.ceil(run))) + runs * stepBytes * terms + emptyTailBytes;
}
