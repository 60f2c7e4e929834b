// What can be done with one collection?
//
// `OpenCollection` joins the wings: it hands checked requests to the writer, reads the truth in snapshots, and
// keeps the corridors that serve searches while the collection is loaded. It decides; the work is below.

import { randomBytes } from "node:crypto";
import { isQuiverError, QuiverError } from "@quiver/protocol/errors";
import { refuseUnknownFields, refuseUnknownOptions } from "@quiver/protocol/fields";
import { limits } from "@quiver/protocol/limits";
import type { CheckReport, Finding } from "@quiver/protocol/shapes/check";
import type { CollectionDetail } from "@quiver/protocol/shapes/collection";
import {
  AnalyzeText,
  type DenseIndex,
  type Indexes,
  type IndexKind,
  type IndexStatus,
  type Recall,
  type SparseIndex,
  type TextAnalysis,
  type TextIndex,
} from "@quiver/protocol/shapes/index-definition";
import type * as search from "@quiver/protocol/shapes/search";
import type {
  FlatTransactionStatus,
  TransactionCreated,
  TransactionList,
  TransactionStatus,
} from "@quiver/protocol/shapes/transaction";
import type { Version, VersionList } from "@quiver/protocol/shapes/version";
import type { Background } from "../base/background.ts";
import { toHex } from "../base/bytes.ts";
import { type CallOptions, Deadline } from "../base/deadline.ts";
import { failpoint } from "../base/failpoint.ts";
import type { Steps } from "../base/steps.ts";
import type { WriteRequest } from "../collection/accept.ts";
import { type IndexDefinitions, IndexDefinitionsReader, readIndexDefinitions } from "../collection/apply.ts";
import type { CatalogEntry } from "../collection/catalog.ts";
import type { CollectionDefinition } from "../collection/definition.ts";
import { type Head, readHead } from "../collection/head.ts";
import { defineDenseIndex, defineSparseIndex, defineTextIndex } from "../collection/index-definition.ts";
import { type IndexedTransaction, indexedMs } from "../collection/indexed.ts";
import * as reading from "../collection/reading.ts";
import {
  checkId,
  encodeDelete,
  encodeUpsertInSteps,
  encodeUpsertsInSteps,
  type VectorWrite,
} from "../collection/schema.ts";
import { collectionTables, ordinalKey } from "../collection/tables.ts";
import {
  listTransactions,
  openTransaction,
  readTransaction,
  type TransactionEntry,
  transactionSequence,
} from "../collection/transaction.ts";
import { currentVersion, listVersions, readVersion, versionByHash } from "../collection/versions.ts";
import { HnswIndex } from "../index/hnsw/hnsw-index.ts";
import { building, CatchUp, indexing } from "../indexing/catch-up.ts";
import { keptSize } from "../indexing/keeper.ts";
import * as plan from "../query/plan.ts";
import { EffortTable, measureRecall } from "../query/recall.ts";
import { legDepth, runPlan } from "../query/search.ts";
import type { Builders } from "../runtime/builders.ts";
import { collectGarbage } from "../runtime/collect-garbage.ts";
import { type MemoryBudget, mib } from "../runtime/memory.ts";
import type { View } from "../runtime/view.ts";
import type { Writer } from "../runtime/writer.ts";
import { LmdbStore } from "../storage/lmdb.ts";
import type { Snapshot } from "../storage/store.ts";
import { type Analyzer, createAnalyzer } from "../text/analyzer.ts";
import { isRun, placesOfRun } from "../text/grams.ts";
import { segmentInSteps } from "../text/segment.ts";
import { compareInverted } from "./check/index-comparison.ts";
import { RunningCheck } from "./check/live.ts";
import type { Collection, CollectionStatistics, DatabaseLog, Transaction, VectorExport } from "./contract.ts";
import { RunningExport } from "./export.ts";
import { failingTasks, loggedBackground } from "./failing-tasks.ts";
import { checkpointPath, type FeedSurroundings, keptIndex, makeFeed } from "./feeds.ts";
import { Gate } from "./gate.ts";
import { type IndexSize, sizeToLoad } from "./index-size.ts";
import { flatStatusOf, type IndexingProgress, isoTime, stateOf } from "./transaction-status.ts";
import { Unserved } from "./unserved.ts";

/** What a collection needs from the house. */
export type CollectionSurroundings = {
  directory: string;
  writer: Writer;
  builders: Builders;
  memoryBudgetBytes: number | undefined;
  memory: MemoryBudget;
  log: DatabaseLog;
  clock(): number;
  /** Makes the collection's residence durable. */
  saveEntry(entry: CatalogEntry): Promise<void>;
  /** Runs a check, or refuses where another one runs. */
  checkAlone<T>(run: () => Promise<T>): Promise<T>;
  /** A collection was loaded or has grown: others may have to leave. */
  onMemoryUse(): void;
  /** One more export begins. @throws overloaded; to be called back when it ends */
  beginExport(): () => void;
};

export class OpenCollection implements Collection {
  readonly entry: CatalogEntry;
  readonly #around: CollectionSurroundings;
  readonly #store: LmdbStore;
  /** Everything that reads the store is inside; closing waits for it. */
  readonly #gate = new Gate();
  readonly #exports = new Set<RunningExport>();
  /** Work of other threads on the store. */
  readonly #workAside = new Set<AbortController>();
  readonly #checks = new Set<RunningCheck>();
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
  /** Of those, what the store is being told. */
  readonly #completing = new Set<string>();
  lastUsedMs: number;
  /** What the indexes take when they are loaded, and each further record; unknown until it is asked for. */
  #sizes: Map<IndexKind, IndexSize> | undefined;
  /** What was written since then to the unloaded collection will take, at most. */
  #grownBytes = 0;
  /** The newest version that was written here. */
  #writtenVersion = 0;
  /** The newest version that somebody was told of, as acknowledged or read: what begins now sees it, or a later one. */
  #toldVersion = 0;
  readonly #unserved = new Unserved();
  #closed: Promise<void> | null = null;
  readonly #background: Background;

