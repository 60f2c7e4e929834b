// Is every answer of a text reader right for its version, while terms and forms come and go, and their numbers with them?
//
// Plain queries are compared with BM25 by its definition, others with an index of the version's records alone, in the reader's thread.

import { finishAtOnce } from "../../../src/base/steps.ts";
import type { LegOptions } from "../../../src/index/kind.ts";
import { OrdinalBitmap } from "../../../src/index/ordinal-bitmap.ts";
import { averageOf, Bm25, idf, type TextStatistics } from "../../../src/index/text/bm25.ts";
import { textKind } from "../../../src/index/text/kind.ts";
import type { TextLeg } from "../../../src/index/text/legs.ts";
import { TextIndex } from "../../../src/index/text/text-index.ts";
import { createAnalyzer } from "../../../src/text/analyzer.ts";
import { parseOperators } from "../../../src/text/operators.ts";
import { tokenize } from "../../../src/text/tokenize.ts";
import { bestOf } from "../best-of.ts";
import type { HammerAnswer, HammerDriver, HammeredVersion } from "../hammer-driver.ts";
import {
  check,
  differenceOf,
  disturb,
  mixed,
  remembered,
  someOf,
  unexplained,
} from "../inverted/hammering.ts";

const stems = "run walk navigat glacier mountain climb rain train strain brain".split(" ");
const endings = ["", "s", "ing", "ed", "er", "ion"];
const others = ["the", "東京都", "café", "x"];

/** A word: of a few that come often, or one of those that many ordinals in a row have, and then none. */
function wordOf(drawn: number, ordinal: number): string {
  const ending = endings[(drawn >>> 16) % endings.length];
  if (drawn % 8 === 0) return `u${((ordinal >>> 7) * 8 + ((drawn >>> 8) % 40)).toString(36)}${ending}`;
  if (drawn % 8 === 1) return others[(drawn >>> 8) % others.length];
  return stems[Math.floor((((drawn >>> 3) % 1_024) / 1_024) ** 2 * stems.length)] + ending;
}

const wordsOf = remembered((seed, ordinal): string[] => {
  const drawn = mixed(seed, ordinal);
  return tokenize(Array.from({ length: drawn % 14 }, (_, i) => wordOf(mixed(drawn, i), ordinal)).join(" "));
});

const [k1, b] = [1.2, 0.75];
const make = (retire?: (free: () => void) => void) =>
  new TextIndex({ language: "english", k1, b, positions: true, bufferRecordsMax: 150, retire });
const analyzer = createAnalyzer("english", null);

/** How often a text has which terms, and its length. */
const textOf = remembered((seed, ordinal) => {
  const terms = new Map<string, number>();
  const length = analyzer.read(wordsOf(seed, ordinal), (term) => {
    terms.set(term, (terms.get(term) ?? 0) + 1);
  });
  return { terms, length };
});

/** Of a version: how often its records have which terms, and its records alone as an index. */
class Truth {
  readonly #version: HammeredVersion;
  readonly #statistics: TextStatistics;
  readonly #texts: Map<number, ReturnType<typeof textOf>>;
  #index: TextIndex | undefined;

  constructor(version: HammeredVersion) {
    this.#version = version;
    this.#texts = new Map(version.ordinals.map((ordinal) => [ordinal, textOf(version.seed, ordinal)]));
    const lengths = [...this.#texts.values()].map(({ length }) => length).filter((length) => length > 0);
    this.#statistics = {
      documents: lengths.length,
      totalLength: lengths.reduce((sum, each) => sum + each, 0),
    };
  }

