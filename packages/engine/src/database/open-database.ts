// What does an open database consist of?
//
// It makes the parts (collections.ts, collection-changes.ts, restores.ts, snapshots.ts, reopening.ts, memory-balance.ts) and has the calls
// that concern them all.
//
// close   reject new calls, wait for running ones, stop the writer after its last write, release the lock

import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type {
  Alias,
  CollectionCreated,
  CollectionSummary,
  CreateCollection,
  MergeCollection,
  Merged,
} from "@quiverdb/protocol/shapes/collection";
import type { Filter } from "@quiverdb/protocol/shapes/filter";
import type { RestoreCollection, RestoredCollection, Snapshot } from "@quiverdb/protocol/shapes/snapshot";
import type { Background } from "../base/background.ts";
import { compareText } from "../base/bytes.ts";
import { type CallOptions, Deadline } from "../base/deadline.ts";
import { failpoint } from "../base/failpoint.ts";
import { fingerprintOf } from "../collection/answers.ts";
import { type CatalogAnswer, type CatalogEntry, collectionOf } from "../collection/definition.ts";
import { KeyFilter } from "../collection/key-filter.ts";
import type { VerifiedCatalog } from "../collection/verify-catalog.ts";
import {
  collectionDirectory,
  directoryBytes,
  freeBytes,
  removeOrphans,
  snapshotsDirectory,
} from "../process/data-directory.ts";
import { MemoryBudget, processBytesBeside, processBytesPerThread } from "../process/memory.ts";
import { BuilderThreads } from "../runtime/builders.ts";
import type { Writer } from "../runtime/writer.ts";
import { Catalog } from "./catalog.ts";
import { notACopy } from "./collection/merging.ts";
import type { CollectionDependencies } from "./collection/state.ts";
import { CollectionChanges } from "./collection-changes.ts";
import { Collections } from "./collections.ts";
import type {
  Collection,
  Credentials,
  Database,
  DatabaseOptions,
  DatabaseStatistics,
  DiskUse,
  RestrictedDatabase,
  When,
} from "./contract.ts";
import { failingTasks, loggedBackground } from "./failing-tasks.ts";
import { LimitedWork } from "./limited-work.ts";
import { MemoryBalance } from "./memory-balance.ts";
import { PastVersions } from "./past-versions.ts";
import { damagedError, verifyStore } from "./quarantine.ts";
import { Reopening } from "./reopening.ts";
import { DatabaseReplica } from "./replica.ts";
import type { ReplicatedOptions, SharedChange } from "./replication.ts";
import { gatherStores } from "./shards/gathered-stores.ts";
import { mergeShards, restrictedShardedCalls, shardedCalls } from "./shards/sharded-collection.ts";
import { Shards } from "./shards/shards.ts";
import { Restores } from "./snapshots/restores.ts";
import { KeptSnapshots, type SnapshotSource } from "./snapshots/snapshots.ts";
import { ThreadsOwner } from "./threads/owner.ts";

/** Maximum interval between two checks of idle transactions and memory, in milliseconds. */
const idleCheckMs = 10_000;

/** Interval between two looks for earlier versions that nobody can read any more, in milliseconds. */
const vacuumEveryMs = 5_000;

/** Name of a background task. */
const keepingMemory = "keeping the memory budget";

/** The options with what is needed of them in every case. */
export type OpenOptions = ReplicatedOptions &
  Required<Pick<DatabaseOptions, "log" | "clock" | "versionsKept">>;

export class OpenDatabase implements Database {
  readonly #options: OpenOptions;
  readonly #writer: Writer;
  readonly #builders: BuilderThreads;
  readonly #release: () => void;
  readonly #background: Background;
  readonly #catalog: Catalog;
  readonly credentials: Credentials;
  readonly collections: Collections;
  readonly #restores: Restores;
  readonly #past: PastVersions;
  readonly #changes: CollectionChanges;
  readonly #balance: MemoryBalance;
  readonly snapshots: KeptSnapshots;
  readonly threads: ThreadsOwner;
  #secret: Uint8Array = new Uint8Array();
  /** Running requests with an Idempotency-Key, by it. */
  readonly #running = new Map<string, Promise<unknown>>();
  readonly #toldOfAliases: ((aliases: ReadonlyMap<string, string>) => Promise<void> | void)[] = [];
  #closing: Promise<void> | null = null;
  readonly #memory: MemoryBudget;
  readonly #limited = new LimitedWork();
  recovered: Promise<void> = Promise.resolve();
  isRecovered = false;

