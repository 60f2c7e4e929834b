// Which texts match a query best, of those that a version sees?
//
// The thread that owns the index searches through a TextReader, and so do others (`attach`); nothing here changes the index. Terms
// (term-reader.ts) are located in the postings and weighted with their idf, and the postings are searched with pruning or scored in full,
// whichever is faster. The formula stands in bm25.ts.
// A search, its steps and its explanation weight terms alike, so they are one class.

import { invariant } from "../../base/invariant.ts";
import { finishAtOnce, type Steps } from "../../base/steps.ts";
import type { Candidates, Visible } from "../contract.ts";
import type { Accepts } from "../inverted/best.ts";
import type { PostingReader } from "../inverted/posting-reader.ts";
import type { PostingSearcher } from "../inverted/posting-search.ts";
import {
  explainedTermsPerStep,
  type Hidden,
  type WeightedTerm as LocatedTerm,
  type PostingEstimate,
} from "../inverted/query.ts";
import type { Allowed, OrdinalBitmap } from "../ordinal-bitmap.ts";
import { contains } from "../ordinal-sets.ts";
import { averageOf, idf, type TextStatistics } from "./bm25.ts";
import { attachText, type SharedText, TermReader, type WeightedTerm } from "./term-reader.ts";

/** Terms that are located at a step. */
const termsPerStep = 256;
/** Number of postings that are scored in one step. */
const postingsAtOnce = 50_000;
/** A search in steps restarts this often when lists moved in between; after that it runs in one step. */
const attemptsMax = 3;

/** A term that a query and a record share, and its contribution to the record's score. */
export type TextMatch = {
  readonly term: string;
  /** Its weight in the query: how often a plain query has it. */
  readonly weight: number;
  /** How often the record has it; how many records that the version sees have it. */
  readonly tf: number;
  readonly df: number;
  readonly idf: number;
  readonly contribution: number;
};

/** Postings of a term that a search adds up, with its df and idf. */
type WeightedPostings = LocatedTerm & { readonly df: number; readonly idf: number };

export class TextReader extends TermReader {
  /** Reads the index of another thread. @param slot of this thread */
  static attach(shared: SharedText, slot: number): TextReader {
    return new TextReader(attachText(shared, slot));
  }

  /** `searchTerms` for the terms of a plain query. */
  search(
    query: string,
    k: number,
    statistics: TextStatistics,
    visible: Visible,
    allowed: Allowed = null,
  ): Candidates {
    return this.searchTerms(this.termsOf(query), k, statistics, visible, null, allowed);
  }

  /**
   * The k records with the greatest scores, with all ties at the boundary, of those that have one of the terms. Contributions are added up in
   * the order of the terms.
   * @param statistics those of the searched version
   * @param accepts which of the visible records may be found. Statistics, and so scores, do not depend on it
   * @param allowed the ordinals that may be found at all: likewise
   */
  searchTerms(
    terms: readonly WeightedTerm[],
    k: number,
    statistics: TextStatistics,
    visible: Visible,
    accepts: Accepts = null,
    allowed: Allowed = null,
  ): Candidates {
    assertStatistics(statistics);
    const hidden = this.#postings.hide(visible);
    const formula = this.parts.bm25.formula(averageOf(statistics));
    const weighted: WeightedPostings[] = [];
    for (const term of terms) {
      const found = this.#weigh(term, statistics, hidden);
      if (found !== undefined) weighted.push(found);
    }
    return isPrunable(weighted, k, accepts)
      ? this.#searcher.search(weighted, k, formula, hidden, null, allowed)
      : this.#searcher.searchAccepted(weighted, k, formula, hidden, accepts, allowed);
  }

  /** The cost of a search with this number of allowed ordinals: see PostingSearcher.estimate. */
  estimate(terms: readonly WeightedTerm[], allowedCount: number): PostingEstimate {
    const located: LocatedTerm[] = [];
    for (const { term, weight } of terms) {
      const places = this.locate(term);
      if (places !== undefined) located.push({ located: places, weight });
    }
    return this.#searcher.estimate(located, allowedCount);
  }

  /**
   * `searchTerms` in steps, between which the index may change, for searches that score many postings.
   * @param visible returns the visibility test of the searched version; called again after each step
   */
  *searchTermsInSteps(
    terms: readonly WeightedTerm[],
    k: number,
    statistics: TextStatistics,
    visible: () => Visible,
    accepts: Accepts = null,
    allowed: Allowed = null,
  ): Steps<Candidates> {
    for (let attempt = 0; attempt < attemptsMax; attempt++) {
      const found = yield* this.#tryInSteps(terms, k, statistics, visible, accepts, allowed);
      if (found !== null) return found;
    }
    return this.searchTerms(terms, k, statistics, visible(), accepts, allowed);
  }

