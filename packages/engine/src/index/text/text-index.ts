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
// This class is the writer's side; text-search.ts is the reader's side, and text-parts.ts has what both go through.

import { invariant } from "../../base/invariant.ts";
import type { Task } from "../../base/scheduler.ts";
import type { Steps } from "../../base/steps.ts";
import type { Analyzer } from "../../text/analyzer.ts";
import type { Index, Leisure } from "../contract.ts";
import { postingsOf } from "../inverted/check.ts";
import type { CheckpointData } from "../inverted/checkpoint-data.ts";
import type { AnalysedReader } from "./analysed.ts";
import { averageOf, type TextStatistics } from "./bm25.ts";
import type { SharedText } from "./term-reader.ts";
import { OwnedTextParts, type TextOptions, type TextState } from "./text-parts.ts";
import { TextReader } from "./text-search.ts";

/** Records of a restored index between two checks of the clock. */
const recordsPerLook = 16_384;

/** Names of a text that are looked up at a step: each new one can copy a block of the dictionary that a checkpoint holds. */
const namesPerStep = 128;

export class TextIndex implements Index {
  readonly #parts: OwnedTextParts;
  /** What searches of this thread go through. */
  readonly reader: TextReader;
  /** Records that are current and have a term, and the sum of their lengths. */
  #documents = 0;
  #totalLength = 0;