  /** What is wrong with the statistics of the version that are given. */
  get wrongStatistics(): string | undefined {
    const given = JSON.stringify(this.#version.statistics);
    const counted = JSON.stringify(this.#statistics);
    return given === counted ? undefined : `the statistics are ${given} instead of ${counted}`;
  }

  plain(query: string): Map<number, number> {
    const weights = new Map<string, number>();
    for (const term of analyzer.queryTerms(tokenize(query))) weights.set(term, (weights.get(term) ?? 0) + 1);
    const { fixed, perTerm } = new Bm25(k1, b).formula(averageOf(this.#statistics));
    const scores = new Map<number, number>();
    for (const [term, weight] of weights) {
      const having = [...this.#texts].filter(([, { terms }]) => terms.has(term));
      const factor = weight * idf(this.#statistics.documents, having.length);
      for (const [ordinal, { terms, length }] of having) {
        const tf = terms.get(term) as number;
        scores.set(ordinal, (scores.get(ordinal) ?? 0) + (factor * tf) / (tf + fixed + perTerm * length));
      }
    }
    return scores;
  }

  /** What a search of the version's records alone finds. */
  found(leg: TextLeg, options: LegOptions): Map<number, number> {
    const { seed, ordinals } = this.#version;
    if (this.#index === undefined) {
      this.#index = make();
      for (const ordinal of ordinals) this.#index.add(ordinal, wordsOf(seed, ordinal));
    }
    const version = { ...this.#version, statistics: this.#statistics, visible: () => null };
    const searches = textKind.search(this.#index.reader, [leg], version, options);
    const found = finishAtOnce(searches.search(0, ordinals.length + 1));
    return new Map(Array.from(found.ordinals, (ordinal, i) => [ordinal, found.scores[i]]));
  }
}

const truths = new WeakMap<HammeredVersion, Truth>();

function questionOf(random: () => number, ordinal: number): { text: string; isPlain: boolean } {
  const word = () =>
    wordOf(Math.floor(random() * 2 ** 32), Math.max(0, ordinal - Math.floor(random() * 300)));
  const drawn = random();
  if (drawn < 0.4) return { text: `${word()} ${word()} ${word()}`, isPlain: true };
  if (drawn < 0.55) return { text: `${word().slice(0, 3)}* ${word()}`, isPlain: false };
  if (drawn < 0.7) return { text: `${word()}~${1 + Math.floor(random() * 2)} ${word()}`, isPlain: false };
  if (drawn < 0.85) return { text: `"${word()} ${word()}" ${word()}`, isPlain: false };
  return { text: `+${word()} -${word()} ${word()}`, isPlain: false };
}

function ask(reader: object, version: HammeredVersion, random: () => number): HammerAnswer {
  const truth = truths.get(version) ?? new Truth(version);
  truths.set(version, truth);
  const { text, isPlain } = questionOf(random, version.ordinals.at(-1) ?? 0);
  const k = 1 + Math.floor(random() * 30);
  const some = someOf(version, random);
  const allowed = some && OrdinalBitmap.of(some);
  const options: LegOptions = { allowed, ofKey: null, isExact: false, ef: undefined };
  const clauses = isPlain ? null : parseOperators(text, "query");
  const leg: TextLeg = { kind: "tf-idf", text, clauses, path: "query" };
  const question = `text k=${k} of ${text} allowed=${allowed?.count ?? "all"}`;
  const searches = textKind.search(reader as never, [leg], version, options);
  const found = finishAtOnce(searches.search(0, k));
  const all = isPlain ? truth.plain(text) : truth.found(leg, { ...options, allowed: null });
  const best = bestOf(new Map([...all].filter(([each]) => allowed === null || allowed.has(each))), k);
  const wrong =
    truth.wrongStatistics ??
    differenceOf(found, best) ??
    unexplained(searches, best, ({ matches }: { matches: { contribution: number }[] }) =>
      matches.map(({ contribution }) => contribution),
    );
  return { question, ...(wrong !== undefined && { wrong }) };
}

export const textDriver: HammerDriver = {
  kind: textKind,
  make: (_seed, { retire }) => make(retire && ((free) => retire(free))),
  add: (index, seed, ordinal) => (index as TextIndex).add(ordinal, wordsOf(seed, ordinal)),
  disturb: (index, random) => disturb(index as TextIndex, random),
  check,
  ask,
};
