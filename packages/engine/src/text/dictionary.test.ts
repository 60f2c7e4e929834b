// Do both spellings of a dictionary's words have one term, and at what cost?
//
// Measured on a thousand words of each language that has a stemmer, and on a few hundred of others whose words have marks
// (test/words). What stemming without marks loses and confuses there is in `figures`: a change of folding, of the endings or of a
// stemmer that costs more fails. On whole dictionaries: docs/decisions/text-analysis.md.

import { readdirSync, readFileSync } from "node:fs";
import { type TextLanguage, textLanguages } from "@quiverdb/protocol/shapes/index-definition";
import { describe, expect, test } from "vitest";
import { compareStems, stemmerOf, wordsOf } from "../../test/text/joined-words.ts";
import { createAnalyzer } from "./analyzer.ts";
import { languages } from "./languages.ts";
import { tokenize } from "./tokenize.ts";

const samples = new URL("../../test/text/words/", import.meta.url);

/**
 * In percent of pairs, rounded up to a hundredth, which is less than one pair of most samples: what the stemmer joins on words as they are written, and the terms do not; and what only the
 * terms join. Lower ones are better and may be entered.
 */
const figures: Readonly<Partial<Record<TextLanguage, readonly [lost: number, merged: number]>>> = {
  arabic: [15.91, 18.41],
  armenian: [0, 0],
  basque: [0, 0],
  catalan: [3.87, 1.36],
  czech: [3.68, 4.19],
  danish: [0, 0],
  dutch: [0, 0],
  english: [0, 0],
  finnish: [0, 0.68],
  french: [2.33, 0.82],
  german: [0, 0],
  hungarian: [9.78, 7.17],
  irish: [3.27, 4.31],
  italian: [0.55, 0.53],
  norwegian: [0.76, 0],
  portuguese: [1.21, 1],
  romanian: [2.33, 0.45],
  russian: [1.34, 0.2],
  slovene: [2.23, 0.52],
  spanish: [14.43, 4.69],
  swedish: [0.58, 0.32],
  tamil: [0, 0],
  turkish: [11.25, 0.71],
};

/** Words with marks that have a term although they are a stop word without: the only pairs that do not meet. */
const unmet: Readonly<Partial<Record<TextLanguage, string>>> = {
  spanish: "quién",
  vietnamese: "bòi bói bôi bơi bỏi bối bồi bổi bội bới bời chuyên chuyến chuyền chuyển cò cô mả",
};

/**
 * Special letters as typed without such a key, and letters whose mark makes another letter. They are repeated here, independent of fold.ts,
 * so that the test does not rely on the code under test.
 */
const typed: Readonly<Record<string, string>> = {
  ...{ ß: "ss", æ: "ae", œ: "oe", ø: "o", ł: "l", đ: "d", ð: "d", þ: "th", ı: "i" },
  ...{ й: "й", ї: "ї", ў: "ў", ς: "σ", ة: "ه", ى: "ي", ی: "ي", ک: "ك", "\u0901": "\u0902" },
};

/** Accents, Arabic vowel points and hamzas above and below, and the nukta, behind a letter taken apart. */
const marks = /[\u0300-\u036f\u064b-\u0655\u093c]/gu;

/** Devanagari nasals that are letters, and the consonants of their class, before which a dot is as right. */
const nasals = /ङ्(?=[कखगघ])|ञ्(?=[चछजझ])|ण्(?=[टठडढ])|न्(?=[तथदध])|म्(?=[पफबभ])/gu;

/** The word without all optional marks. */
function withoutMarks(word: string): string {
  const letters = Array.from(word.normalize("NFC"), (letter) => {
    return typed[letter] ?? letter.normalize("NFD").replace(marks, "").normalize("NFC");
  });
  return letters.join("").replace(nasals, "\u0902");
}

const sampled = textLanguages.filter((language) => readdirSync(samples).includes(`${language}.txt`));

function sampleOf(language: TextLanguage): string[] {
  return wordsOf(readFileSync(new URL(`${language}.txt`, samples), "utf8").split(/\s+/));
}

/** The term of a word, or "" of one that is dropped. @param stopWords null: the language's */
function termer(language: TextLanguage, stopWords: readonly string[] | null): (word: string) => string {
  const analyzer = createAnalyzer(language, stopWords);
  return (word) => analyzer.terms(tokenize(word)).join(" ");
}

test("there is a sample of every language that has a stemmer, and of no other with figures", () => {
  const stemmed = textLanguages.filter((language) => languages[language].stemmer !== undefined);
  expect(stemmed).toHaveLength(23);
  expect(sampled).toEqual(expect.arrayContaining(stemmed));
  expect(Object.keys(figures)).toEqual(stemmed);
});

describe.each(sampled)("[Q21] %s: words of a dictionary", (language) => {
  const words = sampleOf(language);
  const reference = stemmerOf(language);

  test("have one term with marks and without, but for stop words", () => {
    const term = termer(language, null);
    const apart = words.filter((word) => term(word) !== term(withoutMarks(word)));
    expect(apart).toEqual(unmet[language]?.split(" ") ?? []);
    // The only difference: a separate word that is dropped without its marks.
    expect(apart.filter((word) => term(word) === "" || term(withoutMarks(word)) !== "")).toEqual([]);
  });

  test("have one term in every normal form, and without marks, where no word is dropped", () => {
    const term = termer(language, []);
    const spellings = (word: string) => [word, word.normalize("NFD"), withoutMarks(word)];
    const apart = words.filter((word) => new Set(spellings(word).map(term)).size !== 1 || term(word) === "");
    expect(apart).toEqual([]);
  });

  if (reference === undefined)
    test("are terms without their marks", () => {
      expect(words.map(termer(language, []))).toEqual(words.map(withoutMarks));
    });
  else
    test("lose and confuse no more than was measured", () => {
      const [lostMax, mergedMax] = figures[language] ?? [0, 0];
      const { byReference, byTerm, lost, merged } = compareStems(words, reference, termer(language, []));
      expect(words.length).toBeGreaterThanOrEqual(1000);
      expect(byReference).toBeGreaterThan(50);
      expect((100 * lost) / byReference, "lost").toBeLessThanOrEqual(lostMax);
      expect((100 * merged) / byTerm, "merged").toBeLessThanOrEqual(mergedMax);
    });
});

test.each<[TextLanguage, string, string]>([
  ["russian", "ёлка", "елка"],
  ["russian", "самолёты", "самолет"],
  ["spanish", "educación", "educacion"],
  ["spanish", "educaciones", "educación"],
  ["portuguese", "educação", "educacao"],
  ["italian", "università", "universita"],
  ["french", "éducation", "education"],
  ["swedish", "flöden", "flode"],
])("[Q21] %s: %s and %s have one term", (language, word, other) => {
  const term = termer(language, null);
  expect(term(word)).not.toBe("");
  expect(term(word)).toBe(term(other));
});

test.each<[TextLanguage, string, string]>([
  ["german", "größe", "grosse"],
  ["french", "sûr", "sur"],
])("[Q21] %s: %s is a separate word, and %s a stop word", (language, word, stopWord) => {
  const term = termer(language, null);
  expect(term(word)).not.toBe("");
  expect(term(stopWord)).toBe("");
});
