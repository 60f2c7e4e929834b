// What do all parts of an open collection share?
//
// Its catalog entry, its store, its gate, and the indexer while it is loaded. This file also decides which version a read sees: a version
// that was acknowledged or returned once is visible to every later read.

import { isQuiverError, type QuiverError } from "@quiverdb/protocol/errors";
import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import type { Background } from "../../base/background.ts";
import type { CallLimits, Deadline } from "../../base/deadline.ts";
import { invariant } from "../../base/invariant.ts";
import type { LoggedRequest } from "../../collection/accept.ts";
import { type IndexDefinitions, readIndexDefinitions } from "../../collection/apply.ts";
import { type CatalogEntry, type CollectionDefinition, nameOf } from "../../collection/definition.ts";
import { type Head, readHead } from "../../collection/head.ts";
import { collectionTables } from "../../collection/tables.ts";
import type { VersionEntry } from "../../collection/versions.ts";
import { type IsTime, timesOf } from "../../filter/filter.ts";
import type { Indexer } from "../../indexing/indexer.ts";
import type { MemoryBudget } from "../../process/memory.ts";
import type { FilteredVersion } from "../../query/filter/matching.ts";
import type { BuilderThreads } from "../../runtime/builders.ts";
import type { Writer, Written } from "../../runtime/writer.ts";
import { LmdbStore } from "../../storage/lmdb.ts";
import type { ReadTransaction } from "../../storage/store.ts";
import type { Collection, DatabaseLog } from "../contract.ts";
import { loggedBackground } from "../failing-tasks.ts";
import type { ShardCall } from "../shards/call.ts";
import { SharedState } from "../threads/messages.ts";
import { ExactVersions } from "./exact-versions.ts";

/** What a collection needs from its database. */
export type CollectionDependencies = {
  directory: string;
  /** Of this node alone. */
  writer: Writer;
  /** Orders what is written: the writer, or the log of a cluster. */
  write(internalId: string, request: LoggedRequest): Promise<Written>;
  builders: BuilderThreads;
  memoryBudgetBytes: number | undefined;
  memory: MemoryBudget;
  /** Of the data directory; cursors are encrypted with it. */
  secret(): Uint8Array;
  log: DatabaseLog;
  clock(): number;
  /** Runs `act` with an earlier version of a collection, as a collection that nobody writes. */
  atVersion<T>(of: CatalogEntry, version: VersionEntry, act: (calls: Collection) => Promise<T>): Promise<T>;
  /** Asks an earlier version of a shard, opened likewise. */
  askAtVersion(
    of: CatalogEntry,
    version: VersionEntry,
    call: ShardCall,
    limits: CallLimits,
  ): Promise<unknown>;
  /** The state of another open collection, by its internal id: a `CollectionState`. */
  stateOf(internalId: string): object | undefined;
  /** Makes the load state durable. */
  saveEntry(entry: CatalogEntry): Promise<void>;
  /** Runs a check, or rejects while another one runs. */
  checkAlone<T>(run: () => Promise<T>): Promise<T>;
  /** A collection was loaded or has grown: others may have to be unloaded. */
  onMemoryUse(): void;
  /** Starts an export. @param share 1 of a whole collection, less of a shard. @returns a function that ends it. @throws overloaded */
  beginExport(share: number): () => void;
  /** Serving threads that may search, at most. */
  readonly readerSlots: number;
  /** How long a search waits for an index that lags. */
  readonly indexWaitMs: number;
  /** Resolves when no serving thread has the store open. */
  closeInThreads(internalId: string): Promise<void>;
};

export class CollectionState {
  readonly entry: CatalogEntry;
  readonly dependencies: CollectionDependencies;
  readonly store: LmdbStore;
  /** Every call that reads the store passes through it; closing waits for them. */
  readonly gate = new Gate();
  readonly background: Background;
  /** Null while the collection is not loaded. Only load-state.ts sets it. */
  indexer: Indexer | null = null;
  /** The newest version that this process has written. */
  writtenVersion = 0;
  /** Of a replicated log: what the store has applied at least, and where indexes were defined or deleted last. */
  appliedPosition = 0;
  definedPosition = 0;
  /** The definitions of indexes; undefined after a change, until they are read. A read transaction for each search would cost 10 µs. */
  definitions: Readonly<IndexDefinitions> | undefined;
  /** What other shards of the collection may ask for. */
  readonly exact = new ExactVersions(this);
  /** What serving threads know without asking. */
  readonly shared = new SharedState();
  #seenVersion = 0;
  /** Until when writes wait. */
  #heldUntilMs = 0;
  readonly #waiting = new Set<() => void>();
  isOpen = true;

  /** The writer must have opened the store. */
  constructor(entry: CatalogEntry, dependencies: CollectionDependencies) {
    this.entry = entry;
    this.dependencies = dependencies;
    this.store = new LmdbStore(dependencies.directory, collectionTables);
    this.background = loggedBackground(dependencies.log, this.logged);
    this.markSeen(this.read((_, head) => head.version));
  }

  /** Of the collection, also where this is one of its shards. */
  get name(): string {
    return nameOf(this.definition);
  }

  get definition(): CollectionDefinition {
    return this.entry.definition;
  }

  get isLoaded(): boolean {
    return this.indexer !== null;
  }

  /** A version was written: the indexes follow. */
  wrote(version: number): void {
    this.writtenVersion = Math.max(this.writtenVersion, version);
    this.wakeReaders();
    this.indexer?.wake();
  }

