/// <reference path="./modules.d.ts" />

// Which terms does an index keep of a text's words?
//
// The second half of text analysis, by language; the first is segment.ts. A query's words and a record's go through the
// same analyzer, word by word:
//
//   1. a word longer than `wordBytesMax` is dropped: it is an encoded blob, not something to search for;
//   2. a stop word is dropped; elided articles and suffixes behind an apostrophe are cut off;
//   3. English is folded (fold.ts) and then stemmed; other stemmers know their language's marks, so there the stem is
//      folded;
//
// so that the term of a word depends on nothing but the word and the language. That makes it cacheable, which pays: the
// stemmers, translated from Snowball's own language, take some microseconds a word.
//
// Choices and figures: docs/decisions/text-analysis.md.

import type { AnalyzedWord, DropReason, TextLanguage } from "@quiver/protocol/shapes/index-definition";
import snowball from "snowball-stemmers";
import { fold } from "./fold.ts";
import { type Language, languages, respelt } from "./languages.ts";
import { segment } from "./segment.ts";

/** UTF-8 bytes of the longest word that becomes a term. */
export const wordBytesMax = 255;

export type Analyzer = {
  /** The terms of words as `segment` makes them, in their order; stop words leave no gap. */
  terms(words: readonly string[]): string[];
  /**
   * What becomes of each word: its term, or why it has none. The terms, read in order, are those of `terms`.
   * @param words as `segment` makes them; their places count from 0, those of dropped words too
   */
  analyze(words: readonly string[]): AnalyzedWord[];
  /** A word as its term is spelt, but whole: freed of its article and folded, neither stemmed nor dropped. */
  folded(word: string): string;
};

/**
 * The analyzer of a language.
 * @param stopWords instead of the language's own list: one word each, in any case; empty: none. What is not one word
 * (`canonicalStopWord`) drops nothing. null: the language's list
 */
export function createAnalyzer(language: TextLanguage, stopWords: readonly string[] | null = null): Analyzer {
  if (stopWords === null) return sharedAnalyzer(language, true);
  const all = sharedAnalyzer(language, false);
  if (stopWords.length === 0) return all;
  return withoutStopWords(all, stopWordTest(languages[language], stopWords.map(canonicalStopWord)));
}

/** A stop word as texts have it: `The` -> `the`. With a space in it where it is several words, and empty where none. */
export function canonicalStopWord(stopWord: string): string {
  return segment(stopWord).join(" ");
}

// Caches would grow with the lists that users think of if each list had one. So each language has two, at most: one of
// its own stop words, and one without any, which all other lists stand in front of.
const analyzers = new Map<string, Analyzer>();

/** One a process, whose cache all indexes of the language share. */
function sharedAnalyzer(name: TextLanguage, hasStopWords: boolean): Analyzer {
  const key = `${name} ${hasStopWords}`;
  let analyzer = analyzers.get(key);
  if (analyzer === undefined) {
    const language = languages[name];
    const listed = hasStopWords ? language.stopWords.map(listedWord) : [];
    const isStopWord = stopWordTest(language, listed, language.stopWordsFolded);
    analyzer = cachedAnalyzer(rulesOf(language, isStopWord));
    analyzers.set(key, analyzer);
  }
  return analyzer;
}

/**
 * A word of a language's list as texts have it. Lists are untidy: some have points (etc.) or spaces around a word. What is
 * several words by itself, in a text without spaces can be one.
 */
function listedWord(word: string): string {
  const canonical = canonicalStopWord(word);
  return canonical.includes(" ") ? word.normalize("NFKC").toLowerCase() : canonical;
}

/** What an analyzer makes of the words that are no stop words. */
function withoutStopWords(all: Analyzer, isStopWord: StopWordTest): Analyzer {
  return {
    terms: (words) => all.terms(words.filter((word) => !isStopWord(word))),
    analyze: (words) =>
      all
        .analyze(words)
        .map((analyzed) =>
          analyzed.dropped !== "too_long" && isStopWord(analyzed.word)
            ? { ...analyzed, term: null, dropped: "stop_word" }
            : analyzed,
        ),
    folded: all.folded,
  };
}

