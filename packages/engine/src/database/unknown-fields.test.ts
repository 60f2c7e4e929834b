// Which calls of the embedded engine reject unknown fields? All that take plain objects.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isQuiverError } from "@quiverdb/protocol/errors";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Collection, Database } from "./contract.ts";
import { openDatabase } from "./database.ts";

let directory: string;
let database: Database;
let c: Collection;
const definition = (name: string) => ({
  name,
  dense_vector: { enabled: true, dimension: 2, auto_create_index: true },
  sparse_vector: { enabled: true, auto_create_index: true },
  tf_idf_options: { enabled: true },
  config: {},
});
const textIndex = { name: "t", sample_threshold: 10, k1: 1.2, b: 0.75 };

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "quiver-unknown-"));
  database = await openDatabase({ dataDir: directory });
  await database.createCollection(definition("c"));
  c = database.collection("c");
  await c.createIndex("tf-idf", textIndex);
  await c.upsert([{ id: "a", dense_values: [1, 2], text: "fox", metadata: { topK: { any: 1 } } }]);
});
afterAll(async () => {
  await database.close();
  rmSync(directory, { recursive: true, force: true });
});

/** A value as passed from JavaScript without type checks. */
// biome-ignore lint/suspicious/noExplicitAny: what is tested is what the types forbid.
const loose = (value: unknown): any => value;

const dense = { query_vector: [1, 2] };
const calls: [string, string, string | undefined, () => unknown][] = [
  ["openDatabase", "dataDirr", "dataDir", () => openDatabase(loose({ dataDirr: directory }))],
  [
    "createCollection",
    "config.maxVectors",
    "max_vectors",
    () => database.createCollection(loose({ ...definition("d"), config: { maxVectors: 1 } })),
  ],
  [
    "upsert",
    "vectors[1].metadta",
    "metadata",
    () =>
      c.upsert(
        loose([
          { id: "x", text: "x" },
          { id: "y", metadta: {} },
        ]),
      ),
  ],
  [
    "upsert, options",
    "timeout",
    "timeoutMs",
    () => c.upsert([{ id: "x", text: "x" }], loose({ timeout: 5 })),
  ],
  [
    "createDenseIndex",
    "index.properties.efSearch",
    "ef_search",
    () =>
      c.createIndex(
        "dense",
        loose({
          name: "d",
          distance_metric_type: "cosine",
          quantization: { type: "auto", properties: { sample_threshold: 1 } },
          index: { type: "hnsw", properties: { efSearch: 1 } },
        }),
      ),
  ],
  [
    "createSparseIndex",
    "levels",
    undefined,
    () => c.createIndex("sparse", loose({ name: "s", quantization: 64, sample_threshold: 1, levels: 64 })),
  ],
  [
    "createTextIndex",
    "lang",
    undefined,
    () => c.createIndex("tf-idf", loose({ ...textIndex, lang: "german" })),
  ],
  ["analyzeText", "texts", "text", () => c.analyzeText(loose({ texts: "x" }))],
  ["measureRecall", "topK", "top_k", () => c.measureRecall(loose({ topK: 5 }))],
  ["searchDense", "topK", "top_k", () => c.search("dense", loose({ ...dense, topK: 5 }))],
  [
    "searchBatchDense",
    "queries[1].vectr",
    "vector",
    () => c.search("batchDense", loose({ queries: [{ vector: [1, 2] }, { vectr: [1, 2] }] })),
  ],
  [
    "searchSparse",
    "query_terms[0].indx",
    "index",
    () => c.search("sparse", loose({ query_terms: [{ indx: 1, value: 1 }] })),
  ],
  [
    "searchBatchSparse",
    "query_terms_list[0][0].weight",
    undefined,
    () => c.search("batchSparse", loose({ query_terms_list: [[{ index: 1, value: 1, weight: 1 }]] })),
  ],
  ["searchText", "filters", "filter", () => c.search("text", loose({ query: "fox", filters: {} }))],
  ["searchBatchText", "topk", "top_k", () => c.search("batchText", loose({ queries: ["fox"], topk: 1 }))],
  [
    "searchHybrid",
    "fusion_weights.words",
    undefined,
    () => c.search("hybrid", loose({ ...dense, query_text: "fox", fusion_weights: { words: 2 } })),
  ],
  [
    "searchBatchHybrid",
    "queries[0].queryText",
    "query_text",
    () => c.search("batchHybrid", loose({ queries: [{ ...dense, queryText: "fox" }] })),
  ],
  ["versions", "limt", "limit", () => c.versions(loose({ limt: 1 }))],
  ["snapshots.create", "since", undefined, () => database.snapshots.create("c", loose({ since: 1 }))],
  [
    "restoreCollection",
    "over_write",
    "overwrite",
    () => database.restoreCollection("r", loose({ snapshots: [], over_write: true })),
  ],
];

test.each(calls)("[E7] %s refuses %s", async (_, path, suggestion, act) => {
  const before = [c.currentVersion(), c.indexes().dense?.name, database.listCollections()];
  const error = await Promise.resolve()
    .then(act)
    .then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
  if (!isQuiverError(error, "unknown_field")) throw new Error("not refused", { cause: error });
  expect([error.details.path, error.details.suggestion]).toEqual([path, suggestion]);
  expect([c.currentVersion(), c.indexes().dense?.name, database.listCollections()]).toEqual(before);
});

test("[E7] a transaction's records are checked, and metadata is not", async () => {
  const { transaction_id } = await c.beginTransaction();
  const transaction = c.transaction(transaction_id);
  const wrong = loose({ id: "x", text: "x", documentId: "d" });
  await expect(transaction.add(wrong)).rejects.toMatchObject({
    code: "unknown_field",
    details: { path: "documentId", suggestion: "document_id" },
  });
  await expect(transaction.upsert([wrong])).rejects.toMatchObject({
    details: { path: "vectors[0].documentId" },
  });
  await transaction.add({ id: "x", text: "x", metadata: { documentId: { topK: 1 } } });
  await transaction.abort();
  expect(c.get("a").toRecord().metadata).toEqual({ topK: { any: 1 } });
});

test.each([
  ["searchDense", (given: unknown) => c.search("dense", loose(given))],
  ["searchBatchSparse", (given: unknown) => c.search("batchSparse", loose(given))],
  ["searchText", (given: unknown) => c.search("text", loose(given))],
  ["searchHybrid", (given: unknown) => c.search("hybrid", loose(given))],
  ["createTextIndex", (given: unknown) => c.createIndex("tf-idf", loose(given))],
  ["createCollection", (given: unknown) => database.createCollection(loose(given))],
])(
  "[E7] %s without its request, or with another value in its place, is rejected with a clear error",
  async (_name, call) => {
    for (const given of [undefined, null, "text", 3, [dense]])
      await expect((async () => call(given))()).rejects.toMatchObject({
        code: "invalid_request",
        message: expect.stringContaining("must be an object, not"),
      });
  },
);
