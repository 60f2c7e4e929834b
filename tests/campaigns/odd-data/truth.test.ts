// Does the campaign detect errors? A fake index returns wrong results.

import { metricNames } from "@quiverdb/protocol/shapes/index-definition";
import { describe, expect, test } from "vitest";
import { Random, rowsOf } from "../../odd-data/random.ts";
import { topK } from "./marks.ts";
import { type Answering, count, lastOfBest, reaches, scoreOf } from "./truth.ts";

const random = new Random(3);
const rows = rowsOf(200, () => random.gaussian(6));
const queries = rowsOf(20, () => random.gaussian(6));

describe.each(metricNames)("%s", (metric) => {
  const living = new Map(rows.map((row, label) => [label, row]));
  const ranked = (query: Float32Array): number[] =>
    [...living.keys()].sort((a, b) => scoreOf(metric, query, rows[b]) - scoreOf(metric, query, rows[a]));
  const exact: Answering = { metric, living, search: (query, k) => ranked(query).slice(0, k) };

  test("the exact result is right in everything", async () => {
    const counted = await count(exact, queries, 1);
    expect(counted).toMatchObject({ recall: 1, strictRecall: 1, emptyQueries: 0, itselfFirst: 1 });
  });

  test("what is missed is counted", async () => {
    const late = { ...exact, search: (query: Float32Array, k: number) => ranked(query).slice(3, k + 3) };
    const counted = await count(late, queries, 1);
    expect(counted.recall).toBeCloseTo(0.7, 10);
    expect(counted.itselfFirst).toBeLessThan(metric === "dot_product" ? 0.9 : 0.01);
    const wrong = { ...exact, search: (query: Float32Array, k: number) => ranked(query).slice(-k) };
    expect(await count(wrong, queries, 1)).toMatchObject({ recall: 0, emptyQueries: queries.length });
    const none = { ...exact, search: () => [] };
    expect(await count(none, queries, 1)).toMatchObject({ recall: 0, itselfFirst: 0 });
  });

  test("a removed or repeated record is a fault", async () => {
    const removed = { ...exact, search: () => [200] };
    await expect(count(removed, queries, 1)).rejects.toThrow("record 200");
    const twice = { ...exact, search: () => [1, 1] };
    await expect(count(twice, queries, 1)).rejects.toThrow("twice");
  });

  test("ties at the last rank are right, and nothing below", () => {
    const [query] = queries;
    const best = ranked(query);
    const last = lastOfBest(metric, query, rows);
    expect(last).toBe(scoreOf(metric, query, rows[best[topK - 1]]));
    expect(reaches(scoreOf(metric, query, rows[best[topK]]), last)).toBe(false);
    expect(reaches(last - 1e-7 * Math.abs(last), last)).toBe(true);
  });
});

test("a zero vector has the cosine 0, and extreme values have finite scores", () => {
  const zero = new Float32Array(2);
  const huge = Float32Array.of(3e38, -3e38);
  expect(scoreOf("cosine", zero, huge)).toBe(0);
  for (const metric of metricNames)
    for (const row of [huge, zero, Float32Array.of(1e-44, 0)])
      expect(Number.isFinite(scoreOf(metric, huge, row))).toBe(true);
});
