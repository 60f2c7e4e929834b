// Long lists, several segments, merges and removals, which the small sequences of the indexes' own tests do not reach.

import assert from "node:assert/strict";
import { describe, expect, test, vi } from "vitest";
import { bestOf } from "../../../test/index/best-of.ts";
import { asMap, expectSame } from "../../../test/index/reference.ts";
import { finishAtOnce } from "../../base/steps.ts";
import type { Visible } from "../contract.ts";
import { SparseIndex } from "../sparse/sparse-index.ts";
import type { SparseVector } from "../sparse/sparse-reader.ts";
import { Bm25 } from "../text/bm25.ts";
import { Arena } from "./arena.ts";
import { PostingIndex } from "./posting-index.ts";
import { type WeightedTerm, weightFormula } from "./query.ts";

/** Numbers in [0, 1), the same in every run. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

const k1 = 1.2;
const b = 0.75;
const formulaOf = (averageLength: number) => new Bm25(k1, b).formula(averageLength);

type Text = { length: number; frequencies: Map<number, number> };

/** Texts of a few common and many rare terms, as those of a language are. */
function someText(random: () => number): Text {
  const frequencies = new Map<number, number>();
  const length = 1 + Math.floor(random() ** 2 * 40);
  for (let i = 0; i < length; i++) {
    const term = Math.floor(random() ** 4 * 3_000);
    frequencies.set(term, (frequencies.get(term) ?? 0) + 1);
  }
  // Now and then a frequency that needs more than a byte.
  if (random() < 0.0005) frequencies.set(5, 300);
  return { length: [...frequencies.values()].reduce((sum, tf) => sum + tf, 0), frequencies };
}

class Texts {
  readonly held = new Map<number, Text>();
  readonly index: PostingIndex;
  #length = 0;

  constructor(options: { memoryBytesMax?: number; segmentPostingsMax?: number; debug?: boolean } = {}) {
    this.index = new PostingIndex({
      ...options,
      isText: true,
      levels: 255,
      formulaOf,
      bufferRecordsMax: 2_000,
      bufferPostingsMax: 30_000,
    });
  }

  get averageLength(): number {
    return this.#length / this.held.size;
  }

  add(ordinal: number, text: Text): void {
    this.held.set(ordinal, text);
    this.#length += text.length;
    const { frequencies, length } = text;
    this.index.add(ordinal, length, [...frequencies.keys()], [...frequencies.values()], this.averageLength);
  }

  remove(ordinal: number): void {
    this.#length -= this.held.get(ordinal)?.length ?? 0;
    this.held.delete(ordinal);
    this.index.remove(ordinal);
  }

  /** Searches the index and the held texts, and compares. */
  search(query: readonly number[], k: number, visible: Visible = null): void {
    const hidden = this.index.reader.hide(visible);
    const formula = {
      fixed: k1 * (1 - b),
      perTerm: (k1 * b) / this.averageLength,
      averageLength: this.averageLength,
    };
    const scores = new Map<number, number>();
    const terms: WeightedTerm[] = query.map((term, i) => {
      const located = this.index.reader.locate(term);
      const seen = [...this.held].filter(
        ([ordinal, { frequencies }]) => frequencies.has(term) && (visible === null || visible(ordinal)),
      );
      expect(this.index.reader.documentFrequency(located, hidden)).toBe(seen.length);
      const weight = (i + 1) * Math.log(1 + this.held.size / (1 + seen.length));
      for (const [ordinal, { frequencies, length }] of seen) {
        const tf = frequencies.get(term) as number;
        const part = (weight * tf) / (tf + formula.fixed + formula.perTerm * length);
        scores.set(ordinal, (scores.get(ordinal) ?? 0) + part);
      }
      return { located, weight };
    });
    expectSame(asMap(this.index.searcher.search(terms, k, formula, hidden)), bestOf(scores, k));
    const odd = (ordinal: number) => ordinal % 2 === 1;
    const accepted = new Map([...scores].filter(([ordinal]) => odd(ordinal)));
    expectSame(
      asMap(this.index.searcher.searchAccepted(terms, k, formula, hidden, odd)),
      bestOf(accepted, k),
    );
  }
}

