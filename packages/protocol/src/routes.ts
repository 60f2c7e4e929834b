// What does each endpoint take and give, and who may call it?
//
// endpoints.ts lists them. The server registers exactly this list, the client has one method for each entry, and the OpenAPI document
// and several tests are generated from it. `not_found` gives the status of "no such ..." if it is not 404: the same condition has different codes on different
// endpoints (service-interface, "Errors").

import type { TSchema } from "typebox";
import Type from "typebox";
import { type Endpoint, endpoints } from "./endpoints.ts";
import type { ErrorCode } from "./errors.ts";
import * as audit from "./shapes/audit.ts";
import * as check from "./shapes/check.ts";
import * as collection from "./shapes/collection.ts";
import { Empty } from "./shapes/common.ts";
import * as index from "./shapes/index-definition.ts";
import type { Role } from "./shapes/key.ts";
import * as key from "./shapes/key.ts";
import * as matching from "./shapes/matching.ts";
import * as search from "./shapes/search.ts";
import * as session from "./shapes/session.ts";
import * as snapshot from "./shapes/snapshot.ts";
import * as transaction from "./shapes/transaction.ts";
import * as vector from "./shapes/vector.ts";
import * as version from "./shapes/version.ts";

export type Route = Pick<Endpoint, "method" | "path"> & {
  /** The lowest role that may call it; `anyone` needs no key. */
  readonly role: Role | "anyone";
  /**
   * Where the route names collections, if not as `{collection_id}` in the path: in the body's `name`, or in the response, from which the
   * handler removes what the key may not see. A route without this field and without such a path is closed to keys that are limited to
   * collections.
   */
  readonly collections?: "body.name" | "answer";
  /**
   * What it does for a key with a filter. `filtered`: its answer depends on no records but those that match, and it changes no others.
   * `harmless`: it concerns no records. Absent: it is closed to such keys, since it tells of all records or changes what others use
   * (docs/decisions/keys-with-filters.md).
   */
  readonly rows?: "filtered" | "harmless";
  /**
   * Present if the audit log records the request: changes of keys, collections, indexes and snapshots. The path parameters are always
   * recorded, and these fields of the body (`a.b` is the field b of a). None may be a secret.
   */
  readonly audited?: readonly string[];
  readonly tag: string;
  readonly summary: string;
  readonly body?: TSchema;
  /** The field of the body that is a dense vector, if it has one of its own. */
  readonly vectorField?: string;
  /** The body `{"vectors": [...]}` can also be lines of JSON or MessagePack, with the records alone. */
  readonly bulk?: true;
  /** Query parameters, all strings on the wire: name -> description. A leading `!` marks a required one. */
  readonly query?: Readonly<Record<string, string>>;
  readonly status: 200 | 201 | 202 | 204;
  /** Absent if the route has no body. */
  readonly answer?: TSchema;
  /** Absent: application/json. */
  readonly mediaType?: "application/x-ndjson" | "application/octet-stream";
  /** The body is a file (application/octet-stream), stored as it arrives; only the disk limits its size. */
  readonly upload?: true;
  /** Codes whose status on this route differs from the error table. */
  readonly statusOf?: Partial<Record<ErrorCode, number>>;
  /** Error statuses that the contract lists for the route, for the API reference. */
  readonly errors: readonly number[];
};

const missingCollectionIs400 = { collection_not_found: 400 } as const;
const missingIs400 = {
  collection_not_found: 400,
  transaction_not_found: 400,
  vector_not_found: 400,
} as const;
const searchErrors = { statusOf: { index_not_found: 400 }, errors: [400, 404, 500] } as const;

/** How a field of a body is written in a query string, by its type. */
const textForms: Readonly<Record<string, string>> = {
  integer: "An integer.",
  number: "A number.",
  boolean: "`true` or `false`.",
  array: "Words with commas between.",
  object: "JSON, percent-encoded.",
};

