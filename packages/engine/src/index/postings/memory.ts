// How much memory will postings take?
//
// By the layout of segments (segment.ts, segment-writer.ts), when all records are in segments as long as segments become.

import { entryBytes, kinds, longList, segmentRecordsMax, windowRecords } from "@quiverdb/kernels/postings";
import { arenaBytes } from "./arena.ts";
import { emptyBufferBytes } from "./buffers.ts";
import {
  exactBytesOf,
  highImpactBytes,
  highImpactCountOf,
  segmentHeaderBytes,
  windowsBytes,
} from "./segment-layout.ts";

export type PostingCounts = {
  readonly records: number;
  /** Of all records. */
  readonly postings: number;
  /** Different terms of a segment. */
  readonly terms: number;
  /** Terms of a segment that 512 of its records have, or more. */
  readonly longLists: number;
};

/** The average padding of a list, and the bytes that identify its term. */
const paddingBytes = 2.5;
const stepBytes = 1;

/** Bytes of an index with such postings that has nothing left to merge. */
export function postingBytes(isText: boolean, counts: PostingCounts): number {
  const { records, postings, terms, longLists } = counts;
  const segments = Math.max(1, Math.ceil(records / segmentRecordsMax));
  const length = records / segments;
  const kind = isText ? kinds.text : kinds.sparse;
  const bits = (Math.ceil(length / windowRecords) * windowRecords) / 8;
  const lists = terms * (4 + entryBytes + paddingBytes) + longLists * windowsBytes;
  // Nearly all postings of many terms are in long lists.
  const highImpact =
    isText || longLists === 0
      ? 0
      : highImpactBytes * highImpactCountOf(Math.max(longList, postings / segments));
  const perRecord = isText ? 8 : 4;
  const segment =
    segmentHeaderBytes +
    bits +
    perRecord * length +
    (3 + exactBytesOf(kind)) * (postings / segments) +
    lists +
    highImpact;
  return (
    arenaBytes(new Array(segments).fill(Math.ceil(segment))) + segments * stepBytes * terms + emptyBufferBytes
  );
}
