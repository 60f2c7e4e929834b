/// <reference path="./modules.d.ts" />

// What does each language need?
//
// One line a language: its stop words, its Snowball stemmer where there is one, and what an apostrophe means in
// it. The names are those of the API (protocol/shapes/index-definition); a new language is one line here and one there.

import type { TextLanguage } from "@quiverdb/protocol/shapes/index-definition";
import * as stopword from "stopword";

/**
 * The 33 words that Lucene leaves out. Longer lists (the `stopword` package's 108, for one) drop words that queries mean, and were measured
 * to be no better: see docs/decisions/text-analysis.md.
 */
const englishStopWords: readonly string[] = [
  "a",
  "an",
  "and",
  "are",
  "as",
  "at",
  "be",
  "but",
  "by",
  "for",
  "if",
  "in",
  "into",
  "is",
  "it",
  "no",
  "not",
  "of",
  "on",
  "or",
  "such",
  "that",
  "the",
  "their",
  "then",
  "there",
  "these",
  "they",
  "this",
  "to",
  "was",
  "will",
  "with",
];

export type Language = {
  readonly stopWords: readonly string[];
  /** Letters that are written in two ways, and how the list and the stemmer have them: ș and ş. */
  readonly spellings?: Readonly<Record<string, string>>;
  /** Name of the Snowball algorithm. */
  readonly stemmer?: string;
  /** Words that lose their vowel before another: l'homme is le + homme. They are cut off as stop words are. */
  readonly elisions?: readonly string[];
  /** An apostrophe separates a name from its endings: Türkiye'de. The endings are cut off. */
  readonly cutAtApostrophe?: boolean;
};

const frenchElisions = ["l", "m", "t", "qu", "n", "s", "j", "d", "c", "jusqu", "quoiqu", "lorsqu", "puisqu"];
const italianElisions = [
  ..."cltmndsv",
  ...[
    "all",
    "dall",
    "dell",
    "nell",
    "sull",
    "coll",
    "pell",
    "gl",
    "agl",
    "dagl",
    "degl",
    "negl",
    "sugl",
    "un",
  ],
];

// Three lists of the package were decoded with a wrong character set, so some of their letters are wrong.
const lithuanianLetters = { à: "ą", è: "č", æ: "ę", ë: "ė", á: "į", ð: "š", ø: "ų", û: "ū", þ: "ž" };
const slovakLetters = { è: "č", ï: "ď", ò: "ň" };
const turkishLetters = { đ: "ğ" };

function mended(words: readonly string[], letters: Readonly<Record<string, string>>): string[] {
  return words.map((word) => respelt(word, letters));
}

/** The word with each letter replaced as given in `letters`. */
export function respelt(word: string, letters: Readonly<Record<string, string>>): string {
  return Array.from(word, (letter) => letters[letter] ?? letter).join("");
}

export const languages: Readonly<Record<TextLanguage, Language>> = {
  arabic: { stopWords: stopword.ara, stemmer: "arabic" },
  armenian: { stopWords: stopword.hye, stemmer: "armenian" },
  basque: { stopWords: stopword.eus, stemmer: "basque" },
  bengali: { stopWords: stopword.ben },
  bulgarian: { stopWords: stopword.bul },
  catalan: { stopWords: stopword.cat, stemmer: "catalan", elisions: [..."dlmnst"] },
  chinese: { stopWords: stopword.zho },
  croatian: { stopWords: stopword.hrv },
  czech: { stopWords: stopword.ces, stemmer: "czech" },
  danish: { stopWords: stopword.dan, stemmer: "danish" },
  dutch: { stopWords: stopword.nld, stemmer: "dutch" },
  english: { stopWords: englishStopWords, stemmer: "english" },
  estonian: { stopWords: stopword.est },
  finnish: { stopWords: stopword.fin, stemmer: "finnish" },
  french: { stopWords: stopword.fra, stemmer: "french", elisions: frenchElisions },
  galician: { stopWords: stopword.glg },
  german: { stopWords: stopword.deu, stemmer: "german" },
  greek: { stopWords: stopword.ell },
  hebrew: { stopWords: stopword.heb },
  hindi: { stopWords: stopword.hin },
  hungarian: { stopWords: stopword.hun, stemmer: "hungarian" },
  indonesian: { stopWords: stopword.ind },
  irish: { stopWords: stopword.gle, stemmer: "irish", elisions: [..."bdm"] },
  italian: { stopWords: stopword.ita, stemmer: "italian", elisions: italianElisions },
  japanese: { stopWords: stopword.jpn },
  korean: { stopWords: stopword.kor },
  latvian: { stopWords: stopword.lav },
  lithuanian: { stopWords: mended(stopword.lit, lithuanianLetters) },
  marathi: { stopWords: stopword.mar },
  norwegian: { stopWords: stopword.nob, stemmer: "norwegian" },
  persian: { stopWords: stopword.fas },
  polish: { stopWords: stopword.pol },
  portuguese: { stopWords: stopword.por, stemmer: "portuguese" },
  romanian: { stopWords: stopword.ron, stemmer: "romanian", spellings: { ș: "ş", ț: "ţ" } },
  russian: { stopWords: stopword.rus, stemmer: "russian" },
  slovak: { stopWords: mended(stopword.slk, slovakLetters) },
  slovene: { stopWords: stopword.slv, stemmer: "slovene" },
  spanish: { stopWords: stopword.spa, stemmer: "spanish" },
  swedish: { stopWords: stopword.swe, stemmer: "swedish" },
  tamil: { stopWords: [], stemmer: "tamil" },
  thai: { stopWords: stopword.tha },
  turkish: { stopWords: mended(stopword.tur, turkishLetters), stemmer: "turkish", cutAtApostrophe: true },
  ukrainian: { stopWords: stopword.ukr },
  urdu: { stopWords: stopword.urd },
  vietnamese: { stopWords: stopword.vie },
  none: { stopWords: [] },
};
