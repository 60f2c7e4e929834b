import assert from "node:assert/strict";
import { randomNumbers } from "@quiverdb/kernels/random";
import { limits } from "@quiverdb/protocol/limits";
import type { TextLanguage } from "@quiverdb/protocol/shapes/index-definition";
import fc from "fast-check";
import { expect, test } from "vitest";
import { bestOf } from "../../../test/index/best-of.ts";
import { asMap, expectSame } from "../../../test/index/reference.ts";
import { onSet, readJsonLines } from "../../../test/index/reference-data.ts";
import { finishAtOnce } from "../../base/steps.ts";
import { type Analyzer, createAnalyzer } from "../../text/analyzer.ts";
import { EditDistance } from "../../text/edit-distance.ts";
import { fold } from "../../text/fold.ts";
import { isRun } from "../../text/grams.ts";
import { parseOperators } from "../../text/operators.ts";
import { tokenize } from "../../text/tokenize.ts";
import type { Visible } from "../contract.ts";
import type { TextStatistics } from "./bm25.ts";
import { TextIndex } from "./text-index.ts";
import type { TextOptions } from "./text-parts.ts";
import { resolveTextQuery, type TextQuery } from "./text-query.ts";

const stepsOf = (index: TextIndex, text: string, visible: Visible) =>
  resolveTextQuery(index.reader, { text, clauses: parseOperators(text, "query") }, () => visible);