  constructor(options: TextOptions) {
    this.#parts = new OwnedTextParts(options);
    this.reader = new TextReader(this.#parts);
  }

  /** What texts and queries go through. */
  get analyzer(): Analyzer {
    return this.#parts.analyzer;
  }

  /** What another thread needs to read the index as it is now (TextReader.attach). */
  get shared(): SharedText {
    return this.#parts.shared;
  }

  get count(): number {
    return this.#parts.postings.count;
  }

  has(ordinal: number): boolean {
    return this.#parts.postings.has(ordinal);
  }

  // ---- Changing

  /** Adds a record: the words of its text, as `tokenize` makes them. One without terms is held, and counts nowhere. */
  add(ordinal: number, words: readonly string[]): void {
    const { vocabulary, positions, forms } = this.#parts;
    const counted = vocabulary.count(words);
    const { numbers, frequencies } = counted;
    if (positions !== null) {
      const places = vocabulary.placesOf(words);
      positions.set(
        ordinal,
        numbers,
        frequencies,
        numbers.flatMap((number) => places.get(number) as number[]),
      );
    }
    forms?.add(ordinal, counted.forms);
    this.#add(ordinal, counted.length, numbers, frequencies);
  }

  /** Prepares a part of the next record; returns whether `addAnalysed` has little left to do. */
  prepareAnalysed(texts: AnalysedReader): boolean {
    const { vocabulary, forms } = this.#parts;
    const formNumberOf = (form: string) => forms?.numberOf(form) ?? 0;
    return texts.learn(vocabulary.forgets, (term) => vocabulary.numberOf(term), formNumberOf, namesPerStep);
  }

  /** Adds the next record of texts that were analysed in another thread with the same `analyzer`, and advances. */
  addAnalysed(texts: AnalysedReader): void {
    const { vocabulary, positions, forms } = this.#parts;
    const { ordinal, length, frequencies } = texts;
    const numbers = texts.numbers(vocabulary.forgets, (term) => vocabulary.numberOf(term));
    positions?.set(ordinal, numbers, frequencies, texts.places);
    forms?.add(
      ordinal,
      texts.formNumbers(vocabulary.forgets, (form) => forms.numberOf(form)),
    );
    this.#add(ordinal, length, numbers, frequencies);
    texts.next();
  }

  #add(ordinal: number, length: number, numbers: readonly number[], frequencies: ArrayLike<number>): void {
    invariant(
      length >= 0 && (length > 0 || numbers.length === 0),
      () => `ordinal ${ordinal} has ${numbers.length} terms and the length ${length}`,
    );
    invariant(
      numbers.length === frequencies.length,
      () => `ordinal ${ordinal} has ${numbers.length} terms with ${frequencies.length} frequencies`,
    );
    if (length > 0) this.#documents++;
    this.#totalLength += length;
    this.#parts.postings.add(ordinal, length, numbers, frequencies, averageOf(this.statistics()));
    if (this.#parts.areRowsFull) this.#parts.postings.beginFreezing();
    this.#parts.freezeRows();
  }

  /** The record no longer counts in `statistics`; versions that see it find it as before. */
  retire(ordinal: number): void {
    const { postings } = this.#parts;
    if (!postings.has(ordinal) || postings.isRetired(ordinal)) return;
    postings.retire(ordinal);
    const length = postings.reader.lengthOf(ordinal);
    if (length > 0) this.#documents--;
    this.#totalLength -= length;
    invariant(
      this.#documents >= 0 && this.#totalLength >= this.#documents,
      () => `${this.#documents} current documents have ${this.#totalLength} terms`,
    );
  }

  remove(ordinal: number): void {
    if (!this.has(ordinal)) return;
    const { vocabulary, postings, positions, forms } = this.#parts;
    this.retire(ordinal);
    positions?.rows.delete(ordinal);
    if (forms?.remove(ordinal)) vocabulary.forgetNumbers();
    postings.remove(ordinal);
  }

  /** N and the sum of lengths of the records that are current now and have a term. */
  statistics(): TextStatistics {
    return { documents: this.#documents, totalLength: this.#totalLength };
  }

  // ---- Memory and checkpoints

  /** Continues background work for about this many postings; returns whether there is more. */
  tidy(postings: number, leisure?: Leisure): boolean {
    const isMore = this.#parts.postings.tidy(postings, leisure);
    this.#parts.freezeRows();
    return isMore;
  }

  get memoryBytes(): number {
    return this.#parts.memoryBytes;
  }

  get restoredBytes(): number {
    return this.#parts.restoredBytes;
  }

  /** The cached terms of words, which can be computed again. */
  get spareBytes(): number {
    return this.#parts.vocabulary.spareBytes;
  }

  giveUp(): void {
    this.#parts.vocabulary.forgetWords();
  }

  /** Records of segments that are new or closed since the last checkpoint of the index. */
  get changes(): number {
    return this.#parts.postings.changes;
  }

  /** Whether nothing is being merged. */
  get isIdle(): boolean {
    return this.#parts.postings.isIdle;
  }

  /** Records that `save` omits, because they are in no segment yet. */
  get bufferedCount(): number {
    return this.#parts.postings.bufferedCount;
  }

  /** Makes a segment of the mutable buffer, so that a checkpoint has all records. */
  freeze(): Steps<void> {
    return this.#parts.freeze();
  }

  /** What a checkpoint stores; see PostingIndex.save. */
  save(): CheckpointData<TextState> {
    return this.#parts.save();
  }

  /**
   * Restores an index from a checkpoint.
   * @param load fills the images with the checkpoint's bytes, in the order of `save`
   * @param task in whose time slices this is done
   */
  static async restored(
    options: TextOptions,
    state: TextState,
    load: (images: Uint8Array[]) => Promise<void>,
    task: Task,
  ): Promise<TextIndex> {
    const index = new TextIndex(options);
    await index.#parts.restore(state, load, task);
    const { postings } = index.#parts;
    let records = 0;
    for (const [, length] of postings.parts.records()) {
      if (length > 0) index.#documents++;
      index.#totalLength += length;
      if (++records % recordsPerLook === 0) await task.pause();
    }
    postings.averageLength = averageOf(index.statistics());
    for (const ordinal of state.postings.retired) {
      index.remove(ordinal);
      await task.pause();
    }
    return index;
  }

  close(): void {
    this.#parts.close();
    this.#documents = 0;
    this.#totalLength = 0;
  }

  check(): void {
    this.#parts.check();
    const { postings } = this.#parts;
    let documents = 0;
    let totalLength = 0;
    for (const [ordinal, length] of postings.parts.records()) {
      if (postings.isRetired(ordinal) || length === 0) continue;
      documents++;
      totalLength += length;
    }
    invariant(
      documents === this.#documents && totalLength === this.#totalLength,
      `${documents} documents have ${totalLength} terms, counted were ${this.#documents} and ${this.#totalLength}`,
    );
  }

  /** How often each record that is held has each of its terms, in steps; see check.ts. */
  frequencies(onTerm: (term: string, ordinal: number, tf: number) => void): Generator<void, boolean> {
    return postingsOf(this.#parts.postings.parts, (number, ordinal, tf) =>
      onTerm(this.#parts.dictionary.termOf(number), ordinal, tf),
    );
  }
}
