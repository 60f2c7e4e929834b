// Which task does a text index give to builders? The analysis of the texts of many records.

import type { TextLanguage } from "@quiverdb/protocol/shapes/index-definition";
import { lenientText } from "../../base/bytes.ts";
import { invariant } from "../../base/invariant.ts";
import { finishAtOnce, type Steps } from "../../base/steps.ts";
import { type Analyzer, createAnalyzer } from "../../text/analyzer.ts";
import { processedText, tokenizeInSteps, tokenizeProcessed } from "../../text/tokenize.ts";
import type { Task, TextOf } from "../builders.ts";
import type { StoredText, StoredTextBytes } from "../contract.ts";
import type { StoredRecords } from "../kind.ts";
import { type AnalysedTexts, analyseTexts, buffersOf } from "./analysed.ts";
import { KnownWords } from "./known-words.ts";

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
    const { analyzer, words } = knownWords(language, stopWords);
    return yield* analyseTexts(analyzer, words, wordsOfRecords(records, textOf), hasPositions);
  },
  handedOver: ({ records }) => [records.bytes.buffer as ArrayBuffer],
  handedBack: buffersOf,
};

function* wordsOfRecords(
  { ordinals, ends, bytes }: StoredRecords,
  textOf: TextOf,
): Generator<[ordinal: number, words: Steps<Uint8Array>]> {
  for (let i = 0, begin = 0; i < ordinals.length; begin = ends[i++]) {
    const text = textOf(bytes.subarray(begin, ends[i]));
    if (text !== null) yield [ordinals[i], processed(text)];
  }
}

/** The words of a text in UTF-8, with a space between. */
function* processed({ kind, bytes }: StoredTextBytes): Steps<Uint8Array> {
  return kind === "processed" ? bytes : yield* processedText(lenientText(bytes));
}

/** The words that this thread knows, by language and stop words; a thread has few of them at a time. */
const known = new Map<string, { readonly analyzer: Analyzer; readonly words: KnownWords }>();
const knownMax = 4;

function knownWords(language: TextLanguage, stopWords: readonly string[] | null) {
  const key = [language, ...(stopWords ?? [""])].join("\n");
  let found = known.get(key);
  if (found === undefined || found.words.isFull) {
    const analyzer = createAnalyzer(language, stopWords);
    found = { analyzer, words: new KnownWords(analyzer) };
  }
  // The last one that was used is the last one in order.
  known.delete(key);
  known.set(key, found);
  for (const [first] of known) if (known.size > knownMax) known.delete(first);
  return found;
}

// ---- Which words does a stored text have?

/** The words, as `tokenize` makes them. */
export function wordsOf({ kind, value }: StoredText): string[] {
  return kind === "raw" ? finishAtOnce(tokenizeInSteps(value)) : tokenizeProcessed(value);
}
