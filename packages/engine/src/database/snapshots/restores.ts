// How does a snapshot become a collection?
//
// A thread writes the store. Then the store is opened and added to the catalog, where it replaces the collection of the same name. A
// restore is aborted when its collection is deleted, or when the database closes.

import { randomBytes } from "node:crypto";
import { existsSync, rmSync } from "node:fs";
import { isQuiverError, type QuiverError } from "@quiverdb/protocol/errors";
import { checkFields } from "@quiverdb/protocol/fields";
import {
  RestoreCollection,
  type RestoredCollection,
  type Snapshot,
} from "@quiverdb/protocol/shapes/snapshot";
import type { Background } from "../../base/background.ts";
import { toHex } from "../../base/bytes.ts";
import { failpoint } from "../../base/failpoint.ts";
import { invariant } from "../../base/invariant.ts";
import {
  type CatalogAnswer,
  type CatalogEntry,
  checkCollectionName,
  collectionOf,
  nameOf,
} from "../../collection/definition.ts";
import { readHead } from "../../collection/head.ts";
import type { HistoryPolicy, When } from "../../collection/history.ts";
import { allVectors } from "../../collection/reading.ts";
import { collectionTables, metaKeys } from "../../collection/tables.ts";
import { readVersion, type VersionEntry } from "../../collection/versions.ts";
import { collectGarbage } from "../../process/collect-garbage.ts";
import {
  collectionDirectory,
  collectionsDirectory,
  removeCollectionDirectory,
  syncDirectory,
  syncStore,
} from "../../process/data-directory.ts";
import type { Writer } from "../../runtime/writer.ts";
import { LmdbStore } from "../../storage/lmdb.ts";
import { alreadyExists } from "../catalog.ts";
import type { OpenCollection } from "../collection.ts";
import type { Collections } from "../collections.ts";
import type { DatabaseLog } from "../contract.ts";
import type { SharedChange } from "../replication.ts";
import { gatherStores, type NewStore, writeStores } from "../shards/gathered-stores.ts";
import type { Shards } from "../shards/shards.ts";
import { writeCopy } from "../store-copy.ts";
import { checkDefinitions } from "./backup-definitions.ts";
import type { KeptSnapshots } from "./snapshots.ts";

export type RestoreDependencies = {
  readonly dataDir: string;
  readonly versionsKept: number;
  readonly writer: Writer;
  readonly snapshots: KeptSnapshots;
  readonly background: Background;
  readonly log: DatabaseLog;
  /** Makes a change of the catalog: here, or on all nodes of a cluster. */
  change(change: SharedChange): Promise<void>;
  /** Whether this node holds a collection. */
  holds(entry: CatalogEntry): boolean;
  /** The entry with this node among the replicas. */
  here(entry: CatalogEntry): CatalogEntry;
  /** Whether changes of the catalog are in a log, which is applied in its order. */
  readonly isReplicated: boolean;
};

export class Restores {
  readonly #collections: Collections;
  readonly #dependencies: RestoreDependencies;
  /** Running restores, by name. */
  readonly #restoring = new Map<string, { controller: AbortController; done: Promise<unknown> }>();

  /** Restored collections that wait for their change of the catalog, by internal id. */
  readonly #ready = new Map<string, OpenCollection>();

  constructor(collections: Collections, dependencies: RestoreDependencies) {
    this.#collections = collections;
    this.#dependencies = dependencies;
  }

  get count(): number {
    return this.#restoring.size;
  }

  has(name: string): boolean {
    return this.#restoring.has(name);
  }