const queries = [[0], [2_900], [0, 1, 2], [7, 300, 1_500], [1, 20, 60, 150, 400, 2_000], [0, 5, 2_999, 10]];

function searchAll(texts: Texts, visible: Visible = null): void {
  for (const query of queries) for (const k of [1, 10, 300, 9_000]) texts.search(query, k, visible);
}

describe("texts", () => {
  test("long lists in several segments, their merges, removals and hidden records equal brute force", () => {
    const random = randomFrom(1);
    const texts = new Texts({ debug: true });
    for (let ordinal = 0; ordinal < 40_000; ordinal++) texts.add(3 * ordinal, someText(random));
    searchAll(texts);
    while (texts.index.work(100_000));
    // Small adjacent segments were merged: in no case do all of the twenty or more frozen ones remain.
    expect(texts.index.parts.segments.length).toBeLessThan(12);
    texts.index.check();
    searchAll(texts);
    for (let i = 0; i < 14_000; i++) {
      const ordinal = 3 * Math.floor(random() * 40_000);
      if (texts.held.has(ordinal)) texts.remove(ordinal);
      if (i % 7_000 === 6_999) searchAll(texts);
    }
    texts.index.check();
    const retired = new Set([...texts.held.keys()].filter((ordinal) => ordinal % 11 === 0));
    for (const ordinal of retired) texts.index.retire(ordinal);
    searchAll(texts, (ordinal) => !retired.has(ordinal));
    searchAll(texts, (ordinal) => ordinal < 100_000 && !retired.has(ordinal));
    searchAll(texts, (ordinal) => ordinal < 6);
    for (const ordinal of [...texts.held.keys()]) texts.remove(ordinal);
    searchAll(texts);
    while (texts.index.work(100_000));
    texts.index.check();
    expect([texts.index.count, texts.index.parts.segments.length]).toEqual([0, 0]);
  });

  test("where there is no memory for the sums of a segment's records, windows find the same", () => {
    const random = randomFrom(5);
    const texts = new Texts({ debug: true });
    for (let ordinal = 0; ordinal < 20_000; ordinal++) texts.add(2 * ordinal, someText(random));
    while (texts.index.work(100_000));
    for (let ordinal = 0; ordinal < 20_000; ordinal += 9) texts.remove(2 * ordinal);
    const reserve = vi.spyOn(texts.index.parts.segments[0].arena, "reserveRecords").mockReturnValue(false);
    searchAll(texts);
    expect(reserve).toHaveBeenCalled();
    reserve.mockRestore();
    searchAll(texts);
  });

  test("bounds stay above the scores however much the average length moves", () => {
    const random = randomFrom(2);
    for (const lengths of [
      [5, 60],
      [60, 2],
    ]) {
      const texts = new Texts();
      for (let ordinal = 0; ordinal < 12_000; ordinal++) {
        const frequencies = new Map<number, number>();
        const length = 1 + Math.floor(random() * lengths[Math.floor(ordinal / 6_000)]);
        for (let i = 0; i < length; i++)
          frequencies.set(Math.floor(random() ** 3 * 500), 1 + Math.floor(random() * 3));
        texts.add(ordinal, {
          frequencies,
          length: [...frequencies.values()].reduce((sum, tf) => sum + tf, 0),
        });
      }
      for (const query of [[0], [1, 2, 3], [4, 90, 200, 400]]) texts.search(query, 10);
    }
  });

  test("an index continues in another memory when one is full, and searches all of them", () => {
    const random = randomFrom(3);
    const texts = new Texts({ memoryBytesMax: 24 * 65_536, segmentPostingsMax: 60_000 });
    for (let ordinal = 0; ordinal < 30_000; ordinal++) texts.add(ordinal, someText(random));
    expect(texts.index.arenaCount).toBeGreaterThan(2);
    searchAll(texts);
    for (let ordinal = 0; ordinal < 30_000; ordinal += 2) texts.remove(ordinal);
    while (texts.index.work(100_000));
    searchAll(texts);
    texts.index.check();
    const { arenaCount } = texts.index;
    for (let ordinal = 30_000; ordinal < 60_000; ordinal++) {
      texts.add(ordinal, someText(random));
      if (texts.held.has(ordinal - 30_000)) texts.remove(ordinal - 30_000);
    }
    // Freed memory is reused.
    expect(texts.index.arenaCount).toBeLessThanOrEqual(arenaCount + 1);
    searchAll(texts);
    texts.index.check();
  });
});

