// What does the published Python client (cosdata-client) send, and what does it accept?
//
// Read from its source, https://github.com/cosdata/cosdata-sdk-python: for each method the request, the statuses that it takes for success,
// and what it reads of the answer. Every request carries `Content-type: application/json`, also without a body, and after the login
// `Authorization: Bearer <access_token>`. `{t}`, `{hash}` and `{version}` stand for what earlier answers gave.

import type { ErrorCode } from "@quiverdb/protocol/errors";

export type Recorded = {
  /** The method, as docs/guide/python.md names it. */
  readonly call: string;
  readonly request: readonly [method: string, path: string, body?: unknown];
  /** The statuses that the client takes for success. */
  readonly accepts: readonly number[];
  /** What it reads of the answer: paths of fields, `[]` for each item of a list. */
  readonly reads?: readonly string[];
  /** The status and code of the refusal, where the method does not work; its reason is in docs/guide/python.md. */
  readonly refused?: readonly [status: number, code: ErrorCode];
};

const collections = "/vectordb/collections";
const c = `${collections}/recorded`;
const t = `${c}/transactions/{t}`;

const vector = (id: string) => ({
  id,
  dense_values: [0.1, 0.2, 0.3, 0.4],
  sparse_indices: [1, 7],
  sparse_values: [0.5, 1.5],
  document_id: "doc_0",
  text: "a quick fox",
  metadata: { created_at: "2024-03-20", category: "example" },
});
const terms = [
  { index: 1, value: 0.5 },
  { index: 7, value: 1 },
];
const found = ["results", "results.[].id", "results.[].document_id", "results.[].score", "results.[].text"];
const foundOfEach = ["[].results", "[].results.[].id", "[].results.[].score"];
const record = ["id", "document_id", "dense_values", "sparse_indices", "sparse_values", "text"];
const version = ["hash", "version_number", "timestamp", "vector_count"];
const batch = Array.from({ length: 200 }, (_, at) => vector(`vec_${at}`));

