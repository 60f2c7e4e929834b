// Which records are searched, with which filters, and what is the ground truth?
//
// Vectors in clusters, as those of dense/data.ts, and fields whose values are known, so that a filter selects any share of the records:
//
//   random   u < share: independent of the vectors
//   near     a range of clusters around that of the query; below one cluster, a part of it
//   far      a range of clusters without that of the query
//   five     five fields, with and, or and not
//
// A filter is a tree that every engine gets in its own form.

import { randomNumbers } from "../../packages/kernels/src/random.ts";
import { normalised } from "../dense/engine.ts";
import { normal } from "../shared/random.ts";

export const dimension = 128;
export const clusters = 100;
const noise = 0.35;

/** A record, or a query, of which `vector` and `cluster` count. */
export type Row = {
  readonly vector: Float32Array;
  readonly u: number;
  readonly v: number;
  readonly w: number;
  readonly x: number;
  readonly cluster: number;
};

export type Field = Exclude<keyof Row, "vector">;
export const fields: readonly Field[] = ["u", "v", "w", "x", "cluster"];

/** From `from` on, below `to`. */
export type Range = { readonly field: Field; readonly from: number; readonly to: number };
export type Tree =
  | Range
  | { readonly and: readonly Tree[] }
  | { readonly or: readonly Tree[] }
  | { readonly not: Tree };

export const holds = (tree: Tree, row: Row): boolean => {
  if ("field" in tree) return row[tree.field] >= tree.from && row[tree.field] < tree.to;
  if ("and" in tree) return tree.and.every((part) => holds(part, row));
  if ("or" in tree) return tree.or.some((part) => holds(part, row));
  return !holds(tree.not, row);
};

/** As SQL has it, without `not`, which not every engine knows. */
export const sqlOf = (tree: Tree): string => {
  if ("field" in tree) return `(${tree.field} >= ${tree.from} and ${tree.field} < ${tree.to})`;
  if ("and" in tree) return `(${tree.and.map(sqlOf).join(" and ")})`;
  if ("or" in tree) return `(${tree.or.map(sqlOf).join(" or ")})`;
  const { not } = tree;
  if ("field" in not) return `(${not.field} < ${not.from} or ${not.field} >= ${not.to})`;
  if ("not" in not) return sqlOf(not.not);
  const parts = "and" in not ? not.and : not.or;
  const negated = parts.map((part) => ({ not: part }));
  return sqlOf("and" in not ? { or: negated } : { and: negated });
};

export const kinds = ["random", "near", "far", "five"] as const;
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
export function filterOf({ kind, share }: Case, cluster: number): Tree | null {
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

/** The records and, in another order, queries like them. */
export function readSet(rowCount: number, queryCount: number): { rows: Row[]; queries: Row[] } {
  const [next, gauss] = [randomNumbers(16), normal(17)];
  const centres = Array.from({ length: clusters }, () => Float32Array.from({ length: dimension }, gauss));
  const make = (): Row => {
    const cluster = Math.floor(next() * clusters);
    const vector = normalised(centres[cluster].map((value) => value + noise * gauss()));
    return { vector, u: next(), v: next(), w: next(), x: next(), cluster };
  };
  const rows = Array.from({ length: rowCount }, make);
  return { rows, queries: Array.from({ length: queryCount }, make) };
}

const dot = (a: Float32Array, b: Float32Array): number => {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
};

/** The k best rows of each query, for each case; fewer where fewer match. */
export function truthsOf(rows: readonly Row[], queries: readonly Row[], k: number): Int32Array[][] {
  const truths: Int32Array[][] = cases.map(() => []);
  for (const query of queries) {
    const scores = rows.map(({ vector }) => dot(vector, query.vector));
    for (const [i, one] of cases.entries()) {
      const filter = filterOf(one, query.cluster);
      const ids: number[] = [];
      for (let id = 0; id < rows.length; id++) if (filter === null || holds(filter, rows[id])) ids.push(id);
      ids.sort((a, b) => scores[b] - scores[a]);
      truths[i].push(Int32Array.from(ids.slice(0, k)));
    }
  }
  return truths;
}
