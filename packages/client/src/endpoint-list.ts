// Which endpoints exist, where are they, when may a request to one be repeated, and what is the answer?
//
// Written by tools/endpoint-list.ts from the records of engine/operations, which say what each field means; not to be edited.

import type * as audit from "@quiverdb/protocol/shapes/audit";
import type * as check from "@quiverdb/protocol/shapes/check";
import type * as collection from "@quiverdb/protocol/shapes/collection";
import type * as common from "@quiverdb/protocol/shapes/common";
import type * as indexDefinition from "@quiverdb/protocol/shapes/index-definition";
import type * as key from "@quiverdb/protocol/shapes/key";
import type * as matching from "@quiverdb/protocol/shapes/matching";
import type * as search from "@quiverdb/protocol/shapes/search";
import type * as session from "@quiverdb/protocol/shapes/session";
import type * as snapshot from "@quiverdb/protocol/shapes/snapshot";
import type * as transaction from "@quiverdb/protocol/shapes/transaction";
import type * as vector from "@quiverdb/protocol/shapes/vector";
import type * as version from "@quiverdb/protocol/shapes/version";

export const endpoints = {
  createCollection: { method: "POST", path: "/vectordb/collections", repeat: "refused" },
  listCollections: { method: "GET", path: "/vectordb/collections", repeat: "always" },
  loadedCollections: { method: "GET", path: "/vectordb/collections/loaded", repeat: "always" },
  getCollection: { method: "GET", path: "/vectordb/collections/{collection_id}", repeat: "always" },
  patchCollection: { method: "PATCH", path: "/vectordb/collections/{collection_id}", repeat: "always" },
  copyCollection: { method: "POST", path: "/vectordb/collections/{collection_id}/copy", repeat: "refused" },
  mergeCollection: { method: "POST", path: "/vectordb/collections/{collection_id}/merge", repeat: "always" },
  listAliases: { method: "GET", path: "/vectordb/aliases", repeat: "always" },
  putAlias: { method: "PUT", path: "/vectordb/aliases/{alias}", repeat: "always" },
  deleteAlias: { method: "DELETE", path: "/vectordb/aliases/{alias}", repeat: "always", done: "alias_not_found" },
  deleteCollection: { method: "DELETE", path: "/vectordb/collections/{collection_id}", repeat: "always", done: "collection_not_found" },
  checkCollection: { method: "POST", path: "/vectordb/collections/{collection_id}/check", repeat: "always" },
  loadCollection: { method: "POST", path: "/vectordb/collections/{collection_id}/load", repeat: "always" },
  unloadCollection: { method: "POST", path: "/vectordb/collections/{collection_id}/unload", repeat: "always" },
  createDenseIndex: { method: "POST", path: "/vectordb/collections/{collection_id}/indexes/dense", repeat: "refused" },
  createSparseIndex: { method: "POST", path: "/vectordb/collections/{collection_id}/indexes/sparse", repeat: "refused" },
  createTextIndex: { method: "POST", path: "/vectordb/collections/{collection_id}/indexes/tf-idf", repeat: "refused" },
  analyzeText: { method: "POST", path: "/vectordb/collections/{collection_id}/indexes/tf-idf/analyze", repeat: "always" },
  getIndexes: { method: "GET", path: "/vectordb/collections/{collection_id}/indexes", repeat: "always" },
  measureRecall: { method: "GET", path: "/vectordb/collections/{collection_id}/indexes/dense/recall", repeat: "always" },
  deleteIndex: { method: "DELETE", path: "/vectordb/collections/{collection_id}/indexes/{index_type}", repeat: "always", done: "index_not_found" },
  createMetadataIndex: { method: "PUT", path: "/vectordb/collections/{collection_id}/metadata-indexes/{field}", repeat: "always" },
  getMetadataIndexes: { method: "GET", path: "/vectordb/collections/{collection_id}/metadata-indexes", repeat: "always" },
  deleteMetadataIndex: { method: "DELETE", path: "/vectordb/collections/{collection_id}/metadata-indexes/{field}", repeat: "always", done: "index_not_found" },
  searchDense: { method: "POST", path: "/vectordb/collections/{collection_id}/search/dense", repeat: "always", past: "body" },
  searchBatchDense: { method: "POST", path: "/vectordb/collections/{collection_id}/search/batch-dense", repeat: "always", past: "body" },
  searchSparse: { method: "POST", path: "/vectordb/collections/{collection_id}/search/sparse", repeat: "always", past: "body" },
  searchBatchSparse: { method: "POST", path: "/vectordb/collections/{collection_id}/search/batch-sparse", repeat: "always", past: "body" },
  searchText: { method: "POST", path: "/vectordb/collections/{collection_id}/search/tf-idf", repeat: "always", past: "body" },
  searchBatchText: { method: "POST", path: "/vectordb/collections/{collection_id}/search/batch-tf-idf", repeat: "always", past: "body" },
  searchHybrid: { method: "POST", path: "/vectordb/collections/{collection_id}/search/hybrid", repeat: "always", past: "body" },
  searchBatchHybrid: { method: "POST", path: "/vectordb/collections/{collection_id}/search/batch-hybrid", repeat: "always", past: "body" },
  recommend: { method: "POST", path: "/vectordb/collections/{collection_id}/search/recommend", repeat: "always", past: "body" },
  neighbors: { method: "GET", path: "/vectordb/collections/{collection_id}/vectors/{vector_id}/neighbors", repeat: "always", past: "query" },
  createTransaction: { method: "POST", path: "/vectordb/collections/{collection_id}/transactions", repeat: "refused" },
  listTransactions: { method: "GET", path: "/vectordb/collections/{collection_id}/transactions", repeat: "always" },
  getTransactionStatus: { method: "GET", path: "/vectordb/collections/{collection_id}/transactions/{transaction_id}/status", repeat: "always" },
  commitTransaction: { method: "POST", path: "/vectordb/collections/{collection_id}/transactions/{transaction_id}/commit", repeat: "always" },
  abortTransaction: { method: "POST", path: "/vectordb/collections/{collection_id}/transactions/{transaction_id}/abort", repeat: "always" },
  addVector: { method: "POST", path: "/vectordb/collections/{collection_id}/transactions/{transaction_id}/vectors", repeat: "always" },
  upsertVectors: { method: "POST", path: "/vectordb/collections/{collection_id}/transactions/{transaction_id}/upsert", repeat: "always" },
  deleteVectorInTransaction: { method: "DELETE", path: "/vectordb/collections/{collection_id}/transactions/{transaction_id}/vectors/{vector_id}", repeat: "always", done: "vector_not_found" },
  streamingUpsert: { method: "POST", path: "/vectordb/collections/{collection_id}/streaming/upsert", repeat: "always" },
  streamingDelete: { method: "DELETE", path: "/vectordb/collections/{collection_id}/streaming/delete/{vector_id}", repeat: "always", done: "vector_not_found" },
  streamingDeleteAlias: { method: "DELETE", path: "/vectordb/collections/{collection_id}/streaming/vectors/{vector_id}", repeat: "always", done: "vector_not_found" },
  countVectors: { method: "POST", path: "/vectordb/collections/{collection_id}/vectors/count", repeat: "always", past: "body" },
  facetVectors: { method: "POST", path: "/vectordb/collections/{collection_id}/vectors/facet", repeat: "always", past: "body" },
  scrollVectors: { method: "POST", path: "/vectordb/collections/{collection_id}/vectors/scroll", repeat: "always", past: "body" },
  fetchVectors: { method: "POST", path: "/vectordb/collections/{collection_id}/vectors/fetch", repeat: "always", past: "body" },
  deleteMatching: { method: "POST", path: "/vectordb/collections/{collection_id}/vectors/delete", repeat: "refused" },
  updateMatching: { method: "POST", path: "/vectordb/collections/{collection_id}/vectors/update", repeat: "refused" },
  patchVector: { method: "PATCH", path: "/vectordb/collections/{collection_id}/vectors/{vector_id}", repeat: "always" },
  vectorsByDocument: { method: "GET", path: "/vectordb/collections/{collection_id}/vectors", repeat: "always", past: "query" },
  getVector: { method: "GET", path: "/vectordb/collections/{collection_id}/vectors/{vector_id}", repeat: "always", past: "query" },
  vectorExists: { method: "HEAD", path: "/vectordb/collections/{collection_id}/vectors/{vector_id}", repeat: "always", past: "query" },
  vectorHistory: { method: "GET", path: "/vectordb/collections/{collection_id}/vectors/{vector_id}/history", repeat: "always" },
  deleteVector: { method: "DELETE", path: "/vectordb/collections/{collection_id}/vectors/{vector_id}", repeat: "always", done: "vector_not_found" },
  exportVectors: { method: "GET", path: "/vectordb/collections/{collection_id}/export", repeat: "always", past: "query" },
  listVersions: { method: "GET", path: "/vectordb/collections/{collection_id}/versions", repeat: "always" },
  currentVersion: { method: "GET", path: "/vectordb/collections/{collection_id}/versions/current", repeat: "always" },
  getVersion: { method: "GET", path: "/vectordb/collections/{collection_id}/versions/{version_hash}", repeat: "always" },
  putCurrentVersion: { method: "PUT", path: "/vectordb/collections/{collection_id}/versions/current", repeat: "refused" },
  putCurrentVersionByHash: { method: "PUT", path: "/vectordb/collections/{collection_id}/versions/current/{version_hash}", repeat: "refused" },
  restoreVersion: { method: "POST", path: "/vectordb/collections/{collection_id}/versions/{version}/restore", repeat: "refused" },
  diffVersions: { method: "GET", path: "/vectordb/collections/{collection_id}/versions/{version}/diff/{other}", repeat: "always" },
  readChanges: { method: "GET", path: "/vectordb/collections/{collection_id}/changes", repeat: "always" },
  putTag: { method: "PUT", path: "/vectordb/collections/{collection_id}/versions/tags/{tag}", repeat: "refused" },
  deleteTag: { method: "DELETE", path: "/vectordb/collections/{collection_id}/versions/tags/{tag}", repeat: "always", done: "tag_not_found" },
  createSnapshot: { method: "POST", path: "/vectordb/collections/{collection_id}/snapshots", repeat: "refused" },
  listSnapshots: { method: "GET", path: "/vectordb/collections/{collection_id}/snapshots", repeat: "always" },
  listAllSnapshots: { method: "GET", path: "/vectordb/snapshots", repeat: "always" },
  uploadSnapshot: { method: "POST", path: "/vectordb/snapshots", repeat: "refused" },
  checkSnapshots: { method: "POST", path: "/vectordb/collections/{collection_id}/snapshots/check", repeat: "always" },
  checkAllSnapshots: { method: "POST", path: "/vectordb/snapshots/check", repeat: "always" },
  getSnapshot: { method: "GET", path: "/vectordb/collections/{collection_id}/snapshots/{snapshot_id}", repeat: "always" },
  downloadSnapshot: { method: "GET", path: "/vectordb/collections/{collection_id}/snapshots/{snapshot_id}/download", repeat: "always" },
  deleteSnapshot: { method: "DELETE", path: "/vectordb/collections/{collection_id}/snapshots/{snapshot_id}", repeat: "always", done: "snapshot_not_found" },
  restoreCollection: { method: "POST", path: "/vectordb/collections/{collection_id}/restore", repeat: "refused" },
  createSession: { method: "POST", path: "/auth/create-session", repeat: "always" },
  createKey: { method: "POST", path: "/auth/keys", repeat: "refused" },
  listKeys: { method: "GET", path: "/auth/keys", repeat: "always" },
  revokeKey: { method: "DELETE", path: "/auth/keys/{key_id}", repeat: "always", done: "key_not_found" },
  readAudit: { method: "GET", path: "/auth/audit", repeat: "always" },
} as const;

