// What can be done with one collection?
//
// `OpenCollection` implements the contract's `Collection`. It delegates each call to the part that is responsible (collection/*.ts); this
// file creates the parts, describes the collection, and closes it.
//
// One file: it is the contract's `Collection`, a line or two for each call.

import type { QuiverError } from "@quiverdb/protocol/errors";
import type { CheckReport } from "@quiverdb/protocol/shapes/check";
import type { CollectionDetail } from "@quiverdb/protocol/shapes/collection";
import type {
  AnalyzeText,
  CreateDenseIndex,
  CreateSparseIndex,
  CreateTextIndex,
  Indexes,
  IndexKind,
  MetadataIndex,
  MetadataIndexes,
  Recall,
  TextAnalysis,
} from "@quiverdb/protocol/shapes/index-definition";
import type * as search from "@quiverdb/protocol/shapes/search";
import type { TransactionCreated, TransactionList } from "@quiverdb/protocol/shapes/transaction";
import type { Version, VersionList } from "@quiverdb/protocol/shapes/version";
import { type CallOptions, Deadline } from "../base/deadline.ts";
import type { CatalogEntry } from "../collection/catalog.ts";
import type { StoredVector } from "../collection/reading.ts";
import type { Rows } from "../collection/rows.ts";
import type { VectorWrite } from "../collection/schema.ts";
import { kindNames } from "../index/registry.ts";
import { directoryBytes } from "../runtime/disk-use.ts";
import { Checks } from "./collection/checks.ts";
import { IndexAdministration } from "./collection/indexes.ts";
import { LoadState } from "./collection/load-state.ts";
import { Matches } from "./collection/matches.ts";
import { CollectionMemory } from "./collection/memory.ts";
import { Records } from "./collection/records.ts";
import { Searches } from "./collection/searches.ts";
import { type CollectionDependencies, CollectionState } from "./collection/state.ts";
import { Transactions } from "./collection/transactions.ts";
import { updaterDependencies } from "./collection/updater-dependencies.ts";
import { Writes } from "./collection/writes.ts";
import type { Collection, CollectionStatistics, RecordPage, Transaction, VectorExport } from "./contract.ts";
import { failingTasks } from "./failing-tasks.ts";
import { type Restricted, restrictedCollection } from "./restricted-collection.ts";
import type { AcquiredView, Attachable } from "./threads/messages.ts";

export class OpenCollection implements Collection {
  readonly #state: CollectionState;
  readonly #memory: CollectionMemory;
  readonly #load: LoadState;
  readonly #writes: Writes;
  readonly #records: Records;
  readonly #matches: Matches;
  readonly #indexes: IndexAdministration;
  readonly #searches: Searches;
  readonly #checks: Checks;
  readonly #transactions: Transactions;
  #closed: Promise<void> | null = null;

