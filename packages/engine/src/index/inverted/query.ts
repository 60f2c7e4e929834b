// What does a search of postings ask for?

import type { ChosenWay } from "../kind.ts";
import type { OrdinalSet } from "../ordinal-sets.ts";
import type { SegmentReader } from "./segment-reader.ts";

/** How texts are scored: an impact is tf / (tf + fixed + perTerm * length). */
export type Formula = { readonly fixed: number; readonly perTerm: number; readonly averageLength: number };

/** Of sparse vectors: an impact is the weight. */
export const weightFormula: Formula = { fixed: 0, perTerm: 0, averageLength: 0 };

/** Where a term's postings are: the list of each segment, and of each mutable buffer; -1 for none. */
export type Located = {
  readonly segments: readonly number[];
  readonly buffers: readonly number[];
  readonly isAnywhere: boolean;
};

export type WeightedTerm = {
  readonly located: Located;
  readonly weight: number;
  /** The records that the term counts for, of those that have it; absent or null: all. Only `searchAccepted` asks. */
  readonly within?: OrdinalSet | null;
};

/** What a search may not see besides removed records: by segment, numbers of records; by mutable buffer, slots. */
export type Hidden = { readonly segments: readonly number[][]; readonly buffers: readonly number[][] };

// ---- How many terms are explained per step?
//
// Each term is looked up in each of the records; this number of look-ups takes some milliseconds.

const lookUpsPerStep = 16_384;

/** Terms of a step, at least 1. @param records that are explained */
export function explainedTermsPerStep(records: number): number {
  return Math.max(1, Math.floor(lookUpsPerStep / Math.max(1, records)));
}

// ---- What does a search among allowed records cost, by scanning all postings and by looking these records up?

/**
 * What a search among allowed records takes, in nanoseconds, as measured. By masking: for each record, more where ordinals have gaps, and
 * for each posting. By looking up: for each allowed record, and for each term of it. Both ways: for each segment and term.
 */
const maskRecordNs = 0.3;
const maskGapNs = 1.7;
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
  let [records, unaligned, postings] = [0, 0, 0];
  for (const [i, segment] of segments.entries()) {
    records += segment.recordCount;
    // Of records whose ordinals have a gap between them, each is asked for.
    const gaps = segment.lastOrdinal - segment.firstOrdinal + 1 - segment.recordCount;
    unaligned += Math.min(segment.recordCount, 32 * gaps);
    for (const { located } of terms)
      if (located.segments[i] >= 0) postings += segment.countOf(located.segments[i]);
  }
  const count = terms.length;
  const enteredNs = enterNs * segments.length * count;
  const bitsNs = maskRecordNs * records + maskGapNs * unaligned;
  const maskNs = bitsNs + maskPostingNs * postings;
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
