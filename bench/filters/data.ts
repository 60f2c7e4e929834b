// Which records are searched, with which filters, and what is the ground truth?
//
// Vectors in clusters, as those of dense/data.ts, and fields whose values are known, so that a filter selects any share of the records:
//
//   random   u < share: independent of the vectors
//   near     a range of clusters around that of the query; below one cluster, a part of it
//   far      a range of clusters without that of the query
//   five     five fields, with and, or and not

import { randomNumbers } from "../../packages/kernels/src/random.ts";
import { type Item, normalised } from "../engines/engine.ts";
import { holds, type Range, type Tree } from "../engines/filter.ts";
import { normal } from "../shared/random.ts";

export const dimension = 128;
const clusters = 100;
const noise = 0.35;

export const fields = ["u", "v", "w", "x", "cluster"];

const kinds = ["random", "near", "far", "five"] as const;
export type Kind = (typeof kinds)[number];

/** A filter for each query; the first has none. */
export type Case = { readonly kind: Kind | "none"; readonly share: number };

const shares: Readonly<Record<Kind, readonly number[]>> = {
  random: [1, 0.5, 0.2, 0.1, 0.05, 0.01, 0.001, 0.0001],
  near: [0.5, 0.1, 0.01, 0.001],
  far: [0.5, 0.1, 0.01, 0.001],
  five: [0.5, 0.1, 0.01, 0.001],
};

export const cases: readonly Case[] = [
  { kind: "none", share: 1 },
  ...kinds.flatMap((kind) => shares[kind].map((share) => ({ kind, share }))),
];

/** The filter of a case for a query of a cluster; null: none. */
function filterOf({ kind, share }: Case, cluster: number): Tree | null {
  const width = Math.max(1, Math.round(share * clusters));
  const inside = Math.max(0, Math.min(clusters - width, cluster - (width >> 1)));
  const part: Range = { field: "u", from: 0, to: Math.min(1, share * clusters) };
  const range = (from: number): Tree => {
    const some: Range = { field: "cluster", from, to: from + width };
    return share * clusters < 1 ? { and: [some, part] } : some;
  };
  const beyond = cluster < clusters / 2 ? clusters - width : 0;
  switch (kind) {
    case "none":
      return null;
    case "random":
      return { field: "u", from: 0, to: share };
    case "near":
      return range(inside);
    case "far":
      return range(beyond);
    case "five":
      return {
        and: [
          { field: "u", from: 0.1, to: 0.1 + 0.9 * share },
          {
            or: [
              { field: "v", from: 0, to: 0.6 },
              { field: "w", from: 0.4, to: 1 },
            ],
          },
          { not: { field: "cluster", from: beyond, to: beyond + 2 } },
          { field: "x", from: 0, to: 1 },
        ],
      };
  }
}

/** The records and, in another order, queries like them, with a filter for each case. */
export function readSet(rowCount: number, queryCount: number): { rows: Item[]; queries: Item[] } {
  const [next, gauss] = [randomNumbers(16), normal(17)];
  const centres = Array.from({ length: clusters }, () => Float32Array.from({ length: dimension }, gauss));
  const make = () => {
    const cluster = Math.floor(next() * clusters);
    const vector = normalised(centres[cluster].map((value) => value + noise * gauss()));
    return { vector, fields: { u: next(), v: next(), w: next(), x: next(), cluster } };
  };
  const rows = Array.from({ length: rowCount }, make);
  const queries = Array.from({ length: queryCount }, make).map(({ vector, fields: { cluster } }) => ({
    vector,
    filters: cases.map((each) => filterOf(each, cluster)),
  }));
  return { rows, queries };
}

const dot = (a: Float32Array, b: Float32Array): number => {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
};

/** The k best rows of each query, for each case; fewer where fewer match. */
export function truthsOf(rows: readonly Item[], queries: readonly Item[], k: number): Int32Array[][] {
  const truths: Int32Array[][] = cases.map(() => []);
  for (const query of queries) {
    const scores = rows.map(({ vector }) => dot(vector as Float32Array, query.vector as Float32Array));
    for (const [i, filter] of (query.filters ?? []).entries()) {
      const ids: number[] = [];
      for (let id = 0; id < rows.length; id++)
        if (filter === null || holds(filter, rows[id].fields ?? {})) ids.push(id);
      ids.sort((a, b) => scores[b] - scores[a]);
      truths[i].push(Int32Array.from(ids.slice(0, k)));
    }
  }
  return truths;
}
