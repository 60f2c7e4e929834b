// Which texts match a query best, of those that a version sees?
//
// What searches and explanations need of a text index; nothing here changes it. The thread that owns the index searches through it, and
// so do others (`attach`). Terms are located in the postings and weighted with
// their idf, and the postings are searched with pruning or scored in full, whichever is faster. The formula stands in bm25.ts.
// A search, its steps and its explanation weight terms alike, so they are one class.

import type { TextLanguage } from "@quiver/protocol/shapes/index-definition";
import { invariant } from "../../base/invariant.ts";
import { finishAtOnce, type Steps } from "../../base/steps.ts";
import { type Analyzer, createAnalyzer } from "../../text/analyzer.ts";
import { EditDistance } from "../../text/edit-distance.ts";
import { tokenizeInSteps } from "../../text/tokenize.ts";
import { attachOnce } from "../attached.ts";
import type { Candidates, Visible } from "../contract.ts";
import type { Allowed } from "../ordinal-bitmap.ts";
import { contains, type OrdinalSet } from "../ordinal-sets.ts";
import { attachPostings, type SharedParts } from "../postings/attached-parts.ts";
import { explainedTermsPerStep } from "../postings/explained.ts";
import type { PostingIndex } from "../postings/posting-index.ts";
import type { PostingEstimate } from "../postings/posting-search.ts";
import type { Hidden, Located, WeightedTerm as LocatedTerm } from "../postings/query.ts";
import type { Accepts } from "../postings/record-scores.ts";
import { averageOf, Bm25, idf, type TextStatistics } from "./bm25.ts";
import { DictionaryReader, type SharedDictionary } from "./dictionary.ts";
import { AttachedForms, type FormsReader, type SharedForms } from "./forms.ts";
import { PositionsReader } from "./positions.ts";
import { RowsReader, type SharedRows } from "./rows-reader.ts";

export type { Accepts };

/** Of a step: words that are analysed, and terms that are located. */
const wordsPerStep = 2_048;
const termsPerStep = 256;
/** Number of forms that one step stems. */
const formsPerStep = 512;
/** Number of postings that are scored in one step. */
const postingsAtOnce = 50_000;
/** A search in steps restarts this often when lists moved in between; after that it runs in one step. */
const attemptsMax = 3;

/**
 * Whether a search with pruning takes less time than scoring everything. With many terms, or many results, it does not: for 1,600 terms and
 * 10,000 results it took 150 ms where scoring 600,000 postings takes 10.
 */
function isWorthPruning(terms: number, k: number): boolean {
  return terms <= 32 || (terms <= 256 && k <= 1_000);
}

/** A term to search for. */
export type WeightedTerm = {
  readonly term: string;
  /** What its score is multiplied by, greater than 0: how often a plain query has the term. */
  readonly weight: number;
  /** The records that the term counts for, of those that have it; absent or null: all. Its df does not depend on it. */
  readonly within?: OrdinalSet | null;
};

/** Words that begin with a prefix, or that are at most `distance` edits (1 or 2) from a word. */
export type WordTest = { readonly prefix: string } | { readonly fuzzy: string; readonly distance: number };

/** A form or a term that passed a test, and its term. */
export type Expansion = { readonly form: string; readonly term: string };

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

/** The parts of an index that a search reads. The writer replaces parts only while it restores the index. */
export type TextParts = {
  readonly analyzer: Analyzer;
  readonly bm25: Bm25;
  readonly dictionary: DictionaryReader;
  readonly postings: Pick<PostingIndex, "reader" | "searcher">;
  /** null where the index keeps none. */
  readonly positions: PositionsReader | null;
  /** null where the language has no stemmer. */
  readonly forms: FormsReader | null;
};

/** A text index as it is at a moment. Can be posted to another thread. */
export type SharedText = {
  readonly id: number;
  readonly language: TextLanguage;
  readonly stopWords: readonly string[] | null;
  readonly k1: number;
  readonly b: number;
  readonly dictionary: SharedDictionary;
  readonly postings: SharedParts;
  readonly positions: SharedRows | null;
  readonly forms: SharedForms | null;
};

