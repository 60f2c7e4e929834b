// Which terms does a run of Chinese, Japanese or Korean have?
//
// There are no spaces between its words, or in Korean none between a word and its particles, and dictionaries segment a text and a query
// differently: 東京 was not found in 東京タワー. So every run is split in the same way. Each character has its own position, and
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

/** Whether a letter, digit or mark belongs to a script that is split into characters. */
export function isGramCharacter(character: string): boolean {
  return gramCharacter.test(character);
}

/** Whether a word from `tokenize` is a run: the first character decides, because runs and other words do not mix. */
export function isRun(word: string): boolean {
  // No such character precedes the Hangul letters.
  return (
    word.charCodeAt(0) >= 0x1100 && gramCharacter.test(String.fromCodePoint(word.codePointAt(0) as number))
  );
}

/** A piece of a run, and the position of its first character in the run. */
export type Gram = { readonly gram: string; readonly at: number };

/** The characters of a run, each with its marks. */
export function lettersOf(run: string): string[] {
  return run.match(/\P{M}\p{M}*|^\p{M}+/gu) ?? [];
}

/** The number of positions of a run. */
export function placesOfRun(run: string): number {
  return lettersOf(fold(run)).length;
}

/** The terms of a run in a text. @param letters of the run */
export function gramsOfText(letters: readonly string[]): Gram[] {
  return letters.flatMap((letter, at) => {
    const single = { gram: letter, at };
    return at + 1 < letters.length ? [single, { gram: letter + letters[at + 1], at }] : [single];
  });
}

/** The terms of a run in a query. @param letters of the run */
export function gramsOfQuery(letters: readonly string[]): Gram[] {
  if (letters.length === 1) return [{ gram: letters[0], at: 0 }];
  return letters.slice(1).map((letter, at) => ({ gram: letters[at] + letter, at }));
}
