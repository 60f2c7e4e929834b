import fc from "fast-check";
import { expect, test } from "vitest";
import { createAnalyzer } from "./analyzer.ts";
import { gramsOfQuery, gramsOfText, isRun, lettersOf } from "./grams.ts";
import { tokenize } from "./tokenize.ts";

const grams = (found: readonly { gram: string; at: number }[]) =>
  found.map(({ gram, at }) => `${gram}@${at}`);

test("a text has each character and each pair, in places; a query asks for pairs, or for its one character", () => {
  const letters = lettersOf("東京タワー");
  expect(grams(gramsOfText(letters))).toEqual([
    "東@0",
    "東京@0",
    "京@1",
    "京タ@1",
    "タ@2",
    "タワ@2",
    "ワ@3",
    "ワー@3",
    "ー@4",
  ]);
  expect(grams(gramsOfQuery(letters))).toEqual(["東京@0", "京タ@1", "タワ@2", "ワー@3"]);
  expect(grams(gramsOfQuery(["東"]))).toEqual(["東@0"]);
});

test("a character has its marks, and is one whatever code units it takes", () => {
  expect(lettersOf("か\u309a𠀀々")).toEqual(["か\u309a", "𠀀", "々"]);
  expect(["東", "ア", "ー", "〇", "한", "𠀀"].map(isRun)).toEqual(Array(6).fill(true));
  expect(["a", "1", "ไ", "ж", "é", "🙂", ""].map(isRun)).toEqual(Array(7).fill(false));
});

// Texts, and parts of them that people look for.
const parts: readonly (readonly [text: string, parts: string])[] = [
  ["東京タワーに行きました", "東京 タワー 東京タワー 行き"],
  ["国立国会図書館で本を読む", "国会 図書館 図書 国立 本 書"],
  ["人工知能の研究開発", "知能 研究 人工知能 開発"],
  ["我喜欢在北京大学学习计算机科学", "北京 大学 北京大学 计算机 科学 学习"],
  ["上海浦东国际机场", "浦东 机场 国际 上海 海"],
  ["한국어를 배우는 학생들이 많습니다", "한국어 학생 한국 배우 책상"],
  ["서울대학교에서 공부했습니다", "서울 대학교 대학 공부"],
];

test.each(parts)("[Q22] %s is found by its parts", (text, queries) => {
  for (const language of ["none", "english", "japanese", "chinese", "korean"] as const) {
    const analyzer = createAnalyzer(language);
    const has = new Set(analyzer.terms(tokenize(text)));
    for (const query of queries.split(" ")) {
      const asked = analyzer.queryTerms(tokenize(query));
      expect(asked.length > 0 && asked.every((term) => has.has(term)), `${language}: ${query}`).toBe(
        text.includes(query),
      );
    }
  }
});

test("[Q22] every part of any run finds it", () => {
  const run = fc.string({
    unit: fc.constantFrom(..."東京都タワーカタひらがな一二〇한국어를𠀀"),
    minLength: 1,
    maxLength: 20,
  });
  fc.assert(
    fc.property(run, fc.nat(), fc.nat(), (text, a, b) => {
      const letters = lettersOf(text);
      const from = a % letters.length;
      const part = letters.slice(from, from + 1 + (b % (letters.length - from))).join("");
      const analyzer = createAnalyzer("none");
      const has = new Set(analyzer.terms(tokenize(text)));
      const asked = analyzer.queryTerms(tokenize(part));
      expect(asked.length).toBeGreaterThan(0);
      for (const term of asked) expect(has).toContain(term);
    }),
  );
});

test("a text is as long as it has words and characters, and stop words are left out", () => {
  const lengthOf = (text: string) => createAnalyzer("japanese").read(tokenize(text), () => {});
  expect(lengthOf("東京タワー tower 3")).toBe(7);
  expect(lengthOf("は です")).toBe(0);
  expect(createAnalyzer("korean").terms(tokenize("그리고"))).toEqual([]);
});