/** The fields of a shape as query parameters. */
function queryOf(shape: { readonly properties: Readonly<Record<string, unknown>> }): Record<string, string> {
  const fields = Object.entries(shape.properties) as [string, QueryField][];
  return Object.fromEntries(
    fields.map(([name, { type, description, default: usual }]) => {
      const parts = [description, textForms[valueType(type)], usual !== undefined && `Default: ${usual}.`];
      return [name, parts.filter(Boolean).join(" ")];
    }),
  );
}

/** The part of the schema of a query parameter that is used here and by the server, which reads it (request/query.ts). */
export type QueryField = {
  /** Absent: any JSON. */
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly default?: unknown;
  /** Of an array. */
  readonly items?: { readonly enum: readonly string[] };
};

/** The type of a field's values: that beside null. */
export const valueType = (type: QueryField["type"]): string =>
  [type ?? "object"].flat().find((each) => each !== "null") as string;

const descriptions = {
  createCollection: {
    role: "write",
    collections: "body.name",
    audited: [
      "name",
      "dense_vector.enabled",
      "dense_vector.dimension",
      "dense_vector.auto_create_index",
      "sparse_vector.enabled",
      "sparse_vector.auto_create_index",
      "tf_idf_options.enabled",
      "store_raw_text",
      "config.max_vectors",
      "config.replication_factor",
      "config.memory_budget_bytes",
    ],
    tag: "Collections",
    summary: "Create collection",
    body: collection.CreateCollection,
    status: 201,
    answer: collection.CollectionCreated,
    errors: [400, 409, 500],
  },
  listCollections: {
    role: "read",
    rows: "harmless",
    collections: "answer",
    tag: "Collections",
    summary: "List collections",
    status: 200,
    answer: collection.CollectionList,
    errors: [500],
  },
  loadedCollections: {
    role: "read",
    rows: "harmless",
    collections: "answer",
    tag: "Collections",
    summary: "Get loaded collections",
    status: 200,
    answer: Type.Array(Type.String()),
    errors: [500],
  },
  getCollection: {
    role: "read",
    rows: "filtered",
    tag: "Collections",
    summary: "Get collection",
    status: 200,
    answer: collection.CollectionDetail,
    errors: [404, 500],
  },
  deleteCollection: {
    role: "admin",
    audited: [],
    tag: "Collections",
    summary: "Delete collection",
    status: 204,
    statusOf: missingCollectionIs400,
    errors: [400, 500],
  },
  checkCollection: {
    role: "admin",
    tag: "Collections",
    summary: "Check stored data and indexes",
    status: 200,
    answer: check.CheckReport,
    errors: [404, 500, 503],
  },
  loadCollection: {
    role: "write",
    tag: "Collections",
    summary: "Load collection into memory",
    status: 200,
    answer: collection.CollectionDetail,
    statusOf: missingCollectionIs400,
    errors: [400, 500],
  },
  unloadCollection: {
    role: "write",
    tag: "Collections",
    summary: "Unload collection from memory",
    status: 200,
    answer: Type.String(),
    statusOf: missingCollectionIs400,
    errors: [400, 500],
  },
  createDenseIndex: {
    role: "write",
    audited: ["name", "distance_metric_type", "quantization.type", "quantization.properties.data_type"],
    tag: "Indexes",
    summary: "Create dense index",
    body: index.CreateDenseIndex,
    status: 201,
    answer: Empty,
    errors: [400, 404, 409, 500],
  },
  createSparseIndex: {
    role: "write",
    audited: ["name", "quantization"],
    tag: "Indexes",
    summary: "Create sparse index",
    body: index.CreateSparseIndex,
    status: 201,
    answer: Empty,
    errors: [400, 404, 409, 500],
  },
  createTextIndex: {
    role: "write",
    audited: ["name", "language"],
    tag: "Indexes",
    summary: "Create TF-IDF/BM25 index",
    body: index.CreateTextIndex,
    status: 201,
    answer: Empty,
    errors: [400, 404, 409, 500],
  },
  analyzeText: {
    role: "read",
    rows: "harmless",
    tag: "Indexes",
    summary: "Show the terms that the TF-IDF/BM25 index produces from a text",
    body: index.AnalyzeText,
    status: 200,
    answer: index.TextAnalysis,
    errors: [400, 404, 500],
  },
  getIndexes: {
    role: "read",
    tag: "Indexes",
    summary: "Get indexes",
    status: 200,
    answer: index.Indexes,
    errors: [404, 500],
  },
  measureRecall: {
    role: "read",
    tag: "Indexes",
    summary: "Measure the recall of the dense index against exact search",
    query: {
      sample: "Vectors of the collection that are used as queries, 1 to 10,000. Default 100.",
      top_k: "Results compared per query, 1 to 10,000. Default 10.",
      ef_search: "Beam width of the searches. Default: that of the index.",
    },
    status: 200,
    answer: index.Recall,
    errors: [400, 404, 500],
  },
  deleteIndex: {
    role: "write",
    audited: [],
    tag: "Indexes",
    summary: "Delete index",
    status: 204,
    errors: [400, 404, 500],
  },
  createMetadataIndex: {
    role: "write",
    audited: ["type"],
    tag: "Indexes",
    summary: "Declare the type of a field of the metadata, and index it in the background",
    body: index.MetadataIndex,
    status: 202,
    answer: Empty,
    errors: [400, 404, 409, 500],
  },
  getMetadataIndexes: {
    role: "read",
    tag: "Indexes",
    summary: "Get the metadata indexes with their status",
    status: 200,
    answer: index.MetadataIndexes,
    errors: [404, 500],
  },
  deleteMetadataIndex: {
    role: "write",
    audited: [],
    tag: "Indexes",
    summary: "Delete a metadata index; the metadata stays",
    status: 204,
    errors: [400, 404, 500],
  },
  searchDense: {
    role: "read",
    rows: "filtered",
    tag: "Search",
    summary: "Dense search",
    body: search.DenseSearch,
    vectorField: "query_vector",
    status: 200,
    answer: search.SearchResponse,
    ...searchErrors,
  },
  searchBatchDense: {
    role: "read",
    rows: "filtered",
    tag: "Search",
    summary: "Batch dense search",
    body: search.BatchDenseSearch,
    status: 200,
    answer: search.BatchSearchResponse,
    ...searchErrors,
  },
  searchSparse: {
    role: "read",
    rows: "filtered",
    tag: "Search",
    summary: "Sparse search",
    body: search.SparseSearch,
    status: 200,
    answer: search.SearchResponse,
    ...searchErrors,
  },
  searchBatchSparse: {
    role: "read",
    rows: "filtered",
    tag: "Search",
    summary: "Batch sparse search",
    body: search.BatchSparseSearch,
    status: 200,
    answer: search.BatchSearchResponse,
    ...searchErrors,
  },
  searchText: {
    role: "read",
    rows: "filtered",
    tag: "Search",
    summary: "TF-IDF/BM25 search",
    body: search.TextSearch,
    status: 200,
    answer: search.SearchResponse,
    ...searchErrors,
  },
  searchBatchText: {
    role: "read",
    rows: "filtered",
    tag: "Search",
    summary: "Batch TF-IDF/BM25 search",
    body: search.BatchTextSearch,
    status: 200,
    answer: search.BatchSearchResponse,
    ...searchErrors,
  },
  searchHybrid: {
    role: "read",
    rows: "filtered",
    tag: "Search",
    summary: "Hybrid search",
    body: search.HybridSearch,
    vectorField: "query_vector",
    status: 200,
    answer: search.SearchResponse,
    ...searchErrors,
  },
  searchBatchHybrid: {
    role: "read",
    rows: "filtered",
    tag: "Search",
    summary: "Batch hybrid search",
    body: search.BatchHybridSearch,
    status: 200,
    answer: search.BatchSearchResponse,
    ...searchErrors,
  },
  recommend: {
    role: "read",
    rows: "filtered",
    tag: "Search",
    summary: "Search by examples: records or vectors that results should be like, or unlike",
    body: search.Recommend,
    status: 200,
    answer: search.SearchResponse,
    ...searchErrors,
  },
  neighbors: {
    role: "read",
    rows: "filtered",
    tag: "Search",
    summary: "Get the records that are nearest to a record by their dense vectors, without itself",
    query: queryOf(search.Neighbors),
    status: 200,
    answer: search.SearchResponse,
    ...searchErrors,
  },
  createTransaction: {
    role: "write",
    rows: "filtered",
    tag: "Transactions",
    summary: "Create transaction",
    status: 200,
    answer: transaction.TransactionCreated,
    statusOf: missingCollectionIs400,
    errors: [400, 409, 500],
  },
  listTransactions: {
    role: "read",
    rows: "filtered",
    tag: "Transactions",
    summary: "List open and recent transactions",
    status: 200,
    answer: transaction.TransactionList,
    statusOf: missingCollectionIs400,
    errors: [400, 500],
  },
  getTransactionStatus: {
    role: "read",
    rows: "filtered",
    tag: "Transactions",
    summary: "Get transaction status",
    query: { format: "`flat` returns the flat form that older clients expect." },
    status: 200,
    answer: Type.Union([transaction.TransactionStatus, transaction.FlatTransactionStatus]),
    statusOf: missingCollectionIs400,
    errors: [400, 404, 500],
  },
  commitTransaction: {
    role: "write",
    rows: "filtered",
    tag: "Transactions",
    summary: "Commit transaction",
    status: 204,
    statusOf: missingIs400,
    errors: [400, 500],
  },
  abortTransaction: {
    role: "write",
    rows: "filtered",
    tag: "Transactions",
    summary: "Abort transaction",
    status: 204,
    statusOf: missingIs400,
    errors: [400, 500],
  },
  addVector: {
    role: "write",
    rows: "filtered",
    tag: "Transactions",
    summary: "Add vector",
    body: vector.VectorInput,
    status: 200,
    answer: Empty,
    statusOf: missingIs400,
    errors: [400, 500],
  },
  upsertVectors: {
    role: "write",
    rows: "filtered",
    tag: "Transactions",
    summary: "Upsert vectors",
    body: vector.UpsertVectors,
    bulk: true,
    status: 200,
    answer: Empty,
    statusOf: missingIs400,
    errors: [400, 500],
  },
  deleteVectorInTransaction: {
    role: "write",
    rows: "filtered",
    tag: "Transactions",
    summary: "Delete vector in transaction",
    status: 204,
    statusOf: missingIs400,
    errors: [400, 500],
  },
  countVectors: {
    role: "read",
    rows: "filtered",
    tag: "Vectors",
    summary: "Count the vectors that match a filter",
    body: matching.CountMatching,
    status: 200,
    answer: matching.Count,
    errors: [400, 404, 500],
  },
  facetVectors: {
    role: "read",
    rows: "filtered",
    tag: "Vectors",
    summary: "Count the values of a field among the vectors that match a filter",
    body: matching.FacetVectors,
    status: 200,
    answer: matching.Facets,
    errors: [400, 404, 500],
  },
  scrollVectors: {
    role: "read",
    rows: "filtered",
    tag: "Vectors",
    summary: "Read the vectors that match a filter page by page",
    body: matching.ScrollVectors,
    status: 200,
    answer: matching.ScrollPage,
    statusOf: { index_not_found: 400 },
    errors: [400, 404, 500],
  },
  fetchVectors: {
    role: "read",
    rows: "filtered",
    tag: "Vectors",
    summary: "Get vectors by their ids",
    body: matching.FetchVectors,
    status: 200,
    answer: matching.FetchedVectors,
    errors: [400, 404, 500],
  },
  deleteMatching: {
    role: "write",
    rows: "filtered",
    tag: "Vectors",
    summary: "Delete the vectors that match a filter, as one version",
    body: matching.DeleteMatching,
    status: 200,
    answer: matching.Deleted,
    errors: [400, 404, 500],
  },
  updateMatching: {
    role: "write",
    rows: "filtered",
    tag: "Vectors",
    summary: "Merge a patch into the metadata of the vectors that match a filter, as one version",
    body: matching.UpdateMatching,
    status: 200,
    answer: matching.Updated,
    errors: [400, 404, 500],
  },
  patchVector: {
    role: "write",
    rows: "filtered",
    tag: "Vectors",
    summary: "Merge a patch into the metadata of a vector",
    body: matching.PatchMetadata,
    status: 200,
    answer: Empty,
    errors: [400, 404, 500],
  },
  vectorsByDocument: {
    role: "read",
    rows: "filtered",
    tag: "Vectors",
    summary: "Query vectors by document id",
    query: { "!document_id": "Id of the document." },
    status: 200,
    answer: vector.VectorRecords,
    statusOf: missingCollectionIs400,
    errors: [400, 500],
  },
  getVector: {
    role: "read",
    rows: "filtered",
    tag: "Vectors",
    summary: "Get vector by id",
    status: 200,
    answer: vector.VectorRecord,
    statusOf: missingCollectionIs400,
    errors: [400, 404, 500],
  },
  vectorExists: {
    role: "read",
    rows: "filtered",
    tag: "Vectors",
    summary: "Check vector existence",
    status: 200,
    errors: [404, 500],
  },
  deleteVector: {
    role: "write",
    rows: "filtered",
    tag: "Vectors",
    summary: "Delete vector (the same as a streaming delete)",
    status: 200,
    answer: Empty,
    errors: [404, 500],
  },
  exportVectors: {
    role: "read",
    rows: "filtered",
    tag: "Vectors",
    summary:
      "Export every vector of the current version, one record per line; header x-quiver-version names the version",
    query: { filter: 'Exports only the records that satisfy this filter, as JSON: {"color": "red"}.' },
    status: 200,
    answer: Type.String({ description: "One JSON vector record per line." }),
    mediaType: "application/x-ndjson",
    errors: [400, 404, 500],
  },
  streamingUpsert: {
    role: "write",
    rows: "filtered",
    tag: "Streaming",
    summary: "Streaming upsert",
    body: vector.UpsertVectors,
    bulk: true,
    status: 200,
    answer: Empty,
    errors: [400, 404, 500],
  },
  streamingDelete: {
    role: "write",
    rows: "filtered",
    tag: "Streaming",
    summary: "Streaming delete",
    status: 204,
    errors: [404, 500],
  },
  streamingDeleteAlias: {
    role: "write",
    rows: "filtered",
    tag: "Streaming",
    summary: "Streaming delete (alternative path)",
    status: 204,
    errors: [404, 500],
  },
  listVersions: {
    role: "read",
    tag: "Versions",
    summary: "List versions",
    query: {
      limit: "Maximum number of versions to return, 1 to 1,000.",
      before: "Return only versions with a smaller number.",
    },
    status: 200,
    answer: version.VersionList,
    errors: [404, 500],
  },
  currentVersion: {
    role: "read",
    tag: "Versions",
    summary: "Get current version",
    status: 200,
    answer: version.Version,
    errors: [400, 404, 500],
  },
  getVersion: {
    role: "read",
    tag: "Versions",
    summary: "Get version by hash",
    status: 200,
    answer: version.Version,
    errors: [400, 404, 500],
  },
  createSnapshot: {
    role: "write",
    audited: ["since_version", "since_hash"],
    tag: "Snapshots",
    summary:
      "Create a snapshot of the current version, full or incremental, while writes and searches continue",
    body: snapshot.CreateSnapshot,
    status: 201,
    answer: snapshot.Snapshot,
    errors: [400, 404, 500, 507],
  },
  listSnapshots: {
    role: "read",
    tag: "Snapshots",
    summary: "List the snapshots of a collection, including a deleted one",
    status: 200,
    answer: snapshot.SnapshotList,
    errors: [404, 500],
  },
  listAllSnapshots: {
    role: "admin",
    tag: "Snapshots",
    summary: "List all snapshots",
    status: 200,
    answer: snapshot.SnapshotList,
    errors: [500],
  },
  uploadSnapshot: {
    role: "admin",
    audited: [],
    tag: "Snapshots",
    summary: "Upload a snapshot file; it is verified and listed under the collection that it was taken from",
    upload: true,
    status: 201,
    answer: snapshot.Snapshot,
    errors: [400, 415, 500, 507],
  },
  checkSnapshots: {
    role: "admin",
    tag: "Snapshots",
    summary: "Check the snapshot files of a collection, including a deleted one",
    status: 200,
    answer: check.CheckReport,
    errors: [404, 500, 503],
  },
  checkAllSnapshots: {
    role: "admin",
    tag: "Snapshots",
    summary: "Check all snapshot files, and any other files in their directory",
    status: 200,
    answer: check.CheckReport,
    errors: [500, 503],
  },
  getSnapshot: {
    role: "read",
    tag: "Snapshots",
    summary: "Get snapshot",
    status: 200,
    answer: snapshot.Snapshot,
    errors: [404, 500],
  },
  downloadSnapshot: {
    role: "read",
    tag: "Snapshots",
    summary: "Download a snapshot file; supports Range, and header x-quiver-sha256 has its SHA-256",
    status: 200,
    answer: Type.String({ description: "The file; its format is described in docs/backup.md." }),
    mediaType: "application/octet-stream",
    errors: [404, 416, 500],
  },
  deleteSnapshot: {
    role: "admin",
    audited: [],
    tag: "Snapshots",
    summary: "Delete snapshot",
    status: 204,
    errors: [404, 500],
  },
  restoreCollection: {
    role: "admin",
    audited: ["snapshots", "overwrite"],
    tag: "Snapshots",
    summary: "Restore snapshots as a collection of this name, new or replaced in one step",
    body: snapshot.RestoreCollection,
    status: 201,
    answer: snapshot.RestoredCollection,
    errors: [400, 404, 409, 500, 507],
  },
  createSession: {
    role: "anyone",
    rows: "harmless",
    tag: "Authentication",
    summary: "Create session",
    body: session.CreateSession,
    status: 200,
    answer: session.Session,
    errors: [400, 500],
  },
  createKey: {
    role: "admin",
    audited: ["name", "role", "collections", "filter", "expires_at"],
    tag: "Authentication",
    summary: "Create API key",
    body: key.CreateKey,
    status: 201,
    answer: key.KeyCreated,
    errors: [400, 500],
  },
  listKeys: {
    role: "admin",
    tag: "Authentication",
    summary: "List API keys",
    status: 200,
    answer: key.KeyList,
    errors: [500],
  },
  revokeKey: {
    role: "admin",
    audited: [],
    tag: "Authentication",
    summary: "Revoke API key",
    status: 204,
    errors: [404, 500],
  },
  readAudit: {
    role: "admin",
    tag: "Authentication",
    summary: "Read the audit log, newest entries first",
    query: { limit: "Maximum number of entries to return, 1 to 1,000. Default 100." },
    status: 200,
    answer: audit.AuditList,
    errors: [400, 500],
  },
} as const satisfies Record<keyof typeof endpoints, Omit<Route, keyof Endpoint>>;

export type RouteName = keyof typeof descriptions;

/** All endpoints, each with its description. */
export const routes = Object.fromEntries(
  Object.entries(descriptions).map(([name, route]) => [name, { ...endpoints[name as RouteName], ...route }]),
) as unknown as { readonly [R in RouteName]: (typeof endpoints)[R] & (typeof descriptions)[R] };
