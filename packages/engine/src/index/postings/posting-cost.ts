// What does a search among allowed records cost, by scanning all postings and by looking these records up?

import { windowRecords } from "@quiverdb/kernels/postings";
import type { ChosenWay } from "../kind.ts";
import type { WeightedTerm } from "./query.ts";
import type { SegmentReader } from "./segment-reader.ts";

/**
 * What a search among allowed records takes, in nanoseconds, as measured. By masking: for each record, and more
 * where ordinals have gaps; for each window of a segment and term; and for each posting. By looking up: for each allowed record, and for
 * each term of it. Both ways: for each segment and term.
 */
const maskRecordNs = 0.3;
const maskGapNs = 1.7;
const maskWindowNs = 250;
const maskPostingNs = 1;
const listRecordNs = 200;
const listTermNs = 35;
const enterNs = 170;

/** Look-ups of a search that is done at once: some 20 ms. */
const listedMax = 500_000;

/** The cost of a search in microseconds: by scanning all postings, and by looking up the allowed records. */
export type PostingEstimate = { readonly maskUs: number; readonly listUs: number };

/** The cost of a search in each way, for this number of allowed ordinals. @param terms as in the search */
export function postingCost(
  segments: readonly SegmentReader[],
  terms: readonly WeightedTerm[],
  allowedCount: number,
): PostingEstimate {
  let [records, unaligned, windows, postings] = [0, 0, 0, 0];
  for (const [i, segment] of segments.entries()) {
    records += segment.recordCount;
    // Of records whose ordinals have a gap between them, each is asked for.
    const gaps = segment.lastOrdinal - segment.firstOrdinal + 1 - segment.recordCount;
    unaligned += Math.min(segment.recordCount, 32 * gaps);
    windows += Math.ceil(segment.recordCount / windowRecords);
    for (const { located } of terms)
      if (located.segments[i] >= 0) postings += segment.countOf(located.segments[i]);
  }
  const count = terms.length;
  const enteredNs = enterNs * segments.length * count;
  const bitsNs = maskRecordNs * records + maskGapNs * unaligned;
  const maskNs = bitsNs + maskWindowNs * windows * count + maskPostingNs * postings;
  const listNs = (listRecordNs + listTermNs * count) * allowedCount;
  return { maskUs: (enteredNs + maskNs) / 1_000, listUs: (enteredNs + listNs) / 1_000 };
}

/** Whether allowed records are looked up. */
export function isListChosen(
  { maskUs, listUs }: PostingEstimate,
  termCount: number,
  allowedCount: number,
): boolean {
  return allowedCount * termCount <= listedMax && listUs < maskUs;
}

/** The same, for an explanation. */
export function chosenWay(estimate: PostingEstimate, termCount: number, allowedCount: number): ChosenWay {
  const { maskUs, listUs } = estimate;
  const way = isListChosen(estimate, termCount, allowedCount) ? "look up matching records" : "mask postings";
  return { way, estimates: { "mask postings": maskUs, "look up matching records": listUs } };
}
