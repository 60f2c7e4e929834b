// How does the benchmark of filters use each engine?
//
// An effort is the number of a case (data.ts). All graphs are built with the same M and ef_construction, and searched with the same ef.

import type { Filter } from "../../packages/protocol/src/shapes/filter.ts";
import { m } from "../dense/engine.ts";
import { type Engine, type EngineKind, rival } from "../shared/engine.ts";
import { finishOf, idsOf, openCollection, upsertRows } from "../shared/quiver-database.ts";
import { openZvec, zvecCollection } from "../shared/zvec.ts";
import {
  cases,
  dimension,
  type Field,
  fields,
  filterOf,
  holds,
  type Range,
  type Row,
  sqlOf,
  type Tree,
} from "./data.ts";

export const ef = 128;
const efConstruction = 128;

export type Shape = { readonly count: number; readonly directory: string };
type Kind = EngineKind<Shape, Row>;

const bytesOf = ({ vector }: Row): Buffer => Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength);
const metadataOf = ({ vector: _, ...metadata }: Row) => metadata;

/** @param less taken from the upper bound of each range, so that no filter is asked twice; no value is so near a bound */
function quiverFilter(tree: Tree, less: number): Filter {
  if ("field" in tree) return { field: tree.field, gte: tree.from, lt: tree.to - less };
  if ("and" in tree) return { and: tree.and.map((part) => quiverFilter(part, less)) };
  if ("or" in tree) return { or: tree.or.map((part) => quiverFilter(part, less)) };
  return { not: quiverFilter(tree.not, less) };
}

/** Some of the cases, for an engine that takes tens of milliseconds: of those without a filter, random ones, and five fields. */
const someCases = cases.flatMap(({ kind, share }, i) =>
  kind === "none" || (["random", "five"].includes(kind) && [0.1, 0.001].includes(share)) ? [i] : [],
);

const quiver = (name: string, title: string, note: string, isIndexed: boolean, isNew: boolean): Kind => ({
  name,
  title,
  isOurs: true,
  note,
  ...(!isIndexed && { efforts: someCases }),
  async open({ directory }) {
    const collection = await openCollection(directory, { dimension });
    await collection.createDenseIndex({
      name: "dense",
      distance_metric_type: "cosine",
      quantization: { type: "auto", properties: { sample_threshold: 1_000 } },
      index: {
        type: "hnsw",
        properties: { ef_construction: efConstruction, ef_search: ef, neighbors_count: m },
      },
    });
    if (isIndexed)
      for (const field of fields) await collection.createMetadataIndex(field, { type: "number" });
    let asked = 0;
    return {
      add: (rows, first) =>
        upsertRows(collection, rows, first, (row) => ({
          dense_values: row.vector,
          metadata: metadataOf(row),
        })),
      ...finishOf(collection),
      async search({ vector, cluster }: Row, top_k, effort) {
        const tree = filterOf(cases[effort], cluster);
        const filter = tree && quiverFilter(tree, isNew ? ++asked * 1e-12 : 0);
        return idsOf(await collection.search("dense", { query_vector: vector, top_k, filter }));
      },
    };
  },
});

/** Searches of hnswlib with a function that says which labels count. */
const hnswlib: Kind = {
  name: "hnswlib",
  title: "hnswlib-node 3.0.0",
  note: "With its filter function, which is called for each node that it meets; the fields are in arrays of JavaScript.",
  open({ count }) {
    const { HierarchicalNSW } = rival("hnswlib-node");
    const index = new HierarchicalNSW("cosine", dimension);
    index.initIndex(count, m, efConstruction, 100);
    index.setEf(ef);
    const stored: Row[] = [];
    return {
      add(rows, first) {
        rows.forEach((row, i) => void index.addPoint([...row.vector], first + i));
        stored.push(...rows);
      },
      search({ vector, cluster }: Row, k, effort) {
        const tree = filterOf(cases[effort], cluster);
        const passes = tree === null ? undefined : (id: number) => holds(tree, stored[id]);
        return index.searchKnn([...vector], k, passes).neighbors;
      },
    };
  },
};

const lancedb: Kind = {
  name: "lancedb",
  title: "LanceDB 0.39.0",
  note: "HNSW_SQ in one partition, refined by a factor of 2, and a BTREE index on each field; filters are applied before the search, as by default.",
  async open({ directory }) {
    const arrow = rival("apache-arrow");
    const { connect, Index } = rival("@lancedb/lancedb");
    const database = await connect(directory);
    let table: Awaited<ReturnType<typeof database.createTable>> | undefined;
    return {
      async add(rows, first) {
        const values = new Float32Array(rows.length * dimension);
        rows.forEach(({ vector }, i) => void values.set(vector, i * dimension));
        const type = new arrow.FixedSizeList(dimension, new arrow.Field("item", new arrow.Float32(), true));
        const child = arrow.makeVector(values).data[0];
        const part = new arrow.Table({
          id: arrow.makeVector(Int32Array.from(rows, (_, i) => first + i)),
          vector: new arrow.Vector([arrow.makeData({ type, length: rows.length, nullCount: 0, child })]),
          ...Object.fromEntries(
            fields.map((field) => [field, arrow.makeVector(Float64Array.from(rows, (row) => row[field]))]),
          ),
        });
        if (table === undefined) table = await database.createTable("bench", part);
        else await table.add(part);
      },
      async finish() {
        await table.optimize();
        const config = Index.hnswSq({ distanceType: "cosine", numPartitions: 1, m, efConstruction });
        await table.createIndex("vector", { config });
        for (const field of fields) await table.createIndex(field, { config: Index.btree() });
      },
      async search(query: Row, k, effort) {
        const tree = filterOf(cases[effort], query.cluster);
        const asked = table.query().nearestTo(query.vector).distanceType("cosine").nprobes(1).ef(ef);
        const limited = asked.refineFactor(2).limit(k).select(["id", "_distance"]);
        const found = await (tree === null ? limited : limited.where(sqlOf(tree))).toArrow();
        return found.numRows === 0 ? [] : found.getChild("id").toArray();
      },
    };
  },
};