test("sparse vectors: long lists with and without negative weights equal brute force", () => {
  for (const least of [0, -0.5]) {
    const random = randomFrom(4);
    const vectorOf = (count: number): SparseVector => {
      const entries = new Map<number, number>();
      while (entries.size < count) entries.set(Math.floor(random() ** 3 * 2_000), least + random());
      return { indices: Uint32Array.from(entries.keys()), values: Float32Array.from(entries.values()) };
    };
    const index = new SparseIndex({ bufferRecordsMax: 3_000, levels: 64, debug: true });
    const held = new Map<number, SparseVector>();
    for (let ordinal = 0; ordinal < 25_000; ordinal++) {
      const vector = vectorOf(15);
      held.set(ordinal, vector);
      index.add(ordinal, vector.indices, vector.values);
    }
    for (let ordinal = 0; ordinal < 25_000; ordinal += 7) {
      held.delete(ordinal);
      index.remove(ordinal);
    }
    index.check();
    const byDimension = new Map<number, [ordinal: number, value: number][]>();
    for (const [ordinal, { indices, values }] of held)
      for (const [i, dimension] of indices.entries()) {
        const list = byDimension.get(dimension);
        if (list) list.push([ordinal, values[i]]);
        else byDimension.set(dimension, [[ordinal, values[i]]]);
      }
    for (const count of [1, 4, 40]) {
      const query = vectorOf(count);
      const order = [...query.indices.keys()].sort((x, y) => query.indices[x] - query.indices[y]);
      const scores = new Map<number, number>();
      for (const i of order)
        for (const [ordinal, value] of byDimension.get(query.indices[i]) ?? [])
          scores.set(ordinal, (scores.get(ordinal) ?? 0) + query.values[i] * value);
      for (const k of [1, 10, 200])
        expectSame(asMap(index.reader.search(query, k, 0, null)), bestOf(scores, k));
    }
  }
});

/** Records with sparse vectors like those of learned encoders, and their scores for a query. */
function scoredBy(held: readonly SparseVector[], query: SparseVector) {
  const weights = new Map([...query.indices].map((dimension, i) => [dimension, query.values[i]]));
  const products = held.map(({ indices, values }) =>
    [...indices].flatMap((dimension, i) => {
      const weight = weights.get(dimension);
      return weight === undefined ? [] : [weight * values[i]];
    }),
  );
  const sumOf = (some: readonly number[]) => some.reduce((sum, product) => sum + product, 0);
  return { products, sumOf };
}

