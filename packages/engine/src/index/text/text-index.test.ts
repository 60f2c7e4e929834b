import assert from "node:assert/strict";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type AllowedShare, allowedOf, anyAllowed } from "../../../test/index/allowed-sets.ts";
import { bestOf } from "../../../test/index/best-of.ts";
import { asMap, expectSame } from "../../../test/index/reference.ts";
import { createAnalyzer } from "../../text/analyzer.ts";
import { tokenize } from "../../text/tokenize.ts";
import type { Visible } from "../contract.ts";
import type { TextStatistics } from "./bm25.ts";
import { TextIndex } from "./text-index.ts";
import type { TextOptions } from "./text-parts.ts";

type Held = { readonly terms: readonly string[]; readonly length: number };

/** BM25 by its definition, record after record. */
class Reference {
  readonly records = new Map<number, Held>();
  readonly retired = new Set<number>();
  readonly #options: TextOptions;

  constructor(options: TextOptions) {
    this.#options = options;
  }

  held(text: string): Held {
    const analyzer = createAnalyzer(this.#options.language);
    const words = tokenize(text);
    return { terms: analyzer.terms(words), length: analyzer.read(words, () => {}) };
  }

  /** The parts of a query. */
  asked(query: string): string[] {
    return createAnalyzer(this.#options.language).queryTerms(tokenize(query));
  }

  statistics(): TextStatistics {
    const current = [...this.records].filter(([ordinal]) => !this.retired.has(ordinal));
    const lengths = current.map(([, { length }]) => length).filter((length) => length > 0);
    return { documents: lengths.length, totalLength: lengths.reduce((sum, length) => sum + length, 0) };
  }

  search(query: string, k: number, statistics: TextStatistics, visible: Visible): Map<number, number> {
    const { k1, b } = this.#options;
    const seen = [...this.records].filter(([ordinal]) => visible === null || visible(ordinal));
    const repetitions = new Map<string, number>();
    for (const term of this.asked(query)) repetitions.set(term, (repetitions.get(term) ?? 0) + 1);
    const { documents, totalLength } = statistics;
    const scored = new Map<number, number>();
    for (const [term, times] of repetitions) {
      const df = seen.filter(([, { terms }]) => terms.includes(term)).length;
      const idf = Math.log(1 + (Math.max(documents, df) - df + 0.5) / (df + 0.5));
      for (const [ordinal, { terms, length }] of seen) {
        const tf = terms.filter((other) => other === term).length;
        if (tf === 0) continue;
        const perTerm = totalLength > 0 ? (k1 * b) / (totalLength / documents) : 0;
        const part = (times * idf * tf) / (tf + k1 * (1 - b) + perTerm * length);
        scored.set(ordinal, (scored.get(ordinal) ?? 0) + part);
      }
    }
    return bestOf(scored, k);
  }
}

/** Explanations have the terms of the record, and add up to the scores bit for bit. */
function expectExplained(
  index: TextIndex,
  reference: Reference,
  query: string,
  statistics: TextStatistics,
  visible: Visible,
  found: ReadonlyMap<number, number>,
): void {
  const ordinals = [...found.keys()];
  const sums = ordinals.map(() => 0);
  const asked = reference.asked(query);
  const explained = ordinals.map((): string[] => []);
  const terms = index.reader.termsOf(query);
  const steps = index.reader.explain(
    ordinals,
    terms,
    statistics,
    () => visible,
    (at, match) => {
      sums[at] += match.contribution;
      explained[at].push(match.term);
      const { terms, length } = reference.records.get(ordinals[at]) as Held;
      const occurrences = (list: readonly string[]) => list.filter((term) => term === match.term).length;
      const having = [...reference.records].filter(
        ([ordinal, other]) => other.terms.includes(match.term) && (visible === null || visible(ordinal)),
      );
      assert.deepEqual(
        [match.weight, match.tf, match.df],
        [occurrences(asked), occurrences(terms), having.length],
      );
      assert.equal(index.reader.lengthOf(ordinals[at]), length);
    },
  );
  for (let step = steps.next(); !step.done; step = steps.next());
  expect(sums).toEqual([...found.values()]);
  for (const [at, ordinal] of ordinals.entries()) {
    const { terms } = reference.records.get(ordinal) as Held;
    assert.deepEqual(
      explained[at],
      [...new Set(asked)].filter((term) => terms.includes(term)),
    );
  }
}

const anyText = fc
  .array(fc.constantFrom("run", "running", "the", "Dog", "dogs", "café", "cafe", "x", "ß", "!", "東京都"), {
    maxLength: 8,
  })
  .map((words) => words.join(" "));

type Act =
  | { kind: "add"; gap: number; text: string }
  | { kind: "retire" | "remove"; pick: number }
  | { kind: "search"; text: string; k: number; modulus: number; allowed: AllowedShare };

const anyAct: fc.Arbitrary<Act> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("add" as const), gap: fc.nat(3), text: anyText }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("retire" as const), pick: fc.nat(1_000) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("remove" as const), pick: fc.nat(1_000) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("search" as const),
      text: anyText,
      k: fc.nat(12),
      modulus: fc.integer({ min: 1, max: 4 }),
      allowed: anyAllowed,
    }),
  },
);

