// Which collections exist, and how are they created and deleted?
//
// Those that are served, those that are quarantined because their stores are damaged, and the names of those that are being made, deleted or
// restored. Only the writer changes the catalog.

import { randomBytes } from "node:crypto";
import { isQuiverError, QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { Finding } from "@quiverdb/protocol/shapes/check";
import type { CollectionSummary } from "@quiverdb/protocol/shapes/collection";
import { compareText } from "../base/bytes.ts";
import { failpoint } from "../base/failpoint.ts";
import type { IndexDefinitions } from "../collection/apply.ts";
import {
  type CatalogAnswer,
  type CatalogEntry,
  type CollectionDefinition,
  isOfShard,
  nameOf,
  ofShard,
  shardIdOf,
  summaryOf,
} from "../collection/definition.ts";
import { collectionsDirectory, removeCollectionDirectory, syncDirectory } from "../process/data-directory.ts";
import type { MemoryBudget } from "../process/memory.ts";
import type { Writer } from "../runtime/writer.ts";
import { alreadyExists } from "./catalog.ts";
import type { CollectionDependencies } from "./collection/state.ts";
import { OpenCollection } from "./collection.ts";
import type { DatabaseLog, DatabaseStatistics } from "./contract.ts";
import { type Quarantined, quarantineError, unopenedError } from "./quarantine.ts";

export type CollectionsDependencies = {
  readonly dataDir: string;
  readonly writer: Writer;
  readonly memory: MemoryBudget;
  readonly memoryBudgetBytes: number | undefined;
  readonly log: DatabaseLog;
  clock(): number;
  /** Shards of a collection that does not say how many. */
  readonly shards: number;
  /** The nodes that hold a new collection; undefined in a database alone. */
  replicasOf(internalId: string, replicationFactor: number | null): readonly string[] | undefined;
  /** Closes the earlier versions of a collection. */
  closePast(reason: QuiverError, internalId: string): Promise<void>;
  /** What a collection needs. */
  of(entry: CatalogEntry): CollectionDependencies;
};

export class Collections {
  readonly #dependencies: CollectionsDependencies;
  /** By name. */
  readonly served = new Map<string, OpenCollection>();
  /** Earlier versions of collections that are open for searches (past-versions.ts). */
  readonly past = new Set<OpenCollection>();
  readonly quarantined = new Map<string, Quarantined>();
  /** Those that only other nodes hold, by name. */
  readonly elsewhere = new Map<string, CatalogEntry>();
  /** Names of collections by their aliases. */
  readonly aliases = new Map<string, string>();
  readonly #nameById = new Map<string, string>();
  /** Names whose creation or deletion is in progress, and when it has ended, however it does. */
  readonly changing = new Map<string, Promise<void>>();
  readonly #restoring: () => number;

  /** @param restoring the number of running restores */
  constructor(dependencies: CollectionsDependencies, restoring: () => number) {
    this.#dependencies = dependencies;
    this.#restoring = restoring;
  }

  /** Bytes that the indexes of all collections take when they have all records. */
  get expectedBytes(): number {
    let bytes = 0;
    for (const collection of this.opened) bytes += collection.expectedBytes;
    return bytes;
  }

  /** All whose indexes take memory. */
  get opened(): OpenCollection[] {
    return [...this.served.values(), ...this.past];
  }

  /** @param verifying resolves with the findings of a check of the store */
  async openOrQuarantine(entry: CatalogEntry, verifying: Promise<Finding[]>): Promise<void> {
    const { name } = entry.definition;
    let error: QuiverError | undefined;
    try {
      const findings = await verifying;
      for (const finding of findings.slice(0, loggedMax))
        this.#dependencies.log.error(
          { collection: entry.definition.name, store: entry.internalId, finding },
          "stored data is damaged",
        );
      error = quarantineError(name, findings);
      if (error === undefined) this.served.set(name, await this.open(entry));
    } catch (cause) {
      if (isQuiverError(cause, "format_too_new") || isQuiverError(cause, "format_too_old")) throw cause;
      await this.#dependencies.writer.closeStore(entry.internalId);
      error = unopenedError(name, cause);
    }
    if (error !== undefined) this.quarantine(name, entry, error);
  }

  quarantine(name: string, entry: CatalogEntry | undefined, error: QuiverError): void {
    this.quarantined.set(name, { name, entry, error });
    const { log } = this.#dependencies;
    const fields = { collection: name, store: entry?.internalId, err: error };
    // One that moves, or is copied again, is no trouble.
    if (error.code === "not_ready") log.info(fields, "a collection is not served");
    else log.error(fields, "a collection is quarantined");
  }

  /** @param indexes of a new collection */
  async open(entry: CatalogEntry, indexes?: IndexDefinitions): Promise<OpenCollection> {
    await this.#dependencies.writer.openStore(entry, indexes);
    return new OpenCollection(entry, this.#dependencies.of(entry));
  }

  /** Loads the collections that were loaded before, as far as the memory budget allows: the last ones first. */
  start(): void {
    for (const collection of [...this.served.values()].reverse()) {
      const isLoaded = collection.entry.loaded;
      const fits =
        isLoaded &&
        (!this.#dependencies.memory.isLimited ||
          this.#dependencies.memory.fits({ indexBytes: collection.bytesToLoad }));
      collection.start(fits);
      if (isLoaded && !fits)
        this.#dependencies.log.warn(
          { collection: collection.name, budget: this.#dependencies.memoryBudgetBytes },
          "a collection stays unloaded: the memory budget has no room for it",
        );
    }
  }

  /** Waits until the indexes of all loaded collections have caught up or failed. */
  async recovered(): Promise<void> {
    await Promise.all(
      [...this.served.values()].map((collection) =>
        collection.indexed().catch((error: unknown) => {
          // The database is closed while it starts: the next start continues.
          if (isQuiverError(error) && error.code === "shutting_down") return;
          this.#dependencies.log.error(
            { collection: collection.name, err: error },
            "a collection did not recover",
          );
        }),
      ),
    );
  }

  /** Aborts the transactions that have been idle for so long. @throws the first failure, when all collections were looked at */
  async abortIdle(idleMs: number): Promise<void> {
    const looking = [...this.served.values()].map((collection) =>
      collection.isOpen ? collection.abortIdleTransaction(idleMs) : undefined,
    );
    const failed = (await Promise.allSettled(looking)).find(({ status }) => status === "rejected");
    if (failed?.status === "rejected") throw failed.reason;
  }

  /** Removes what earlier versions had that nobody can read any more. @throws the first failure, when all collections were looked at */
  async vacuum(): Promise<void> {
    const vacuuming = [...this.served.values()].map((collection) =>
      collection.isOpen ? collection.vacuum() : undefined,
    );
    const failed = (await Promise.allSettled(vacuuming)).find(({ status }) => status === "rejected");
    if (failed?.status === "rejected") throw failed.reason;
  }

  /** @throws collection_already_exists if an alias has the name */
  requireNoAlias(name: string): void {
    const of = this.aliases.get(name);
    if (of !== undefined)
      throw alreadyExists(name, `It is an alias of '${of}'; choose another name or delete the alias first.`);
  }

  /** Whether there is a collection of this name, served or not. */
  isTaken(name: string): boolean {
    const isThere = (key: string) =>
      this.served.has(key) || this.quarantined.has(key) || this.elsewhere.has(key);
    return isThere(name) || isThere(ofShard({ name } as CollectionDefinition, 0, 1).name);
  }

  /** The entries of the shards of a collection or an alias, by number; undefined if it has none. */
  shardsOf(given: string): CatalogEntry[] | undefined {
    const name = this.aliases.get(given) ?? given;
    const first = this.entryOf(`${name}#0`);
    if (first?.definition.shard === undefined) return undefined;
    const entries = Array.from({ length: first.definition.shard.of }, (_, number) =>
      this.entryOf(`${name}#${number}`),
    );
    return entries.filter((entry) => entry !== undefined);
  }

  /** @param shards of the new collection: each counts as one */
  requireRoom(name: string, shards = 1): void {
    const there = this.served.size + this.elsewhere.size + this.changing.size + this.#restoring();
    if (there + shards <= limits.collectionsMax) return;
    throw new QuiverError(
      "invalid_request",
      `name '${name}' would be ${shards === 1 ? "one collection" : `${shards} shards`} more than the limit of ${limits.collectionsMax}${shards === 1 ? "" : ` collections and shards, of which there are ${there}`}. Delete one first.`,
      { path: "name", limit: limits.collectionsMax },
    );
  }

  /** Makes the store of a new collection, and its entry in the catalog: from then on it exists. */
  async make(
    entry: CatalogEntry,
    indexes: IndexDefinitions,
    answer: CatalogAnswer | undefined,
  ): Promise<OpenCollection> {
    let collection: OpenCollection;
    try {
      collection = await this.open(entry, indexes);
    } catch (error) {
      removeCollectionDirectory(this.#dependencies.dataDir, entry.internalId);
      throw error;
    }
    try {
      failpoint("create:store-made");
      syncDirectory(collectionsDirectory(this.#dependencies.dataDir));
      failpoint("create:synced");
      await this.#dependencies.writer.changeCatalog({ kind: "putCollection", entry, answer });
      collection.start(true);
      failpoint("create:in-catalog");
      return collection;
    } catch (error) {
      await this.remove(collection);
      throw error;
    }
  }

  /** The entries of a new collection: one, or in a cluster one for each of its shards. */
  newEntries(definition: CollectionDefinition, internalId = newId()): CatalogEntry[] {
    const { maxVectors, shards = maxVectors === null ? this.#dependencies.shards : 1 } = definition;
    if (shards === 1 || this.#dependencies.replicasOf(internalId, null) === undefined)
      return [this.newEntry(definition, internalId)];
    return Array.from({ length: shards }, (_, number) =>
      this.newEntry(ofShard(definition, number, shards), shardIdOf(internalId, number)),
    );
  }

  newEntry(definition: CollectionDefinition, internalId = newId()): CatalogEntry {
    const replicas = this.#dependencies.replicasOf(internalId, definition.replicationFactor);
    return {
      internalId,
      createdMs: this.#dependencies.clock(),
      loaded: true,
      definition,
      ...(replicas && { replicas }),
    };
  }

  async remove(collection: OpenCollection, what = "deleted"): Promise<void> {
    const { internalId, definition } = collection.entry;
    const reason = new QuiverError(
      "collection_not_found",
      `The collection '${definition.name}' was ${what} meanwhile.`,
    );
    await this.#dependencies.closePast(reason, internalId);
    await collection.close(reason, false);
    failpoint("drop:closed");
    await this.#dependencies.writer.closeStore(internalId);
    failpoint("drop:store-closed");
    removeCollectionDirectory(this.#dependencies.dataDir, internalId);
  }

  list(): CollectionSummary[] {
    const open = this.sorted().map(({ entry }) => summaryOf(entry.definition));
    const aside = [...this.quarantined.values()].map(({ name, entry }) => ({
      ...(entry === undefined ? { name } : summaryOf(entry.definition)),
      damaged: true,
    }));
    const others = [...this.elsewhere.values()].map(({ definition }) => summaryOf(definition));
    // Of several shards, one that is damaged says more than the others.
    const all = new Map([...open, ...others, ...aside].map((summary) => [summary.name, summary]));
    return [...all.values()].sort((a, b) => compareText(a.name, b.name));
  }

  statistics(): Pick<DatabaseStatistics, "collections" | "damaged"> {
    const open = this.sorted().filter((collection) => collection.isOpen);
    return {
      collections: open.map((collection) => collection.statistics()),
      damaged: Array.from(this.quarantined.values(), ({ name, error }) => ({ name, message: error.message })),
    };
  }

  sorted(): OpenCollection[] {
    return [...this.served.values()].sort((a, b) => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)));
  }

  loadedNames(): string[] {
    const loaded = this.sorted().filter((collection) => collection.isLoaded);
    return [...new Set(loaded.map(({ entry }) => nameOf(entry.definition)))];
  }

  /** What a caller names: shards have names of their own, which nobody can give. @throws as `find` */
  findGiven(given: string): OpenCollection {
    if (isOfShard(given)) throw notFound(given);
    return this.find(given);
  }

  /** The collection of a name or an alias. */
  find(given: string): OpenCollection {
    const name = this.aliases.get(given) ?? given;
    const collection = this.served.get(name);
    if (collection) return collection;
    const aside = this.quarantined.get(name);
    if (aside) throw aside.error;
    const { replicas } = this.elsewhere.get(name) ?? {};
    if (replicas !== undefined)
      throw new QuiverError(
        "not_ready",
        `This node does not hold the collection '${name}'; ${replicas.join(", ")} do. Send the request to one of them.`,
        { collection: name, replicas },
      );
    throw notFound(name);
  }

  /** The entry of a collection or an alias, also of one that is damaged or elsewhere. */
  entryOf(given: string): CatalogEntry | undefined {
    const name = this.aliases.get(given) ?? given;
    return this.served.get(name)?.entry ?? this.quarantined.get(name)?.entry ?? this.elsewhere.get(name);
  }

  /** The same, by internal id. */
  entryById(internalId: string): CatalogEntry | undefined {
    const known = this.#nameById.get(internalId);
    const entry = known === undefined ? undefined : this.entryOf(known);
    if (entry?.internalId === internalId) return entry;
    // It was found out before the collection of this name was replaced, or never.
    this.#nameById.clear();
    for (const each of this.entries) this.#nameById.set(each.internalId, each.definition.name);
    const name = this.#nameById.get(internalId);
    return name === undefined ? undefined : this.entryOf(name);
  }

  /** Of all collections, also of those that are damaged or elsewhere; not of damaged entries. */
  get entries(): CatalogEntry[] {
    return [
      ...Array.from(this.served.values(), ({ entry }) => entry),
      ...Array.from(this.quarantined.values()).flatMap(({ entry }) => (entry === undefined ? [] : [entry])),
      ...this.elsewhere.values(),
    ];
  }
}

const newId = (): string => `c${randomBytes(12).toString("hex")}`;

/** Findings per collection that are logged at a start. */
const loggedMax = 20;

const notFound = (name: string): QuiverError =>
  new QuiverError(
    "collection_not_found",
    `There is no collection named '${name.slice(0, 300)}'. It is created by createCollection, POST /vectordb/collections.`,
    { name: name.slice(0, 300) },
  );
