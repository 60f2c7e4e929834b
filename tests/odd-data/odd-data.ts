// Which data is unlike the data that search indexes are tuned for?
//
// Each generator produces the rows of one kind of data that users have, in the order of arrival, and queries. Equal seeds produce equal
// data. `all` is the complete list; tests/campaigns/odd-data.ts runs it through the dense index.

import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import { arrivals } from "./arrivals.ts";
import { clusters } from "./clusters.ts";
import { copies } from "./copies.ts";
import { foreignQueries } from "./foreign-queries.ts";
import { magnitudes } from "./magnitudes.ts";
import { Random } from "./random.ts";
import { reported } from "./reported.ts";
import { shapes } from "./shapes.ts";

export type OddData = {
  /** Kebab-case, unique. */
  readonly name: string;
  /** How users get such data. */
  readonly why: string;
  readonly dimension: number;
  /** Rows at scale 1; default 3,000. */
  readonly count?: number;
  /** Rows do not scale: what matters is their number. */
  readonly isFixed?: boolean;
  /** Takes minutes: for the long form only. */
  readonly isLarge?: boolean;
  /** Default: all. */
  readonly metrics?: readonly MetricName[];
  /** The reason why it cannot be generated here; undefined if it can. */
  absent?(): string | undefined;
  /** Rows of `dimension` finite values, in the order in which they arrive. */
  rows(random: Random, count: number): Float32Array[];
  /** Default: held-out rows, drawn evenly. The rows are borrowed. */
  queries?(random: Random, count: number, rows: readonly Float32Array[]): Float32Array[];
};

export type Generated = {
  readonly dimension: number;
  readonly rows: readonly Float32Array[];
  readonly queries: readonly Float32Array[];
};

/** Every kind, by name. */
export const all: readonly OddData[] = [
  ...copies,
  ...clusters,
  ...shapes,
  ...magnitudes,
  ...arrivals,
  ...foreignQueries,
  ...reported,
];

const rowsDefault = 3_000;

/**
 * Generates the rows and queries of one kind.
 * @param scale factor of the usual number of rows
 * @param queryCount number of queries
 */
export function generate(data: OddData, seed: number, scale: number, queryCount: number): Generated {
  const { dimension, count = rowsDefault, isFixed = false } = data;
  const random = new Random(seed);
  const rowCount = isFixed ? count : Math.max(10, Math.round(count * scale));
  if (data.queries !== undefined) {
    const rows = data.rows(random, rowCount);
    return { dimension, rows, queries: data.queries(random, queryCount, rows) };
  }
  const made = data.rows(random, rowCount + queryCount);
  const heldOut = new Set(random.distinct(queryCount, made.length));
  return {
    dimension,
    rows: made.filter((_, i) => !heldOut.has(i)),
    queries: made.filter((_, i) => heldOut.has(i)),
  };
}
