import { randomNumbers } from "@quiverdb/kernels/random";
import { expect, test } from "vitest";
import { utf8 } from "../../base/bytes.ts";
import { finishAtOnce, type Steps } from "../../base/steps.ts";
import { createAnalyzer } from "../../text/analyzer.ts";
import { AnalysedReader, analyseTexts } from "./analysed.ts";
import { KnownWords } from "./known-words.ts";
import { TextIndex } from "./text-index.ts";

test.each([true, false])(
  "[I4] texts that were analysed in another thread give the same index, while terms are added and removed: positions %s",
  (positions) => {
    const random = randomNumbers(positions ? 1 : 2);
    const options = { language: "english", k1: 1.2, b: 0.75, positions, bufferRecordsMax: 30 } as const;
    const analyzer = createAnalyzer("english");
    const one = new TextIndex(options);
    const other = new TextIndex(options);
    const known = new KnownWords(analyzer);
    const texts: [number, string[]][] = [];
    for (let ordinal = 0; ordinal < 1_500; ordinal += 1 + Math.floor(random() * 1.3)) {
      const words = Array.from(
        { length: Math.floor(random() * 10) },
        () => `word${Math.floor(random() ** 2 * 400)}s`,
      );
      // Of more than one byte a character; runs, whose characters are terms.
      if (random() < 0.2) words.push(["naïveté", "köln", "東京タワー", "ж"][Math.floor(random() * 4)]);
      texts.push([ordinal, random() < 0.3 ? [...words, "the", `only${ordinal}`, ...words] : words]);
    }
    for (let from = 0; from < texts.length; from += 50) {
      const batch = texts.slice(from, from + 50);
      const reader = new AnalysedReader(
        structuredClone(finishAtOnce(analyseTexts(analyzer, known, batch.map(inSteps), positions))),
      );
      for (const [ordinal, words] of batch) {
        expect(reader.ordinal).toBe(ordinal);
        one.add(ordinal, words);
        other.addAnalysed(reader);
        // Terms without records pass their numbers on to others, in the middle of a batch.
        if (random() < 0.1) {
          const end = ordinal - Math.floor(random() * 40);
          for (let removed = end - 40; removed < end; removed++) {
            one.remove(removed);
            other.remove(removed);
          }
        }
      }
      expect(reader.isAtEnd).toBe(true);
    }
    one.check();
    other.check();
    const formsOf = (index: TextIndex) =>
      finishAtOnce(index.reader.expand({ prefix: "word" }, () => null)).map(
        ({ form, term }) => `${form} ${term}`,
      );
    expect(formsOf(other).sort()).toEqual(formsOf(one).sort());
    expect(formsOf(other).length).toBeGreaterThan(150);
    expect(other.statistics()).toEqual(one.statistics());
    expect(other.count).toBe(one.count);
    for (const [ordinal, words] of texts) {
      expect(other.has(ordinal)).toBe(one.has(ordinal));
      if (!one.has(ordinal)) continue;
      for (const term of analyzer.terms(words)) {
        expect(other.reader.holdersOf(term)).toEqual(one.reader.holdersOf(term));
        if (positions)
          expect(other.reader.positionsOf(term, ordinal)).toEqual(one.reader.positionsOf(term, ordinal));
      }
    }
    for (let i = 0; i < 100; i++) {
      const query = texts[Math.floor(random() * texts.length)][1].join(" ");
      const found = one.reader.search(query, 5, one.statistics(), null);
      expect(other.reader.search(query, 5, other.statistics(), null)).toEqual(found);
    }
  },
);

function inSteps([ordinal, words]: [number, string[]]): [number, Steps<Uint8Array>] {
  const steps = function* () {
    yield;
    return utf8(words.join(" "));
  };
  return [ordinal, steps()];
}
