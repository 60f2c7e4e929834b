// How is a database opened, and how is it closed?
//
// open    lock the data directory -> start the writer -> read the catalog -> remove what interrupted creations
//         and deletions left -> open every collection -> the loaded ones catch up in the background
// create  make and sync the store -> write the catalog entry: from now on the collection exists
// delete  remove the catalog entry: from now on the collection is gone -> stop indexing and searches, close the stores, remove the directory
// restore make a store from snapshots -> write the catalog entry: from now on the name means the new store -> remove the old one
// close   reject new calls, wait for running ones, stop the writer after its last write, release the lock
//
// One file: it makes the parts (collections.ts, restores.ts, reopening.ts, memory-balance.ts) and has the calls that concern them all.

import "../runtime/node-host.ts";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { QuiverError } from "@quiver/protocol/errors";
import { refuseUnknownOptions } from "@quiver/protocol/fields";
import { limits } from "@quiver/protocol/limits";
import type { Finding } from "@quiver/protocol/shapes/check";
import type {
  CollectionCreated,
  CollectionSummary,
  CreateCollection,
} from "@quiver/protocol/shapes/collection";
import { kinds } from "@quiver/protocol/shapes/index-definition";
import type { RestoreCollection, RestoredCollection, Snapshot } from "@quiver/protocol/shapes/snapshot";
import type { Background } from "../base/background.ts";
import { failpoint } from "../base/failpoint.ts";
import {
  type CatalogEntry,
  type CatalogRequest,
  readCredential,
  readCredentials,
} from "../collection/catalog.ts";
import { defineCollection, summaryOf } from "../collection/definition.ts";
import { catalogTables } from "../collection/tables.ts";
import { type VerifiedCatalog, verifyCatalog } from "../collection/verify-catalog.ts";
import { Builders } from "../runtime/builders.ts";
import { collectGarbage } from "../runtime/collect-garbage.ts";
import {
  catalogDirectory,
  collectionDirectory,
  collectionsDirectory,
  openingError,
  removeOrphans,
  takeDataDirectory,
} from "../runtime/data-directory.ts";
import { MemoryBudget } from "../runtime/memory.ts";
import { Writer } from "../runtime/writer.ts";
import { LmdbStore } from "../storage/lmdb.ts";
import { alreadyExists } from "./already-exists.ts";
import type { CollectionDependencies } from "./collection/state.ts";
import { Collections } from "./collections.ts";
import type {
  Collection,
  Credentials,
  Database,
  DatabaseLog,
  DatabaseOptions,
  DatabaseStatistics,
} from "./contract.ts";
import { failingTasks, loggedBackground } from "./failing-tasks.ts";
import { MemoryBalance } from "./memory-balance.ts";
import { makeCatalog } from "./new-catalog.ts";
import { damagedError, verifyStore } from "./quarantine.ts";
import { Reopening } from "./reopening.ts";
import { Restores } from "./restores.ts";
import { KeptSnapshots } from "./snapshots.ts";

const silent: DatabaseLog = { info: () => {}, warn: () => {}, error: () => {} };

/** Maximum interval between two checks of idle transactions and memory, in milliseconds. */
const housekeepingMs = 10_000;

/** Name of a background task. */
const keepingMemory = "keeping the memory budget";

const optionNames = [
  "dataDir",
  "memoryBudgetBytes",
  "transactionIdleMs",
  "builderThreads",
  "versionsKept",
  "lockWaitMs",
  "log",
  "clock",
] as const satisfies (keyof DatabaseOptions)[];

/**
 * Opens or creates the database in a directory. A collection with a damaged store is quarantined (quarantine.ts) and does not affect the
 * others; a catalog with damaged pages prevents the database from opening.
 * @throws storage_failed, format_too_new, format_too_old, data_corrupted
 */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  refuseUnknownOptions(options, optionNames);
  const log = options.log ?? silent;
  const release = await takeDataDirectory(options.dataDir, {
    waitMs: options.lockWaitMs,
    onWait: (message, waitMs) => log.warn({ wait_ms_max: waitMs }, message),
    clock: options.clock,
  });
  let writer: Writer | null = null;
  try {
    const catalog = readVerified(options.dataDir);
    if (catalog === undefined) await makeCatalog(options.dataDir);
    writer = await Writer.start(
      {
        dataDir: options.dataDir,
        versionsKept: options.versionsKept ?? limits.versionsKeptDefault,
      },
      (error) => log.error({ err: error }, "the writer thread has failed"),
    );
    const database = new OpenDatabase(options, writer, release);
    await database.open(catalog);
    return database;
  } catch (error) {
    await writer?.stop();
    release();
    throw openingError(options.dataDir, error);
  }
}

