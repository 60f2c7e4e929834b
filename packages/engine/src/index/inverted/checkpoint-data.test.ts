// The data of a checkpoint do not change while the index changes, and restore an index with the same results as one built from the records
// of that moment.

import { randomNumbers } from "@quiverdb/kernels/random";
import { expect, test } from "vitest";
import { asMap, expectSame } from "../../../test/index/reference.ts";
import { anonymous, Task } from "../../base/scheduler.ts";
import { finishAtOnce } from "../../base/steps.ts";
import { SparseIndex, type SparseState } from "../sparse/sparse-index.ts";
import { TextIndex } from "../text/text-index.ts";
import type { TextOptions, TextState } from "../text/text-parts.ts";
import type { CheckpointData } from "./checkpoint-data.ts";

const bufferRecordsMax = 40;
const textOptions: TextOptions = {
  language: "english",
  k1: 1.2,
  b: 0.75,
  positions: true,
  bufferRecordsMax,
  debug: true,
};
const sparseOptions = { bufferRecordsMax, debug: true };

/** Of common words, rare ones, and words that only this record has; half of them in the plural, which is not their term. */
function textOf(ordinal: number, next: () => number): string[] {
  const words = Array.from({ length: Math.floor(next() * 12) }, () => {
    return `wa${Math.floor(next() ** 3 * 300)}${next() < 0.5 ? "s" : ""}`;
  });
  return next() < 0.2 ? [...words, `only${ordinal}`] : words;
}

type Sparse = { indices: Uint32Array; values: Float32Array };
function sparseOf(next: () => number): Sparse {
  const indices = [
    ...new Set(Array.from({ length: Math.floor(next() * 12) }, () => Math.floor(next() ** 3 * 300))),
  ];
  return { indices: Uint32Array.from(indices), values: Float32Array.from(indices, () => next() - 0.3) };
}

/** The records of an index and what became of them. */
class Held<Content> {
  readonly records = new Map<number, Content>();
  readonly retired: number[] = [];
  next = 0;
}

type Changing<Content> = {
  add(ordinal: number, content: Content): void;
  retire(ordinal: number): void;
  remove(ordinal: number): void;
  tidy(postings: number): boolean;
};

/** Adds, closes and removes records, like the indexing pipeline, and merges now and then. */
function change<Content>(
  index: Changing<Content>,
  held: Held<Content>,
  make: (ordinal: number) => Content,
  steps: number,
  random: () => number,
): void {
  for (let step = 0; step < steps; step++) {
    const what = random();
    const living = [...held.records.keys()];
    if (what < 0.6) {
      // Now and then an ordinal has no record of this kind.
      const ordinal = held.next + (random() < 0.1 ? 1 : 0);
      held.next = ordinal + 1;
      const content = make(ordinal);
      index.add(ordinal, content);
      held.records.set(ordinal, content);
    } else if (what < 0.8 && living.length > 0) {
      const closed = living[Math.floor(random() * living.length)];
      index.retire(closed);
      held.records.delete(closed);
      held.retired.push(closed);
    } else if (what < 0.95) {
      for (const ordinal of held.retired.splice(0, 3)) index.remove(ordinal);
    } else index.tidy(100);
  }
}

/** The images as another thread reads them, some time later. */
function afterwards<State>(
  kept: CheckpointData<State>,
  meanwhile: () => void,
): { state: State; load: (images: Uint8Array[]) => Promise<void> } {
  const state = structuredClone(kept.state);
  meanwhile();
  const written = kept.images.map((image) => image.slice());
  kept.done(true);
  return {
    state,
    load: async (images) => {
      expect(images.map(({ length }) => length)).toEqual(written.map(({ length }) => length));
      for (const [i, image] of images.entries()) image.set(written[i]);
    },
  };
}

test("[I4] a checkpoint has the rows of records that were frozen by the removal of others", async () => {
  const random = randomNumbers(4);
  const index = new TextIndex(textOptions);
  let next = 0;
  const addUntil = (isIdle: boolean) => {
    do index.add(next, textOf(next++, random));
    while (index.isIdle !== isIdle);
  };
  for (const isIdle of [false, true, false]) addUntil(isIdle);
  for (let ordinal = 0; !index.isIdle; ordinal++) index.remove(ordinal);
  const { state, load } = afterwards<TextState>(index.save(), () => {});
  const restored = await TextIndex.restored(textOptions, state, load, new Task(anonymous));
  expect(restored.count).toBe(index.count - index.bufferedCount);
  restored.check();
});