  /** Aborts all restores, and waits for their end. */
  async abort(reason: QuiverError): Promise<void> {
    for (const { controller } of this.#restoring.values()) controller.abort(reason);
    await Promise.all(Array.from(this.#restoring.values(), ({ done }) => done));
  }

  /** Closes what waits for its change of the catalog: none comes any more. */
  async close(reason: QuiverError): Promise<void> {
    await Promise.all(Array.from(this.#ready.values(), (collection) => collection.close(reason)));
  }

  async restore(
    name: string,
    request: RestoreCollection,
    reaches?: (snapshot: Snapshot) => boolean,
    answered: (made: RestoredCollection) => CatalogAnswer | undefined = () => undefined,
  ): Promise<RestoredCollection> {
    checkFields(RestoreCollection, request);
    checkCollectionName(name);
    const paths = this.#dependencies.snapshots.pathsOf(request.snapshots, reaches);
    this.#requireQuiet(name);
    if (this.#collections.isTaken(name) && request.overwrite !== true)
      throw alreadyExists(name, "Restore under another name, or with overwrite: true to replace it.");
    // A damaged collection may be replaced, unless its directory is unknown.
    const aside = this.#collections.quarantined.get(name);
    if (aside !== undefined && aside.entry === undefined) throw aside.error;
    if (!this.#collections.isTaken(name)) this.#collections.requireRoom(name);
    try {
      return await this.#watched(name, (signal) => this.#run(name, paths, signal, answered));
    } catch (error) {
      // The snapshot was deleted while the restore opened its file: that is not a failure of the disk.
      if (isQuiverError(error, "storage_failed"))
        this.#dependencies.snapshots.pathsOf(request.snapshots, reaches);
      throw error;
    }
  }

  #requireQuiet(name: string): void {
    this.#collections.requireNoAlias(name);
    if (this.#collections.changing.has(name) || this.#restoring.has(name))
      throw alreadyExists(name, "It is being created, deleted or restored just now.");
  }

  /** Runs what makes a collection of this name, which its deletion and the end of the database abort. */
  async #watched<T>(name: string, run: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const leave = this.#dependencies.snapshots.jobs.enter();
    const controller = new AbortController();
    const made = run(controller.signal);
    this.#restoring.set(name, { controller, done: made.catch(() => undefined) });
    try {
      return await made;
    } finally {
      this.#restoring.delete(name);
      leave();
    }
  }

  /**
   * Makes a collection of a version of another one.
   * @param history what it keeps of its own versions
   * @param closing aborts it when the other one is closed
   */
  async copy(
    from: CatalogEntry,
    version: VersionEntry,
    history: HistoryPolicy | null,
    name: string,
    closing: AbortSignal,
    answered: (made: RestoredCollection) => CatalogAnswer | undefined,
  ): Promise<RestoredCollection> {
    checkCollectionName(name);
    this.#requireQuiet(name);
    if (this.#collections.isTaken(name)) throw alreadyExists(name, "Choose another name or delete it first.");
    this.#collections.requireRoom(name);
    const { dataDir, snapshots } = this.#dependencies;
    const internalId = `c${randomBytes(12).toString("hex")}`;
    const directory = collectionDirectory(dataDir, internalId);
    const hash = toHex(version.hash);
    const { history: _, ...definition } = from.definition;
    return this.#watched(name, (ended) => {
      const signal = AbortSignal.any([ended, closing]);
      return this.#making(
        [internalId],
        async () => {
          await snapshots.jobs.run(
            {
              kind: "copyVersion",
              from: collectionDirectory(dataDir, from.internalId),
              directory,
              entry: version,
              history,
              isOrigin: true,
            },
            signal,
          );
          syncStore(directory);
          const { internalId: original, replicas } = from;
          const origin = { name: definition.name, internalId: original, version: version.version, hash };
          const made = { ...definition, ...(history !== null && { history }), name, origin };
          return {
            // Where its original is: it can be merged there.
            entries: [{ ...this.#collections.newEntry(made, internalId), ...(replicas && { replicas }) }],
            made: { name, version_number: version.version, hash, vector_count: version.live },
          };
        },
        signal,
        answered,
      );
    });
  }

  /** The same of a collection of several shards: a copy has as many, and each is where its original is. */
  async copyShards(
    shards: Shards,
    when: When,
    name: string,
    answered: (made: RestoredCollection) => CatalogAnswer | undefined,
  ): Promise<RestoredCollection> {
    checkCollectionName(name);
    this.#requireQuiet(name);
    if (this.#collections.isTaken(name)) throw alreadyExists(name, "Choose another name or delete it first.");
    const { home } = shards;
    const { version, history } = home.versionAt(when);
    const isPast = when.version != null || when.as_of != null;
    const { history: _, ...definition } = collectionOf(home.entry.definition);
    const entries = this.#collections.newEntries({
      ...definition,
      ...(history !== null && { history }),
      name,
    });
    this.#collections.requireRoom(name, entries.length);
    return home.workAside((_directory, closing) =>
      this.#watched(name, (ended) => {
        const signal = AbortSignal.any([ended, closing]);
        return this.#making(
          entries.map(({ internalId }) => internalId),
          async () => {
            const targets = entries.map((entry) => this.#newStore(entry));
            const options = { history, isOrigin: true };
            const copied = await gatherStores(
              shards,
              isPast ? version.version : undefined,
              targets,
              options,
              signal,
            );
            const hash = toHex(copied.hash);
            const originals = this.#collections.shardsOf(nameOf(home.entry.definition)) ?? [];
            const originOf = (internalId: string) => ({
              origin: { name: definition.name, internalId, version: copied.version, hash },
            });
            return {
              entries: entries.map((entry, i) => ({
                ...entry,
                definition: { ...entry.definition, ...originOf(originals[i].internalId) },
                ...(originals[i].replicas && { replicas: originals[i].replicas }),
              })),
              made: { name, version_number: copied.version, hash, vector_count: copied.live },
            };
          },
          signal,
          answered,
        );
      }),
    );
  }

  #newStore({ internalId, definition: { shard } }: CatalogEntry): NewStore {
    return { directory: collectionDirectory(this.#dependencies.dataDir, internalId), shard };
  }

  async #run(
    name: string,
    paths: readonly string[],
    signal: AbortSignal,
    answered: (made: RestoredCollection) => CatalogAnswer | undefined,
  ): Promise<RestoredCollection> {
    const internalId = `c${randomBytes(12).toString("hex")}`;
    const directory = collectionDirectory(this.#dependencies.dataDir, internalId);
    const { versionsKept } = this.#dependencies;
    const made = [internalId];
    return this.#making(
      made,
      async () => {
        const { header } = await this.#dependencies.snapshots.jobs.run(
          { kind: "restore", paths, directory, versionsKept },
          signal,
        );
        checkDefinitions(header);
        failpoint("restore:written");
        const definition = { ...header.collection, name };
        const { version, hash, live } = header;
        const entries =
          definition.shards === undefined
            ? [this.#collections.newEntry(definition, internalId)]
            : this.#collections.newEntries(definition, internalId);
        if (entries.length > 1) {
          made.push(...entries.map((entry) => entry.internalId));
          await this.#divide(directory, entries, signal);
        }
        return { entries, made: { name, version_number: version, hash, vector_count: live } };
      },
      signal,
      answered,
    );
  }

  /** Makes the stores of shards of one that has all records, and removes it. */
  async #divide(directory: string, entries: readonly CatalogEntry[], signal: AbortSignal): Promise<void> {
    const store = new LmdbStore(directory, collectionTables);
    try {
      const readTxn = store.beginRead();
      try {
        const { version } = readHead(readTxn);
        const entry = readVersion(readTxn, version);
        invariant(entry !== undefined, `version ${version} is not in the log`);
        const indexes = readTxn.get("meta", metaKeys.indexes)?.slice();
        const stored = function* () {
          for (const vector of allVectors(readTxn)) yield vector.stored;
        };
        const targets = entries.map((each) => this.#newStore(each));
        await writeStores(targets, stored(), entry, { indexes }, signal);
      } finally {
        readTxn.release();
      }
    } finally {
      await store.close();
    }
    rmSync(directory, { recursive: true, force: true });
  }

  /** Replaces a collection on all nodes by this node's: a copy of its store, under a new id, in whose log nothing has differed. */
  async adopt({ entry }: OpenCollection, copy: AsyncIterable<Uint8Array>): Promise<void> {
    const internalId = `c${randomBytes(12).toString("hex")}`;
    const directory = collectionDirectory(this.#dependencies.dataDir, internalId);
    await this.#making([internalId], async () => {
      await writeCopy(directory, copy, { withoutPlace: true });
      const adopted = this.#collections.newEntry(entry.definition, internalId);
      return { entries: [{ ...adopted, createdMs: entry.createdMs }], made: undefined };
    });
  }

  /**
   * Makes stores, and gives them to the catalog.
   * @param internalIds whose directories are removed if it fails
   * @param make gives the entries of the collection's stores
   */
  async #making<T>(
    internalIds: readonly string[],
    make: () => Promise<{ entries: readonly CatalogEntry[]; made: T }>,
    signal?: AbortSignal,
    answered: (made: T) => CatalogAnswer | undefined = () => undefined,
  ): Promise<T> {
    const collections: OpenCollection[] = [];
    try {
      const { entries, made } = await make();
      for (const entry of entries)
        collections.push(await this.#collections.open(this.#dependencies.here(entry)));
      syncDirectory(collectionsDirectory(this.#dependencies.dataDir));
      signal?.throwIfAborted();
      failpoint("restore:synced");
      for (const collection of collections) this.#ready.set(collection.entry.internalId, collection);
      const [entry, ...others] = collections.map((collection) => collection.entry);
      await this.#dependencies.change({
        kind: "replaceCollection",
        entry,
        ...(others.length > 0 && { others }),
        answer: answered(made),
      });
      return made;
    } catch (error) {
      // After its change was made, it is the catalog's.
      const isMade = collections.length > 0 && !this.#ready.has(collections[0].entry.internalId);
      if (isMade && collections.every(({ entry }) => this.#collections.entryById(entry.internalId)))
        throw error;
      // Its change may yet come, and then needs the stores. If it does not, the next start removes them.
      if (isQuiverError(error, "log_unavailable") && error.details.applied === "unknown") throw error;
      const open = new Set(collections.map(({ entry }) => entry.internalId));
      for (const collection of collections) {
        this.#ready.delete(collection.entry.internalId);
        await this.#collections.remove(collection);
      }
      for (const internalId of internalIds)
        if (!open.has(internalId)) removeCollectionDirectory(this.#dependencies.dataDir, internalId);
      throw error;
    }
  }

  /**
   * Makes a restored collection that of its name. Of one that another node has restored, this node has only the entries at first. After a crash
   * those that are not in the catalog are put there.
   */
  async replace(entries: readonly CatalogEntry[], answer?: CatalogAnswer): Promise<void> {
    const name = nameOf(entries[0].definition);
    this.#collections.requireNoAlias(name);
    const missing = entries.filter(({ internalId }) => this.#collections.entryById(internalId) === undefined);
    const names = new Set(entries.map(({ definition }) => definition.name));
    for (const entry of missing) {
      const isLast = entry === missing.at(-1);
      // What had the name in another number of shards goes before the last comes, which has the answer.
      if (isLast) await this.#dropOthers(name, names);
      await this.#replaceOne(entry, isLast ? answer : undefined);
    }
  }

  /** Removes the stores of a collection that have other names than those that replace them. */
  async #dropOthers(name: string, names: ReadonlySet<string>): Promise<void> {
    const whole = this.#collections.entryOf(name);
    const old = [...(whole === undefined ? [] : [whole]), ...(this.#collections.shardsOf(name) ?? [])];
    for (const entry of old) {
      const key = entry.definition.name;
      if (names.has(key)) continue;
      await this.#dependencies.writer.changeCatalog({ kind: "deleteCollection", name: key });
      const collection = this.#collections.served.get(key);
      const aside = this.#collections.quarantined.get(key);
      this.#collections.served.delete(key);
      this.#collections.quarantined.delete(key);
      this.#collections.elsewhere.delete(key);
      if (collection) await this.#removeReplaced(collection);
      if (aside?.entry) removeCollectionDirectory(this.#dependencies.dataDir, aside.entry.internalId);
    }
  }

  /** The store that this node wrote for a change of which it did not hear before it was started again. */
  async #leftFor(entry: CatalogEntry): Promise<OpenCollection | undefined> {
    const { dataDir, log, holds } = this.#dependencies;
    if (!holds(entry) || !existsSync(collectionDirectory(dataDir, entry.internalId))) return undefined;
    try {
      return await this.#collections.open(entry);
    } catch (err) {
      log.warn({ store: entry.internalId, err }, "a restored store cannot be opened, and is copied again");
      return undefined;
    }
  }

  async #replaceOne(entry: CatalogEntry, answer: CatalogAnswer | undefined): Promise<void> {
    const { name } = entry.definition;
    const collection = this.#ready.get(entry.internalId) ?? (await this.#leftFor(entry));
    await this.#dependencies.writer.changeCatalog({ kind: "putCollection", entry, answer });
    this.#ready.delete(entry.internalId);
    failpoint("restore:in-catalog");
    const replaced = this.#collections.served.get(name);
    this.#collections.elsewhere.delete(name);
    const aside = this.#collections.quarantined.get(name);
    this.#collections.quarantined.delete(name);
    if (collection === undefined) {
      this.#collections.served.delete(name);
      this.#collections.elsewhere.set(name, entry);
    } else {
      this.#collections.served.set(name, collection);
      collection.start(true);
    }
    if (replaced) await this.#removeReplaced(replaced);
    failpoint("restore:replaced");
    if (aside?.entry) removeCollectionDirectory(this.#dependencies.dataDir, aside.entry.internalId);
  }

  async #removeReplaced(replaced: OpenCollection): Promise<void> {
    try {
      await this.#collections.remove(replaced, "replaced by a restore");
      this.#dependencies.background.once("collecting garbage", collectGarbage);
    } catch (err) {
      // The restore has succeeded. The next start removes the remaining files of the replaced collection.
      const { internalId: store, definition } = replaced.entry;
      this.#dependencies.log.warn(
        { collection: definition.name, store, err },
        "a collection that a restore has replaced could not be removed",
      );
    }
  }

  /** Aborts the restore of this name, if there is one, and waits for its end. One whose change is in the log comes behind what ends it. */
  async end(name: string, reason: QuiverError): Promise<void> {
    const restore = this.#restoring.get(name);
    restore?.controller.abort(reason);
    const isReady = [...this.#ready.values()].some(({ entry }) => nameOf(entry.definition) === name);
    if (!this.#dependencies.isReplicated || !isReady) await restore?.done;
  }
}
