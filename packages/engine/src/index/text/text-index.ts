// Which texts match a query best, by BM25?
//
// An inverted index: for each term, the records that have it and how often (tf); for each record, its length (dl): the words
// that have a term, and the characters of Chinese, Japanese and Korean. The score is the sum, over the query's terms, each as often
// as the query has it, of
//
//     idf * tf / (tf + k1 * (1 - b + b * dl / avgdl))          idf = ln(1 + (N - df + 0.5) / (df + 0.5))
//
// (bm25.ts). All arithmetic is f64. The sum adds terms in the order of their first occurrence in the query, each with all its
// repetitions at once.
//
// The statistics are those of the searched version, so that old versions score as they did: N and avgdl are passed in, captured when that
// version was current, and df counts the records that it sees. Records without a term are not counted, as Lucene counts only documents that
// have the field.
//
// If the language has a stemmer, the forms of words are stored next to their terms (forms.ts), for prefixes and fuzzy words.
//
// This class is the writer's side, with checkpoints and `check`; text-search.ts is the reader's side. The writer's side is one class
// because every change goes through all of its parts.

import type { TextLanguage } from "@quiver/protocol/shapes/index-definition";
import { invariant } from "../../base/invariant.ts";
import type { Steps } from "../../base/steps.ts";
import { type Analyzer, createAnalyzer } from "../../text/analyzer.ts";
import { nextMemoryId } from "../attached.ts";
import type { Candidates, Index, Visible } from "../contract.ts";
import type { Allowed } from "../ordinal-bitmap.ts";
import type { OrdinalSet } from "../ordinal-sets.ts";
import type { ArenaOptions } from "../postings/arena.ts";
import type { CheckpointData } from "../postings/checkpoint-data.ts";
import { PostingIndex, type PostingOptions, type PostingState } from "../postings/posting-index.ts";
import type { PostingEstimate } from "../postings/posting-search.ts";
import { postingsOf, usesOfTerms } from "../postings/posting-walk.ts";
import type { AnalysedReader } from "./analysed.ts";
import { averageOf, Bm25, type TextStatistics } from "./bm25.ts";
import { Dictionary, type DictionaryState } from "./dictionary.ts";
import { Forms, type FormsState } from "./forms.ts";
import { Positions, type PositionsState } from "./positions.ts";
import { RecordRows } from "./record-rows.ts";
import {
  type Accepts,
  type Expansion,
  type SharedText,
  type TextMatch,
  TextReader,
  type WeightedTerm,
  type WordTest,
} from "./text-search.ts";
import { Vocabulary } from "./vocabulary.ts";

export type { Accepts, Expansion, TextMatch, TextStatistics, WeightedTerm, WordTest };

export type TextOptions = ArenaOptions & {
  language: TextLanguage;
  /** Instead of the language's own stop words; null or absent: those. */
  stopWords?: readonly string[] | null;
  /** Saturation of the term frequency, at least 0; typically 0.9 to 1.2. */
  k1: number;
  /** Normalization by length, 0 to 1; typically 0.4 to 0.75. */
  b: number;
  /** Whether the index stores the positions of terms in texts, which phrases need; absent: no. */
  positions?: boolean;
  /** See SegmentSetOptions. */
  readonly mayTake?: (bytes: number) => boolean;
  readonly retire?: ((free: () => void) => void) | undefined;
  /** Less for tests, see posting-index.ts. */
  readonly bufferRecordsMax?: number;
};

/** What a checkpoint stores of an index, besides the images of its segments, its dictionary, its positions and its forms. */
export type TextState = {
  readonly postings: PostingState;
  readonly dictionary: DictionaryState;
  /** null where the index keeps none. */
  readonly positions: PositionsState | null;
  /** null where the language has no stemmer. */
  readonly forms: FormsState | null;
};

/** Names of a long text that are looked up at a step. */
const namesPerStep = 4_096;

/** Quantized impacts are bytes. */
const levels = 255;