  /** The writer has the store open already. Indexes are not in memory until `start`. */
  constructor(entry: CatalogEntry, around: CollectionSurroundings) {
    this.entry = entry;
    this.#around = around;
    this.#store = new LmdbStore(around.directory, collectionTables);
    this.lastUsedMs = around.clock();
    this.#background = loggedBackground(around.log, {
      collection: entry.definition.name,
      store: entry.internalId,
    });
    this.#read((snapshot, head) => {
      this.#toldVersion = head.version;
      for (const transaction of listTransactions(snapshot))
        if (transaction.state === "committed" && indexedMs(snapshot, transaction.sequence) === undefined)
          this.#indexingTransactions.set(transaction.id, transaction.version as number);
    });
  }

  /** To be called once, after opening. @param isLoaded whether the indexes come into memory */
  start(isLoaded: boolean): void {
    if (isLoaded) this.#startIndexes();
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

  /** Bytes that the indexes take, or will when they have all records. */
  get expectedBytes(): number {
    const catchUp = this.#catchUp;
    if (catchUp === null || !this.isOpen || !this.#isMemoryLimited) return this.memoryBytes;
    const isBehind = catchUp.watermark < this.#writtenVersion;
    const end = isBehind ? this.#read((_, head) => head.nextOrdinal) : 0;
    let bytes = 0;
    for (const [kind, size] of this.#knownSizes()) {
      const feed = catchUp.feed(kind);
      if (feed === undefined) continue;
      const { index, isBuilt, cursor } = feed;
      const records = isBuilt ? Math.max(0, end - cursor) : 0;
      const more = index.expectedBytes?.(records) ?? index.memoryBytes + records * size.recordBytes;
      bytes += isBuilt ? more : Math.max(more, size.bytes);
    }
    return bytes;
  }

  /** Bytes that loading the collection takes. */
  get bytesToLoad(): number {
    return sumOf(this.#measureSizes());
  }

  #knownSizes(): Map<IndexKind, IndexSize> {
    this.#sizes ??= this.#measureSizes();
    return this.#sizes;
  }

  #measureSizes(): Map<IndexKind, IndexSize> {
    return this.#read((snapshot, head) => {
      const definitions = readIndexDefinitions(snapshot);
      const kinds = Object.keys(definitions) as IndexKind[];
      return new Map(kinds.map((kind) => [kind, this.#sizeOf(kind, definitions, snapshot, head)]));
    });
  }

  #sizeOf(kind: IndexKind, definitions: IndexDefinitions, reader: Snapshot, head: Head): IndexSize {
    const { directory, builders } = this.#around;
    const sized = { reader, head, collection: this.#definition, definitions, areas: 1 + builders.width };
    const around = this.#feedSurroundings(null);
    const { configuration } = keptIndex(this.#definition, kind, definitions, around);
    return sizeToLoad(sized, kind, keptSize(checkpointPath(directory, kind), configuration));
  }

  /** Gives up so many bytes that the indexes can do without, or all there are. @returns how many */
  giveUp(bytes: number): number {
    const before = this.expectedBytes;
    this.#catchUp?.giveUp(bytes);
    this.#around.memory.changed();
    return before - this.expectedBytes;
  }

  /** There may be memory for what has waited for it. */
  retryPostponed(): void {
    const dense = this.#catchUp?.feed("dense")?.index;
    if (dense instanceof HnswIndex && dense.isPostponed) this.#catchUp?.wake();
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

  /**
   * Reads what searches see: the version that is served, where that is as new as what was told of. The newest one else, which is
   * told of with it.
   */
  #readServed<T>(read: (snapshot: Snapshot, head: Head) => T): T {
    this.#gate.assertOpen();
    const { snapshot, release } = this.#served();
    try {
      return read(snapshot, readHead(snapshot));
    } finally {
      release();
    }
  }

  /** The same for reads that take several turns. */
  #served(): { snapshot: Snapshot; release(): void } {
    const view = this.#catchUp?.viewAt(this.#toldVersion)?.pin();
    if (view) return { snapshot: view.snapshot, release: () => view.unpin() };
    const snapshot = this.#newest();
    return { snapshot, release: () => snapshot.release() };
  }

  /** The newest version, which is told of with that. */
  #newest(): Snapshot {
    const snapshot = this.#store.snapshot();
    try {
      this.#told(readHead(snapshot).version);
      return snapshot;
    } catch (error) {
      snapshot.release();
      throw error;
    }
  }

  #told(version: number): void {
    this.#toldVersion = Math.max(this.#toldVersion, version);
  }

  /**
   * Waits for memory of the process and of the collection.
   * @param indexBytes what indexes will take
   * @param passingBytes what is taken besides while it is done
   * @returns to be called when it is done
   * @throws memory_budget_exceeded
   */
  async #admit(what: string, indexBytes: number, passingBytes = 0): Promise<() => void> {
    const { memoryBudgetBytes } = this.#definition;
    if (memoryBudgetBytes !== undefined) {
      const tooMuch = this.expectedBytes + indexBytes - memoryBudgetBytes;
      if (tooMuch > 0) this.giveUp(tooMuch);
      const taken = this.expectedBytes;
      if (taken + indexBytes > memoryBudgetBytes)
        throw new QuiverError(
          "memory_budget_exceeded",
          `${what} needs about ${mib(indexBytes)}; the collection's memory budget is ${mib(memoryBudgetBytes)}, of which its indexes ` +
            `take ${mib(taken)}. Nothing was changed. Delete vectors or an index.`,
          {
            scope: "collection",
            needed_bytes: indexBytes,
            budget_bytes: memoryBudgetBytes,
            index_bytes: taken,
          },
        );
    }
    return this.#around.memory.admit({ what, indexBytes, passingBytes });
  }

  get #isMemoryLimited(): boolean {
    return this.#around.memory.isLimited || this.#definition.memoryBudgetBytes !== undefined;
  }

  /** Hands a write over that adds records, when there is memory for it. The deadline ends with the handing over. */
  async #writeRecords(
    request: WriteRequest,
    what: string,
    { records, bytes, passingBytes = 0 }: { records: number; bytes: number; passingBytes?: number },
    deadline: Deadline,
  ): Promise<{ version: number; value: unknown }> {
    const patience =
      request.kind === "commit" ? Deadline.of({ timeoutMs: limits.commitWaitMs }) : Deadline.none;
    if (!this.#isMemoryLimited) return this.#writeVersion(request, bytes, deadline, patience);
    const growth = this.#growthBy(records, bytes);
    if (!this.isLoaded) this.#refuseUnloadable(`${what} in the collection '${this.name}'`, growth);
    const indexBytes = this.isLoaded ? growth : 0;
    const done = await this.#admit(
      `${what} in the collection '${this.name}'`,
      indexBytes,
      bytes + passingBytes,
    );
    try {
      return await this.#writeVersion(request, bytes, deadline, patience);
    } finally {
      done();
    }
  }

  async #write(
    request: WriteRequest,
    deadline: Deadline = Deadline.none,
  ): Promise<{ version: number; value: unknown }> {
    this.#gate.assertOpen();
    deadline.check();
    const written = await this.#around.writer.write(this.entry.internalId, request);
    this.#writtenVersion = Math.max(this.#writtenVersion, written.version);
    this.#catchUp?.wake();
    return written;
  }

  /**
   * Makes a version. Resolves when the indexes serve it, so that searches need not wait for them, or when little is missing.
   * @param bytes of what is written
   * @param patience ends the waiting: what was written is acknowledged then, and searches wait for it. Not the caller's deadline:
   * one who gives up must not leave the waiting to others
   */
  async #writeVersion(
    request: WriteRequest,
    bytes: number,
    deadline: Deadline,
    patience = Deadline.none,
  ): Promise<{ version: number; value: unknown }> {
    const end = this.#unserved.begin(bytes);
    try {
      const written = await this.#write(request, deadline);
      end(written.version);
      const catchUp = this.#catchUp;
      const served = catchUp === null ? Number.POSITIVE_INFINITY : (catchUp.viewAt(0)?.version ?? -1);
      if (!this.#unserved.isLittle(served)) await catchUp?.published(written.version, patience);
      this.#told(written.version);
      return written;
    } catch (error) {
      end();
      throw error;
    }
  }

  /** Bytes that indexes take at most for so many records, of so many bytes as they are encoded. */
  #growthBy(records: number, bytes: number): number {
    const sizes = this.#knownSizes();
    const { dense, dimension } = this.#definition;
    let growth = records * (sizes.get("dense")?.recordBytes ?? 0);
    const others = Math.max(0, bytes - (dense ? 4 * (dimension as number) * records : 0));
    if (sizes.has("sparse")) growth += Math.max(records * (sizes.get("sparse")?.recordBytes ?? 0), others);
    if (sizes.has("tf-idf")) growth += Math.max(records * (sizes.get("tf-idf")?.recordBytes ?? 0), others);
    return Math.ceil(growth);
  }

  /** Refuses what would make the indexes of the unloaded collection larger than may be loaded. @throws memory_budget_exceeded */
  #refuseUnloadable(what: string, growth: number): void {
    const ofProcess = this.#around.memoryBudgetBytes ?? Number.POSITIVE_INFINITY;
    const ofCollection = this.#definition.memoryBudgetBytes ?? Number.POSITIVE_INFINITY;
    const budget = Math.min(ofProcess, ofCollection);
    if (this.#knownSizes().size === 0) return;
    if (sumOf(this.#knownSizes()) + this.#grownBytes + growth > budget) this.#forgetSizes();
    const taken = sumOf(this.#knownSizes()) + this.#grownBytes;
    if (taken + growth > budget)
      throw new QuiverError(
        "memory_budget_exceeded",
        `${what} needs about ${mib(growth)}; the collection's indexes, which are not loaded, need ${mib(taken)}, and with more than the ` +
          `memory budget of ${mib(budget)} they could not be loaded again. Nothing was changed. Delete vectors or an index, or ` +
          "give a larger budget.",
        {
          scope: ofCollection < ofProcess ? "collection" : "process",
          needed_bytes: growth,
          budget_bytes: budget,
          index_bytes: taken,
        },
      );
    this.#grownBytes += growth;
  }

  #forgetSizes(): void {
    this.#sizes = undefined;
    this.#grownBytes = 0;
  }

  #mayTake(bytes: number): boolean {
    const { memoryBudgetBytes = Number.POSITIVE_INFINITY } = this.#definition;
    return this.expectedBytes + bytes <= memoryBudgetBytes && this.#around.memory.leavesRoom(bytes);
  }

  // ---- Description, residence

  describe(): CollectionDetail {
    const { name, description, dense, dimension, sparse, text, storeRawText } = this.#definition;
    const { maxVectors, replicationFactor, memoryBudgetBytes } = this.#definition;
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
      vectors_count: this.#readServed((_, head) => head.live),
      loaded: this.isLoaded,
    };
  }

  statistics(): CollectionStatistics {
    const head = this.#readServed((_, current) => current);
    return {
      name: this.name,
      failing: failingTasks(this.#background),
      records: head.live,
      version: head.version,
      loaded: this.isLoaded,
      memoryBytes: this.memoryBytes,
      waitingWrites: this.#catchUp?.waitingWrites ?? 0,
      indexProgress: this.#catchUp?.progress(0, head.nextOrdinal) ?? 1,
      openTransaction: head.openTransaction !== 0,
      recall: this.#recall(),
    };
  }

  #recall(): CollectionStatistics["recall"] {
    const index = this.#catchUp?.feed("dense")?.index;
    if (!(index instanceof HnswIndex) || index.quality === undefined) return undefined;
    const { recall: at10, itself } = index.quality;
    return { at10, itself, readsAll: index.isReadingAll };
  }

  load(options?: CallOptions): Promise<CollectionDetail> {
    return this.#gate.pass(async () => {
      const deadline = Deadline.of(options);
      await deadline.race(this.#ensureLoaded(true));
      await deadline.race(this.indexed());
      return this.describe();
    });
  }

  unload(): Promise<void> {
    return this.#gate.pass(() =>
      this.#inTurn(async () => {
        if (!this.#catchUp) return;
        failpoint("unload:begin");
        await this.#saveResidence(false);
        failpoint("unload:noted");
        await this.#keepIndexes();
        failpoint("unload:kept");
        this.#catchUp?.stop(
          new QuiverError("shutting_down", "The collection was unloaded meanwhile; search again."),
        );
        this.#catchUp = null;
        this.#forgetSizes();
        this.#around.memory.changed();
        failpoint("unload:stopped");
        this.#completeTransactions(Number.POSITIVE_INFINITY);
        this.#background.once("collecting garbage", collectGarbage);
      }),
    );
  }

  /** @param mustLast whether it is an error when the residence cannot be made durable, as on a full disk */
  async #ensureLoaded(mustLast = false): Promise<CatchUp> {
    this.lastUsedMs = this.#around.clock();
    if (this.#catchUp) return this.#catchUp;
    return this.#inTurn(async () => {
      if (!this.#catchUp) {
        const admitted = this.#isMemoryLimited
          ? await this.#admit(`Loading the collection '${this.name}'`, this.bytesToLoad)
          : () => {};
        try {
          await this.#noteLoaded(mustLast);
          failpoint("load:noted");
          this.#gate.assertOpen();
          this.#startIndexes();
        } finally {
          admitted();
        }
      }
      return this.#catchUp as unknown as CatchUp;
    });
  }

  async #noteLoaded(mustLast: boolean): Promise<void> {
    try {
      await this.#saveResidence(true);
    } catch (error) {
      if (mustLast) throw error;
      this.#around.log.warn({ err: error }, "a collection that a search has loaded is not noted as loaded");
    }
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
    const events = {
      onComplete: (version: number) => {
        this.#completeTransactions(version);
        this.#around.onMemoryUse();
      },
    };
    const catchUp = new CatchUp(this.#store, events, this.#background, this.name);
    this.#catchUp = catchUp;
    this.#efforts = new EffortTable();
    this.#forgetSizes();
    const definitions = this.#read((snapshot) => readIndexDefinitions(snapshot));
    for (const kind of Object.keys(definitions) as IndexKind[])
      catchUp.add(makeFeed(this.#definition, kind, definitions, this.#feedSurroundings(catchUp)));
    catchUp.wake();
    this.#around.memory.changed();
  }

  /** @param catchUp that the feeds belong to; null: there will be none */
  #feedSurroundings(catchUp: CatchUp | null): FeedSurroundings {
    const { directory, builders, memoryBudgetBytes, log } = this.#around;
    return {
      directory,
      builders,
      memoryBudgetBytes,
      readVector: (ordinal) => this.#read((snapshot) => snapshot.get("dense", ordinalKey(ordinal))?.slice()),
      mayTake: (bytes) => this.#mayTake(bytes),
      onProgress: () => catchUp?.progressed(),
      onNotice: (notice) =>
        log.info(
          { collection: this.entry.definition.name, store: this.entry.internalId },
          `dense index: ${notice}`,
        ),
      wake: () => catchUp?.wake(),
      run: (act) => this.#background.once("analysing texts", act),
      onProblem: (what, problem) =>
        log.warn(
          { collection: this.entry.definition.name, store: this.entry.internalId, err: problem },
          what,
        ),
    };
  }

  /** Before indexes leave memory. What cannot be kept is built again from the records. */
  async #keepIndexes(): Promise<void> {
    for (const err of (await this.#catchUp?.keepLast()) ?? [])
      this.#around.log.warn(
        { collection: this.entry.definition.name, store: this.entry.internalId, err },
        "an index could not be kept on disk",
      );
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
  close(reason: QuiverError, isKept = true): Promise<void> {
    this.#closed ??= this.#close(reason, isKept);
    return this.#closed;
  }

  get isOpen(): boolean {
    return this.#closed === null;
  }

  async #close(reason: QuiverError, isKept: boolean): Promise<void> {
    this.#gate.close(reason);
    for (const exported of [...this.#exports]) exported.stop(reason);
    for (const work of this.#workAside) work.abort(reason);
    for (const check of this.#checks) check.stop(reason);
    if (isKept) await this.#keepIndexes();
    const catchUp = this.#catchUp;
    this.#catchUp = null;
    catchUp?.stop(reason);
    this.#background.stop();
    await catchUp?.written();
    await this.#gate.empty();
    await this.#residence;
    await this.#store.close();
  }

  // ---- Records

  upsert(vectors: readonly VectorWrite[], options?: CallOptions): Promise<void> {
    return this.#gate.pass(async () => {
      const deadline = Deadline.of(options);
      // What is encoded at once is handed over at once, before whoever asks can change his mind.
      const encoded = deadline.task.begin(encodeUpsertsInSteps(this.#definition, vectors, "vectors"));
      const batch = encoded instanceof Promise ? await encoded : encoded;
      if (batch.length === 0) return;
      const records = vectors.length;
      const admitted = this.#indexesTakeMore(records, deadline);
      if (admitted) await admitted;
      const size = { records, bytes: batch.length };
      await this.#writeRecords({ kind: "upsert", batch }, `Writing ${records} records`, size, deadline);
    });
  }

  /** Resolves when the indexes are not too far behind for a write; undefined: at once. What is unloaded has none to wait for. */
  #indexesTakeMore(records: number, deadline: Deadline): Promise<void> | undefined {
    const catchUp = this.#catchUp;
    return catchUp?.admitWrite(records, deadline)?.catch((error: unknown) => {
      this.#gate.assertOpen();
      if (!catchUp.isStopped) throw error;
    });
  }

  delete(id: string, options?: CallOptions): Promise<void> {
    return this.#gate.pass(async () => {
      checkId(id, "vector_id");
      const batch = encodeDelete(id);
      await this.#writeVersion({ kind: "delete", batch }, batch.length, Deadline.of(options));
    });
  }

  get(id: string): reading.StoredVector {
    checkId(id, "vector_id");
    return this.#readServed((snapshot) => reading.vectorById(snapshot, id));
  }

  has(id: string): boolean {
    checkId(id, "vector_id");
    return this.#readServed((snapshot) => reading.vectorExists(snapshot, id));
  }

  async byDocument(documentId: string, options?: CallOptions): Promise<reading.StoredVector[]> {
    const vectors: reading.StoredVector[] = [];
    await this.tellDocument(documentId, (vector) => vectors.push(vector), options);
    return vectors;
  }

  tellDocument(
    documentId: string,
    take: (vector: reading.StoredVector) => void,
    options?: CallOptions,
  ): Promise<void> {
    return this.#gate.pass(async () => {
      checkId(documentId, "document_id");
      const { snapshot, release } = this.#served();
      try {
        await Deadline.of(options).task.finish(reading.tellDocument(snapshot, documentId, take));
      } finally {
        release();
      }
    });
  }

  exportVectors(): VectorExport {
    this.#gate.assertOpen();
    // Not the snapshot of a view: a slow reader would keep what is removed meanwhile in the indexes.
    const snapshot = this.#newest();
    try {
      const end = this.#around.beginExport();
      const exported = new RunningExport(snapshot, () => {
        this.#exports.delete(exported);
        end();
      });
      this.#exports.add(exported);
      return exported;
    } catch (error) {
      snapshot.release();
      throw error;
    }
  }

  /** Lets another thread read the store. Closing the collection aborts the signal, and waits. */
  workAside<T>(work: (directory: string, signal: AbortSignal) => Promise<T>): Promise<T> {
    return this.#gate.pass(async () => {
      const controller = new AbortController();
      this.#workAside.add(controller);
      try {
        return await work(this.#around.directory, controller.signal);
      } finally {
        this.#workAside.delete(controller);
        if (this.isOpen) this.#newest().release();
      }
    });
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
        const definitions = { [index]: definition };
        const admitted = await this.#admitIndex(index, definitions);
        try {
          await this.#write({ kind: "createIndex", index, definition });
          failpoint("index:defined");
          const catchUp = this.#catchUp;
          if (catchUp)
            catchUp.add(makeFeed(this.#definition, index, definitions, this.#feedSurroundings(catchUp)));
          this.#forgetSizes();
          this.#around.memory.changed();
          if (index === "dense") this.#efforts = new EffortTable();
        } finally {
          admitted();
        }
      });
    });
  }

  async #admitIndex(index: IndexKind, definitions: IndexDefinitions): Promise<() => void> {
    if (!this.#isMemoryLimited) return () => {};
    const { bytes } = this.#read((snapshot, head) => this.#sizeOf(index, definitions, snapshot, head));
    if (!this.isLoaded) {
      this.#refuseUnloadable(`A ${index} index of the collection '${this.name}'`, bytes);
      return () => {};
    }
    return this.#admit(`A ${index} index of the collection '${this.name}'`, bytes);
  }

  deleteIndex(index: IndexKind): Promise<void> {
    return this.#gate.pass(() =>
      this.#inTurn(async () => {
        await this.#write({ kind: "deleteIndex", index });
        failpoint("index:undefined");
        this.#catchUp?.drop(index);
        this.#forgetSizes();
        this.#around.memory.changed();
        failpoint("index:dropped");
        this.#background.once("collecting garbage", collectGarbage);
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

  async analyzeText(request: AnalyzeText, options?: CallOptions): Promise<TextAnalysis> {
    refuseUnknownFields(AnalyzeText, request);
    const { text } = request;
    const { task } = Deadline.of(options);
    plan.checkText(text, "text");
    const definitions = this.#read((snapshot) => readIndexDefinitions(snapshot));
    requireIndexes(definitions, ["tf-idf"], this.name);
    const { language, stop_words } = definitions["tf-idf"] as TextIndex;
    const analyzer = createAnalyzer(language ?? "english", stop_words);
    const words = await task.finish(segmentInSteps(text));
    return { language: language ?? "english", terms: await task.finish(analyzeInSteps(analyzer, words)) };
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
      served_by: kind !== "dense" ? "inverted" : dense?.isReadingAll === false ? "hnsw" : "flat",
      records_indexed: indexed,
      records_total: total,
      ...(this.#failureOf(kind) !== undefined && { failure: this.#failureOf(kind) }),
      percentage_complete:
        feed === undefined ? 0 : isReady ? 100 : Math.floor(feed.progress(0, head.nextOrdinal) * 1000) / 10,
      watermark: Math.max(0, feed?.watermark ?? 0),
      memory_bytes: feed?.index.memoryBytes ?? 0,
      ...(dense && denseStatus(dense)),
    };
  }

  /** Why an index does not go on at present: its building, or the reading of what all are built from, fails. */
  #failureOf(kind: IndexKind): string | undefined {
    return failingTasks(this.#background).find(({ task }) => task === indexing || task === building(kind))
      ?.message;
  }

  // ---- Search

  searchDense(request: search.DenseSearch, options?: CallOptions): Promise<search.SearchResponse> {
    return this.#searchOne(() => plan.planDense(this.#definition, request), options);
  }

  searchBatchDense(
    request: search.BatchDenseSearch,
    options?: CallOptions,
  ): Promise<search.BatchSearchResponse> {
    return this.#search(() => plan.planBatchDense(this.#definition, request), options, "dense");
  }

  searchSparse(request: search.SparseSearch, options?: CallOptions): Promise<search.SearchResponse> {
    return this.#searchOne(() => plan.planSparse(this.#definition, request), options);
  }

  searchBatchSparse(
    request: search.BatchSparseSearch,
    options?: CallOptions,
  ): Promise<search.BatchSearchResponse> {
    return this.#search(() => plan.planBatchSparse(this.#definition, request), options, "sparse");
  }

  searchText(request: search.TextSearch, options?: CallOptions): Promise<search.SearchResponse> {
    return this.#searchOne(() => plan.planText(this.#definition, request), options);
  }

  searchBatchText(
    request: search.BatchTextSearch,
    options?: CallOptions,
  ): Promise<search.BatchSearchResponse> {
    return this.#search(() => plan.planBatchText(this.#definition, request), options, "tf-idf");
  }

  searchHybrid(request: search.HybridSearch, options?: CallOptions): Promise<search.SearchResponse> {
    return this.#searchOne(() => plan.planHybrid(this.#definition, request), options);
  }

  searchBatchHybrid(
    request: search.BatchHybridSearch,
    options?: CallOptions,
  ): Promise<search.BatchSearchResponse> {
    return this.#search(() => plan.planBatchHybrid(this.#definition, request), options);
  }

  async #searchOne(
    makePlan: () => plan.Plan | Steps<plan.Plan>,
    options: CallOptions | undefined,
  ): Promise<search.SearchResponse> {
    return (await this.#search(makePlan, options))[0];
  }

  /** @param kind the index that the endpoint is about, required even when there is no query */
  #search(
    makePlan: () => plan.Plan | Steps<plan.Plan>,
    options: CallOptions | undefined,
    kind?: IndexKind,
  ): Promise<search.SearchResponse[]> {
    return this.#gate.pass(async () => {
      const deadline = Deadline.of(options);
      const made = makePlan();
      const planned = { ...("queries" in made ? made : await deadline.task.finish(made)), deadline };
      plan.checkSize(planned);
      const kinds = plan.kindsOf(planned);
      if (kind && kinds.length === 0) kinds.push(kind);
      const recallTarget = this.#read((snapshot) => {
        const definitions = this.#indexDefinitions.read(snapshot);
        requireIndexes(definitions, kinds, this.name);
        return definitions.dense?.index.properties.recall_target;
      });
      const view = await this.#viewAt(this.#toldVersion, kinds, deadline);
      try {
        // The index of the view is asked, for another may have come into its place.
        if (view.indexes["tf-idf"]?.keepsPositions === false) plan.refusePhrases(planned);
        const ef = kinds.includes("dense")
          ? await deadline.race(this.#effortOf(planned.effort, legDepth(planned), view, recallTarget))
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

  measureRecall(
    options: Parameters<Collection["measureRecall"]>[0] = {},
    call?: CallOptions,
  ): Promise<Recall> {
    return this.#gate.pass(() => {
      const deadline = Deadline.of(call);
      const request = plan.planRecall(options);
      // One after another: each may ask thousands of exact searches.
      const measured = this.#recalls.then(() => this.#measureRecall(request, deadline));
      this.#recalls = measured.catch(() => undefined);
      return measured;
    });
  }

  async #measureRecall(
    { sample, topK, efSearch }: ReturnType<typeof plan.planRecall>,
    deadline: Deadline,
  ): Promise<Recall> {
    deadline.check();
    const recallTarget = this.#read((snapshot) => {
      const definitions = readIndexDefinitions(snapshot);
      requireIndexes(definitions, ["dense"], this.name);
      return definitions.dense?.index.properties.recall_target;
    });
    const view = await this.#viewAt(this.#toldVersion, ["dense"], deadline);
    try {
      const effort = { exact: false, efSearch: efSearch ?? null, recallTarget: null };
      const ef = await this.#effortOf(effort, topK, view, recallTarget);
      const measured = await measureRecall(view, sample, topK, ef, deadline);
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
  async #viewAt(version: number, kinds: readonly IndexKind[], deadline: Deadline): Promise<View> {
    for (;;) {
      deadline.check();
      const catchUp = await deadline.race(this.#ensureLoaded());
      // An index that was deleted while the collection was being loaded would never come into a view.
      this.#read((snapshot) => requireIndexes(this.#indexDefinitions.read(snapshot), kinds, this.name));
      try {
        return await catchUp.reach(version, kinds, deadline);
      } catch (error) {
        this.#gate.assertOpen();
        if (!catchUp.isStopped) throw error;
      }
    }
  }

  // ---- Check

  check(): Promise<CheckReport> {
    return this.#around.checkAlone(() => this.#check());
  }

  #check(): Promise<CheckReport> {
    return this.#gate.pass(async () => {
      // Before the snapshot: what the index has is then at most as new as the records that it is compared with.
      const denseImage = await this.#imageOfDense();
      const snapshot = this.#store.snapshot();
      const { directory } = this.#around;
      const running = new RunningCheck({
        kind: "collection",
        directory,
        definition: this.#definition,
        denseImage,
      });
      this.#checks.add(running);
      try {
        const findings: Finding[] = [];
        const find = (finding: Finding) => findings.push({ ...finding, collection: this.name });
        const [report, indexes] = await Promise.all([running.report, this.#compareIndexes(find)]);
        for (const collection of report.collections) collection.indexes.push(...indexes);
        return {
          ...report,
          findings: [...report.findings, ...findings].slice(0, limits.findingsMax),
          findings_total: report.findings_total + findings.length,
        };
      } finally {
        this.#checks.delete(running);
        running.stop(new QuiverError("internal", "The check was given up."));
        snapshot.release();
      }
    });
  }

  /** Compares the inverted indexes, where the collection is loaded. @returns their kinds */
  async #compareIndexes(find: (finding: Finding) => void): Promise<string[]> {
    const { version, kinds } = this.#read((snapshot, head) => ({
      version: head.version,
      kinds: (Object.keys(readIndexDefinitions(snapshot)) as IndexKind[]).filter((kind) => kind !== "dense"),
    }));
    const catchUp = this.#catchUp;
    if (catchUp === null || kinds.length === 0) return [];
    const unloaded = new QuiverError("not_ready", "The collection was unloaded meanwhile.");
    let view: View | undefined;
    try {
      view = await catchUp.reach(version, kinds);
      return await compareInverted(view, find, () => {
        if (catchUp.isStopped) throw unloaded;
      });
    } catch (error) {
      this.#gate.assertOpen();
      // What is unloaded has no indexes to compare, as if it had been so from the beginning.
      if (catchUp.isStopped) return [];
      throw error;
    } finally {
      view?.unpin();
    }
  }

  /** Writes the graphs in memory to a file for a check; undefined where there is none. */
  async #imageOfDense(): Promise<string | undefined> {
    const catchUp = this.#catchUp;
    const index = catchUp?.feed("dense")?.index;
    const definitions = this.#read((snapshot) => readIndexDefinitions(snapshot));
    if (!catchUp || !(index instanceof HnswIndex) || definitions.dense === undefined) return undefined;
    const { directory, builders } = this.#around;
    const around = this.#feedSurroundings(catchUp);
    const { configuration, form } = keptIndex<HnswIndex>(this.#definition, "dense", definitions, around);
    const { version, hash } = this.#read((_, head) => head);
    // Checks run one at a time; what a killed process leaves behind is overwritten by the next one.
    const path = `${checkpointPath(directory, "dense")}.check`;
    let isWritten = false;
    const write = async (state: unknown, images: readonly Uint8Array[]) => {
      await builders.save(path, { configuration, version, hash: toHex(hash) }, state, images);
      isWritten = true;
      return false;
    };
    await form.save(index, write, false);
    return isWritten ? path : undefined;
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
      add: (vector, options) =>
        this.#stage(transactionId, () => encodeUpsertInSteps(this.#definition, vector), options),
      upsert: (vectors, options) =>
        this.#stage(transactionId, () => encodeUpsertsInSteps(this.#definition, vectors, "vectors"), options),
      delete: (id, options) => this.#stageDelete(transactionId, id, options),
      commit: (options) => this.#commit(transactionId, options),
      abort: (options) =>
        this.#gate.pass(async () => {
          await this.#write({ kind: "abort", transactionId }, Deadline.of(options));
        }),
      status: () => this.#status(transactionId),
      flatStatus: () => this.#flatStatus(transactionId),
    };
  }

  #stage(transactionId: string, encode: () => Steps<Uint8Array>, options?: CallOptions): Promise<void> {
    return this.#gate.pass(async () => {
      const deadline = Deadline.of(options);
      const encoded = deadline.task.begin(encode());
      const batch = encoded instanceof Promise ? await encoded : encoded;
      // What is staged is on disk only; its commit is what takes memory.
      const done = this.#isMemoryLimited ? await this.#admit("Staging records", 0, batch.length) : () => {};
      try {
        await this.#write({ kind: "stage", transactionId, batch }, deadline);
      } finally {
        done();
      }
    });
  }

  #stageDelete(transactionId: string, id: string, options?: CallOptions): Promise<void> {
    return this.#gate.pass(async () => {
      checkId(id, "vector_id");
      const batch = encodeDelete(id);
      await this.#write({ kind: "stage", transactionId, batch }, Deadline.of(options));
    });
  }

  #commit(transactionId: string, options?: CallOptions): Promise<void> {
    return this.#gate.pass(async () => {
      const deadline = Deadline.of(options);
      const { value } = await this.#writeRecords(
        { kind: "commit", transactionId },
        "The commit of a transaction",
        this.#stagedSize(transactionId),
        deadline,
      );
      this.#indexingTransactions.set(transactionId, (value as TransactionEntry).version as number);
      this.#forgetTransactions();
      this.#completeTransactions(this.#catchUp ? this.#catchUp.completed : Number.POSITIVE_INFINITY);
    });
  }

  /** What a commit will add, and take while it is applied: the pages that it changes, up to a bound of the store. */
  #stagedSize(transactionId: string): { records: number; bytes: number; passingBytes: number } {
    const { staged, stagedBytes = 0 } = this.#read((snapshot) => readTransaction(snapshot, transactionId));
    return { records: staged, bytes: stagedBytes, passingBytes: Math.min(stagedBytes, commitBytesMax) };
  }

  /** Transactions that the store has forgotten need no status any more. */
  #forgetTransactions(): void {
    for (const notes of [this.#indexingTransactions, this.#completedMs])
      for (const id of notes.keys()) {
        if (notes.size <= limits.transactionsKept) break;
        notes.delete(id);
      }
  }

  transactions(): TransactionList {
    const now = this.#around.clock();
    return this.#read((snapshot) => ({
      transactions: listTransactions(snapshot).map((kept) => {
        const entry = this.#asTold(kept);
        return {
          transaction_id: entry.id,
          created_at: isoTime(entry.createdMs),
          status: stateOf(entry, this.#progressOf(entry, snapshot), now),
        };
      }),
    }));
  }

  #status(transactionId: string): TransactionStatus {
    return this.#read((snapshot) => {
      const entry = this.#asTold(readTransaction(snapshot, transactionId));
      return { status: stateOf(entry, this.#progressOf(entry, snapshot), this.#around.clock()) };
    });
  }

  #flatStatus(transactionId: string): FlatTransactionStatus {
    return this.#read((snapshot) => {
      const entry = this.#asTold(readTransaction(snapshot, transactionId));
      return flatStatusOf(entry, this.#progressOf(entry, snapshot), this.#around.clock());
    });
  }

  /** A transaction is open until its commit is acknowledged, or seen by searches. */
  #asTold(entry: TransactionEntry): TransactionEntry {
    if (entry.version === undefined || entry.version <= this.#toldVersion) return entry;
    if (this.#catchUp === null || this.#catchUp.viewAt(entry.version) !== null) {
      this.#told(entry.version);
      return entry;
    }
    const { version: _, committedMs: __, ...rest } = entry;
    return { ...rest, state: "open" };
  }

  #progressOf(entry: TransactionEntry, snapshot: Snapshot): IndexingProgress | null {
    if (entry.state !== "committed") return null;
    const completedMs = indexedMs(snapshot, entry.sequence) ?? this.#completedMs.get(entry.id);
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
    }
    if (this.#completedMs.size > this.#completing.size)
      this.#background.run("noting that transactions are indexed", () => this.#noteCompleted());
  }

  /** Notes it in the store. Where that fails, nothing is lost: the next start finds the transactions not noted, and notes them again. */
  async #noteCompleted(): Promise<void> {
    const noting = [...this.#completedMs].filter(([id]) => !this.#completing.has(id));
    const transactions = noting.map(
      ([id, completedMs]): IndexedTransaction => [transactionSequence(id), completedMs],
    );
    for (const [id] of noting) this.#completing.add(id);
    try {
      await this.#around.writer.write(this.entry.internalId, { kind: "noteIndexed", transactions });
      for (const [id] of noting) this.#completedMs.delete(id);
    } finally {
      for (const [id] of noting) this.#completing.delete(id);
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
    refuseUnknownOptions(page, ["limit", "before"]);
    return this.#readServed((snapshot) => listVersions(snapshot, page));
  }

  currentVersion(): Version {
    return this.#readServed((snapshot) => currentVersion(snapshot));
  }

  version(hash: string): Version {
    return this.#readServed((snapshot) => versionByHash(snapshot, hash));
  }
}

