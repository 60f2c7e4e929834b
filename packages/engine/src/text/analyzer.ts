/// <reference path="./modules.d.ts" />

// Which terms does an index keep of a text's words?
//
// The second half of text analysis, by language; the first is tokenize.ts. A query's words and a record's go through the
// same analyzer, word by word:
//
//   1. a word longer than `wordBytesMax` is dropped: it is an encoded blob, not something to search for;
//   2. a stop word is dropped; elided articles and suffixes behind an apostrophe are cut off;
//   3. the rest is folded (fold.ts): that is the word's *form*, and words that differ in marks alone have the same;
//   4. the form gets the ending that the stemmer knows (endings.ts), is stemmed, and folded again: that is the term;
//
// so that the term of a word depends on nothing but its form and the language: both spellings of a word have one term. That
// makes it cacheable, which pays: the stemmers, translated from Snowball's own language, take some microseconds a word.
//
// A run of Chinese, Japanese or Korean is one word of `tokenize` and several terms, in places of their own (grams.ts).
//
// Choices and figures: docs/decisions/text-analysis.md.
//
// One file: an analyzer is the chain of these steps, and each step is a few lines.

import type { AnalyzedWord, DropReason, TextLanguage } from "@quiverdb/protocol/shapes/index-definition";
import snowball from "snowball-stemmers";
import { bytesBeyond } from "../base/bytes.ts";
import { finishAtOnce, type Steps } from "../base/steps.ts";
import { endingSpeller, endings } from "./endings.ts";
import { englishStem } from "./english-stemmer.ts";
import { fold } from "./fold.ts";
import { type Gram, gramsOfQuery, gramsOfText, isRun, lettersOf } from "./grams.ts";
import { type Language, languages, respelt } from "./languages.ts";
import { tokenize } from "./tokenize.ts";

/** Words of a query that are analysed at a step. */
const wordsPerStep = 1_024;

/** UTF-8 bytes of the longest word that becomes a term. */
export const wordBytesMax = 255;

/** A term, and the form of its word where that is another and the language has a stemmer; else "". */
export type TermAndForm = { readonly term: string; readonly form: string };

/**
 * Called with a term, the form of its word as in `TermAndForm`, and the position of the word, from 0; words without a term and each
 * character of a run have a position, too.
 */
export type TakeTerm = (term: string, form: string, place: number) => void;

export type Analyzer = {
  /** Whether words can have a form that is not their term. */
  readonly hasForms: boolean;
  /**
   * Reports the terms of a text, in the order of their positions.
   * @param words as `tokenize` makes them
   * @returns the text's length: its words that are not dropped, and the characters of its runs
   */
  read(words: readonly string[], take: TakeTerm): number;
  /** The terms of a text. */
  terms(words: readonly string[]): string[];
  /** The terms of a query: for a run, only those that are needed to find it. */
  queryTerms(words: readonly string[]): string[];
  /** The outcome for each word of a text, and each piece of a run: its term, or the reason why it has none. */
  analyze(words: readonly string[]): AnalyzedWord[];
  /** The same of a query, which can be long: in steps. */
  analyzeQuery(words: readonly string[]): Steps<AnalyzedWord[]>;
  /** The term and form of a word that is not a run; both "" if it is dropped. */
  of(word: string): TermAndForm;
  /** The form of a word, a stop word or not: freed of its article and folded. It keeps apostrophes, which stemmers read. */
  form(word: string): string;
  /** The term of a form. */
  termOf(form: string): string;
};

/**
 * The analyzer of a language.
 * @param stopWords replaces the language's list: one word each, case-insensitive; empty: none. Entries that are not one word
 *   (`canonicalStopWord`) are ignored. null: the language's list
 */
export function createAnalyzer(language: TextLanguage, stopWords: readonly string[] | null = null): Analyzer {
  if (stopWords === null) return sharedAnalyzer(language, true);
  const all = sharedAnalyzer(language, false);
  if (stopWords.length === 0) return all;
  const own = new StopWords(stopWords.map(canonicalStopWord), languages[language]);
  return analyzerOf({ ...all, of: (word) => (own.has(word) ? none : all.of(word)) }, own);
}

/** A stop word in the form of the texts: `The` -> `the`. Contains a space if it is several words, and is empty if it is none. */
export function canonicalStopWord(stopWord: string): string {
  return tokenize(stopWord).join(" ");
}

