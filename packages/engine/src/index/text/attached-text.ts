// How does another thread read a text index?
//
// The owner describes its parts as they are at a moment (`SharedText`), and posts that; the thread attaches them. The parts keep
// everything about the records that the thread's version sees: see attached-parts.ts, dictionary-reader.ts, forms-reader.ts and rows-reader.ts.

import type { TextLanguage } from "@quiverdb/protocol/shapes/index-definition";
import { type Analyzer, createAnalyzer } from "../../text/analyzer.ts";
import { attachOnce } from "../attached.ts";
import { attachPostings, type SharedParts } from "../postings/attached-parts.ts";
import type { PostingIndex } from "../postings/posting-index.ts";
import { Bm25 } from "./bm25.ts";
import { AttachedDictionary, type DictionaryReader, type SharedDictionary } from "./dictionary-reader.ts";
import { AttachedForms, type FormsReader, type SharedForms } from "./forms-reader.ts";
import { PositionsReader } from "./positions.ts";
import { RowsReader, type SharedRows } from "./rows-reader.ts";

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

/** The parts of the index of another thread. @param slot of this thread */
export function attachText(shared: SharedText, slot: number): TextParts {
  const { id, language, stopWords, k1, b, positions, forms } = shared;
  return {
    analyzer: attachOnce(id, slot, () => createAnalyzer(language, stopWords)),
    bm25: new Bm25(k1, b),
    dictionary: new AttachedDictionary(shared.dictionary),
    postings: attachPostings(shared.postings, slot),
    positions: positions && new PositionsReader(new RowsReader(positions)),
    forms: forms && new AttachedForms(forms),
  };
}
