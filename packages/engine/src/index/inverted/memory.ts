// How much memory will postings take?
//
// By the layout of segments (segment.ts, segment-writer.ts), when all records are in segments as long as segments become.

import { entryBytes, kinds, longList, segmentRecordsMax, windowRecords } from "@quiverdb/kernels/postings";
import type { IndexSize } from "../kind.ts";
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

// ---- How many postings and terms will an index have, by some of its records?

/** Terms of sampled records, and how many of the records have each. */
export class TermSample {
  records = 0;
  postings = 0;
  places = 0;
  readonly #having = new Map<string | number, number>();

  add(terms: readonly (string | number)[]): void {
    this.records++;
    this.places += terms.length;
    for (const term of new Set(terms)) {
      this.postings++;
      this.#having.set(term, (this.#having.get(term) ?? 0) + 1);
    }
  }

  /** Characters of the distinct terms of the given number of records. */
  charactersOf(records: number): number {
    let characters = 0;
    for (const term of this.#having.keys()) characters += String(term).length;
    return (characters * this.termsOf(records)) / Math.max(1, this.#having.size);
  }

  /**
   * Number of distinct terms of the given number of records, extrapolated from the rare terms of the sample (Chao et al., Ecological
   * Monographs 84(1), 2014).
   */
  termsOf(records: number): number {
    const { size } = this.#having;
    if (records <= this.records || size === 0) return size;
    let [once, twice] = [0, 0];
    for (const having of this.#having.values())
      if (having === 1) once++;
      else if (having === 2) twice++;
    if (once === 0) return size;
    const unseen = twice > 0 ? once ** 2 / (2 * twice) : (once * (once - 1)) / 2;
    const share = once / (this.records * unseen + once);
    return size + unseen * (1 - (1 - share) ** (records - this.records));
  }

  /** Number of terms that at least this share of the records have. */
  sharedBy(share: number): number {
    let count = 0;
    for (const having of this.#having.values()) if (having >= share * this.records) count++;
    return count;
  }

  /** Number of terms that at least 512 of the given number of records have. */
  longListsOf(records: number): number {
    let count = 0;
    for (const having of this.#having.values()) if ((having * records) / this.records >= longList) count++;
    return count;
  }
}

/** @param bytesOf bytes of an index of the given number of records like those of the sample */
export function sizeBy(count: number, bytesOf: (records: number) => number): IndexSize {
  const many = Math.max(count, 4_096);
  return {
    bytes: count === 0 ? 0 : bytesOf(count),
    recordBytes: Math.max(0, bytesOf(2 * many) - bytesOf(many)) / many,
  };
}

/** The estimated contents of an index of the given number of records like those of the sample. */
export function countsOf(sample: TermSample, records: number): PostingCounts {
  const share = records / Math.max(1, sample.records);
  const inSegment = Math.min(records, segmentRecordsMax);
  return {
    records,
    postings: share * sample.postings,
    terms: sample.termsOf(inSegment),
    longLists: sample.longListsOf(inSegment),
  };
}
