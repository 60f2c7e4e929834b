// A collection that is open: this file creates its parts (collection/*.ts), describes it, and closes it. The calls of the parts are the
// contract's `Collection` (collection-calls.ts).

import { isQuiverError, QuiverError } from "@quiverdb/protocol/errors";
import type { CollectionDetail, MergeCollection, Merged } from "@quiverdb/protocol/shapes/collection";
import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import { type CallLimits, type CallOptions, Deadline } from "../base/deadline.ts";
import type { CatalogEntry } from "../collection/definition.ts";
import type { HistoryPolicy, When } from "../collection/history.ts";
import type { KeyFilter } from "../collection/key-filter.ts";
import { type Place, readPlace } from "../collection/place.ts";
import type { VersionEntry } from "../collection/versions.ts";
import { kindNames } from "../index/registry.ts";
import { directoryBytes } from "../process/data-directory.ts";
import type { ReadTransaction } from "../storage/store.ts";
import { Changes } from "./collection/changes.ts";
import { Checks } from "./collection/checks.ts";
import { EarlierVersions } from "./collection/earlier-versions.ts";
import type { ExactVersions } from "./collection/exact-versions.ts";
import { IndexAdministration } from "./collection/indexes.ts";
import { LoadState } from "./collection/load-state.ts";
import { Matches } from "./collection/matches.ts";
import { CollectionMemory } from "./collection/memory.ts";
import { Merging } from "./collection/merging.ts";
import { Records } from "./collection/records.ts";
import { Searches } from "./collection/searches.ts";
import { type CollectionDependencies, CollectionState } from "./collection/state.ts";
import { Transactions } from "./collection/transactions.ts";
import { updaterDependencies } from "./collection/updater-dependencies.ts";
import { Writes } from "./collection/writes.ts";
import {
  type CollectionCalls,
  type CollectionParts,
  collectionCalls,
  type RestrictedCalls,
  restrictedCalls,
} from "./collection-calls.ts";
import type { CollectionStatistics } from "./contract.ts";
import { failingTasks } from "./failing-tasks.ts";
import type { ShardCall } from "./shards/call.ts";
import { runInShard } from "./shards/shard.ts";
import type { AcquiredView, Attachable, PostedMatches } from "./threads/messages.ts";

/** How long a boundary of the log waits for the indexes. */
const boundaryMs = 250;

export class OpenCollection {
  readonly #state: CollectionState;
  readonly #memory: CollectionMemory;
  readonly #parts: CollectionParts;
  /** What a caller can do who sees all of it. */
  readonly calls: CollectionCalls;
  #closed: Promise<void> | null = null;

