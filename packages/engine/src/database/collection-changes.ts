// How is a collection created, and how is it deleted?
//
// create  check -> change -> make and sync the store -> write the catalog entry: from now on the collection exists
// delete  check -> change -> remove the catalog entry: from now on the collection is gone -> stop indexing and searches, close the stores,
//         remove the directory
//
// A database alone applies a change at once; that of a cluster when it comes back from the log, in which all nodes have it (replication.ts).
// Both are durable with their change of the catalog. The next start removes what an interrupted one leaves.

import { fieldError, QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { CollectionCreated, CreateCollection } from "@quiverdb/protocol/shapes/collection";
import type { IndexDefinition } from "@quiverdb/protocol/shapes/index-definition";
import type { Background } from "../base/background.ts";
import { failpoint } from "../base/failpoint.ts";
import type { IndexDefinitions } from "../collection/apply.ts";
import {
  type CatalogAnswer,
  type CatalogEntry,
  checkCollectionName,
  collectionIdOf,
  defineCollection,
  isOfShard,
  nameOf,
  summaryOf,
} from "../collection/definition.ts";
import { kindsWith } from "../index/registry.ts";
import { collectGarbage } from "../process/collect-garbage.ts";
import { removeCollectionDirectory } from "../process/data-directory.ts";
import type { Writer } from "../runtime/writer.ts";
import { alreadyExists } from "./catalog.ts";
import type { Collections } from "./collections.ts";
import type { DatabaseLog } from "./contract.ts";
import type { SharedChange } from "./replication.ts";
import type { Restores } from "./snapshots/restores.ts";

export type ChangeDependencies = {
  readonly dataDir: string;
  readonly writer: Writer;
  readonly background: Background;
  readonly log: DatabaseLog;
  /** Makes a change of the catalog: here, or on all nodes of a cluster. */
  change(change: SharedChange): Promise<void>;
  /** As the catalog has them. */
  aliases(): Iterable<[alias: string, collection: string]>;
  saveAlias(alias: string, collection: string | undefined, answer?: CatalogAnswer): Promise<void>;
  /** Tells everybody who needs them of the aliases; resolves when all know. */
  onAliases(): Promise<void>;
  /** Whether this node holds a collection. */
  holds(entry: CatalogEntry): boolean;
};

export class CollectionChanges {
  readonly #collections: Collections;
  readonly #restores: Restores;
  readonly #dependencies: ChangeDependencies;

  constructor(collections: Collections, restores: Restores, dependencies: ChangeDependencies) {
    this.#collections = collections;
    this.#restores = restores;
    this.#dependencies = dependencies;
  }

  /** @param answered what is stored with the collection as the answer to its request, if that has a key */
  async create(
    request: CreateCollection,
    answered: (created: CollectionCreated) => CatalogAnswer | undefined,
  ): Promise<CollectionCreated> {
    const definition = defineCollection(request);
    const { name } = definition;
    // If the name is just created, "already exists" is answered when reads find it, and if it is deleted, it is soon free.
    for (let other = this.#changeOf(name); other !== undefined; other = this.#changeOf(name)) await other;
    if (this.#restores.has(name)) throw alreadyExists(name, "It is being restored just now.");
    this.#requireFree(name);
    const [entry, ...others] = this.#collections.newEntries(definition);
    this.#collections.requireRoom(name, 1 + others.length);
    const indexes: Record<string, IndexDefinition> = {};
    for (const { name: kind, automatic, define } of kindsWith("automatic"))
      if (automatic.isWanted(request)) indexes[kind] = define(definition, automatic.definition);
    const created = { id: name, ...summaryOf(definition) };
    await this.#dependencies.change({
      kind: "createCollection",
      entry,
      ...(others.length > 0 && { others }),
      indexes: indexes as IndexDefinitions,
      answer: answered(created),
    });
    return created;
  }

  #requireFree(name: string): void {
    this.#collections.requireNoAlias(name);
    if (this.#collections.isTaken(name)) throw alreadyExists(name, "Choose another name or delete it first.");
  }

  #changeOf(name: string): Promise<void> | undefined {
    return this.#collections.changing.get(name);
  }

  async #change(name: string, change: () => Promise<void>): Promise<void> {
    const { changing } = this.#collections;
    const ended = Promise.withResolvers<void>();
    changing.set(name, ended.promise);
    try {
      await change();
    } finally {
      changing.delete(name);
      ended.resolve();
    }
  }

  /** @param answer that is stored with the deletion */
  async delete(name: string, answer: CatalogAnswer | undefined): Promise<void> {
    this.#requireNoAliasOf(name);
    if (isOfShard(name)) this.#collections.findGiven(name);
    const aside = this.#entryAside(name);
    const [shard] = this.#collections.shardsOf(name) ?? [];
    const entry =
      shard ?? aside ?? this.#collections.elsewhere.get(name) ?? this.#collections.find(name).entry;
    const internalId = collectionIdOf(entry.internalId);
    await this.#dependencies.change({ kind: "deleteCollection", name, internalId, answer });
  }

  /** The entry of a quarantined collection. @throws its error if the entry is damaged: its directory is unknown, and it cannot be deleted */
  #entryAside(name: string): CatalogEntry | undefined {
    const aside = this.#collections.quarantined.get(name);
    if (aside !== undefined && aside.entry === undefined) throw aside.error;
    return aside?.entry;
  }

  /** @throws collection_has_aliases, also for an alias itself */
  #requireNoAliasOf(name: string): void {
    const of = this.#collections.aliases.get(name) ?? name;
    const aliases = [...this.#collections.aliases].filter(([, each]) => each === of).map(([alias]) => alias);
    if (aliases.length === 0) return;
    const shown = aliases.slice(0, 10).map((alias) => `'${alias}'`);
    throw new QuiverError(
      "collection_has_aliases",
      `The collection '${of}' has the ${aliases.length === 1 ? "alias" : `${aliases.length} aliases`} ${shown.join(", ")}; nothing was deleted. Delete or move the aliases first: DELETE /vectordb/aliases/{alias}.`,
      { name: of, aliases: aliases.slice(0, 100) },
    );
  }

  /** Makes an alias another name of a collection, at once; of none: removes it. */
  async setAlias(
    alias: string,
    collection: string | undefined,
    answer: CatalogAnswer | undefined,
  ): Promise<void> {
    checkCollectionName(alias);
    this.#requireAliasable(alias, collection);
    await this.#dependencies.change({ kind: "setAlias", alias, collection, answer });
  }

  #requireAliasable(alias: string, collection: string | undefined): void {
    const { aliases } = this.#collections;
    if (collection === undefined) {
      if (aliases.has(alias)) return;
      throw new QuiverError("alias_not_found", `There is no alias '${alias.slice(0, 300)}'.`, { alias });
    }
    if (this.#collections.isTaken(alias) || this.#changeOf(alias) !== undefined)
      throw alreadyExists(alias, "An alias needs a name of its own; choose another one.");
    if (aliases.has(collection))
      throw fieldError(
        "collection",
        "the name of a collection",
        "an alias",
        `'${collection.slice(0, 300)}' is an alias itself, of '${aliases.get(collection)}'; give the collection's name.`,
      );
    if (isOfShard(collection) || !this.#collections.isTaken(collection))
      this.#collections.findGiven(collection);
    if (aliases.size >= limits.aliasesMax && !aliases.has(alias))
      throw fieldError(
        "alias",
        `at most ${limits.aliasesMax} aliases`,
        "one more",
        `There are ${limits.aliasesMax} aliases, which is the limit. Delete one first.`,
      );
  }

  /** The aliases are what the catalog says. */
  async readAliases(): Promise<void> {
    const { aliases } = this.#collections;
    aliases.clear();
    for (const [alias, name] of this.#dependencies.aliases()) aliases.set(alias, name);
    await this.#dependencies.onAliases();
  }

  async #setAlias({ alias, collection, answer }: Extract<SharedChange, { alias: string }>): Promise<void> {
    this.#requireAliasable(alias, collection);
    await this.#dependencies.saveAlias(alias, collection, answer);
    if (collection === undefined) this.#collections.aliases.delete(alias);
    else this.#collections.aliases.set(alias, collection);
    await this.#dependencies.onAliases();
  }

  /** Makes a change here. @throws what refuses it */
  async apply(
    change: Exclude<SharedChange, { key: string } | { node: string } | { replicas: unknown }>,
  ): Promise<void> {
    switch (change.kind) {
      case "createCollection":
        return this.#createAll([change.entry, ...(change.others ?? [])], change.indexes, change.answer);
      case "replaceCollection":
        return this.#restores.replace([change.entry, ...(change.others ?? [])], change.answer);
      case "deleteCollection":
        return this.#deleteAll(change.name, change.internalId, change.answer);
      case "setAlias":
        return this.#setAlias(change);
    }
  }

  /** Those that a crash has left to be made. The answer is stored with the last. */
  async #createAll(
    entries: readonly CatalogEntry[],
    indexes: IndexDefinitions,
    answer?: CatalogAnswer,
  ): Promise<void> {
    const missing = entries.filter(({ internalId }) => this.#collections.entryById(internalId) === undefined);
    if (missing.length === entries.length) this.#requireFree(nameOf(entries[0].definition));
    for (const entry of missing)
      await this.#create(entry, indexes, entry === missing.at(-1) ? answer : undefined);
  }

  async #create(entry: CatalogEntry, indexes: IndexDefinitions, answer?: CatalogAnswer): Promise<void> {
    const { name } = entry.definition;
    await this.#change(name, async () => {
      if (this.#dependencies.holds(entry))
        this.#collections.served.set(name, await this.#collections.make(entry, indexes, answer));
      else {
        await this.#dependencies.writer.changeCatalog({ kind: "putCollection", entry, answer });
        this.#collections.elsewhere.set(name, entry);
      }
    });
  }

  /** The last of the shards goes with the answer. The first one goes last: by it the others are found. */
  async #deleteAll(name: string, internalId: string, answer?: CatalogAnswer): Promise<void> {
    this.#requireNoAliasOf(name);
    const shards = this.#collections.shardsOf(name);
    if (shards === undefined || collectionIdOf(shards[0].internalId) !== internalId)
      return this.#delete(name, internalId, answer);
    for (const entry of shards.reverse())
      await this.#delete(
        entry.definition.name,
        entry.internalId,
        entry === shards.at(-1) ? answer : undefined,
      );
  }

  async #delete(name: string, internalId: string, answer?: CatalogAnswer): Promise<void> {
    const { served, quarantined, elsewhere } = this.#collections;
    const known = this.#collections.entryOf(name);
    // All nodes refuse alike, whether they hold it or not. Of an entry that is damaged here, the id is not known.
    if (known === undefined ? !quarantined.has(name) : known.internalId !== internalId)
      throw new QuiverError(
        "collection_not_found",
        `The collection '${name}' was deleted or replaced meanwhile.`,
      );
    await this.#restores.end(
      name,
      new QuiverError("collection_not_found", `The collection '${name}' was deleted meanwhile.`),
    );
    const aside = this.#entryAside(name);
    await this.#change(name, async () => {
      if (elsewhere.has(name)) return this.#takeOut(elsewhere, name, answer);
      if (aside !== undefined) {
        await this.#takeOut(quarantined, name, answer);
        removeCollectionDirectory(this.#dependencies.dataDir, aside.internalId);
        return;
      }
      const collection = this.#collections.find(name);
      await this.#takeOut(served, name, answer);
      try {
        failpoint("drop:out-of-catalog");
        await this.#collections.remove(collection);
        failpoint("drop:removed");
        this.#dependencies.background.once("collecting garbage", collectGarbage);
      } catch (error) {
        // The deletion is durable, because the catalog no longer has the collection. The next start removes the remaining files.
        this.#dependencies.log.warn(
          { collection: collection.name, err: error },
          "a collection's files are not all removed",
        );
      }
    });
  }

  /** Removes a collection's entry, here at once, so that a copy that arrives for it meanwhile is dropped, and in the catalog durably. */
  async #takeOut<T>(from: Map<string, T>, name: string, answer?: CatalogAnswer): Promise<void> {
    const taken = from.get(name) as T;
    from.delete(name);
    try {
      await this.#dependencies.writer.changeCatalog({ kind: "deleteCollection", name, answer });
    } catch (error) {
      from.set(name, taken);
      throw error;
    }
  }
}
