// Which terms does a text index make of a text?

import type { TextAnalysis, TextIndex } from "@quiverdb/protocol/shapes/index-definition";
import type { Steps } from "../../base/steps.ts";
import { createAnalyzer } from "../../text/analyzer.ts";
import { isRun, placesOfRun } from "../../text/grams.ts";
import { tokenizeInSteps } from "../../text/tokenize.ts";
import { checkText } from "./searching.ts";

/** Words that are analysed at a step. */
const wordsPerStep = 1_024;

/** All words of a text, in order. @param definition called when the text is valid. @throws invalid_request */
export function* analyzeText(text: unknown, definition: () => TextIndex): Steps<TextAnalysis> {
  checkText(text, "text");
  const { language, stop_words } = definition();
  const analyzer = createAnalyzer(language ?? "english", stop_words);
  const words = yield* tokenizeInSteps(text);
  const terms: TextAnalysis["terms"] = [];
  let place = 0;
  for (let from = 0; from < words.length; from += wordsPerStep) {
    const some = words.slice(from, from + wordsPerStep);
    for (const each of analyzer.analyze(some)) terms.push({ ...each, position: place + each.position });
    for (const word of some) place += isRun(word) ? placesOfRun(word) : 1;
    yield;
  }
  return { language: language ?? "english", terms };
}
