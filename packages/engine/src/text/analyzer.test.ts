import assert from "node:assert/strict";
import { type TextLanguage, textLanguages } from "@quiverdb/protocol/shapes/index-definition";
import fc from "fast-check";
import snowball from "snowball-stemmers";
import { describe, expect, test } from "vitest";
import { canonicalStopWord, createAnalyzer, wordBytesMax } from "./analyzer.ts";
import { fold } from "./fold.ts";
import { isRun } from "./grams.ts";
import { languages } from "./languages.ts";
import { tokenize } from "./tokenize.ts";

const terms = (language: TextLanguage, text: string) => createAnalyzer(language).terms(tokenize(text));

describe("fold", () => {
  test.each([
    ["plain", "plain"],
    ["don't", "dont"],
    ["café", "cafe"],
    ["straße", "strasse"],
    ["øæœłđðþħŧŋı", "oaeoelddthhtni"],
    ["ǿ", "o"],
    ["i\u0307", "i"],
    ["οδός", "οδοσ"],
    ["ёлка", "елка"],
    ["мой", "мой"],
    ["їжак", "їжак"],
    ["كِتَاب", "كتاب"],
    ["أحمد", "احمد"],
    ["שָׁלוֹם", "שלום"],
    ["हिन्दी", "हिंदी"],
    ["ज़मीन", "जमीन"],
    ["चाँद", "चांद"],
    ["सम्मान", "सम्मान"],
    ["col·legi", "collegi"],
    ["צה״ל", "צהל"],
    ["👍🏽", "👍"],
    ["かぎ", "かぎ"],
    ["ป่า", "ป่า"],
    ["한국어", "한국어"],
    ["٣५९", "359"],
    ["1\ufe0f\u20e3", "1"],
  ])("%s -> %s", (word, folded) => {
    expect(fold(word)).toBe(folded);
  });

  test("folding twice changes nothing, and leaves something of every word", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", size: "large" }), (text) => {
        for (const word of tokenize(text)) {
          const folded = fold(word);
          assert.equal(fold(folded), folded);
        }
      }),
      { numRuns: 1_000 },
    );
  });
});

describe("terms", () => {
  test.each([
    ["english", "The running dogs' owner", ["run", "dog", "owner"]],
    ["english", "Don't panic, O'Neil's naïve cafés", ["dont", "panic", "oneil", "naiv", "cafe"]],
    ["none", "The running dogs’ naïve owner", ["the", "running", "dogs", "naive", "owner"]],
    ["french", "L’homme qu’il était à l’école des élèves", ["homm", "ecol", "elev"]],
    ["italian", "dell'acqua nell'università", ["acqua", "univers"]],
    ["german", "Die Straßen der Häuser, STRASSE", ["strass", "haus", "strass"]],
    ["turkish", "Türkiye'de kitaplar", ["turki", "kitap"]],
    ["russian", "Красивые дома", ["красив", "дом"]],
    ["spanish", "las canciones", ["cancion"]],
    ["portuguese", "nações", ["naco"]],
    ["arabic", "الكتاب", ["كتاب"]],
    ["greek", "Η ΟΔΟΣ", ["οδοσ"]],
    ["japanese", "東京都に住んでいます", undefined],
    ["chinese", "我的中国", undefined],
  ] as const)("%s: %s", (language, text, expected) => {
    if (expected !== undefined) expect(terms(language, text)).toEqual(expected);
    else expect(terms(language, text).length).toBeGreaterThan(0);
  });

  test("a word of more than 255 bytes is dropped, whatever its characters take", () => {
    expect(wordBytesMax).toBe(255);
    expect(terms("none", "a".repeat(255))).toEqual(["a".repeat(255)]);
    expect(terms("none", `x ${"a".repeat(256)} y`)).toEqual(["x", "y"]);
    expect(terms("none", "ж".repeat(127))).toEqual(["ж".repeat(127)]);
    expect(terms("none", "ж".repeat(128))).toEqual([]);
    expect(terms("english", "a".repeat(2 ** 20))).toEqual([]);
  });
});

describe("what becomes of each word", () => {
  test("a term, or the reason why there is none, each in its place", () => {
    const long = "x".repeat(256);
    expect(createAnalyzer("english").analyze(tokenize(`The owners' ${long} \u02bc Cafés`))).toEqual([
      { position: 0, word: "the", term: null, dropped: "stop_word" },
      { position: 1, word: "owners", term: "owner", dropped: null },
      { position: 2, word: long, term: null, dropped: "too_long" },
      { position: 3, word: "\u02bc", term: null, dropped: "no_letters" },
      { position: 4, word: "cafés", term: "cafe", dropped: null },
    ]);
    // The rest of an elision can be a stop word: qu'il.
    expect(createAnalyzer("french").analyze(["qu'il", "l'homme"])).toEqual([
      { position: 0, word: "qu'il", term: null, dropped: "stop_word" },
      { position: 1, word: "l'homme", term: "homm", dropped: null },
    ]);
    expect(createAnalyzer("english").analyze([])).toEqual([]);
  });
});