const zvec: Kind = {
  name: "zvec",
  title: "zvec 0.7.0 int8",
  note: "HNSW with its refiner, and an inverted index on each field.",
  open({ directory }) {
    const api = openZvec();
    const { ZVecIndexType, ZVecMetricType, ZVecQuantizeType, ZVecDataType } = api;
    const vectors = {
      name: "vector",
      dataType: ZVecDataType.VECTOR_FP32,
      dimension,
      indexParams: {
        indexType: ZVecIndexType.HNSW,
        metricType: ZVecMetricType.COSINE,
        m,
        efConstruction,
        quantizeType: ZVecQuantizeType.INT8,
      },
    };
    const invert = { indexType: ZVecIndexType.INVERT, enableRangeOptimization: true };
    const scalars = fields.map((name) => ({ name, dataType: ZVecDataType.DOUBLE, indexParams: invert }));
    const {
      add,
      finish,
      idsOf: found,
    } = zvecCollection(api, directory, { vectors, fields: scalars }, (row: Row) => ({
      vectors: { vector: row.vector },
      fields: metadataOf(row),
    }));
    return {
      add,
      finish,
      search({ vector, cluster }: Row, topk, effort) {
        const tree = filterOf(cases[effort], cluster);
        const params = { indexType: ZVecIndexType.HNSW, ef, isUsingRefiner: true };
        return found({ fieldName: "vector", vector, topk, params, ...(tree && { filter: sqlOf(tree) }) });
      },
    };
  },
};

/** The ranges of a tree that is a conjunction of them; null for others. */
function rangesOf(tree: Tree): Range[] | null {
  if ("field" in tree) return [tree];
  if (!("and" in tree)) return null;
  const parts = tree.and.map(rangesOf);
  return parts.includes(null) ? null : (parts as Range[][]).flat();
}

const sqliteVec: Kind = {
  name: "sqlite-vec",
  title: "sqlite-vec 0.1.9",
  note: "In better-sqlite3, in memory. It compares all vectors. Ranges are conditions on its metadata columns; other filters are a sub-query on a table with an index of each field.",
  open() {
    const Database = rival("better-sqlite3");
    const database = new Database(":memory:");
    rival("sqlite-vec").load(database);
    const columns = fields.map((field) => `${field} float`).join(", ");
    database.exec(
      `create virtual table t using vec0(embedding float[${dimension}] distance_metric=cosine, ${columns})`,
    );
    database.exec(`create table r(id integer primary key, ${columns})`);
    for (const field of fields) database.exec(`create index r_${field} on r(${field})`);
    const marks = fields.map(() => "?").join(", ");
    const names = fields.join(", ");
    const toVectors = database.prepare(`insert into t(rowid, embedding, ${names}) values (?, ?, ${marks})`);
    const toRecords = database.prepare(`insert into r(id, ${names}) values (?, ${marks})`);
    const prepared = new Map<string, { all(...values: unknown[]): number[] }>();
    return {
      add(rows, first) {
        database.exec("begin");
        rows.forEach((row, i) => {
          const values = fields.map((field: Field) => row[field]);
          toVectors.run(BigInt(first + i), bytesOf(row), ...values);
          toRecords.run(first + i, ...values);
        });
        database.exec("commit");
      },
      search(query: Row, k, effort) {
        const tree = filterOf(cases[effort], query.cluster);
        const ranges = tree && rangesOf(tree);
        const condition =
          tree === null
            ? ""
            : `and ${ranges ? ranges.map(sqlOf).join(" and ") : `rowid in (select id from r where ${sqlOf(tree)})`}`;
        let statement = prepared.get(condition);
        if (statement === undefined) {
          statement = database
            .prepare(`select rowid from t where embedding match ? and k = ? ${condition}`)
            .pluck();
          prepared.set(condition, statement as never);
        }
        return (statement as { all(...values: unknown[]): number[] }).all(bytesOf(query), BigInt(k));
      },
    } satisfies Engine<Row>;
  },
};

export const engineKinds: readonly Kind[] = [
  quiver(
    "quiver-database",
    "Quiver, the whole database",
    "The embedded engine with a metadata index of each field. Its ef is that of the index, which it widens where what it finds is far from the query. A filter that was asked before at this version is known.",
    true,
    false,
  ),
  quiver("quiver-new", "Quiver, each filter new", "The same, and no filter is asked twice.", true, true),
  quiver(
    "quiver-unindexed",
    "Quiver, no metadata indexes",
    "The same without metadata indexes, and no filter is asked twice: each search reads all records. Asked some of the filters.",
    false,
    true,
  ),
  hnswlib,
  zvec,
  lancedb,
  sqliteVec,
];
