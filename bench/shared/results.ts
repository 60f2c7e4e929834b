// How are results stored, and which figures follow from them?

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { inCache } from "./files.ts";

/** Results of an engine at one effort: medians over the rounds. */
export type Point = {
  readonly effort: number;
  readonly recall: number;
  readonly cpuMs: number;
  readonly wallP50Ms: number;
  readonly wallP99Ms: number;
};

export type EngineResult = {
  readonly name: string;
  readonly title: string;
  readonly isOurs: boolean;
  readonly note?: string;
  readonly buildCpuS: number;
  /** From the first row on until all are indexed, in seconds. */
  readonly buildS: number;
  /** Bytes of the index, for each row. */
  readonly bytesEach?: number;
  /** Bytes of its files, for each row; 0 if it has none. */
  readonly fileBytesEach: number;
  /** Growth of the process per row; absent if it is meaningless. */
  readonly grownEach?: number;
  /** By ascending recall, if the efforts are in that order. */
  readonly points: readonly Point[];
  /** Results of the plan's search with more results, if there is one. */
  readonly deepRecall?: number;
};

export type SetResult = {
  readonly set: string;
  readonly title: string;
  readonly rowCount: number;
  readonly queryCount: number;
  readonly rounds: number;
  readonly day: string;
  readonly processor: string;
  /** What else the page tells of the set. */
  readonly facts?: string;
  /** Of an inverted index: postings of a query's terms, on average. */
  readonly postingsPerQuery?: number;
  readonly engines: readonly EngineResult[];
  readonly leftOut: readonly string[];
};

const directoryOf = (bench: string): string => inCache(join(bench, "results"));

/** Stores the result of a set's latest run. */
export function keepResult(bench: string, result: { readonly set: string }): void {
  mkdirSync(directoryOf(bench), { recursive: true });
  writeFileSync(join(directoryOf(bench), `${result.set}.json`), `${JSON.stringify(result, undefined, 1)}\n`);
}

/** The stored results of a benchmark, in the order of `names`; without names, all of them by their names. */
export function keptResults<Result = SetResult>(bench: string, names?: readonly string[]): Result[] {
  const directory = directoryOf(bench);
  mkdirSync(directory, { recursive: true });
  const there = new Set(readdirSync(directory));
  const sorted = [...there].map((file) => file.replace(/\.json$/, "")).sort();
  return (names ?? sorted)
    .filter((name) => there.has(`${name}.json`))
    .map((name) => JSON.parse(readFileSync(join(directory, `${name}.json`), "utf8")));
}

/** The middle one; of an even count, the upper of the two in the middle. */
export const median = (numbers: readonly number[]): number =>
  numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? Number.NaN;

/** The given quantile of the numbers. */
export const quantile = (numbers: Float64Array, share: number): number =>
  numbers.toSorted()[Math.min(numbers.length - 1, Math.floor(share * numbers.length))];

/** Fraction of the first `count` ids of the ground truth that were found. `found` has `count` ids per query, -1 for none. */
export function recallOf(found: Int32Array, truth: readonly Int32Array[], count: number): number {
  let met = 0;
  truth.forEach((row, i) => {
    const wanted = new Set(row.subarray(0, count));
    for (const id of new Set(found.subarray(i * count, (i + 1) * count))) if (wanted.has(id)) met++;
  });
  return met / (count * truth.length);
}

/** A cost at a recall. `isBound`: even the lowest effort exceeds this recall, so the cost is an upper bound. */
export type At = { readonly value: number; readonly isBound: boolean };

/** Interpolated between the efforts around the recall; undefined where it is not reached. */
export function at<P extends { readonly recall: number }>(
  recall: number,
  points: readonly P[],
  cost: (point: P) => number,
): At | undefined {
  const above = points.findIndex((point) => point.recall >= recall);
  if (above < 0) return undefined;
  const high = points[above];
  const low = points[above - 1];
  if (low === undefined) return { value: cost(high), isBound: high.recall > recall };
  const share = (recall - low.recall) / (high.recall - low.recall);
  return { value: cost(low) + share * (cost(high) - cost(low)), isBound: false };
}