test("with a threshold, the records whose greatest postings add most are found, with full scores", () => {
  const random = randomFrom(6);
  const vectorOf = (count: number): SparseVector => {
    const entries = new Map<number, number>();
    while (entries.size < count) entries.set(Math.floor(random() ** 3 * 800), random() ** 3);
    return { indices: Uint32Array.from(entries.keys()).sort(), values: Float32Array.from(entries.values()) };
  };
  for (const { levels, isChanged } of [
    { levels: 16, isChanged: false },
    { levels: 256, isChanged: false },
    { levels: 256, isChanged: true },
  ]) {
    const retired = new Set<number>();
    // 6,000 records are two segments with long lists, and lists without a high-impact prefix.
    const index = new SparseIndex({ bufferRecordsMax: 2_000, levels, debug: true });
    const held = Array.from({ length: 6_000 }, () => vectorOf(20));
    for (const [ordinal, { indices, values }] of held.entries()) index.add(ordinal, indices, values);
    while (index.tidy(100_000));
    for (let ordinal = 0; isChanged && ordinal < 6_000; ordinal += 9) {
      index[ordinal % 2 === 0 ? "remove" : "retire"](ordinal);
      retired.add(ordinal);
    }
    finishAtOnce(index.freeze());
    index.check();
    for (const threshold of [0.02, 0.1, 0.3, 0.6, 0.95])
      for (const count of [2, 6, 25]) {
        const query = vectorOf(count);
        const { products, sumOf } = scoredBy(held, query);
        const isThere = (ordinal: number) => !retired.has(ordinal);
        const greatest = Math.max(...products.filter((_, ordinal) => isThere(ordinal)).flat());
        // A product counts with its quantized impact, which is at most one level of the list's range higher.
        const level = greatest / (levels - 1);
        const least = threshold * greatest;
        const surely = products.map((each) => sumOf(each.filter((product) => product >= least)));
        const atMost = products.map((each) =>
          sumOf(
            each.filter((product) => product > least - 1.5 * level).map((product) => product + 1.5 * level),
          ),
        );
        const all = asMap(index.reader.search(query, held.length, threshold, isThere));
        for (const [ordinal, sum] of surely.entries()) {
          if (sum > 0 && isThere(ordinal)) assert(all.has(ordinal));
          // If records are removed, the known greatest impact is slightly too low, and more records are found.
          if (!isThere(ordinal) || (atMost[ordinal] === 0 && !isChanged)) assert(!all.has(ordinal));
        }
        const ranked = atMost.filter((_, ordinal) => isThere(ordinal)).sort((a, b) => b - a);
        for (const k of [1, 10]) {
          const found = asMap(index.reader.search(query, k, threshold, isThere));
          for (const [ordinal, score] of found) assert.equal(score, sumOf(products[ordinal]));
          expect(found.size).toBeGreaterThanOrEqual(Math.min(k, all.size));
          // Records that are among the k + 10 best by their greatest postings, however quantized impacts are rounded, and have a sufficient
          // score.
          const floor = Math.min(...found.values());
          for (const ordinal of all.keys()) {
            const isAmong = surely[ordinal] > 0 && !(ranked[k + 10] >= surely[ordinal]);
            if (isAmong && sumOf(products[ordinal]) > floor) assert(found.has(ordinal));
          }
        }
      }
  }
});

test("a record is found that owes its place to all the lists of which each alone adds little", () => {
  const random = randomFrom(8);
  const dimensions = Array.from({ length: 11 }, (_, i) => i);
  const index = new SparseIndex({ bufferRecordsMax: 4_000, debug: true });
  const expected = new Map<number, number>();
  const query = {
    indices: Uint32Array.from(dimensions),
    values: Float32Array.of(1, ...Array(10).fill(0.05)),
  };
  for (let ordinal = 0; ordinal < 12_000; ordinal++) {
    // The first have most of the first dimension, and some of the last have just enough of it when all others are added.
    const isFirst = ordinal < 20;
    const isOwing = ordinal % 1_000 === 999 && ordinal > 6_000;
    const values = dimensions.map((i) => {
      if (isFirst) return i === 0 ? 1 : 0;
      if (isOwing) return i === 0 ? 0.51 : 1;
      return i === 0 ? 0.4 * random() : 0.9 * random();
    });
    const having = dimensions.filter((i) => values[i] > 0);
    const weights = Float32Array.from(having, (i) => values[i]);
    index.add(ordinal, Uint32Array.from(having), weights);
    if (isFirst || isOwing)
      expected.set(
        ordinal,
        having.reduce((sum, i, place) => sum + query.values[i] * weights[place], 0),
      );
  }
  while (index.tidy(100_000));
  for (const k of [1, 6, 10, 26])
    expectSame(asMap(index.reader.search(query, k, 0, null)), bestOf(new Map(expected), k));
});

