// Which records do the servers get, and what should they find?
//
// The sets of the dense benchmark, each row with a number from 0 to 1 that is independent of its vector: a filter "u below 0.1" selects a
// tenth of the records. The ground truth is exact for each share.

import { randomNumbers } from "../../packages/kernels/src/random.ts";
import * as dense from "../dense/data.ts";
import type { Metric } from "../engines/engine.ts";
import { inCache, made } from "../shared/files.ts";
import type { Row } from "./server.ts";

/** Real word vectors, real pictures, and two generated sets of other shapes. */
export const setNames = ["glove-cosine", "mnist", "clusters768", "words200"] as const;

export const missing = dense.missing;
export const titleOf = dense.titleOf;

/** Shares of the records that filters select; 1: no filter. */
export const shares = [1, 0.1, 0.01] as const;

const seed = 15;

export type ServerSet = {
  readonly metric: Metric;
  readonly dimension: number;
  readonly rows: readonly Row[];
  readonly queries: readonly Float32Array[];
  /** The ids of the nearest rows of a share, nearest first, for each query. */
  truthOf(share: number): readonly Int32Array[];
};

/** The first rows of a set, and its first queries. */
export function readSet(name: string, rowCount: number, queryCount: number): ServerSet {
  const set = dense.readSet(name, rowCount);
  const next = randomNumbers(seed);
  const us = set.rows.map(() => next());
  const queries = set.queries.slice(0, queryCount);

  /** The nearest of the rows that match, as their places among these, and these. */
  function matchingTruth(share: number): readonly Int32Array[] {
    const ids = [...us.keys()].filter((id) => us[id] < share);
    const rows = ids.map((id) => set.rows[id]);
    const path = inCache(`servers/${name}-${set.rows.length}-${queries.length}-${share}.truth`);
    const make = () => new Uint8Array(dense.bruteForce({ ...set, rows, queries }, queries.length).buffer);
    const places = new Int32Array(made(path, make).buffer as ArrayBuffer);
    return queries.map((_, i) =>
      places.subarray(i * dense.truthCount, (i + 1) * dense.truthCount).map((place) => ids[place]),
    );
  }

  return {
    metric: set.metric,
    dimension: set.dimension,
    rows: set.rows.map((vector, i) => ({ vector, u: us[i] })),
    queries,
    truthOf: (share) =>
      share < 1 ? matchingTruth(share) : dense.truthOf({ ...set, queries }, queries.length),
  };
}
