// How much memory will a text index take?

import { blockBytes } from "../../base/block-column.ts";
import { type PostingCounts, postingBytes } from "../postings/memory.ts";
import { countersBytes } from "./counters.ts";

export type TextCounts = PostingCounts & {
  /** Different terms of all records, and the characters of them. */
  readonly allTerms: number;
  readonly characters: number;
  /** Positions of terms, if the index stores them; otherwise 0. */
  readonly places: number;
  /** Counts of words that differ from their term, if they are stored: distinct ones, their characters, and the total over all records. */
  readonly forms?:
    | { readonly all: number; readonly characters: number; readonly postings: number }
    | undefined;
};

/** Columns of the dictionary grow by a quarter, up to the end of a block: on the average an eighth of that is unused. */
const grown = (bytes: number): number => bytes + Math.min(bytes, blockBytes) / 8;

const powerOfTwo = (count: number, least: number): number =>
  Math.max(least, 2 ** Math.ceil(Math.log2(Math.max(1, count))));

const termsMin = 1_024;

/** Bytes of a text index with such postings that has nothing left to merge, but for the words that it remembers. */
export function textBytes(counts: TextCounts): number {
  const { allTerms, characters, records, postings, places, forms } = counts;
  const positions = places === 0 ? 0 : rowBytes(records, postings, allTerms) + postings + places;
  return (
    postingBytes(true, counts) + columnBytes(allTerms, characters) + positions + formBytes(records, forms)
  );
}

/** Bytes of a dictionary, and of two numbers for each of its terms. */
function columnBytes(terms: number, characters: number): number {
  const slots = 4 * powerOfTwo(2 * terms, termsMin);
  const words = grown(4 * Math.max(termsMin, terms));
  const lengths = grown(2 * Math.max(termsMin, terms));
  const units = grown(2 * Math.max(8 * termsMin, characters));
  return slots + 2 * words + lengths + units + 2 * countersBytes(terms);
}

/** Of rows (record-rows.ts) that have numbers of ascending terms: each as its distance from the one before. */
function rowBytes(records: number, postings: number, terms: number): number {
  const distance = (terms * records) / Math.max(1, postings);
  return 9 * records + postings * (distance < 64 ? 1 : distance < 512 ? 1.5 : 2);
}

function formBytes(records: number, forms: TextCounts["forms"]): number {
  if (forms === undefined) return 0;
  return columnBytes(forms.all, forms.characters) + rowBytes(records, forms.postings, forms.all);
}
