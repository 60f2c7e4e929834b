// Is the same mistake told in the same words, over HTTP and in the same process?
//
// A table of mistakes as programs make them. Every wrong field of every body is compared by the server's bad-input.test.ts.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type Collection,
  connect,
  type Database,
  ensureTexts,
  open,
  QuiverError,
  RawRecord,
  startServer,
} from "./index.ts";

const folders: string[] = [];
const folder = () => {
  const made = mkdtempSync(join(tmpdir(), "quiver-mistakes-"));
  folders.push(made);
  return made;
};
let stop: () => Promise<void>;
let overHttp: Database;
let inProcess: Database;

beforeAll(async () => {
  const server = await startServer({
    dataDir: folder(),
    port: 0,
    adminKey: "the-admin-key",
    logLevel: "silent",
  });
  overHttp = connect(server.url, { apiKey: "the-admin-key" });
  inProcess = await open(folder());
  stop = async () => {
    await server.close();
    await inProcess.close();
  };
  for (const database of [overHttp, inProcess]) {
    const full = await database.createCollection({
      name: "full",
      dense_vector: { enabled: true, dimension: 2 },
      sparse_vector: { enabled: true },
      tf_idf_options: { enabled: true },
      config: { max_vectors: 3 },
    });
    await full.createDenseIndex({ distance_metric_type: "cosine" });
    await full.createSparseIndex();
    await full.createTextIndex();
    await full.createMetadataIndex("at", "datetime");
    await full.upsert([
      { id: "a", dense_values: [1, 0], text: "bees", metadata: { color: "red", at: "2024-05-01" } },
      { id: "words", text: "whales" },
    ]);
    await database.createCollection({ name: "bare", tf_idf_options: { enabled: true } });
  }
});
afterAll(async () => {
  await stop();
  for (const made of folders) rmSync(made, { recursive: true });
});

/** What a program does in one of the databases. */
type Act = (database: Database, full: Collection, bare: Collection) => Promise<unknown>;

/** An argument that the types refuse. */
const loose = (value: unknown) => value as never;
const long = (last: number) => [...Array.from({ length: 40 }, () => 1), last];
const vector = [1, 0];