  /** The writer must have opened the store. The indexes are not loaded until `start`. */
  constructor(entry: CatalogEntry, dependencies: CollectionDependencies) {
    const state = new CollectionState(entry, dependencies);
    this.#state = state;
    this.#memory = new CollectionMemory(
      state,
      updaterDependencies(state, undefined, () => null),
    );
    this.#writes = new Writes(state, this.#memory);
    this.#transactions = new Transactions(state, this.#memory, this.#writes);
    this.#load = new LoadState(state, this.#memory, {
      onLoading: () => this.#searches.forgetRecall(),
      onIndexed: (version) => this.#transactions.completeTransactions(version),
      onUnloaded: () => this.#transactions.completeTransactions(Number.POSITIVE_INFINITY),
    });
    this.#searches = new Searches(state, this.#load);
    this.#indexes = new IndexAdministration(state, this.#memory, this.#load, this.#writes, () =>
      this.#searches.forgetRecall(),
    );
    this.#records = new Records(state);
    this.#matches = new Matches(state);
    this.#checks = new Checks(state);
  }

  /** Call it once, after opening. @param isLoaded whether to load the indexes */
  start(isLoaded: boolean): void {
    if (isLoaded) this.#load.startIndexes();
    else this.#transactions.completeTransactions(Number.POSITIVE_INFINITY);
  }

  get entry(): CatalogEntry {
    return this.#state.entry;
  }

  get name(): string {
    return this.#state.name;
  }

  get isLoaded(): boolean {
    return this.#state.isLoaded;
  }

  get isOpen(): boolean {
    return this.#state.isOpen;
  }

  /** Whether a call is in progress. */
  get isBusy(): boolean {
    return this.#state.gate.count > 0;
  }

  get lastUsedMs(): number {
    return this.#load.lastUsedMs;
  }

  /** Bytes that the indexes take when they have all records. */
  get expectedBytes(): number {
    return this.#memory.expectedBytes;
  }

  /** Bytes that loading the collection takes. */
  get bytesToLoad(): number {
    return this.#memory.bytesToLoad;
  }

  /** Frees up to the given number of bytes of caches. @returns the bytes freed */
  giveUp(bytes: number): number {
    return this.#memory.giveUp(bytes);
  }

  /** Retries work that was postponed for want of memory. */
  retryPostponed(): void {
    if (this.#state.indexer?.isPostponed === true) this.#state.indexer.wake();
  }

  async describe(): Promise<CollectionDetail> {
    const { name, description, dense, dimension, sparse, text, storeRawText } = this.#state.definition;
    const { maxVectors, replicationFactor, memoryBudgetBytes } = this.#state.definition;
    return {
      name,
      ...(description !== undefined && { description }),
      dense_vector: { enabled: dense, dimension },
      sparse_vector: { enabled: sparse },
      tf_idf_options: { enabled: text },
      config: {
        max_vectors: maxVectors,
        replication_factor: replicationFactor,
        ...(memoryBudgetBytes !== undefined && { memory_budget_bytes: memoryBudgetBytes }),
      },
      store_raw_text: storeRawText,
      vectors_count: this.#state.readServed((_, head) => head.live),
      loaded: this.#state.isLoaded,
      disk_bytes: await this.diskBytes(),
    };
  }

  /** Bytes that its files take on the disk: the store, the operations of an open transaction, and the checkpoints of its indexes. */
  diskBytes(): Promise<number> {
    return directoryBytes(this.#state.dependencies.directory);
  }

  statistics(): CollectionStatistics {
    const head = this.#state.readServed((_, current) => current);
    return {
      name: this.#state.name,
      failing: failingTasks(this.#state.background),
      records: head.live,
      version: head.version,
      loaded: this.#state.isLoaded,
      memoryBytes: this.#memory.memoryBytes,
      waitingWrites: this.#state.indexer?.waitingWrites ?? 0,
      indexProgress: this.#state.indexer?.progress(0, head.nextOrdinal) ?? 1,
      openTransaction: head.openTransaction !== 0,
      recall: this.#recall(),
    };
  }

  #recall(): CollectionStatistics["recall"] {
    for (const kind of kindNames()) {
      const recall = this.#state.indexer?.updater(kind)?.recall;
      if (recall !== undefined) return recall;
    }
    return undefined;
  }

  /** The collection for a caller that sees only some records. */
  restrictedTo(rows: Rows): Restricted {
    return restrictedCollection(
      {
        collection: this,
        writes: this.#writes,
        records: this.#records,
        matches: this.#matches,
        indexes: this.#indexes,
        searches: this.#searches,
        transactions: this.#transactions,
      },
      rows,
    );
  }

  /** Resolves when the indexes have all records that exist now. */
  indexed(): Promise<void> {
    return this.#state.indexed();
  }

  /**
   * Waits for running calls, then closes the store. Do not call anything afterwards.
   * @param isKept whether to write checkpoints of the indexes
   */
  close(reason: QuiverError, isKept = true): Promise<void> {
    this.#closed ??= this.#close(reason, isKept);
    return this.#closed;
  }

  async #close(reason: QuiverError, isKept: boolean): Promise<void> {
    const { gate, background, store } = this.#state;
    this.#state.isOpen = false;
    gate.close(reason);
    this.#records.stop(reason);
    this.#checks.stop(reason);
    if (isKept) await this.#load.checkpointIndexes();
    const { indexer } = this.#state;
    this.#state.indexer = null;
    indexer?.stop(reason);
    background.stop();
    await indexer?.written();
    await gate.empty();
    await this.#load.settled();
    await this.#state.dependencies.closeInThreads(this.#state.entry.internalId);
    await store.close();
  }

  async load(options?: CallOptions): Promise<CollectionDetail> {
    await this.#load.load(options);
    return this.describe();
  }

  unload(): Promise<void> {
    return this.#load.unload();
  }

  // ---- Records and versions

  upsert(vectors: readonly VectorWrite[], options?: CallOptions): Promise<void> {
    return this.#writes.upsert(vectors, options);
  }

  delete(id: string, options?: CallOptions): Promise<void> {
    return this.#writes.delete(id, options);
  }

  get(id: string): StoredVector {
    return this.#records.get(id);
  }

  has(id: string): boolean {
    return this.#records.has(id);
  }

  byDocument(documentId: string, options?: CallOptions): Promise<StoredVector[]> {
    return this.#records.byDocument(documentId, options);
  }

  eachOfDocument(
    documentId: string,
    take: (vector: StoredVector) => void,
    options?: CallOptions,
  ): Promise<void> {
    return this.#records.eachOfDocument(documentId, take, options);
  }

  exportVectors(): VectorExport {
    return this.#records.exportVectors();
  }

  exportMatching(...how: Parameters<Collection["exportMatching"]>): Promise<VectorExport> {
    return this.#records.exportMatching(...how);
  }

  count(...how: Parameters<Collection["count"]>): ReturnType<Collection["count"]> {
    return this.#matches.count(...how);
  }

  facet(...how: Parameters<Collection["facet"]>): ReturnType<Collection["facet"]> {
    return this.#matches.facet(...how);
  }

  scroll(...how: Parameters<Collection["scroll"]>): Promise<RecordPage> {
    return this.#matches.scroll(...how);
  }

  fetch(...how: Parameters<Collection["fetch"]>): ReturnType<Collection["fetch"]> {
    return this.#matches.fetch(...how);
  }

  deleteMatching(...how: Parameters<Collection["deleteMatching"]>): ReturnType<Collection["deleteMatching"]> {
    return this.#writes.deleteMatching(...how);
  }

  updateMatching(...how: Parameters<Collection["updateMatching"]>): ReturnType<Collection["updateMatching"]> {
    return this.#writes.updateMatching(...how);
  }

  patch(...how: Parameters<Collection["patch"]>): Promise<void> {
    return this.#writes.patch(...how);
  }

  /** Runs work that reads the store in another thread. Closing the collection aborts the signal, and waits for the work. */
  workAside<T>(work: (directory: string, signal: AbortSignal) => Promise<T>): Promise<T> {
    return this.#records.workAside(work);
  }

  versions(page?: { limit?: number; before?: number }): VersionList {
    return this.#records.versions(page);
  }

  currentVersion(): Version {
    return this.#records.currentVersion();
  }

  version(hash: string): Version {
    return this.#records.version(hash);
  }

  // ---- Serving threads

  /** What a serving thread needs to search it. */
  get attachable(): Attachable {
    const { entry, definition, dependencies, shared } = this.#state;
    return {
      internalId: entry.internalId,
      directory: dependencies.directory,
      definition,
      shared: shared.words,
    };
  }

  /**
   * A view for a serving thread, with the indexes that a search needs, as `Searched.acquireView`; pinned until `release`.
   * @param filter of the request, whose matches are posted, too; undefined: none
   */
  acquireShared(
    needed: readonly IndexKind[],
    options?: CallOptions,
    filter?: unknown,
  ): Promise<AcquiredView> {
    return this.#state.gate.pass(async () => {
      const deadline = Deadline.of(options);
      const view = await this.#searches.acquireView(needed, deadline);
      try {
        const definitions = this.#searches.indexDefinitions(view.readTxn);
        // First: if fields are declared meanwhile, the thread sees that what it got is from before.
        const posted = { view: view.shared, definitions };
        const matching =
          filter === undefined ? undefined : await this.#searches.matching(view, filter, deadline);
        const { set, isWarned = false } = matching ?? {};
        return { posted, matching: set?.shared, isWarned, release: () => view.unpin() };
      } catch (error) {
        view.unpin();
        throw error;
      }
    });
  }

  /** Ends what a serving thread that has died was doing. */
  abandon(slot: number): void {
    this.#state.indexer?.abandon(slot);
  }

  upsertEncoded(batch: Uint8Array, records: number, options?: CallOptions): Promise<void> {
    return this.#writes.upsertEncoded(batch, records, options);
  }

  // ---- Indexes

  createDenseIndex(definition: CreateDenseIndex): Promise<void> {
    return this.#indexes.createDenseIndex(definition);
  }

  createSparseIndex(definition: CreateSparseIndex): Promise<void> {
    return this.#indexes.createSparseIndex(definition);
  }

  createTextIndex(definition: CreateTextIndex): Promise<void> {
    return this.#indexes.createTextIndex(definition);
  }

  /** Creates the indexes that `auto_create_index` requests. */
  createMetadataIndex(field: string, request: MetadataIndex): Promise<void> {
    return this.#indexes.createMetadataIndex(field, request);
  }

  deleteMetadataIndex(field: string): Promise<void> {
    return this.#indexes.deleteMetadataIndex(field);
  }

  metadataIndexes(): MetadataIndexes {
    return this.#indexes.metadataIndexes();
  }

  createAutomatic(kind: IndexKind): Promise<void> {
    return this.#indexes.createAutomatic(kind);
  }

  deleteIndex(kind: IndexKind): Promise<void> {
    return this.#indexes.deleteIndex(kind);
  }

  indexes(): Indexes {
    return this.#indexes.indexes();
  }

  analyzeText(request: AnalyzeText, options?: CallOptions): Promise<TextAnalysis> {
    return this.#indexes.analyzeText(request, options);
  }

  // ---- Search

  searchDense(request: search.DenseSearch, options?: CallOptions): Promise<search.SearchResponse> {
    return this.#searches.searchDense(request, options);
  }

  searchBatchDense(
    request: search.BatchDenseSearch,
    options?: CallOptions,
  ): Promise<search.BatchSearchResponse> {
    return this.#searches.searchBatchDense(request, options);
  }

  recommend(request: search.Recommend, options?: CallOptions): Promise<search.SearchResponse> {
    return this.#searches.recommend(request, options);
  }

  neighbors(...how: Parameters<Collection["neighbors"]>): Promise<search.SearchResponse> {
    return this.#searches.neighbors(...how);
  }

  searchSparse(request: search.SparseSearch, options?: CallOptions): Promise<search.SearchResponse> {
    return this.#searches.searchSparse(request, options);
  }

  searchBatchSparse(
    request: search.BatchSparseSearch,
    options?: CallOptions,
  ): Promise<search.BatchSearchResponse> {
    return this.#searches.searchBatchSparse(request, options);
  }

  searchText(request: search.TextSearch, options?: CallOptions): Promise<search.SearchResponse> {
    return this.#searches.searchText(request, options);
  }

  searchBatchText(
    request: search.BatchTextSearch,
    options?: CallOptions,
  ): Promise<search.BatchSearchResponse> {
    return this.#searches.searchBatchText(request, options);
  }

  searchHybrid(request: search.HybridSearch, options?: CallOptions): Promise<search.SearchResponse> {
    return this.#searches.searchHybrid(request, options);
  }

  searchBatchHybrid(
    request: search.BatchHybridSearch,
    options?: CallOptions,
  ): Promise<search.BatchSearchResponse> {
    return this.#searches.searchBatchHybrid(request, options);
  }

  measureRecall(
    options: Parameters<Collection["measureRecall"]>[0] = {},
    call?: CallOptions,
  ): Promise<Recall> {
    return this.#searches.measureRecall(options, call);
  }

  check(): Promise<CheckReport> {
    return this.#checks.check();
  }

  // ---- Transactions

  beginTransaction(): Promise<TransactionCreated> {
    return this.#transactions.beginTransaction();
  }

  transaction(transactionId: string): Transaction {
    return this.#transactions.transaction(transactionId);
  }

  transactions(): TransactionList {
    return this.#transactions.transactions();
  }

  /** Aborts the open transaction when its last operation is older than the limit. */
  abortIdleTransaction(idleMs: number): Promise<void> {
    return this.#transactions.abortIdleTransaction(idleMs);
  }
}
