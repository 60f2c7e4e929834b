// What must the rest of the engine know about text indexes?

import { checkFields } from "@quiverdb/protocol/fields";
import { kindOf } from "@quiverdb/protocol/kind-of";
import { limits } from "@quiverdb/protocol/limits";
import {
  CreateTextIndex,
  indexNames,
  type TextIndex as TextDefinition,
  textLanguages,
} from "@quiverdb/protocol/shapes/index-definition";
import { bytesBeyond } from "../../base/bytes.ts";
import { blockBytes } from "../../base/growable.ts";
import { host } from "../../base/host.ts";
import { canonicalStopWord, createAnalyzer } from "../../text/analyzer.ts";
import { ask } from "../builders.ts";
import { invalid, nameOf, oneOf, requireEnabled, sampleThreshold } from "../definition-checks.ts";
import { mix } from "../inverted/check.ts";
import { invertedCheckpoints } from "../inverted/checkpoint-adapter.ts";
import { countsOf, type PostingCounts, postingBytes, sizeBy, TermSample } from "../inverted/memory.ts";
import { postingFormat } from "../inverted/segment-layout.ts";
import type { IndexedCollection, IndexSize, Kind, Population } from "../kind.ts";
import { AnalysedReader } from "./analysed.ts";
import { analyzeText } from "./analyze.ts";
import { countersBytes } from "./counters.ts";
import { hashOf } from "./dictionary-reader.ts";
import { type TextLeg, TextLegs, unitedText } from "./legs.ts";
import { textSearching } from "./searching.ts";
import { textAnalysis, wordsOf } from "./tasks.ts";
import type { SharedText } from "./term-reader.ts";
import { TextIndex } from "./text-index.ts";
import type { TextOptions, TextState } from "./text-parts.ts";
import { TextReader } from "./text-search.ts";

/** Increase `number` when the terms of a text change: older checkpoints are then ignored. The runtime's character tables count too. */
const analysisFormat = () => ({ number: 2, ...host.characterTables });

function analysisOf({ language, stop_words, positions }: TextDefinition) {
  return { language: language ?? "english", stopWords: stop_words ?? null, hasPositions: positions ?? false };
}

function estimate(_collection: IndexedCollection, definition: TextDefinition, of: Population): IndexSize {
  const { language, stopWords, hasPositions } = analysisOf(definition);
  const analyzer = createAnalyzer(language, stopWords);
  const terms = new TermSample();
  const forms = new TermSample();
  for (const { text } of of.sample()) {
    if (text === null) continue;
    const words = wordsOf(text);
    if (analyzer.hasForms)
      forms.add(words.map((word) => analyzer.of(word).form).filter((form) => form !== ""));
    terms.add(analyzer.terms(words));
  }
  return sizeBy(of.counts.text, (records) =>
    textBytes({
      ...countsOf(terms, records),
      allTerms: terms.termsOf(records),
      characters: terms.charactersOf(records),
      places: hasPositions ? (terms.places * records) / Math.max(1, terms.records) : 0,
      forms: analyzer.hasForms ? formCounts(forms, records) : undefined,
    }),
  );
}

function formCounts(forms: TermSample, records: number) {
  return {
    all: forms.termsOf(records),
    characters: forms.charactersOf(records),
    postings: (forms.postings * records) / Math.max(1, forms.records),
  };
}

const termHash = (term: string, tf: number): number => mix(hashOf(term), tf);

export const textKind: Kind<TextDefinition, TextIndex, TextState, AnalysedReader, TextReader> = {
  name: "tf-idf",
  define: defineTextIndex,
  table: "records",
  countOf: ({ text }) => text,
  blueprint(_collection, definition, { mayTake, retire }) {
    const { language, stopWords, hasPositions: positions } = analysisOf(definition);
    const { k1, b } = definition;
    const deciding = { language, stopWords, k1, b, positions };
    const options: TextOptions = { ...deciding, mayTake, retire };
    return {
      make: () => new TextIndex(options),
      checkpoint: invertedCheckpoints((state, load, task) => TextIndex.restored(options, state, load, task)),
      deciding: { postingFormat, analysisFormat: analysisFormat(), ...deciding },
    };
  },
  add(index, ordinal, _bytes, content) {
    const { text } = content();
    if (text !== null) index.add(ordinal, wordsOf(text));
  },
  preparation: (definition) => ({
    async prepare(builders, records) {
      return new AnalysedReader(await ask(builders, textAnalysis, { records, ...analysisOf(definition) }));
    },
    enter(index, texts) {
      if (!index.prepareAnalysed(texts)) return false;
      index.addAnalysed(texts);
      return true;
    },
  }),
  estimate,
  descriptor: (index) => index.shared,
  attach: (descriptor, slot) => TextReader.attach(descriptor as SharedText, slot),
  search: (reader, legs, version, options) =>
    new TextLegs(reader, legs as readonly TextLeg[], version, options),
  unite: (leg, told) => unitedText(leg as TextLeg, told as Parameters<typeof unitedText>[1]),
  searching: textSearching,
  analyze: analyzeText,
  growth: (recordBytes, records, otherBytes) => Math.max(records * recordBytes, otherBytes),
  status: () => ({ served_by: "inverted" }),
  postings: (index) => ({
    walk: (add) => index.frequencies((term, ordinal, tf) => add(ordinal, termHash(term, tf))),
    *hashesOf({ text }) {
      if (text === null) return;
      const frequencies = new Map<string, number>();
      index.analyzer.read(wordsOf(text), (term) => frequencies.set(term, (frequencies.get(term) ?? 0) + 1));
      for (const [term, tf] of frequencies) yield termHash(term, tf);
    },
  }),
};