export class TextIndex implements Index {
  /** What texts and queries go through. */
  readonly analyzer: Analyzer;
  readonly #id = nextMemoryId();
  readonly #scoring: Pick<SharedText, "language" | "stopWords" | "k1" | "b">;
  readonly #postingOptions: PostingOptions;
  readonly #vocabulary: Vocabulary;
  readonly #reader: TextReader;
  #postings: PostingIndex;
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
    this.#scoring = { language, stopWords, k1, b };
    const bm25 = new Bm25(k1, b);
    const vocabulary = new Vocabulary(this.analyzer, () => this.#forms);
    this.#vocabulary = vocabulary;
    this.#postingOptions = {
      ...options,
      isText: true,
      levels,
      impactOf: (averageLength) => {
        const { fixed, perTerm } = bm25.formula(averageLength);
        return (tf, length) => tf / (tf + fixed + perTerm * length);
      },
      onTermUsed: (term) => vocabulary.use(term),
      onTermUnused: (term) => vocabulary.unuse(term),
    };
    this.#postings = new PostingIndex(this.#postingOptions);
    this.#reader = this.#makeReader(bm25);
  }

  /** A reader of the current parts. */
  #makeReader(bm25: Bm25): TextReader {
    const self = this;
    return new TextReader({
      analyzer: this.analyzer,
      bm25,
      get dictionary() {
        return self.#vocabulary.dictionary;
      },
      get postings() {
        return self.#postings;
      },
      get positions() {
        return self.#positions;
      },
      get forms() {
        return self.#forms;
      },
    });
  }

  get count(): number {
    return this.#postings.count;
  }

  /** Whether `positionsOf` is available. */
  get keepsPositions(): boolean {
    return this.#positions !== null;
  }

  has(ordinal: number): boolean {
    return this.#postings.has(ordinal);
  }

  // ---- Changing

  /** Adds a record: the words of its text, as `tokenize` makes them. One without terms is held, and counts nowhere. */
  add(ordinal: number, words: readonly string[]): void {
    const { numbers, frequencies, forms, length } = this.#vocabulary.count(words);
    if (this.#positions !== null) {
      const places = this.#vocabulary.placesOf(words);
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

  /** Prepares a part of the next record; returns whether `addAnalysed` has little left to do. */
  prepareAnalysed(texts: AnalysedReader): boolean {
    const [vocabulary, forms] = [this.#vocabulary, this.#forms];
    const formNumberOf = (form: string) => forms?.numberOf(form) ?? 0;
    return texts.learn(vocabulary.forgets, (term) => vocabulary.numberOf(term), formNumberOf, namesPerStep);
  }

  /** Adds the next record of texts that were analysed in another thread with the same `analyzer`, and advances. */
  addAnalysed(texts: AnalysedReader): void {
    const [vocabulary, forms] = [this.#vocabulary, this.#forms];
    const { ordinal, length, frequencies } = texts;
    const numbers = texts.numbers(vocabulary.forgets, (term) => vocabulary.numberOf(term));
    this.#positions?.set(ordinal, numbers, frequencies, texts.places);
    forms?.add(
      ordinal,
      texts.formNumbers(vocabulary.forgets, (form) => forms.numberOf(form)),
    );
    this.#add(ordinal, length, numbers, frequencies);
    texts.next();
  }

  #add(ordinal: number, length: number, numbers: readonly number[], frequencies: ArrayLike<number>): void {
    if (length > 0) this.#documents++;
    this.#totalLength += length;
    this.#postings.add(ordinal, length, numbers, frequencies, averageOf(this.statistics()));
    if (this.#rows.some(({ isFull }) => isFull)) this.#postings.freeze();
    this.#freezeRows();
  }

  /** Of positions and forms. */
  get #rows(): RecordRows[] {
    return [this.#positions, this.#forms].flatMap((kept) => kept?.rows ?? []);
  }

  /** Freezes the rows of the records that are in segments now. */
  #freezeRows(): void {
    this.#positions?.rows.freeze(this.#postings.frozenEnd);
    this.#forms?.rows.freeze(this.#postings.frozenEnd);
  }

  /** The record no longer counts in `statistics`; versions that see it find it as before. */
  retire(ordinal: number): void {
    if (!this.has(ordinal) || this.#postings.isRetired(ordinal)) return;
    this.#postings.retire(ordinal);
    const length = this.#postings.reader.lengthOf(ordinal);
    if (length > 0) this.#documents--;
    this.#totalLength -= length;
  }

  remove(ordinal: number): void {
    if (!this.has(ordinal)) return;
    this.retire(ordinal);
    this.#positions?.rows.delete(ordinal);
    if (this.#forms?.remove(ordinal)) this.#vocabulary.forgetNumbers();
    this.#postings.remove(ordinal);
  }

  /** N and the sum of lengths of the records that are current now and have a term. */
  statistics(): TextStatistics {
    return { documents: this.#documents, totalLength: this.#totalLength };
  }

  // ---- Searching (text-search.ts)

  /** What searches of this thread go through. */
  get reader(): TextReader {
    return this.#reader;
  }

  /** What another thread needs to read the index as it is now (TextReader.attach). */
  get shared(): SharedText {
    return {
      id: this.#id,
      ...this.#scoring,
      dictionary: this.#vocabulary.dictionary.shared,
      postings: this.#postings.shared,
      positions: this.#positions?.rows.shared ?? null,
      forms: this.#forms?.shared ?? null,
    };
  }

  /**
   * The k records with the greatest scores, with all ties at the boundary, of those that have a term of the query.
   * `statistics` are those of the searched version, and `visible` says what it sees.
   * @param allowed the ordinals that may be found at all. Statistics, and so scores, do not depend on it
   */
  search(
    query: string,
    k: number,
    statistics: TextStatistics,
    visible: Visible,
    allowed: Allowed = null,
  ): Candidates {
    return this.searchTerms(this.termsOf(query), k, statistics, visible, null, allowed);
  }

  /** The terms of a plain query in the order in which it has them first, each as often as it has it. */
  termsOf(query: string): WeightedTerm[] {
    return this.#reader.termsOf(query);
  }

  /** `termsOf`, in steps. */
  termsInSteps(query: string): Steps<WeightedTerm[]> {
    return this.#reader.termsInSteps(query);
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
    return this.#reader.searchTerms(terms, k, statistics, visible, accepts, allowed);
  }

  /** The cost of a search with this number of allowed ordinals: see PostingSearcher.estimate. */
  estimate(terms: readonly WeightedTerm[], allowedCount: number): PostingEstimate {
    return this.#reader.estimate(terms, allowedCount);
  }

  /**
   * `searchTerms` in steps, between which the index may change, for searches that score many postings.
   * @param visible returns the visibility test of the searched version; called again after each step
   */
  searchTermsInSteps(
    terms: readonly WeightedTerm[],
    k: number,
    statistics: TextStatistics,
    visible: () => Visible,
    accepts: Accepts = null,
    allowed: Allowed = null,
  ): Steps<Candidates> {
    return this.#reader.searchTermsInSteps(terms, k, statistics, visible, accepts, allowed);
  }

  /** What passes a test: see TextReader.expand. */
  expand(test: WordTest, visible: () => Visible): Steps<Expansion[]> {
    return this.#reader.expand(test, visible);
  }

  /** The records held that have a term, whatever version sees them. */
  holdersOf(term: string): OrdinalSet {
    return this.#reader.holdersOf(term);
  }

  /** Where a record that is held has a term: see TextReader.positionsOf. */
  positionsOf(term: string, ordinal: number): Uint32Array {
    return this.#reader.positionsOf(term, ordinal);
  }

  /** The length of a record in the index, as reported by `Analyzer.read`. */
  lengthOf(ordinal: number): number {
    return this.#reader.lengthOf(ordinal);
  }

  /** Explains the scores of `searchTerms`, in steps: see TextReader.explain. */
  explain(...asked: Parameters<TextReader["explain"]>): Generator<void, void> {
    return this.#reader.explain(...asked);
  }

  // ---- Memory and checkpoints

  /** Continues background work for about this many postings; returns whether there is more. */
  tidy(postings: number): boolean {
    const isMore = this.#postings.tidy(postings);
    this.#freezeRows();
    return isMore;
  }

  get memoryBytes(): number {
    const rows = (this.#positions?.rows.memoryBytes ?? 0) + (this.#forms?.memoryBytes ?? 0);
    return this.#postings.memoryBytes + this.#vocabulary.memoryBytes + rows;
  }

  get restoredBytes(): number {
    const rows = (this.#positions?.rows.restoredBytes ?? 0) + (this.#forms?.restoredBytes ?? 0);
    return this.#postings.restoredBytes + this.#vocabulary.restoredBytes + rows;
  }

  /** The cached terms of words, which can be computed again. */
  get spareBytes(): number {
    return this.#vocabulary.spareBytes;
  }

  giveUp(): void {
    this.#vocabulary.forgetWords();
  }

  /** Records of segments that are new or closed since the last checkpoint of the index. */
  get changes(): number {
    return this.#postings.changes;
  }

  /** Whether nothing is being merged. */
  get isIdle(): boolean {
    return this.#postings.isIdle;
  }

  /** Records that `save` omits, because they are in no segment yet. */
  get bufferedCount(): number {
    return this.#postings.bufferedCount;
  }

  /** Makes a segment of the mutable buffer, so that a checkpoint has all records. */
  freeze(): void {
    this.#postings.freeze();
    this.#freezeRows();
  }

  /** What a checkpoint stores; see PostingIndex.save. */
  save(): CheckpointData<TextState> {
    const postings = this.#postings.save();
    const dictionary = this.#vocabulary.dictionary.save();
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

  /** Restores an index from a checkpoint. @param load fills the images with the checkpoint's bytes, in the order of `save` */
  static async restored(
    options: TextOptions,
    state: TextState,
    load: (images: Uint8Array[]) => Promise<void>,
  ): Promise<TextIndex> {
    const index = new TextIndex(options);
    invariant(
      (state.positions === null) === (index.#positions === null) &&
        (state.forms === null) === (index.#forms === null),
      "the checkpoint was written with other positions or forms",
    );
    const columns = Dictionary.columnsFor(state.dictionary);
    const rows = state.positions === null ? [] : RecordRows.imagesFor(state.positions);
    const forms = state.forms === null ? [] : Forms.imagesFor(state.forms);
    index.#vocabulary.reserve(state.dictionary);
    index.#postings = await PostingIndex.restored(index.#postingOptions, state.postings, (images) =>
      load([...columns, ...rows, ...forms, ...images]),
    );
    if (state.positions !== null)
      index.#positions = new Positions(RecordRows.restored(state.positions, rows));
    if (state.forms !== null) index.#forms = Forms.restored(state.forms, forms);
    index.#vocabulary.restore(Dictionary.restored(state.dictionary, columns));
    for (const [, length] of index.#postings.parts.records()) {
      if (length > 0) index.#documents++;
      index.#totalLength += length;
    }
    index.#postings.averageLength = averageOf(index.statistics());
    for (const ordinal of state.postings.retired) index.remove(ordinal);
    return index;
  }

  close(): void {
    this.#postings.close();
    this.#vocabulary.close();
    this.#positions?.rows.close();
    this.#forms?.close();
    this.#documents = 0;
    this.#totalLength = 0;
  }

  check(): void {
    this.#postings.check();
    this.#vocabulary.check(usesOfTerms(this.#postings.parts));
    const frequencies = new Map<number, number>();
    const walk = postingsOf(this.#postings.parts, (_term, ordinal, tf) =>
      frequencies.set(ordinal, (frequencies.get(ordinal) ?? 0) + tf),
    );
    while (!walk.next().done);
    let documents = 0;
    let totalLength = 0;
    let records = 0;
    for (const [ordinal, length] of this.#postings.parts.records()) {
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

  /** How often each record that is held has each of its terms, in steps; see posting-walk.ts. */
  frequencies(onTerm: (term: string, ordinal: number, tf: number) => void): Generator<void, boolean> {
    return postingsOf(this.#postings.parts, (number, ordinal, tf) =>
      onTerm(this.#vocabulary.dictionary.termOf(number), ordinal, tf),
    );
  }
}
