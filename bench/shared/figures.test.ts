// What do the rounds of a benchmark become?

import { expect, test } from "vitest";
import { overRounds, rowOf } from "./figures.ts";

const point = (effort: number, recall: number, cpuMs: readonly number[]) => ({
  effort,
  recall,
  ...overRounds("cpuMs", cpuMs),
  p50Ms: 1,
  p99Ms: 2,
});

test("rounds become their median, least and greatest", () => {
  expect(overRounds("us", [3, 1, 2])).toEqual({ us: 2, usMin: 1, usMax: 3 });
});

test("a spread is interpolated to a recall like its cost", () => {
  const row = rowOf([point(10, 0.9, [1, 2, 3]), point(20, 1, [3, 4, 9])], [0.95]);
  expect(row["cpuMs@0.95"]).toBeCloseTo(3);
  expect(row["cpuMsMin@0.95"]).toBeCloseTo(2);
  expect(row["cpuMsMax@0.95"]).toBeCloseTo(6);
});

test("where exact search is cheaper, its spread counts", () => {
  const row = rowOf([point(0.5, 0.96, [5, 6, 7]), point(0, 1, [1, 2, 3])], [0.95]);
  expect(row).toMatchObject({ "cpuMs@0.95": 2, "cpuMsMin@0.95": 1, "cpuMsMax@0.95": 3 });
});