  /** The writer must have opened the store. The indexes are not loaded until `start`. */
  constructor(entry: CatalogEntry, dependencies: CollectionDependencies) {
    const state = new CollectionState(entry, dependencies);
    this.#state = state;
    this.#memory = new CollectionMemory(
      state,
      updaterDependencies(state, undefined, () => null),
    );
    const writes = new Writes(state, this.#memory);
    const transactions = new Transactions(state, this.#memory, writes);
    const records = new Records(state);
    const forgetRecall = () => this.#parts.searches.forgetRecall();
    const load = new LoadState(state, this.#memory, {
      onLoading: forgetRecall,
      onIndexed: (version) => transactions.completeTransactions(version),
      onUnloaded: () => transactions.completeTransactions(Number.POSITIVE_INFINITY),
    });
    this.#parts = {
      state,
      load,
      writes,
      records,
      matches: new Matches(state),
      indexes: new IndexAdministration(state, this.#memory, load, writes, forgetRecall),
      searches: new Searches(state, load),
      checks: new Checks(state),
      transactions,
      changes: new Changes(state),
      merging: new Merging(state, writes),
      earlier: new EarlierVersions(state, records, writes, () => this.calls),
      describe: () => this.#describe(),
    };
    this.calls = collectionCalls(this.#parts);
  }

  /** Call it once, after opening. @param isLoaded whether to load the indexes */
  start(isLoaded: boolean): void {
    if (isLoaded) this.#parts.load.startIndexes();
    else this.#parts.transactions.completeTransactions(Number.POSITIVE_INFINITY);
  }

  get entry(): CatalogEntry {
    return this.#state.entry;
  }

  /** In the catalog. */
  get name(): string {
    return this.entry.definition.name;
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
    return this.#parts.load.lastUsedMs;
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

  async #describe(): Promise<CollectionDetail> {
    const { internalId: _, ...origin } = this.#state.definition.origin ?? {};
    const { description, dense, dimension, sparse, text, storeRawText } = this.#state.definition;
    const { maxVectors, replicationFactor, memoryBudgetBytes, shards } = this.#state.definition;
    const history = this.#parts.earlier.policy;
    return {
      name: this.#state.name,
      ...(description !== undefined && { description }),
      dense_vector: { enabled: dense, dimension },
      sparse_vector: { enabled: sparse },
      tf_idf_options: { enabled: text },
      config: {
        max_vectors: maxVectors,
        replication_factor: replicationFactor,
        ...(history !== undefined && { history }),
        ...(memoryBudgetBytes !== undefined && { memory_budget_bytes: memoryBudgetBytes }),
        ...(shards !== undefined && { shards }),
      },
      store_raw_text: storeRawText,
      ...("name" in origin && { origin }),
      vectors_count: this.#state.readServed((_, head) => head.live),
      loaded: this.#state.isLoaded,
      disk_bytes: await this.diskBytes(),
    };
  }

  /** Bytes that its files take on the disk: the store, the operations of an open transaction, and the checkpoints of its indexes. */
  diskBytes(): Promise<number> {
    return directoryBytes(this.#state.dependencies.directory);
  }

  /** Bytes of the file of its store. */
  get storeBytes(): number {
    return this.#state.store.sizeBytes();
  }

  statistics(): CollectionStatistics {
    const head = this.#state.readServed((_, current) => current);
    return {
      name: this.name,
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

  /** The collection for a caller who sees only some records. */
  restrictedTo(keyFilter: KeyFilter): RestrictedCalls {
    return restrictedCalls(this.#parts, keyFilter);
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
    this.#state.wakeReaders();
    this.#parts.records.stop(reason);
    this.#parts.checks.stop(reason);
    if (isKept) {
      await this.#parts.load.checkpointIndexes();
      await this.#parts.transactions.note();
    }
    const { indexer } = this.#state;
    this.#state.indexer = null;
    indexer?.stop(reason);
    background.stop();
    await indexer?.written();
    await gate.empty();
    await this.#parts.load.settled();
    this.#state.exact.stop();
    await this.#state.dependencies.closeInThreads(this.#state.entry.internalId);
    await store.close();
  }

  /** Runs work that reads the store in another thread. Closing the collection aborts the signal, and waits for the work. */
  workAside<T>(work: (directory: string, signal: AbortSignal) => Promise<T>): Promise<T> {
    return this.#parts.records.workAside(work);
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
    filters: readonly object[] = [],
  ): Promise<AcquiredView> {
    return this.#state.gate.pass(async () => {
      const deadline = Deadline.of(options);
      const view = await this.#parts.searches.acquireView(needed, deadline);
      try {
        const definitions = this.#parts.searches.indexDefinitions(view.readTxn);
        // First: if fields are declared meanwhile, the thread sees that what it got is from before.
        const shared = view.shared;
        const posted = { view: shared, definitions, board: this.#state.indexer?.boardOf(shared) };
        const matching: PostedMatches[] = [];
        for (const filter of filters) {
          const { set, isWarned } = await deadline.task.finish(this.#parts.searches.matching(view, filter));
          matching.push({ set: set.shared, isWarned });
        }
        return { posted, matching, release: () => view.unpin() };
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

  // ---- As a shard

  /** For the collection whose shard it is. */
  get parts(): CollectionParts {
    return this.#parts;
  }

  /** Versions at which all shards can be asked. */
  get exact(): ExactVersions {
    return this.#state.exact;
  }

  /** What was applied so far ends at a boundary: it is kept as a state, once searches can see it. */
  async reachBoundary(): Promise<void> {
    const version = this.#state.writtenVersion;
    // An index that fails, or takes long, does not hold up the log: then there is one state less to search.
    await this.#state.indexer?.published(version, Deadline.of({ timeoutMs: boundaryMs }));
    const { isOpen, indexer, exact } = this.#state;
    if (isOpen && (indexer === null || indexer.viewAt(version) !== null)) exact.keepBoundary();
  }

  /** Answers its collection. */
  async ask(call: ShardCall, limits: CallLimits): Promise<unknown> {
    try {
      return await runInShard(this.#parts, call, limits);
    } catch (error) {
      if (!isQuiverError(error, "data_corrupted")) throw error;
      const { code, message, details } = error;
      throw new QuiverError(code, message, { ...details, shard: this.entry.internalId }, { cause: error });
    }
  }

  // ---- As a replica

  /** How far in the replicated log its store is. */
  get place(): Place {
    return this.#state.read((readTxn) => readPlace(readTxn));
  }

  /**
   * The replicated log has written a version, defined or deleted indexes, and committed transactions of other nodes.
   * @param definedPosition the last at which any node has defined or deleted an index; 0: none
   */
  followed(
    definedPosition: number,
    version: number,
    indexes: readonly IndexKind[],
    committed: readonly (readonly [id: string, version: number])[],
  ): void {
    if (definedPosition > 0) this.#state.definedPosition = definedPosition;
    this.#state.wrote(version);
    this.#parts.earlier.mayHaveHistory();
    for (const [id, at] of committed) this.#parts.transactions.committed(id, at);
    for (const kind of indexes)
      this.#parts.indexes.follow(kind).catch((err: unknown) => {
        if (this.isOpen)
          this.#state.dependencies.log.error({ ...this.#state.logged, err }, "an index was not followed");
      });
  }

  get isExporting(): boolean {
    return this.#parts.records.isExporting;
  }

  holdWrites(ms: number): void {
    this.#state.holdWrites(ms);
  }

  /** Every later read sees what was written so far. */
  see(): void {
    this.#state.markSeen(this.#state.writtenVersion);
  }

  /** Reads one state of its store, until `release`. */
  beginRead(): ReadTransaction {
    return this.#state.store.beginRead();
  }

  /** The version that is asked for, and how far back versions are kept. @throws version_gone, version_not_found, tag_not_found */
  versionAt(when: When): { version: VersionEntry; history: HistoryPolicy | null } {
    const { earlier } = this.#parts;
    return { version: earlier.entryAt(when), history: earlier.policy ?? null };
  }

  /** Takes over what a copy of it has changed, as one version. @throws merge_conflict */
  merge(copy: OpenCollection, request: MergeCollection, options?: CallOptions): Promise<Merged> {
    return this.#parts.merging.merge(copy.#state, request, options);
  }

  /** Removes what earlier versions had that nobody can read any more. */
  vacuum(): Promise<void> {
    return this.#parts.earlier.vacuum();
  }

  /** Aborts the open transaction when its last operation is older than the limit. */
  abortIdleTransaction(idleMs: number): Promise<void> {
    return this.#parts.transactions.abortIdleTransaction(idleMs);
  }
}