const sumOf = (sizes: ReadonlyMap<IndexKind, IndexSize>): number =>
  [...sizes.values()].reduce((sum, { bytes }) => sum + bytes, 0);

/** What the store keeps of changed pages in memory during one write, at most: measured with commits of up to 16 GB. */
const commitBytesMax = 1.5 * 2 ** 30;

/** Words that are analysed at a step. */
const wordsPerStep = 1_024;

function* analyzeInSteps(analyzer: Analyzer, words: readonly string[]): Steps<TextAnalysis["terms"]> {
  const terms: TextAnalysis["terms"] = [];
  let place = 0;
  for (let from = 0; from < words.length; from += wordsPerStep) {
    const some = words.slice(from, from + wordsPerStep);
    for (const each of analyzer.analyze(some)) terms.push({ ...each, position: place + each.position });
    for (const word of some) place += isRun(word) ? placesOfRun(word) : 1;
    yield;
  }
  return terms;
}

function denseStatus(index: HnswIndex): Partial<IndexStatus> {
  const { encoding, quality } = index;
  return {
    ...(encoding && { data_type: encoding.dataType, data_type_reason: encoding.reason }),
    ...(encoding?.clampedShare !== undefined && { clamped_share: encoding.clampedShare }),
    ...(index.successorType && { next_data_type: index.successorType }),
    distinct_vectors: index.vectorCount,
    ...(!index.isReadingAll && { ef_search_effective: index.efDefault }),
    ...(quality && {
      recall: {
        recall_at_10: quality.recall,
        finds_itself: quality.itself,
        lost_by_codes: quality.codeLoss,
        ef_search: quality.ef,
        queries: quality.queries,
        vectors: quality.count,
      },
    }),
    records_in_tail: index.tailCount,
    graphs: index.partitionCount,
    graph_bytes: index.graphBytes,
    ...(index.effort && { recall_table_records: index.effort.count }),
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
