// What can a program do with an open database?
//
// The same three handles serve the REST server and a program that embeds the engine. Every method checks its
// input completely before it changes anything and throws `QuiverError` (see protocol/errors). A promise of a
// change resolves when the change is durable and visible to every later call.
//
// One file: it is the whole interface of the engine, and most of it is documentation.

import type { Readable } from "node:stream";
import type { CheckReport } from "@quiverdb/protocol/shapes/check";
import type {
  Alias,
  CollectionCreated,
  CollectionDetail,
  CollectionSummary,
  CreateCollection,
  MergeCollection,
  Merged,
} from "@quiverdb/protocol/shapes/collection";
import type { Filter } from "@quiverdb/protocol/shapes/filter";
import type { Includable } from "@quiverdb/protocol/shapes/include";
import type {
  AnalyzeText,
  Indexes,
  IndexKind,
  MetadataIndex,
  MetadataIndexes,
  NewIndexes,
  Recall,
  TextAnalysis,
} from "@quiverdb/protocol/shapes/index-definition";
import type * as matching from "@quiverdb/protocol/shapes/matching";
import type {
  CreateSnapshot,
  RestoreCollection,
  RestoredCollection,
  Snapshot,
  SnapshotList,
} from "@quiverdb/protocol/shapes/snapshot";
import type {
  FlatTransactionStatus,
  TransactionCreated,
  TransactionList,
  TransactionStatus,
} from "@quiverdb/protocol/shapes/transaction";
import type { VectorRecord } from "@quiverdb/protocol/shapes/vector";
import type { Tag, Version, VersionList } from "@quiverdb/protocol/shapes/version";
import type { Warning } from "@quiverdb/protocol/shapes/warning";
import type { CallOptions } from "../base/deadline.ts";
import type { HistoryPolicy, When } from "../collection/history.ts";
import type { IfRecord, VectorWrite } from "../collection/schema.ts";
import type { SearchAnswer, SearchKind, SearchRequest } from "../query/plan.ts";
import type { Calls, Handlers } from "../runtime/calls.ts";

export { release } from "../base/bytes.ts";
export type { Trace, TraceAttributes, TraceSpan } from "../base/deadline.ts";
export { type CallLimits, type CallOptions, type CancelSignal, Deadline } from "../base/deadline.ts";
export type { Account } from "../base/fair-queue.ts";
export { LevelQueue, levelOf } from "../base/fair-queue.ts";
export { arrived, scheduler, Task, turned } from "../base/scheduler.ts";
/** How a program that takes connections shares its event loop with searches and indexing. */
export { finishAtOnce, type Steps } from "../base/steps.ts";
export { checkFilterOfKey } from "../collection/key-filter.ts";
export { valueJson } from "../collection/reading.ts";
export { collectAtRest } from "../process/collect-garbage.ts";
export { resultJson } from "../query/result.ts";
export { CalledThread, Calls } from "../runtime/calls.ts";
export type { DatabaseLog, DatabaseOptions } from "./options.ts";
export type { HistoryPolicy, SearchAnswer, SearchKind, SearchRequest, VectorWrite, When };

/** A vector that was read. */
export type StoredVector = {
  /**
   * The record as objects. Numbers in `metadata` are JavaScript numbers.
   * @param include with these fields, the id and the document's alone; default: all
   */
  toRecord(include?: readonly Includable[] | null): VectorRecord;
  /** The record as JSON text with `metadata` exactly as it was written. */
  toJson(include?: readonly Includable[] | null): string;
};

/** Some records, where the next page begins (null: there are no more), and what is probably wrong with the filter. */
export type RecordPage = {
  readonly vectors: readonly StoredVector[];
  readonly next_cursor: string | null;
  readonly warnings?: Warning[];
};

/** What is sent line by line. Holds a state of the store until it is iterated to the end, left or released. */
export type LineExport<Line extends { toJson(): string } = { toJson(): string }> = Iterable<Line> & {
  readonly version: number;
  readonly count: number;
  release(): void;
};

/** All vectors of one version. */
export type VectorExport = LineExport<StoredVector>;

/** What an export selects. */
export type ExportMatching = { readonly filter?: Filter | null };

