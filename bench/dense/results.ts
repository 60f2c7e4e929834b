// What has been measured, and what follows from it?

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { cacheDirectory } from "./data.ts";

/** What an engine did with one beam: medians over the rounds. */
export type Point = {
  readonly ef: number;
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
  readonly bytesPerVector?: number;
  /** Growth of the process, for each vector; left out where it says nothing. */
  readonly grownPerVector?: number;
  /** By ascending beam. */
  readonly points: readonly Point[];
  /** Of the 100 nearest, with a beam of `deepEf`. */
  readonly deepRecall: number;
};

export type SetResult = {
  readonly set: string;
  readonly title: string;
  readonly rowCount: number;
  readonly queryCount: number;
  readonly rounds: number;
  readonly day: string;
  readonly processor: string;
  readonly engines: readonly EngineResult[];
  readonly leftOut: readonly string[];
};

/** Neighbours asked for, and those of the second recall with its beam. */
export const k = 10;
export const deepK = 100;
export const deepEf = 128;

const resultsDirectory = join(cacheDirectory, "results");

/** Keeps the result of a set's latest run. */
export function keepResult(result: SetResult): void {
  mkdirSync(resultsDirectory, { recursive: true });
  writeFileSync(join(resultsDirectory, `${result.set}.json`), `${JSON.stringify(result, undefined, 1)}\n`);
}

/** The kept results, in the order of `names`. */
export function keptResults(names: readonly string[]): SetResult[] {
  mkdirSync(resultsDirectory, { recursive: true });
  const there = new Set(readdirSync(resultsDirectory));
  return names
    .filter((name) => there.has(`${name}.json`))
    .map((name) => JSON.parse(readFileSync(join(resultsDirectory, `${name}.json`), "utf8")));
}

/** The middle one; of an even count, the upper of the two in the middle. */
export const median = (numbers: readonly number[]): number =>
  numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? Number.NaN;

/** The value below which this share of the numbers lies. */
export const quantile = (numbers: Float64Array, share: number): number =>
  numbers.toSorted()[Math.min(numbers.length - 1, Math.floor(share * numbers.length))];

/** Share of the truth's first `count` ids that are among the found. `found` has `count` a query, -1 for none. */
export function recallOf(found: Int32Array, truth: readonly Int32Array[], count: number): number {
  let met = 0;
  truth.forEach((row, i) => {
    const wanted = new Set(row.subarray(0, count));
    for (const id of new Set(found.subarray(i * count, (i + 1) * count))) if (wanted.has(id)) met++;
  });
  return met / (count * truth.length);
}

/** A cost at a recall. `isBound`: the smallest beam has more recall already, so this is an upper bound. */
export type At = { readonly value: number; readonly isBound: boolean };

/** Interpolated between the beams around the recall; undefined where it is not reached. */
export function at(recall: number, points: readonly Point[], cost: (point: Point) => number): At | undefined {
  const above = points.findIndex((point) => point.recall >= recall);
  if (above < 0) return undefined;
  const high = points[above];
  const low = points[above - 1];
  if (low === undefined) return { value: cost(high), isBound: high.recall > recall };
  const share = (recall - low.recall) / (high.recall - low.recall);
  return { value: cost(low) + share * (cost(high) - cost(low)), isBound: false };
}