test("lists are found wherever their dimensions lie", () => {
  const dimensions = [0, 7, 8, 40_000, 2 ** 31, 2 ** 32 - 2, 2 ** 32 - 1];
  for (const ends of [1, 2, 4, 7])
    for (const some of [dimensions.slice(0, ends), dimensions.slice(-ends)]) {
      const index = new SparseIndex({ bufferRecordsMax: 1, debug: true });
      for (const [ordinal, dimension] of some.entries())
        index.add(ordinal, Uint32Array.of(dimension), Float32Array.of(1));
      for (const dimension of [...dimensions, 6, 9, 2 ** 31 - 1, 2 ** 32 - 3]) {
        const query = { indices: Uint32Array.of(dimension), values: Float32Array.of(2) };
        const ordinal = some.indexOf(dimension);
        const expected = ordinal < 0 ? [] : [[ordinal, 2]];
        expect([...asMap(index.reader.search(query, 10, 0, null))]).toEqual(expected);
      }
    }
});

test("a buffer is searched, hidden from and removed from while it is being frozen", () => {
  const random = randomFrom(12);
  const texts = new Texts({ debug: true });
  let next = 0;
  for (const what of ["nothing", "some", "all"]) {
    while (texts.index.isIdle) texts.add(2 * next++, someText(random));
    const segmentCount = texts.index.parts.segments.length;
    expect(texts.index.work(2_000)).toBe(true);
    const frozen = [...texts.held.keys()].filter((ordinal) => ordinal >= texts.index.frozenEnd);
    expect(texts.index.bufferedCount).toBe(frozen.length);
    // Newer records go to a separate mutable buffer.
    for (let i = 0; i < 3; i++) texts.add(2 * next++, { length: 1, frequencies: new Map([[1, 1]]) });
    searchAll(texts, (ordinal) => ordinal < frozen[frozen.length - 1]);
    const removed = frozen.filter((_, i) => what === "all" || (what === "some" && i % 3 === 0));
    for (const ordinal of removed) texts.remove(ordinal);
    texts.index.check();
    searchAll(texts);
    while (texts.index.work(3_000)) texts.search([1, 20, 2_000], 10);
    expect(texts.index.parts.segments.length).toBe(what === "all" ? segmentCount : segmentCount + 1);
    expect(texts.index.bufferedCount).toBe(3);
    texts.index.check();
    searchAll(texts);
  }
});

test("an idle index makes a segment of a buffer that is worth it, and one of its short segments", () => {
  const random = randomFrom(7);
  const index = new PostingIndex({
    isText: false,
    levels: 255,
    formulaOf: () => weightFormula,
    bufferRecordsMax: 800,
  });
  const add = (from: number, count: number) => {
    for (let i = 0; i < count; i++) index.add(from + i, 0, [Math.floor(random() * 50)], [random()], 0);
  };
  add(0, 850);
  while (index.work(1_000));
  expect([index.parts.segments.length, index.bufferedCount]).toEqual([1, 50]);
  while (index.tidy(1_000));
  expect([index.parts.segments.length, index.bufferedCount]).toEqual([1, 50]);
  add(850, 250);
  while (index.tidy(1_000));
  expect([index.parts.segments.length, index.bufferedCount, index.count]).toEqual([1, 0, 1_100]);
  index.check();
});

