// How does everything come together, and how does it end?
//
// open    lock the data directory -> start the writer -> read the catalog -> remove what interrupted creations
//         and deletions left -> open every collection -> the loaded ones catch up in the background
// create  store made and synced -> catalog entry written: from then on it exists
// delete  catalog entry removed: from then on it is gone -> corridors stopped, stores closed, directory removed
// restore a store made of snapshots beside the others -> catalog entry written: from then on the name stands for it; what it
//         stood for before is removed as a deleted one is
// close   refuse, wait for those inside, stop the writer after its last write, give the lock back

import { randomBytes } from "node:crypto";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { isQuiverError, QuiverError } from "@quiver/protocol/errors";
import { refuseUnknownFields, refuseUnknownOptions } from "@quiver/protocol/fields";
import { limits } from "@quiver/protocol/limits";
import type { Finding } from "@quiver/protocol/shapes/check";
import type {
  CollectionCreated,
  CollectionSummary,
  CreateCollection,
} from "@quiver/protocol/shapes/collection";
import { RestoreCollection, type RestoredCollection, type Snapshot } from "@quiver/protocol/shapes/snapshot";
import { checkDefinitions } from "../backup/definitions.ts";
import type { Background } from "../base/background.ts";
import { compareText } from "../base/bytes.ts";
import { failpoint } from "../base/failpoint.ts";
import {
  type CatalogEntry,
  type CatalogRequest,
  readCredential,
  readCredentials,
  type VerifiedCatalog,
  verifyCatalog,
} from "../collection/catalog.ts";
import {
  type CollectionDefinition,
  checkCollectionName,
  defineCollection,
  summaryOf,
} from "../collection/definition.ts";
import { defaultDenseIndex, defaultSparseIndex } from "../collection/index-definition.ts";
import { catalogTables } from "../collection/tables.ts";
import { Builders } from "../runtime/builders.ts";
import { collectGarbage } from "../runtime/collect-garbage.ts";
import {
  catalogDirectory,
  collectionDirectory,
  collectionsDirectory,
  openingError,
  removeCollectionDirectory,
  removeOrphans,
  syncDirectory,
  takeDataDirectory,
} from "../runtime/data-directory.ts";
import { MemoryBudget } from "../runtime/memory.ts";
import { Writer } from "../runtime/writer.ts";
import { LmdbStore } from "../storage/lmdb.ts";
import { OpenCollection } from "./collection.ts";
import type {
  Collection,
  Credentials,
  Database,
  DatabaseLog,
  DatabaseOptions,
  DatabaseStatistics,
} from "./contract.ts";
import { failingTasks, loggedBackground } from "./failing-tasks.ts";
import { makeCatalog } from "./new-catalog.ts";
import { damagedError, type SetAside, setAsideError, unopenedError, verifyStore } from "./set-aside.ts";
import { KeptSnapshots } from "./snapshots.ts";

const silent: DatabaseLog = { info: () => {}, warn: () => {}, error: () => {} };

/** Milliseconds between two looks at idle transactions and memory, at most. */
const housekeepingMs = 10_000;

/** A task of the background. */
const keepingMemory = "keeping the memory budget";

/** Findings of a start that are logged one by one, for each collection. */
const loggedMax = 20;

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
 * Opens, or makes, the database in a directory. A collection whose store is damaged is set aside (set-aside.ts) and keeps none of
 * the others from being served; a catalog whose pages are damaged keeps the database from opening.
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

