// Which words does a stored text have?

import { finishAtOnce, type Steps } from "../../base/steps.ts";
import { tokenizeInSteps, tokenizeProcessed } from "../../text/tokenize.ts";
import type { StoredText } from "../contract.ts";

/** The words, as `tokenize` makes them. */
export function wordsOf(text: StoredText): string[] {
  return finishAtOnce(wordsInSteps(text));
}

/** `wordsOf`, in steps. */
export function* wordsInSteps({ kind, value }: StoredText): Steps<string[]> {
  return kind === "raw" ? yield* tokenizeInSteps(value) : tokenizeProcessed(value);
}