  /** @returns null where lists were moved meanwhile */
  *#tryInSteps(
    terms: readonly WeightedTerm[],
    k: number,
    statistics: TextStatistics,
    visible: () => Visible,
    accepts: Accepts,
    allowed: Allowed,
  ): Steps<Candidates | null> {
    assertStatistics(statistics);
    const { layout } = this.#postings;
    const formula = this.parts.bm25.formula(averageOf(statistics));
    let hidden = this.#postings.hide(visible());
    const weighted: WeightedPostings[] = [];
    for (const [i, term] of terms.entries()) {
      if (i % termsPerStep === termsPerStep - 1) {
        yield;
        if (this.#postings.layout !== layout) return null;
        hidden = this.#postings.hide(visible());
      }
      const found = this.#weigh(term, statistics, hidden);
      if (found !== undefined) weighted.push(found);
    }
    if (isPrunable(weighted, k, accepts))
      return this.#searcher.search(weighted, k, formula, hidden, null, allowed);
    if (weighted.reduce((sum, { df }) => sum + df, 0) <= postingsAtOnce)
      return this.#searcher.searchAccepted(weighted, k, formula, hidden, accepts, allowed);
    return yield* this.#searcher.searchInSteps(weighted, k, formula, visible, accepts, null, allowed);
  }

  /** The length of a record in the index, as reported by `Analyzer.read`. */
  lengthOf(ordinal: number): number {
    return this.#postings.lengthOf(ordinal);
  }

  /**
   * What the scores of `searchTerms` are made of, in steps between which the index may be used and changed. Added up in the order of
   * the calls, beginning with 0, a record's contributions are its score, bit for bit.
   * @param ordinals records that are held and visible, each once
   * @param terms, statistics those of the search
   * @param visible asked anew at each step for what the searched version sees
   * @param onMatch told each of `terms` that counts for a record, and the record's place in `ordinals`; of one record in
   * the order of `terms`. What it throws ends the call
   */
  *explain(
    ordinals: readonly number[],
    terms: readonly WeightedTerm[],
    statistics: TextStatistics,
    visible: () => Visible,
    onMatch: (at: number, match: TextMatch) => void,
  ): Generator<void, void> {
    const termsPerStep = explainedTermsPerStep(ordinals.length);
    let hidden: Hidden | null = null;
    assertStatistics(statistics);
    const places = new Map(ordinals.map((ordinal, at) => [ordinal, at]));
    invariant(places.size === ordinals.length, "a record is to be explained twice");
    const { fixed, perTerm } = this.parts.bm25.formula(averageOf(statistics));
    for (const [i, asked] of terms.entries()) {
      if (i % termsPerStep === 0) {
        if (i > 0) yield;
        hidden = this.#postings.hide(visible());
      }
      const found = this.#weigh(asked, statistics, hidden);
      if (found === undefined) continue;
      const { located, df, idf, weight, within } = found;
      this.#postings.valuesOf(located, places, (at, tf) => {
        if (within != null && !contains(within, ordinals[at])) return;
        // The same steps as in the search, so that the same bits come out.
        const contribution = (weight * tf) / (tf + fixed + perTerm * this.lengthOf(ordinals[at]));
        onMatch(at, { term: asked.term, weight: asked.weight, tf, df, idf, contribution });
      });
    }
  }

  /** How many records have a term, of those that the version sees. */
  frequencyOf(term: string, visible: Visible): number {
    const located = this.locate(term);
    return located === undefined
      ? 0
      : this.#postings.documentFrequency(located, this.#postings.hide(visible));
  }

  /** How many of these records have a term, of those that the version sees. */
  frequencyAmong(term: string, visible: Visible, rows: OrdinalBitmap): number {
    const located = this.locate(term);
    if (located === undefined) return 0;
    return this.#postings.documentFrequency(located, this.#postings.hide(visible), rows);
  }

  /** N and the sum of lengths of these records, of those that the version sees; in steps. */
  *lengthsAmong(
    rows: OrdinalBitmap,
    visible: () => Visible,
  ): Steps<Pick<TextStatistics, "documents" | "totalLength">> {
    for (let attempt = 0; attempt < attemptsMax; attempt++) {
      const found = yield* this.#postings.lengthsAmong(rows, visible);
      if (found !== null) return found;
    }
    const found = finishAtOnce(this.#postings.lengthsAmong(rows, visible));
    invariant(found !== null, "lists were moved in one step");
    return found;
  }

  /** The postings of a term and what they weigh in a search; undefined if there are none. */
  #weigh(
    { term, weight, within }: WeightedTerm,
    { documents, frequencies }: TextStatistics,
    hidden: Hidden | null,
  ): WeightedPostings | undefined {
    const located = this.locate(term);
    if (located === undefined || frequencies?.get(term) === 0) return undefined;
    const df = frequencies?.get(term) ?? this.#postings.documentFrequency(located, hidden);
    invariant(frequencies?.has(term) !== false, "a term has no frequency among the records that count");
    const factor = idf(documents, df);
    return { located, weight: weight * factor, within, df, idf: factor };
  }

  get #postings(): PostingReader {
    return this.parts.postings.reader;
  }

  get #searcher(): PostingSearcher {
    return this.parts.postings.searcher;
  }
}

function assertStatistics({ documents, totalLength }: TextStatistics): void {
  invariant(
    documents >= 0 && totalLength >= documents,
    () => `${documents} documents of a version have ${totalLength} terms`,
  );
}

/**
 * Whether a search may prune, and takes less time than scoring everything. With many terms, or many results, it does not: for 1,600 terms and
 * 10,000 results it took 150 ms where scoring 600,000 postings takes 10.
 */
function isPrunable(terms: readonly LocatedTerm[], k: number, accepts: Accepts): boolean {
  if (terms.length > 32 && (terms.length > 256 || k > 1_000)) return false;
  return accepts === null && terms.every(({ within }) => within == null);
}
