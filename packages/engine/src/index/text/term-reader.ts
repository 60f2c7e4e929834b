// Which terms do the words of a query stand for, and which records have them?
//
// The half of a text index's reader that scores nothing: text-query.ts resolves queries with it, and text-search.ts adds the scores.

import type { TextLanguage } from "@quiverdb/protocol/shapes/index-definition";
import { invariant } from "../../base/invariant.ts";
import { attachOnce } from "../../base/shared-memory.ts";
import { finishAtOnce, type Steps } from "../../base/steps.ts";
import { type Analyzer, createAnalyzer } from "../../text/analyzer.ts";
import { tokenizeInSteps } from "../../text/tokenize.ts";
import type { Visible } from "../contract.ts";
import { attachPostings, type SharedParts } from "../inverted/attached-parts.ts";
import type { PostingIndex } from "../inverted/posting-index.ts";
import type { Located } from "../inverted/query.ts";
import type { Allowed, OrdinalBitmap } from "../ordinal-bitmap.ts";
import type { OrdinalSet } from "../ordinal-sets.ts";
import { Bm25 } from "./bm25.ts";
import { type DictionaryColumns, DictionaryReader } from "./dictionary-reader.ts";
import { FormsReader, type SharedForms } from "./forms-reader.ts";
import { PositionsReader } from "./positions.ts";
import { type Rows, TermRowsReader } from "./term-rows-reader.ts";
import { testOf, type WordTest } from "./word-test.ts";

/** Words that are analysed at a step. */
const wordsPerStep = 2_048;
/** Number of forms that one step stems. */
const formsPerStep = 512;

/** A term to search for. */
export type WeightedTerm = {
  readonly term: string;
  /** What its score is multiplied by, greater than 0: how often a plain query has the term. */
  readonly weight: number;
  /** The records that the term counts for, of those that have it; absent or null: all. Its df does not depend on it. */
  readonly within?: OrdinalSet | null;
};

/** A form or a term that passed a test, and its term. */
type Expansion = { readonly form: string; readonly term: string };

/** The ordinals of a set that a version sees, ascending. */
function visibleOf(rows: OrdinalBitmap, visible: Visible): OrdinalSet {
  const ordinals = rows.toOrdinals();
  return visible === null ? ordinals : ordinals.filter((ordinal) => visible(ordinal));
}

export class TermReader {
  protected readonly parts: TextParts;

  constructor(parts: TextParts) {
    this.parts = parts;
  }

  /** What queries go through. */
  get analyzer(): Analyzer {
    return this.parts.analyzer;
  }

  /** Whether `positionsOf` can be asked. */
  get keepsPositions(): boolean {
    return this.parts.positions !== null;
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
      for (const term of this.parts.analyzer.queryTerms(words.slice(from, from + wordsPerStep)))
        frequencies.set(term, (frequencies.get(term) ?? 0) + 1);
    }
    return Array.from(frequencies, ([term, weight]) => ({ term, weight }));
  }

  /**
   * The terms and forms that pass a test: terms of current or recently removed records, and forms of words in visible records. In no
   * particular order; a term can come several times, by several forms. In steps, between which the index may change.
   * @param visible returns the visibility test of the searched version; called again after each step
   * @param rows only forms of words in these records; null: in all
   */
  *expand(test: WordTest, visible: () => Visible, rows: Allowed = null): Steps<Expansion[]> {
    const passes = testOf(test);
    const terms = yield* this.parts.dictionary.termsThat(passes);
    const found = terms.map((term) => ({ form: term, term }));
    if (this.parts.forms === null) return found;
    const forms =
      rows === null
        ? yield* this.parts.forms.formsThat(passes, () =>
            this.parts.postings.reader.hiddenOrdinals(visible()),
          )
        : yield* this.parts.forms.formsAmong(passes, visibleOf(rows, visible()));
    for (const [i, form] of forms.entries()) {
      if (i % formsPerStep === formsPerStep - 1) yield;
      found.push({ form, term: this.parts.analyzer.termOf(form) });
    }
    return found;
  }

  /** The records held that have a term, whatever version sees them. */
  holdersOf(term: string): OrdinalSet {
    const located = this.locate(term);
    return located === undefined ? new Uint32Array(0) : this.parts.postings.reader.holdersOf(located);
  }

  /**
   * The positions of a term in a record: indexes among the words of its text, from 0 and ascending; words without a term count. Empty if
   * the record does not have the term. The index must store positions.
   */
  positionsOf(term: string, ordinal: number): Uint32Array {
    invariant(this.parts.positions !== null, "the index keeps no positions");
    const number = this.parts.dictionary.get(term);
    return number === undefined ? new Uint32Array(0) : this.parts.positions.of(ordinal, number);
  }

  /** Where a term's postings are; undefined if no record has it. */
  protected locate(term: string): Located | undefined {
    const number = this.parts.dictionary.get(term);
    return number === undefined ? undefined : this.parts.postings.reader.locate(number);
  }
}

// ---- How does another thread read a text index?
//
// The owner describes its parts as they are at a moment (`SharedText`), and posts that; the thread attaches them. The parts keep
// everything about the records that the thread's version sees: see attached-parts.ts, dictionary-reader.ts, forms-reader.ts and term-rows-reader.ts.

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
  readonly dictionary: DictionaryColumns;
  readonly postings: SharedParts;
  readonly positions: Rows | null;
  readonly forms: SharedForms | null;
};

/** The parts of the index of another thread. @param slot of this thread */
export function attachText(shared: SharedText, slot: number): TextParts {
  const { id, language, stopWords, k1, b, positions, forms } = shared;
  return {
    analyzer: attachOnce(id, slot, () => createAnalyzer(language, stopWords)),
    bm25: new Bm25(k1, b),
    dictionary: new DictionaryReader(shared.dictionary),
    postings: attachPostings(shared.postings, slot),
    positions: positions && new PositionsReader(new TermRowsReader(positions)),
    forms: forms && FormsReader.attach(forms),
  };
}