export interface Database {
  /**
   * Resolves when every loaded collection's indexes have caught up with its data, or have failed to (the failure is logged and returned by
   * their searches, while other collections work).
   */
  readonly recovered: Promise<void>;
  readonly isRecovered: boolean;
  createCollection(definition: CreateCollection, options?: CallOptions): Promise<CollectionCreated>;
  /** All collections, by name; damaged ones, which are not served, are marked. */
  listCollections(): CollectionSummary[];
  loadedCollections(): string[];
  /** @throws collection_not_found */
  collection(name: string): Collection;
  /**
   * The database as it is for a caller that sees only the records that match a filter, in every collection: others do not exist for it, and
   * it writes no others. @throws invalid_filter
   */
  restrictedTo(filter: Filter): RestrictedDatabase;
  /** Deletes the collection and frees its disk space. @throws collection_not_found, collection_has_aliases */
  deleteCollection(name: string, options?: CallOptions): Promise<void>;
  /** By name. */
  aliases(): Alias[];
  /**
   * Makes an alias another name of a collection, at once: a request sees the one or the other.
   * @throws collection_not_found, collection_already_exists
   */
  putAlias(alias: string, collection: string, options?: CallOptions): Promise<Alias>;
  /** @throws alias_not_found */
  deleteAlias(alias: string, options?: CallOptions): Promise<void>;
  /** @param told of the aliases, by name, whenever they have changed; the change is answered when it resolves */
  onAliases(told: (aliases: ReadonlyMap<string, string>) => Promise<void> | void): void;
  /** Backups of collections, as files in the data directory. */
  readonly snapshots: Snapshots;
  /**
   * Restores a collection from snapshots: a full one and incremental ones after it. It gets the version, hash, records, indexes and change
   * log of the last snapshot, and no transactions. All files are verified before anything is changed, and the collection is created or
   * replaced atomically.
   * @param reaches whether the caller may see a snapshot; all others count as missing. Default: all
   * @throws snapshot_not_found, snapshot_chain_broken, invalid_snapshot, collection_already_exists (without `overwrite`)
   */
  restoreCollection(
    name: string,
    request: RestoreCollection,
    reaches?: (snapshot: Snapshot) => boolean,
    options?: CallOptions,
  ): Promise<RestoredCollection>;
  /**
   * Makes a collection of a version of another one, with its indexes; it remembers its origin, and continues its versions.
   * @throws collection_not_found, collection_already_exists, version_gone, version_not_found, storage_full
   */
  copyCollection(name: string, when: When, as: string, options?: CallOptions): Promise<RestoredCollection>;
  /**
   * Takes over what a copy of a collection has changed since it was made, record by record, as one version.
   * @throws merge_conflict, invalid_request (it is no copy), version_gone (it has lost its origin)
   */
  mergeCollection(name: string, request: MergeCollection, options?: CallOptions): Promise<Merged>;
  statistics(): DatabaseStatistics;
  /** What the data directory takes on the disk; the files are looked at when it is called. */
  diskUse(): Promise<DiskUse>;
  /** For a server whose threads search in place, see threads/owner.ts. */
  readonly threads: ServingThreads;
  /** Sessions and the generated admin key live in the catalog. */
  readonly credentials: Credentials;
  /** Finishes accepted requests, stops all threads, closes the store. */
  close(): Promise<void>;
}

/** The threads of a server, from their owner's side; the other side is a `ThreadDatabase`. */
export interface ServingThreads {
  /**
   * Handlers for the calls of a thread.
   * @param slot from 1 to `readerThreads`
   * @param recheck called before a write is passed on; throws if who pays for it may not write any more
   */
  handlers(slot: number, recheck: (payer: string) => void): Handlers;
  /** A thread begins. @param calls to it, with these handlers */
  admit(slot: number, calls: Calls): void;
  /** A thread has ended; its slot is free. */
  abandon(slot: number): void;
}

/** A small durable map for the server's own data: the verifier of the admin key, sessions. Values are JSON. */
export interface Credentials {
  get(key: string): unknown;
  put(key: string, value: unknown): Promise<void>;
  /** Puts it if there is nothing yet. @returns what is there */
  putFirst(key: string, value: unknown): Promise<unknown>;
  /** Replaces what is there, on this node alone. */
  note(key: string, value: unknown): Promise<void>;
  delete(key: string): Promise<void>;
  /** @param told of each change, also of other nodes, when it is made here; `value`: undefined after a deletion */
  onChange(told: (key: string, value: unknown) => void | Promise<void>): void;
  entries(prefix: string): [key: string, value: unknown][];
}

/** A snapshot's file, to be read. */
export type SnapshotFile = {
  readonly snapshot: Snapshot;
  /**
   * Its bytes from `start` to `end` (exclusive). If all bytes are read, they are compared with its SHA-256; on a mismatch the stream fails
   * before the last byte.
   */
  stream(start: number, end: number): Readable;
};