const anyOptions: fc.Arbitrary<TextOptions> = fc.record({
  debug: fc.boolean(),
  bufferRecordsMax: fc.constantFrom(1, 4, 20, 1_000),
  language: fc.constantFrom("english", "none"),
  k1: fc.constantFrom(0, 0.9, 1.2, 1_000),
  b: fc.constantFrom(0, 0.4, 0.75, 1),
});

test("every search equals brute force, through all changes", () => {
  fc.assert(
    fc.property(anyOptions, fc.array(anyAct, { maxLength: 200, size: "max" }), (options, acts) => {
      const index = new TextIndex(options);
      const reference = new Reference(options);
      let next = 0;
      let statistics = reference.statistics();
      for (const act of acts) {
        if (act.kind === "add") {
          next += act.gap;
          index.add(next, tokenize(act.text));
          reference.records.set(next++, reference.held(act.text));
        } else if (act.kind === "search") {
          const end = next - (act.modulus % 3);
          const visible =
            act.modulus === 1
              ? null
              : (ordinal: number) =>
                  ordinal < end && !(reference.retired.has(ordinal) && ordinal % act.modulus !== 0);
          for (const searched of [statistics, reference.statistics()]) {
            const found = asMap(index.reader.search(act.text, act.k, searched, visible));
            expectSame(found, reference.search(act.text, act.k, searched, visible));
            expectExplained(index, reference, act.text, searched, visible, found);
            const allowed = allowedOf(act.allowed, [...reference.records.keys()]);
            const among = asMap(index.reader.search(act.text, act.k, searched, visible, allowed));
            const all = reference.search(act.text, reference.records.size, searched, visible);
            const may = [...all].filter(([each]) => allowed === null || allowed.has(each));
            expectSame(among, bestOf(new Map(may), act.k));
          }
          statistics = reference.statistics();
        } else {
          const ordinal = act.pick % Math.max(1, next);
          index[act.kind](ordinal);
          if (reference.records.has(ordinal)) reference.retired.add(ordinal);
          if (act.kind === "remove") reference.records.delete(ordinal);
          assert.equal(index.has(ordinal), reference.records.has(ordinal));
        }
        expect(index.count).toBe(reference.records.size);
        expect(index.statistics()).toEqual(reference.statistics());
      }
      index.check();
    }),
    { numRuns: 300 },
  );
});