const mistakes: Record<string, Act> = {
  // Collections
  "a collection of no kind": (database) => database.createCollection({ name: "n" }),
  "all kinds disabled": (database) =>
    database.createCollection({
      name: "n",
      dense_vector: { enabled: false },
      tf_idf_options: { enabled: false },
    }),
  "no dimension": (database) => database.createCollection({ name: "n", dense_vector: { enabled: true } }),
  "a dimension of text": (database) =>
    database.createCollection({ name: "n", dense_vector: { enabled: true, dimension: loose("3") } }),
  "kinds in words": (database) => database.createCollection({ name: "n", sparse_vector: loose(true) }),
  "a name with a slash": (database) =>
    database.createCollection({ name: "a/b", tf_idf_options: { enabled: true } }),
  "no name": (database) => database.createCollection(loose({ tf_idf_options: { enabled: true } })),
  "a name that is taken": (database) =>
    database.createCollection({ name: "full", tf_idf_options: { enabled: true } }),
  "a misspelt field": (database) => database.createCollection(loose({ name: "n", dense: { dimension: 3 } })),
  "no definition": (database) => database.createCollection(loose(null)),
  "a collection that is not there": (database) => database.getCollection("none"),
  "dropping what is not there": (database) => database.deleteCollection("none"),
  "loading what is not there": (database) => database.collection("none").load(),
  "a collection without a name": (database) => database.getCollection(""),
  "a collection without any name": (database) => database.getCollection(loose(undefined)),
  "a limit of infinity": (database) =>
    database.createCollection({
      name: "n",
      tf_idf_options: { enabled: true },
      config: { max_vectors: 1 / 0 },
    }),

  // Indexes
  "an index that exists": (_, full) => full.createDenseIndex({ distance_metric_type: "cosine" }),
  "no metric": (_, full) => full.createDenseIndex(loose({})),
  "an unknown metric": (_, full) => full.createDenseIndex({ distance_metric_type: loose("manhattan") }),
  "an index of a kind that is not enabled": (_, __, bare) =>
    bare.createDenseIndex({ distance_metric_type: "cosine" }),
  "an unknown number of levels": (_, full) => full.createSparseIndex({ quantization: loose(63) }),
  "a fraction of a sample": (_, full) => full.createSparseIndex({ sample_threshold: 0.5 }),
  "scalar without a type": (_, full) =>
    full.createDenseIndex({ distance_metric_type: "cosine", quantization: { type: "scalar" } }),
  "quantization without its type": (_, full) =>
    full.createDenseIndex({ distance_metric_type: "cosine", quantization: loose({ properties: {} }) }),
  "a range from end to begin": (_, full) =>
    full.createDenseIndex({
      distance_metric_type: "cosine",
      quantization: { type: "scalar", properties: { data_type: "u8", range: { min: 1, max: 0 } } },
    }),
  "b of 2": (_, __, bare) => bare.createTextIndex({ b: 2 }),
  "an unknown language": (_, __, bare) => bare.createTextIndex({ language: loose("klingon") }),
  "stop words of two": (_, __, bare) => bare.createTextIndex({ stop_words: ["of the"] }),
  "an index without a name": (_, __, bare) => bare.createTextIndex({ name: "" }),
  "deleting an index that is not there": (_, __, bare) => bare.deleteIndex("tf-idf"),
  "deleting an unknown kind": (_, full) => full.deleteIndex(loose("btree")),
  "a metadata index of an unknown type": (_, full) => full.createMetadataIndex("n", loose("int")),
  "a metadata index of the id": (_, full) => full.createMetadataIndex("id", "keyword"),
  "another metadata index of a field": (_, full) => full.createMetadataIndex("at", "keyword"),
  "a metadata index that is not there": (_, full) => full.deleteMetadataIndex("n"),
  "a recall of too many": (_, full) => full.measureRecall({ sample: 1_000_000 }),

  // Records
  "a vector of another dimension": (_, full) => full.upsert([{ id: "b", dense_values: [1, 2, 3] }]),
  "a vector with NaN": (_, full) => full.upsert([{ id: "b", dense_values: [1, Number.NaN] }]),
  "a vector with a hole": (_, full) => full.upsert([{ id: "b", dense_values: loose([1, undefined]) }]),
  "floats with infinity": (_, full) => full.upsert([{ id: "b", dense_values: new Float32Array([1, 1 / 0]) }]),
  "a number beyond floats": (_, full) => full.upsert([{ id: "b", dense_values: [1, 1e39] }]),
  "a vector in words": (_, full) => full.upsert([{ id: "b", dense_values: loose("1 2") }]),
  "a sparse value of infinity": (_, full) => full.upsert([{ id: "b", sparse_values: [[1, 1 / 0]] }]),
  "a sparse value that is none": (_, full) =>
    full.upsert([{ id: "b", sparse_indices: [1], sparse_values: [Number.NaN] }]),
  "sparse indices alone": (_, full) => full.upsert([{ id: "b", sparse_indices: [1] }]),
  "an index twice": (_, full) => full.upsert([{ id: "b", sparse_indices: [1, 1], sparse_values: [1, 2] }]),
  "a negative index": (_, full) => full.upsert([{ id: "b", sparse_indices: [-1], sparse_values: [1] }]),
  "content that is not enabled": (_, __, bare) => bare.upsert([{ id: "b", dense_values: [1, 0] }]),
  "a record of nothing": (_, full) => full.upsert([{ id: "b" }]),
  "a record without an id": (_, full) => full.upsert([loose({ text: "x" })]),
  "an id of a number": (_, full) => full.upsert([{ id: loose(5), text: "x" }]),
  "an empty id": (_, full) => full.upsert([{ id: "", text: "x" }]),
  "a misspelt field of the second record": (_, full) =>
    full.upsert([{ id: "b", text: "x" }, loose({ id: "c", text: "x", metadta: {} })]),
  "records that are none": (_, full) => full.upsert([loose("text")]),
  "a list as a record": (_, full) => full.upsert([loose([1, 2])]),
  "metadata of a list": (_, full) => full.upsert([{ id: "b", text: "x", metadata: loose([1]) }]),
  "metadata with a bigint": (_, full) => full.upsert([{ id: "b", text: "x", metadata: { n: 1n } }]),
  "an empty text as a record": (_, full) => full.upsert([new RawRecord(" ")]),
  "too many records": (_, full) => full.upsert([1, 2].map((n) => ({ id: `x${n}`, text: "x" }))),
  "a text of a number": (_, full) => full.upsert([{ id: "b", text: loose(5) }]),
  "reading what is not there": (_, full) => full.get("none"),
  "deleting what is not there": (_, full) => full.delete("none"),
  "reading an empty id": (_, full) => full.get(""),
  "an id with half a character": (_, full) => full.get("\ud800"),
  "a patch of nothing": (_, full) => full.patch("a", loose(5)),
  "a patch with NaN": (_, full) => full.patch("a", { n: Number.NaN }),
  "a patch of what is not there": (_, full) => full.patch("none", { n: 1 }),
  "ids that are numbers": (_, full) => full.fetch({ ids: loose([1]) }),
  "no ids": (_, full) => full.fetch(loose({})),
  "an unknown field to include": (_, full) => full.fetch({ ids: ["a"], include: [loose("vector")] }),
  "a field to include twice": (_, full) => full.fetch({ ids: ["a"], include: ["text", "text"] }),
  "no time": (_, full) => full.get("a", { timeoutMs: 0 }),
  "a time that is no number": (_, full) =>
    full.search.dense({ query_vector: [1, 0] }, { timeoutMs: Number.NaN }),
  "an unknown option": (_, full) => full.get("a", loose({ timeout: 5 })),

  // Searches
  "a query of another dimension": (_, full) => full.search.dense({ query_vector: [1] }),
  "a query with NaN": (_, full) => full.search.dense({ query_vector: [1, Number.NaN] }),
  "a long query with NaN": (_, full) => full.search.dense({ query_vector: long(Number.NaN) }),
  "floats of a query with NaN": (_, full) =>
    full.search.dense({ query_vector: new Float32Array([1, Number.NaN]) }),
  "doubles of a query with NaN": (_, full) =>
    full.search.dense({ query_vector: new Float64Array([1, Number.NaN]) }),
  "a query in words": (_, full) => full.search.dense({ query_vector: loose("bees") }),
  "no query": (_, full) => full.search.dense(loose({})),
  "no request": (_, full) => full.search.dense(loose(null)),
  "no argument": (_, full) => full.search.dense(loose(undefined)),
  "a list as a request": (_, full) => full.search.text(loose([])),
  "no results": (_, full) => full.search.dense({ query_vector: vector, top_k: 0 }),
  "too many results": (_, full) => full.search.dense({ query_vector: vector, top_k: 10_001 }),
  "results in words": (_, full) => full.search.dense({ query_vector: vector, top_k: loose("5") }),
  "results that are none": (_, full) => full.search.dense({ query_vector: vector, top_k: Number.NaN }),
  "a misspelt option": (_, full) => full.search.dense(loose({ query_vector: vector, topK: 5 })),
  "explain in words": (_, full) => full.search.dense({ query_vector: vector, explain: loose("yes") }),
  "ef of a fraction": (_, full) => full.search.dense({ query_vector: vector, ef_search: 1.5 }),
  "a threshold of infinity": (_, full) => full.search.dense({ query_vector: vector, score_threshold: 1 / 0 }),
  "groups without a field": (_, full) => full.search.dense({ query_vector: vector, group_size: 2 }),
  "a second query of another dimension": (_, full) =>
    full.search.batchDense({ queries: [{ vector }, { vector: [1] }] }),
  "queries that are none": (_, full) => full.search.batchDense({ queries: [loose("bees")] }),
  "queries that are no list": (_, full) => full.search.batchDense({ queries: loose({}) }),
  "a term twice": (_, full) =>
    full.search.sparse({
      query_terms: [
        [1, 1],
        [1, 2],
      ],
    }),
  "a term in words": (_, full) => full.search.sparse({ query_terms: [loose({ index: "1", value: 1 })] }),
  "a term with NaN": (_, full) => full.search.sparse({ query_terms: [{ index: 1, value: Number.NaN }] }),
  "a text of nothing": (_, full) => full.search.text({}),
  "an open phrase": (_, full) => full.search.text({ query: '"bees', syntax: "operators" }),
  "a phrase without positions": (_, full) => full.search.text({ query: '"bees dance"', syntax: "operators" }),
  "a search without its index": (_, __, bare) => bare.search.text({ query: "bees" }),
  "a search of a kind that is not enabled": (_, __, bare) => bare.search.dense({ query_vector: vector }),
  "one leg of a hybrid search": (_, full) => full.search.hybrid({ query_text: "bees" }),
  "a fusion constant of 0": (_, full) =>
    full.search.hybrid({ query_text: "bees", query_vector: vector, fusion_constant_k: 0 }),
  "a negative weight": (_, full) =>
    full.search.hybrid({ query_text: "bees", query_vector: vector, fusion_weights: { dense: -1 } }),
  "an example that is not there": (_, full) => full.search.recommend({ positive: ["none"] }),
  "an example without a vector": (_, full) => full.search.recommend({ positive: ["words"] }),
  "no examples": (_, full) => full.search.recommend({ positive: [] }),
  "neighbours of nobody": (_, full) => full.neighbors("none"),
  "neighbours in words": (_, full) => full.neighbors("a", { top_k: loose("five") }),

  // Filters
  "a filter in words": (_, full) => full.count(loose("color = red")),
  "an unknown operator": (_, full) => full.count({ color: loose({ equals: "red" }) }),
  "an operand of another kind": (_, full) => full.count({ color: { in: loose("red") } }),
  "a condition that JSON leaves out": (_, full) => full.count({ color: undefined }),
  "a filter with NaN": (_, full) => full.count({ n: { lt: Number.NaN } }),
  "a time that is none": (_, full) => full.count({ at: { gt: "yesterday" } }),
  "the words of another database": (_, full) =>
    full.count(loose({ must: [{ key: "color", match: { value: "red" } }] })),
  "a filter of a query": (_, full) =>
    full.search.batchDense({ queries: [{ vector, filter: loose({ n: { foo: 1 } }) }] }),
  "a filter of an export": (_, full) => full.export({ filter: loose({ n: { foo: 1 } }) }).count(),
  "a filter of neighbours": (_, full) => full.neighbors("a", { filter: loose({ n: { foo: 1 } }) }),
  "deleting everything": (_, full) => full.deleteMatching(loose({})),
  "an order without an index": (_, full) => full.scroll({ order_by: { field: "color" } }),
  "a cursor of nothing": (_, full) => full.scroll({ cursor: "abc" }),
  "a page of nothing": (_, full) => full.scroll({ limit: 0 }),
  "facets of no field": (_, full) => full.facet(loose({})),
  "facets of both": (_, full) => full.facet(loose({ field: "a", fields: ["b"] })),
  "facets of an empty list": (_, full) => full.facet({ fields: [] }),
  "facets of too many": (_, full) => full.facet({ fields: Array.from({ length: 17 }, (_, i) => `f${i}`) }),
  "facets of a field that is none": (_, full) => full.facet({ fields: ["a", "b\\"] }),

  // Transactions, versions, snapshots
  "a transaction that is not there": (_, full) => full.resumeTransaction("none").commit(),
  "a status of nothing": (_, full) => full.resumeTransaction("none").status(),
  "a second transaction": async (_, full) => {
    await using first = await full.transaction();
    await first.upsert([]);
    await full.transaction();
  },
  "adding a vector of another dimension": async (_, full) => {
    await using transaction = await full.transaction();
    await transaction.add({ id: "b", dense_values: [1] });
  },
  "adding NaN": async (_, full) => {
    await using transaction = await full.transaction();
    await transaction.add({ id: "b", dense_values: [1, Number.NaN] });
  },
  "adding a misspelt field": async (_, full) => {
    await using transaction = await full.transaction();
    await transaction.add(loose({ id: "b", text: "x", metadta: {} }));
  },
  "adding what is no record": async (_, full) => {
    await using transaction = await full.transaction();
    await transaction.add(loose("text"));
  },
  "deleting in a transaction what is not there": async (_, full) => {
    await using transaction = await full.transaction();
    await transaction.delete("none");
  },
  "a version that is none": (_, full) => full.version("abc"),
  "versions of nothing": (_, full) => full.versions({ limit: 0 }),
  "a snapshot that is not there": (_, full) => full.getSnapshot("none"),
  "restoring nothing": (_, full) => full.restore({ snapshots: [] }),
  "a snapshot since later": (_, full) => full.createSnapshot({ sinceVersion: 1_000_000 }),
};