function resolve(index: TextIndex, text: string, visible: Visible): TextQuery {
  const steps = stepsOf(index, text, visible);
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/** Ordinal -> score, of the k best. */
function search(
  index: TextIndex,
  query: string,
  k = 10,
  visible: Visible = null,
  statistics = index.statistics(),
) {
  const { terms, accepts } = resolve(index, query, visible);
  return asMap(index.reader.searchTerms(terms, k, statistics, visible, accepts));
}

/** A clause as it is drawn; `text` is how it is written. */
type Drawn = {
  sign: "" | "+" | "-";
  kind: "words" | "phrase" | "prefix" | "fuzzy";
  words: string[];
  distance: number;
};

function written({ sign, kind, words, distance }: Drawn): string {
  if (kind === "phrase") return `${sign}"${words.join(" ")}"`;
  const suffix = { words: "", prefix: "*", fuzzy: `~${distance}` }[kind];
  return `${sign}${words.join("-")}${suffix}`;
}

/** The terms of a phrase and their places in it. */
type Phrase = readonly { term: string; place: number }[];

type Scored = { term: string; weight: number; phrase: Phrase | null };

/** The spelling that a word is compared by, and its term. */
type Named = { form: string; term: string };

/** A record: the terms at each place, its words that have one, as they are written, and its length. */
type Held = { places: string[][]; words: Named[]; length: number };

/** Queries by their definition: record after record, and clause after clause. */
class Reference {
  readonly records = new Map<number, Held>();
  readonly retired = new Set<number>();
  readonly #options: TextOptions;

  constructor(options: TextOptions) {
    this.#options = options;
  }

  get analyzer(): Analyzer {
    return createAnalyzer(this.#options.language);
  }

  add(ordinal: number, words: readonly string[]): void {
    const places: string[][] = [];
    for (const { term, position } of this.analyzer.analyze(words)) {
      places[position] ??= [];
      if (term !== null) places[position].push(term);
    }
    const named = words.flatMap((word): Named[] => {
      const [term] = isRun(word) ? [] : this.analyzer.terms([word]);
      return term === undefined ? [] : [{ form: this.analyzer.form(word), term }];
    });
    this.records.set(ordinal, { places, words: named, length: this.analyzer.read(words, () => {}) });
  }

  statistics(): TextStatistics {
    const current = [...this.records].filter(([ordinal]) => !this.retired.has(ordinal));
    const lengths = current.map(([, { length }]) => length).filter((length) => length > 0);
    return { documents: lengths.length, totalLength: lengths.reduce((sum, length) => sum + length, 0) };
  }

  /** The weight of a record's word for a prefix or fuzzy word, or 0. */
  #weightOf({ kind, distance }: Drawn, word: string, { form, term }: Named): number {
    const written = this.analyzer.form(word);
    const [stem] = this.analyzer.terms([word]);
    const forms = [written, fold(written)];
    if (kind === "prefix") return forms.some((prefix) => form.startsWith(prefix)) || term === stem ? 1 : 0;
    const compared = [...forms, stem ?? written];
    const edits = Math.min(...compared.map((each) => new EditDistance(each).to(form, distance)));
    return edits > distance ? 0 : 1 / (1 + edits);
  }

  #needs(clause: Drawn, vocabulary: readonly Named[]): Scored[][] {
    const { kind, words } = clause;
    const last = words[words.length - 1];
    const isExpanding = kind === "fuzzy" || (kind === "prefix" && !isRun(last));
    const asked = finishAtOnce(this.analyzer.analyzeQuery(isExpanding ? words.slice(0, -1) : words));
    const isPhrase = kind === "phrase" && (words.length > 1 || asked.length > 1);
    const placed = asked.flatMap(({ term, position: place }) => (term === null ? [] : [{ term, place }]));
    const phrase = isPhrase ? placed : null;
    const needs = placed.map(({ term }): Scored[] => [{ term, weight: 1, phrase }]);
    if (!isExpanding) return needs;
    const expansions = new Map<string, number>();
    if (isRun(last)) for (const term of this.analyzer.queryTerms([last])) expansions.set(term, 1);
    else
      for (const named of vocabulary) {
        const weight = this.#weightOf(clause, last, named);
        if (weight > 0) expansions.set(named.term, Math.max(weight, expansions.get(named.term) ?? 0));
      }
    return [...needs, Array.from(expansions, ([term, weight]) => ({ term, weight, phrase: null }))];
  }

  #hasPhrase({ places }: Held, phrase: Phrase): boolean {
    const starts = Array.from({ length: 2 * places.length + 20 }, (_, i) => i - places.length - 10);
    return starts.some((start) => phrase.every(({ term, place }) => places[start + place]?.includes(term)));
  }

  search(
    clauses: readonly Drawn[],
    k: number,
    statistics: TextStatistics,
    visible: Visible,
  ): Map<number, number> {
    const seen = [...this.records].filter(([ordinal]) => visible === null || visible(ordinal));
    // Words are compared as they are written, and by their terms.
    const vocabulary = seen
      .flatMap(([, { words, places }]) => [...words, ...places.flat().map((term) => ({ form: term, term }))])
      .sort((a, b) => (a.term < b.term ? -1 : 1));
    const meanings = clauses
      .map((clause) => ({ clause, needs: this.#needs(clause, vocabulary) }))
      .filter(({ needs }) => needs.length > 0);
    const satisfies = (record: Held, needs: readonly (readonly Scored[])[]) =>
      needs.every((scored) => scored.some(({ term }) => tfOf(record, term) > 0)) &&
      needs.flat().every(({ phrase }) => phrase === null || this.#hasPhrase(record, phrase));
    const found = seen.filter(([, record]) =>
      meanings.every(
        ({ clause: { sign }, needs }) => sign === "" || satisfies(record, needs) === (sign === "+"),
      ),
    );
    const scores = new Map<number, number>();
    for (const { term, weight, phrase } of this.#scored(meanings)) {
      const df = seen.filter(([, record]) => tfOf(record, term) > 0).length;
      for (const [ordinal, record] of found) {
        const tf = tfOf(record, term);
        if (tf === 0 || (phrase !== null && !this.#hasPhrase(record, phrase))) continue;
        const part = this.#score(tf, weight, df, record.length, statistics);
        scores.set(ordinal, (scores.get(ordinal) ?? 0) + part);
      }
    }
    return bestOf(scores, k);
  }

  /** The scored terms, ordered by first occurrence; those of optional phrases are separate. */
  #scored(meanings: readonly { clause: Drawn; needs: Scored[][] }[]): Scored[] {
    const list: Scored[] = [];
    for (const { clause, needs } of meanings) {
      if (clause.sign === "-") continue;
      const rest = (a: Scored, b: Scored) => b.weight - a.weight || (a.term < b.term ? -1 : 1);
      for (const { term, weight, phrase: given } of needs.flatMap((scored) => scored.sort(rest))) {
        const phrase = clause.sign === "+" ? null : given;
        const known = list.find((other) => other.term === term && other.phrase === null);
        if (phrase === null && known) known.weight += weight;
        else list.push({ term, weight, phrase });
      }
    }
    return list;
  }

  #score(
    tf: number,
    weight: number,
    df: number,
    length: number,
    { documents, totalLength }: TextStatistics,
  ): number {
    const { k1, b } = this.#options;
    const idf = Math.log(1 + (Math.max(documents, df) - df + 0.5) / (df + 0.5));
    const perTerm = totalLength > 0 ? (k1 * b) / (totalLength / documents) : 0;
    return (weight * idf * tf) / (tf + k1 * (1 - b) + perTerm * length);
  }
}

const tfOf = ({ places }: Held, term: string): number =>
  places.flat().filter((other) => other === term).length;

/** Few words, near to each other, with stop words and stems among them. */
const anyWord = fc.constantFrom(
  "bee",
  "bees",
  "be",
  "beech",
  "bean",
  "run",
  "running",
  "the",
  "of",
  "Café",
  "bee's",
  "東京",
  "東京都",
);
const anyText = fc.array(anyWord, { maxLength: 8 }).map((words) => words.join(" "));
const anyClause: fc.Arbitrary<Drawn> = fc.record({
  sign: fc.constantFrom("", "", "+", "-"),
  kind: fc.constantFrom("words", "phrase", "phrase", "prefix", "fuzzy"),
  words: fc.array(anyWord, { minLength: 1, maxLength: 3 }).map((words) => tokenize(words.join(" "))),
  distance: fc.constantFrom(1, 2),
});

type Act =
  | { kind: "add"; gap: number; text: string }
  | { kind: "retire" | "remove"; pick: number }
  | { kind: "search"; clauses: Drawn[]; k: number; modulus: number };

const anyAct: fc.Arbitrary<Act> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("add" as const), gap: fc.nat(3), text: anyText }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("retire" as const), pick: fc.nat(1_000) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("remove" as const), pick: fc.nat(1_000) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("search" as const),
      clauses: fc.array(anyClause, { minLength: 1, maxLength: 4 }),
      k: fc.integer({ min: 1, max: 12 }),
      modulus: fc.integer({ min: 1, max: 4 }),
    }),
  },
);