describe("[Q15] stop words of one's own", () => {
  const terms = (stopWords: string[] | null, text: string, language: TextLanguage = "english") =>
    createAnalyzer(language, stopWords).terms(tokenize(text));
  const text = "The cats and the DOGS, don’t they";

  test("replace the language's list; an empty list drops nothing, null means the language's list", () => {
    expect(terms(["dogs"], text)).toEqual(["the", "cat", "and", "the", "dont", "they"]);
    expect(terms([], text)).toEqual(["the", "cat", "and", "the", "dog", "dont", "they"]);
    expect(terms(null, text)).toEqual(["cat", "dog", "dont"]);
    expect(terms(["the"], text, "none")).toEqual(["cats", "and", "dogs", "dont", "they"]);
  });

  test("are words as texts have them, not terms: in any case, with their accents, before stemming", () => {
    expect(terms(["THE", "Don't", "dog", "ＡＮＤ"], text)).toEqual(["cat", "dog", "they"]);
    expect(terms(["cafe"], "café cafe")).toEqual(["cafe"]);
    expect(terms(["café"], "CAFE\u0301 cafe coffee")).toEqual(["coffe"]);
    expect(terms(["homme"], "l'homme d'état", "french")).toEqual(["etat"]);
  });

  test("that are no word drop nothing", () => {
    expect(terms(["e.g.", "!", ""], "e g x")).toEqual(["e", "g", "x"]);
  });

  test("are named as the reason", () => {
    const long = "y".repeat(300);
    expect(createAnalyzer("english", ["dogs", long]).analyze(["the", "dogs", "\u02bc", long])).toEqual([
      { position: 0, word: "the", term: "the", dropped: null },
      { position: 1, word: "dogs", term: null, dropped: "stop_word" },
      { position: 2, word: "\u02bc", term: null, dropped: "no_letters" },
      { position: 3, word: long, term: null, dropped: "too_long" },
    ]);
  });

  test("do not leak into other lists of the same language", () => {
    const lists = Array.from({ length: 200 }, (_, i) => [`w${i}`]);
    const analyzers = lists.map((list) => createAnalyzer("english", list));
    const words = lists.flat();
    for (const [i, analyzer] of analyzers.entries())
      expect(analyzer.terms(words)).toEqual(words.filter((word) => word !== `w${i}`));
    expect(createAnalyzer("english").terms(words)).toEqual(words);
  });
});

describe.each(textLanguages)("%s", (language) => {
  const words = fc.array(
    fc.oneof(
      fc.constantFrom(...languages[language].stopWords, "word", "l'eau", "naïve", "don't", "été's", "ο'ς"),
      fc.string({ unit: "binary", maxLength: 30 }),
      fc.string({ unit: fc.constantFrom(..."aeioustnrlßıİçğéèñõäöü'’аеиотйأةىकि한"), maxLength: 20 }),
    ),
    { maxLength: 20 },
  );

  test("a term depends on its word alone, and is plain", () => {
    fc.assert(
      fc.property(words, (texts) => {
        const words = tokenize(texts.join(" "));
        const analyzer = createAnalyzer(language);
        const together = analyzer.terms(words);
        expect(words.flatMap((word) => analyzer.terms([word]))).toEqual(together);
        const analyzed = analyzer.analyze(words);
        const whole = analyzed.filter(({ word }) => !isRun(word));
        expect(whole.map(({ word }) => word)).toEqual(words.filter((word) => !isRun(word)));
        expect(analyzed.flatMap(({ term }) => term ?? [])).toEqual(together);
        for (const { term, dropped } of analyzed) expect(term === null).toBe(dropped !== null);
        for (const term of together) {
          expect(term).not.toBe("");
          expect(fold(term)).toBe(term);
        }
      }),
    );
  });

  test("no stemmer leaves nothing of a word", () => {
    fc.assert(
      fc.property(words, (texts) => {
        const { stopWords, elisions = [] } = languages[language];
        for (const word of tokenize(texts.join(" "))) {
          if (isRun(word) || (stopWords.length > 0 && /'|[^\p{L}]/u.test(word))) continue;
          const isStopWord = createAnalyzer(language).analyze([word])[0].dropped === "stop_word";
          // A word of marks alone, such as a modifier apostrophe, folds to nothing and is no term.
          if (isStopWord || elisions.includes(word) || fold(word) === "") continue;
          expect(createAnalyzer(language).terms([word]).length).toBe(1);
        }
      }),
    );
  });

  test("the language's list, given as one's own, drops the same", () => {
    const { stopWords } = languages[language];
    const listed = stopWords.map((word) => word.normalize("NFKC").toLowerCase());
    // What tokenization splits is in no text, but the words of this test are not all tokenized by themselves.
    const split = new Set(listed.filter((word) => canonicalStopWord(word).includes(" ")));
    const own = createAnalyzer(
      language,
      listed.filter((word) => !split.has(word)),
    );
    fc.assert(
      fc.property(words, (texts) => {
        const same = tokenize(texts.join(" ")).filter((word) => !split.has(word));
        expect(own.analyze(same)).toEqual(createAnalyzer(language).analyze(same));
      }),
    );
  });

  test("stop words are dropped", () => {
    const listed = languages[language].stopWords.map(canonicalStopWord);
    expect(createAnalyzer(language).terms(listed.filter((word) => !word.includes(" ")))).toEqual([]);
  });
});

test("without stemming and stop words, terms of terms are the terms", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", size: "large" }), (text) => {
      // A run has pieces, which are runs.
      const once = terms("none", text).filter((term) => !isRun(term));
      expect(createAnalyzer("none").terms(once)).toEqual(once);
    }),
  );
});

test("every stemmer that is named exists, and every language of the API is in the table", () => {
  const named = Object.values(languages).flatMap(({ stemmer }) => stemmer ?? []);
  expect(snowball.algorithms()).toEqual(expect.arrayContaining(named));
  expect(Object.keys(languages)).toEqual([...textLanguages]);
});

test("the cache forgets, and terms stay the same", () => {
  const analyzer = createAnalyzer("english");
  const words = Array.from({ length: 70_000 }, (_, i) => `runnings${i.toString(36)}`);
  const first = analyzer.terms(words);
  expect(analyzer.terms(words)).toEqual(first);
});
