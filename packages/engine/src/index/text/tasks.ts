// Which task does a text index give to builders? The analysis of the texts of many records.

import type { TextLanguage } from "@quiverdb/protocol/shapes/index-definition";
import { invariant } from "../../base/invariant.ts";
import type { Steps } from "../../base/steps.ts";
import { createAnalyzer } from "../../text/analyzer.ts";
import type { Task, TextOf } from "../builders.ts";
import type { StoredRecords } from "../kind.ts";
import { type AnalysedTexts, analyseTexts, buffersOf } from "./analysed.ts";
import { wordsInSteps } from "./stored-text.ts";

type TextAnalysis = {
  readonly records: StoredRecords;
  readonly language: TextLanguage;
  readonly stopWords: readonly string[] | null;
  readonly hasPositions: boolean;
};

export const textAnalysis: Task<TextAnalysis, AnalysedTexts> = {
  name: "text analysis",
  *run({ records, language, stopWords, hasPositions }, _, textOf) {
    invariant(textOf !== undefined, "texts are analysed where records cannot be read");
    return yield* analyseTexts(createAnalyzer(language, stopWords), wordsOf(records, textOf), hasPositions);
  },
  handedOver: ({ records }) => [records.bytes.buffer as ArrayBuffer],
  handedBack: buffersOf,
};

function* wordsOf(
  { ordinals, ends, bytes }: StoredRecords,
  textOf: TextOf,
): Generator<[ordinal: number, words: Steps<string[]>]> {
  for (let i = 0, begin = 0; i < ordinals.length; begin = ends[i++]) {
    const text = textOf(bytes.subarray(begin, ends[i]));
    if (text !== null) yield [ordinals[i], wordsInSteps(text)];
  }
}
