// Which words does one stemmer join that another does not?
//
// The reference is the stemmer of a language on words as they are written, its stem folded. Two words that the reference joins
// and a term does not are *lost*; two that only the term joins, and that differ in more than marks, are *merged*.

import type { TextLanguage } from "@quiverdb/protocol/shapes/index-definition";
import snowball from "snowball-stemmers";
import { fold } from "../../src/text/fold.ts";
import { languages, respelt } from "../../src/text/languages.ts";

/** From a word in NFC and lower case to its stem. */
export type Stem = (word: string) => string;

/** Counts of pairs of words, both orders of two being one pair. */
export type JoinedPairs = {
  readonly byReference: number;
  readonly byTerm: number;
  /** Joined by the reference alone. */
  readonly lost: number;
  /** Joined by the term alone, other than words of one spelling but for marks. */
  readonly merged: number;
};

/** The language's stemmer, or undefined if it has none. It gets words as spelt by `respelt`. */
export function stemmerOf(name: TextLanguage): Stem | undefined {
  const { stemmer: algorithm, spellings } = languages[name];
  if (algorithm === undefined) return undefined;
  const stemmer = snowball.newStemmer(algorithm);
  return (word) => {
    const spelt = respelt(word, spellings ?? {});
    // Some stemmers leave nothing of a word that is all suffixes.
    return fold(stemmer.stem(spelt) || spelt);
  };
}

/** The distinct words of a list, in its order, in NFC and lower case. Words with fewer than two letters are left out. */
export function wordsOf(list: readonly string[]): string[] {
  const all = new Set(list.map((word) => word.trim().normalize("NFC").toLowerCase()));
  return [...all].filter((word) => /^\p{L}[\p{L}\p{M}]+$/u.test(word));
}

/** Compares two ways to stem, on different words. */
export function compareStems(words: readonly string[], reference: Stem, term: Stem): JoinedPairs {
  const joined = words.map((word) => [reference(word), term(word), fold(word)]);
  const byReference = pairs(joined.map(([stem]) => stem));
  const byTerm = pairs(joined.map(([, stem]) => stem));
  const byBoth = pairs(joined.map(([a, b]) => `${a} ${b}`));
  const byMarks =
    pairs(joined.map(([, , plain]) => plain)) - pairs(joined.map(([a, , plain]) => `${a} ${plain}`));
  return { byReference, byTerm, lost: byReference - byBoth, merged: byTerm - byBoth - byMarks };
}

/** Pairs of equal keys. */
function pairs(keys: readonly string[]): number {
  const counts = new Map<string, number>();
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  return [...counts.values()].reduce((sum, count) => sum + (count * (count - 1)) / 2, 0);
}