export type Answers = {
  createCollection: collection.CollectionCreated;
  listCollections: collection.CollectionList;
  loadedCollections: collection.LoadedCollections;
  getCollection: collection.CollectionDetail;
  patchCollection: collection.CollectionDetail;
  copyCollection: snapshot.RestoredCollection;
  mergeCollection: collection.Merged;
  listAliases: collection.AliasList;
  putAlias: collection.Alias;
  deleteAlias: undefined;
  deleteCollection: undefined;
  checkCollection: check.CheckReport;
  loadCollection: collection.CollectionDetail;
  unloadCollection: collection.CollectionUnloaded;
  createDenseIndex: common.Empty;
  createSparseIndex: common.Empty;
  createTextIndex: common.Empty;
  analyzeText: indexDefinition.TextAnalysis;
  getIndexes: indexDefinition.Indexes;
  measureRecall: indexDefinition.Recall;
  deleteIndex: undefined;
  createMetadataIndex: common.Empty;
  getMetadataIndexes: indexDefinition.MetadataIndexes;
  deleteMetadataIndex: undefined;
  searchDense: search.SearchResponse;
  searchBatchDense: search.BatchSearchResponse;
  searchSparse: search.SearchResponse;
  searchBatchSparse: search.BatchSearchResponse;
  searchText: search.SearchResponse;
  searchBatchText: search.BatchSearchResponse;
  searchHybrid: search.SearchResponse;
  searchBatchHybrid: search.BatchSearchResponse;
  recommend: search.SearchResponse;
  neighbors: search.SearchResponse;
  createTransaction: transaction.TransactionCreated;
  listTransactions: transaction.TransactionList;
  getTransactionStatus: transaction.AnyTransactionStatus;
  commitTransaction: undefined;
  abortTransaction: undefined;
  addVector: common.Empty;
  upsertVectors: common.Empty;
  deleteVectorInTransaction: undefined;
  streamingUpsert: common.Empty;
  streamingDelete: undefined;
  streamingDeleteAlias: undefined;
  countVectors: matching.Count;
  facetVectors: matching.Facets;
  scrollVectors: matching.ScrollPage;
  fetchVectors: matching.FetchedVectors;
  deleteMatching: matching.Deleted;
  updateMatching: matching.Updated;
  patchVector: common.Empty;
  vectorsByDocument: vector.VectorRecords;
  getVector: vector.VectorRecord;
  vectorExists: undefined;
  vectorHistory: version.RecordHistory;
  deleteVector: common.Empty;
  exportVectors: vector.ExportedRecords;
  listVersions: version.VersionList;
  currentVersion: version.Version;
  getVersion: version.Version;
  putCurrentVersion: version.Version;
  putCurrentVersionByHash: version.Version;
  restoreVersion: version.Version;
  diffVersions: version.DiffLines;
  readChanges: version.ChangesPage;
  putTag: version.Tag;
  deleteTag: undefined;
  createSnapshot: snapshot.Snapshot;
  listSnapshots: snapshot.SnapshotList;
  listAllSnapshots: snapshot.SnapshotList;
  uploadSnapshot: snapshot.Snapshot;
  checkSnapshots: check.CheckReport;
  checkAllSnapshots: check.CheckReport;
  getSnapshot: snapshot.Snapshot;
  downloadSnapshot: snapshot.SnapshotBytes;
  deleteSnapshot: undefined;
  restoreCollection: snapshot.RestoredCollection;
  createSession: session.Session;
  createKey: key.KeyCreated;
  listKeys: key.KeyList;
  revokeKey: undefined;
  readAudit: audit.AuditList;
};
