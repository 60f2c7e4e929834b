// Which words does the text of a stored record have?

import { RecordReader } from "../collection/record.ts";
import { segment, segmentProcessed } from "../text/segment.ts";

/** The words, as `segment` makes them; null: the record has no text. */
export function wordsOf(stored: Uint8Array): string[] | null {
  const { text } = new RecordReader(stored);
  if (!text) return null;
  return text.kind === "raw" ? segment(text.value) : segmentProcessed(text.value);
}