test.each([1, 2, 3])(
  "[I4] [I5] the checkpoint of a changing text index has the state of its moment: sequence %i",
  async (seed) => {
    const random = randomNumbers(seed);
    const index = new TextIndex(textOptions);
    const held = new Held<string[]>();
    const make = (ordinal: number) => textOf(ordinal, random);
    for (let round = 0; round < 4; round++) {
      change(index, held, make, 400, random);
      const records = new Map(held.records);
      const { state, load } = afterwards<TextState>(index.save(), () =>
        change(index, held, make, 600, random),
      );
      index.check();
      const restored = await TextIndex.restored(textOptions, state, load, new Task(anonymous));
      restored.check();
      expect(restored.count).toBe(
        [...records.keys()].filter((ordinal) => ordinal < state.postings.end).length,
      );
      expect(state.postings.segments.length).toBeGreaterThan(0);
      const fresh = new TextIndex(textOptions);
      for (const [ordinal, words] of records) {
        fresh.add(ordinal, words);
        if (ordinal >= state.postings.end) restored.add(ordinal, words);
      }
      expectAlike(restored, fresh, records, random);
      // Both continue in the same way, with new terms and merges.
      const later = new Held<string[]>();
      later.next = held.next;
      change(restored, later, make, 300, random);
      for (const [ordinal, words] of later.records) fresh.add(ordinal, words);
      for (const ordinal of later.retired) restored.remove(ordinal);
      while (restored.tidy(1_000));
      restored.check();
      expectAlike(restored, fresh, new Map([...records, ...later.records]), random);
    }
  },
);

function expectAlike(
  index: TextIndex,
  fresh: TextIndex,
  records: ReadonlyMap<number, readonly string[]>,
  random: () => number,
): void {
  const statistics = index.statistics();
  expect(statistics).toEqual(fresh.statistics());
  for (let i = 0; i < 20; i++) {
    const query = textOf(i, random).join(" ");
    expectSame(
      asMap(index.reader.search(query, 10, statistics, null)),
      asMap(fresh.reader.search(query, 10, statistics, null)),
    );
  }
  for (const [ordinal, words] of [...records].slice(-60)) {
    expect(index.has(ordinal)).toBe(true);
    const terms = index.analyzer.terms(words);
    for (const term of new Set(terms)) {
      expect([...index.reader.positionsOf(term, ordinal)]).toEqual(
        terms.flatMap((other, at) => (other === term ? [at] : [])),
      );
      expect(index.reader.holdersOf(term)).toEqual(fresh.reader.holdersOf(term));
    }
  }
  for (const prefix of ["only", "wa1"]) {
    // Terms of records that are gone stay until their segments are merged.
    const formsOf = (of: TextIndex) =>
      finishAtOnce(of.reader.expand({ prefix }, () => null)).flatMap(({ form, term }) =>
        of.reader.holdersOf(term).length > 0 ? form : [],
      );
    expect(formsOf(index).sort()).toEqual(formsOf(fresh).sort());
  }
}

test.each([1, 2, 3])(
  "[I4] [I5] the checkpoint of a changing sparse index has the state of its moment: sequence %i",
  async (seed) => {
    const random = randomNumbers(100 + seed);
    const index = new SparseIndex(sparseOptions);
    const changing: Changing<Sparse> = {
      add: (ordinal, { indices, values }) => index.add(ordinal, indices, values),
      retire: (ordinal) => index.retire(ordinal),
      remove: (ordinal) => index.remove(ordinal),
      tidy: (postings) => index.tidy(postings),
    };
    const held = new Held<Sparse>();
    const make = () => sparseOf(random);
    for (let round = 0; round < 4; round++) {
      change(changing, held, make, 400, random);
      const records = new Map(held.records);
      const { state, load } = afterwards<SparseState>(index.save(), () =>
        change(changing, held, make, 600, random),
      );
      index.check();
      const restored = await SparseIndex.restored(sparseOptions, state, load, new Task(anonymous));
      restored.check();
      const fresh = new SparseIndex(sparseOptions);
      for (const [ordinal, { indices, values }] of records) {
        fresh.add(ordinal, indices, values);
        if (ordinal >= state.postings.end) restored.add(ordinal, indices, values);
      }
      expect(restored.count).toBe(fresh.count);
      for (let i = 0; i < 20; i++) {
        const query = sparseOf(random);
        expectSame(
          asMap(restored.reader.search(query, 10, 0, null)),
          asMap(fresh.reader.search(query, 10, 0, null)),
        );
      }
    }
  },
);

test("changes are counted until they are in a checkpoint", () => {
  const index = new SparseIndex(sparseOptions);
  const next = randomNumbers(9);
  const add = (from: number, count: number) => {
    for (let i = 0; i < count; i++)
      index.add(from + i, Uint32Array.of(1, 2), Float32Array.of(next(), next()));
  };
  add(0, 39);
  expect(index.changes).toBe(0);
  add(39, 41);
  index.tidy(1_000);
  expect(index.changes).toBe(80);
  const failed = index.save();
  failed.done(false);
  expect(index.changes).toBe(80);
  const kept = index.save();
  add(80, 40);
  index.tidy(1_000);
  index.retire(3);
  kept.done(true);
  expect(index.changes).toBe(41);
  index.remove(3);
  expect(index.changes).toBe(41);
});
