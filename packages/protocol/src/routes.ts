// Which endpoints are there?
//
// The server registers exactly this list, the client has one method for each entry, the OpenAPI document is
// made from it, and the tests walk it. `not_found` gives the status of "no such ..." where it is not 404:
// the same condition has different codes on different endpoints (service-interface, "Errors").

import type { TSchema } from "typebox";
import Type from "typebox";
import type { ErrorCode } from "./errors.ts";
import * as collection from "./shapes/collection.ts";
import { Empty } from "./shapes/common.ts";
import * as index from "./shapes/index-definition.ts";
import * as search from "./shapes/search.ts";
import * as session from "./shapes/session.ts";
import * as transaction from "./shapes/transaction.ts";
import * as vector from "./shapes/vector.ts";
import * as version from "./shapes/version.ts";

export type Route = {
  readonly method: "GET" | "HEAD" | "POST" | "DELETE";
  /** Path with `{name}` for parameters. */
  readonly path: string;
  readonly tag: string;
  readonly summary: string;
  readonly body?: TSchema;
  /** Query parameters, all strings on the wire: name -> description. A leading `!` marks a required one. */
  readonly query?: Readonly<Record<string, string>>;
  readonly status: 200 | 201 | 204;
  /** Absent: no body. */
  readonly answer?: TSchema;
  /** Absent: application/json. */
  readonly mediaType?: "application/x-ndjson";
  /** Codes whose status on this route differs from the table of errors. */
  readonly statusOf?: Partial<Record<ErrorCode, number>>;
  /** Error statuses that the contract lists for the route, for the reference. */
  readonly errors: readonly number[];
};

const c = "/vectordb/collections/{collection_id}";
const t = `${c}/transactions/{transaction_id}`;
const missingCollectionIs400 = { collection_not_found: 400 } as const;
const missingIs400 = {
  collection_not_found: 400,
  transaction_not_found: 400,
  vector_not_found: 400,
} as const;
const searchErrors = { statusOf: { index_not_found: 400 }, errors: [400, 404, 500] } as const;