export interface Snapshots {
  /**
   * Writes the current version of a collection to a file, while writes and searches continue.
   * @param request `since_version`: only the changes since then
   * @throws collection_not_found, version_not_kept, overloaded, storage_full
   */
  create(name: string, request?: CreateSnapshot): Promise<Snapshot>;
  /** The snapshots of a collection, including a deleted one. @throws collection_not_found if there is neither */
  list(name: string): SnapshotList;
  listAll(): SnapshotList;
  /** @throws snapshot_not_found, collection_not_found as `list` does */
  get(name: string, id: string): Snapshot;
  /** @throws snapshot_not_found; data_corrupted where the file is known to be damaged or missing */
  read(name: string, id: string): SnapshotFile;
  /** @throws snapshot_not_found */
  delete(name: string, id: string): void;
  /**
   * Reads the files of all snapshots completely, and reports missing, damaged and unknown files; `name`: only those of one collection.
   * Damaged ones are listed as such from then on.
   * @throws overloaded while another check runs; collection_not_found as `list` does
   */
  check(name?: string): Promise<CheckReport>;
  /** Takes a backup file in; it is listed when all of it is verified. @throws invalid_snapshot, storage_full */
  receive(source: AsyncIterable<Uint8Array>): Promise<Snapshot>;
}

/** Work in the background that fails, and is tried again until it is done. */
export type FailingTask = {
  /** In words: `indexing`, `building the dense index`. */
  task: string;
  message: string;
  /** Failures in a row. */
  attempts: number;
};

export type CollectionStatistics = {
  name: string;
  failing: FailingTask[];
  records: number;
  version: number;
  loaded: boolean;
  memoryBytes: number;
  /** Writes that wait for the indexes. */
  waitingWrites: number;
  /** Fraction 0 to 1 of the records that the indexes have applied; 1 without indexes. */
  indexProgress: number;
  openTransaction: boolean;
  /** The latest measurement of the dense index; undefined before the first one. */
  recall: { at10: number; itself: number; readsAll: boolean } | undefined;
};

export type DatabaseStatistics = {
  collections: CollectionStatistics[];
  /** Collections that are damaged and not served. */
  damaged: { name: string; message: string }[];
  /** What fails in the background, apart from that of single collections. */
  failing: FailingTask[];
  /** Why writes are refused until a restart, if they are: the writer thread has ended. */
  writerFailure: string | undefined;
  /** Durable commits since start, and how many requests they carried. */
  commits: number;
  commitRequests: number;
  writerQueueBytes: number;
  memory: MemoryUse;
};

/** Bytes on the disk. */
export type DiskUse = {
  /** Of the records, indexes and change log of each served collection. */
  readonly collections: readonly { readonly name: string; readonly bytes: number }[];
  readonly snapshotBytes: number;
  /** What can still be written. */
  readonly freeBytes: number;
};

/** What memory is taken; see process/memory.ts. */
export type MemoryUse = {
  /** Of loaded indexes, of those that are being built, and of writes in progress. */
  indexBytes: number;
  /** Of the process alone, without mapped files, since the database was opened. */
  processBytes: number;
  budgetBytes: number | undefined;
};

/** On what a write depends: it is refused where another version is current, or another version wrote the record. */
export type WriteCondition = { readonly if_version?: number | null; readonly if_match?: number | null };

export interface Collection {
  readonly name: string;
  describe(): Promise<CollectionDetail>;
  /** Continues in the background when its time is over. @throws memory_budget_exceeded, deadline_exceeded */
  load(options?: CallOptions): Promise<CollectionDetail>;
  unload(): Promise<void>;

  /**
   * The deadline of a write ends when the writer has it: it is then done and awaited.
   * @throws indexing_behind, memory_budget_exceeded, deadline_exceeded, version_changed, record_changed; nothing was changed
   */
  upsert(vectors: readonly VectorWrite[], options?: CallOptions, condition?: WriteCondition): Promise<void>;
  /** @throws vector_not_found, version_changed, record_changed */
  delete(id: string, options?: CallOptions, condition?: WriteCondition): Promise<void>;
  /** @throws vector_not_found */
  get(id: string): StoredVector;
  has(id: string): boolean;
  /** All vectors of a document, by id. */
  byDocument(documentId: string, options?: CallOptions): Promise<StoredVector[]>;
  /** Passes all vectors of a document, by id, to a callback, one by one, so that a large document need not be in memory. */
  eachOfDocument(
    documentId: string,
    take: (vector: StoredVector) => void,
    options?: CallOptions,
  ): Promise<void>;
  /** Every vector of the version that is current now, in the order in which they were written. */
  exportVectors(): VectorExport;
  /** Those of them that match a filter, which are found first. @throws invalid_filter, deadline_exceeded */
  exportMatching(request: ExportMatching, options?: CallOptions): Promise<VectorExport>;

