// Which searches are measured in process, on which sets, with which engines, and what is right?

import { randomNumbers } from "../packages/kernels/src/random.ts";
import * as dense from "./dense/data.ts";
import { type EngineKind, type Item, kindNamed, plainShape, type Shape } from "./engines/engine.ts";
import { holds } from "./engines/filter.ts";
import { hnswlib } from "./engines/hnswlib.ts";
import { lancedb, lancedbRefined, lancedbText } from "./engines/lancedb.ts";
import { minisearch } from "./engines/minisearch.ts";
import { openTwin, plain } from "./engines/plain.ts";
import {
  quiver,
  quiverF32,
  quiverNewFilters,
  quiverU8,
  quiverUnindexed,
  sparseAlone,
  textAlone,
} from "./engines/quiver.ts";
import { sqliteText, sqliteVec } from "./engines/sqlite.ts";
import { usearch } from "./engines/usearch.ts";
import { vectorlite } from "./engines/vectorlite.ts";
import { zvecF32, zvecFlat, zvecHnsw, zvecInt8, zvecText } from "./engines/zvec.ts";
import * as filters from "./filters/data.ts";
import { recallOf } from "./shared/figures.ts";
import { acceptedShare } from "./shared/plain-index.ts";
import type { Row } from "./shared/results.ts";
import * as sparse from "./sparse/data.ts";
import * as text from "./text/data.ts";

/** A set that was read. */
export type ReadSet = {
  readonly title: string;
  readonly rows: readonly Item[];
  readonly queries: readonly Item[];
  readonly shape: Omit<Shape, "directory">;
  /** The ids of the nearest rows of the first `count` queries, at each effort; sparse and text sets have their exact twin instead. */
  truth?(count: number): readonly (readonly Int32Array[])[];
};

export type Subject = {
  readonly name: string;
  readonly engines: readonly EngineKind[];
  /** Those that are measured by default; there may be more. */
  readonly sets: readonly string[];
  readonly k: number;
  /** By ascending recall, unless they are filters. */
  readonly efforts: readonly number[];
  /** At which recalls costs are compared; undefined: efforts are filters, told by `columnsOf`. */
  readonly recalls?: readonly number[];
  columnsOf?(effort: number): Row;
  /** Once, after the rounds: a search with more results. */
  readonly deep?: { readonly k: number; readonly effort: number };
  /** Passes over the queries in a turn; undefined: as many as make up the number that was asked for. */
  readonly passes?: number;
  readonly rounds: number;
  readonly queryCount: number;
  /** What is the same in all engines. */
  readonly settings: Row;
  /** The reason why a set cannot be read here; undefined if it can. */
  missing(set: string): string | undefined;
  /** @param rowsMax the first rows only; more than there are, where they can be made */
  read(set: string, rowsMax?: number): ReadSet;
};

const denseSearch: Subject = {
  name: "dense",
  engines: [
    quiver,
    quiverU8,
    quiverF32,
    hnswlib,
    ...usearch,
    vectorlite,
    zvecF32,
    zvecInt8,
    lancedb,
    lancedbRefined,
  ],
  // Without those of a million, and what the benchmark of servers adds.
  sets: ["glove-cosine", "glove-dot", "glove-l2", "mnist", "siftsmall", "clusters768"],
  k: 10,
  efforts: [10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768],
  recalls: [0.95, 0.99],
  deep: { k: 100, effort: 128 },
  rounds: 3,
  queryCount: 400,
  settings: { m: 16, efConstruction: plainShape.efConstruction },
  missing: dense.missing,
  read(name, rowsMax) {
    const set = dense.readSet(name, rowsMax);
    const { dimension, metric } = set;
    return {
      title: dense.titleOf(name),
      rows: set.rows.map((vector) => ({ vector })),
      queries: set.queries.map((vector) => ({ vector })),
      shape: { ...plainShape, kind: "dense", count: set.rows.length, dimension, metric },
      truth: (count) => [dense.truthOf(set, count)],
    };
  },
};

const sparseSearch: Subject = {
  name: "sparse",
  engines: [quiver, sparseAlone, plain, zvecFlat, zvecHnsw],
  sets: sparse.setNames,
  k: 10,
  efforts: [
    0.5, 0.4, 0.3, 0.25, 0.2, 0.17, 0.15, 0.13, 0.12, 0.11, 0.1, 0.09, 0.08, 0.06, 0.05, 0.03, 0.02, 0,
  ],
  recalls: [0.95],
  passes: 1,
  rounds: 5,
  queryCount: 500,
  settings: {},
  missing: (name) => sparse.missing(kindNamed(named(sparse.setNames), name).name),
  read(name, rowsMax) {
    const set = sparse.readSet(kindNamed(named(sparse.setNames), name).name, rowsMax);
    return {
      title: sparse.titles[set.name],
      rows: set.rows.map((terms) => ({ terms })),
      queries: set.queries.map((terms) => ({ terms })),
      shape: { ...plainShape, kind: "sparse", count: set.rows.length },
    };
  },
};

const textSearch: Subject = {
  name: "text",
  engines: [quiver, textAlone, plain, zvecText, lancedbText, sqliteText, minisearch],
  sets: text.setNames,
  k: 10,
  efforts: [0],
  recalls: [],
  passes: 1,
  rounds: 5,
  queryCount: 500,
  settings: { k1: 1.2, b: 0.75 },
  missing: text.missing,
  read(name, rowsMax) {
    const set = text.readSet(kindNamed(named(text.setNames), name).name, rowsMax);
    const { language } = set;
    return {
      title: text.titles[set.name],
      rows: set.rows.map((each) => ({ text: each })),
      queries: set.queries.map((each) => ({ text: each })),
      shape: { ...plainShape, kind: "text", count: set.rows.length, language },
    };
  },
};

