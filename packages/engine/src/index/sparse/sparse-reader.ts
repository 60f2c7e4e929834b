// Which sparse vectors have the greatest dot product with a query, of those that a version sees?
//
// What searches and explanations need of a sparse index; nothing here changes it. The thread that owns the index searches through it, and
// so do others (`attach`).

import { invariant } from "../../base/invariant.ts";
import type { Steps } from "../../base/steps.ts";
import type { Candidates, Visible } from "../contract.ts";
import { attachPostings, type SharedParts } from "../inverted/attached-parts.ts";
import type { PostingIndex } from "../inverted/posting-index.ts";
import { prunedTermsMax } from "../inverted/posting-search.ts";
import {
  explainedTermsPerStep,
  type Located,
  type PostingEstimate,
  weightFormula,
} from "../inverted/query.ts";
import type { Allowed } from "../ordinal-bitmap.ts";

/** Unique u32 dimensions, in any order, and their finite weights, side by side. Borrowed. */
export type SparseVector = {
  readonly indices: Uint32Array;
  readonly values: Float32Array;
};

/** A dimension that a query and a record share. `product` is `queryWeight * weight`, exact in f64. */
export type SparseMatch = {
  readonly dimension: number;
  readonly queryWeight: number;
  readonly weight: number;
  readonly product: number;
};

/** A query's dimension that some record has. */
type QueryTerm = { readonly dimension: number; readonly located: Located; readonly weight: number };

/** Dimensions that are located at a step. */
const termsPerStep = 1_024;
/** A search in steps restarts this often when lists moved in between; after that it runs in one step. */
const attemptsMax = 3;

export class SparseReader {
  readonly #postings: Pick<PostingIndex, "reader" | "searcher">;

  constructor(postings: Pick<PostingIndex, "reader" | "searcher">) {
    this.#postings = postings;
  }

  /** Reads the index of another thread. @param slot of this thread */
  static attach(shared: SharedParts, slot: number): SparseReader {
    return new SparseReader(attachPostings(shared, slot));
  }

  /**
   * The k records with the greatest dot products, with all ties at the boundary, of those that share a dimension
   * with the query.
   *
   * With `threshold` t > 0, at most 1, postings that add less than t times what the greatest of the query's dimensions does
   * count only when candidates are scored, not when they are chosen: some of the best can be missing, and a record that has
   * nothing else is. What is found is scored in full. A query or vectors with negative weights are searched exactly.
   * @param allowed the ordinals that may be found at all. Fewer than k are found only where fewer of them share a dimension
   */
  search(
    query: SparseVector,
    k: number,
    threshold: number,
    visible: Visible,
    allowed: Allowed = null,
  ): Candidates {
    assertSparse(query.indices, query.values);
    invariant(threshold >= 0 && threshold <= 1, `the threshold ${threshold} is not in [0, 1]`);
    const terms = this.#termsOf(query);
    const hidden = this.#postings.reader.hide(visible);
    const greatest = threshold > 0 ? this.#postings.reader.greatestImpact(terms, hidden) : 0;
    const least = greatest > 0 ? threshold * greatest : null;
    return this.#postings.searcher.search(terms, k, weightFormula, hidden, least, allowed);
  }

  /** What a search costs where so many ordinals are allowed: see PostingSearcher.estimate. */
  estimate(query: SparseVector, allowedCount: number): PostingEstimate {
    return this.#postings.searcher.estimate(this.#termsOf(query), allowedCount);
  }

  /**
   * `search` in steps, between which the index may change, where a query has very many dimensions.
   * @param visible asked anew for what the searched version sees
   */
  *searchInSteps(
    query: SparseVector,
    k: number,
    threshold: number,
    visible: () => Visible,
    allowed: Allowed = null,
  ): Steps<Candidates> {
    invariant(threshold >= 0 && threshold <= 1, `the threshold ${threshold} is not in [0, 1]`);
    const isLong = query.indices.length > prunedTermsMax;
    for (let attempt = 0; isLong && attempt < attemptsMax; attempt++) {
      const found = yield* this.#tryInSteps(query, k, threshold, visible, allowed);
      if (found === null) continue;
      if (allowed === null || threshold === 0 || found.count >= k) return found;
      // Of what is allowed, not all need have a great weight.
      return yield* this.searchInSteps(query, k, 0, visible, allowed);
    }
    return this.search(query, k, threshold, visible(), allowed);
  }

