// What does a search of postings ask for?

import type { OrdinalSet } from "../ordinal-sets.ts";

/** How texts are scored: an amount is tf / (tf + fixed + perTerm * length). For sparse vectors all 0. */
export type Formula = { readonly fixed: number; readonly perTerm: number; readonly averageLength: number };

/** Where a term's postings are: the list of each run, and of each tail; -1 for none. */
export type Located = {
  readonly runs: readonly number[];
  readonly tails: readonly number[];
  readonly isAnywhere: boolean;
};

export type WeightedTerm = {
  readonly located: Located;
  readonly weight: number;
  /** The records that the term counts for, of those that have it; absent or null: all. Only `searchAccepted` asks. */
  readonly within?: OrdinalSet | null;
};

/** What a search may not see besides removed records: by run, numbers of records; by tail, slots. */
export type Hidden = { readonly runs: readonly number[][]; readonly tails: readonly number[][] };