const anyOptions: fc.Arbitrary<TextOptions> = fc.record({
  language: fc.constantFrom<TextLanguage>("english", "none"),
  k1: fc.constantFrom(0, 0.9, 1.2),
  b: fc.constantFrom(0, 0.4, 0.75, 1),
  positions: fc.constant(true),
  bufferRecordsMax: fc.constantFrom(2, 20, 1_000),
});

test("[Q24] every search with operators equals brute force, bit for bit, through all changes; and is explained", () => {
  fc.assert(
    fc.property(anyOptions, fc.array(anyAct, { maxLength: 120, size: "max" }), (options, acts) => {
      const index = new TextIndex(options);
      const reference = new Reference(options);
      let next = 0;
      let statistics = reference.statistics();
      for (const act of acts) {
        if (act.kind === "add") {
          next += act.gap;
          const words = tokenize(act.text);
          index.add(next, words);
          reference.add(next++, words);
        } else if (act.kind === "search") {
          const end = next - (act.modulus % 3);
          const visible =
            act.modulus === 1
              ? null
              : (ordinal: number) =>
                  ordinal < end && !(reference.retired.has(ordinal) && ordinal % act.modulus !== 0);
          const query = act.clauses.map(written).join(" ");
          for (const searched of [statistics, reference.statistics()]) {
            const found = search(index, query, act.k, visible, searched);
            expectSame(found, reference.search(act.clauses, act.k, searched, visible));
            const sums = new Map([...found.keys()].map((ordinal) => [ordinal, 0]));
            const ordinals = [...found.keys()];
            const { terms } = resolve(index, query, visible);
            const steps = index.reader.explain(
              ordinals,
              terms,
              searched,
              () => visible,
              (at, match) => {
                sums.set(ordinals[at], (sums.get(ordinals[at]) as number) + match.contribution);
              },
            );
            for (let step = steps.next(); !step.done; step = steps.next());
            expect(sums).toEqual(found);
          }
          statistics = reference.statistics();
        } else {
          const ordinal = act.pick % Math.max(1, next);
          index[act.kind](ordinal);
          if (reference.records.has(ordinal)) reference.retired.add(ordinal);
          if (act.kind === "remove") reference.records.delete(ordinal);
        }
      }
      index.check();
    }),
    { numRuns: 400 },
  );
});