type StopWordTest = (word: string) => boolean;

/**
 * Whether a word is listed, or what is left of it without its article or ending.
 * @param isFolded whether accents make no difference
 */
function stopWordTest(language: Language, listed: readonly string[], isFolded = false): StopWordTest {
  const compared = (word: string): string => (isFolded ? fold(spelt(word, language)) : spelt(word, language));
  const stopWords = new Set(listed.map(compared));
  return (word) => {
    if (stopWords.has(compared(word))) return true;
    const rest = withoutApostrophe(word, language);
    return rest !== word && stopWords.has(compared(rest));
  };
}

/** A word as the language's list and stemmer write it. */
function spelt(word: string, { spellings }: Language): string {
  return spellings === undefined ? word : respelt(word, spellings);
}

/** The rules of a language, for one word at a time. */
type Rules = {
  /** The term of a word, or "" where it has none. */
  term(word: string): string;
  /** Why a word that has no term is dropped. */
  reason(word: string): DropReason;
  folded(word: string): string;
};

function rulesOf(language: Language, isStopWord: StopWordTest): Rules {
  const stemmer = language.stemmer === undefined ? undefined : snowball.newStemmer(language.stemmer);
  // Some stemmers leave nothing of a word that is all suffixes.
  const stem = (word: string): string => stemmer?.stem(word) || word;
  return {
    term(word) {
      if (isTooLong(word) || isStopWord(word)) return "";
      const rest = spelt(withoutApostrophe(word, language), language);
      return language.foldFirst === true ? fold(stem(foldKeepingApostrophes(rest))) : fold(stem(rest));
    },
    reason(word) {
      if (isTooLong(word)) return "too_long";
      return isStopWord(word) ? "stop_word" : "no_letters";
    },
    folded: (word) => fold(spelt(withoutApostrophe(word, language), language)),
  };
}

function isTooLong(word: string): boolean {
  // A UTF-16 unit takes at most three bytes, so short words need no count.
  return 3 * word.length > wordBytesMax && Buffer.byteLength(word) > wordBytesMax;
}

/** The English stemmer takes the possessive 's off, so apostrophes stay until then. */
function foldKeepingApostrophes(word: string): string {
  return word.includes("'") ? word.split("'").map(fold).join("'") : fold(word);
}

function withoutApostrophe(word: string, language: Language): string {
  const at = word.indexOf("'");
  if (at < 0) return word;
  if (language.cutAtApostrophe === true) return word.slice(0, at);
  return language.elisions?.includes(word.slice(0, at)) === true ? word.slice(at + 1) : word;
}

/** Words in each of the cache's two halves. */
const cacheWords = 32_768;

/**
 * Remembers the terms of the words used last: between one and two times `cacheWords` of them. A full young half
 * becomes the old one, whose unused words are then forgotten; words that are used meanwhile move back.
 */
function cachedAnalyzer({ term: termOf, reason, folded }: Rules): Analyzer {
  let young = new Map<string, string>();
  let old = new Map<string, string>();
  const remembered = (word: string): string => {
    const known = old.get(word);
    const key = known === undefined ? ownCopy(word) : word;
    const term = known ?? termOf(key);
    if (young.size === cacheWords) {
      old = young;
      young = new Map();
    }
    young.set(key, term);
    return term;
  };
  return {
    terms(words) {
      const terms: string[] = [];
      for (const word of words) {
        const term = young.get(word) ?? remembered(word);
        if (term !== "") terms.push(term);
      }
      return terms;
    },
    analyze: (words) =>
      words.map((word, position) => {
        const term = young.get(word) ?? remembered(word);
        return { position, word, term: term || null, dropped: term === "" ? reason(word) : null };
      }),
    folded,
  };
}

/** A copy with memory of its own. A word is a slice that would keep its whole text in memory as long as it lives. */
export function ownCopy(word: string): string {
  return Buffer.from(word, "utf16le").toString("utf16le");
}