  /** Those who wait for a write look again. */
  wakeReaders(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const wake of waiting) wake();
  }

  /** Resolves at the next write, at the end of the collection, or after so long. @throws what aborts the deadline */
  async nextWrite(ms: number, deadline: Deadline): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.add(resolve);
    const timer = setTimeout(resolve, ms);
    try {
      await deadline.race(promise);
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(resolve);
    }
  }

  /** Writes wait for so long, that a change of several shards is not overtaken again. @param ms 0: no longer */
  holdWrites(ms: number): void {
    this.#heldUntilMs = ms === 0 ? 0 : performance.now() + ms;
    this.wakeReaders();
  }

  get isHeld(): boolean {
    return performance.now() < this.#heldUntilMs;
  }

  /** Resolves when writes wait no longer. */
  async unheld(deadline: Deadline): Promise<void> {
    while (this.isHeld && this.isOpen) await this.nextWrite(this.#heldUntilMs - performance.now(), deadline);
    this.gate.assertOpen();
  }

  /** Fields of log lines. */
  get logged(): { collection: string; store: string } {
    return { collection: this.name, store: this.entry.internalId };
  }

  read<T>(read: (readTxn: ReadTransaction, head: Head) => T): T {
    this.gate.assertOpen();
    const readTxn = this.store.beginRead();
    try {
      return read(readTxn, readHead(readTxn));
    } finally {
      readTxn.release();
    }
  }

  /**
   * Reads the version of the current view, if that is new enough, so that reads and searches agree. Otherwise reads the newest version.
   */
  readServed<T>(read: (readTxn: ReadTransaction, head: Head) => T): T {
    this.gate.assertOpen();
    const { readTxn, release } = this.served();
    try {
      return read(readTxn, readHead(readTxn));
    } finally {
      release();
    }
  }

  /** The same for reads that take several turns of the event loop. @param atVersion as `filtered` */
  served(atVersion?: number): { readTxn: ReadTransaction; release(): void } {
    if (atVersion !== undefined) return { ...this.#exactly(atVersion), release: () => undefined };
    const view = this.indexer?.viewAt(this.seenVersion)?.pin();
    if (view) return { readTxn: view.readTxn, release: () => view.unpin() };
    const readTxn = this.newest();
    return { readTxn, release: () => readTxn.release() };
  }

  /**
   * What `served` gives, with the indexes of the view, if it is one, for filters.
   * @param atVersion one that is in use (exact-versions.ts); undefined: the one that is served
   */
  filtered(atVersion?: number): {
    version: FilteredVersion;
    definitions: IndexDefinitions;
    live: number;
    release(): void;
  } {
    const exact = atVersion === undefined ? undefined : this.#exactly(atVersion);
    const view = exact ? exact.view?.pin() : this.indexer?.viewAt(this.seenVersion)?.pin();
    const readTxn = view?.readTxn ?? exact?.readTxn ?? this.newest();
    const release = () => (view ? view.unpin() : exact ? undefined : readTxn.release());
    try {
      const { nextOrdinal, live } = readHead(readTxn);
      const definitions = this.read((newest) => readIndexDefinitions(newest));
      return { version: view ?? { readTxn, ordinalEnd: nextOrdinal }, definitions, live, release };
    } catch (error) {
      release();
      throw error;
    }
  }

  #exactly(version: number) {
    const kept = this.exact.get(version);
    invariant(kept !== undefined, `version ${version} is read, and not in use`);
    return kept;
  }

  /** Which fields are declared as times now. */
  isTime(): IsTime {
    return timesOf(this.read((newest) => readIndexDefinitions(newest)));
  }

  /** The newest version; later reads see it, too. */
  newest(): ReadTransaction {
    const readTxn = this.store.beginRead();
    try {
      this.markSeen(readHead(readTxn).version);
      return readTxn;
    } catch (error) {
      readTxn.release();
      throw error;
    }
  }

  /** The newest version that was acknowledged or returned to any client. Every new read sees it, or a later one. */
  get seenVersion(): number {
    return this.#seenVersion;
  }

  markSeen(version: number): void {
    if (version <= this.#seenVersion) return;
    this.#seenVersion = version;
    this.shared.seenVersion = version;
  }

  /** Resolves when the indexes have all records that exist now. */
  async indexed(): Promise<void> {
    for (;;) {
      const { head, kinds } = this.read((readTxn, current) => ({
        head: current,
        kinds: Object.keys(readIndexDefinitions(readTxn)) as IndexKind[],
      }));
      const indexer = this.indexer;
      if (!indexer) return;
      try {
        (await indexer.acquireView(head.version, kinds)).unpin();
        return;
      } catch (error) {
        // After an unload there is nothing to wait for. After the deletion of one index, wait for the others.
        if (!indexer.isStopped && !isQuiverError(error, "index_not_found")) throw error;
      }
    }
  }
}

// ---- Which calls still use a collection?
//
// The store of a collection may be closed only when nothing reads it. Every call that takes longer than one turn of the event loop passes
// through the gate. Closing the gate rejects new calls and waits for running ones.

class Gate {
  #inside = 0;
  #closedBy: QuiverError | null = null;
  #onEmpty: (() => void) | null = null;

  get count(): number {
    return this.#inside;
  }

  /** @throws why it was closed */
  assertOpen(): void {
    if (this.#closedBy) throw this.#closedBy;
  }

  /** Runs `act`. Rejects with the reason when the gate is closed. */
  async pass<T>(act: () => Promise<T>): Promise<T> {
    this.assertOpen();
    this.#inside++;
    try {
      return await act();
    } finally {
      if (--this.#inside === 0) this.#onEmpty?.();
    }
  }

  close(reason: QuiverError): void {
    this.#closedBy ??= reason;
  }

  /** Resolves when no call is running. */
  async empty(): Promise<void> {
    if (this.#inside === 0) return;
    await new Promise<void>((resolve) => {
      this.#onEmpty = resolve;
    });
  }
}
