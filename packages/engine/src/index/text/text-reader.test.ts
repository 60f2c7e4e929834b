// Readers of another thread's text index, in this thread: what they find does not depend on what the owner does, and when.
//
// The measure is an index that has only the records of the version.

import { randomNumbers } from "@quiverdb/kernels/random";
import { expect, test } from "vitest";
import { type Published, posted, Versioned } from "../../../test/index/inverted/versioned.ts";
import { asMap } from "../../../test/index/reference.ts";
import { finishAtOnce } from "../../base/steps.ts";
import { parseOperators } from "../../text/operators.ts";
import { tokenize } from "../../text/tokenize.ts";
import type { Visible } from "../contract.ts";
import type { SearchedVersion } from "../kind.ts";
import type { TextStatistics } from "./bm25.ts";
import { textKind } from "./kind.ts";
import type { TextLeg } from "./legs.ts";
import { TextIndex } from "./text-index.ts";
import type { TextOptions } from "./text-parts.ts";
import type { TextReader } from "./text-search.ts";

const stems = ["run", "walk", "navigat", "glacier", "mountain", "climb", "rain", "train", "strain", "brain"];
const endings = ["", "s", "ing", "ed", "er", "ion"];
const others = ["the", "東京都", "café", "ß", "x"];

function textsOf(next: () => number): () => string {
  let fresh = 0;
  const pick = <T>(from: readonly T[]): T => from[Math.floor(next() ** 2 * from.length)];
  const word = () => {
    const drawn = next();
    // Words that come once keep the numbers of terms and forms in motion.
    if (drawn < 0.1) return `u${(fresh++).toString(36)}${pick(endings)}`;
    return drawn < 0.2 ? pick(others) : pick(stems) + pick(endings);
  };
  return () => Array.from({ length: Math.floor(next() * 14) }, word).join(" ");
}

const queries = [
  "running mountain",
  "navigat* rain",
  "+strain~1 -walking",
  "brain~2 climb",
  '"running glaciers" mountain',
  '+"mountain climbing" x',
  "u1* u2*",
  "glaciers the café 東京都",
];

/** What a search of each query finds, with explanations. */
function answers(reader: TextReader, visible: Visible, statistics: TextStatistics, k: number): unknown[] {
  const legs = queries.map((text, i): TextLeg => {
    const clauses = i === 0 ? null : parseOperators(text, "query");
    return { kind: "tf-idf", text, clauses, path: "query" };
  });
  const version: SearchedVersion = {
    visible: () => visible,
    statistics,
    vectorOf: () => new Uint8Array(0),
  };
  const searches = textKind.search(reader, legs, version, {
    allowed: null,
    ofKey: null,
    isExact: false,
    ef: undefined,
  });
  return legs.map((_, i) => {
    const found = asMap(finishAtOnce(searches.search(i, k)));
    const ordinals = [...found.keys()].sort((a, b) => a - b);
    const explained = finishAtOnce(searches.explain(i, ordinals, () => undefined));
    return { found: new Map([...found].sort(([a], [b]) => a - b)), explained };
  });
}

type Reading = Published & {
  readonly descriptor: object;
  readonly reader: TextReader;
  readonly statistics: TextStatistics;
  readonly k: number;
  readonly answers: unknown[];
};

