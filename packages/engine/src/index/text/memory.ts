// How much memory will a text index take?

import { type PostingCounts, postingBytes } from "../postings/memory.ts";

export type TextCounts = PostingCounts & {
  /** Different terms of all records, and the characters of them. */
  readonly allTerms: number;
  readonly characters: number;
  /** Places of terms, where the index keeps them; else 0. */
  readonly places: number;
};

const powerOfTwo = (count: number, least: number): number =>
  Math.max(least, 2 ** Math.ceil(Math.log2(Math.max(1, count))));

/** Columns of the dictionary grow by a quarter: on the average an eighth is unused. */
const unused = 1.125;
const termsMin = 1_024;

/** Bytes of a text index with such postings that has nothing left to merge, but for the terms of words that it remembers. */
export function textBytes(counts: TextCounts): number {
  const { allTerms, characters, records, postings, places } = counts;
  const slots = 4 * powerOfTwo(2 * allTerms, termsMin);
  const columns = 10 * Math.max(termsMin, unused * allTerms);
  const units = 2 * Math.max(8 * termsMin, unused * characters);
  // How often each is used, and a counter.
  const uses = 2 * 4 * powerOfTwo(allTerms, 16);
  return (
    postingBytes(true, counts) +
    slots +
    columns +
    units +
    uses +
    positionBytes(records, postings, places, allTerms)
  );
}

/** Of each row, each term of it (its distance from the term before, and its bytes), and each place. */
function positionBytes(records: number, postings: number, places: number, terms: number): number {
  if (places === 0) return 0;
  const distance = (terms * records) / postings;
  return 9 * records + postings * (1 + (distance < 64 ? 1 : distance < 512 ? 1.5 : 2)) + places;
}