/** The catalog, read before LMDB opens it; undefined where there is none yet. @throws data_corrupted */
function readVerified(dataDir: string): VerifiedCatalog | undefined {
  const directory = catalogDirectory(dataDir);
  if (!existsSync(join(directory, "data.mdb"))) {
    if (readdirSync(collectionsDirectory(dataDir)).length === 0) return undefined;
    throw new QuiverError(
      "data_corrupted",
      "The data directory has collections, but its catalog is missing; nothing was changed. Restore catalog/data.mdb from a backup, or let 'quiver repair DIR --into NEWDIR' save what is there.",
    );
  }
  const findings: Finding[] = [];
  const catalog = verifyCatalog(directory, (finding) => findings.push(finding));
  if (catalog.isSound) return catalog;
  throw new QuiverError(
    "data_corrupted",
    `The catalog is damaged, so the collections are not known; nothing was changed. ${findings[0].message} Restore it from a backup, or let 'quiver repair DIR --into NEWDIR' save what is intact.`,
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
  readonly #collections = new Map<string, OpenCollection>();
  readonly #setAside = new Map<string, SetAside>();
  /** Names whose creation or deletion is under way. */
  readonly #changing = new Set<string>();
  /** Restores that are under way, by name. */
  readonly #restoring = new Map<string, { controller: AbortController; done: Promise<unknown> }>();
  readonly snapshots: KeptSnapshots;
  #closing: Promise<void> | null = null;
  #balancing: Promise<unknown> | null = null;
  readonly #memory: MemoryBudget;
  #exports = 0;
  #isChecking = false;
  recovered: Promise<void> = Promise.resolve();
  isRecovered = false;

  constructor(options: DatabaseOptions, writer: Writer, release: () => void) {
    this.#options = options;
    this.#log = options.log ?? silent;
    this.#clock = options.clock ?? Date.now;
    this.#writer = writer;
    this.#background = loggedBackground(this.#log, {});
    this.#builders = new Builders(this.#background, options.builderThreads);
    this.#release = release;
    this.#memory = new MemoryBudget({
      budgetBytes: options.memoryBudgetBytes,
      indexBytes: () => {
        let bytes = 0;
        for (const collection of this.#collections.values()) bytes += collection.expectedBytes;
        return bytes;
      },
      makeRoom: (indexBytesMax, isAgain) => this.#makeRoom(indexBytesMax, isAgain),
    });
    writer.onBroken = (internalId) => this.#mend(internalId);
    this.#catalog = new LmdbStore(catalogDirectory(options.dataDir), catalogTables);
    this.snapshots = new KeptSnapshots({
      dataDir: options.dataDir,
      find: (name) => this.#find(name),
      checkAlone: (run) => this.#checkAlone(run),
      log: this.#log,
      clock: this.#clock,
    });
  }

  /** @param verified what the catalog had before LMDB opened it; undefined: it is new */
  async open(verified: VerifiedCatalog | undefined): Promise<void> {
    const entries = verified?.entries ?? [];
    failpoint("open:catalog-read");
    for (const name of verified?.damagedNames ?? [])
      this.#setAsideAs(name, undefined, damagedError(name, "Its entry in the catalog fails its checksum."));
    // What a damaged entry stands for is not left over.
    const orphans =
      verified?.damagedNames.length === 0
        ? removeOrphans(this.#options.dataDir, new Set(entries.map((entry) => entry.internalId)))
        : 0;
    if (orphans > 0) this.#log.info({ orphans }, "removed what interrupted creations and deletions had left");
    // Large ones by several threads at once.
    const verifying = entries.map((entry) =>
      verifyStore(collectionDirectory(this.#options.dataDir, entry.internalId), entry, this.#builders),
    );
    // One that fails is told when its collection's turn comes.
    for (const findings of verifying) findings.catch(() => {});
    for (const [i, entry] of entries.entries()) await this.#openOrSetAside(entry, verifying[i]);
    await this.snapshots.draw();
    this.#startCollections();
    failpoint("open:collections-open");
    this.recovered = this.#recover();
    const idleMs = this.#options.transactionIdleMs ?? limits.transactionIdleMsDefault;
    const everyMs = Math.max(50, Math.min(housekeepingMs, idleMs / 4));
    this.#background.every("aborting idle transactions", everyMs, () => this.#abortIdle(idleMs));
    this.#background.every(keepingMemory, everyMs, () => this.#balanceMemory());
  }

  #readCatalog<T>(read: (snapshot: ReturnType<LmdbStore["snapshot"]>) => T): T {
    const snapshot = this.#catalog.snapshot();
    try {
      return read(snapshot);
    } finally {
      snapshot.release();
    }
  }

  /** @param verifying tells what a check of the store finds */
  async #openOrSetAside(entry: CatalogEntry, verifying: Promise<Finding[]>): Promise<void> {
    const { name } = entry.definition;
    let error: QuiverError | undefined;
    try {
      const findings = await verifying;
      for (const finding of findings.slice(0, loggedMax))
        this.#log.error(
          { collection: entry.definition.name, store: entry.internalId, finding },
          "stored data is damaged",
        );
      error = setAsideError(name, findings);
      if (error === undefined) this.#collections.set(name, await this.#openCollection(entry));
    } catch (cause) {
      if (isQuiverError(cause, "format_too_new") || isQuiverError(cause, "format_too_old")) throw cause;
      await this.#writer.closeStore(entry.internalId);
      error = unopenedError(name, cause);
    }
    if (error !== undefined) this.#setAsideAs(name, entry, error);
  }

  #setAsideAs(name: string, entry: CatalogEntry | undefined, error: QuiverError): void {
    this.#setAside.set(name, { name, entry, error });
    this.#log.error({ collection: name, store: entry?.internalId, err: error }, "a collection is set aside");
  }

  async #openCollection(entry: CatalogEntry): Promise<OpenCollection> {
    await this.#writer.openStore(entry);
    return new OpenCollection(entry, {
      directory: collectionDirectory(this.#options.dataDir, entry.internalId),
      writer: this.#writer,
      builders: this.#builders.share(),
      memoryBudgetBytes: this.#options.memoryBudgetBytes,
      memory: this.#memory,
      log: this.#log,
      clock: this.#clock,
      saveEntry: (changed) => this.#writer.changeCatalog({ kind: "putCollection", entry: changed }),
      checkAlone: (run) => this.#checkAlone(run),
      onMemoryUse: () => this.#background.run(keepingMemory, () => this.#balanceMemory()),
      beginExport: () => this.#beginExport(),
    });
  }

  /** Brings those that were loaded into memory again, as far as the budget goes: the last ones first. */
  #startCollections(): void {
    for (const collection of [...this.#collections.values()].reverse()) {
      const isLoaded = collection.entry.loaded;
      const fits =
        isLoaded && (!this.#memory.isLimited || this.#memory.fits({ indexBytes: collection.bytesToLoad }));
      collection.start(fits);
      if (isLoaded && !fits)
        this.#log.warn(
          { collection: collection.entry.internalId, budget: this.#options.memoryBudgetBytes },
          "a collection stays unloaded: the memory budget has no room for it",
        );
    }
  }

  #beginExport(): () => void {
    if (this.#exports >= limits.exportsMax)
      throw new QuiverError(
        "overloaded",
        `${this.#exports} exports run already, as many as may. Send the request again later.`,
        { limit: limits.exportsMax },
      );
    this.#exports++;
    return () => {
      this.#exports--;
    };
  }

  /** Waits until every loaded collection's indexes have caught up, or failed to. */
  async #recover(): Promise<void> {
    await Promise.all(
      [...this.#collections.values()].map((collection) =>
        collection
          .indexed()
          .catch((error: unknown) =>
            this.#log.error(
              { collection: collection.entry.internalId, err: error },
              "a collection did not recover",
            ),
          ),
      ),
    );
    this.isRecovered = true;
  }

  async #checkAlone<T>(run: () => Promise<T>): Promise<T> {
    if (this.#isChecking)
      throw new QuiverError("overloaded", "Another check is running; one runs at a time. Ask again later.");
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
    if (this.#isTaken(name) || this.#changing.has(name) || this.#restoring.has(name))
      throw alreadyExists(name, "Choose another name or delete it first.");
    this.#requireRoom(name);
    this.#changing.add(name);
    try {
      const collection = await this.#makeCollection(definition);
      this.#collections.set(name, collection);
      if (request.dense_vector.auto_create_index && definition.dense)
        await collection.createDenseIndex(defaultDenseIndex);
      if (request.sparse_vector.auto_create_index && definition.sparse)
        await collection.createSparseIndex(defaultSparseIndex);
    } finally {
      this.#changing.delete(name);
    }
    return { id: name, ...summaryOf(definition) };
  }

  /** Whether there is a collection of this name, served or not. */
  #isTaken(name: string): boolean {
    return this.#collections.has(name) || this.#setAside.has(name);
  }

  #requireRoom(name: string): void {
    if (this.#collections.size + this.#changing.size + this.#restoring.size < limits.collectionsMax) return;
    throw new QuiverError(
      "invalid_request",
      `name '${name}' would be one collection more than the limit of ${limits.collectionsMax}. Delete one first.`,
      { path: "name", limit: limits.collectionsMax },
    );
  }

  async #makeCollection(definition: CollectionDefinition): Promise<OpenCollection> {
    const entry = this.#newEntry(definition);
    let collection: OpenCollection;
    try {
      collection = await this.#openCollection(entry);
    } catch (error) {
      removeCollectionDirectory(this.#options.dataDir, entry.internalId);
      throw error;
    }
    try {
      failpoint("create:store-made");
      syncDirectory(collectionsDirectory(this.#options.dataDir));
      failpoint("create:synced");
      await this.#writer.changeCatalog({ kind: "putCollection", entry });
      collection.start(true);
      failpoint("create:in-catalog");
      return collection;
    } catch (error) {
      await this.#removeCollection(collection);
      throw error;
    }
  }

  #newEntry(definition: CollectionDefinition): CatalogEntry {
    return {
      internalId: `c${randomBytes(12).toString("hex")}`,
      createdMs: this.#clock(),
      loaded: true,
      definition,
    };
  }

  async #removeCollection(collection: OpenCollection, what = "deleted"): Promise<void> {
    const { internalId, definition } = collection.entry;
    await collection.close(
      new QuiverError("collection_not_found", `The collection '${definition.name}' was ${what} meanwhile.`),
      false,
    );
    failpoint("drop:closed");
    await this.#writer.closeStore(internalId);
    failpoint("drop:store-closed");
    removeCollectionDirectory(this.#options.dataDir, internalId);
  }

  listCollections(): CollectionSummary[] {
    const open = this.#sorted().map(({ entry }) => summaryOf(entry.definition));
    const aside = [...this.#setAside.values()].map(({ name, entry }) => ({
      ...(entry === undefined ? { name } : summaryOf(entry.definition)),
      damaged: true,
    }));
    if (aside.length === 0) return open;
    return [...open, ...aside].sort((a, b) => compareText(a.name, b.name));
  }

  loadedCollections(): string[] {
    return this.#sorted()
      .filter((collection) => collection.isLoaded)
      .map(({ name }) => name);
  }

  #sorted(): OpenCollection[] {
    return [...this.#collections.values()].sort((a, b) =>
      Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)),
    );
  }

  collection(name: string): Collection {
    return this.#find(name);
  }

  #find(name: string): OpenCollection {
    const collection = this.#collections.get(name);
    if (collection) return collection;
    const aside = this.#setAside.get(name);
    if (aside) throw aside.error;
    throw new QuiverError(
      "collection_not_found",
      `There is no collection named '${name.slice(0, 300)}'. POST /vectordb/collections creates one.`,
      { name: name.slice(0, 300) },
    );
  }

  async deleteCollection(name: string): Promise<void> {
    this.#assertOpen();
    const aside = this.#setAside.get(name);
    if (aside !== undefined) return this.#deleteSetAside(aside);
    this.#find(name);
    await this.#endRestore(
      name,
      new QuiverError("collection_not_found", `The collection '${name}' was deleted meanwhile.`),
    );
    const collection = this.#find(name);
    this.#collections.delete(name);
    this.#changing.add(name);
    try {
      await this.#writer.changeCatalog({ kind: "deleteCollection", name });
    } catch (error) {
      this.#collections.set(name, collection);
      this.#changing.delete(name);
      throw error;
    }
    try {
      failpoint("drop:out-of-catalog");
      await this.#removeCollection(collection);
      failpoint("drop:removed");
      this.#background.once("collecting garbage", collectGarbage);
    } catch (error) {
      // It is gone, durably, since the catalog does not have it; the next start removes what is left of it.
      this.#log.warn(
        { collection: collection.entry.internalId, err: error },
        "a collection's files are not all removed",
      );
    } finally {
      this.#changing.delete(name);
    }
  }

  /** Deletes a collection that is not served. Where its entry is damaged, nobody knows which directory that would be. */
  async #deleteSetAside({ name, entry, error }: SetAside): Promise<void> {
    if (entry === undefined) throw error;
    await this.#writer.changeCatalog({ kind: "deleteCollection", name });
    this.#setAside.delete(name);
    removeCollectionDirectory(this.#options.dataDir, entry.internalId);
  }

  // ---- Restoring

  async restoreCollection(
    name: string,
    request: RestoreCollection,
    reaches?: (snapshot: Snapshot) => boolean,
  ): Promise<RestoredCollection> {
    this.#assertOpen();
    refuseUnknownFields(RestoreCollection, request);
    checkCollectionName(name);
    const paths = this.snapshots.pathsOf(request.snapshots, reaches);
    if (this.#changing.has(name) || this.#restoring.has(name))
      throw alreadyExists(name, "It is being created, deleted or restored just now.");
    if (this.#isTaken(name) && request.overwrite !== true)
      throw alreadyExists(name, "Restore under another name, or with overwrite: true to replace it.");
    // What is damaged may be replaced, but not where its directory is not known.
    const aside = this.#setAside.get(name);
    if (aside !== undefined && aside.entry === undefined) throw aside.error;
    if (!this.#isTaken(name)) this.#requireRoom(name);
    const leave = this.snapshots.jobs.enter();
    const controller = new AbortController();
    const restored = this.#restore(name, paths, controller.signal);
    this.#restoring.set(name, { controller, done: restored.catch(() => undefined) });
    try {
      return await restored;
    } catch (error) {
      // Deleted while the restore was reaching for its file: that is no failure of the disk.
      if (isQuiverError(error, "storage_failed")) this.snapshots.pathsOf(request.snapshots, reaches);
      throw error;
    } finally {
      this.#restoring.delete(name);
      leave();
    }
  }

  async #restore(name: string, paths: readonly string[], signal: AbortSignal): Promise<RestoredCollection> {
    const internalId = `c${randomBytes(12).toString("hex")}`;
    const directory = collectionDirectory(this.#options.dataDir, internalId);
    const versionsKept = this.#options.versionsKept ?? limits.versionsKeptDefault;
    let collection: OpenCollection | undefined;
    try {
      const { header } = await this.snapshots.jobs.run(
        { kind: "restore", paths, directory, versionsKept },
        signal,
      );
      checkDefinitions(header);
      failpoint("restore:written");
      const definition = { ...header.collection, name };
      collection = await this.#openCollection({ ...this.#newEntry(definition), internalId });
      syncDirectory(collectionsDirectory(this.#options.dataDir));
      signal.throwIfAborted();
      failpoint("restore:synced");
      await this.#writer.changeCatalog({ kind: "putCollection", entry: collection.entry });
      failpoint("restore:in-catalog");
      const replaced = this.#collections.get(name);
      this.#collections.set(name, collection);
      collection.start(true);
      const aside = this.#setAside.get(name);
      this.#setAside.delete(name);
      if (replaced) await this.#removeReplaced(replaced);
      failpoint("restore:replaced");
      if (aside?.entry) removeCollectionDirectory(this.#options.dataDir, aside.entry.internalId);
      const { version, hash, live } = header;
      return { name, version_number: version, hash, vector_count: live };
    } catch (error) {
      if (collection) await this.#removeCollection(collection);
      else removeCollectionDirectory(this.#options.dataDir, internalId);
      throw error;
    }
  }

  async #removeReplaced(replaced: OpenCollection): Promise<void> {
    try {
      await this.#removeCollection(replaced, "replaced by a restore");
      this.#background.once("collecting garbage", collectGarbage);
    } catch (err) {
      // The restore is done; what is left of the replaced collection goes at the next start.
      const collection = replaced.entry.internalId;
      this.#log.warn({ collection, err }, "a collection that a restore has replaced could not be removed");
    }
  }

  /** Ends a restore of this name, if there is one, and waits for its end. */
  async #endRestore(name: string, reason: QuiverError): Promise<void> {
    const restore = this.#restoring.get(name);
    restore?.controller.abort(reason);
    await restore?.done;
  }

  // ---- Stores that the disk has failed

  /** Opens a store again that can no longer be used, and tries until that succeeds. */
  #mend(internalId: string | null): void {
    const store = internalId ?? "catalog";
    this.#log.error({ store }, "the disk failed a commit; the store is opened again");
    this.#background.run(`opening the store ${store} again`, async () => {
      if (this.#closing) return;
      await (internalId === null ? this.#reopenCatalog() : this.#reopenCollection(internalId));
      this.#log.info({ store }, "the store is open again");
    });
  }

  async #reopenCollection(internalId: string): Promise<void> {
    const broken = [...this.#collections.values()].find(({ entry }) => entry.internalId === internalId);
    // It was deleted meanwhile, or its creation has failed.
    if (broken === undefined) return;
    const reason = new QuiverError(
      "not_ready",
      "The collection is being opened again after a failure of the disk. Send the request again.",
    );
    await broken.close(reason, false);
    await this.#writer.closeStore(internalId);
    const opened = await this.#openCollection(broken.entry);
    if (this.#collections.get(broken.name) === broken) {
      this.#collections.set(broken.name, opened);
      opened.start(opened.entry.loaded);
    } else await this.#removeCollection(opened);
  }

  /** The last change was refused with an error, so the catalog is to say what this process goes by. */
  async #reopenCatalog(): Promise<void> {
    await this.#catalog.close();
    await this.#writer.closeCatalog();
    await this.#writer.openCatalog();
    this.#catalog = new LmdbStore(catalogDirectory(this.#options.dataDir), catalogTables);
    const { entries } = verifyCatalog(catalogDirectory(this.#options.dataDir), () => {});
    const noted = new Map(entries.map((entry) => [entry.definition.name, entry]));
    for (const name of this.#setAside.keys()) noted.delete(name);
    for (const { name, entry } of this.#collections.values()) {
      const there = noted.get(name);
      noted.delete(name);
      if (there?.internalId !== entry.internalId)
        await this.#writer.changeCatalog({ kind: "putCollection", entry });
    }
    for (const name of noted.keys())
      if (!this.#changing.has(name)) await this.#writer.changeCatalog({ kind: "deleteCollection", name });
  }

  // ---- Credentials

  readonly credentials: Credentials = {
    get: (key) => this.#readCatalog((snapshot) => readCredential(snapshot, key)),
    entries: (prefix) => this.#readCatalog((snapshot) => readCredentials(snapshot, prefix)),
    put: (key, value) => this.#changeCatalog({ kind: "putCredential", key, value }),
    delete: (key) => this.#changeCatalog({ kind: "deleteCredential", key }),
  };

  async #changeCatalog(request: CatalogRequest): Promise<void> {
    this.#assertOpen();
    await this.#writer.changeCatalog(request);
  }

  // ---- Housekeeping

  statistics(): DatabaseStatistics {
    return {
      collections: this.#sorted()
        .filter((collection) => collection.isOpen)
        .map((collection) => collection.statistics()),
      damaged: [...this.#setAside.values()].map(({ name, error }) => ({ name, message: error.message })),
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
    const looking = [...this.#collections.values()].map((collection) =>
      collection.isOpen ? collection.abortIdleTransaction(idleMs) : undefined,
    );
    const failed = (await Promise.allSettled(looking)).find(({ status }) => status === "rejected");
    if (failed?.status === "rejected") throw failed.reason;
  }

  /** Unloads idle collections while the loaded ones exceed the budget. The most recently used one stays, even where it alone does. */
  async #balanceMemory(): Promise<void> {
    const budget = this.#options.memoryBudgetBytes;
    if (budget === undefined || this.#balancing || this.#closing) return;
    await this.#unloadIdle(budget, 1);
    for (const collection of this.#collections.values()) collection.retryPostponed();
    this.#background.once("collecting garbage", collectGarbage);
  }

  /** For what is about to take memory: idle collections leave, and what they had is free when this resolves. */
  async #makeRoom(indexBytesMax: number, isAgain: boolean): Promise<void> {
    const isAny = await this.#unloadIdle(indexBytesMax, 0);
    if (!isAny && isAgain) return;
    // The collector's timer does not keep a process alive that waits for nothing else.
    const waiting = setInterval(() => {}, 1_000);
    await collectGarbage();
    clearInterval(waiting);
  }

  /** Makes caches smaller and unloads idle collections, least recently used first, down to so many bytes or so many collections. One at a time does this. @returns whether any memory was given back */
  async #unloadIdle(bytesMax: number, staying: number): Promise<boolean> {
    while (this.#balancing) await this.#balancing;
    const unloading = this.#unload(bytesMax, staying).finally(() => {
      this.#balancing = null;
    });
    this.#balancing = unloading;
    return unloading;
  }

  async #unload(bytesMax: number, staying: number): Promise<boolean> {
    const loaded = [...this.#collections.values()]
      .filter((collection) => collection.isLoaded)
      .sort((a, b) => b.lastUsedMs - a.lastUsedMs);
    const before = loaded.reduce((sum, collection) => sum + collection.expectedBytes, 0);
    let bytes = before;
    for (const collection of loaded.toReversed()) {
      if (bytes <= bytesMax) break;
      bytes -= collection.giveUp(bytes - bytesMax);
    }
    while (bytes > bytesMax && loaded.length > staying) {
      const oldest = loaded.pop() as OpenCollection;
      if (oldest.isBusy) continue;
      bytes -= oldest.expectedBytes;
      await oldest.unload();
      this.#log.info({ collection: oldest.name, bytesMax }, "unloaded an idle collection");
    }
    return bytes < before;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#background.stop();
    const reason = new QuiverError("shutting_down", "The database is closing.");
    await Promise.all([...this.#restoring.keys()].map((name) => this.#endRestore(name, reason)));
    await this.snapshots.close(reason);
    await Promise.all([...this.#collections.values()].map((collection) => collection.close(reason)));
    await this.#builders.close();
    await this.#writer.stop();
    await this.#catalog.close();
    this.#release();
  }
}

function alreadyExists(name: string, advice: string): QuiverError {
  return new QuiverError(
    "collection_already_exists",
    `A collection named '${name}' already exists. ${advice}`,
    {
      name,
    },
  );
}