test("[Q8] the formula, by hand; a text without a term counts nowhere", () => {
  const index = new TextIndex({ language: "english", k1: 1.2, b: 0.75 });
  index.add(0, tokenize("The cat sat"));
  index.add(1, tokenize("Cats, cats and dogs"));
  index.add(2, tokenize(""));
  index.add(3, tokenize("the and !"));
  expect(index.count).toBe(4);
  expect(index.statistics()).toEqual({ documents: 2, totalLength: 5 });
  const idf = Math.log(1 + (2 - 2 + 0.5) / (2 + 0.5));
  const score = (tf: number, dl: number) => (idf * tf) / (tf + 1.2 * (1 - 0.75 + (0.75 * dl) / (5 / 2)));
  const found = asMap(index.reader.search("cat", 10, index.statistics(), null));
  expect(found.get(0)).toBeCloseTo(score(1, 2), 14);
  expect(found.get(1)).toBeCloseTo(score(2, 3), 14);
  const twice = asMap(index.reader.search("cat, the CAT!", 10, index.statistics(), null));
  expect(twice.get(1)).toBeCloseTo(2 * score(2, 3), 14);
});

test("nothing divides by zero: no records, no terms, no query", () => {
  const index = new TextIndex({ language: "english", k1: 0, b: 1 });
  expect(index.reader.search("cat", 10, index.statistics(), null).count).toBe(0);
  index.add(0, []);
  expect(index.reader.search("cat", 10, index.statistics(), null).count).toBe(0);
  expect(index.reader.search("", 10, index.statistics(), null).count).toBe(0);
  expect(index.reader.search("the and", 10, index.statistics(), null).count).toBe(0);
  index.add(1, ["cat"]);
  const found = index.reader.search("cat", 10, { documents: 0, totalLength: 0 }, null);
  expect([...found.scores]).toEqual([Math.log(1 + 0.5 / 1.5)]);
});

test("removed texts are swept: memory stays when everything is replaced, and terms go", () => {
  const index = new TextIndex({ language: "none", k1: 1.2, b: 0.75 });
  const wordsOf = (ordinal: number) =>
    Array.from({ length: 20 }, (_, i) => `word${(ordinal * 31 + i * i * 17) % 4_000}`);
  for (let ordinal = 0; ordinal < 5_000; ordinal++) index.add(ordinal, wordsOf(ordinal));
  index.reader.search("word1", 10, index.statistics(), null);
  const filled = index.memoryBytes;
  for (let ordinal = 5_000; ordinal < 20_000; ordinal++) {
    index.add(ordinal, wordsOf(ordinal));
    index.retire(ordinal - 5_000);
    index.remove(ordinal - 5_000);
  }
  index.check();
  expect(index.statistics()).toEqual({ documents: 5_000, totalLength: 100_000 });
  // A quarter of a segment may be dead, a merge needs room for its result, and memory never shrinks.
  expect(index.memoryBytes).toBeLessThan(3 * filled);
  for (let ordinal = 15_000; ordinal < 20_000; ordinal++) index.remove(ordinal);
  index.check();
  expect(index.statistics()).toEqual({ documents: 0, totalLength: 0 });
  expect(index.reader.search("word1 word2", 10, index.statistics(), null).count).toBe(0);
  index.close();
  expect(index.memoryBytes).toBeLessThan(filled / 2);
});

test("visibility is tested only for retired and the newest records, once each, whatever terms they have", () => {
  const index = new TextIndex({ language: "none", k1: 1.2, b: 0.75 });
  for (let ordinal = 0; ordinal < 100; ordinal++) index.add(ordinal, ["a", "b", `c${ordinal}`]);
  const asked: number[] = [];
  index.reader.search("a b c7 a", 5, index.statistics(), (ordinal) => asked.push(ordinal) > 0);
  expect(asked).toEqual([99]);
  for (const ordinal of [3, 7]) index.retire(ordinal);
  asked.length = 0;
  index.reader.search("a b c7 a", 5, index.statistics(), (ordinal) => asked.push(ordinal) > 0);
  expect(asked.sort((a, b) => a - b)).toEqual([3, 7, 99]);
});

