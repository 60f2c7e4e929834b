import { randomNumbers } from "@quiverdb/kernels/random";
import { metricNames } from "@quiverdb/protocol/shapes/index-definition";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { bestOf } from "../../../test/index/best-of.ts";
import { BruteForce } from "../../../test/index/brute-force.ts";
import { exactNearest } from "../../../test/index/exact-nearest.ts";
import { asMap, expectSame } from "../../../test/index/reference.ts";
import { exactScore, metrics } from "../../vector/metric.ts";
import type { Visible } from "../contract.ts";
import { VectorRows } from "./vector-rows.ts";

/** The k nearest of all rows. */
const nearest = (rows: VectorRows, query: Float32Array, k: number, visible: Visible): Map<number, number> =>
  k === 0 ? new Map() : asMap(exactNearest(rows, query, k, visible));

type Act =
  | { kind: "add"; gap: number; values: number[] }
  | { kind: "onLinked" | "remove"; pick: number }
  | { kind: "search"; query: number[]; k: number; modulus: number };

/** Acts on vectors of one dimension with values of one kind: tame, with many ties, of all magnitudes, or overflowing. */
function acts(dimension: number): fc.Arbitrary<Act[]> {
  const kinds = [
    fc.float({ min: -2, max: 2, noNaN: true }),
    fc.integer({ min: -1, max: 1 }),
    fc.float({ noNaN: true, noDefaultInfinity: true }),
    fc.constantFrom(3e38, -3e38, 1e38, 1, 0, 1e-38),
  ];
  return fc.constantFrom(...kinds).chain((value) => {
    const values = fc.array(value, { minLength: dimension, maxLength: dimension });
    const pick = fc.nat(1_000);
    const act: fc.Arbitrary<Act> = fc.oneof(
      { weight: 6, arbitrary: fc.record({ kind: fc.constant("add" as const), gap: fc.nat(3), values }) },
      { weight: 1, arbitrary: fc.record({ kind: fc.constant("onLinked" as const), pick }) },
      { weight: 3, arbitrary: fc.record({ kind: fc.constant("remove" as const), pick }) },
      {
        weight: 2,
        arbitrary: fc.record({
          kind: fc.constant("search" as const),
          query: values,
          k: fc.nat(12),
          modulus: fc.integer({ min: 1, max: 4 }),
        }),
      },
    );
    return fc.array(act, { maxLength: 120, size: "max" });
  });
}

describe.each(metricNames)("%s", (metric) => {
  test.each([1, 3, 17])("dimension %i: every search equals brute force, through all changes", (dimension) => {
    fc.assert(
      fc.property(acts(dimension), (acts) => {
        const index = new VectorRows({ dimension, metric });
        const reference = new BruteForce({ metric });
        let next = 0;
        for (const act of acts) {
          if (act.kind === "add") {
            const values = Float32Array.from(act.values);
            next += act.gap;
            index.add(next, values);
            reference.rows.set(next++, values);
          } else if (act.kind === "search") {
            const query = Float32Array.from(act.query);
            const visible = act.modulus === 1 ? null : (ordinal: number) => ordinal % act.modulus !== 0;
            expectSame(
              nearest(index, query, act.k, visible),
              bestOf(reference.scored(query, visible), act.k),
            );
          } else {
            const ordinal = act.pick % Math.max(1, next);
            index[act.kind](ordinal);
            if (act.kind === "remove") reference.rows.delete(ordinal);
            expect(index.has(ordinal)).toBe(reference.rows.has(ordinal));
          }
          expect(index.waitingCount + index.linkedCount).toBe(reference.rows.size);
          if (act.kind === "search") index.compact();
        }
        index.check();
      }),
      { numRuns: 150 },
    );
  });

  test("many records, several blocks, random removals and replacements", () => {
    const dimension = 30;
    const rowBytes = 128;
    const blockBytesMax = 5 * 65_536;
    const index = new VectorRows({ dimension, metric, blockBytesMax });
    const reference = new BruteForce({ metric });
    const next = randomNumbers(7);
    const draw = () => Float32Array.from({ length: dimension }, () => Math.round(8 * next() - 4) / 4);
    let ordinal = 0;
    const add = () => {
      const values = draw();
      index.add(ordinal, values);
      if (ordinal % 3 !== 0) index.onLinked(ordinal);
      reference.rows.set(ordinal++, values);
    };
    const compare = () => {
      index.check();
      for (const k of [1, 10, 500, 100_000]) {
        const query = draw();
        const visible = k === 10 ? null : (o: number) => o % 3 !== 1;
        expectSame(nearest(index, query, k, visible), bestOf(reference.scored(query, visible), k));
      }
    };
    for (let i = 0; i < 6_000; i++) add();
    expect(index.memoryBytes).toBeGreaterThan(2 * blockBytesMax);
    compare();
    const filled = index.memoryBytes;
    const live = 6_000 * rowBytes;
    expect(filled).toBeLessThan(1.3 * live);
    for (let round = 0; round < 3; round++) {
      const old = [...reference.rows.keys()].sort(() => next() - 0.5);
      for (const gone of old) {
        add();
        index.remove(gone);
        reference.rows.delete(gone);
        index.compact();
      }
    }
    compare();
    expect(index.memoryBytes).toBeLessThan(1.6 * filled);
    for (const gone of [...reference.rows.keys()].slice(0, 5_990)) {
      index.remove(gone);
      reference.rows.delete(gone);
    }
    while (index.compact());
    compare();
    expect(index.memoryBytes).toBeLessThan(filled / 4);
    for (const gone of [...reference.rows.keys()]) index.remove(gone);
    expect(index.memoryBytes).toBeLessThan(1_000);
    expect(nearest(index, draw(), 10, null).size).toBe(0);
    index.check();
  });

  test("all rows tie: all are returned, whatever k", () => {
    const index = new VectorRows({ dimension: 3, metric });
    const values = Float32Array.of(0.1, 0.2, 0.3);
    for (let ordinal = 0; ordinal < 50_000; ordinal++) index.add(ordinal, values);
    const found = nearest(index, Float32Array.of(0.3, 0.2, 0.1), 10, (ordinal) => ordinal % 2 === 0);
    expect(found.size).toBe(25_000);
    expect(new Set(found.values()).size).toBe(1);
  });

  test("differences far below f32's precision are told apart", () => {
    const dimension = 64;
    const index = new VectorRows({ dimension, metric });
    const reference = new BruteForce({ metric });
    // Neighbouring floats in one place: the scores differ in the last bits, which f32 sums do not have.
    for (let ordinal = 0; ordinal < 500; ordinal++) {
      const values = new Float32Array(dimension).fill(1);
      values[ordinal % dimension] += Math.floor(ordinal / dimension) * 2 ** -23;
      index.add(ordinal, values);
      reference.rows.set(ordinal, values);
    }
    const query = Float32Array.from({ length: dimension }, (_, i) => 1 + i / 7);
    for (const k of [1, 5, 100])
      expectSame(nearest(index, query, k, null), bestOf(reference.scored(query, null), k));
  });

  test("`visible` is asked only about rows that may matter", () => {
    const index = new VectorRows({ dimension: 8, metric });
    const next = randomNumbers(3);
    const draw = () => Float32Array.from({ length: 8 }, next);
    for (let ordinal = 0; ordinal < 20_000; ordinal++) index.add(ordinal, draw());
    let asked = 0;
    nearest(index, draw(), 10, () => ++asked > 0);
    // Of rows in random order, about k * (1 + ln(n / k)) are among the best so far.
    expect(asked).toBeLessThan(400);
  });
});

