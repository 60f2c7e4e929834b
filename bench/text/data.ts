// Which passages are searched, and with which queries?
//
// Two sets of the same passages and the same queries. All engines tokenize "words" in the same way: words of letters and digits in lower
// case, separated by spaces, without stemming and stop words, so that every exact engine finds what the reference implementation finds.
// "english" is the original text, with each engine's own analysis of English.

import { eng as commonWords } from "stopword";
import { randomNumbers } from "../../packages/kernels/src/random.ts";
import type { Shape } from "../engines/engine.ts";
import { missingPassages, passages, resampled } from "./passages.ts";

export const setNames = ["words", "english"] as const;
export type SetName = (typeof setNames)[number];

const languages: Readonly<Record<SetName, Shape["language"]>> = { words: "none", english: "english" };

export const titles: Readonly<Record<SetName, string>> = {
  words: "Words alone: no stems, no stop words",
  english: "English, as each engine analyses it",
};

const queryCount = 500;
const wordsPerQuery = { least: 2, most: 6 };
const seed = 44;

export type TextSet = {
  readonly name: SetName;
  readonly language: Shape["language"];
  readonly rows: readonly string[];
  readonly queries: readonly string[];
};

/** The reason why the sets cannot be read here; undefined if they can. */
export const missing = (): string | undefined => missingPassages();

const wordsAlone = (text: string): string => (text.toLowerCase().match(/[a-z0-9]+/g) ?? []).join(" ");

/**
 * Distinct words of one passage, in their order, without the most common ones, like the content words of real queries. The passages are
 * those of the dictionaries, independent of the number that is searched.
 */
function makeQueries(all: readonly string[]): string[] {
  const next = randomNumbers(seed);
  const below = (end: number): number => Math.floor(next() * end);
  const common = new Set(commonWords);
  const queries: string[] = [];
  while (queries.length < queryCount) {
    const words = wordsAlone(all[below(all.length)])
      .split(" ")
      .filter((word) => /^[a-z]{3,}$/.test(word) && !common.has(word));
    const content = [...new Set(words)];
    const wanted = wordsPerQuery.least + below(wordsPerQuery.most - wordsPerQuery.least + 1);
    if (content.length < wanted) continue;
    while (content.length > wanted) content.splice(below(content.length), 1);
    queries.push(content.join(" "));
  }
  return queries;
}

/** The set, or its first `rowsMax` passages; with more than the dictionaries have where that is more. */
export function readSet(name: SetName, rowsMax?: number): TextSet {
  const real = passages();
  const rows = rowsMax === undefined ? real : resampled(real, rowsMax);
  const isPlain = languages[name] === "none";
  return {
    name,
    language: languages[name],
    rows: isPlain ? rows.map(wordsAlone) : rows,
    queries: makeQueries(real),
  };
}
