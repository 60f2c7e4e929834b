// What does a text index consist of, and what of it does a checkpoint store?
//
//   analyzer     words -> terms and forms
//   vocabulary   term -> number
//   postings     number of a term -> the records that have it, and how often
//   positions    record -> where its text has its terms; null where the index keeps none
//   forms        which words differ from their term; null where the language has no stemmer
//
// The writer (text-index.ts) changes the parts. Searches of its thread go through the same parts (text-search.ts), those of other threads
// through `shared` (term-reader.ts). Rows of positions and forms are frozen with the postings of their records, so that a checkpoint has all three.

import type { TextLanguage } from "@quiverdb/protocol/shapes/index-definition";
import { invariant } from "../../base/invariant.ts";
import type { Task } from "../../base/scheduler.ts";
import { nextMemoryId } from "../../base/shared-memory.ts";
import type { Steps } from "../../base/steps.ts";
import { type Analyzer, createAnalyzer } from "../../text/analyzer.ts";
import type { ArenaOptions } from "../inverted/arena.ts";
import { postingsOf, usesOfTerms } from "../inverted/check.ts";
import type { CheckpointData } from "../inverted/checkpoint-data.ts";
import { PostingIndex, type PostingOptions, type PostingState } from "../inverted/posting-index.ts";
import { Bm25 } from "./bm25.ts";
import { Dictionary, type DictionaryState } from "./dictionary.ts";
import { Forms, type FormsState } from "./forms.ts";
import { FrozenTermRows, imagesFor } from "./frozen-term-rows.ts";
import { Positions, type PositionsState } from "./positions.ts";
import type { SharedText, TextParts } from "./term-reader.ts";
import { TermRows } from "./term-rows.ts";
import { Vocabulary } from "./vocabulary.ts";

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
  /** Less for tests, see buffers.ts. */
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

/** Quantized impacts are bytes. */
const levels = 255;

export class OwnedTextParts implements TextParts {
  readonly analyzer: Analyzer;
  readonly bm25: Bm25;
  readonly vocabulary: Vocabulary;
  postings: PostingIndex;
  positions: Positions | null;
  forms: Forms | null;
  readonly #id = nextMemoryId();
  readonly #scoring: Pick<SharedText, "language" | "stopWords" | "k1" | "b">;
  readonly #postingOptions: PostingOptions;

  constructor({ language, stopWords = null, k1, b, positions = false, ...options }: TextOptions) {
    this.#scoring = { language, stopWords, k1, b };
    this.analyzer = createAnalyzer(language, stopWords);
    const bm25 = new Bm25(k1, b);
    this.bm25 = bm25;
    this.positions = positions ? new Positions() : null;
    this.forms = this.analyzer.hasForms ? new Forms() : null;
    const vocabulary = new Vocabulary(this.analyzer, () => this.forms);
    this.vocabulary = vocabulary;
    this.#postingOptions = {
      ...options,
      isText: true,
      levels,
      formulaOf: (averageLength) => bm25.formula(averageLength),
      onTermUsed: (term) => vocabulary.use(term),
      onTermUnused: (term) => vocabulary.unuse(term),
    };
    this.postings = new PostingIndex(this.#postingOptions);
  }

  get dictionary(): Dictionary {
    return this.vocabulary.dictionary;
  }

  /** What another thread needs to read the index as it is now (TextReader.attach). */
  get shared(): SharedText {
    return {
      id: this.#id,
      ...this.#scoring,
      dictionary: this.dictionary.shared,
      postings: this.postings.shared,
      positions: this.positions?.rows.shared ?? null,
      forms: this.forms?.shared ?? null,
    };
  }

  /** Whether the rows that are not frozen take too much memory. */
  get areRowsFull(): boolean {
    return this.positions?.rows.isFull === true || this.forms?.rows.isFull === true;
  }

  /** Makes a segment of the mutable buffer, so that a checkpoint has all records. */
  *freeze(): Steps<void> {
    yield* this.postings.freeze();
    this.freezeRows();
  }

