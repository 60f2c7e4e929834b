// Searches of postings among allowed ordinals: exactly the k best of these, in each of the possible ways.
//
// The reference is the complete result without a set, which the tests of each index compare with brute force.

import assert from "node:assert/strict";
import { randomNumbers } from "@quiverdb/kernels/random";
import { describe, expect, test } from "vitest";
import { allowedSets, bestAllowed, bitmapOf } from "../../../test/index/allowed-sets.ts";
import { bestOf } from "../../../test/index/best-of.ts";
import { asMap, expectSame } from "../../../test/index/reference.ts";
import { finishAtOnce } from "../../base/steps.ts";
import type { Candidates, Visible } from "../contract.ts";
import type { OrdinalBitmap } from "../ordinal-bitmap.ts";
import { SparseIndex } from "../sparse/sparse-index.ts";
import type { SparseVector } from "../sparse/sparse-reader.ts";
import { TextIndex } from "../text/text-index.ts";

const next = randomNumbers(14);
const integer = (end: number) => Math.floor(next() * end);

/** Weights that often tie. */
function someVector(dimensions: number, isSigned: boolean): SparseVector {
  const entries = new Map<number, number>();
  while (entries.size < dimensions)
    entries.set(Math.floor(next() ** 2 * 900), (1 + integer(6)) / 4 - (isSigned && next() < 0.2 ? 1 : 0));
  const sorted = [...entries].sort(([a], [b]) => a - b);
  return {
    indices: Uint32Array.from(sorted, ([index]) => index),
    values: Float32Array.from(sorted, ([, value]) => value),
  };
}

const words = Array.from({ length: 400 }, (_, i) => `w${i.toString(36)}x`);
const someText = (): string[] =>
  Array.from({ length: 4 + integer(30) }, () => words[Math.floor(next() ** 3 * 400)]);

/** Ordinals with gaps, of which some are removed later: records of segments, merged ones, and of the mutable buffer. */
class History {
  readonly ordinals: number[] = [];
  readonly held = new Set<number>();
  readonly retired = new Set<number>();
  #last = -1;