  /** @returns null where lists were moved meanwhile */
  *#tryInSteps(
    query: SparseVector,
    k: number,
    threshold: number,
    visible: () => Visible,
    allowed: Allowed,
  ): Steps<Candidates | null> {
    assertSparse(query.indices, query.values);
    const { layout } = this.#postings.reader;
    const terms: QueryTerm[] = [];
    let greatest = 0;
    for (let from = 0; from < query.indices.length; from += termsPerStep) {
      const part = this.#termsOf({
        indices: query.indices.subarray(from, from + termsPerStep),
        values: query.values.subarray(from, from + termsPerStep),
      });
      for (const term of part) terms.push(term);
      if (threshold > 0)
        greatest = Math.max(
          greatest,
          this.#postings.reader.greatestImpact(part, this.#postings.reader.hide(visible())),
        );
      yield;
      if (this.#postings.reader.layout !== layout) return null;
    }
    const least = greatest > 0 ? threshold * greatest : null;
    return yield* this.#postings.searcher.searchInSteps(
      terms,
      k,
      weightFormula,
      visible,
      null,
      least,
      allowed,
    );
  }

  /**
   * What the scores of a search are made of, in steps between which the index may be used and changed. Added up in the order of the
   * calls, beginning with 0, a record's products are its score, bit for bit.
   * @param ordinals records that are held, each once
   * @param onMatch told each dimension that a record shares with the query, and the record's place in `ordinals`; of one
   * record by ascending dimension. What it throws ends the call
   */
  *explain(
    ordinals: readonly number[],
    query: SparseVector,
    onMatch: (at: number, match: SparseMatch) => void,
  ): Generator<void, void> {
    const places = new Map(ordinals.map((ordinal, at) => [ordinal, at]));
    invariant(places.size === ordinals.length, "a record is to be explained twice");
    const { indices, values } = ascending(query);
    const step = explainedTermsPerStep(ordinals.length);
    for (let from = 0; from < indices.length; from += step) {
      if (from > 0) yield;
      // Where postings are is valid until the next change.
      const part = {
        indices: indices.subarray(from, from + step),
        values: values.subarray(from, from + step),
      };
      for (const { dimension, located, weight: queryWeight } of this.#termsOf(part))
        this.#postings.reader.valuesOf(located, places, (at, weight) =>
          onMatch(at, { dimension, queryWeight, weight, product: queryWeight * weight }),
        );
    }
  }

  /** The query's dimensions that have postings, ascending. */
  #termsOf(query: SparseVector): QueryTerm[] {
    const { indices, values } = ascending(query);
    const terms: QueryTerm[] = [];
    for (let i = 0; i < indices.length; i++) {
      const located = this.#postings.reader.locate(indices[i]);
      if (located.isAnywhere) terms.push({ dimension: indices[i], located, weight: values[i] });
    }
    return terms;
  }
}

/** The vector by ascending dimension: itself where it is so already, as those of requests are. */
function ascending(vector: SparseVector): SparseVector {
  const { indices, values } = vector;
  let isAscending = true;
  for (let i = 1; i < indices.length; i++) if (indices[i] < indices[i - 1]) isAscending = false;
  if (isAscending) return vector;
  const order = Uint32Array.from(indices.keys()).sort((a, b) => indices[a] - indices[b]);
  return {
    indices: Uint32Array.from(order, (i) => indices[i]),
    values: Float32Array.from(order, (i) => values[i]),
  };
}

/** Asserts that a vector has as many dimensions as weights, and that these are finite. */
export function assertSparse(indices: Uint32Array, values: Float32Array): void {
  invariant(indices.length === values.length, `${indices.length} dimensions have ${values.length} weights`);
  for (let i = 0; i < values.length; i++) {
    // The message is made only where it is needed: this runs for every weight.
    if (!Number.isFinite(values[i]))
      invariant(false, `the weight of dimension ${indices[i]} is ${values[i]}`);
  }
}
