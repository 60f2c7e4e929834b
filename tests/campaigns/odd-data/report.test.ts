// Do the tables show the results?

import { expect, test } from "vitest";
import type { Case } from "../odd-data.ts";
import { tableByData, tableByType } from "./report.ts";

const found = (type: Case["type"], recall: number, itselfFirst = 1): Case => ({
  data: "bits",
  metric: "cosine",
  type,
  codes: "f32",
  mode: "in-place",
  settings: "compared",
  counted: { recall, strictRecall: recall, emptyQueries: 1, queries: 50, itselfFirst, strictItselfFirst: 1 },
  faults: [],
});

test("the lowest recall of several orders of arrival is shown, in bold if it is below the requirement", () => {
  const lines = tableByData([found("auto", 0.99), found("auto", 0.98), found("hnswlib", 1)]);
  expect(lines.at(-1)).toBe("| bits | **0.980** · – · 1.000 | – · – · – | – · – · – |");
});

test("a kind of data on which only hnswlib finds too little is left out", () => {
  expect(tableByData([found("auto", 0.99), found("hnswlib", 0.5)])).toEqual([
    "No case of `auto` or `f32` has a recall below 98.5 %.",
  ]);
});

test("a case that failed with an error counts as no results", () => {
  const broken: Case = { ...found("f32", 1), counted: undefined };
  expect(tableByData([found("f32", 1), broken]).at(-1)).toContain("| – · **fault** · – |");
  expect(tableByType([found("f32", 0.5, 0.25), broken]).at(-1)).toBe(
    "| f32 | 2 | 0 | 0.500 | 0.000 | 0.0 % | 1 of 50 |",
  );
});