test("a query without operators scores as the plain query, bit for bit", () => {
  fc.assert(
    fc.property(fc.array(anyText, { maxLength: 20 }), anyText, (texts, query) => {
      const index = new TextIndex({ language: "english", k1: 1.2, b: 0.75 });
      for (const [ordinal, text] of texts.entries()) index.add(ordinal, tokenize(text));
      expect(search(index, query)).toEqual(asMap(index.reader.search(query, 10, index.statistics(), null)));
    }),
  );
});

/** An index of texts, by their positions in the array; English by default. */
function indexOf(texts: readonly string[], options: Partial<TextOptions> = {}): TextIndex {
  const index = new TextIndex({ language: "english", k1: 1.2, b: 0.75, positions: true, ...options });
  for (const [ordinal, text] of texts.entries()) index.add(ordinal, tokenize(text));
  return index;
}

const found = (index: TextIndex, query: string) => [...search(index, query).keys()].sort((a, b) => a - b);

test.each([
  ["waggle dance", [0, 1, 2, 3]],
  ['"waggle dance"', [0]],
  ['"dance waggle"', [1]],
  // A stop word keeps its position in a phrase and matches any stop word.
  ['"dance of bees"', [2]],
  ['"dance the bees"', [2]],
  ['"dance bees"', []],
  ['"the waggle dance"', [0]],
  ['"waggle dance" bee', [0, 2, 3]],
  ['+"waggle dance" bee', [0]],
  ['-"waggle dance" dance', [1, 2, 3]],
  ["+dance +bees", [2, 3]],
  ["+dance-bees", [2, 3]],
  ["dance -dance-bees", [0, 1]],
  ["+dance -bees", [0, 1]],
  ["+nowhere dance", []],
  ["-nowhere dance", [0, 1, 2, 3]],
  // Dropped words are ignored.
  ["+the dance", [0, 1, 2, 3]],
  ["-the dance", [0, 1, 2, 3]],
  // The query is empty.
  ["-dance", []],
  ["the -dance", []],
  ["", []],
])("%j finds the records %j", (query, ordinals) => {
  const texts = ["the waggle dance", "dance, waggle!", "Dances of bees", "bees and the dance", "hornets"];
  expect(found(indexOf(texts), query)).toEqual(ordinals);
});