/** The catalog, read before LMDB opens it; undefined if there is none yet. @throws data_corrupted */
function readVerified(dataDir: string): VerifiedCatalog | undefined {
  const directory = catalogDirectory(dataDir);
  if (!existsSync(join(directory, "data.mdb"))) {
    if (readdirSync(collectionsDirectory(dataDir)).length === 0) return undefined;
    throw new QuiverError(
      "data_corrupted",
      "The data directory has collections, but its catalog is missing; nothing was changed. Restore catalog/data.mdb from a backup, or save the data with 'quiver repair DIR --into NEWDIR'.",
    );
  }
  const findings: Finding[] = [];
  const catalog = verifyCatalog(directory, (finding) => findings.push(finding));
  if (catalog.isSound) return catalog;
  throw new QuiverError(
    "data_corrupted",
    `The catalog is damaged, so the collections are unknown; nothing was changed. ${findings[0].message} Restore it from a backup, or save the intact data with 'quiver repair DIR --into NEWDIR'.`,
    { findings: findings.slice(0, 5), findings_total: findings.length },
  );
}

class OpenDatabase implements Database {
  readonly #options: DatabaseOptions;
  readonly #log: DatabaseLog;
  readonly #clock: () => number;
  readonly #writer: Writer;
  readonly #builders: Builders;
  readonly #release: () => void;
  readonly #background: Background;
  #catalog: LmdbStore;
  readonly #collections: Collections;
  readonly #restores: Restores;
  readonly #balance: MemoryBalance;
  readonly snapshots: KeptSnapshots;
  #closing: Promise<void> | null = null;
  readonly #memory: MemoryBudget;
  #exports = 0;
  #isChecking = false;
  recovered: Promise<void> = Promise.resolve();
  isRecovered = false;

