// Which words do runs of scripts without spaces consist of?
//
// Thai, Lao, Khmer and Myanmar: what the dictionaries of Intl.Segmenter find.

import { widthAt } from "./character-classes.ts";
import { tidied } from "./signs.ts";

/** A run of a script without spaces, and the number of other words before it. */
export type Run = { readonly text: string; readonly place: number };

/** Code units per call of the segmenter. Longer runs are cut; real text has punctuation long before. */
const segmenterUnits = 4_096;
/** The locale is fixed, so that all machines agree; the dictionaries are the same for all locales. */
const segmenter = new Intl.Segmenter("en", { granularity: "word" });
const hasLetter = /[\p{L}\p{N}]/u;

/** Adds a run. @param place the number of other words before it */
export function addRun(runs: Run[], text: string, place: number): void {
  for (let at = 0; at < text.length; ) {
    let end = Math.min(text.length, at + segmenterUnits);
    if (end < text.length && widthAt(text, end - 1) === 2) end--;
    runs.push({ text: text.slice(at, end), place });
    at = end;
  }
}

/** The other words, with the words of the runs inserted. */
export function withWordsOf(runs: readonly Run[], others: readonly string[]): string[] {
  const found: string[] = [];
  let taken = 0;
  for (let at = 0; at < runs.length; ) {
    // A call of the segmenter costs 10 microseconds, so it gets many runs at a time, each on a line of its own.
    const first = at;
    let units = 0;
    while (at < runs.length && units < segmenterUnits) units += runs[at++].text.length + 1;
    const lines = runs.slice(first, at).map((run) => run.text);
    let line = first;
    for (; taken < runs[line].place; taken++) found.push(others[taken]);
    for (const { segment: piece } of segmenter.segment(lines.join("\n"))) {
      if (piece === "\n") for (line++; taken < runs[line].place; taken++) found.push(others[taken]);
      else if (hasLetter.test(piece)) found.push(tidied(piece));
    }
  }
  for (; taken < others.length; taken++) found.push(others[taken]);
  return found;
}