/** The error of an act, with what differs from one run to the next made equal. */
async function errorOf(database: Database, act: Act): Promise<unknown> {
  const error = await (async () =>
    act(database, database.collection("full"), database.collection("bare")))().then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof QuiverError)) return { error };
  const { code, message, details, status } = error;
  const plain = (value: unknown) => JSON.parse(JSON.stringify(value).replaceAll(/"?\d+-[\w-]{8,}"?/g, "0"));
  return plain({ code, message, details, status });
}

test.each(Object.entries(mistakes))("[P1] %s", async (_, act) => {
  const [remote, here] = [await errorOf(overHttp, act), await errorOf(inProcess, act)];
  expect(remote).toHaveProperty("message");
  expect(here).toEqual(remote);
});

test("[P1] ensureTexts refuses a collection whose vectors have another dimension than the one that is given", async () => {
  for (const database of [overHttp, inProcess]) {
    await ensureTexts(database, "texts", { dimension: 2 });
    await expect(ensureTexts(database, "texts", { dimension: 3 })).rejects.toMatchObject({
      code: "invalid_request",
      details: { path: "dimension", expected: 2, received: 3 },
    });
    // A function is not asked, because it may load a model.
    expect((await ensureTexts(database, "texts", { dimension: () => 3 })).name).toBe("texts");
  }
});
