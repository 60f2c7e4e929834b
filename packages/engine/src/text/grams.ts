// Which terms does a run of Chinese, Japanese or Korean have?
//
// There are no spaces between its words, or in Korean none between a word and its particles, and dictionaries part a text
// and a query differently: 東京 was not found in 東京タワー. So a run is taken apart the same way everywhere. Each
// character has a place of its own, and
//
//   東京タワー in a text    has each character, and each two neighbours: 東 東京 京 京タ タ タワ ワ ワー ー
//   東京タワー in a query   asks for the neighbours: 東京 京タ タワ ワー
//   東 in a query          asks for the character
//
// so that a text that has what is asked for is always found, and best where it stands together. These are the overlapping
// bigrams of Lucene's CJKBigramFilter with its `outputUnigrams`, in texts; what dictionaries know was measured to be no
// better in docs/decisions/text-analysis.md.

import { fold } from "./fold.ts";

const gramCharacter = /[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{Script=Hangul}]/u;

/** Whether a letter, digit or mark is of a script that is taken apart. */
export function isGramCharacter(character: string): boolean {
  return gramCharacter.test(character);
}

/** Whether a word, as `tokenize` makes them, is a run: its first character tells, for runs and other words do not mix. */
export function isRun(word: string): boolean {
  // No such character comes before the Hangul letters.
  return (
    word.charCodeAt(0) >= 0x1100 && gramCharacter.test(String.fromCodePoint(word.codePointAt(0) as number))
  );
}

/** A piece of a run, and the place of its first character in the run. */
export type Gram = { readonly gram: string; readonly at: number };

/** The characters of a run, each with its marks. */
export function lettersOf(run: string): string[] {
  return run.match(/\P{M}\p{M}*|^\p{M}+/gu) ?? [];
}

/** How many places a run takes. */
export function placesOfRun(run: string): number {
  return lettersOf(fold(run)).length;
}

/** What a text has of a run. @param letters of the run */
export function gramsOfText(letters: readonly string[]): Gram[] {
  return letters.flatMap((letter, at) => {
    const single = { gram: letter, at };
    return at + 1 < letters.length ? [single, { gram: letter + letters[at + 1], at }] : [single];
  });
}

/** What a query asks for of a run. @param letters of the run */
export function gramsOfQuery(letters: readonly string[]): Gram[] {
  if (letters.length === 1) return [{ gram: letters[0], at: 0 }];
  return letters.slice(1).map((letter, at) => ({ gram: letters[at] + letter, at }));
}
