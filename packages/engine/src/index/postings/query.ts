// What does a search of postings ask for?

import type { OrdinalSet } from "../ordinal-sets.ts";

/** How texts are scored: an impact is tf / (tf + fixed + perTerm * length). For sparse vectors all 0. */
export type Formula = { readonly fixed: number; readonly perTerm: number; readonly averageLength: number };

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
