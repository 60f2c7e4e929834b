// Which endpoints exist, where are they, and when may a request to one be repeated?
//
// routes.ts describes each of them. This table is apart from it because the client runs in browsers without the schemas.
//
// A request without a response may or may not have been executed. Each entry defines what follows:
//
//   always    Executing it twice leaves the same state as once, so it is sent again.
//   refused   It is sent again only if the server certainly did not execute it: the connection was refused, or
//             the status says so (429, 503). Create requests are of this kind: after a lost response the second
//             request would get 409, and it would be unknown who created the collection, index or transaction.
//
// `done` is the error code of a repeated request that shows that the first one was executed: a delete that finds nothing the second time
// has succeeded the first time.

import type { ErrorCode } from "./errors.ts";

export type Repeat = "always" | "refused";

export type Endpoint = {
  readonly method: "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Path with `{name}` for parameters. */
  readonly path: string;
  readonly repeat: Repeat;
  readonly done?: ErrorCode;
};

const collection = "/vectordb/collections/{collection_id}";
const transaction = `${collection}/transactions/{transaction_id}` as const;

export const endpoints = {
  createCollection: { method: "POST", path: "/vectordb/collections", repeat: "refused" },
  listCollections: { method: "GET", path: "/vectordb/collections", repeat: "always" },
  loadedCollections: { method: "GET", path: "/vectordb/collections/loaded", repeat: "always" },
  getCollection: { method: "GET", path: collection, repeat: "always" },
  deleteCollection: { method: "DELETE", path: collection, repeat: "always", done: "collection_not_found" },
  checkCollection: { method: "POST", path: `${collection}/check`, repeat: "always" },
  loadCollection: { method: "POST", path: `${collection}/load`, repeat: "always" },
  unloadCollection: { method: "POST", path: `${collection}/unload`, repeat: "always" },

  createDenseIndex: { method: "POST", path: `${collection}/indexes/dense`, repeat: "refused" },
  createSparseIndex: { method: "POST", path: `${collection}/indexes/sparse`, repeat: "refused" },
  createTextIndex: { method: "POST", path: `${collection}/indexes/tf-idf`, repeat: "refused" },
  analyzeText: { method: "POST", path: `${collection}/indexes/tf-idf/analyze`, repeat: "always" },
  getIndexes: { method: "GET", path: `${collection}/indexes`, repeat: "always" },
  measureRecall: { method: "GET", path: `${collection}/indexes/dense/recall`, repeat: "always" },
  deleteIndex: {
    method: "DELETE",
    path: `${collection}/indexes/{index_type}`,
    repeat: "always",
    done: "index_not_found",
  },

  createMetadataIndex: { method: "PUT", path: `${collection}/metadata-indexes/{field}`, repeat: "always" },
  getMetadataIndexes: { method: "GET", path: `${collection}/metadata-indexes`, repeat: "always" },
  deleteMetadataIndex: {
    method: "DELETE",
    path: `${collection}/metadata-indexes/{field}`,
    repeat: "always",
    done: "index_not_found",
  },

  searchDense: { method: "POST", path: `${collection}/search/dense`, repeat: "always" },
  searchBatchDense: { method: "POST", path: `${collection}/search/batch-dense`, repeat: "always" },
  searchSparse: { method: "POST", path: `${collection}/search/sparse`, repeat: "always" },
  searchBatchSparse: { method: "POST", path: `${collection}/search/batch-sparse`, repeat: "always" },
  searchText: { method: "POST", path: `${collection}/search/tf-idf`, repeat: "always" },
  searchBatchText: { method: "POST", path: `${collection}/search/batch-tf-idf`, repeat: "always" },
  searchHybrid: { method: "POST", path: `${collection}/search/hybrid`, repeat: "always" },
  searchBatchHybrid: { method: "POST", path: `${collection}/search/batch-hybrid`, repeat: "always" },
  recommend: { method: "POST", path: `${collection}/search/recommend`, repeat: "always" },
  neighbors: { method: "GET", path: `${collection}/vectors/{vector_id}/neighbors`, repeat: "always" },

  createTransaction: { method: "POST", path: `${collection}/transactions`, repeat: "refused" },
  listTransactions: { method: "GET", path: `${collection}/transactions`, repeat: "always" },
  getTransactionStatus: { method: "GET", path: `${transaction}/status`, repeat: "always" },
  // The client (transaction.ts) decides what a repeated commit or abort means if the transaction is no longer open.
  commitTransaction: { method: "POST", path: `${transaction}/commit`, repeat: "always" },
  abortTransaction: { method: "POST", path: `${transaction}/abort`, repeat: "always" },
  addVector: { method: "POST", path: `${transaction}/vectors`, repeat: "always" },
  upsertVectors: { method: "POST", path: `${transaction}/upsert`, repeat: "always" },
  deleteVectorInTransaction: {
    method: "DELETE",
    path: `${transaction}/vectors/{vector_id}`,
    repeat: "always",
    done: "vector_not_found",
  },

  countVectors: { method: "POST", path: `${collection}/vectors/count`, repeat: "always" },
  facetVectors: { method: "POST", path: `${collection}/vectors/facet`, repeat: "always" },
  scrollVectors: { method: "POST", path: `${collection}/vectors/scroll`, repeat: "always" },
  fetchVectors: { method: "POST", path: `${collection}/vectors/fetch`, repeat: "always" },
  // The count of a repeated request is that of the second time.
  deleteMatching: { method: "POST", path: `${collection}/vectors/delete`, repeat: "refused" },
  updateMatching: { method: "POST", path: `${collection}/vectors/update`, repeat: "refused" },
  patchVector: { method: "PATCH", path: `${collection}/vectors/{vector_id}`, repeat: "always" },

  vectorsByDocument: { method: "GET", path: `${collection}/vectors`, repeat: "always" },
  getVector: { method: "GET", path: `${collection}/vectors/{vector_id}`, repeat: "always" },
  vectorExists: { method: "HEAD", path: `${collection}/vectors/{vector_id}`, repeat: "always" },
  deleteVector: {
    method: "DELETE",
    path: `${collection}/vectors/{vector_id}`,
    repeat: "always",
    done: "vector_not_found",
  },

  // Last write wins by id. Between a lost response and the repeated request another writer may change the same id; the repeated request
  // then overwrites that change, just as a slower client would have done.
  streamingUpsert: { method: "POST", path: `${collection}/streaming/upsert`, repeat: "always" },
  streamingDelete: {
    method: "DELETE",
    path: `${collection}/streaming/delete/{vector_id}`,
    repeat: "always",
    done: "vector_not_found",
  },
  streamingDeleteAlias: {
    method: "DELETE",
    path: `${collection}/streaming/vectors/{vector_id}`,
    repeat: "always",
    done: "vector_not_found",
  },

  exportVectors: { method: "GET", path: `${collection}/export`, repeat: "always" },

  listVersions: { method: "GET", path: `${collection}/versions`, repeat: "always" },
  currentVersion: { method: "GET", path: `${collection}/versions/current`, repeat: "always" },
  getVersion: { method: "GET", path: `${collection}/versions/{version_hash}`, repeat: "always" },

  // A repeated request would create a second snapshot; a repeated restore is rejected or has the same effect.
  createSnapshot: { method: "POST", path: `${collection}/snapshots`, repeat: "refused" },
  listSnapshots: { method: "GET", path: `${collection}/snapshots`, repeat: "always" },
  listAllSnapshots: { method: "GET", path: "/vectordb/snapshots", repeat: "always" },
  uploadSnapshot: { method: "POST", path: "/vectordb/snapshots", repeat: "refused" },
  checkSnapshots: { method: "POST", path: `${collection}/snapshots/check`, repeat: "always" },
  checkAllSnapshots: { method: "POST", path: "/vectordb/snapshots/check", repeat: "always" },
  getSnapshot: { method: "GET", path: `${collection}/snapshots/{snapshot_id}`, repeat: "always" },
  downloadSnapshot: {
    method: "GET",
    path: `${collection}/snapshots/{snapshot_id}/download`,
    repeat: "always",
  },
  deleteSnapshot: {
    method: "DELETE",
    path: `${collection}/snapshots/{snapshot_id}`,
    repeat: "always",
    done: "snapshot_not_found",
  },
  restoreCollection: { method: "POST", path: `${collection}/restore`, repeat: "refused" },

  createSession: { method: "POST", path: "/auth/create-session", repeat: "always" },
  // After a lost response nobody has the key; it is listed, unused, and can be revoked.
  createKey: { method: "POST", path: "/auth/keys", repeat: "refused" },
  listKeys: { method: "GET", path: "/auth/keys", repeat: "always" },
  revokeKey: { method: "DELETE", path: "/auth/keys/{key_id}", repeat: "always", done: "key_not_found" },
  readAudit: { method: "GET", path: "/auth/audit", repeat: "always" },
} as const satisfies Record<string, Endpoint>;

/** Endpoints outside the route table, which need no key. */
export const healthEndpoints = {
  live: { method: "GET", path: "/health/live", repeat: "always" },
  ready: { method: "GET", path: "/health/ready", repeat: "always" },
} as const satisfies Record<string, Endpoint>;