test.each([
  ["english", "navig*", ["navigation", "navigated"]],
  // Their term is navig; the words themselves begin so.
  ["english", "naviga*", ["navigation", "navigated"]],
  ["english", "navigat~1", []],
  ["english", "navigatd~1", ["navigation", "navigated"]],
  ["english", "navigatoin~", ["navigation", "navigated"]],
  ["english", "navigation*", ["navigation", "navigated"]],
  ["none", "naviga*", ["navigation", "navigated"]],
  ["english", "running*", ["runs"]],
  ["english", "CAF*", ["Café"]],
  ["english", "the*", ["theory"]],
  ["french", "l'hom*", ["l'homme"]],
  ["english", "glaceirs~", ["glaciers"]],
  ["english", "galcer~2", ["glaciers"]],
  ["english", "galcer~1", []],
  ["none", "theroy~", ["theory"]],
  ["english", "l'*", []],
] as const)("%s: %s finds %j", (language, query, expected) => {
  const texts = ["navigation", "navigated", "runs", "Café", "theory", "l'homme", "glaciers"];
  expect(found(indexOf(texts, { language }), query).map((ordinal) => texts[ordinal])).toEqual(expected);
});

onSet("scifact", () => {
  test("[Q24] SciFact: prefixes and fuzzy words find all records with such words", () => {
    type Row = { title: string; text: string };
    const words = readJsonLines<Row>("scifact/corpus.jsonl.gz")
      .slice(0, 1_500)
      .map(({ title, text }) => [...new Set(tokenize(`${title} ${text}`))]);
    const index = new TextIndex({ language: "english", k1: 1.2, b: 0.75 });
    for (const [ordinal, each] of words.entries()) index.add(ordinal, each);
    index.check();
    const random = randomNumbers(24);
    const draw = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)];
    const plain = words.map((each) => each.filter((word) => /^[a-z]{4,}$/.test(word)));
    const recordsOf = new Map<string, number[]>();
    for (const [ordinal, each] of words.entries())
      for (const word of each)
        if (index.analyzer.of(word).term !== "")
          recordsOf.set(word, [...(recordsOf.get(word) ?? []), ordinal]);
    const expectAll = (query: string, isMeant: (word: string) => boolean) => {
      const found = new Set(
        resolve(index, query, null).terms.flatMap(({ term }) => [...index.reader.holdersOf(term)]),
      );
      for (const [word, records] of recordsOf)
        if (isMeant(word))
          assert(
            records.every((ordinal) => found.has(ordinal)),
            `${query}: ${word}`,
          );
    };
    for (let i = 0; i < 150; i++) {
      const word = draw(draw(plain));
      const prefix = word.slice(0, 3 + Math.floor(random() * (word.length - 2)));
      expectAll(`${prefix}*`, (other) => fold(other).startsWith(prefix));
      const at = Math.floor(random() * word.length);
      const misspelt = word.slice(0, at) + draw(["", "x", word[at] + word[at]]) + word.slice(at + 1);
      const distance = new EditDistance(misspelt);
      expectAll(`${misspelt}~1`, (other) => distance.to(fold(other), 1) <= 1);
    }
  });
});

test("[Q24] a prefix does not expand to terms that the version does not see", () => {
  const texts = ["navigator", "navigation", "navig", "run"];
  const index = indexOf(texts);
  const seenBy = (query: string, visible: Visible) =>
    resolve(index, query, visible).terms.flatMap(({ term }) =>
      index.reader.holdersOf(term).length > 0 ? term : [],
    );
  expect(seenBy("navigato*", null)).toEqual(["navig"]);
  expect(seenBy("navigato*", (ordinal) => ordinal !== 0 || !index.has(0))).toEqual(["navig"]);
  index.retire(0);
  expect(seenBy("navigato*", (ordinal) => ordinal > 0)).toEqual([]);
  expect(seenBy("navigato*", null)).toEqual(["navig"]);
  index.remove(0);
  expect(seenBy("navigato*", null)).toEqual([]);
  expect(seenBy("navigati*", null)).toEqual(["navig"]);
  // Of a record that is newer than the version.
  expect(seenBy("navigati*", (ordinal) => ordinal < 1)).toEqual([]);
  index.check();
});

