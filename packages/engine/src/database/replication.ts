// How can something else than this database order its writes?
//
// `ReplicatedOptions.replication` is a log that many nodes apply (packages/cluster). A node alone has none: its changes are applied at once.
//
//   alone     request -> writer's queue -> applied                   change of the catalog -> applied
//   replica   request -> log -> message -> `Replica.apply` on every node, in the same order, and likewise for the catalog
//
// What is local to a node stays out of the log: whether a collection is loaded, when transactions were indexed, notes of the cluster.

import type { QuiverError } from "@quiverdb/protocol/errors";
import type { CallLimits } from "../base/deadline.ts";
import type { LoggedRequest } from "../collection/accept.ts";
import type { IndexDefinitions } from "../collection/apply.ts";
import type { CatalogAnswer, CatalogEntry } from "../collection/definition.ts";
import type { Place } from "../collection/place.ts";
import type { OrderedMessage } from "../log/ordered.ts";
import type { AppliedMessage, Written } from "../runtime/writer.ts";
import type { DatabaseOptions } from "./options.ts";
import type { ShardCall } from "./shards/call.ts";

export { compareText } from "../base/bytes.ts";
export type { CallLimits } from "../base/deadline.ts";
export { isAlone, type LoggedRequest } from "../collection/accept.ts";
export { type CatalogEntry, collectionIdOf, nameOf, shardIdOf } from "../collection/definition.ts";
export type { Place } from "../collection/place.ts";
export { decodeMessage, encodeMessage, messageTooNew } from "../log/message.ts";
export type { OrderedMessage } from "../log/ordered.ts";
export { errorOf, wireOf } from "../runtime/calls.ts";
export type { AppliedMessage, Written } from "../runtime/writer.ts";
export type { ShardCall } from "./shards/call.ts";

/** Options of a database whose writes something else orders. */
export type ReplicatedOptions = DatabaseOptions & { readonly replication?: ReplicatedLog };

/** A change of the catalog that all nodes make. */
export type SharedChange =
  | {
      readonly kind: "createCollection";
      readonly entry: CatalogEntry;
      /** Of its other shards; that of the first is `entry`. */
      readonly others?: readonly CatalogEntry[];
      /** What it is created with. */
      readonly indexes: IndexDefinitions;
      readonly answer?: CatalogAnswer | undefined;
    }
  /** By a restore or a copy, which has written the store of `entry` on one node. */
  | {
      readonly kind: "replaceCollection";
      readonly entry: CatalogEntry;
      readonly others?: readonly CatalogEntry[];
      readonly answer?: CatalogAnswer | undefined;
    }
  /** Makes an alias another name of a collection; of none: removes it. */
  | {
      readonly kind: "setAlias";
      readonly alias: string;
      readonly collection: string | undefined;
      readonly answer?: CatalogAnswer | undefined;
    }
  /** A node of this name joins, or has another address. Collections with fewer replicas than they should have get one there. */
  | {
      readonly kind: "joinNode";
      readonly node: string;
      readonly url: string;
      /** Of collections that do not say. */
      readonly replicationFactor: number;
    }
  /** The node of this name leaves for good: its name is not used again. */
  | { readonly kind: "removeNode"; readonly node: string }
  /** Which nodes hold a collection. */
  | { readonly kind: "setReplicas"; readonly internalId: string; readonly replicas: readonly string[] }
  | {
      readonly kind: "deleteCollection";
      readonly name: string;
      readonly internalId: string;
      readonly answer?: CatalogAnswer | undefined;
    }
  /** `isFirst`: what is there stays. */
  | {
      readonly kind: "putCredential";
      readonly key: string;
      readonly value: unknown;
      readonly isFirst?: boolean;
    }
  | { readonly kind: "deleteCredential"; readonly key: string };

/** All that the log of the catalog has made up to a place, as JSON has it. */
export type CatalogState = {
  readonly position: number;
  /** Hash of the place, in hex. */
  readonly hash: string;
  readonly entries: readonly CatalogEntry[];
  readonly credentials: readonly (readonly [key: string, value: unknown])[];
};