test.each([1, 2, 3, 4])(
  "an attached reader finds what its version has, bit for bit, whatever the owner changes; seed %i",
  (seed) => {
    const next = randomNumbers(seed);
    const integer = (end: number) => Math.floor(next() * end);
    const text = textsOf(next);
    const options: TextOptions = {
      language: seed === 4 ? "none" : "english",
      k1: 1.2,
      b: 0.75,
      positions: true,
      bufferRecordsMax: [30, 100, 8_192][seed % 3],
      debug: seed === 1,
    };
    const records = new Map<number, string[]>();
    const versions = new Versioned((retire) => new TextIndex({ ...options, retire }));
    const { index } = versions;
    const add = () => {
      const ordinal = versions.next(integer(20) === 0 ? integer(50) : 0);
      records.set(ordinal, tokenize(text()));
      index.add(ordinal, records.get(ordinal) as string[]);
    };
    const readings: Reading[] = [];
    for (let round = 0; round < 40; round++) {
      const changes = integer(60);
      for (let i = 0; i < changes; i++) add();
      const live = [...versions.live];
      for (let i = integer(2 * changes + 1); i > 0 && live.length > 0; i--)
        versions.close(live.splice(integer(live.length), 1)[0]);
      const statistics = index.statistics();
      const published = versions.publish();
      // What is added before the view is described, and is younger than it.
      for (let i = integer(6); i > 0; i--) add();
      const descriptor = posted(textKind.descriptor?.(index) as object);
      const reader = textKind.attach?.(descriptor, 1) as TextReader;
      const k = 1 + integer(20);
      const { visible } = published;
      const only = new TextIndex(options);
      for (const [ordinal, words] of records) if (visible(ordinal)) only.add(ordinal, words);
      expect(only.statistics()).toEqual(statistics);
      const expected = answers(only.reader, null, statistics, k);
      expect(answers(reader, visible, statistics, k)).toEqual(expected);
      expect(answers(index.reader, visible, statistics, k)).toEqual(expected);
      readings.push({ ...published, descriptor, reader, statistics, k, answers: expected });
      versions.reclaim(integer(2) === 0 ? integer(50) : undefined);
      while (integer(4) !== 0 && index.tidy(500));
      // Every pinned version is read again, by its first reader and by one that is attached now.
      for (const old of readings) {
        expect(answers(old.reader, old.visible, old.statistics, old.k)).toEqual(old.answers);
        if (integer(3) > 0) continue;
        const again = textKind.attach?.(old.descriptor, 1) as TextReader;
        expect(answers(again, old.visible, old.statistics, old.k)).toEqual(old.answers);
      }
      while (readings.length > integer(6)) versions.release(readings.splice(integer(readings.length), 1)[0]);
      index.check();
    }
  },
);

test("a form that only hidden records have is none, also after the thread has attached to a later moment without them", () => {
  const options: TextOptions = { language: "english", k1: 1.2, b: 0.75 };
  const versions = new Versioned((retire) => new TextIndex({ ...options, retire }));
  const { index } = versions;
  const [hidden, seen] = [versions.next(), versions.next()];
  index.add(hidden, ["navigating"]);
  index.add(seen, ["navigation"]);
  // So many that the segment is not merged when one is removed.
  for (let i = 0; i < 10; i++) index.add(versions.next(), ["other"]);
  finishAtOnce(index.freeze());
  const first = versions.publish();
  versions.close(hidden);
  const statistics = index.statistics();
  const second = versions.publish();
  const attach = () => textKind.attach?.(posted(textKind.descriptor?.(index) as object), 1) as TextReader;
  const reader = attach();
  const found = (by: TextReader, text: string): number[] => {
    const leg: TextLeg = { kind: "tf-idf", text, clauses: parseOperators(text, "query"), path: "query" };
    const version = { visible: () => second.visible, statistics, vectorOf: () => new Uint8Array(0) };
    const options = { allowed: null, ofKey: null, isExact: false, ef: undefined };
    const { ordinals, count } = finishAtOnce(textKind.search(by, [leg], version, options).search(0, 10));
    return Array.from(ordinals).slice(0, count);
  };
  expect([found(reader, "navigatin*"), found(reader, "navigatio*")]).toEqual([[], [seen]]);
  versions.release(first);
  versions.reclaim();
  expect(index.has(hidden)).toBe(false);
  const later = attach();
  for (const each of [reader, later, index.reader])
    expect([found(each, "navigatin*"), found(each, "navigatio*")]).toEqual([[], [seen]]);
});