  /** Freezes the rows of the records that are in segments now. */
  freezeRows(): void {
    this.positions?.rows.freeze(this.postings.frozenEnd);
    this.forms?.rows.freeze(this.postings.frozenEnd);
  }

  get memoryBytes(): number {
    const rows = (this.positions?.rows.memoryBytes ?? 0) + (this.forms?.memoryBytes ?? 0);
    return this.postings.memoryBytes + this.vocabulary.memoryBytes + rows;
  }

  get restoredBytes(): number {
    const rows = (this.positions?.rows.restoredBytes ?? 0) + (this.forms?.restoredBytes ?? 0);
    return this.postings.restoredBytes + this.vocabulary.restoredBytes + rows;
  }

  /** What a checkpoint stores; see PostingIndex.save. */
  save(): CheckpointData<TextState> {
    const postings = this.postings.save();
    const dictionary = this.dictionary.save();
    // A removal can have frozen the last records.
    this.freezeRows();
    const positions = this.positions?.rows.save(postings.state.end);
    const forms = this.forms?.save(postings.state.end);
    return {
      state: {
        postings: postings.state,
        dictionary: dictionary.state,
        positions: positions?.state ?? null,
        forms: forms?.state ?? null,
      },
      images: [
        ...dictionary.images,
        ...(positions?.images ?? []),
        ...(forms?.images ?? []),
        ...postings.images,
      ],
      done(isCheckpointed) {
        dictionary.done();
        forms?.done();
        postings.done(isCheckpointed);
      },
    };
  }

  /**
   * Takes over the parts of a checkpoint.
   * @param load fills the images with the checkpoint's bytes, in the order of `save`
   * @param task in whose time slices this is done
   */
  async restore(state: TextState, load: (images: Uint8Array[]) => Promise<void>, task: Task): Promise<void> {
    invariant(
      (state.positions === null) === (this.positions === null) &&
        (state.forms === null) === (this.forms === null),
      "the checkpoint was written with other positions or forms",
    );
    const columns = Dictionary.imagesFor(state.dictionary);
    const rows = state.positions === null ? [] : imagesFor(state.positions);
    const forms = state.forms === null ? [] : Forms.imagesFor(state.forms);
    this.vocabulary.reserve(state.dictionary);
    const loadAll = (images: Uint8Array[]) => load([...columns, ...rows, ...forms, ...images]);
    this.postings = await PostingIndex.restored(this.#postingOptions, state.postings, loadAll, task);
    if (state.positions !== null)
      this.positions = new Positions(new TermRows(FrozenTermRows.restored(state.positions, rows)));
    if (state.forms !== null) this.forms = await task.finish(Forms.restored(state.forms, forms));
    await task.finish(this.vocabulary.restore(Dictionary.restored(state.dictionary, columns)));
  }

  close(): void {
    this.postings.close();
    this.vocabulary.close();
    this.positions?.rows.close();
    this.forms?.close();
  }

  /** Proves that each part is sound, and that the parts agree about every record. */
  check(): void {
    this.postings.check();
    this.vocabulary.check(usesOfTerms(this.postings.parts));
    const frequencies = new Map<number, number>();
    const walk = postingsOf(this.postings.parts, (_term, ordinal, tf) =>
      frequencies.set(ordinal, (frequencies.get(ordinal) ?? 0) + tf),
    );
    while (!walk.next().done);
    let records = 0;
    for (const [ordinal, length] of this.postings.parts.records()) {
      records++;
      const occurrences = frequencies.get(ordinal) ?? 0;
      const positions = this.positions?.checkRow(ordinal) ?? occurrences;
      invariant(
        positions === occurrences,
        `ordinal ${ordinal} has ${positions} positions of ${occurrences} occurrences`,
      );
      invariant(length > 0 || occurrences === 0, `ordinal ${ordinal} has terms, and no length`);
    }
    this.positions?.rows.check(records);
    this.forms?.check();
  }
}