test("a query of thousands of words finds what brute force does, in the mutable buffer and in segments", () => {
  const options: TextOptions = { language: "none", k1: 1.2, b: 0.75, bufferRecordsMax: 64 };
  const index = new TextIndex(options);
  const reference = new Reference(options);
  const word = (i: number) => `w${(i * i * 7 + i) % 4_001}`;
  for (let ordinal = 0; ordinal < 200; ordinal++) {
    const words = Array.from({ length: 20 + (ordinal % 9) }, (_, i) => word(31 * ordinal + i));
    index.add(ordinal, words);
    reference.records.set(ordinal, { terms: words, length: words.length });
  }
  for (let ordinal = 0; ordinal < 200; ordinal += 7) {
    index.remove(ordinal);
    reference.records.delete(ordinal);
  }
  expect(index.bufferedCount).toBeGreaterThan(0);
  const query = Array.from({ length: 3_000 }, (_, i) => `w${i}`).join(" ");
  for (const visible of [null, (ordinal: number) => ordinal < 198]) {
    const statistics = reference.statistics();
    expectSame(
      asMap(index.reader.search(query, 10, statistics, visible)),
      reference.search(query, 10, statistics, visible),
    );
  }
});

test("[Q20] explanations in steps equal those made at once, whatever changes meanwhile", () => {
  const word = (i: number) => `w${(i * i * 7 + i) % 401}`;
  const index = new TextIndex({ language: "none", k1: 1.2, b: 0.75, bufferRecordsMax: 64 });
  const textOf = (ordinal: number) =>
    Array.from({ length: 20 + (ordinal % 9) }, (_, i) => word(31 * ordinal + i));
  for (let ordinal = 0; ordinal < 500; ordinal++) index.add(ordinal, textOf(ordinal));
  const visible = (ordinal: number) => ordinal < 500 && ordinal % 5 !== 0;
  for (let ordinal = 0; ordinal < 500; ordinal += 5) index.retire(ordinal);
  const statistics = index.statistics();
  const terms = index.reader.termsOf(Array.from({ length: 401 }, (_, i) => `w${i}`).join(" "));
  const ordinals = Array.from({ length: 500 }, (_, ordinal) => ordinal).filter(visible);
  const explained = (change: (step: number) => void) => {
    const matches: unknown[] = [];
    const steps = index.reader.explain(
      ordinals,
      terms,
      statistics,
      () => visible,
      (at, match) => matches.push([at, match]),
    );
    let count = 0;
    for (let step = steps.next(); !step.done; step = steps.next()) change(count++);
    expect(count).toBeGreaterThan(5);
    return matches;
  };
  const atOnce = explained(() => {});
  expect(atOnce.length).toBeGreaterThan(5_000);
  const changed = explained((step) => {
    for (let i = 0; i < 30; i++) index.add(500 + 30 * step + i, textOf(step + i));
    for (let ordinal = 50 * step; ordinal < 50 * step + 50 && ordinal < 500; ordinal += 5)
      index.remove(ordinal);
    index.tidy(1_000);
  });
  expect(changed).toEqual(atOnce);
});

test("[Q20] many terms scored in steps find what they find at once, whatever is added, removed and merged meanwhile", () => {
  let state = 5;
  const random = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  const wordAt = (i: number) => `word${i}`;
  const textOf = () => Array.from({ length: 30 }, () => wordAt(Math.floor(random() ** 2 * 900)));
  const index = new TextIndex({ language: "none", k1: 1.2, b: 0.75, bufferRecordsMax: 500 });
  const end = 4_000;
  for (let ordinal = 0; ordinal < end; ordinal++) index.add(ordinal, textOf());
  const terms = Array.from({ length: 400 }, (_, i) => ({ term: wordAt(i), weight: 1 + (i % 3) }));
  const statistics = index.statistics();
  const sees = (ordinal: number) => ordinal < end;
  const atOnce = asMap(index.reader.searchTerms(terms, 50, statistics, sees));
  for (const isChanged of [false, true]) {
    const steps = index.reader.searchTermsInSteps(terms, 50, statistics, () => sees);
    let next = end + (isChanged ? 1_000 : 0);
    let paused = 0;
    for (;;) {
      const step = steps.next();
      if (step.done) {
        expect(asMap(step.value)).toEqual(atOnce);
        break;
      }
      paused++;
      if (isChanged) {
        for (let i = 0; i < 40; i++) index.add(next++, textOf());
        index.remove(next - 7);
        index.tidy(2_000);
      }
    }
    expect(paused).toBeGreaterThan(1);
  }
});
