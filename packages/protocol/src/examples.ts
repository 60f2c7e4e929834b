// What does a body of each endpoint look like?
//
// One story, in the order of the list: a collection of articles with vectors of three dimensions is made, filled, searched and changed. A
// test sends all of them, in this order, to a server. The OpenAPI document shows them.

import type { Static, TSchema } from "typebox";
import type { RouteName, routes } from "./routes.ts";

type Routes = typeof routes;
type WithBody = { [R in RouteName]: Routes[R] extends { body: TSchema } ? R : never }[RouteName];
type BodyOf<R extends RouteName> = Routes[R] extends { body: infer S extends TSchema } ? Static<S> : never;

const vector = [0.1, 0.9, 0.2];
const terms = [
  { index: 17, value: 0.8 },
  { index: 4021, value: 0.3 },
];
const filter = { topic: "bees", year: { gte: 2000 } };

/** Bodies of each endpoint that has one; the first shows what is needed. */
export const examples: { readonly [R in WithBody]: readonly BodyOf<R>[] } = {
  createSession: [{ username: "admin", password: "<the admin key>" }],
  createCollection: [
    {
      name: "articles",
      description: "Articles about animals",
      dense_vector: { enabled: true, dimension: 3 },
      sparse_vector: { enabled: true },
      tf_idf_options: { enabled: true },
      config: { max_vectors: null },
      store_raw_text: true,
    },
  ],
  createDenseIndex: [
    {
      name: "dense",
      distance_metric_type: "cosine",
      quantization: { type: "auto", properties: { sample_threshold: 1_000 } },
      index: { type: "hnsw", properties: {} },
    },
  ],
  createSparseIndex: [{ name: "sparse", quantization: 256, sample_threshold: 1_000 }],
  createTextIndex: [
    { name: "text", sample_threshold: 1_000, k1: 1.2, b: 0.75, language: "english", positions: true },
  ],
  createMetadataIndex: [{ type: "number" }],
  streamingUpsert: [
    {
      vectors: [
        {
          id: "a1",
          document_id: "bees",
          dense_values: vector,
          sparse_indices: [17, 4021],
          sparse_values: [0.5, 1.2],
          text: "How bees navigate by the sun",
          metadata: { topic: "bees", year: 2021, tags: ["insects", "light"] },
        },
        {
          id: "a2",
          dense_values: [0.2, 0.8, 0.1],
          text: "Bees dance",
          metadata: { topic: "bees", year: 2003 },
        },
        {
          id: "a3",
          dense_values: [0.9, 0.1, 0.4],
          text: "Whales sing",
          metadata: { topic: "whales", year: 1998 },
        },
      ],
    },
  ],
  analyzeText: [{ text: "How bees navigate by the sun" }],
  searchDense: [
    { query_vector: vector, top_k: 5 },
    { query_vector: vector, top_k: 5, filter, include: ["metadata"], score_threshold: 0.5 },
  ],
  searchBatchDense: [
    { queries: [{ vector }, { vector: [0.9, 0.1, 0.4], filter: { year: 1998 } }], top_k: 5 },
  ],
  searchSparse: [{ query_terms: terms, top_k: 5 }],
  searchBatchSparse: [{ query_terms_list: [terms, [{ index: 17, value: 1 }]], top_k: 5 }],
  searchText: [
    { query: "how do bees navigate", top_k: 5, return_raw_text: true },
    { query: '+bees "by the sun" -wasps navig*', syntax: "operators", top_k: 5 },
  ],
  searchBatchText: [{ queries: ["bees", { query: "whales", filter: { topic: "whales" } }], top_k: 5 }],
  searchHybrid: [
    { query_vector: vector, query_text: "how do bees navigate", top_k: 5 },
    {
      query_vector: vector,
      query_terms: terms,
      query_text: "how do bees navigate",
      fusion_weights: { dense: 0.5, text: 1 },
      filter,
      explain: true,
      top_k: 5,
    },
  ],
  searchBatchHybrid: [{ queries: [{ query_vector: vector, query_text: "bees" }], top_k: 5 }],
  recommend: [
    { positive: ["a1", "a2"], negative: ["a3"], top_k: 5 },
    { positive: ["a1"], top_k: 5, diversity: 0.5 },
  ],
  countVectors: [{ filter }, {}],
  facetVectors: [
    { field: "topic", filter: { year: { gte: 2000 } }, limit: 10 },
    { fields: ["topic", "year"], limit: 10 },
  ],
  scrollVectors: [
    { filter, limit: 100, include: ["metadata"] },
    { order_by: { field: "year", direction: "desc" } },
  ],
  fetchVectors: [{ ids: ["a1", "a3"], include: ["metadata", "text"] }],
  patchVector: [{ metadata: { year: 2022, tags: null } }],
  updateMatching: [{ filter: { topic: "whales" }, metadata: { topic: "mammals" } }],
  addVector: [
    { id: "a4", dense_values: [0.3, 0.3, 0.3], text: "Ants build", metadata: { topic: "ants", year: 2010 } },
  ],
  upsertVectors: [
    {
      vectors: [
        {
          id: "a5",
          dense_values: [0.4, 0.1, 0.3],
          text: "Ants carry",
          metadata: { topic: "ants", year: 2011 },
        },
      ],
    },
  ],
  deleteMatching: [{ filter: { topic: "ants", year: { lt: 2011 } } }],
  createSnapshot: [{}, { since_version: 1 }],
  restoreCollection: [
    { snapshots: ["<the id of a full snapshot>", "<that of an incremental one>"], overwrite: true },
  ],
  createKey: [
    { name: "search page", role: "read", collections: ["articles"], expires_at: 4_102_444_800 },
    { name: "one customer", role: "write", collections: ["articles"], filter: { tenant: "acme" } },
  ],
};