  constructor(options: OpenOptions, writer: Writer, release: () => void) {
    const { dataDir, memoryBudgetBytes, clock, log, replication } = options;
    this.#options = options;
    this.#writer = writer;
    this.#background = loggedBackground(log, {});
    this.#builders = new BuilderThreads(this.#background, options.builderThreads);
    this.#release = release;
    const shared = {
      dataDir,
      writer,
      background: this.#background,
      log,
      clock,
      isClosing: () => this.#closing !== null,
      change: (change: SharedChange) => this.#change(change),
      holds: (entry: CatalogEntry) => this.#holds(entry),
      here: (entry: CatalogEntry) => this.#here(entry),
      shards: replication?.shards ?? 1,
      isReplicated: replication !== undefined,
      replicasOf: (internalId: string, replicationFactor: number | null) =>
        replication?.replicasOf(internalId, replicationFactor),
    };
    this.#memory = new MemoryBudget({
      budgetBytes: memoryBudgetBytes,
      besideBytes: processBytesBeside + (options.readerThreads ?? 0) * processBytesPerThread,
      indexBytes: () => this.collections.expectedBytes,
      freeMemory: (indexBytesMax, isAgain) => this.#balance.freeMemory(indexBytesMax, isAgain),
    });
    this.collections = new Collections(
      {
        ...shared,
        memory: this.#memory,
        memoryBudgetBytes,
        closePast: (reason, internalId) => this.#past.close(reason, internalId),
        of: (entry) => this.#dependenciesOf(entry),
      },
      () => this.#restores.count,
    );
    this.threads = new ThreadsOwner(
      {
        served: this.collections.served,
        find: (name) => this.collections.findGiven(name),
        shards: (name, keyFilter) => this.#shardsOf(name, keyFilter),
      },
      options.readerThreads ?? 0,
    );
    this.#balance = new MemoryBalance(this.collections, { ...shared, budgetBytes: memoryBudgetBytes });
    const reopening = new Reopening(this.collections, {
      ...shared,
      reopenCatalog: () => this.#catalog.reopen(),
    });
    writer.onBroken = (internalId) => reopening.reopen(internalId);
    this.#catalog = new Catalog(dataDir, writer);
    this.credentials = this.#catalog.credentials(shared.change, async (request) => {
      this.#assertOpen();
      await writer.changeCatalog(request);
    });
    this.snapshots = new KeptSnapshots({
      ...shared,
      find: (name) => this.#snapshotSource(name),
      checkAlone: (run) => this.#limited.checkAlone(run),
    });
    this.#restores = new Restores(this.collections, {
      ...shared,
      versionsKept: options.versionsKept,
      snapshots: this.snapshots,
    });
    this.#past = new PastVersions(dataDir, this.collections, this.snapshots.jobs, this.#background);
    this.#changes = new CollectionChanges(this.collections, this.#restores, {
      ...shared,
      aliases: () => this.#catalog.aliases,
      saveAlias: (...alias) => this.#catalog.saveAlias(...alias),
      onAliases: async () => {
        await Promise.all(this.#toldOfAliases.map((told) => told(this.collections.aliases)));
      },
    });
  }

  /** @param verified the contents of the catalog before LMDB opened it; undefined for a new database */
  async open(verified: VerifiedCatalog | undefined): Promise<void> {
    const entries = verified?.entries ?? [];
    failpoint("open:catalog-read");
    await this.#changes.readAliases();
    for (const name of verified?.damagedNames ?? [])
      this.collections.quarantine(
        name,
        undefined,
        damagedError(name, "Its entry in the catalog fails its checksum."),
      );
    // Builder threads verify large stores in parallel.
    const held = entries.filter((entry) => this.#holds(entry));
    for (const entry of entries)
      if (!this.#holds(entry)) this.collections.elsewhere.set(entry.definition.name, entry);
    const verifying = held.map((entry) =>
      verifyStore(collectionDirectory(this.#options.dataDir, entry.internalId), entry, this.#builders),
    );
    // An error is handled when its collection is opened.
    for (const findings of verifying) findings.catch(() => {});
    for (const [i, entry] of held.entries()) await this.collections.openOrQuarantine(entry, verifying[i]);
    await this.snapshots.draw();
    this.collections.start();
    await this.#options.replication?.start(
      new DatabaseReplica({
        dataDir: this.#options.dataDir,
        writer: this.#writer,
        catalog: this.#catalog,
        collections: this.collections,
        changes: this.#changes,
        restores: this.#restores,
      }),
    );
    // With a damaged entry it is unknown which directories are orphans. A replica's catalog may have got entries from the log.
    if (verified?.damagedNames.length === 0)
      this.#removeOrphans(this.collections.entries.filter((entry) => this.#holds(entry)));
    this.#secret = await this.#cursorSecret();
    failpoint("open:collections-open");
    this.recovered = this.#recover();
    const idleMs = this.#options.transactionIdleMs ?? limits.transactionIdleMsDefault;
    const everyMs = Math.max(50, Math.min(idleCheckMs, idleMs / 4));
    this.#background.every("aborting idle transactions", everyMs, () => this.collections.abortIdle(idleMs));
    this.#background.every("vacuuming earlier versions", vacuumEveryMs, () => this.collections.vacuum());
    this.#background.every(keepingMemory, everyMs, () => this.#balance.balance());
  }

  /** Makes a change of the catalog: at once, or on all nodes of a cluster. */
  async #change(change: SharedChange): Promise<void> {
    this.#assertOpen();
    if (this.#options.replication !== undefined) await this.#options.replication.change(change);
    else if ("key" in change) await this.#catalog.applyCredential(change);
    else if (!("node" in change) && change.kind !== "setReplicas") await this.#changes.apply(change);
  }

  /** 32 random bytes that the data directory keeps from its first start on, so that cursors survive restarts. */
  async #cursorSecret(): Promise<Uint8Array> {
    const name = "cursor-secret";
    const secret =
      this.credentials.get(name) ??
      (await this.credentials.putFirst(name, randomBytes(32).toString("base64url")));
    return Buffer.from(secret as string, "base64url");
  }

  #here(entry: CatalogEntry): CatalogEntry {
    const { replicas = [] } = entry;
    const { replication } = this.#options;
    if (replication === undefined) return entry;
    const { node } = replication;
    // A shard has a node more, which made it, until the others have it (packages/cluster/src/moves.ts).
    const others = entry.definition.shard === undefined ? replicas.slice(1) : replicas;
    return {
      ...entry,
      replicas: this.#holds(entry) ? replicas : [node, ...others].sort(),
      madeOn: node,
    };
  }

  #holds({ replicas }: CatalogEntry): boolean {
    const { replication } = this.#options;
    return replicas === undefined || replication === undefined || replicas.includes(replication.node);
  }

  #dependenciesOf(entry: CatalogEntry): CollectionDependencies {
    return {
      directory: collectionDirectory(this.#options.dataDir, entry.internalId),
      writer: this.#writer,
      write: (internalId, request) => (this.#options.replication ?? this.#writer).write(internalId, request),
      builders: this.#builders.share(),
      memoryBudgetBytes: this.#options.memoryBudgetBytes,
      memory: this.#memory,
      secret: () => this.#secret,
      log: this.#options.log,
      clock: this.#options.clock,
      // Whether an earlier version is loaded is not kept.
      saveEntry: async (changed) => {
        if (this.collections.entryById(changed.internalId) !== undefined) await this.#catalog.save(changed);
      },
      atVersion: (of, version, act) => this.#past.use(of, version, ({ calls }) => act(calls)),
      askAtVersion: (of, version, call, limits) =>
        this.#past.use(of, version, (past) => past.ask(call, limits)),
      stateOf: (internalId) => {
        const { name } = this.collections.entryById(internalId)?.definition ?? {};
        return name === undefined ? undefined : this.collections.served.get(name)?.parts.state;
      },
      checkAlone: (run) => this.#limited.checkAlone(run),
      onMemoryUse: () => this.#background.run(keepingMemory, () => this.#balance.balance()),
      beginExport: (share) => this.#limited.beginExport(share),
      readerSlots: this.#options.readerThreads ?? 0,
      indexWaitMs: this.#options.indexWaitMs ?? Number.POSITIVE_INFINITY,
      closeInThreads: (internalId) => this.threads.closeStore(internalId),
    };
  }

  #removeOrphans(entries: readonly CatalogEntry[]): void {
    const orphans = removeOrphans(this.#options.dataDir, new Set(entries.map((entry) => entry.internalId)));
    if (orphans > 0)
      this.#options.log.info({ orphans }, "removed what interrupted creations and deletions had left");
  }

  async #recover(): Promise<void> {
    await this.collections.recovered();
    this.isRecovered = true;
  }

  // ---- Collections

  #assertOpen(): void {
    if (this.#closing) throw new QuiverError("shutting_down", "The database is closing.");
  }

  /** Makes a change of the catalog that is done once for a key. @param parts what tells the request from others */
  async #once<T>(
    options: CallOptions | undefined,
    parts: object,
    run: (answered: (value: T) => CatalogAnswer | undefined) => Promise<T>,
  ): Promise<T> {
    this.#assertOpen();
    const { idempotencyKey: key } = Deadline.of(options);
    if (key === undefined) return run(() => undefined);
    // A repetition waits for the request that is running.
    for (let same = this.#running.get(key); same !== undefined; same = this.#running.get(key)) await same;
    const once = { key, fingerprint: fingerprintOf(parts) };
    const earlier = this.#catalog.answerTo(once, this.#options.clock());
    if (earlier !== undefined) return earlier.value as T;
    const running = run((value) => ({ ...once, timeMs: this.#options.clock(), value: value ?? null }));
    this.#running.set(
      key,
      running.catch(() => undefined),
    );
    try {
      return await running;
    } finally {
      this.#running.delete(key);
    }
  }

  createCollection(request: CreateCollection, options?: CallOptions): Promise<CollectionCreated> {
    return this.#once(options, { kind: "create", request }, (answered) =>
      this.#changes.create(request, answered),
    );
  }

  aliases(): Alias[] {
    const all = Array.from(this.collections.aliases, ([alias, collection]) => ({ alias, collection }));
    return all.sort((a, b) => compareText(a.alias, b.alias));
  }

  putAlias(alias: string, collection: string, options?: CallOptions): Promise<Alias> {
    const put = { alias, collection };
    return this.#once(options, { kind: "putAlias", ...put }, async (answered) => {
      await this.#changes.setAlias(alias, collection, answered(put));
      return put;
    });
  }

  deleteAlias(alias: string, options?: CallOptions): Promise<void> {
    return this.#once(options, { kind: "deleteAlias", alias }, (answered) =>
      this.#changes.setAlias(alias, undefined, answered(undefined)),
    );
  }

  onAliases(told: (aliases: ReadonlyMap<string, string>) => Promise<void> | void): void {
    this.#toldOfAliases.push(told);
  }

  listCollections(): CollectionSummary[] {
    return this.collections.list();
  }

  loadedCollections(): string[] {
    return this.collections.loadedNames();
  }

  collection(name: string): Collection {
    const shards = this.#shardsOf(name);
    return shards === undefined ? this.collections.findGiven(name).calls : shardedCalls(shards);
  }

  /** The shards of a collection of several, for a caller who sees the records of a filter. */
  #shardsOf(name: string, keyFilter?: Filter): Shards | undefined {
    const { replication } = this.#options;
    if (replication === undefined || this.collections.shardsOf(name) === undefined) return undefined;
    return new Shards(
      {
        entries: () => this.collections.shardsOf(name) ?? [],
        local: ({ definition }) => {
          const collection = this.collections.served.get(definition.name);
          return collection?.isOpen ? collection : undefined;
        },
        remote: (entry, call, deadline) => replication.ask(entry, call, deadline.limits),
      },
      keyFilter,
    );
  }

  restrictedTo(filter: Filter): RestrictedDatabase {
    const keyFilter = new KeyFilter(filter);
    return {
      listCollections: () => this.listCollections(),
      loadedCollections: () => this.loadedCollections(),
      collection: (name) => {
        const shards = this.#shardsOf(name, filter);
        return shards === undefined
          ? this.collections.findGiven(name).restrictedTo(keyFilter)
          : restrictedShardedCalls(shards, filter);
      },
    };
  }

  deleteCollection(name: string, options?: CallOptions): Promise<void> {
    return this.#once(options, { kind: "delete", name }, (answered) =>
      this.#changes.delete(name, answered(undefined)),
    );
  }

  async restoreCollection(
    name: string,
    request: RestoreCollection,
    reaches?: (snapshot: Snapshot) => boolean,
    options?: CallOptions,
  ): Promise<RestoredCollection> {
    return this.#once(options, { kind: "restore", name, request }, (answered) =>
      this.#restores.restore(name, request, reaches, answered),
    );
  }

  copyCollection(name: string, when: When, as: string, options?: CallOptions): Promise<RestoredCollection> {
    return this.#once(options, { kind: "copy", name, when, as }, (answered) => {
      const shards = this.#shardsOf(name);
      if (shards !== undefined) return this.#restores.copyShards(shards, when, as, answered);
      const collection = this.collections.findGiven(name);
      const { version, history } = collection.versionAt(when);
      return collection.workAside((_, closing) =>
        this.#restores.copy(collection.entry, version, history, as, closing, answered),
      );
    });
  }

  async mergeCollection(name: string, request: MergeCollection, options?: CallOptions): Promise<Merged> {
    this.#assertOpen();
    const [from] = this.collections.shardsOf(request.from) ?? [this.collections.entryOf(request.from)];
    // A copy is where its original is; another collection may be nowhere together with it.
    if (from !== undefined && from.definition.origin === undefined)
      throw notACopy(collectionOf(from.definition), name);
    const [shards, copies] = [this.#shardsOf(name), this.#shardsOf(request.from)];
    if (shards !== undefined && copies !== undefined) return mergeShards(shards, copies, request, options);
    const original = shards?.home ?? this.collections.findGiven(name);
    return original.merge(copies?.home ?? this.collections.findGiven(request.from), request, options);
  }

  #snapshotSource(name: string): SnapshotSource {
    const shards = this.#shardsOf(name);
    if (shards === undefined) return this.collections.findGiven(name);
    return {
      entry: { definition: collectionOf(shards.home.entry.definition) },
      // The next start removes what a crash leaves of it.
      workAside: async (work) => {
        const directory = collectionDirectory(
          this.#options.dataDir,
          `gathered${randomBytes(8).toString("hex")}`,
        );
        try {
          return await shards.home.workAside(async (_, signal) => {
            await gatherStores(shards, undefined, [{ directory }], {}, signal);
            return work(directory, signal);
          });
        } finally {
          rmSync(directory, { recursive: true, force: true });
        }
      },
    };
  }

  // ---- Maintenance

  statistics(): DatabaseStatistics {
    return {
      ...this.collections.statistics(),
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

  async diskUse(): Promise<DiskUse> {
    const { dataDir } = this.#options;
    const collections = [...this.collections.served.values()].map(async (collection) => ({
      name: collection.name,
      bytes: await collection.diskBytes(),
    }));
    return {
      collections: await Promise.all(collections),
      snapshotBytes: await directoryBytes(snapshotsDirectory(dataDir)),
      freeBytes: await freeBytes(dataDir),
    };
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#background.stop();
    const reason = new QuiverError("shutting_down", "The database is closing.");
    await this.#restores.abort(reason);
    await this.snapshots.close(reason);
    await this.#options.replication?.stop();
    await this.#restores.close(reason);
    await this.#past.close(reason);
    await Promise.all([...this.collections.served.values()].map((collection) => collection.close(reason)));
    await this.#builders.close();
    await this.#writer.stop();
    await this.#catalog.close();
    this.#release();
  }
}
