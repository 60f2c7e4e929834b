// How does a database apply a replicated log?
//
// The parts of an open database, as `Replica` (replication.ts).

import { renameSync, rmSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { isQuiverError, QuiverError } from "@quiverdb/protocol/errors";
import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import { fromHex, toHex } from "../base/bytes.ts";
import type { CallLimits } from "../base/deadline.ts";
import type { CatalogEntry, CatalogRequest } from "../collection/definition.ts";
import { type Place, placeAfter, readPlace } from "../collection/place.ts";
import type { OrderedMessage } from "../log/ordered.ts";
import {
  collectionDirectory,
  collectionsDirectory,
  removeCollectionDirectory,
  syncDirectory,
} from "../process/data-directory.ts";
import type { AppliedMessage, Writer } from "../runtime/writer.ts";
import type { Catalog } from "./catalog.ts";
import type { OpenCollection } from "./collection.ts";
import type { CollectionChanges } from "./collection-changes.ts";
import type { Collections } from "./collections.ts";
import type { AppliedChange, CatalogState, Replica, SharedChange } from "./replication.ts";
import type { ShardCall } from "./shards/call.ts";
import type { Restores } from "./snapshots/restores.ts";
import { copyStore, stateHash, writeCopy } from "./store-copy.ts";

export type ReplicaParts = {
  readonly dataDir: string;
  readonly writer: Writer;
  readonly catalog: Catalog;
  readonly collections: Collections;
  readonly changes: CollectionChanges;
  readonly restores: Restores;
};

/** Notes of a cluster among the credentials. */
const notePrefix = "cluster:";
/** The nodes of a cluster, by name. */
const nodePrefix = "cluster-node:";
/** Names of nodes that were removed. */
const removedPrefix = "cluster-removed:";

export class DatabaseReplica implements Replica {
  readonly #parts: ReplicaParts;
  readonly notes: Replica["notes"];

  constructor(parts: ReplicaParts) {
    this.#parts = parts;
    const note = (request: CatalogRequest) => parts.writer.changeCatalog(request);
    this.notes = {
      get: (key) => parts.catalog.credential(notePrefix + key),
      put: (key, value) => note({ kind: "putCredential", key: notePrefix + key, value }),
    };
  }

  get isEmpty(): boolean {
    return this.entries().length === 0 && this.#parts.catalog.credentialsOf("").length === 0;
  }

  catalogPlace(): Place {
    return this.#parts.catalog.place;
  }

  async applyChange(
    position: number,
    opId: string,
    crc32: number,
    change: SharedChange,
  ): Promise<AppliedChange | undefined> {
    const place = this.catalogPlace();
    if (position <= place.position) return undefined;
    const applied = await this.#attempt(change);
    await this.#parts.writer.changeCatalog({
      kind: "putPlace",
      place: placeAfter(place, position, opId, crc32),
    });
    return applied;
  }

  /** After a crash between a change and its place, the change is made again: the same state is left. */
  async #attempt(change: SharedChange): Promise<AppliedChange> {
    try {
      if (change.kind === "joinNode") await this.#join(change);
      else if (change.kind === "removeNode") await this.#remove(change.node);
      else if (change.kind === "setReplicas") await this.#setReplicas(change);
      else if ("key" in change) await this.#parts.catalog.applyCredential(change);
      else if (!this.#isMade(change)) await this.#parts.changes.apply(change);
      return { ok: true };
    } catch (error) {
      if (!isQuiverError(error) || error.status >= 500) throw error;
      return { ok: false, error };
    }
  }

  catalogState(): CatalogState {
    const { position, hash } = this.catalogPlace();
    const isShared = ([key]: [string, unknown]) => !key.startsWith(notePrefix);
    return {
      position,
      hash: toHex(hash),
      // Whether one is loaded is local.
      entries: this.entries().map((entry) => ({ ...entry, loaded: true })),
      credentials: this.#parts.catalog.credentialsOf("").filter(isShared),
    };
  }

  async receiveCatalog({ position, hash, entries, credentials }: CatalogState): Promise<void> {
    const { catalog, collections, changes, writer } = this.#parts;
    const values = new Map(credentials);
    for (const [key, value] of this.catalogState().credentials)
      if (!values.has(key)) await catalog.applyCredential({ kind: "deleteCredential", key });
      else if (isDeepStrictEqual(values.get(key), value)) values.delete(key);
    for (const [key, value] of values) await catalog.applyCredential({ kind: "putCredential", key, value });
    await changes.readAliases();
    const there = new Set(entries.map(({ internalId }) => internalId));
    for (const { internalId, definition } of this.entries())
      if (!there.has(internalId))
        await changes.apply({ kind: "deleteCollection", name: definition.name, internalId });
    for (const entry of entries) {
      const known = this.entryById(entry.internalId);
      if (known === undefined) {
        await writer.changeCatalog({ kind: "putCollection", entry });
        // One that this node holds is copied from another (healing.ts).
        collections.elsewhere.set(entry.definition.name, entry);
      } else if (!isDeepStrictEqual(known.replicas, entry.replicas)) {
        if (entry.replicas !== undefined) known.replicas = entry.replicas;
        await catalog.save(known);
      }
    }
    await writer.changeCatalog({ kind: "putPlace", place: { position, hash: fromHex(hash) } });
  }

  async #remove(node: string): Promise<void> {
    const { catalog } = this.#parts;
    await catalog.applyCredential({ kind: "putCredential", key: removedPrefix + node, value: true });
    await catalog.applyCredential({ kind: "deleteCredential", key: nodePrefix + node });
  }

  isRemoved(node: string): boolean {
    return this.#parts.catalog.credential(removedPrefix + node) !== undefined;
  }

  /** Nodes that get it copy it when they see it in the catalog, others drop it when nobody needs it there. */
  async #setReplicas({
    internalId,
    replicas,
  }: Extract<SharedChange, { kind: "setReplicas" }>): Promise<void> {
    const entry = this.entryById(internalId);
    if (entry === undefined) return;
    entry.replicas = replicas;
    await this.#parts.catalog.save(entry);
  }

  async drop(internalId: string): Promise<void> {
    const { collections, dataDir } = this.#parts;
    const entry = this.entryById(internalId);
    if (entry === undefined) return;
    const { name } = entry.definition;
    const to = entry.replicas?.join(", ");
    await this.leave(
      internalId,
      new QuiverError("not_ready", `The collection '${name}' has moved to ${to}.`, {
        retry_after_seconds: 1,
      }),
    );
    // It may have been deleted meanwhile.
    if (this.entryById(internalId) === undefined) return;
    collections.quarantined.delete(name);
    collections.elsewhere.set(name, entry);
    removeCollectionDirectory(dataDir, internalId);
  }

  async #join({ node, url, replicationFactor }: Extract<SharedChange, { kind: "joinNode" }>): Promise<void> {
    const { catalog, collections } = this.#parts;
    if (this.isRemoved(node)) throw removedError(node);
    await catalog.applyCredential({ kind: "putCredential", key: nodePrefix + node, value: url });
    for (const entry of collections.entries) {
      const { replicas = [], definition } = entry;
      const wanted = definition.replicationFactor ?? replicationFactor;
      if (replicas.length === 0 || replicas.length >= wanted || replicas.includes(node)) continue;
      entry.replicas = [...replicas, node].sort();
      await catalog.save(entry);
    }
  }

  nodes(): ReadonlyMap<string, string> {
    return new Map(
      this.#parts.catalog
        .credentialsOf(nodePrefix)
        .map(([key, url]) => [key.slice(nodePrefix.length), url as string]),
    );
  }

  #isMade(change: SharedChange): boolean {
    if (!("entry" in change)) return false;
    const last = ("others" in change && change.others?.at(-1)) || change.entry;
    return this.entryById(last.internalId) !== undefined;
  }

  entries(): readonly CatalogEntry[] {
    return this.#parts.collections.entries;
  }

  entryOf(name: string): CatalogEntry | undefined {
    return this.#parts.collections.entryOf(name);
  }

  entryById(internalId: string): CatalogEntry | undefined {
    return this.#parts.collections.entryById(internalId);
  }

  #find(internalId: string): OpenCollection | undefined {
    const { name } = this.entryById(internalId)?.definition ?? {};
    const collection = name === undefined ? undefined : this.#parts.collections.served.get(name);
    return collection?.isOpen ? collection : undefined;
  }

  #require(internalId: string): OpenCollection {
    const collection = this.#find(internalId);
    if (collection === undefined)
      throw new QuiverError("collection_not_found", `This node does not serve the collection ${internalId}.`);
    return collection;
  }

  serves(internalId: string): boolean {
    return this.#find(internalId) !== undefined;
  }

  isExporting(internalId: string): boolean {
    return this.#find(internalId)?.isExporting ?? false;
  }

  placeOf(internalId: string): Place | undefined {
    return this.#find(internalId)?.place;
  }

  async apply(
    internalId: string,
    messages: readonly OrderedMessage[],
    isOwn: (opId: string) => boolean,
  ): Promise<readonly AppliedMessage[]> {
    const collection = this.#require(internalId);
    if (collection.entry.definition.shard === undefined) return this.#apply(collection, messages, isOwn);
    // All shards have a state at each boundary, at which they can be searched together.
    const applied: AppliedMessage[] = [];
    let { position } = collection.place;
    for (let from = 0; from < messages.length; ) {
      if (isBoundary(position, messages[from].position)) await collection.reachBoundary();
      let end = from;
      do position = messages[end++].position;
      while (end < messages.length && !isBoundary(position, messages[end].position));
      applied.push(...(await this.#apply(collection, messages.slice(from, end), isOwn)));
      from = end;
    }
    return applied;
  }

  async #apply(
    collection: OpenCollection,
    messages: readonly OrderedMessage[],
    isOwn: (opId: string) => boolean,
  ): Promise<readonly AppliedMessage[]> {
    const applied = await this.#parts.writer.apply(collection.entry.internalId, messages);
    let version = 0;
    let definedPosition = 0;
    const indexes: IndexKind[] = [];
    const committed: [string, number][] = [];
    for (const [i, { outcomes }] of applied.entries())
      for (const [j, outcome] of (outcomes ?? []).entries()) {
        const request = messages[i].requests[j];
        if (request.kind === "change" && request.holdMs !== undefined && collection.isOpen)
          collection.holdWrites(isOvertaken(outcome) ? request.holdMs : 0);
        if (!outcome.ok) continue;
        version = Math.max(version, outcome.version);
        if ("index" in request) definedPosition = messages[i].position;
        if (isOwn(messages[i].opId)) continue;
        if ("index" in request) indexes.push(request.index);
        if (request.kind === "commit") committed.push([request.transactionId, outcome.version]);
      }
    if (collection.isOpen) collection.followed(definedPosition, version, indexes, committed);
    return applied;
  }

  answer(internalId: string, call: ShardCall, limits: CallLimits): Promise<unknown> {
    const collection = this.#find(internalId);
    if (collection !== undefined) return collection.ask(call, limits);
    throw new QuiverError("not_ready", `This node does not serve the shard ${internalId}.`, {
      retry_after_seconds: 1,
    });
  }

  shardsOf(name: string): readonly CatalogEntry[] | undefined {
    return this.#parts.collections.shardsOf(name);
  }

  see(internalId: string): void {
    this.#find(internalId)?.see();
  }

  async leave(internalId: string, error: QuiverError): Promise<void> {
    const collection = this.#find(internalId);
    if (collection === undefined) return;
    const { collections, writer } = this.#parts;
    collections.served.delete(collection.name);
    collections.quarantine(collection.name, collection.entry, error);
    await collection.close(error, false);
    await writer.closeStore(internalId);
  }

  async stateOf(internalId: string): Promise<{ place: Place; sha256: string }> {
    const readTxn = this.#require(internalId).beginRead();
    try {
      return { place: readPlace(readTxn), sha256: await stateHash(readTxn) };
    } finally {
      readTxn.release();
    }
  }

  async copyOf(internalId: string): Promise<AsyncIterable<Uint8Array>> {
    const collection = this.#require(internalId);
    return copyStore(collection, collectionDirectory(this.#parts.dataDir, internalId));
  }

  copyBytes(internalId: string): number {
    return this.#require(internalId).storeBytes;
  }

  async adopt(internalId: string): Promise<void> {
    const collection = this.#require(internalId);
    await this.#parts.restores.adopt(collection, await this.copyOf(internalId));
  }

  async receive(internalId: string, copy: AsyncIterable<Uint8Array>): Promise<void> {
    const { dataDir, collections } = this.#parts;
    const required = () => {
      const entry = this.entryById(internalId);
      if (entry !== undefined) return entry;
      throw new QuiverError("collection_not_found", `The catalog has no collection ${internalId}.`);
    };
    const entry = required();
    // Under another name it is an orphan, which the next start removes.
    const arriving = `${internalId}-arriving`;
    const directory = collectionDirectory(dataDir, arriving);
    removeCollectionDirectory(dataDir, arriving);
    try {
      await writeCopy(directory, copy);
      required();
      await this.leave(internalId, new QuiverError("not_ready", "The collection is being received again."));
      // It may have been deleted meanwhile, and its directory with it.
      required();
      removeCollectionDirectory(dataDir, internalId);
      rmSync(`${directory}/lock.mdb`, { force: true });
      renameSync(directory, collectionDirectory(dataDir, internalId));
      syncDirectory(collectionsDirectory(dataDir));
    } catch (error) {
      removeCollectionDirectory(dataDir, arriving);
      throw error;
    }
    const { name } = entry.definition;
    const collection = await collections.open(entry);
    if (this.entryById(internalId) === undefined) {
      await collections.remove(collection);
      required();
    }
    collections.quarantined.delete(name);
    collections.elsewhere.delete(name);
    collections.served.set(name, collection);
    collection.start(entry.loaded);
  }
}

/** Whether a change was refused because of what others have written since its records were found. */
const isOvertaken = (outcome: NonNullable<AppliedMessage["outcomes"]>[number]): boolean =>
  !outcome.ok && (outcome.error.code === "version_changed" || outcome.error.code === "record_changed");

/** Positions of a log between two boundaries. */
const boundaryPositions = 16;

/** Whether a boundary of the log lies between the positions of two messages. */
const isBoundary = (before: number, after: number): boolean =>
  Math.floor(before / boundaryPositions) !== Math.floor(after / boundaryPositions);

const removedError = (node: string): QuiverError =>
  new QuiverError(
    "data_directory_foreign",
    `The node '${node}' was removed from the cluster, and its name is not used again. Start it with another name and an empty directory.`,
    { node },
  );
