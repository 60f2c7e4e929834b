import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { finishAtOnce } from "../base/steps.ts";
import { processedText, tokenize, tokenizeInSteps, tokenizeProcessed } from "./tokenize.ts";

describe("words", () => {
  test.each([
    ["", []],
    ["  \t\n", []],
    ["Hello, World!", ["hello", "world"]],
    ["foo_bar foo-bar foo/bar e.g. U.S.A.", [..."foo bar foo bar foo bar e g u s a".split(" ")]],
    [
      "Don't can’t O'Neil's 'quoted' rock 'n' roll",
      ["don't", "can't", "o'neil's", "quoted", "rock", "n", "roll"],
    ],
    ["it's' ' '' a'1 1'a", ["it's", "a", "1", "1", "a"]],
    ["3.14 10,000 1,2. 5., v1.2.3 .5", ["3.14", "10000", "1.2", "5", "v1.2.3", "5"]],
    ["İstanbul ﬁne ﬀ Straße STRASSE", ["i\u0307stanbul", "fine", "ff", "straße", "strasse"]],
    ["①② Ⅷ ½ x² ㎏ ＡＢＣ　ｄ", ["12", "viii", "1", "2", "x2", "kg", "abc", "d"]],
    ["e\u0301te\u0301 \u0301 J\u030C", ["été", "ǰ"]],
    ["👍🏽 👩‍👩‍👧 ❤️ 1️⃣ ok🙂ok", ["👍🏽", "👩‍👩‍👧", "❤️", "1\ufe0f\u20e3", "ok", "🙂", "ok"]],
    ["co\u00ADop می\u200cخواهم a\u200bb", ["coop", "میخواهم", "ab"]],
    ["ΟΔΟΣ οδός", ["οδος", "οδός"]],
    ["한국어 텍스트 \u1112\u1161\u11ab", ["한국어", "텍스트", "한"]],
    ["العربية كِتَاب ٣", ["العربية", "كِتَاب", "٣"]],
    ["हिन्दी में क्षेत्र", ["हिन्दी", "में", "क्षेत्र"]],
    ["日本語、テスト。Tシャツ2024年", ["日本語", "テスト", "t", "シャツ", "2024", "年"]],
    ["x東京y", ["x", "東京", "y"]],
    ["ภาษาไทย", ["ภาษา", "ไทย"]],
    ["ﾃﾚﾋﾞ", ["テレビ"]],
    ["\ud800abc\udc00d\ud800", ["abc", "d"]],
    ["𝒳𝓎 𐐀𐐁", ["xy", "𐐨𐐩"]],
  ])("%j", (text, words) => {
    expect(tokenize(text)).toEqual(words);
  });
});

const anyText = fc.oneof(
  fc.string({ unit: "binary", size: "large" }),
  fc.string({ unit: "grapheme", size: "large" }),
  fc.string({
    unit: fc.constantFrom(
      ..."aZ1.,'’ -_é\u0301\u0316İςΣß東京あアไทย\u0e31กि한\u00ad\u200d\ud83d\ude00𝒳\ud800ﬁﷺ",
    ),
    size: "large",
  }),
);

test("a processed text has the same words", () => {
  fc.assert(
    fc.property(anyText, (text) => {
      const words = tokenize(text);
      expect(tokenizeProcessed(words.join(" "))).toEqual(words);
      for (const word of words) assert.match(word, /^[^\s]*[\p{L}\p{N}\p{Emoji}\p{ExtPict}][^\s]*$/u);
    }),
    { numRuns: 1_000 },
  );
});

test("marks that a joiner separated are put in order", () => {
  expect(tokenize("İ\u200d\u0316")).toEqual(tokenize("İ\u0316"));
});

test("tokenizing words again changes nothing, in scripts with spaces", () => {
  fc.assert(
    fc.property(anyText, (text) => {
      if (/[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Thai}\p{scx=Laoo}\p{scx=Khmr}\p{scx=Mymr}]/u.test(text))
        return;
      const words = tokenize(text);
      // The meaning of a comma between digits depends on what follows.
      if (words.some((word) => word.includes(","))) return;
      expect(tokenize(words.join(" "))).toEqual(words);
    }),
    { numRuns: 1_000 },
  );
});

test("equivalent and differently cased texts have the same words", () => {
  fc.assert(
    fc.property(anyText, (text) => {
      expect(tokenize(text.normalize("NFD"))).toEqual(tokenize(text));
    }),
  );
});

describe("megabytes of anything are read in linear time", () => {
  test.each([
    ["running text", "the quick brown fox jumped over lazy dogs ", 400_000],
    ["one word", "a", 1],
    ["one word with accents", "é", 1],
    ["combining marks in disorder", "\u0301\u0316", 0],
    ["marks on a letter", "x\u0301\u0316\u0301", undefined],
    ["apostrophes", "'", 0],
    ["letters and apostrophes", "a'", 1],
    ["points", "1.", 1],
    ["soft hyphens", "a\u00ad", 1],
    ["lone surrogates", "\ud800", 0],
    ["sigmas", "Σ.", undefined],
    ["emoji", "👩‍👩‍👧", 260_000],
    ["commas", "1,", 1_050_000],
    ["groups of digits", "100,", 520_000],
    ["a run of Chinese", "漢字", 1],
  ])("%s", (_name, unit, words) => {
    const text = unit.repeat(Math.floor((2 * 2 ** 20) / unit.length));
    const found = tokenize(text);
    if (words !== undefined) expect(Math.round(found.length / 1e4) * 1e4 || found.length).toBe(words);
  });

  test.each([
    ["Thai", "หลักสูตรภาษาไทย"],
    ["rare Han characters one by one", "\u{20000} "],
    ["one Thai vowel", "ไ"],
  ])("%s", (_name, unit) => {
    const text = unit.repeat(Math.floor((2 * 2 ** 20) / unit.length));
    expect(tokenize(text).length).toBeGreaterThan(100);
  });
});

test("the largest text, and a word as large", () => {
  const largest = 16 * 2 ** 20;
  expect(tokenize("naïve ".repeat(largest / 8)).length).toBe(largest / 8);
  expect(tokenize("a".repeat(largest))).toEqual(["a".repeat(largest)]);
});

test("a long text tokenized in steps has the words that it has at once", () => {
  const pieces = fc.constantFrom(
    "rivers",
    " ",
    "\n",
    "e\u0301",
    "\u0308",
    "ΟΔΟΣ",
    "don't",
    "3.14",
    "漢字",
    "ไทย",
    "-",
    "\u00ad",
  );
  fc.assert(
    fc.property(fc.array(pieces, { minLength: 40, maxLength: 80 }), fc.nat(600), (parts, more) => {
      const text = parts.join("").repeat(200 + more);
      expect(finishAtOnce(tokenizeInSteps(text))).toEqual(tokenize(text));
    }),
    { numRuns: 20 },
  );
  expect([...tokenizeInSteps("two words ".repeat(20_000))].length).toBeGreaterThan(5);
});

test("a processed text has the words of its text, of ASCII or not", () => {
  const signs = fc.constantFrom(..."aBz12'.,+#\"` -_\n\té½ב東");
  const inAscii = fc.array(signs, { maxLength: 12 }).map((characters) => characters.join(""));
  fc.assert(
    fc.property(fc.oneof(inAscii, anyText), (text) => {
      const stored = new TextDecoder().decode(finishAtOnce(processedText(text)));
      expect(tokenizeProcessed(stored)).toEqual(tokenize(text));
    }),
    { numRuns: 3_000 },
  );
});
