// What does a filter cost a sparse or a text search?
//
// One field `u` from 0 to 1 that is independent of the rest; an effort is the number of a share in `shares`. Each engine gets all rows of a
// set of bench/text or bench/sparse.

import { DatabaseSync } from "node:sqlite";
import type { EngineKind } from "../shared/engine.ts";
import { finishOf, idsOf, openCollection, upsertRows } from "../shared/quiver-database.ts";
import { openZvec, zvecCollection } from "../shared/zvec.ts";
import type { SparseVector } from "../sparse/engine.ts";
import { b, k1 } from "../text/engine.ts";

export const setNames = ["words", "splade"] as const;
export type SetName = (typeof setNames)[number];

/** The shares of the records that match; undefined: no filter. */
export const shares = [undefined, 0.5, 0.1, 0.01, 0.001] as const;

export type Row = { readonly content: string | SparseVector; readonly u: number };
export type Shape = { readonly set: SetName; readonly directory: string };
type Kind = EngineKind<Shape, Row>;

const pairsOf = ({ indices, values }: SparseVector): [number, number][] =>
  Array.from(indices, (index, i) => [index, values[i]]);

const quiver: Kind = {
  name: "quiver-database",
  title: "Quiver, the whole database",
  isOurs: true,
  note: "With a metadata index of the field.",
  async open({ set, directory }) {
    const isText = set === "words";
    const collection = await openCollection(directory, { text: isText, sparse: !isText });
    if (isText)
      await collection.createTextIndex({ name: "text", sample_threshold: 1, k1, b, language: "none" });
    else await collection.createSparseIndex({ name: "sparse", quantization: 256, sample_threshold: 1 });
    await collection.createMetadataIndex("u", { type: "number" });
    return {
      add: (rows, first) =>
        upsertRows(collection, rows, first, ({ content, u }) =>
          typeof content === "string"
            ? { text: content, metadata: { u } }
            : { sparse_values: pairsOf(content), metadata: { u } },
        ),
      ...finishOf(collection),
      prepare: ({ content }) => (typeof content === "string" ? content : pairsOf(content)),
      async search(query: string | [number, number][], top_k, effort) {
        const share = shares[effort];
        const filter = share === undefined ? null : { u: { lt: share } };
        return idsOf(
          typeof query === "string"
            ? await collection.search("text", { query, top_k, filter })
            : await collection.search("sparse", { query_terms: query, top_k, filter }),
        );
      },
    };
  },
};

const zvec: Kind = {
  name: "zvec",
  title: "zvec 0.7.0",
  note: "With an inverted index of the field. Sparse vectors are in its FLAT index, which is exact.",
  open({ set, directory }) {
    const api = openZvec();
    const { ZVecIndexType, ZVecMetricType, ZVecDataType } = api;
    const isText = set === "words";
    const invert = { indexType: ZVecIndexType.INVERT, enableRangeOptimization: true };
    const u = { name: "u", dataType: ZVecDataType.DOUBLE, indexParams: invert };
    const fts = {
      indexType: ZVecIndexType.FTS,
      tokenizerName: "standard",
      filters: ["lowercase"],
      extraParams: "",
    };
    const flat = { indexType: ZVecIndexType.FLAT, metricType: ZVecMetricType.IP };
    const schema = isText
      ? { fields: [{ name: "text", dataType: ZVecDataType.STRING, indexParams: fts }, u] }
      : { vectors: { name: "v", dataType: ZVecDataType.SPARSE_VECTOR_FP32, indexParams: flat }, fields: [u] };
    const sparse = (vector: SparseVector) => Object.fromEntries(pairsOf(vector));
    const {
      add,
      finish,
      idsOf: found,
    } = zvecCollection(api, directory, schema, ({ content, u: value }: Row) =>
      typeof content === "string"
        ? { fields: { text: content, u: value } }
        : { vectors: { v: sparse(content) }, fields: { u: value } },
    );
    return {
      add,
      finish,
      prepare: ({ content }) => (typeof content === "string" ? content : sparse(content)),
      search(query: string | Record<number, number>, topk, effort) {
        const share = shares[effort];
        const filter = share === undefined ? {} : { filter: `u < ${share}` };
        return typeof query === "string"
          ? found({
              fieldName: "text",
              topk,
              fts: { matchString: query },
              params: { indexType: ZVecIndexType.FTS, defaultOperator: "OR" },
              ...filter,
            })
          : found({ fieldName: "v", vector: query, topk, ...filter });
      },
    };
  },
};

const sqlite: Kind = {
  name: "sqlite",
  title: `SQLite FTS5 (node:sqlite ${process.versions.sqlite})`,
  note: "In memory; the filter is a sub-query on a table with an index of the field. Its idf is another one, so it finds others in part.",
  refuses: ({ set }) => (set === "words" ? undefined : "it has no sparse vectors."),
  open() {
    const database = new DatabaseSync(":memory:");
    database.exec("create virtual table t using fts5(text, content='', tokenize='unicode61')");
    database.exec("create table r(id integer primary key, u float); create index r_u on r(u)");
    const insert = database.prepare("insert into t(rowid, text) values (?, ?)");
    const insertField = database.prepare("insert into r(id, u) values (?, ?)");
    const all = database.prepare("select rowid from t where t match ? order by rank limit ?");
    const some = database.prepare(
      "select rowid from t where t match ? and rowid in (select id from r where u < ?) order by rank limit ?",
    );
    return {
      add(rows, first) {
        database.exec("begin");
        rows.forEach(({ content, u }, i) => {
          insert.run(first + i + 1, content as string);
          insertField.run(first + i + 1, u);
        });
        database.exec("commit");
      },
      finish: () => void database.exec("insert into t(t) values ('optimize')"),
      prepare: ({ content }) => (content as string).replaceAll(" ", " OR "),
      search(query: string, k, effort) {
        const share = shares[effort];
        const found = share === undefined ? all.all(query, k) : some.all(query, share, k);
        return found.map(({ rowid }) => Number(rowid) - 1);
      },
    };
  },
};

export const engineKinds: readonly Kind[] = [quiver, zvec, sqlite];
