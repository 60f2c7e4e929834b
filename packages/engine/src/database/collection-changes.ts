// How is a collection created, and how is it deleted?
//
// create  make and sync the store -> write the catalog entry: from now on the collection exists
// delete  remove the catalog entry: from now on the collection is gone -> stop indexing and searches, close the stores, remove the directory
//
// Both are durable with their change of the catalog. The next start removes what an interrupted one leaves.

import { QuiverError } from "@quiverdb/protocol/errors";
import type { CollectionCreated, CreateCollection } from "@quiverdb/protocol/shapes/collection";
import type { Background } from "../base/background.ts";
import { failpoint } from "../base/failpoint.ts";
import { defineCollection, summaryOf } from "../collection/definition.ts";
import { kindsWith } from "../index/registry.ts";
import { collectGarbage } from "../process/collect-garbage.ts";
import type { Writer } from "../runtime/writer.ts";
import { alreadyExists } from "./catalog.ts";
import type { Collections } from "./collections.ts";
import type { DatabaseLog } from "./contract.ts";
import type { Restores } from "./snapshots/restores.ts";

export type ChangeDependencies = {
  readonly writer: Writer;
  readonly background: Background;
  readonly log: DatabaseLog;
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

  async create(request: CreateCollection): Promise<CollectionCreated> {
    const definition = defineCollection(request);
    const { name } = definition;
    // If the name is just created, "already exists" is answered when reads find it, and if it is deleted, it is soon free.
    for (let other = this.#changeOf(name); other !== undefined; other = this.#changeOf(name)) await other;
    if (this.#restores.has(name)) throw alreadyExists(name, "It is being restored just now.");
    if (this.#collections.isTaken(name)) throw alreadyExists(name, "Choose another name or delete it first.");
    this.#collections.requireRoom(name);
    await this.#change(name, async () => {
      const collection = await this.#collections.make(definition);
      this.#collections.served.set(name, collection);
      for (const { name, automatic } of kindsWith("automatic"))
        if (automatic.isWanted(request)) await collection.createAutomatic(name);
    });
    return { id: name, ...summaryOf(definition) };
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

  async delete(name: string): Promise<void> {
    const aside = this.#collections.quarantined.get(name);
    if (aside !== undefined) return this.#collections.deleteQuarantined(aside);
    this.#collections.find(name);
    await this.#restores.end(
      name,
      new QuiverError("collection_not_found", `The collection '${name}' was deleted meanwhile.`),
    );
    const collection = this.#collections.find(name);
    this.#collections.served.delete(name);
    await this.#change(name, async () => {
      try {
        await this.#dependencies.writer.changeCatalog({ kind: "deleteCollection", name });
      } catch (error) {
        this.#collections.served.set(name, collection);
        throw error;
      }
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
}
