// What must the rest of the engine know about text indexes?

import type { TextIndex as TextDefinition } from "@quiverdb/protocol/shapes/index-definition";
import { host } from "../../base/host.ts";
import { createAnalyzer } from "../../text/analyzer.ts";
import { ask } from "../builders.ts";
import type { IndexedCollection, IndexSize, Kind, Population } from "../kind.ts";
import { invertedCheckpoints } from "../postings/checkpoint-adapter.ts";
import { mix } from "../postings/posting-hash.ts";
import { postingFormat } from "../postings/segment-layout.ts";
import { countsOf, sizeBy, TermSample } from "../postings/term-sample.ts";
import { AnalysedReader } from "./analysed-reader.ts";
import type { SharedText } from "./attached-text.ts";
import { defineTextIndex } from "./definition.ts";
import { hashOf } from "./dictionary-reader.ts";
import { type TextLeg, TextLegs } from "./legs.ts";
import { textBytes } from "./memory.ts";
import { wordsOf } from "./stored-text.ts";
import { textAnalysis } from "./tasks.ts";
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