// With one cache per stop word list, memory would grow with the users' lists. So each language has at most two: one with its own stop
// words, and one without any, to which all other lists are applied first.
const analyzers = new Map<string, Analyzer>();

/** One a process, whose cache all indexes of the language share. */
function sharedAnalyzer(name: TextLanguage, hasStopWords: boolean): Analyzer {
  const key = `${name} ${hasStopWords}`;
  let analyzer = analyzers.get(key);
  if (analyzer === undefined) {
    const language = languages[name];
    const stopWords = new StopWords(hasStopWords ? language.stopWords.map(listedWord) : [], language);
    const rules = rulesOf(name, language);
    const of = remembering((word) => {
      if (isTooLong(word) || stopWords.has(word)) return none;
      const form = rules.form(word);
      const term = rules.termOf(form);
      return { term, form: rules.hasForms && form !== term ? form : "" };
    });
    analyzer = analyzerOf({ ...rules, of }, stopWords);
    analyzers.set(key, analyzer);
  }
  return analyzer;
}

/**
 * A word of a language's list in the form of the texts. Lists are untidy: some have dots (etc.) or spaces around a word. An entry that is
 * several words by itself can be one word in a text without spaces.
 */
function listedWord(word: string): string {
  const canonical = canonicalStopWord(word);
  return canonical.includes(" ") ? word.normalize("NFKC").toLowerCase() : canonical;
}

/** A dropped word has no term. */
const none: TermAndForm = { term: "", form: "" };

/**
 * The dropped words: the listed ones, and their spellings without marks. A Latin word with marks differs from the listed one without them:
 * French `sur` is dropped, and `sûr` is not. In other scripts marks are only reading aids.
 */
class StopWords {
  readonly #language: Language;
  readonly #listed: Set<string>;
  readonly #folded: Set<string>;
  /** UTF-16 code units of the longest of them. */
  readonly #longest: number;

  constructor(listed: readonly string[], language: Language) {
    this.#language = language;
    this.#listed = new Set(listed.map((word) => spelt(word, language)));
    this.#folded = new Set(listed.map((word) => foldKeepingApostrophes(word)));
    this.#longest = Math.max(0, ...Array.from(this.#folded, (word) => word.length));
  }