// ---- Is the definition of a text index complete and possible, and what are its defaults?

/** The definition with all defaults filled in. @throws unknown_field, invalid_request, modality_not_enabled */
function defineTextIndex(collection: IndexedCollection, given: CreateTextIndex): TextDefinition {
  checkFields(CreateTextIndex, given);
  requireEnabled(collection.text, "tf-idf", "text search");
  const name = nameOf(given.name, indexNames["tf-idf"]);
  const { language, stop_words, positions } = given;
  const k1 = given.k1 ?? limits.k1Default;
  const b = given.b ?? limits.bDefault;
  if (typeof k1 !== "number" || !(k1 >= 0 && k1 <= 1000))
    throw invalid("k1", `is ${k1}; expected a number from 0 to 1000.`);
  if (typeof b !== "number" || !(b >= 0 && b <= 1))
    throw invalid("b", `is ${b}; expected a number from 0 to 1.`);
  oneOf(language ?? "english", textLanguages, "language");
  if (typeof (positions ?? false) !== "boolean")
    throw invalid("positions", `is ${kindOf(positions)}; expected true or false.`);
  return {
    name,
    sample_threshold: sampleThreshold(given),
    k1,
    b,
    language: language ?? "english",
    positions: positions ?? false,
    ...(stop_words != null && { stop_words: checkStopWords(stop_words) }),
  };
}

/** A copy of the list as it was given. */
function checkStopWords(words: readonly unknown[]): string[] {
  if (!Array.isArray(words)) throw invalid("stop_words", "must be an array of words.");
  if (words.length > limits.stopWordsMax)
    throw invalid("stop_words", `has ${words.length} words, at most ${limits.stopWordsMax} are allowed.`);
  // A loop, for array methods skip the holes that an array in the same process can have.
  for (let i = 0; i < words.length; i++) {
    const problem = stopWordProblem(words[i]);
    if (problem !== null)
      throw invalid(
        `stop_words[${i}]`,
        `${problem}; expected one word of 1 to ${limits.stopWordBytesMax} bytes of UTF-8.`,
      );
  }
  return words.slice();
}

function stopWordProblem(word: unknown): string | null {
  if (typeof word !== "string") return `is ${kindOf(word)}`;
  if (!word.isWellFormed()) return "has half of a surrogate pair, which UTF-8 cannot hold";
  const bytes = bytesBeyond(word, limits.stopWordBytesMax);
  if (bytes > 0) return `has ${bytes} bytes`;
  const canonical = canonicalStopWord(word);
  if (canonical === "") return "has no letter or digit";
  // What texts have as several words would never be found in one.
  const words = canonical.split(" ").length;
  return words === 1 ? null : `is ${words} words`;
}

// ---- How much memory will a text index take?

type TextCounts = PostingCounts & {
  /** Different terms of all records, and the characters of them. */
  readonly allTerms: number;
  readonly characters: number;
  /** Positions of terms, if the index stores them; otherwise 0. */
  readonly places: number;
  /** Counts of words that differ from their term, if they are stored: distinct ones, their characters, and the total over all records. */
  readonly forms?:
    | { readonly all: number; readonly characters: number; readonly postings: number }
    | undefined;
};

/** Columns of the dictionary grow by a quarter, up to the end of a block: on the average an eighth of that is unused. */
const grown = (bytes: number): number => bytes + Math.min(bytes, blockBytes) / 8;

const powerOfTwo = (count: number, least: number): number =>
  Math.max(least, 2 ** Math.ceil(Math.log2(Math.max(1, count))));

const termsMin = 1_024;

/** Bytes of a text index with such postings that has nothing left to merge, but for the words that it remembers. */
function textBytes(counts: TextCounts): number {
  const { allTerms, characters, records, postings, places, forms } = counts;
  const positions = places === 0 ? 0 : rowBytes(records, postings, allTerms) + postings + places;
  return (
    postingBytes(true, counts) + columnBytes(allTerms, characters) + positions + formBytes(records, forms)
  );
}

/** Bytes of a dictionary, and of two numbers for each of its terms. */
function columnBytes(terms: number, characters: number): number {
  const slots = 4 * powerOfTwo(2 * terms, termsMin);
  const words = grown(4 * Math.max(termsMin, terms));
  const lengths = grown(2 * Math.max(termsMin, terms));
  const units = grown(2 * Math.max(8 * termsMin, characters));
  return slots + 2 * words + lengths + units + 2 * countersBytes(terms);
}

/** Of rows (term-rows.ts) that have numbers of ascending terms: each as its distance from the one before. */
function rowBytes(records: number, postings: number, terms: number): number {
  const distance = (terms * records) / Math.max(1, postings);
  return 9 * records + postings * (distance < 64 ? 1 : distance < 512 ? 1.5 : 2);
}

function formBytes(records: number, forms: TextCounts["forms"]): number {
  if (forms === undefined) return 0;
  return columnBytes(forms.all, forms.characters) + rowBytes(records, forms.postings, forms.all);
}