  /** How many records match; without a filter all of them. */
  count(request?: matching.CountMatching, options?: CallOptions): Promise<matching.Count>;
  /** The values of a field, or of each of several, among the matching records, most frequent first. */
  facet(request: matching.FacetVectors, options?: CallOptions): Promise<matching.Facets>;
  /**
   * A page of the matching records. Cursors survive writes.
   * @param reader who reads, such as a key of a server: the cursors of one reader are refused from others. Default: all are one.
   */
  scroll(request?: matching.ScrollVectors, options?: CallOptions, reader?: string): Promise<RecordPage>;
  /** Records by their ids, in this order; null where there is none. */
  fetch(request: matching.FetchVectors, options?: CallOptions): Promise<readonly (StoredVector | null)[]>;
  /**
   * Deletes the matching records of one version, as one version. The deadline counts until the writer has the request.
   * @throws invalid_filter, also for a filter without conditions
   */
  deleteMatching(request: matching.DeleteMatching, options?: CallOptions): Promise<matching.Deleted>;
  /** Merges a patch (RFC 7396) into the metadata of the matching records of one version, as one version. */
  updateMatching(request: matching.ExactUpdateMatching, options?: CallOptions): Promise<matching.Updated>;
  /** Merges a patch into the metadata of a record. @throws vector_not_found */
  patch(id: string, request: matching.ExactPatch, options?: CallOptions): Promise<void>;

  /** Creates an index, and builds it in the background. @throws index_already_exists, modality_not_enabled, invalid_request */
  createIndex<K extends IndexKind>(kind: K, definition: NewIndexes[K], options?: CallOptions): Promise<void>;
  /**
   * Shows how the text index analyses a text: each word in order, with its term, or the reason why it has none. Needs only the definition
   * of the index: nothing is loaded.
   * @param request `text`: at most 1 MiB of UTF-8
   * @throws invalid_request, index_not_found
   */
  analyzeText(request: AnalyzeText, options?: CallOptions): Promise<TextAnalysis>;
  indexes(): Indexes;
  /**
   * Measures the dense index against exact search, with vectors of the collection as queries.
   * @param options `sample` 1 to 10,000 queries (default 100), `top_k` as in a search, `ef_search` (default the index's)
   * @throws index_not_found
   */
  measureRecall(
    options?: {
      sample?: number | null;
      top_k?: number | null;
      ef_search?: number | null;
    },
    call?: CallOptions,
  ): Promise<Recall>;
  /**
   * Verifies all stored data of the collection, and compares its indexes in memory with its records; other requests continue meanwhile. The
   * time is proportional to the size of the collection.
   * @throws overloaded while another check runs in this database
   */
  check(): Promise<CheckReport>;
  /** @throws index_not_found */
  deleteIndex(kind: IndexKind, options?: CallOptions): Promise<void>;
  /**
   * Declares the type of a field of the metadata, and builds an index of it in the background; filters use it when it is built. A field
   * that has the type already stays as it is. A field that is declared as `datetime` is compared by time from now on.
   * @throws index_already_exists for a field with another type
   */
  createMetadataIndex(field: string, request: MetadataIndex, options?: CallOptions): Promise<void>;
  /** @throws index_not_found */
  deleteMetadataIndex(field: string, options?: CallOptions): Promise<void>;
  metadataIndexes(): MetadataIndexes;
  /** Resolves when every index has caught up with the version that is current now. */
  indexed(): Promise<void>;

  /**
   * Searches one version of the collection.
   * @param kind dense, sparse, text, hybrid, each also with many queries (`batchDense`); recommend; neighbors
   * @throws index_not_found, invalid_request, invalid_filter, not_ready if an index lags, deadline_exceeded; by examples also
   * vector_not_found for an id, and invalid_request for the id of a record without a dense vector
   */
  search<K extends SearchKind>(
    kind: K,
    request: SearchRequest<K>,
    options?: CallOptions,
  ): Promise<SearchAnswer<K>>;

  /** @throws transaction_ongoing */
  beginTransaction(options?: CallOptions): Promise<TransactionCreated>;
  /** A handle on any transaction id; its methods fail if the transaction does not exist. */
  transaction(transactionId: string): Transaction;
  transactions(): TransactionList;

