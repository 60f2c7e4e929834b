// Which words does a stored text have?

import { finishAtOnce, type Steps } from "../../base/steps.ts";
import { segmentInSteps, segmentProcessed } from "../../text/segment.ts";
import type { StoredText } from "../kind.ts";

/** The words, as `segment` makes them. */
export function wordsOf(text: StoredText): string[] {
  return finishAtOnce(wordsInSteps(text));
}

/** `wordsOf`, in steps. */
export function* wordsInSteps({ kind, value }: StoredText): Steps<string[]> {
  return kind === "raw" ? yield* segmentInSteps(value) : segmentProcessed(value);
}