test("rows whose f32 sums overflow in between are computed exactly", () => {
  const index = new VectorRows({ dimension: 8, metric: "dot_product" });
  const [big, small] = [2e19, 1e15];
  const query = Float32Array.of(big, big, big, big, small, small, small, small);
  // Partial sums are infinite in f32, of either sign, or infinity minus infinity; the true sums are not.
  const rows = [
    Float32Array.of(-big, 0, 0, big, small, 0, 0, 0),
    Float32Array.of(big, -big, 0, 0, 2 * small, 0, 0, 0),
    Float32Array.of(0, 0, 0, 0, 1.5 * small, 0, 0, 0),
    Float32Array.of(-big, -big, 0, 0, 0, 0, 0, 0),
  ];
  rows.forEach((row, ordinal) => {
    index.add(ordinal, row);
  });
  const found = nearest(index, query, 3, null);
  expectSame(found, new Map([0, 1, 2].map((i) => [i, exactScore(metrics.dot_product, query, rows[i])])));
  expect([...found.values()].every((score) => score > 0.9e30 && score < 2.1e30)).toBe(true);
});

test("wrong input is rejected and changes nothing", () => {
  const index = new VectorRows({ dimension: 2, metric: "cosine" });
  expect(() => index.add(0, Float32Array.of(1, Number.NaN))).toThrow("not finite");
  expect(() => index.add(-1, new Float32Array(2))).toThrow("ascend");
  expect(() => index.add(0xffff_ffff, new Float32Array(2))).toThrow("ascend");
  expect(index.waitingCount).toBe(0);
  index.check();
  index.add(5, Float32Array.of(1, 0));
  expect(() => index.add(5, new Float32Array(2))).toThrow("ascend");
  expect(() => nearest(index, Float32Array.of(1), 1, null)).toThrow("1 values instead of 2");
  expect(() => nearest(index, Float32Array.of(1, Number.POSITIVE_INFINITY), 1, null)).toThrow("not finite");
  expect(() => new VectorRows({ dimension: 65_535, metric: "cosine", blockBytesMax: 65_536 })).toThrow(
    "holds no vector",
  );
  index.close();
  expect(index.memoryBytes).toBeLessThan(1_000);
});

test("the largest dimension", () => {
  const index = new VectorRows({ dimension: 65_535, metric: "euclidean", blockBytesMax: 20 * 65_536 });
  for (let ordinal = 0; ordinal < 10; ordinal++) index.add(ordinal, new Float32Array(65_535).fill(ordinal));
  index.check();
  expect(nearest(index, new Float32Array(65_535).fill(7), 1, null)).toEqual(new Map([[7, 1]]));
});