  /**
   * The collection as it was at an earlier version, which must be readable (`config.history`, tags): its methods read that version alone.
   * @throws by them: version_not_found, version_gone, tag_not_found, invalid_request
   */
  at(when: When): PastCollection;
  /** Makes a version whose records are those of an earlier one. @throws as methods of `at` do */
  restoreVersion(when: When, options?: CallOptions): Promise<Version>;
  /** How far back versions are readable from now on; null: not at all. Those that no longer are are removed in the background. */
  setHistory(policy: HistoryPolicy | null, options?: CallOptions): Promise<CollectionDetail>;
  /** Keeps a version readable until the tag is deleted. @throws tag_already_exists, version_gone, version_not_found */
  putTag(name: string, when: When, options?: CallOptions): Promise<Tag>;
  /** @throws tag_not_found */
  deleteTag(name: string, options?: CallOptions): Promise<void>;
  /** What differs between two versions: how many records, then each, in order of id. */
  diff(from: When, to: When, options?: CallOptions): Promise<LineExport>;
  /**
   * What has changed since a version, in order, a page at a time: written records as they were written, and ids of deleted ones. Without
   * history, states that were replaced since are left out.
   * @param request `since`: a version (default 0), or the `next` of a page; `limit` 1 to 1,000 (default 100); `wait_ms`: how long an empty
   *   page waits for a write
   * @throws version_gone where the change log no longer reaches back so far; version_not_found
   */
  changes(
    request?: { since?: string; limit?: number; wait_ms?: number },
    options?: CallOptions,
  ): Promise<ChangesPage>;
  /** Every state of a record that is kept, newest first. @throws vector_not_found where there is none */
  history(id: string): StoredHistory;
  versions(page?: { limit?: number; before?: number }): VersionList;
  currentVersion(): Version;
  /** @throws invalid_version_hash */
  version(hash: string): Version;
}

/** Changes, in order; `next`: where the next page begins. */
export type ChangesPage = {
  changes: {
    version: number;
    op: "upsert" | "delete";
    id: string;
    /** The `since` of what comes after it. */
    place: string;
    vector?: (StoredVector & { readonly bytes: number }) | undefined;
  }[];
  next: string;
  current_version: number;
};

/** The states of a record, newest first; `until`: the version that replaced or deleted it. */
export type StoredHistory = {
  id: string;
  states: { version: number; until: number | null; vector: StoredVector }[];
};

/** A collection as it was at a version. Nothing of it changes. */
export type PastCollection = Pick<
  Collection,
  "eachOfDocument" | "exportMatching" | "count" | "facet" | "scroll" | "fetch" | "search"
> & {
  get(id: string): Promise<StoredVector>;
  has(id: string): Promise<boolean>;
};

/**
 * A collection for a caller that sees only some of its records. Answers, scores included, are those of a collection that has no others, but
 * approximate dense searches may miss other records. Writes of records that the caller could not see, and of ids of records that it
 * does not see, are `forbidden`; a transaction of another caller is not found.
 */
export type RestrictedCollection = Pick<
  Collection,
  | "name"
  | "analyzeText"
  | "get"
  | "has"
  | "eachOfDocument"
  | "exportMatching"
  | "count"
  | "facet"
  | "scroll"
  | "fetch"
  | "upsert"
  | "delete"
  | "deleteMatching"
  | "updateMatching"
  | "patch"
  | "search"
  | "beginTransaction"
  | "transaction"
  | "transactions"
> & {
  /** With the number of records that the caller sees, and without the size on the disk, which is that of all. */
  describe(): Promise<CollectionDetail>;
};

export type RestrictedDatabase = Pick<Database, "listCollections" | "loadedCollections"> & {
  /** @throws collection_not_found */
  collection(name: string): RestrictedCollection;
};

export interface Transaction {
  readonly id: string;
  /** The same as `upsert` of one vector; messages name its fields without a position. */
  add(vector: VectorWrite, options?: CallOptions): Promise<void>;
  /** Creates or replaces by id. @throws transaction_not_found, transaction_not_open, invalid_vector */
  upsert(vectors: readonly VectorWrite[], options?: CallOptions): Promise<void>;
  /** @throws vector_not_found when the id is neither in the collection nor buffered */
  delete(id: string, options?: CallOptions, condition?: IfRecord): Promise<void>;
  commit(options?: CallOptions, condition?: WriteCondition): Promise<void>;
  abort(options?: CallOptions): Promise<void>;
  /** @throws transaction_not_found */
  status(): TransactionStatus;
  flatStatus(): FlatTransactionStatus;
}