  constructor(options: DatabaseOptions, writer: Writer, release: () => void) {
    const { dataDir, memoryBudgetBytes } = options;
    this.#options = options;
    this.#log = options.log ?? silent;
    this.#clock = options.clock ?? Date.now;
    this.#writer = writer;
    this.#background = loggedBackground(this.#log, {});
    this.#builders = new Builders(this.#background, options.builderThreads);
    this.#release = release;
    const shared = {
      dataDir,
      writer,
      background: this.#background,
      log: this.#log,
      isClosing: () => this.#closing !== null,
    };
    this.#memory = new MemoryBudget({
      budgetBytes: memoryBudgetBytes,
      indexBytes: () => this.#collections.expectedBytes,
      freeMemory: (indexBytesMax, isAgain) => this.#balance.freeMemory(indexBytesMax, isAgain),
    });
    this.#collections = new Collections(
      {
        ...shared,
        memory: this.#memory,
        memoryBudgetBytes,
        clock: this.#clock,
        of: (entry) => this.#dependenciesOf(entry),
      },
      () => this.#restores.count,
    );
    this.#balance = new MemoryBalance(this.#collections, { ...shared, budgetBytes: memoryBudgetBytes });
    const reopening = new Reopening(this.#collections, {
      ...shared,
      reopenCatalog: () => this.#reopenCatalog(),
    });
    writer.onBroken = (internalId) => reopening.reopen(internalId);
    this.#catalog = new LmdbStore(catalogDirectory(dataDir), catalogTables);
    this.snapshots = new KeptSnapshots({
      dataDir,
      find: (name) => this.#collections.find(name),
      checkAlone: (run) => this.#checkAlone(run),
      log: this.#log,
      clock: this.#clock,
    });
    this.#restores = new Restores(this.#collections, {
      ...shared,
      versionsKept: options.versionsKept ?? limits.versionsKeptDefault,
      snapshots: this.snapshots,
    });
  }

  /** @param verified the contents of the catalog before LMDB opened it; undefined for a new database */
  async open(verified: VerifiedCatalog | undefined): Promise<void> {
    const entries = verified?.entries ?? [];
    failpoint("open:catalog-read");
    for (const name of verified?.damagedNames ?? [])
      this.#collections.quarantine(
        name,
        undefined,
        damagedError(name, "Its entry in the catalog fails its checksum."),
      );
    // With a damaged entry it is unknown which directories are orphans.
    const orphans =
      verified?.damagedNames.length === 0
        ? removeOrphans(this.#options.dataDir, new Set(entries.map((entry) => entry.internalId)))
        : 0;
    if (orphans > 0) this.#log.info({ orphans }, "removed what interrupted creations and deletions had left");
    // Builder threads verify large stores in parallel.
    const verifying = entries.map((entry) =>
      verifyStore(collectionDirectory(this.#options.dataDir, entry.internalId), entry, this.#builders),
    );
    // An error is handled when its collection is opened.
    for (const findings of verifying) findings.catch(() => {});
    for (const [i, entry] of entries.entries()) await this.#collections.openOrQuarantine(entry, verifying[i]);
    await this.snapshots.draw();
    this.#collections.start();
    failpoint("open:collections-open");
    this.recovered = this.#recover();
    const idleMs = this.#options.transactionIdleMs ?? limits.transactionIdleMsDefault;
    const everyMs = Math.max(50, Math.min(housekeepingMs, idleMs / 4));
    this.#background.every("aborting idle transactions", everyMs, () => this.#abortIdle(idleMs));
    this.#background.every(keepingMemory, everyMs, () => this.#balance.balance());
  }

  #readCatalog<T>(read: (readTxn: ReturnType<LmdbStore["beginRead"]>) => T): T {
    const readTxn = this.#catalog.beginRead();
    try {
      return read(readTxn);
    } finally {
      readTxn.release();
    }
  }

  async #reopenCatalog(): Promise<void> {
    await this.#catalog.close();
    await this.#writer.closeCatalog();
    await this.#writer.openCatalog();
    this.#catalog = new LmdbStore(catalogDirectory(this.#options.dataDir), catalogTables);
  }

  #dependenciesOf(entry: CatalogEntry): CollectionDependencies {
    return {
      directory: collectionDirectory(this.#options.dataDir, entry.internalId),
      writer: this.#writer,
      builders: this.#builders.share(),
      memoryBudgetBytes: this.#options.memoryBudgetBytes,
      memory: this.#memory,
      log: this.#log,
      clock: this.#clock,
      saveEntry: (changed) => this.#writer.changeCatalog({ kind: "putCollection", entry: changed }),
      checkAlone: (run) => this.#checkAlone(run),
      onMemoryUse: () => this.#background.run(keepingMemory, () => this.#balance.balance()),
      beginExport: () => this.#beginExport(),
    };
  }

  #beginExport(): () => void {
    if (this.#exports >= limits.exportsMax)
      throw new QuiverError(
        "overloaded",
        `${this.#exports} exports are running, which is the limit. Send the request again later.`,
        { limit: limits.exportsMax },
      );
    this.#exports++;
    return () => {
      this.#exports--;
    };
  }

  /** Waits until the indexes of all loaded collections have caught up or failed. */
  async #recover(): Promise<void> {
    await Promise.all(
      [...this.#collections.served.values()].map((collection) =>
        collection
          .indexed()
          .catch((error: unknown) =>
            this.#log.error({ collection: collection.name, err: error }, "a collection did not recover"),
          ),
      ),
    );
    this.isRecovered = true;
  }

  async #checkAlone<T>(run: () => Promise<T>): Promise<T> {
    if (this.#isChecking)
      throw new QuiverError(
        "overloaded",
        "Another check is running; only one can run at a time. Try again later.",
      );
    this.#isChecking = true;
    try {
      return await run();
    } finally {
      this.#isChecking = false;
    }
  }

  // ---- Collections

  #assertOpen(): void {
    if (this.#closing) throw new QuiverError("shutting_down", "The database is closing.");
  }

  async createCollection(request: CreateCollection): Promise<CollectionCreated> {
    this.#assertOpen();
    const definition = defineCollection(request);
    const { name } = definition;
    if (this.#collections.isTaken(name) || this.#collections.changing.has(name) || this.#restores.has(name))
      throw alreadyExists(name, "Choose another name or delete it first.");
    this.#collections.requireRoom(name);
    this.#collections.changing.add(name);
    try {
      const collection = await this.#collections.make(definition);
      this.#collections.served.set(name, collection);
      if (request.dense_vector.auto_create_index && definition.dense)
        await collection.createAutomatic(kinds.dense);
      if (request.sparse_vector.auto_create_index && definition.sparse)
        await collection.createAutomatic(kinds.sparse);
    } finally {
      this.#collections.changing.delete(name);
    }
    return { id: name, ...summaryOf(definition) };
  }

  listCollections(): CollectionSummary[] {
    return this.#collections.list();
  }

  loadedCollections(): string[] {
    return this.#collections
      .sorted()
      .filter((collection) => collection.isLoaded)
      .map(({ name }) => name);
  }

  collection(name: string): Collection {
    return this.#collections.find(name);
  }

  async deleteCollection(name: string): Promise<void> {
    this.#assertOpen();
    const aside = this.#collections.quarantined.get(name);
    if (aside !== undefined) return this.#collections.deleteQuarantined(aside);
    this.#collections.find(name);
    await this.#restores.end(
      name,
      new QuiverError("collection_not_found", `The collection '${name}' was deleted meanwhile.`),
    );
    const collection = this.#collections.find(name);
    this.#collections.served.delete(name);
    this.#collections.changing.add(name);
    try {
      await this.#writer.changeCatalog({ kind: "deleteCollection", name });
    } catch (error) {
      this.#collections.served.set(name, collection);
      this.#collections.changing.delete(name);
      throw error;
    }
    try {
      failpoint("drop:out-of-catalog");
      await this.#collections.remove(collection);
      failpoint("drop:removed");
      this.#background.once("collecting garbage", collectGarbage);
    } catch (error) {
      // The deletion is durable, because the catalog no longer has the collection. The next start removes the remaining files.
      this.#log.warn({ collection: collection.name, err: error }, "a collection's files are not all removed");
    } finally {
      this.#collections.changing.delete(name);
    }
  }

  async restoreCollection(
    name: string,
    request: RestoreCollection,
    reaches?: (snapshot: Snapshot) => boolean,
  ): Promise<RestoredCollection> {
    this.#assertOpen();
    return this.#restores.restore(name, request, reaches);
  }

  // ---- Credentials

  readonly credentials: Credentials = {
    get: (key) => this.#readCatalog((readTxn) => readCredential(readTxn, key)),
    entries: (prefix) => this.#readCatalog((readTxn) => readCredentials(readTxn, prefix)),
    put: (key, value) => this.#changeCatalog({ kind: "putCredential", key, value }),
    delete: (key) => this.#changeCatalog({ kind: "deleteCredential", key }),
  };

  async #changeCatalog(request: CatalogRequest): Promise<void> {
    this.#assertOpen();
    await this.#writer.changeCatalog(request);
  }

  // ---- Maintenance

  statistics(): DatabaseStatistics {
    return {
      collections: this.#collections
        .sorted()
        .filter((collection) => collection.isOpen)
        .map((collection) => collection.statistics()),
      damaged: [...this.#collections.quarantined.values()].map(({ name, error }) => ({
        name,
        message: error.message,
      })),
      failing: failingTasks(this.#background),
      writerFailure: this.#writer.failure?.message,
      commits: this.#writer.commits,
      commitRequests: this.#writer.commitRequests,
      writerQueueBytes: this.#writer.queueBytes,
      memory: {
        indexBytes: this.#memory.indexBytes,
        processBytes: this.#memory.processBytes,
        budgetBytes: this.#options.memoryBudgetBytes,
      },
    };
  }

  /** @throws the first failure, when all collections were looked at */
  async #abortIdle(idleMs: number): Promise<void> {
    const looking = [...this.#collections.served.values()].map((collection) =>
      collection.isOpen ? collection.abortIdleTransaction(idleMs) : undefined,
    );
    const failed = (await Promise.allSettled(looking)).find(({ status }) => status === "rejected");
    if (failed?.status === "rejected") throw failed.reason;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#background.stop();
    const reason = new QuiverError("shutting_down", "The database is closing.");
    await this.#restores.close(reason);
    await this.snapshots.close(reason);
    await Promise.all([...this.#collections.served.values()].map((collection) => collection.close(reason)));
    await this.#builders.close();
    await this.#writer.stop();
    await this.#catalog.close();
    this.#release();
  }
}