export interface ReplicatedLog {
  /** The name of this node. */
  readonly node: string;
  /** Shards of a collection that does not say how many. */
  readonly shards: number;
  /** Begins to apply the log. Resolves when the catalog has what was in the log before. Until then it receives no copies. */
  start(replica: Replica): Promise<void>;
  /** Resolves when this node has applied the request at its place in the log. @throws the error that refused it */
  write(internalId: string, request: LoggedRequest): Promise<Written>;
  change(change: SharedChange): Promise<void>;
  /** The nodes that get a new collection. */
  replicasOf(internalId: string, replicationFactor: number | null): readonly string[];
  /** Asks a node that serves a shard. @throws not_ready if there is none */
  ask(shard: CatalogEntry, call: ShardCall, limits: CallLimits): Promise<unknown>;
  /** Applies no more. Requests in progress fail. */
  stop(): Promise<void>;
}

/** What became of a change of the catalog; undefined: it was applied before. */
export type AppliedChange = { readonly ok: true } | { readonly ok: false; readonly error: QuiverError };

/** A database as those see it who apply the log. */
export interface Replica {
  /** Whether nothing was ever stored. */
  readonly isEmpty: boolean;
  catalogPlace(): Place;
  /** Applies a change and notes its place. @throws trouble of this node: it decides nothing, and nothing is noted */
  applyChange(
    position: number,
    opId: string,
    crc32: number,
    change: SharedChange,
  ): Promise<AppliedChange | undefined>;
  catalogState(): CatalogState;
  /** Makes the catalog what it is in a state that is ahead of it. What is interrupted can be done again. */
  receiveCatalog(state: CatalogState): Promise<void>;
  /** The nodes that have joined, and their addresses. */
  nodes(): ReadonlyMap<string, string>;
  /** Whether a node of this name was removed. */
  isRemoved(node: string): boolean;
  /** Entries of all collections, held here or elsewhere. */
  entries(): readonly CatalogEntry[];
  entryOf(name: string): CatalogEntry | undefined;
  entryById(internalId: string): CatalogEntry | undefined;
  serves(internalId: string): boolean;
  /** Whether anybody reads lines of a collection here: an export, or differences. */
  isExporting(internalId: string): boolean;
  /** Undefined for a collection that this node does not serve. */
  placeOf(internalId: string): Place | undefined;
  /**
   * Applies messages, in order; resolves when they are durable.
   * @param isOwn whether a call of this node waits for a message
   * @throws collection_not_found; storage_failed, storage_full, data_corrupted: trouble of this node
   */
  apply(
    internalId: string,
    messages: readonly OrderedMessage[],
    isOwn: (opId: string) => boolean,
  ): Promise<readonly AppliedMessage[]>;
  /** Answers another node, for a shard that this one serves. */
  answer(internalId: string, call: ShardCall, limits: CallLimits): Promise<unknown>;
  /** Entries of the shards of a collection; undefined if it has none. */
  shardsOf(name: string): readonly CatalogEntry[] | undefined;
  /** Every later read sees what was applied so far. */
  see(internalId: string): void;
  /** The collection is not served until the next start, or until it is received. */
  leave(internalId: string, error: QuiverError): Promise<void>;
  /** Removes what this node has of a collection that other nodes hold. */
  drop(internalId: string): Promise<void>;
  /** Small notes of this node, which no other has. Values are JSON. */
  readonly notes: {
    get(key: string): unknown;
    put(key: string, value: unknown): Promise<void>;
  };
  /** Hash of all that replicas have in common, and of which place it is. */
  stateOf(internalId: string): Promise<{ place: Place; sha256: string }>;
  /** A copy of a collection's store, as of now. */
  copyOf(internalId: string): Promise<AsyncIterable<Uint8Array>>;
  /** About how many bytes a copy has: those of the store's file. */
  copyBytes(internalId: string): number;
  /** Makes this node's copy of a collection that of all nodes, under a new internal id and with a log of its own from the beginning. */
  adopt(internalId: string): Promise<void>;
  /** Takes in a copy as the store of a collection of the catalog, which replaces what this node has of it. @throws invalid_snapshot */
  receive(internalId: string, copy: AsyncIterable<Uint8Array>): Promise<void>;
}
