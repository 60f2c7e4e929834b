// What can be done with one collection?
//
// `OpenCollection` joins the wings: it hands checked requests to the writer, reads the truth in snapshots, and
// keeps the corridors that serve searches while the collection is loaded. It decides; the work is below.

import { randomBytes } from "node:crypto";
import { isQuiverError, QuiverError } from "@quiver/protocol/errors";
import type { CollectionDetail } from "@quiver/protocol/shapes/collection";
import type {
  AnalyzeText,
  DenseIndex,
  Indexes,
  IndexKind,
  IndexStatus,
  Recall,
  SparseIndex,
  TextAnalysis,
  TextIndex,
} from "@quiver/protocol/shapes/index-definition";
import type * as search from "@quiver/protocol/shapes/search";
import type {
  FlatTransactionStatus,
  TransactionCreated,
  TransactionList,
  TransactionStatus,
} from "@quiver/protocol/shapes/transaction";
import type { Version, VersionList } from "@quiver/protocol/shapes/version";
import {
  type IndexDefinitions,
  IndexDefinitionsReader,
  readIndexDefinitions,
  type WriteRequest,
} from "../collection/apply.ts";
import type { CatalogEntry } from "../collection/catalog.ts";
import type { CollectionDefinition } from "../collection/definition.ts";
import { type Head, readHead } from "../collection/head.ts";
import { defineDenseIndex, defineSparseIndex, defineTextIndex } from "../collection/index-definition.ts";
import * as reading from "../collection/reading.ts";
import {
  checkId,
  encodeDelete,
  encodeUpsert,
  encodeUpserts,
  type VectorWrite,
} from "../collection/schema.ts";
import { collectionTables } from "../collection/tables.ts";
import {
  listTransactions,
  openTransaction,
  readTransaction,
  type TransactionEntry,
} from "../collection/transaction.ts";
import { currentVersion, listVersions, readVersion, versionByHash } from "../collection/versions.ts";
import { HnswIndex } from "../index/hnsw/hnsw-index.ts";
import { CatchUp } from "../indexing/catch-up.ts";
import * as plan from "../query/plan.ts";
import { EffortTable, measureRecall } from "../query/recall.ts";
import { legDepth, runPlan } from "../query/search.ts";
import type { Builders } from "../runtime/builders.ts";
import { collectGarbage } from "../runtime/collect-garbage.ts";
import type { View } from "../runtime/view.ts";
import type { Writer } from "../runtime/writer.ts";
import { LmdbStore } from "../storage/lmdb.ts";
import type { Snapshot } from "../storage/store.ts";
import { createAnalyzer } from "../text/analyzer.ts";
import { segment } from "../text/segment.ts";
import type { Collection, CollectionStatistics, DatabaseLog, Transaction, VectorExport } from "./contract.ts";
import { RunningExport } from "./export.ts";
import { type FeedSurroundings, makeFeed } from "./feeds.ts";
import { Gate } from "./gate.ts";
import { flatStatusOf, type IndexingProgress, isoTime, stateOf } from "./transaction-status.ts";

/** What a collection needs from the house. */
export type CollectionSurroundings = {
  directory: string;
  writer: Writer;
  builders: Builders;
  memoryBudgetBytes: number | undefined;
  log: DatabaseLog;
  clock(): number;
  /** Makes the collection's residence durable. */
  saveEntry(entry: CatalogEntry): Promise<void>;
  /** A collection was loaded or has grown: others may have to leave. */
  onMemoryUse(): void;
};

export class OpenCollection implements Collection {
  readonly entry: CatalogEntry;
  readonly #around: CollectionSurroundings;
  readonly #store: LmdbStore;
  /** Everything that reads the store is inside; closing waits for it. */
  readonly #gate = new Gate();
  readonly #exports = new Set<RunningExport>();
  /** What searches ask; what callers are given is read anew. */
  readonly #indexDefinitions = new IndexDefinitionsReader();
  #catchUp: CatchUp | null = null;
  /** Which beam reaches which recall; known while the collection is loaded and its dense index is the same. */
  #efforts = new EffortTable();
  /** Measurements of recall that are asked for. */
  #recalls: Promise<unknown> = Promise.resolve();
  /** Loads and unloads happen one after another. */
  #residence: Promise<unknown> = Promise.resolve();
  /** Committed transactions that are not known to be indexed, by id: the version of each. */
  readonly #indexingTransactions = new Map<string, number>();
  /** When their indexing was seen to be complete, until the store knows it. */
  readonly #completedMs = new Map<string, number>();
  lastUsedMs: number;