test("a fuzzy term counts 1 / (1 + edits), a prefix's terms like words, and each is its own in an explanation", () => {
  const index = indexOf(["bee", "been", "beech"], { language: "none" });
  const weights = (query: string) =>
    Object.fromEntries(resolve(index, query, null).terms.map(({ term, weight }) => [term, weight]));
  expect(weights("bee~2")).toEqual({ bee: 1, been: 1 / 2, beech: 1 / 3 });
  expect(weights("bee*")).toEqual({ bee: 1, been: 1, beech: 1 });
  expect(weights("bee bee~1 bee")).toEqual({ bee: 3, been: 1 / 2 });
});

test("a prefix expands to the most frequent visible terms; an excluded one to all", () => {
  const count = limits.queryExpansionsMax + 10;
  const rare = Array.from({ length: count }, (_, i) => `w${i}`);
  // With w there are eleven too many. Ten terms are in two records each; of the others, the last by spelling go.
  const index = indexOf([...rare, ...rare.slice(-10), "w x"], { language: "none" });
  const found = search(index, "w*", 10 * count);
  expect(found.size).toBe(count);
  for (let i = count - 10; i < count; i++) expect(found.has(i)).toBe(true);
  // Seen by a version that does not have the second records, they are no more than others.
  const older = search(index, "w*", 10 * count, (ordinal) => ordinal < count);
  expect(older.size).toBe(limits.queryExpansionsMax);
  expect([...search(index, "x -w1* -w2*", 10).keys()]).toEqual([count + 10]);
  expect(search(index, "x -w*").size).toBe(0);
});

test("[Q20] a query is evaluated in steps, whatever is added, removed and merged meanwhile", () => {
  const words = ["bee", "beech", "run", "wasp", "dance"];
  const textOf = (i: number) =>
    Array.from({ length: 6 }, (_, at) => words[(i * (at + 2) + at * at) % 5]).join(" ");
  const index = indexOf(
    Array.from({ length: 900 }, (_, i) => textOf(i)),
    { bufferRecordsMax: 100 },
  );
  const end = 900;
  const gone = (ordinal: number) => ordinal % 9 === 0;
  const visible = (ordinal: number) => ordinal < end && !gone(ordinal);
  for (let ordinal = 0; ordinal < end; ordinal += 9) index.retire(ordinal);
  const statistics = index.statistics();
  const query = '"bee dance" +wasp -"run run" "dance wasp bee" -beech bee~ da* "bee dance"';
  const best = ({ terms, accepts }: TextQuery) =>
    asMap(index.reader.searchTerms(terms, 50, statistics, visible, accepts));
  const before = best(resolve(index, query, visible));
  expect(before.size).toBeGreaterThan(10);
  const steps = stepsOf(index, query, visible);
  for (let number = 0; ; number++) {
    const step = steps.next();
    if (step.done) {
      expect(number).toBeGreaterThan(20);
      expect(best(step.value)).toEqual(before);
      break;
    }
    for (let i = 0; i < 20; i++) index.add(end + 20 * number + i, tokenize(textOf(number + i)));
    for (let ordinal = 18 * number; ordinal < 18 * number + 18; ordinal++)
      if (ordinal < end && gone(ordinal)) index.remove(ordinal);
    index.tidy(1_000);
  }
  index.check();
});

test("positions are freed with their records, and counted", () => {
  const texts = Array.from({ length: 500 }, (_, i) => `a b c${i} a b`);
  const plain = indexOf(texts, { positions: false });
  const index = indexOf(texts);
  expect(index.memoryBytes).toBeGreaterThan(plain.memoryBytes + 500 * 8);
  expect([...index.reader.positionsOf("b", 7)]).toEqual([1, 4]);
  expect([...index.reader.positionsOf("c8", 7)]).toEqual([]);
  expect([...index.reader.holdersOf("c7")]).toEqual([7]);
  index.check();
  for (let ordinal = 0; ordinal < 500; ordinal++) index.remove(ordinal);
  index.check();
  expect([...index.reader.holdersOf("b")]).toEqual([]);
  expect(() => plain.reader.positionsOf("b", 7)).toThrow(/positions/);
});
