// Which collections and queries does the comparison with the plain loop use?
//
// Shapes, not sets: few records and many, 44 entries in a record and 120, pieces used as words are or as the expansions of a learned encoder
// are, records that have topics and records that have none, and for each of them queries from 5 dimensions to 200. A way of searching that is
// good for one of them can be bad for the next.

import { type Shape as EngineShape, kindNamed, plainShape, type SparseVector } from "../engines/engine.ts";
import { readSet } from "./data.ts";
import { expansions, makeVectors, querySpread, rowSpread, seeds } from "./splade.ts";

const queryLengths = [5, 15, 46, 120, 200];

export type Shape = {
  readonly name: string;
  readonly title: string;
  readonly rows: () => readonly SparseVector[];
  /** By their length; so many of each. */
  readonly queries: (count: number) => ReadonlyMap<string, readonly SparseVector[]>;
};

/** Of the logarithm of the number of entries. */
const entriesSpread = 0.4;

const kinds = {
  topics: { title: "with topics" },
  plain: { title: "without topics", topicShare: 0 },
  learned: { title: "used as learned expansions are, without topics", topicShare: 0, use: expansions },
} as const;

function generated(count: number, entries: number, kind: keyof typeof kinds): Shape {
  const { title, ...draw } = kinds[kind];
  return {
    name: `${Math.round(count / 1_000)}k-${entries}-${kind}`,
    title: `${count.toLocaleString("en")} x ${entries}, ${title}`,
    rows: () => makeVectors(count, { entries, entriesSpread, spread: rowSpread, seed: seeds.rows, ...draw }),
    queries: (queryCount) =>
      new Map(
        queryLengths.map((length) => [
          String(length),
          makeVectors(queryCount, {
            entries: length,
            spread: querySpread,
            seed: seeds.queries + length,
            ...draw,
          }),
        ]),
      ),
  };
}

const sciFact: Shape = {
  name: "scifact",
  title: "SciFact, 5,183 x 99: BM25 as sparse vectors",
  rows: () => readSet("scifact").rows,
  queries: (count) => new Map([["9", readSet("scifact").queries.slice(0, count)]]),
};

export const shapes: readonly Shape[] = [
  ...[11_261, 200_000].flatMap((count) =>
    [44, 120].flatMap((entries) =>
      (["topics", "plain", "learned"] as const).map((kind) => generated(count, entries, kind)),
    ),
  ),
  sciFact,
];

export const shapeNamed = (name: string): Shape => kindNamed(shapes, name);

/** What engines are told of so many records. */
export const shapeOf = (count: number): Omit<EngineShape, "directory"> => ({
  ...plainShape,
  kind: "sparse",
  count,
});