  /** Whether a word is listed, possibly after removing its article or ending. */
  has(word: string): boolean {
    if (this.#listed.size === 0) return false;
    const rest = withoutApostrophe(word, this.#language);
    return this.#isListed(word) || (rest !== word && this.#isListed(rest));
  }

  /** Whether a run is listed as a whole. @param letters of the folded run */
  hasRun(letters: readonly string[]): boolean {
    return letters.length <= this.#longest && this.#folded.has(letters.join(""));
  }

  /** Whether a piece of a run is dropped. Pieces of Korean words are not words. */
  hasGram(gram: string): boolean {
    return this.#folded.has(gram) && !hangul.test(gram);
  }

  #isListed(word: string): boolean {
    if (this.#listed.has(spelt(word, this.#language))) return true;
    const folded = foldKeepingApostrophes(word);
    return this.#folded.has(folded) && (folded === word || !latin.test(word));
  }
}

const hangul = /\p{Script=Hangul}/u;
const latin = /\p{Script=Latin}/u;

/** A word as the language's list and stemmer write it. */
function spelt(word: string, { spellings }: Language): string {
  return spellings === undefined ? word : respelt(word, spellings);
}

/** The rules of a language, for one word at a time. */
type Rules = Pick<Analyzer, "hasForms" | "form" | "termOf">;

function rulesOf(name: TextLanguage, language: Language): Rules {
  const stem = stemOf(language);
  const withEnding = endingSpeller(endings[name] ?? "");
  return {
    hasForms: stem !== undefined,
    form: (word) => foldKeepingApostrophes(withoutApostrophe(word, language)),
    // Some stemmers leave nothing of a word that is all suffixes.
    termOf: (form) => fold(stem?.(withEnding(form)) || form),
  };
}

/** The stemmer of a language, if it has one. English has one of its own, which takes a fifteenth of the time. */
function stemOf({ stemmer: name }: Language): ((word: string) => string) | undefined {
  if (name === "english") return englishStem;
  if (name === undefined) return undefined;
  const stemmer = snowball.newStemmer(name);
  return (word) => stemmer.stem(word);
}

function isTooLong(word: string): boolean {
  return bytesBeyond(word, wordBytesMax) > 0;
}

/** Stemmers use apostrophes: the English one removes the possessive 's. So they are kept until then. */
function foldKeepingApostrophes(word: string): string {
  return word.includes("'") ? word.split("'").map(fold).join("'") : fold(word);
}

function withoutApostrophe(word: string, language: Language): string {
  const at = word.indexOf("'");
  if (at < 0) return word;
  if (language.cutAtApostrophe === true) return word.slice(0, at);
  return language.elisions?.includes(word.slice(0, at)) === true ? word.slice(at + 1) : word;
}

/** An analyzer of texts and queries, built on an analyzer of single words. */
function analyzerOf(words: Rules & Pick<Analyzer, "of">, stopWords: StopWords): Analyzer {
  const { of } = words;
  const reasonOf = (word: string): DropReason => {
    if (isTooLong(word)) return "too_long";
    return stopWords.has(word) ? "stop_word" : "no_letters";
  };
  function* analyze(texts: readonly string[], gramsOf: GramsOf): Steps<AnalyzedWord[]> {
    const analyzed: AnalyzedWord[] = [];
    let place = 0;
    for (const [i, word] of texts.entries()) {
      if (i % wordsPerStep === wordsPerStep - 1) yield;
      if (!isRun(word)) {
        const { term } = of(word);
        const dropped = term === "" ? reasonOf(word) : null;
        analyzed.push({ position: place++, word, term: term || null, dropped });
        continue;
      }
      const letters = lettersOf(fold(word));
      if (stopWords.hasRun(letters))
        analyzed.push({ position: place, word, term: null, dropped: "stop_word" });
      else
        for (const { gram, at } of gramsOf(letters)) {
          const isDropped = stopWords.hasGram(gram);
          const dropped = isDropped ? "stop_word" : null;
          analyzed.push({ position: place + at, word: gram, term: isDropped ? null : gram, dropped });
        }
      place += letters.length;
    }
    return analyzed;
  }
  const read = (texts: readonly string[], take: TakeTerm, gramsOf: GramsOf = gramsOfText): number => {
    let place = 0;
    let length = 0;
    for (const word of texts) {
      if (!isRun(word)) {
        const { term, form } = of(word);
        if (term !== "") {
          take(term, form, place);
          length++;
        }
        place++;
        continue;
      }
      const letters = lettersOf(fold(word));
      if (!stopWords.hasRun(letters)) {
        length += letters.length;
        for (const { gram, at } of gramsOf(letters)) if (!stopWords.hasGram(gram)) take(gram, "", place + at);
      }
      place += letters.length;
    }
    return length;
  };
  const termsOf = (texts: readonly string[], gramsOf: GramsOf): string[] => {
    const terms: string[] = [];
    read(texts, (term) => terms.push(term), gramsOf);
    return terms;
  };
  return {
    ...words,
    read: (texts, take) => read(texts, take),
    terms: (texts) => termsOf(texts, gramsOfText),
    queryTerms: (texts) => termsOf(texts, gramsOfQuery),
    analyze: (texts) => finishAtOnce(analyze(texts, gramsOfText)),
    analyzeQuery: (texts) => analyze(texts, gramsOfQuery),
  };
}

type GramsOf = (letters: readonly string[]) => Gram[];

/** Words in each of the cache's two halves. */
const cacheWords = 32_768;

/**
 * Caches the results of the most recently used words: between one and two times `cacheWords` of them. When the young half is full, it
 * becomes the old one, and the words that remained unused there are dropped; words that are used move back to the young half.
 */
function remembering(find: (word: string) => TermAndForm): (word: string) => TermAndForm {
  let young = new Map<string, TermAndForm>();
  let old = new Map<string, TermAndForm>();
  return (word) => {
    const fresh = young.get(word);
    if (fresh !== undefined) return fresh;
    const known = old.get(word);
    const key = known === undefined ? ownCopy(word) : word;
    const found = known ?? find(key);
    if (young.size === cacheWords) {
      old = young;
      young = new Map();
    }
    young.set(key, found);
    return found;
  };
}

/** A copy with separate memory. A word is a slice that would keep its whole text in memory. */
export function ownCopy(word: string): string {
  const units: number[] = [];
  let copy = "";
  for (let i = 0; i < word.length; i++) {
    units.push(word.charCodeAt(i));
    if (units.length < unitsPerCall && i < word.length - 1) continue;
    copy += String.fromCharCode.apply(null, units);
    units.length = 0;
  }
  return copy;
}

/** Arguments that one call surely takes. */
const unitsPerCall = 1_024;
