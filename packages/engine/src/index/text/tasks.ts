// Which task does a text index give to builders? The analysis of the texts of many records.

import type { TextLanguage } from "@quiverdb/protocol/shapes/index-definition";
import { invariant } from "../../base/invariant.ts";
import { finishAtOnce, type Steps } from "../../base/steps.ts";
import { createAnalyzer } from "../../text/analyzer.ts";
import { tokenizeInSteps, tokenizeProcessed } from "../../text/tokenize.ts";
import type { Task, TextOf } from "../builders.ts";
import type { StoredText } from "../contract.ts";
import type { StoredRecords } from "../kind.ts";
import { type AnalysedTexts, analyseTexts, buffersOf } from "./analysed.ts";

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
    return yield* analyseTexts(
      createAnalyzer(language, stopWords),
      wordsOfRecords(records, textOf),
      hasPositions,
    );
  },
  handedOver: ({ records }) => [records.bytes.buffer as ArrayBuffer],
  handedBack: buffersOf,
};

function* wordsOfRecords(
  { ordinals, ends, bytes }: StoredRecords,
  textOf: TextOf,
): Generator<[ordinal: number, words: Steps<string[]>]> {
  for (let i = 0, begin = 0; i < ordinals.length; begin = ends[i++]) {
    const text = textOf(bytes.subarray(begin, ends[i]));
    if (text !== null) yield [ordinals[i], wordsInSteps(text)];
  }
}

// ---- Which words does a stored text have?

/** The words, as `tokenize` makes them. */
export function wordsOf(text: StoredText): string[] {
  return finishAtOnce(wordsInSteps(text));
}

/** `wordsOf`, in steps. */
function* wordsInSteps({ kind, value }: StoredText): Steps<string[]> {
  return kind === "raw" ? yield* tokenizeInSteps(value) : tokenizeProcessed(value);
}