test("allocations of an arena never overlap, and freed memory is allocated again", () => {
  const random = randomFrom(5);
  const arena = new Arena({ memoryBytesMax: 64 * 65_536 });
  const allocations = new Map<number, number>();
  for (let i = 0; i < 5_000; i++) {
    const some = [...allocations.keys()][Math.floor(random() * allocations.size)];
    if (random() < 0.55 || some === undefined) {
      const bytes = Math.ceil(random() ** 3 * 300_000);
      const at = arena.allocate(bytes);
      if (at !== undefined) allocations.set(at, bytes);
    } else if (random() < 0.3) {
      allocations.set(some, Math.ceil((allocations.get(some) as number) / 2));
      arena.shrink(some, allocations.get(some) as number);
    } else {
      allocations.delete(some);
      arena.free(some);
    }
    if (i % 50 === 0) arena.check();
  }
  expect(() => arena.free(1)).toThrow("no allocation at 1");
  for (const at of allocations.keys()) arena.free(at);
  arena.check();
  expect(arena.memoryBytes).toBeLessThanOrEqual(64 * 65_536);
  expect(arena.allocate(50 * 65_536)).toBeDefined();
  expect(arena.allocate(50 * 65_536)).toBeUndefined();
});

test("at rest, what fits into one segment is merged where there is memory for it; without, nothing is begun", () => {
  for (const isThere of [true, false]) {
    const asked: number[] = [];
    const mayTake = (bytes: number) => asked.push(bytes) > 0 && isThere;
    const index = new SparseIndex({ bufferRecordsMax: 1_000, debug: true, mayTake });
    // An idle index leaves 5,000 and 1,000.
    for (let ordinal = 0; ordinal < 6_000; ordinal++)
      index.add(
        ordinal,
        Uint32Array.of(ordinal % 7, 10 + (ordinal % 97)),
        Float32Array.of(1, ordinal / 7_000),
      );
    while (index.tidy(100_000));
    const query = { indices: Uint32Array.of(3, 54), values: Float32Array.of(1, 1) };
    const before = asMap(index.reader.search(query, 20, 0, null));
    const { memoryBytes } = index;
    asked.length = 0;
    let steps = 0;
    while (index.tidy(1_000, "resting")) steps++;
    expect(steps > 5).toBe(isThere);
    expect(asked.length).toBeGreaterThan(0);
    if (!isThere) expect(index.memoryBytes).toBe(memoryBytes);
    expectSame(asMap(index.reader.search(query, 20, 0, null)), before);
    index.check();
  }
});

test("postings of lists of any length and weights of any size are the same after freezing and merging", () => {
  const extremes = [1.4e-45, 1e-38, 0, 1, 3.4e38, -1, -3.4e38];
  const kinds: readonly ((random: () => number) => number)[] = [
    (random) => Math.exp(6 * random() - 3),
    (random) => extremes[Math.floor(extremes.length * random())],
    () => 0.5,
    (random) => 1e-43 * random(),
  ];
  for (const isRemoved of [() => false, (ordinal: number) => ordinal % 700 < 30]) {
    const random = randomFrom(11);
    const index = new SparseIndex({ bufferRecordsMax: 300, debug: true });
    const held = new Map<string, number>();
    for (let ordinal = 0; ordinal < 6_000; ordinal++) {
      const dimensions = Array.from({ length: 60 }, (_, i) => i).filter((i) => ordinal % (i + 1) === 0);
      const values = Float32Array.from(dimensions, (i) => kinds[i % kinds.length](random));
      index.add(ordinal, Uint32Array.from(dimensions), values);
      for (const [i, dimension] of dimensions.entries()) held.set(`${dimension} ${ordinal}`, values[i]);
      // Removed from segments that are merged later.
      if (!isRemoved(ordinal - 400)) continue;
      index.remove(ordinal - 400);
      for (let i = 0; i < 60; i++) held.delete(`${i} ${ordinal - 400}`);
    }
    while (index.tidy(10_000, "resting"));
    const found = new Map<string, number>();
    const walk = index.weights(
      (dimension, ordinal, weight) => void found.set(`${dimension} ${ordinal}`, weight),
    );
    while (!walk.next().done);
    expect(found).toEqual(held);
    index.check();
  }
});