export const routes = {
  createCollection: {
    method: "POST",
    path: "/vectordb/collections",
    tag: "Collections",
    summary: "Create collection",
    body: collection.CreateCollection,
    status: 201,
    answer: collection.CollectionCreated,
    errors: [400, 409, 500],
  },
  listCollections: {
    method: "GET",
    path: "/vectordb/collections",
    tag: "Collections",
    summary: "List collections",
    status: 200,
    answer: collection.CollectionList,
    errors: [500],
  },
  loadedCollections: {
    method: "GET",
    path: "/vectordb/collections/loaded",
    tag: "Collections",
    summary: "Get loaded collections",
    status: 200,
    answer: Type.Array(Type.String()),
    errors: [500],
  },
  getCollection: {
    method: "GET",
    path: c,
    tag: "Collections",
    summary: "Get collection",
    status: 200,
    answer: collection.CollectionDetail,
    errors: [404, 500],
  },
  deleteCollection: {
    method: "DELETE",
    path: c,
    tag: "Collections",
    summary: "Delete collection",
    status: 204,
    statusOf: missingCollectionIs400,
    errors: [400, 500],
  },
  loadCollection: {
    method: "POST",
    path: `${c}/load`,
    tag: "Collections",
    summary: "Load collection into memory",
    status: 200,
    answer: collection.CollectionDetail,
    statusOf: missingCollectionIs400,
    errors: [400, 500],
  },
  unloadCollection: {
    method: "POST",
    path: `${c}/unload`,
    tag: "Collections",
    summary: "Unload collection from memory",
    status: 200,
    answer: Type.String(),
    statusOf: missingCollectionIs400,
    errors: [400, 500],
  },
  createDenseIndex: {
    method: "POST",
    path: `${c}/indexes/dense`,
    tag: "Indexes",
    summary: "Create dense index",
    body: index.DenseIndex,
    status: 201,
    answer: Empty,
    errors: [400, 404, 409, 500],
  },
  createSparseIndex: {
    method: "POST",
    path: `${c}/indexes/sparse`,
    tag: "Indexes",
    summary: "Create sparse index",
    body: index.SparseIndex,
    status: 201,
    answer: Empty,
    errors: [400, 404, 409, 500],
  },
  createTextIndex: {
    method: "POST",
    path: `${c}/indexes/tf-idf`,
    tag: "Indexes",
    summary: "Create TF-IDF/BM25 index",
    body: index.TextIndex,
    status: 201,
    answer: Empty,
    errors: [400, 404, 409, 500],
  },
  analyzeText: {
    method: "POST",
    path: `${c}/indexes/tf-idf/analyze`,
    tag: "Indexes",
    summary: "Show the terms that the TF-IDF/BM25 index makes of a text",
    body: index.AnalyzeText,
    status: 200,
    answer: index.TextAnalysis,
    errors: [400, 404, 500],
  },
  getIndexes: {
    method: "GET",
    path: `${c}/indexes`,
    tag: "Indexes",
    summary: "Get indexes",
    status: 200,
    answer: index.Indexes,
    errors: [404, 500],
  },
  measureRecall: {
    method: "GET",
    path: `${c}/indexes/dense/recall`,
    tag: "Indexes",
    summary: "Measure the recall of the dense index against exact search",
    query: {
      sample: "Vectors of the collection that are asked as queries, 1 to 10,000. Default 100.",
      top_k: "Results that are compared, 1 to 10,000. Default 10.",
      ef_search: "Candidates kept while searching. Default: as the index is defined.",
    },
    status: 200,
    answer: index.Recall,
    errors: [400, 404, 500],
  },
  deleteIndex: {
    method: "DELETE",
    path: `${c}/indexes/{index_type}`,
    tag: "Indexes",
    summary: "Delete index",
    status: 204,
    errors: [400, 404, 500],
  },
  searchDense: {
    method: "POST",
    path: `${c}/search/dense`,
    tag: "Search",
    summary: "Dense search",
    body: search.DenseSearch,
    status: 200,
    answer: search.SearchResponse,
    ...searchErrors,
  },
  searchBatchDense: {
    method: "POST",
    path: `${c}/search/batch-dense`,
    tag: "Search",
    summary: "Batch dense search",
    body: search.BatchDenseSearch,
    status: 200,
    answer: search.BatchSearchResponse,
    ...searchErrors,
  },
  searchSparse: {
    method: "POST",
    path: `${c}/search/sparse`,
    tag: "Search",
    summary: "Sparse search",
    body: search.SparseSearch,
    status: 200,
    answer: search.SearchResponse,
    ...searchErrors,
  },
  searchBatchSparse: {
    method: "POST",
    path: `${c}/search/batch-sparse`,
    tag: "Search",
    summary: "Batch sparse search",
    body: search.BatchSparseSearch,
    status: 200,
    answer: search.BatchSearchResponse,
    ...searchErrors,
  },
  searchText: {
    method: "POST",
    path: `${c}/search/tf-idf`,
    tag: "Search",
    summary: "TF-IDF/BM25 search",
    body: search.TextSearch,
    status: 200,
    answer: search.SearchResponse,
    ...searchErrors,
  },
  searchBatchText: {
    method: "POST",
    path: `${c}/search/batch-tf-idf`,
    tag: "Search",
    summary: "Batch TF-IDF/BM25 search",
    body: search.BatchTextSearch,
    status: 200,
    answer: search.BatchSearchResponse,
    ...searchErrors,
  },
  searchHybrid: {
    method: "POST",
    path: `${c}/search/hybrid`,
    tag: "Search",
    summary: "Hybrid search",
    body: search.HybridSearch,
    status: 200,
    answer: search.SearchResponse,
    ...searchErrors,
  },
  searchBatchHybrid: {
    method: "POST",
    path: `${c}/search/batch-hybrid`,
    tag: "Search",
    summary: "Batch hybrid search",
    body: search.BatchHybridSearch,
    status: 200,
    answer: search.BatchSearchResponse,
    ...searchErrors,
  },
  createTransaction: {
    method: "POST",
    path: `${c}/transactions`,
    tag: "Transactions",
    summary: "Create transaction",
    status: 200,
    answer: transaction.TransactionCreated,
    statusOf: missingCollectionIs400,
    errors: [400, 409, 500],
  },
  listTransactions: {
    method: "GET",
    path: `${c}/transactions`,
    tag: "Transactions",
    summary: "List open and recent transactions",
    status: 200,
    answer: transaction.TransactionList,
    statusOf: missingCollectionIs400,
    errors: [400, 500],
  },
  getTransactionStatus: {
    method: "GET",
    path: `${t}/status`,
    tag: "Transactions",
    summary: "Get transaction status",
    query: { format: "`flat` gives the flat form of older clients." },
    status: 200,
    answer: Type.Union([transaction.TransactionStatus, transaction.FlatTransactionStatus]),
    statusOf: missingCollectionIs400,
    errors: [400, 404, 500],
  },
  commitTransaction: {
    method: "POST",
    path: `${t}/commit`,
    tag: "Transactions",
    summary: "Commit transaction",
    status: 204,
    statusOf: missingIs400,
    errors: [400, 500],
  },
  abortTransaction: {
    method: "POST",
    path: `${t}/abort`,
    tag: "Transactions",
    summary: "Abort transaction",
    status: 204,
    statusOf: missingIs400,
    errors: [400, 500],
  },
  addVector: {
    method: "POST",
    path: `${t}/vectors`,
    tag: "Transactions",
    summary: "Add vector",
    body: vector.VectorInput,
    status: 200,
    answer: Empty,
    statusOf: missingIs400,
    errors: [400, 500],
  },
  upsertVectors: {
    method: "POST",
    path: `${t}/upsert`,
    tag: "Transactions",
    summary: "Upsert vectors",
    body: vector.UpsertVectors,
    status: 200,
    answer: Empty,
    statusOf: missingIs400,
    errors: [400, 500],
  },
  deleteVectorInTransaction: {
    method: "DELETE",
    path: `${t}/vectors/{vector_id}`,
    tag: "Transactions",
    summary: "Delete vector in transaction",
    status: 204,
    statusOf: missingIs400,
    errors: [400, 500],
  },
  vectorsByDocument: {
    method: "GET",
    path: `${c}/vectors`,
    tag: "Vectors",
    summary: "Query vectors by document id",
    query: { "!document_id": "Document whose vectors are wanted." },
    status: 200,
    answer: vector.VectorRecords,
    statusOf: missingCollectionIs400,
    errors: [400, 500],
  },
  getVector: {
    method: "GET",
    path: `${c}/vectors/{vector_id}`,
    tag: "Vectors",
    summary: "Get vector by id",
    status: 200,
    answer: vector.VectorRecord,
    statusOf: missingCollectionIs400,
    errors: [400, 404, 500],
  },
  vectorExists: {
    method: "HEAD",
    path: `${c}/vectors/{vector_id}`,
    tag: "Vectors",
    summary: "Check vector existence",
    status: 200,
    errors: [404, 500],
  },
  deleteVector: {
    method: "DELETE",
    path: `${c}/vectors/{vector_id}`,
    tag: "Vectors",
    summary: "Delete vector (the same as a streaming delete)",
    status: 200,
    answer: Empty,
    errors: [404, 500],
  },
  exportVectors: {
    method: "GET",
    path: `${c}/export`,
    tag: "Vectors",
    summary:
      "Export every vector of the current version, one record a line; header x-quiver-version names it",
    status: 200,
    answer: Type.String({ description: "Lines of JSON, each a vector record." }),
    mediaType: "application/x-ndjson",
    errors: [404, 500],
  },
  streamingUpsert: {
    method: "POST",
    path: `${c}/streaming/upsert`,
    tag: "Streaming",
    summary: "Streaming upsert",
    body: vector.UpsertVectors,
    status: 200,
    answer: Empty,
    errors: [400, 404, 500],
  },
  streamingDelete: {
    method: "DELETE",
    path: `${c}/streaming/delete/{vector_id}`,
    tag: "Streaming",
    summary: "Streaming delete",
    status: 204,
    errors: [404, 500],
  },
  streamingDeleteAlias: {
    method: "DELETE",
    path: `${c}/streaming/vectors/{vector_id}`,
    tag: "Streaming",
    summary: "Streaming delete (other path)",
    status: 204,
    errors: [404, 500],
  },
  listVersions: {
    method: "GET",
    path: `${c}/versions`,
    tag: "Versions",
    summary: "List versions",
    query: { limit: "Most versions wanted, 1 to 1,000.", before: "Only versions with a smaller number." },
    status: 200,
    answer: version.VersionList,
    errors: [404, 500],
  },
  currentVersion: {
    method: "GET",
    path: `${c}/versions/current`,
    tag: "Versions",
    summary: "Get current version",
    status: 200,
    answer: version.Version,
    errors: [400, 404, 500],
  },
  getVersion: {
    method: "GET",
    path: `${c}/versions/{version_hash}`,
    tag: "Versions",
    summary: "Get version by hash",
    status: 200,
    answer: version.Version,
    errors: [400, 404, 500],
  },
  createSession: {
    method: "POST",
    path: "/auth/create-session",
    tag: "Authentication",
    summary: "Create session",
    body: session.CreateSession,
    status: 200,
    answer: session.Session,
    errors: [400, 500],
  },
} as const satisfies Record<string, Route>;

export type RouteName = keyof typeof routes;