/** A run through the whole client, in an order in which each request finds what it needs. */
export const recorded = (adminKey: string): readonly Recorded[] => [
  {
    call: "Client()",
    request: ["POST", "/auth/create-session", { username: "admin", password: adminKey }],
    accepts: [200],
    reads: ["access_token"],
  },
  {
    call: "client.create_collection()",
    request: [
      "POST",
      collections,
      {
        name: "recorded",
        description: null,
        dense_vector: { enabled: true, dimension: 4 },
        sparse_vector: { enabled: true },
        tf_idf_options: { enabled: true },
        config: { max_vectors: null, replication_factor: null },
        store_raw_text: false,
      },
    ],
    accepts: [200, 201],
  },
  { call: "client.get_collection()", request: ["GET", c], accepts: [200] },
  {
    call: "client.list_collections()",
    request: ["GET", collections],
    accepts: [200],
    reads: ["collections", "collections.[].name"],
  },
  { call: "Collection.loaded()", request: ["GET", `${collections}/loaded`], accepts: [200] },
  {
    call: "collection.get_info()",
    request: ["GET", c],
    accepts: [200],
    reads: ["name", "dense_vector.dimension", "sparse_vector.enabled", "tf_idf_options.enabled"],
  },
  {
    call: "collection.create_index()",
    request: [
      "POST",
      `${c}/indexes/dense`,
      {
        name: "recorded_index",
        distance_metric_type: "cosine",
        quantization: { type: "auto", properties: { sample_threshold: 100 } },
        index: {
          type: "hnsw",
          properties: {
            num_layers: 7,
            max_cache_size: 1000,
            ef_construction: 512,
            ef_search: 256,
            neighbors_count: 32,
            level_0_neighbors_count: 64,
          },
        },
      },
    ],
    accepts: [200, 201],
  },
  {
    call: "collection.create_sparse_index()",
    request: ["POST", `${c}/indexes/sparse`, { name: "sparse", quantization: 64, sample_threshold: 1000 }],
    accepts: [200, 201],
  },
  {
    call: "collection.create_tf_idf_index()",
    request: ["POST", `${c}/indexes/tf-idf`, { name: "words", sample_threshold: 1000, k1: 1.2, b: 0.75 }],
    accepts: [200, 201],
  },
  {
    call: "Indexes(client).get()",
    request: ["GET", `${c}/indexes`],
    accepts: [200],
    reads: ["dense.name", "sparse.name", "tf-idf.name"],
  },
  {
    call: "collection.transaction()",
    request: ["POST", `${c}/transactions`],
    accepts: [200, 201],
    reads: ["transaction_id"],
  },
  {
    call: "txn.upsert_vector()",
    request: ["POST", `${t}/upsert`, { vectors: [vector("vec_0")] }],
    accepts: [200, 204],
  },
  {
    call: "txn.batch_upsert_vectors()",
    request: ["POST", `${t}/upsert`, { vectors: batch }],
    accepts: [200, 204],
  },
  { call: "txn.commit()", request: ["POST", `${t}/commit`], accepts: [200, 204] },
  { call: "txn.get_status()", request: ["GET", `${t}/status`], accepts: [200], reads: ["status"] },
  {
    call: "collection.create_transaction()",
    request: ["POST", `${c}/transactions`],
    accepts: [200, 201],
    reads: ["transaction_id"],
  },
  { call: "txn.abort()", request: ["POST", `${t}/abort`], accepts: [200, 204] },
  {
    call: "collection.stream_upsert()",
    request: ["POST", `${c}/streaming/upsert`, { vectors: [vector("streamed")] }],
    accepts: [200, 201, 204],
  },
  {
    call: "collection.search.dense()",
    request: [
      "POST",
      `${c}/search/dense`,
      { query_vector: [0.1, 0.2, 0.3, 0.4], top_k: 10, return_raw_text: false },
    ],
    accepts: [200],
    reads: found,
  },
  {
    call: "index.query()",
    request: [
      "POST",
      `${c}/search/dense`,
      { query_vector: [0.1, 0.2, 0.3, 0.4], top_k: 5, return_raw_text: false },
    ],
    accepts: [200],
    reads: found,
  },
  {
    call: "collection.search.batch_dense()",
    request: [
      "POST",
      `${c}/search/batch-dense`,
      {
        queries: [{ vector: [0.1, 0.2, 0.3, 0.4] }, { vector: [1, 0, 0, 0] }],
        top_k: 10,
        return_raw_text: false,
      },
    ],
    accepts: [200],
    reads: foundOfEach,
  },
  {
    call: "collection.search.sparse()",
    request: [
      "POST",
      `${c}/search/sparse`,
      { query_terms: terms, top_k: 10, early_terminate_threshold: 0, return_raw_text: false },
    ],
    accepts: [200],
    reads: found,
  },
  {
    call: "collection.search.batch_sparse()",
    request: [
      "POST",
      `${c}/search/batch-sparse`,
      { query_terms_list: [terms, terms], top_k: 10, early_terminate_threshold: 0, return_raw_text: false },
    ],
    accepts: [200],
    reads: foundOfEach,
  },
  {
    call: "collection.search.text()",
    request: ["POST", `${c}/search/tf-idf`, { query: "fox", top_k: 10, return_raw_text: true }],
    accepts: [200],
    reads: found,
  },
  {
    call: "collection.search.batch_tf_idf_search()",
    request: [
      "POST",
      `${c}/search/batch-tf-idf`,
      { queries: ["fox", "quick"], top_k: 10, return_raw_text: false },
    ],
    accepts: [200],
    reads: foundOfEach,
  },
  {
    call: "collection.search.batch_text()",
    request: ["POST", `${c}/search/batch-text`, { queries: ["fox"], top_k: 10, return_raw_text: false }],
    accepts: [200],
    refused: [404, "route_not_found"],
  },
  {
    call: "collection.search.hybrid_search()",
    request: [
      "POST",
      `${c}/search/hybrid`,
      {
        query_vector: [0.1, 0.2, 0.3, 0.4],
        query_text: "fox",
        top_k: 5,
        fusion_constant_k: 60,
        return_raw_text: true,
      },
    ],
    accepts: [200],
    reads: found,
  },
  {
    call: "collection.vectors.get()",
    request: ["GET", `${c}/vectors/vec_1`],
    accepts: [200],
    reads: record,
  },
  {
    call: "index.fetch_vector()",
    request: ["GET", `${c}/vectors/vec_1`],
    accepts: [200],
    reads: ["id"],
  },
  {
    call: "collection.vectors.get_by_document_id()",
    request: ["GET", `${c}/vectors?document_id=doc_0`],
    accepts: [200],
    reads: record.map((field) => `[].${field}`),
  },
  { call: "collection.vectors.exists()", request: ["HEAD", `${c}/vectors/vec_1`], accepts: [200] },
  {
    call: "collection.neighbors()",
    request: ["GET", `${c}/vectors/vec_1/neighbors`],
    accepts: [200],
  },
  {
    call: "collection.versions.list()",
    request: ["GET", `${c}/versions`],
    accepts: [200],
    reads: ["current_hash", ...version.map((field) => `versions.[].${field}`)],
  },
  {
    call: "collection.versions.get_current()",
    request: ["GET", `${c}/versions/current`],
    accepts: [200],
    reads: version,
  },
  {
    call: "collection.versions.get()",
    request: ["GET", `${c}/versions/{hash}`],
    accepts: [200],
    reads: version,
  },
  {
    call: "collection.set_version()",
    request: ["PUT", `${c}/versions/current`, { version: "{hash}" }],
    accepts: [200],
    reads: version,
  },
  {
    call: "collection.indexing_status()",
    request: ["GET", `${c}/indexing_status`],
    accepts: [200],
    refused: [404, "route_not_found"],
  },
  {
    call: "collection.stream_delete()",
    request: ["DELETE", `${c}/streaming/vectors/streamed`],
    accepts: [200, 201, 204],
  },
  { call: "collection.unload()", request: ["POST", `${c}/unload`], accepts: [200] },
  { call: "collection.load()", request: ["POST", `${c}/load`], accepts: [200] },
  { call: "index.delete()", request: ["DELETE", `${c}/indexes/tf_idf`], accepts: [204] },
  { call: "collection.delete()", request: ["DELETE", c], accepts: [204] },
];