  add(take: (ordinal: number) => void): void {
    this.#last += next() < 0.02 ? 1 + integer(50) : 1;
    take(this.#last);
    this.ordinals.push(this.#last);
    this.held.add(this.#last);
  }

  some(share: number): number[] {
    return [...this.held].filter(() => next() < share);
  }

  /** The visible records of two versions: all, and those that were neither retired nor added last. */
  versions(): Visible[] {
    const end = this.ordinals[this.ordinals.length - 300];
    return [null, (ordinal) => ordinal < end && !this.retired.has(ordinal)];
  }
}

type Built<Index> = { readonly index: Index; readonly history: History };

function build<Index extends SparseIndex | TextIndex>(
  index: Index,
  add: (ordinal: number) => void,
): Built<Index> {
  const history = new History();
  for (let i = 0; i < 6_000; i++) history.add(add);
  while (index.tidy(1_000_000));
  for (const ordinal of history.some(0.1)) {
    index.remove(ordinal);
    history.held.delete(ordinal);
  }
  for (const ordinal of history.some(0.05)) {
    index.retire(ordinal);
    history.retired.add(ordinal);
  }
  for (let i = 0; i < 1_000; i++) history.add(add);
  index.check();
  expect(index.bufferedCount).toBeGreaterThan(0);
  return { index, history };
}

/** Compares searches with and without sets, for versions and numbers of results. */
function compare(
  history: History,
  search: (k: number, visible: Visible, allowed: OrdinalBitmap | null) => Candidates,
): void {
  for (const visible of history.versions()) {
    const all = search(history.ordinals.length, visible, null);
    for (const { allowed } of allowedSets(history.ordinals, next))
      for (const k of [1, 200]) {
        const found = asMap(search(k, visible, allowed));
        expectSame(found, bestAllowed(all, allowed, k));
      }
  }
}

describe("sparse vectors", () => {
  test.each([false, true])("at once and in steps, exactly; signed: %s", (isSigned) => {
    const index = new SparseIndex({ bufferRecordsMax: 1_500, debug: true });
    const { history } = build(index, (ordinal) => {
      const { indices, values } = someVector(15, isSigned);
      index.add(ordinal, indices, values);
    });
    for (const dimensions of [1, 3, 25]) {
      const query = someVector(dimensions, isSigned);
      compare(history, (k, visible, allowed) => index.reader.search(query, k, 0, visible, allowed));
      compare(history, (k, visible, allowed) =>
        finishAtOnce(index.reader.searchInSteps(query, k, 0, () => visible, allowed)),
      );
    }
  });

  test.each([false, true])("of thousands of dimensions, which are scored in full; signed: %s", (isSigned) => {
    const index = new SparseIndex({ bufferRecordsMax: 1_500, debug: true });
    const { history } = build(index, (ordinal) => {
      const { indices, values } = someVector(8, isSigned);
      index.add(ordinal, indices, values);
    });
    const indices = Uint32Array.from({ length: 3_000 }, (_, i) => i);
    const query = { indices, values: Float32Array.from(indices, (i) => 1 + (i % 4)) };
    compare(history, (k, visible, allowed) => index.reader.search(query, k, 0, visible, allowed));
    compare(history, (k, visible, allowed) =>
      finishAtOnce(index.reader.searchInSteps(query, k, 0, () => visible, allowed)),
    );
    // The greatest weights are elsewhere.
    const all = asMap(index.reader.search(query, history.ordinals.length, 0, null));
    const best = bestOf(all, 500);
    const allowed = bitmapOf([...all.keys()].filter((ordinal) => !best.has(ordinal)).slice(0, 40));
    const found = asMap(finishAtOnce(index.reader.searchInSteps(query, 30, 1, () => null, allowed)));
    expect(found.size).toBeGreaterThanOrEqual(30);
    for (const [ordinal, score] of found)
      expect([allowed.has(ordinal), score]).toEqual([true, all.get(ordinal)]);
  });

  test("with a threshold never fewer than k, and each with its exact score", () => {
    const index = new SparseIndex({ bufferRecordsMax: 1_500, debug: true });
    const { history } = build(index, (ordinal) => {
      const { indices, values } = someVector(15, false);
      index.add(ordinal, indices, values);
    });
    for (const dimensions of [2, 25]) {
      const query = someVector(dimensions, false);
      for (const visible of history.versions()) {
        const all = asMap(index.reader.search(query, history.ordinals.length, 0, visible));
        for (const { allowed } of allowedSets(history.ordinals, next))
          for (const threshold of [0.3, 0.9])
            for (const k of [1, 10, 500]) {
              const there = [...all.keys()].filter((ordinal) => allowed.has(ordinal)).length;
              for (const found of [
                index.reader.search(query, k, threshold, visible, allowed),
                finishAtOnce(index.reader.searchInSteps(query, k, threshold, () => visible, allowed)),
              ]) {
                expect(found.count).toBeGreaterThanOrEqual(Math.min(k, there));
                for (const [ordinal, score] of asMap(found)) {
                  assert(allowed.has(ordinal));
                  assert.equal(score, all.get(ordinal));
                }
              }
            }
      }
    }
  });

  test("fewer than 32 last records of a segment whose ordinals span 32 are masked each by its own ordinal", () => {
    const index = new SparseIndex();
    const ordinals = Uint32Array.from({ length: 17 }, (_, i) => 7 + 2 * i - (i === 16 ? 1 : 0));
    for (const ordinal of ordinals) index.add(ordinal, Uint32Array.of(1), Float32Array.of(1 + ordinal));
    finishAtOnce(index.freeze());
    expect(ordinals[16] - ordinals[0]).toBe(31);
    const found = index.reader.search(
      { indices: Uint32Array.of(1), values: Float32Array.of(1) },
      3,
      0,
      null,
      bitmapOf(ordinals),
    );
    expect([...asMap(found).keys()].sort((a, b) => a - b)).toEqual([35, 37, 38]);
  });

  test("few are looked up, many are masked: both ways are taken by the sets of these tests", () => {
    const index = new SparseIndex({ bufferRecordsMax: 1_500 });
    const { history } = build(index, (ordinal) => {
      const { indices, values } = someVector(15, false);
      index.add(ordinal, indices, values);
    });
    const query = someVector(25, false);
    const waysOf = allowedSets(history.ordinals, next).map(({ name, allowed }) => {
      const { listUs, maskUs } = index.reader.estimate(query, allowed.count);
      return [name, listUs < maskUs] as const;
    });
    const listed = new Map(waysOf);
    expect([listed.get("one"), listed.get("few")]).toEqual([true, true]);
    expect([listed.get("half"), listed.get("all")]).toEqual([false, false]);
  });
});

describe("texts", () => {
  const makeTexts = () => {
    const index = new TextIndex({ language: "none", k1: 1.2, b: 0.75, bufferRecordsMax: 1_500, debug: true });
    const { history } = build(index, (ordinal) => index.add(ordinal, someText()));
    return { index, history };
  };

  test("at once and in steps, exactly; scores are those of the whole version", () => {
    const { index, history } = makeTexts();
    const statistics = index.statistics();
    for (const count of [1, 3, 12]) {
      const query = Array.from({ length: count }, () => words[Math.floor(next() ** 2 * 400)]).join(" ");
      const terms = index.reader.termsOf(query);
      compare(history, (k, visible, allowed) => index.reader.search(query, k, statistics, visible, allowed));
      compare(history, (k, visible, allowed) =>
        finishAtOnce(index.reader.searchTermsInSteps(terms, k, statistics, () => visible, null, allowed)),
      );
    }
  });

  test("beside a filter of the query's own, and where terms count for some records only", () => {
    const { index, history } = makeTexts();
    const statistics = index.statistics();
    const accepts = (ordinal: number) => ordinal % 3 > 0;
    const within = Uint32Array.from(history.ordinals.filter((ordinal) => ordinal % 5 < 2));
    const plain = index.reader.termsOf(`${words[2]} ${words[5]} ${words[60]}`);
    for (const terms of [plain, plain.map((term, i) => (i === 1 ? { ...term, within } : term))]) {
      compare(history, (k, visible, allowed) =>
        index.reader.searchTerms(terms, k, statistics, visible, accepts, allowed),
      );
      compare(history, (k, visible, allowed) =>
        finishAtOnce(index.reader.searchTermsInSteps(terms, k, statistics, () => visible, accepts, allowed)),
      );
    }
  });

  test("of so many postings that they are scored in steps, while records come, go and are merged", () => {
    const { index, history } = makeTexts();
    const statistics = index.statistics();
    const terms = words.map((term) => ({ term, weight: 1 }));
    const seen = new Set(history.held);
    const visible: Visible = (ordinal) => seen.has(ordinal);
    const allowed = bitmapOf(history.ordinals.filter((ordinal) => ordinal % 2 === 0));
    const accepts = (ordinal: number) => ordinal % 3 > 0;
    const all = index.reader.searchTerms(terms, history.ordinals.length, statistics, visible, accepts);
    const steps = index.reader.searchTermsInSteps(terms, 20, statistics, () => visible, accepts, allowed);
    let count = 0;
    for (let step = steps.next(); ; step = steps.next(), count++) {
      if (step.done) {
        // df of a term is that of the version, whatever was added meanwhile.
        expectSame(asMap(step.value), bestAllowed(all, allowed, 20));
        break;
      }
      for (let i = 0; i < 20; i++) history.add((ordinal) => index.add(ordinal, someText()));
      index.tidy(10_000);
    }
    expect(count).toBeGreaterThan(3);
  });
});

test("records that span as many ordinals as a word has bits, with gaps between them, are masked one by one", () => {
  for (const count of [2, 20, 31, 32]) {
    const index = new SparseIndex();
    // The first and the last are 31 apart.
    const ordinals = [...Array.from({ length: count - 1 }, (_, i) => 40 + i), 71];
    const vector = { indices: Uint32Array.of(3), values: Float32Array.of(2) };
    for (const ordinal of ordinals) index.add(ordinal, vector.indices, vector.values);
    finishAtOnce(index.freeze());
    for (const one of ordinals) {
      const others = bitmapOf(ordinals.filter((ordinal) => ordinal !== one));
      expect(
        [...asMap(index.reader.search(vector, 100, 0, null, others)).keys()].sort((a, b) => a - b),
      ).toEqual(ordinals.filter((ordinal) => ordinal !== one));
    }
  }
});