export class TextReader {
  readonly #parts: TextParts;

  constructor(parts: TextParts) {
    this.#parts = parts;
  }

  /** Reads the index of another thread. @param slot of this thread */
  static attach(shared: SharedText, slot: number): TextReader {
    const { id, language, stopWords, k1, b, positions, forms } = shared;
    return new TextReader({
      analyzer: attachOnce(id, slot, () => createAnalyzer(language, stopWords)),
      bm25: new Bm25(k1, b),
      dictionary: new DictionaryReader(shared.dictionary),
      postings: attachPostings(shared.postings, slot),
      positions: positions && new PositionsReader(new RowsReader(positions)),
      forms: forms && new AttachedForms(forms),
    });
  }

  /** What queries go through. */
  get analyzer(): Analyzer {
    return this.#parts.analyzer;
  }

  /** Whether `positionsOf` can be asked. */
  get keepsPositions(): boolean {
    return this.#parts.positions !== null;
  }

  /** The terms of a plain query in the order in which it has them first, each as often as it has it. */
  termsOf(query: string): WeightedTerm[] {
    return finishAtOnce(this.termsInSteps(query));
  }

  /** `termsOf`, in steps. */
  *termsInSteps(query: string): Steps<WeightedTerm[]> {
    const frequencies = new Map<string, number>();
    const words = yield* tokenizeInSteps(query);
    for (let from = 0; from < words.length; from += wordsPerStep) {
      if (from > 0) yield;
      for (const term of this.#parts.analyzer.queryTerms(words.slice(from, from + wordsPerStep)))
        frequencies.set(term, (frequencies.get(term) ?? 0) + 1);
    }
    return Array.from(frequencies, ([term, weight]) => ({ term, weight }));
  }

  /**
   * `search` for terms, which are added up in the order given.
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
    const hidden = this.#parts.postings.reader.hide(visible);
    const formula = this.#parts.bm25.formula(averageOf(statistics));
    const located: LocatedTerm[] = [];
    let isPlain = accepts === null;
    for (const { term, weight, within } of terms) {
      const places = this.#locate(term);
      if (places === undefined) continue;
      const df = this.#parts.postings.reader.documentFrequency(places, hidden);
      located.push({ located: places, weight: weight * idf(statistics.documents, df), within });
      if (within != null) isPlain = false;
    }
    return isPlain && isWorthPruning(located.length, k)
      ? this.#parts.postings.searcher.search(located, k, formula, hidden, null, allowed)
      : this.#parts.postings.searcher.searchAccepted(located, k, formula, hidden, accepts, allowed);
  }

  /** The cost of a search with this number of allowed ordinals: see PostingSearcher.estimate. */
  estimate(terms: readonly WeightedTerm[], allowedCount: number): PostingEstimate {
    const located: LocatedTerm[] = [];
    for (const { term, weight } of terms) {
      const places = this.#locate(term);
      if (places !== undefined) located.push({ located: places, weight });
    }
    return this.#parts.postings.searcher.estimate(located, allowedCount);
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
    const { layout } = this.#parts.postings.reader;
    const formula = this.#parts.bm25.formula(averageOf(statistics));
    let hidden = this.#parts.postings.reader.hide(visible());
    const located: LocatedTerm[] = [];
    let isPlain = accepts === null;
    let postings = 0;
    for (const [i, { term, weight, within }] of terms.entries()) {
      if (i % termsPerStep === termsPerStep - 1) {
        yield;
        if (this.#parts.postings.reader.layout !== layout) return null;
        hidden = this.#parts.postings.reader.hide(visible());
      }
      const places = this.#locate(term);
      if (places === undefined) continue;
      const df = this.#parts.postings.reader.documentFrequency(places, hidden);
      postings += df;
      located.push({ located: places, weight: weight * idf(statistics.documents, df), within });
      if (within != null) isPlain = false;
    }
    if (isPlain && isWorthPruning(located.length, k))
      return this.#parts.postings.searcher.search(located, k, formula, hidden, null, allowed);
    if (postings <= postingsAtOnce)
      return this.#parts.postings.searcher.searchAccepted(located, k, formula, hidden, accepts, allowed);
    return yield* this.#parts.postings.searcher.searchInSteps(
      located,
      k,
      formula,
      visible,
      accepts,
      null,
      allowed,
    );
  }

  /**
   * The terms and forms that pass a test: terms of current or recently removed records, and forms of words in visible records. In no
   * particular order; a term can come several times, by several forms. In steps, between which the index may change.
   * @param visible returns the visibility test of the searched version; called again after each step
   */
  *expand(test: WordTest, visible: () => Visible): Steps<Expansion[]> {
    const passes = testOf(test);
    const terms = yield* this.#parts.dictionary.termsThat(passes);
    const found = terms.map((term) => ({ form: term, term }));
    if (this.#parts.forms === null) return found;
    const forms = yield* this.#parts.forms.formsThat(passes, () =>
      this.#parts.postings.reader.hiddenOrdinals(visible()),
    );
    for (const [i, form] of forms.entries()) {
      if (i % formsPerStep === formsPerStep - 1) yield;
      found.push({ form, term: this.#parts.analyzer.termOf(form) });
    }
    return found;
  }

  /** The records held that have a term, whatever version sees them. */
  holdersOf(term: string): OrdinalSet {
    const located = this.#locate(term);
    return located === undefined ? new Uint32Array(0) : this.#parts.postings.reader.holdersOf(located);
  }

  /**
   * The positions of a term in a record: indexes among the words of its text, from 0 and ascending; words without a term count. Empty if
   * the record does not have the term. The index must store positions.
   */
  positionsOf(term: string, ordinal: number): Uint32Array {
    invariant(this.#parts.positions !== null, "the index keeps no positions");
    const number = this.#parts.dictionary.get(term);
    return number === undefined ? new Uint32Array(0) : this.#parts.positions.of(ordinal, number);
  }

  /** The length of a record in the index, as reported by `Analyzer.read`. */
  lengthOf(ordinal: number): number {
    return this.#parts.postings.reader.lengthOf(ordinal);
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
    const { documents } = statistics;
    const termsPerStep = explainedTermsPerStep(ordinals.length);
    let hidden: Hidden | null = null;
    const places = new Map(ordinals.map((ordinal, at) => [ordinal, at]));
    const { fixed, perTerm } = this.#parts.bm25.formula(averageOf(statistics));
    for (const [i, { term, weight: termWeight, within = null }] of terms.entries()) {
      if (i % termsPerStep === 0) {
        if (i > 0) yield;
        hidden = this.#parts.postings.reader.hide(visible());
      }
      const located = this.#locate(term);
      if (located === undefined) continue;
      const df = this.#parts.postings.reader.documentFrequency(located, hidden);
      const weight = termWeight * idf(documents, df);
      this.#parts.postings.reader.valuesOf(located, places, (at, tf) => {
        if (within !== null && !contains(within, ordinals[at])) return;
        // The same steps as in the search, so that the same bits come out.
        const contribution = (weight * tf) / (tf + fixed + perTerm * this.lengthOf(ordinals[at]));
        onMatch(at, { term, weight: termWeight, tf, df, idf: idf(documents, df), contribution });
      });
    }
  }

  #locate(term: string): Located | undefined {
    const number = this.#parts.dictionary.get(term);
    return number === undefined ? undefined : this.#parts.postings.reader.locate(number);
  }
}

function testOf(test: WordTest): (units: Uint16Array, begin: number, end: number) => boolean {
  if ("prefix" in test) {
    const { prefix } = test;
    return (units, begin, end) => {
      if (end - begin < prefix.length) return false;
      for (let i = 0; i < prefix.length; i++) if (units[begin + i] !== prefix.charCodeAt(i)) return false;
      return true;
    };
  }
  const { fuzzy, distance } = test;
  const distances = new EditDistance(fuzzy);
  return (units, begin, end) => distances.toUnits(units, begin, end, distance) <= distance;
}
