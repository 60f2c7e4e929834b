// Which texts match a query best, by BM25?
//
// An inverted index: for each term, the records that have it and how often (tf); for each record, its length (dl): the words
// that have a term, and the characters of Chinese, Japanese and Korean. The score is the sum, over the query's terms, each as often as the query has it, of
//
//     idf * tf / (tf + k1 * (1 - b + b * dl / avgdl))          idf = ln(1 + (N - df + 0.5) / (df + 0.5))
//
// Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, 2009, with Lucene's idf, which is
// never negative, and without the constant factor (k1 + 1), as in Lucene since version 8. Unlike Lucene's, dl is the exact
// length. All is f64; terms are added in the order in which the query has them first, a term's repetitions at once.
//
// The statistics are those of the searched version, so that old versions score as they did: N and avgdl are passed in,
// captured when that version was current, and df counts the records that it sees. Records without a term count nowhere, as
// Lucene counts only the documents that have the field.
//
// Where the language has a stemmer, the forms of words are kept beside their terms (forms.ts), for prefixes and fuzzy words.

import type { TextLanguage } from "@quiver/protocol/shapes/index-definition";
import { Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import { finishAtOnce, type Steps } from "../../base/steps.ts";
import { type Analyzer, createAnalyzer, ownCopy } from "../../text/analyzer.ts";
import { EditDistance } from "../../text/edit-distance.ts";
import { isRun } from "../../text/grams.ts";
import { segmentInSteps } from "../../text/segment.ts";
import type { Candidates, Index, Visible } from "../contract.ts";
import { contains, type OrdinalSet } from "../ordinal-sets.ts";
import type { ArenaOptions } from "../postings/arena.ts";
import { explainedTermsPerStep } from "../postings/explained.ts";
import type { Kept } from "../postings/kept.ts";
import { PostingIndex, type PostingOptions, type PostingState } from "../postings/posting-index.ts";
import type { Formula, Hidden, Located, WeightedTerm as LocatedTerm } from "../postings/query.ts";
import type { Accepts } from "../postings/record-scores.ts";
import type { AnalysedReader } from "./analysed.ts";
import { Dictionary, type DictionaryState } from "./dictionary.ts";
import { Forms, type FormsState } from "./forms.ts";
import { Positions, type PositionsState } from "./positions.ts";
import { RecordRows } from "./record-rows.ts";

export type { Accepts };

export type TextOptions = ArenaOptions & {
  language: TextLanguage;
  /** Instead of the language's own stop words; null or absent: those. */
  stopWords?: readonly string[] | null;
  /** Saturation of the term frequency, at least 0; typically 0.9 to 1.2. */
  k1: number;
  /** Normalization by length, 0 to 1; typically 0.4 to 0.75. */
  b: number;
  /** Whether it is kept where in a text a term is, for phrases; absent: no. */
  positions?: boolean;
  /** Whether so many bytes more may be taken for a while; default: always. */
  readonly mayTake?: (bytes: number) => boolean;
  /** Less for tests, see posting-index.ts. */
  readonly tailRecordsMax?: number;
};

/** Of a step: words that are analysed, and terms that are located. */
const wordsPerStep = 2_048;
/** Names of a long text that are looked up at a step. */
const namesPerStep = 4_096;
const termsPerStep = 256;
/** Forms that are stemmed at a step. */
const formsPerStep = 512;
/** So many postings are scored at once. */
const postingsAtOnce = 50_000;
/** A search in steps begins anew so often when lists were moved meanwhile; then it is done at once. */
const attemptsMax = 3;

/**
 * Whether a search that leaves out what cannot be among the best takes less time than scoring everything. With many terms, or many
 * results, it does not: for 1,600 terms and 10,000 results it took 150 ms where scoring 600,000 postings takes 10.
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

/** A form or a term that passed a test, and the term that it stands for. */
export type Expansion = { readonly form: string; readonly term: string };

/** What a version has of text: the records that are current in it and have a term, and the sum of their lengths. */
export type TextStatistics = {
  readonly documents: number;
  readonly totalLength: number;
};

/** A term that a query and a record share, and what it adds to the record's score. */
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

/** What of an index a checkpoint keeps, besides the images of its runs, its dictionary, its positions and its forms. */
export type TextState = {
  readonly postings: PostingState;
  readonly dictionary: DictionaryState;
  /** null where the index keeps none. */
  readonly positions: PositionsState | null;
  /** null where the language has no stemmer. */
  readonly forms: FormsState | null;
};

/** In place of the number of a word's term: it has none. */
const dropped = -1;

/** In place of the number of its term where a word has a form: less than this, by the place of both numbers. */
const withForm = -2;

/** Words whose terms are remembered. */
const wordsMax = 65_536;

/** Of one of them: a Map's entry and a short string, as measured in V8. */
const wordBytes = 80;

/** Codes of amounts are bytes. */
const levels = 255;

export class TextIndex implements Index {
  /** What texts and queries go through. */
  readonly analyzer: Analyzer;
  readonly #k1: number;
  readonly #b: number;
  #postings: PostingIndex;
  readonly #postingOptions: PostingOptions;
  /** Numbers of terms. */
  #dictionary = new Dictionary();
  /** By number of a term: in how many runs, or the tail, it has postings. */
  readonly #uses = new Growable(Uint32Array);
  #freeTerms: number[] = [];
  /** By number of a term: 0 but while a record is added, then how often the record has it. */
  readonly #frequencies = new Growable(Uint32Array);
  /**
   * Words added before -> the number of their term, `dropped`, or `withForm` less the place of both numbers in `#wordNumbers`:
   * most words of a text need no other look. Numbers in a column of their own take half the time of an object for each word.
   */
  readonly #words = new Map<string, number>();
  readonly #wordNumbers = new Growable(Uint32Array);
  /** How often terms or forms were forgotten, whose numbers can be those of others now. */
  #forgets = 0;
  /** Records that have a term. */
  #documents = 0;
  #totalLength = 0;
  /** null where the index keeps none. */
  #positions: Positions | null;
  /** null where the language has no stemmer. */
  #forms: Forms | null;

  constructor({ language, stopWords = null, k1, b, positions = false, ...options }: TextOptions) {
    this.#positions = positions ? new Positions() : null;
    this.analyzer = createAnalyzer(language, stopWords);
    this.#forms = this.analyzer.hasForms ? new Forms() : null;
    this.#k1 = k1;
    this.#b = b;
    this.#postingOptions = {
      ...options,
      isText: true,
      levels,
      amountOf: (averageLength) => {
        const { fixed, perTerm } = this.#formula(averageLength);
        return (tf, length) => tf / (tf + fixed + perTerm * length);
      },
      onTermUsed: (term) => this.#uses.values[term]++,
      onTermUnused: (term) => {
        if (--this.#uses.values[term] === 0) this.#forget(term);
      },
    };
    this.#postings = new PostingIndex(this.#postingOptions);
  }

  get count(): number {
    return this.#postings.count;
  }

  /** Whether `positionsOf` can be asked. */
  get keepsPositions(): boolean {
    return this.#positions !== null;
  }

  has(ordinal: number): boolean {
    return this.#postings.has(ordinal);
  }

  /** Adds a record: the words of its text, as `segment` makes them. One without terms is held, and counts nowhere. */
  add(ordinal: number, words: readonly string[]): void {
    const numbers: number[] = [];
    const forms: number[] = [];
    let length = 0;
    for (const word of words) {
      let number = this.#words.get(word);
      if (number === undefined) {
        if (isRun(word)) {
          length += this.#countRun(word, numbers);
          continue;
        }
        number = this.#numberOfWord(word);
      }
      if (number === dropped) continue;
      if (number < dropped) {
        const at = withForm - number;
        number = this.#wordNumbers.values[at];
        forms.push(this.#wordNumbers.values[at + 1]);
      }
      length++;
      if (this.#frequencies.values[number]++ === 0) numbers.push(number);
    }
    const frequencies = numbers.map((number) => this.#frequencies.values[number]);
    for (const number of numbers) this.#frequencies.values[number] = 0;
    if (this.#positions !== null) {
      const places = this.#placesOf(words);
      this.#positions.set(
        ordinal,
        numbers,
        frequencies,
        numbers.flatMap((number) => places.get(number) as number[]),
      );
    }
    this.#forms?.add(ordinal, forms);
    this.#add(ordinal, length, numbers, frequencies);
  }

  /** Counts the terms of a run, and enters those that are new to the record. @returns its length */
  #countRun(run: string, numbers: number[]): number {
    return this.analyzer.read([run], (term) => {
      const number = this.#numberOf(term);
      if (this.#frequencies.values[number]++ === 0) numbers.push(number);
    });
  }

  /** Prepares for a part of the record that comes next; returns whether `addAnalysed` has little left to do. */
  prepareAnalysed(texts: AnalysedReader): boolean {
    const forms = this.#forms;
    const formNumberOf = (form: string) => forms?.numberOf(form) ?? 0;
    return texts.learn(this.#forgets, (term) => this.#numberOf(term), formNumberOf, namesPerStep);
  }

  /** Adds the record that comes next among texts that were analysed elsewhere, as `analyzer` does it, and moves on. */
  addAnalysed(texts: AnalysedReader): void {
    const { ordinal, length, frequencies } = texts;
    const numbers = texts.numbers(this.#forgets, (term) => this.#numberOf(term));
    this.#positions?.set(ordinal, numbers, frequencies, texts.places);
    const forms = this.#forms;
    forms?.add(
      ordinal,
      texts.formNumbers(this.#forgets, (form) => forms.numberOf(form)),
    );
    this.#add(ordinal, length, numbers, frequencies);
    texts.next();
  }

  #add(ordinal: number, length: number, numbers: readonly number[], frequencies: ArrayLike<number>): void {
    if (length > 0) this.#documents++;
    this.#totalLength += length;
    this.#postings.add(ordinal, length, numbers, frequencies, averageOf(this.statistics()));
    if (this.#rows.some(({ isFull }) => isFull)) this.#postings.seal();
    this.#freezeRows();
  }

  /** Of positions and forms. */
  get #rows(): RecordRows[] {
    return [this.#positions, this.#forms].flatMap((kept) => kept?.rows ?? []);
  }

  /** Freezes the rows of the records that are in runs now. */
  #freezeRows(): void {
    this.#positions?.rows.freeze(this.#postings.sealedEnd);
    this.#forms?.rows.freeze(this.#postings.sealedEnd);
  }

  /** The record no longer counts in `statistics`; versions that see it find it as before. */
  retire(ordinal: number): void {
    if (!this.has(ordinal) || this.#postings.isRetired(ordinal)) return;
    this.#postings.retire(ordinal);
    const length = this.#postings.lengthOf(ordinal);
    if (length > 0) this.#documents--;
    this.#totalLength -= length;
  }

  remove(ordinal: number): void {
    if (!this.has(ordinal)) return;
    this.retire(ordinal);
    this.#positions?.rows.delete(ordinal);
    if (this.#forms?.remove(ordinal)) this.#forgetNumbers();
    this.#postings.remove(ordinal);
  }

  /** N and the sum of lengths of the records that are current now and have a term. */
  statistics(): TextStatistics {
    return { documents: this.#documents, totalLength: this.#totalLength };
  }

  /**
   * The k records with the greatest scores, with all ties at the boundary, of those that have a term of the query.
   * `statistics` are those of the searched version, and `visible` says what it sees.
   */
  search(query: string, k: number, statistics: TextStatistics, visible: Visible): Candidates {
    return this.searchTerms(this.termsOf(query), k, statistics, visible);
  }

  /** The terms of a plain query in the order in which it has them first, each as often as it has it. */
  termsOf(query: string): WeightedTerm[] {
    return finishAtOnce(this.termsInSteps(query));
  }

  /** `termsOf`, in steps. */
  *termsInSteps(query: string): Steps<WeightedTerm[]> {
    const frequencies = new Map<string, number>();
    const words = yield* segmentInSteps(query);
    for (let from = 0; from < words.length; from += wordsPerStep) {
      if (from > 0) yield;
      for (const term of this.analyzer.queryTerms(words.slice(from, from + wordsPerStep)))
        frequencies.set(term, (frequencies.get(term) ?? 0) + 1);
    }
    return Array.from(frequencies, ([term, weight]) => ({ term, weight }));
  }

  /**
   * `search` for terms, which are added up in the order given.
   * @param accepts which of the visible records may be found. Statistics, and so scores, do not depend on it
   */
  searchTerms(
    terms: readonly WeightedTerm[],
    k: number,
    statistics: TextStatistics,
    visible: Visible,
    accepts: Accepts = null,
  ): Candidates {
    const hidden = this.#postings.hide(visible);
    const formula = this.#formula(averageOf(statistics));
    const located: LocatedTerm[] = [];
    let isPlain = accepts === null;
    for (const { term, weight, within } of terms) {
      const places = this.#locate(term);
      if (places === undefined) continue;
      const df = this.#postings.documentFrequency(places, hidden);
      located.push({ located: places, weight: weight * idf(statistics.documents, df), within });
      if (within != null) isPlain = false;
    }
    return isPlain && isWorthPruning(located.length, k)
      ? this.#postings.search(located, k, formula, hidden)
      : this.#postings.searchAccepted(located, k, formula, hidden, accepts);
  }

  /**
   * `searchTerms` in steps, between which the index may change, where much is to be scored.
   * @param visible asked anew for what the searched version sees
   */
  *searchTermsInSteps(
    terms: readonly WeightedTerm[],
    k: number,
    statistics: TextStatistics,
    visible: () => Visible,
    accepts: Accepts = null,
  ): Steps<Candidates> {
    for (let attempt = 0; attempt < attemptsMax; attempt++) {
      const found = yield* this.#tryInSteps(terms, k, statistics, visible, accepts);
      if (found !== null) return found;
    }
    return this.searchTerms(terms, k, statistics, visible(), accepts);
  }

  /** @returns null where lists were moved meanwhile */
  *#tryInSteps(
    terms: readonly WeightedTerm[],
    k: number,
    statistics: TextStatistics,
    visible: () => Visible,
    accepts: Accepts,
  ): Steps<Candidates | null> {
    const { layout } = this.#postings;
    const formula = this.#formula(averageOf(statistics));
    let hidden = this.#postings.hide(visible());
    const located: LocatedTerm[] = [];
    let isPlain = accepts === null;
    let postings = 0;
    for (const [i, { term, weight, within }] of terms.entries()) {
      if (i % termsPerStep === termsPerStep - 1) {
        yield;
        if (this.#postings.layout !== layout) return null;
        hidden = this.#postings.hide(visible());
      }
      const places = this.#locate(term);
      if (places === undefined) continue;
      const df = this.#postings.documentFrequency(places, hidden);
      postings += df;
      located.push({ located: places, weight: weight * idf(statistics.documents, df), within });
      if (within != null) isPlain = false;
    }
    if (isPlain && isWorthPruning(located.length, k))
      return this.#postings.search(located, k, formula, hidden);
    if (postings <= postingsAtOnce)
      return this.#postings.searchAccepted(located, k, formula, hidden, accepts);
    return yield* this.#postings.searchInSteps(located, k, formula, visible, accepts);
  }

  /**
   * What passes a test: terms of records that are held, or were until lately, and forms of words that a record has of those that
   * are visible. In no particular order; a term can come several times, by several forms. In steps, between which the index may
   * change.
   * @param visible asked anew for what the searched version sees
   */
  *expand(test: WordTest, visible: () => Visible): Steps<Expansion[]> {
    const passes = testOf(test);
    const terms = yield* this.#dictionary.termsThat(passes);
    const found = terms.map((term) => ({ form: term, term }));
    if (this.#forms === null) return found;
    const forms = yield* this.#forms.formsThat(passes, () => this.#postings.hiddenOrdinals(visible()));
    for (const [i, form] of forms.entries()) {
      if (i % formsPerStep === formsPerStep - 1) yield;
      found.push({ form, term: this.analyzer.termOf(form) });
    }
    return found;
  }

  /** The records held that have a term, whatever version sees them. */
  holdersOf(term: string): OrdinalSet {
    const located = this.#locate(term);
    return located === undefined ? new Uint32Array(0) : this.#postings.holdersOf(located);
  }

  /**
   * Where a record that is held has a term: places among the words of its text, from 0 and ascending; words without a
   * term count. Empty where it does not have the term. The index must keep positions.
   */
  positionsOf(term: string, ordinal: number): Uint32Array {
    invariant(this.#positions !== null, "the index keeps no positions");
    const number = this.#dictionary.get(term);
    return number === undefined ? new Uint32Array(0) : this.#positions.of(ordinal, number);
  }

  /** Goes on with what is to be done in the background, for about so many postings; says whether there is more. */
  tidy(postings: number): boolean {
    const isMore = this.#postings.tidy(postings);
    this.#freezeRows();
    return isMore;
  }

  get memoryBytes(): number {
    const rows = (this.#positions?.rows.memoryBytes ?? 0) + (this.#forms?.memoryBytes ?? 0);
    const columns = [this.#uses, this.#frequencies, this.#wordNumbers];
    const words = columns.reduce((sum, column) => sum + column.memoryBytes, wordBytes * this.#words.size);
    return this.#postings.memoryBytes + this.#dictionary.memoryBytes + rows + words;
  }

  get restoredBytes(): number {
    const rows = (this.#positions?.rows.restoredBytes ?? 0) + (this.#forms?.restoredBytes ?? 0);
    const columns = this.#uses.memoryBytes + this.#frequencies.memoryBytes;
    return this.#postings.restoredBytes + this.#dictionary.memoryBytes + rows + columns;
  }

  /** The terms of words, which are looked up anew. */
  get spareBytes(): number {
    return wordBytes * this.#words.size + this.#wordNumbers.memoryBytes;
  }

  giveUp(): void {
    this.#forgetWords();
  }

  /** Records of runs that are new or closed since the index was last kept. */
  get changes(): number {
    return this.#postings.changes;
  }

  /** Whether nothing is being merged. */
  get isIdle(): boolean {
    return this.#postings.isIdle;
  }

  /** Records that `save` leaves out, for they are in no run yet. */
  get tailCount(): number {
    return this.#postings.tailCount;
  }

  /** Makes a run of the tail, so that a checkpoint has all records. */
  seal(): void {
    this.#postings.seal();
    this.#freezeRows();
  }

  /** What a checkpoint keeps; see PostingIndex.save. */
  save(): Kept<TextState> {
    const postings = this.#postings.save();
    const dictionary = this.#dictionary.save();
    const positions = this.#positions?.rows.save(postings.state.end);
    const forms = this.#forms?.save(postings.state.end);
    return {
      state: {
        postings: postings.state,
        dictionary: dictionary.state,
        positions: positions?.state ?? null,
        forms: forms?.state ?? null,
      },
      images: [
        ...dictionary.columns,
        ...(positions?.images ?? []),
        ...(forms?.images ?? []),
        ...postings.images,
      ],
      done: postings.done,
    };
  }

  /** An index as it was kept. @param load fills the images with what was kept, in the order of `save` */
  static async restored(
    options: TextOptions,
    state: TextState,
    load: (images: Uint8Array[]) => Promise<void>,
  ): Promise<TextIndex> {
    const index = new TextIndex(options);
    invariant(
      (state.positions === null) === (index.#positions === null) &&
        (state.forms === null) === (index.#forms === null),
      "an index was kept with other positions or forms",
    );
    const columns = Dictionary.columnsFor(state.dictionary);
    const rows = state.positions === null ? [] : RecordRows.imagesFor(state.positions);
    const forms = state.forms === null ? [] : Forms.imagesFor(state.forms);
    for (let i = 0; i < state.dictionary.numbersEnd; i++) {
      index.#uses.push(0);
      index.#frequencies.push(0);
    }
    index.#postings = await PostingIndex.restored(index.#postingOptions, state.postings, (images) =>
      load([...columns, ...rows, ...forms, ...images]),
    );
    index.#dictionary = Dictionary.restored(state.dictionary, columns);
    if (state.positions !== null)
      index.#positions = new Positions(RecordRows.restored(state.positions, rows));
    if (state.forms !== null) index.#forms = Forms.restored(state.forms, forms);
    // Terms that only records of the tail had.
    for (const [number, uses] of index.#uses.values.subarray(0, index.#uses.length).entries())
      if (uses === 0 && index.#dictionary.isUsed(number)) index.#dictionary.remove(number);
    index.#freeTerms = index.#dictionary.freeNumbers();
    for (const [, length] of index.#postings.records()) {
      if (length > 0) index.#documents++;
      index.#totalLength += length;
    }
    index.#postings.averageLength = averageOf(index.statistics());
    for (const ordinal of state.postings.retired) index.remove(ordinal);
    return index;
  }

  close(): void {
    this.#postings.close();
    this.#dictionary.close();
    this.#positions?.rows.close();
    this.#forms?.close();
    this.#uses.truncate(0);
    this.#frequencies.truncate(0);
    this.#forgetWords();
    this.#freeTerms.length = 0;
    this.#documents = 0;
    this.#totalLength = 0;
  }

  check(): void {
    this.#postings.check();
    this.#dictionary.check();
    const uses = this.#postings.usesOfTerms();
    for (const [term, number] of this.#dictionary.entries()) {
      const used = this.#uses.values[number];
      invariant(used > 0 && used === uses.get(number), `"${term}" has ${used} uses, not ${uses.get(number)}`);
      uses.delete(number);
    }
    invariant(uses.size === 0, `${uses.size} terms with postings are not in the dictionary`);
    const frequencies = new Map<number, number>();
    const walk = this.#postings.postings((_term, ordinal, tf) =>
      frequencies.set(ordinal, (frequencies.get(ordinal) ?? 0) + tf),
    );
    while (!walk.next().done);
    let documents = 0;
    let totalLength = 0;
    let records = 0;
    for (const [ordinal, length] of this.#postings.records()) {
      records++;
      const occurrences = frequencies.get(ordinal) ?? 0;
      const positions = this.#positions?.checkRow(ordinal) ?? occurrences;
      invariant(
        positions === occurrences,
        `ordinal ${ordinal} has ${positions} positions of ${occurrences} occurrences`,
      );
      invariant(length > 0 || occurrences === 0, `ordinal ${ordinal} has terms, and no length`);
      if (this.#postings.isRetired(ordinal) || length === 0) continue;
      documents++;
      totalLength += length;
    }
    this.#positions?.rows.check(records);
    this.#forms?.check();
    invariant(
      documents === this.#documents && totalLength === this.#totalLength,
      `${documents} documents have ${totalLength} terms, counted were ${this.#documents} and ${this.#totalLength}`,
    );
  }

  /** How often each record that is held has each of its terms, in steps; see PostingIndex.postings. */
  frequencies(onTerm: (term: string, ordinal: number, tf: number) => void): Generator<void, boolean> {
    return this.#postings.postings((number, ordinal, tf) =>
      onTerm(this.#dictionary.termOf(number), ordinal, tf),
    );
  }

  /** Number of a term -> its positions among the words of a text. */
  #placesOf(words: readonly string[]): Map<number, number[]> {
    const places = new Map<number, number[]>();
    this.analyzer.read(words, (term, _form, place) => {
      const number = this.#numberOf(term);
      const known = places.get(number);
      if (known === undefined) places.set(number, [place]);
      else known.push(place);
    });
    return places;
  }

  /** The length of a record that is held, as `Analyzer.read` tells it. */
  lengthOf(ordinal: number): number {
    return this.#postings.lengthOf(ordinal);
  }

  /**
   * What the scores of `searchTerms` are made of, in steps between which the index may be used and changed. Added up in the order of the calls, beginning with 0, a record's
   * contributions are its score, bit for bit.
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
    const { fixed, perTerm } = this.#formula(averageOf(statistics));
    for (const [i, { term, weight: termWeight, within = null }] of terms.entries()) {
      if (i % termsPerStep === 0) {
        if (i > 0) yield;
        hidden = this.#postings.hide(visible());
      }
      const located = this.#locate(term);
      if (located === undefined) continue;
      const df = this.#postings.documentFrequency(located, hidden);
      const weight = termWeight * idf(documents, df);
      this.#postings.valuesOf(located, places, (at, tf) => {
        if (within !== null && !contains(within, ordinals[at])) return;
        // The same steps as in the search, so that the same bits come out.
        const contribution = (weight * tf) / (tf + fixed + perTerm * this.lengthOf(ordinals[at]));
        onMatch(at, { term, weight: termWeight, tf, df, idf: idf(documents, df), contribution });
      });
    }
  }

  #locate(term: string): Located | undefined {
    const number = this.#dictionary.get(term);
    return number === undefined ? undefined : this.#postings.locate(number);
  }

  #formula(averageLength: number): Formula {
    // Without an average there are no lengths to compare; a version that sees a posting has one.
    const perTerm = averageLength > 0 ? (this.#k1 * this.#b) / averageLength : 0;
    return { fixed: this.#k1 * (1 - this.#b), perTerm, averageLength };
  }

  #numberOf(term: string): number {
    const known = this.#dictionary.get(term);
    if (known !== undefined) return known;
    const number = this.#freeTerms.pop() ?? this.#uses.length;
    if (number === this.#uses.length) {
      this.#uses.push(0);
      this.#frequencies.push(0);
    }
    this.#dictionary.add(term, number);
    return number;
  }

  /** What `#words` says of a word, which it learns. */
  #numberOfWord(word: string): number {
    const { term, form } = this.analyzer.of(word);
    if (this.#words.size >= wordsMax) this.#forgetWords();
    let number = term === "" ? dropped : this.#numberOf(term);
    if (form !== "" && this.#forms !== null) {
      const at = this.#wordNumbers.length;
      this.#wordNumbers.push(number);
      this.#wordNumbers.push(this.#forms.numberOf(form));
      number = withForm - at;
    }
    // Words are slices of texts, which they must not keep.
    this.#words.set(ownCopy(word), number);
    return number;
  }

  /** Forgets a term that no record has any more. */
  #forget(term: number): void {
    this.#forgetNumbers();
    this.#dictionary.remove(term);
    this.#freeTerms.push(term);
  }

  /** Numbers of words that were known can mean others now. */
  #forgetNumbers(): void {
    this.#forgetWords();
    this.#forgets++;
  }

  #forgetWords(): void {
    this.#words.clear();
    this.#wordNumbers.truncate(0);
  }
}

function averageOf({ documents, totalLength }: TextStatistics): number {
  return documents > 0 ? totalLength / documents : 0;
}

/** How much a term says that `df` of `documents` records have: at least 0. */
function idf(documents: number, df: number): number {
  return Math.log(1 + (Math.max(documents, df) - df + 0.5) / (df + 0.5));
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