  /** The writer has the store open already. */
  constructor(entry: CatalogEntry, around: CollectionSurroundings) {
    this.entry = entry;
    this.#around = around;
    this.#store = new LmdbStore(around.directory, collectionTables);
    this.lastUsedMs = around.clock();
    this.#read((snapshot) => {
      for (const transaction of listTransactions(snapshot))
        if (transaction.state === "committed")
          this.#indexingTransactions.set(transaction.id, transaction.version as number);
    });
    if (entry.loaded) this.#startIndexes();
    else this.#completeTransactions(Number.POSITIVE_INFINITY);
  }

  get name(): string {
    return this.#definition.name;
  }

  get #definition(): CollectionDefinition {
    return this.entry.definition;
  }

  get isLoaded(): boolean {
    return this.#catchUp !== null;
  }

  get memoryBytes(): number {
    return this.#catchUp?.memoryBytes ?? 0;
  }

  get isBusy(): boolean {
    return this.#gate.count > 0;
  }

  #read<T>(read: (snapshot: Snapshot, head: Head) => T): T {
    this.#gate.assertOpen();
    const snapshot = this.#store.snapshot();
    try {
      return read(snapshot, readHead(snapshot));
    } finally {
      snapshot.release();
    }
  }

  async #write(request: WriteRequest): Promise<{ version: number; value: unknown }> {
    this.#gate.assertOpen();
    const written = await this.#around.writer.write(this.entry.internalId, request);
    this.#catchUp?.wake();
    return written;
  }

  // ---- Description, residence

  describe(): CollectionDetail {
    const { name, description, dense, dimension, sparse, text, maxVectors, replicationFactor, storeRawText } =
      this.#definition;
    return {
      name,
      ...(description !== undefined && { description }),
      dense_vector: { enabled: dense, dimension },
      sparse_vector: { enabled: sparse },
      tf_idf_options: { enabled: text },
      config: { max_vectors: maxVectors, replication_factor: replicationFactor },
      store_raw_text: storeRawText,
      vectors_count: this.#read((_, head) => head.live),
      loaded: this.isLoaded,
    };
  }

  statistics(): CollectionStatistics {
    const head = this.#read((_, current) => current);
    return {
      name: this.name,
      records: head.live,
      version: head.version,
      loaded: this.isLoaded,
      memoryBytes: this.memoryBytes,
      indexProgress: this.#catchUp?.progress(0, head.nextOrdinal) ?? 1,
      openTransaction: head.openTransaction !== 0,
    };
  }

  load(): Promise<CollectionDetail> {
    return this.#gate.pass(async () => {
      await this.#ensureLoaded();
      await this.indexed();
      return this.describe();
    });
  }

  unload(): Promise<void> {
    return this.#gate.pass(() =>
      this.#inTurn(async () => {
        if (!this.#catchUp) return;
        await this.#saveResidence(false);
        await this.#catchUp?.keepLast();
        this.#catchUp?.stop(
          new QuiverError("shutting_down", "The collection was unloaded meanwhile; search again."),
        );
        this.#catchUp = null;
        this.#completeTransactions(Number.POSITIVE_INFINITY);
        collectGarbage();
      }),
    );
  }

  async #ensureLoaded(): Promise<CatchUp> {
    this.lastUsedMs = this.#around.clock();
    if (this.#catchUp) return this.#catchUp;
    return this.#inTurn(async () => {
      if (!this.#catchUp) {
        await this.#saveResidence(true);
        this.#gate.assertOpen();
        this.#startIndexes();
      }
      return this.#catchUp as unknown as CatchUp;
    });
  }

  #inTurn<T>(act: () => Promise<T>): Promise<T> {
    const turn = this.#residence.then(act);
    // The next in turn does not care how this one ended; its caller is told by `turn`.
    this.#residence = turn.catch(() => undefined);
    return turn;
  }

  async #saveResidence(loaded: boolean): Promise<void> {
    await this.#around.saveEntry({ ...this.entry, loaded });
    this.entry.loaded = loaded;
  }

  #startIndexes(): void {
    const catchUp = new CatchUp(this.#store, {
      onComplete: (version) => {
        this.#completeTransactions(version);
        this.#around.onMemoryUse();
      },
      onFailed: (error) =>
        this.#around.log.error(
          { collection: this.entry.internalId, err: error },
          "indexing stopped on an error",
        ),
    });
    this.#catchUp = catchUp;
    this.#efforts = new EffortTable();
    const definitions = this.#read((snapshot) => readIndexDefinitions(snapshot));
    for (const kind of Object.keys(definitions) as IndexKind[])
      catchUp.add(makeFeed(this.#definition, kind, definitions, this.#feedSurroundings(catchUp)));
    catchUp.wake();
  }

  #feedSurroundings(catchUp: CatchUp): FeedSurroundings {
    const { directory, builders, memoryBudgetBytes, log } = this.#around;
    return {
      directory,
      builders,
      memoryBudgetBytes,
      onProgress: () => catchUp.progressed(),
      onProblem: (what, problem) => log.warn({ collection: this.entry.internalId, err: problem }, what),
    };
  }

  async indexed(): Promise<void> {
    for (;;) {
      const { head, kinds } = this.#read((snapshot, current) => ({
        head: current,
        kinds: Object.keys(readIndexDefinitions(snapshot)) as IndexKind[],
      }));
      const catchUp = this.#catchUp;
      if (!catchUp) return;
      try {
        (await catchUp.reach(head.version, kinds)).unpin();
        return;
      } catch (error) {
        // Unloaded meanwhile: there is nothing to wait for. One of the indexes deleted meanwhile: the others count.
        if (!catchUp.isStopped && !isQuiverError(error, "index_not_found")) throw error;
      }
    }
  }

  /**
   * Waits for what runs, then lets go of the store. Nothing may be asked afterwards.
   * @param isKept whether what indexes have learnt is kept on disk
   */
  async close(reason: QuiverError, isKept = true): Promise<void> {
    this.#gate.close(reason);
    for (const exported of [...this.#exports]) exported.stop(reason);
    if (isKept) await this.#catchUp?.keepLast();
    const catchUp = this.#catchUp;
    this.#catchUp = null;
    catchUp?.stop(reason);
    await this.#gate.empty();
    await this.#residence;
    await this.#store.close();
  }

  // ---- Records

  upsert(vectors: readonly VectorWrite[]): Promise<void> {
    return this.#gate.pass(async () => {
      const batch = encodeUpserts(this.#definition, vectors, "vectors");
      if (batch.length > 0) await this.#write({ kind: "upsert", batch });
    });
  }

  delete(id: string): Promise<void> {
    return this.#gate.pass(async () => {
      checkId(id, "vector_id");
      await this.#write({ kind: "delete", batch: encodeDelete(id) });
    });
  }

  get(id: string): reading.StoredVector {
    checkId(id, "vector_id");
    return this.#read((snapshot) => reading.vectorById(snapshot, id));
  }

  has(id: string): boolean {
    checkId(id, "vector_id");
    return this.#read((snapshot) => reading.vectorExists(snapshot, id));
  }

  byDocument(documentId: string): reading.StoredVector[] {
    checkId(documentId, "document_id");
    return this.#read((snapshot) => reading.vectorsOfDocument(snapshot, documentId));
  }

  exportVectors(): VectorExport {
    this.#gate.assertOpen();
    const exported = new RunningExport(this.#store.snapshot(), () => this.#exports.delete(exported));
    this.#exports.add(exported);
    return exported;
  }

  // ---- Indexes

  createDenseIndex(definition: DenseIndex): Promise<void> {
    return this.#createIndex("dense", () => defineDenseIndex(this.#definition, definition));
  }

  createSparseIndex(definition: SparseIndex): Promise<void> {
    return this.#createIndex("sparse", () => defineSparseIndex(this.#definition, definition));
  }

  createTextIndex(definition: TextIndex): Promise<void> {
    return this.#createIndex("tf-idf", () => defineTextIndex(this.#definition, definition));
  }

  #createIndex(index: IndexKind, define: () => DenseIndex | SparseIndex | TextIndex): Promise<void> {
    return this.#gate.pass(async () => {
      const definition = define();
      await this.#inTurn(async () => {
        await this.#write({ kind: "createIndex", index, definition });
        const catchUp = this.#catchUp;
        catchUp?.add(
          makeFeed(this.#definition, index, { [index]: definition }, this.#feedSurroundings(catchUp)),
        );
        if (index === "dense") this.#efforts = new EffortTable();
      });
    });
  }

  deleteIndex(index: IndexKind): Promise<void> {
    return this.#gate.pass(() =>
      this.#inTurn(async () => {
        await this.#write({ kind: "deleteIndex", index });
        this.#catchUp?.drop(index);
      }),
    );
  }

  indexes(): Indexes {
    const { definitions, head } = this.#read((snapshot, current) => ({
      definitions: readIndexDefinitions(snapshot),
      head: current,
    }));
    const withStatus = Object.entries(definitions).map(([kind, definition]) => [
      kind,
      { ...definition, status: this.#indexStatus(kind as IndexKind, head) },
    ]);
    return Object.fromEntries(withStatus) as Indexes;
  }

  analyzeText({ text }: AnalyzeText): TextAnalysis {
    plan.checkText(text, "text");
    const definitions = this.#read((snapshot) => readIndexDefinitions(snapshot));
    requireIndexes(definitions, ["tf-idf"], this.name);
    const { language, stop_words } = definitions["tf-idf"] as TextIndex;
    const analyzer = createAnalyzer(language ?? "english", stop_words);
    return { language: language ?? "english", terms: analyzer.analyze(segment(text)) };
  }

  #indexStatus(kind: IndexKind, head: Head): IndexStatus {
    const total = { dense: head.dense, sparse: head.sparse, "tf-idf": head.text }[kind];
    const feed = this.#catchUp?.feed(kind);
    const isReady = feed?.watermark === head.version && feed.finalEnd >= head.nextOrdinal;
    const dense = feed?.index instanceof HnswIndex ? feed.index : undefined;
    const linked = (feed?.index.count ?? 0) - (dense?.tailCount ?? 0);
    const indexed = isReady ? total : Math.max(0, Math.min(total, linked));
    return {
      state: feed === undefined ? "unloaded" : feed.isBuilt && feed.wasFinal ? "ready" : "building",
      served_by: kind !== "dense" ? "inverted" : dense?.encoding === undefined ? "flat" : "hnsw",
      records_indexed: indexed,
      records_total: total,
      percentage_complete:
        feed === undefined ? 0 : isReady ? 100 : Math.floor(feed.progress(0, head.nextOrdinal) * 1000) / 10,
      watermark: Math.max(0, feed?.watermark ?? 0),
      memory_bytes: feed?.index.memoryBytes ?? 0,
      ...(dense && denseStatus(dense)),
    };
  }

  // ---- Search

  searchDense(request: search.DenseSearch): Promise<search.SearchResponse> {
    return this.#searchOne(() => plan.planDense(this.#definition, request));
  }

  searchBatchDense(request: search.BatchDenseSearch): Promise<search.BatchSearchResponse> {
    return this.#search(() => plan.planBatchDense(this.#definition, request), "dense");
  }

  searchSparse(request: search.SparseSearch): Promise<search.SearchResponse> {
    return this.#searchOne(() => plan.planSparse(this.#definition, request));
  }

  searchBatchSparse(request: search.BatchSparseSearch): Promise<search.BatchSearchResponse> {
    return this.#search(() => plan.planBatchSparse(this.#definition, request), "sparse");
  }

  searchText(request: search.TextSearch): Promise<search.SearchResponse> {
    return this.#searchOne(() => plan.planText(this.#definition, request));
  }

  searchBatchText(request: search.BatchTextSearch): Promise<search.BatchSearchResponse> {
    return this.#search(() => plan.planBatchText(this.#definition, request), "tf-idf");
  }

  searchHybrid(request: search.HybridSearch): Promise<search.SearchResponse> {
    return this.#searchOne(() => plan.planHybrid(this.#definition, request));
  }

  searchBatchHybrid(request: search.BatchHybridSearch): Promise<search.BatchSearchResponse> {
    return this.#search(() => plan.planBatchHybrid(this.#definition, request));
  }

  async #searchOne(makePlan: () => plan.Plan): Promise<search.SearchResponse> {
    return (await this.#search(makePlan))[0];
  }

  /** @param kind the index that the endpoint is about, required even when there is no query */
  #search(makePlan: () => plan.Plan, kind?: IndexKind): Promise<search.SearchResponse[]> {
    return this.#gate.pass(async () => {
      const planned = makePlan();
      const kinds = plan.kindsOf(planned);
      if (kind && kinds.length === 0) kinds.push(kind);
      const { version, recallTarget } = this.#read((snapshot, head) => {
        const definitions = this.#indexDefinitions.read(snapshot);
        requireIndexes(definitions, kinds, this.name);
        return { version: head.version, recallTarget: definitions.dense?.index.properties.recall_target };
      });
      const view = await this.#viewAt(version, kinds);
      try {
        // The index of the view is asked, for another may have come into its place.
        if (view.indexes["tf-idf"]?.keepsPositions === false) plan.refusePhrases(planned);
        const ef = kinds.includes("dense")
          ? await this.#effortOf(planned.effort, legDepth(planned), view, recallTarget)
          : undefined;
        return await runPlan(view, planned, ef);
      } finally {
        view.unpin();
      }
    });
  }

  /** The beam of a plan's dense legs; undefined: the index's own. @param ofIndex the recall that the index is to reach */
  async #effortOf(
    { exact, efSearch, recallTarget }: plan.Effort,
    k: number,
    view: View,
    ofIndex: number | null | undefined,
  ): Promise<number | undefined> {
    if (exact || efSearch !== null) return efSearch ?? undefined;
    const target = recallTarget ?? ofIndex ?? null;
    if (target === null) return undefined;
    return this.#efforts.efFor(target, k, view, () => view.pin());
  }

  measureRecall(options: Parameters<Collection["measureRecall"]>[0] = {}): Promise<Recall> {
    return this.#gate.pass(() => {
      const request = plan.planRecall(options);
      // One after another: each may ask thousands of exact searches.
      const measured = this.#recalls.then(() => this.#measureRecall(request));
      this.#recalls = measured.catch(() => undefined);
      return measured;
    });
  }

  async #measureRecall({ sample, topK, efSearch }: ReturnType<typeof plan.planRecall>): Promise<Recall> {
    const { version, recallTarget } = this.#read((snapshot, head) => {
      const definitions = readIndexDefinitions(snapshot);
      requireIndexes(definitions, ["dense"], this.name);
      return { version: head.version, recallTarget: definitions.dense?.index.properties.recall_target };
    });
    const view = await this.#viewAt(version, ["dense"]);
    try {
      const effort = { exact: false, efSearch: efSearch ?? null, recallTarget: null };
      const ef = await this.#effortOf(effort, topK, view, recallTarget);
      const measured = await measureRecall(view, sample, topK, ef);
      return {
        recall: measured.recall,
        worst_recall: measured.worst,
        queries: measured.queries,
        top_k: topK,
        ef_search: measured.ef,
        version: view.version,
        search_ms: measured.searchMs,
        exact_ms: measured.exactMs,
      };
    } finally {
      view.unpin();
    }
  }

  /**
   * A pinned view at `version` or later. A collection that is unloaded meanwhile is loaded again.
   * @throws index_not_found for an index that is deleted meanwhile
   */
  async #viewAt(version: number, kinds: readonly IndexKind[]): Promise<View> {
    for (;;) {
      const catchUp = await this.#ensureLoaded();
      // An index that was deleted while the collection was being loaded would never come into a view.
      this.#read((snapshot) => requireIndexes(this.#indexDefinitions.read(snapshot), kinds, this.name));
      try {
        return await catchUp.reach(version, kinds);
      } catch (error) {
        this.#gate.assertOpen();
        if (!catchUp.isStopped) throw error;
      }
    }
  }

  // ---- Transactions

  beginTransaction(): Promise<TransactionCreated> {
    return this.#gate.pass(async () => {
      const { value } = await this.#write({ kind: "begin", random: randomBytes(12).toString("hex") });
      const { id, createdMs } = value as TransactionEntry;
      return { transaction_id: id, created_at: isoTime(createdMs) };
    });
  }

  transaction(transactionId: string): Transaction {
    return {
      id: transactionId,
      add: (vector) => this.#stage(transactionId, () => encodeUpsert(this.#definition, vector)),
      upsert: (vectors) =>
        this.#stage(transactionId, () => encodeUpserts(this.#definition, vectors, "vectors")),
      delete: (id) =>
        this.#stage(transactionId, () => {
          checkId(id, "vector_id");
          return encodeDelete(id);
        }),
      commit: () => this.#commit(transactionId),
      abort: () =>
        this.#gate.pass(async () => {
          await this.#write({ kind: "abort", transactionId });
        }),
      status: () => this.#status(transactionId),
      flatStatus: () => this.#flatStatus(transactionId),
    };
  }

  #stage(transactionId: string, encode: () => Uint8Array): Promise<void> {
    return this.#gate.pass(async () => {
      const batch = encode();
      await this.#write({ kind: "stage", transactionId, batch });
    });
  }

  #commit(transactionId: string): Promise<void> {
    return this.#gate.pass(async () => {
      const { value } = await this.#write({ kind: "commit", transactionId });
      this.#indexingTransactions.set(transactionId, (value as TransactionEntry).version as number);
      this.#completeTransactions(this.#catchUp ? this.#catchUp.completed : Number.POSITIVE_INFINITY);
    });
  }

  transactions(): TransactionList {
    const now = this.#around.clock();
    return this.#read((snapshot) => ({
      transactions: listTransactions(snapshot).map((entry) => ({
        transaction_id: entry.id,
        created_at: isoTime(entry.createdMs),
        status: stateOf(entry, this.#progressOf(entry, snapshot), now),
      })),
    }));
  }

  #status(transactionId: string): TransactionStatus {
    return this.#read((snapshot) => {
      const entry = readTransaction(snapshot, transactionId);
      return { status: stateOf(entry, this.#progressOf(entry, snapshot), this.#around.clock()) };
    });
  }

  #flatStatus(transactionId: string): FlatTransactionStatus {
    return this.#read((snapshot) => {
      const entry = readTransaction(snapshot, transactionId);
      return flatStatusOf(entry, this.#progressOf(entry, snapshot), this.#around.clock());
    });
  }

  #progressOf(entry: TransactionEntry, snapshot: Snapshot): IndexingProgress | null {
    if (entry.completedMs !== undefined) return { completedMs: entry.completedMs };
    if (entry.state !== "committed") return null;
    const completedMs = this.#completedMs.get(entry.id);
    if (completedMs !== undefined) return { completedMs };
    const version = readVersion(snapshot, entry.version as number);
    const { firstOrdinal = 0, opened = 0 } = version ?? {};
    // All is done when the watermark says so; until then the last hundredth is kept back.
    return { fraction: Math.min(0.99, this.#catchUp?.progress(firstOrdinal, opened) ?? 0.99) };
  }

  /** Notes that the transactions up to a version are indexed, at once here and soon in the store. */
  #completeTransactions(watermark: number): void {
    const completedMs = this.#around.clock();
    for (const [id, version] of this.#indexingTransactions) {
      if (version > watermark) continue;
      this.#indexingTransactions.delete(id);
      this.#completedMs.set(id, completedMs);
      this.#around.writer
        .write(this.entry.internalId, { kind: "complete", transactionId: id, completedMs })
        .then(() => this.#completedMs.delete(id))
        .catch((error: unknown) =>
          // Nothing is lost: the next start finds the transaction committed and completes it again.
          this.#around.log.warn({ err: error }, "a transaction's completion was not stored"),
        );
    }
  }

  /** Aborts the open transaction when its last operation is older than the limit. */
  async abortIdleTransaction(idleMs: number): Promise<void> {
    const idleSinceMs = this.#around.clock() - idleMs;
    const open = this.#read((snapshot, head) => openTransaction(snapshot, head));
    if (!open || open.updatedMs > idleSinceMs) return;
    await this.#gate.pass(() => this.#write({ kind: "abort", transactionId: open.id, idleSinceMs }));
    this.#around.log.info({ transaction: open.id }, "aborted a transaction that was idle for too long");
  }

  // ---- Versions

  versions(page?: { limit?: number; before?: number }): VersionList {
    return this.#read((snapshot) => listVersions(snapshot, page));
  }

  currentVersion(): Version {
    return this.#read((snapshot) => currentVersion(snapshot));
  }

  version(hash: string): Version {
    return this.#read((snapshot) => versionByHash(snapshot, hash));
  }
}

function denseStatus(index: HnswIndex): Partial<IndexStatus> {
  const { encoding, failure } = index;
  return {
    ...(encoding && { data_type: encoding.dataType, data_type_reason: encoding.reason }),
    records_in_tail: index.tailCount,
    graphs: index.partitionCount,
    graph_bytes: index.graphBytes,
    ...(index.effort && { recall_table_records: index.effort.count }),
    ...(failure !== undefined && { failure: failure instanceof Error ? failure.message : String(failure) }),
  };
}

/** @throws index_not_found naming the call that creates it */
function requireIndexes(definitions: IndexDefinitions, kinds: readonly IndexKind[], name: string): void {
  for (const kind of kinds)
    if (!definitions[kind])
      throw new QuiverError(
        "index_not_found",
        `The collection '${name}' has no ${kind} index. Create it with POST /vectordb/collections/${encodeURIComponent(name)}/indexes/${kind}.`,
        { index_type: kind },
      );
}