/** An engine as the benchmark of filters names it. */
const as = (kind: EngineKind, name: string, title: string): EngineKind => ({ ...kind, name, title });

const filterRows = 40_000;
const filterQueries = 100;
/** Of those without a filter, random ones, and five fields: some cases, for an engine that takes tens of milliseconds. */
const someCases = filters.cases.flatMap(({ kind, share }, i) =>
  kind === "none" || (["random", "five"].includes(kind) && [0.1, 0.001].includes(share)) ? [i] : [],
);

const denseFilters: Subject = {
  name: "filters",
  engines: [
    quiver,
    quiverNewFilters,
    quiverUnindexed(someCases),
    hnswlib,
    as(zvecInt8, "zvec", "zvec 0.7.0 int8"),
    as(lancedbRefined, "lancedb", "LanceDB 0.39.0"),
    sqliteVec,
  ],
  sets: ["clusters"],
  k: 10,
  efforts: filters.cases.map((_, i) => i),
  columnsOf: (effort) => ({ filter: filters.cases[effort].kind, share: filters.cases[effort].share }),
  // The code of an engine in JavaScript is compiled while it is asked: once is too seldom.
  passes: 3,
  rounds: 3,
  queryCount: 40,
  settings: { m: 16, efConstruction: 128, ef: 128 },
  missing: () => undefined,
  read(_, rowsMax = filterRows) {
    const { rows, queries } = filters.readSet(rowsMax, filterQueries);
    const { dimension, fields } = filters;
    return {
      title: `${rowsMax.toLocaleString("en")} x ${dimension} in clusters, cosine`,
      rows,
      queries,
      shape: {
        ...plainShape,
        kind: "dense",
        count: rows.length,
        dimension,
        fields,
        efConstruction: 128,
        ef: 128,
      },
      truth: (count) => filters.truthsOf(rows, queries.slice(0, count), denseFilters.k),
    };
  },
};

/** Shares of the records that match a filter on one field; undefined: no filter. */
const invertedShares = [undefined, 0.5, 0.1, 0.01, 0.001] as const;
const invertedFilters = invertedShares.map((share) =>
  share === undefined ? null : { field: "u", to: share },
);
const invertedRows = 30_000;

/** Sparse and text search with a filter on a field that is independent of the rest. */
function filtered(source: Subject, set: string, title: string, engines: readonly EngineKind[]): Subject {
  return {
    ...source,
    name: `filters-${set}`,
    engines,
    sets: [set],
    efforts: invertedShares.map((_, i) => i),
    recalls: undefined,
    columnsOf: (effort) => ({
      filter: effort === 0 ? "none" : "one field",
      share: invertedShares[effort] ?? 1,
    }),
    passes: 3,
    rounds: 3,
    queryCount: 40,
    read(_, rowsMax = invertedRows) {
      const { rows, queries, shape } = source.read(set, rowsMax);
      const next = randomNumbers(44);
      return {
        title,
        rows: rows.map((row) => ({ ...row, fields: { u: next() } })),
        queries: queries.map((query) => ({ ...query, filters: invertedFilters })),
        shape: { ...shape, fields: ["u"] },
      };
    },
  };
}

const subjects: readonly Subject[] = [
  denseSearch,
  sparseSearch,
  textSearch,
  denseFilters,
  filtered(textSearch, "words", "Passages of dictionaries, words alone, BM25", [
    quiver,
    zvecText,
    sqliteText,
  ]),
  filtered(sparseSearch, "splade", "SPLADE-like sparse vectors (generated)", [
    quiver,
    as({ ...zvecFlat, efforts: undefined }, "zvec", "zvec 0.7.0"),
  ]),
];

const named = <Name extends string>(names: readonly Name[]) => names.map((name) => ({ name }));

export const subjectNamed = (name: string): Subject => kindNamed(subjects, name);

/** How much of what is right was found at an effort, and what is known of the queries. */
export function truthOf(
  { k, columnsOf }: Subject,
  { rows, queries, shape, truth }: ReadSet,
  count: number,
): { recall(found: Int32Array, k: number, effort: number): number; facts: Row } {
  const isByFilter = columnsOf !== undefined;
  if (truth !== undefined) {
    const truths = truth(count);
    return {
      recall: (found, wanted, effort) => recallOf(found, isByFilter ? truths[effort] : truths[0], wanted),
      facts: {},
    };
  }
  const twin = openTwin(shape);
  twin.add(rows, 0);
  twin.index.finish();
  const asked = queries.slice(0, count).map((query) => ({ ...query, terms: twin.termsOf(query) }));
  const terms = asked.flatMap((query) => query.terms);
  const postings = terms.reduce((sum, { list }) => sum + twin.index.lengthOf(list), 0);
  const accepted = (asked[0]?.filters ?? [null]).map((tree) =>
    asked.map((query) =>
      twin.index.accepted(query.terms, k, (row) => tree === null || holds(tree, rows[row].fields ?? {})),
    ),
  );
  return {
    recall: (found, wanted, effort) =>
      acceptedShare(found, isByFilter ? accepted[effort] : accepted[0], wanted),
    facts: {
      termsPerRow: twin.termCount() / rows.length,
      termsPerQuery: terms.length / count,
      postingsPerQuery: postings / count,
    },
  };
}
