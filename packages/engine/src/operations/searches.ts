// Which searches are there?

import { limits } from "@quiverdb/protocol/limits";
import * as search from "@quiverdb/protocol/shapes/search";
import { AtVersion, WhenFields } from "@quiverdb/protocol/shapes/version";
import { collectionPath, operation } from "./operation.ts";
import { fieldsOf } from "./parameters.ts";

// What the examples search for: all examples of bodies are one story, of a collection of articles with vectors of three dimensions.
const articleVector = [0.1, 0.9, 0.2];
const terms = [
  { index: 17, value: 0.8 },
  { index: 4021, value: 0.3 },
];
const filter = { topic: "bees", year: { gte: 2000 } };

/** The fields of a request that determine the work of a search. */
type Amount = {
  readonly queries?: readonly unknown[];
  readonly query_terms_list?: readonly unknown[];
  readonly top_k?: number | null;
  readonly exact?: boolean | null;
  readonly diversity?: number | null;
  readonly syntax?: string | null;
  readonly filter?: unknown;
};

/**
 * Estimated milliseconds of a query, of a query that scans all vectors or has operators or a filter, and of a result. Rough estimates are
 * enough: the scheduler measures the real time.
 */
const queryMs = 0.3;
const thoroughQueryMs = 4;
const resultMs = 0.004;

function searchMs({ queries, query_terms_list, top_k, exact, diversity, syntax, filter }: Amount): number {
  const count = queries?.length ?? query_terms_list?.length ?? 1;
  const isFiltered = filter !== undefined && filter !== null;
  const isThorough = exact === true || syntax === "operators" || isFiltered || (diversity ?? 0) > 0;
  const each = isThorough ? thoroughQueryMs : queryMs;
  return count * (each + resultMs * (top_k ?? limits.topKDefault));
}

/** What all searches have in common. */
const searching = {
  role: "read",
  keyFilter: "filtered",
  tag: "Search",
  work: "search",
  past: true,
  expectedMs: searchMs,
  statusOf: { index_not_found: 400 },
} as const;

export const searches = {
  searchDense: operation(
    {
      method: "POST",
      path: `${collectionPath}/search/dense`,
      ...searching,
      threads: true,
      summary: "Dense search",
      body: AtVersion(search.DenseSearch),
      answer: search.SearchResponse,
      vectorField: "query_vector",
    },
    ({ collection, body, options }) => collection.search("dense", body, options),
    { query_vector: articleVector, top_k: 5 },
    { query_vector: articleVector, top_k: 5, filter, include: ["metadata"], score_threshold: 0.5 },
  ),
  searchBatchDense: operation(
    {
      method: "POST",
      path: `${collectionPath}/search/batch-dense`,
      ...searching,
      threads: true,
      summary: "Batch dense search",
      body: AtVersion(search.BatchDenseSearch),
      answer: search.BatchSearchResponse,
      vectorLists: ["queries[].vector"],
    },
    ({ collection, body, options }) => collection.search("batchDense", body, options),
    { queries: [{ vector: articleVector }, { vector: [0.9, 0.1, 0.4], filter: { year: 1998 } }], top_k: 5 },
  ),
  searchSparse: operation(
    {
      method: "POST",
      path: `${collectionPath}/search/sparse`,
      ...searching,
      threads: true,
      summary: "Sparse search",
      body: AtVersion(search.SparseSearch),
      answer: search.SearchResponse,
    },
    ({ collection, body, options }) => collection.search("sparse", body, options),
    { query_terms: terms, top_k: 5 },
  ),
  searchBatchSparse: operation(
    {
      method: "POST",
      path: `${collectionPath}/search/batch-sparse`,
      ...searching,
      threads: true,
      summary: "Batch sparse search",
      body: AtVersion(search.BatchSparseSearch),
      answer: search.BatchSearchResponse,
    },
    ({ collection, body, options }) => collection.search("batchSparse", body, options),
    { query_terms_list: [terms, [{ index: 17, value: 1 }]], top_k: 5 },
  ),
  searchText: operation(
    {
      method: "POST",
      path: `${collectionPath}/search/tf-idf`,
      ...searching,
      threads: true,
      summary: "TF-IDF/BM25 search",
      body: AtVersion(search.TextSearch),
      answer: search.SearchResponse,
    },
    ({ collection, body, options }) => collection.search("text", body, options),
    { query: "how do bees navigate", top_k: 5, return_raw_text: true },
    { query: '+bees "by the sun" -wasps navig*', syntax: "operators", top_k: 5 },
  ),
  searchBatchText: operation(
    {
      method: "POST",
      path: `${collectionPath}/search/batch-tf-idf`,
      ...searching,
      threads: true,
      summary: "Batch TF-IDF/BM25 search",
      body: AtVersion(search.BatchTextSearch),
      answer: search.BatchSearchResponse,
    },
    ({ collection, body, options }) => collection.search("batchText", body, options),
    { queries: ["bees", { query: "whales", filter: { topic: "whales" } }], top_k: 5 },
  ),
  searchHybrid: operation(
    {
      method: "POST",
      path: `${collectionPath}/search/hybrid`,
      ...searching,
      threads: true,
      summary: "Hybrid search",
      body: AtVersion(search.HybridSearch),
      answer: search.SearchResponse,
      vectorField: "query_vector",
    },
    ({ collection, body, options }) => collection.search("hybrid", body, options),
    { query_vector: articleVector, query_text: "how do bees navigate", top_k: 5 },
    {
      query_vector: articleVector,
      query_terms: terms,
      query_text: "how do bees navigate",
      fusion_weights: { dense: 0.5, text: 1 },
      filter,
      explain: true,
      top_k: 5,
    },
  ),
  searchBatchHybrid: operation(
    {
      method: "POST",
      path: `${collectionPath}/search/batch-hybrid`,
      ...searching,
      threads: true,
      summary: "Batch hybrid search",
      body: AtVersion(search.BatchHybridSearch),
      answer: search.BatchSearchResponse,
      vectorLists: ["queries[].query_vector"],
    },
    ({ collection, body, options }) => collection.search("batchHybrid", body, options),
    { queries: [{ query_vector: articleVector, query_text: "bees" }], top_k: 5 },
  ),
  recommend: operation(
    {
      method: "POST",
      path: `${collectionPath}/search/recommend`,
      ...searching,
      summary: "Search by examples: records or vectors that results should be like, or unlike",
      body: AtVersion(search.Recommend),
      answer: search.SearchResponse,
      vectorLists: ["positive[]", "negative[]"],
    },
    ({ collection, body, options }) => collection.search("recommend", body, options),
    { positive: ["a1", "a2"], negative: ["a3"], top_k: 5 },
    { positive: ["a1"], top_k: 5, diversity: 0.5 },
  ),
  neighbors: operation(
    {
      method: "GET",
      path: `${collectionPath}/vectors/{vector_id}/neighbors`,
      ...searching,
      summary: "Get the records that are nearest to a record by their dense vectors, without itself",
      query: { ...fieldsOf(search.Neighbors), ...fieldsOf(WhenFields) },
      answer: search.SearchResponse,
      expectedMs: (_: unknown, query: Amount) => searchMs(query),
    },
    ({ collection, params, query, options }) =>
      collection.search("neighbors", { ...query, vector_id: params.vector_id }, options),
  ),
};
