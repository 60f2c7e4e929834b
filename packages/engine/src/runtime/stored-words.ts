// Which words does the text of a stored record have?

import { finishAtOnce, type Steps } from "../base/steps.ts";
import { RecordReader } from "../collection/record.ts";
import { segmentInSteps, segmentProcessed } from "../text/segment.ts";

/** The words, as `segment` makes them; null: the record has no text. */
export function wordsOf(stored: Uint8Array): string[] | null {
  return finishAtOnce(wordsInSteps(stored));
}

/** `wordsOf`, in steps. */
export function* wordsInSteps(stored: Uint8Array): Steps<string[] | null> {
  const { text } = new RecordReader(stored);
  if (!text) return null;
  return text.kind === "raw" ? yield* segmentInSteps(text.value) : segmentProcessed(text.value);
}
