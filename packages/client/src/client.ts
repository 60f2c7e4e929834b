// How does a program access a Quiver server?
//
// Runs wherever fetch exists: Node.js, browsers, Deno, Bun, workers. Data uses the field names of the REST interface (`top_k`,
// `dense_values`), as in the API reference; options of the client itself are in camel case.

import { healthEndpoints } from "@quiver/protocol/endpoints";
import { QuiverError } from "@quiver/protocol/errors";
import type { RouteName } from "@quiver/protocol/routes";
import type { AuditList } from "@quiver/protocol/shapes/audit";
import type { CheckReport } from "@quiver/protocol/shapes/check";
import type {
  CollectionDetail,
  CollectionSummary,
  CreateCollection,
} from "@quiver/protocol/shapes/collection";
import type { CreateKey, KeyCreated, KeyInformation } from "@quiver/protocol/shapes/key";
import type { CreateSession, Session } from "@quiver/protocol/shapes/session";
import type { Snapshot, SnapshotList } from "@quiver/protocol/shapes/snapshot";
import { Collection } from "./collection.ts";
import type { AnswerOf, ParamsOf } from "./endpoints.ts";
import type { AnyMetadata, FilterOf } from "./filter-types.ts";
import { type CallOptions, type ClientOptions, Transport } from "./transport.ts";
import { type WaitOptions, waitFor } from "./wait.ts";

export type { ErrorCode } from "@quiver/protocol/errors";
export { isQuiverError, QuiverError } from "@quiver/protocol/errors";
export type { FieldOperators, Filter, FilterValue } from "@quiver/protocol/shapes/filter";
export { Collection, type NeighborsInput } from "./collection.ts";
export { RecordExport } from "./export.ts";
export type { AnyMetadata, FieldName, FilterOf, PatchOf } from "./filter-types.ts";
export { type DenseValues, RawRecord, type RecordInput } from "./record.ts";
export { CollectionSearch } from "./search.ts";
export { SnapshotDownload } from "./snapshot-download.ts";
export { Transaction } from "./transaction.ts";
export type { CallOptions, ClientOptions, RetryEvent } from "./transport.ts";
export type { BatchOptions, Records, UpsertResult } from "./upsert.ts";
export type { WaitOptions } from "./wait.ts";
export { Where, type WhereFunction, where, whereOf } from "./where.ts";

/** A new collection. Kinds that are omitted are not enabled; at least one must be. */
export type NewCollection = Pick<CreateCollection, "name"> & Partial<CreateCollection>;

/** A new API key. */
export type NewKey = Omit<CreateKey, "filter"> & {
  /** Only records that match exist for the key, and it writes no others. */
  filter?: FilterOf<AnyMetadata> | null;
};

export type Health = {
  /** The server is running. */
  live: boolean;
  /** All collections are recovered, and searches are answered. */
  ready: boolean;
};

/** The parts of a request that is sent by the name of its route. */
export type RouteRequest<R extends RouteName> = {
  params?: ParamsOf<R>;
  query?: Readonly<Record<string, string | undefined>>;
  body?: unknown;
} & CallOptions;

/**
 * A client of one server. It does not hold connections open itself and need not be closed.
 *
 * @example
 * ```ts no-run
 * import { createClient } from "@quiver/client";
 * const client = createClient({ url: process.env.QUIVER_URL, apiKey: process.env.QUIVER_API_KEY });
 * const books = await client.createCollection({ name: "books", dense_vector: { enabled: true, dimension: 2 } });
 * await books.createDenseIndex({ distance_metric_type: "cosine" });
 * await books.upsert([{ id: "dune", dense_values: [0.9, 0.1] }]);
 * const { results } = await books.search.dense({ query_vector: [1, 0] });
 * ```
 */
export class QuiverClient {
  readonly #transport: Transport;

  constructor(options: ClientOptions = {}) {
    this.#transport = new Transport(options);
  }

  /** The server's address. */
  get url(): string {
    return this.#transport.url.href;
  }

  /** Whether the server is alive and ready. A server that does not respond is neither; this does not throw. */
  async health(call: CallOptions = {}): Promise<Health> {
    const ask = async (endpoint: "live" | "ready") => {
      try {
        const response = await this.#transport.open(healthEndpoints[endpoint], {
          call: { retries: 0, timeoutMs: 5_000, ...call },
        });
        await response.text();
        return true;
      } catch (error) {
        if (error instanceof QuiverError && error.retryable) return false;
        throw error;
      }
    };
    const live = await ask("live");
    return { live, ready: live && (await ask("ready")) };
  }

  /** Resolves when the server is ready, such as after a start or restart. */
  async waitUntilReady(options: WaitOptions = {}): Promise<void> {
    await waitFor(
      `The start of the server at ${this.url}`,
      async (call) => ((await this.health(call)).ready ? true : undefined),
      options,
      this.#transport.runtime,
    );
  }

  /**
   * Exchanges the admin key for a token that works as a key for 24 hours after its last use.
   *
   * @example
   * ```ts no-run
   * import { createClient } from "@quiver/client";
   * declare const adminKey: string;
   * declare const url: string;
   * const session = await createClient({ url }).createSession({ username: "admin", password: adminKey });
   * const client = createClient({ url, apiKey: session.access_token });
   * ```
   */
  createSession(credentials: CreateSession, call: CallOptions = {}): Promise<Session> {
    return this.#transport.request("createSession", { body: credentials, call });
  }

  /**
   * Creates an API key with a role, optionally limited to collections, to records that match a filter, and with an expiry. Only this response contains the key itself. Needs
   * an admin key that is not limited to collections.
   *
   * @example
   * ```ts no-run
   * import type { QuiverClient } from "@quiver/client";
   * declare const client: QuiverClient;
   * const { key, key_id } = await client.createKey({ name: "web shop", role: "read", collections: ["products", "logs-*"] });
   * const tenant = await client.createKey({ name: "acme", role: "write", filter: { tenant: "acme" } });
   * ```
   */
  createKey(definition: NewKey, call: CallOptions = {}): Promise<KeyCreated> {
    return this.#transport.request("createKey", { body: definition, call });
  }

  /** All API keys, oldest first, without the keys themselves. */
  async listKeys(call: CallOptions = {}): Promise<KeyInformation[]> {
    return (await this.#transport.request("listKeys", { call })).keys;
  }

  /** Revokes an API key immediately. @throws QuiverError key_not_found */
  revokeKey(keyId: string, call: CallOptions = {}): Promise<void> {
    return this.#transport.request("revokeKey", { params: { key_id: keyId }, call });
  }

  /**
   * Who changed which key, collection or index: the newest entries first.
   * @param options `limit`: maximum number of entries, 1 to 1,000; default 100
   */
  audit({ limit, ...call }: { limit?: number } & CallOptions = {}): Promise<AuditList> {
    return this.#transport.request("readAudit", { query: { limit: limit?.toString() }, call });
  }

  /**
   * Creates a collection and returns a handle on it.
   *
   * If the response is lost, the request is not repeated, because a second one would fail with 409 whoever created the collection. The call
   * then throws `connection_failed`; use `getCollection` to see whether the collection exists.
   *
   * @example
   * ```ts no-run
   * import type { QuiverClient } from "@quiver/client";
   * declare const client: QuiverClient;
   * const docs = await client.createCollection({
   *   name: "docs",
   *   dense_vector: { enabled: true, dimension: 384 },
   *   tf_idf_options: { enabled: true },
   *   store_raw_text: true,
   * });
   * ```
   * @throws QuiverError collection_already_exists
   */
  async createCollection<Metadata extends object = AnyMetadata>(
    definition: NewCollection,
    call: CallOptions = {},
  ): Promise<Collection<Metadata>> {
    const body = {
      dense_vector: { enabled: false },
      sparse_vector: { enabled: false },
      tf_idf_options: { enabled: false },
      config: {},
      ...definition,
    };
    const created = await this.#transport.request("createCollection", { body, call });
    return this.collection<Metadata>(created.name);
  }

  /** Names and descriptions of all collections. */
  async listCollections(call: CallOptions = {}): Promise<CollectionSummary[]> {
    return (await this.#transport.request("listCollections", { call })).collections;
  }

  /** Names of the collections whose indexes are in memory. */
  loadedCollections(call: CallOptions = {}): Promise<string[]> {
    return this.#transport.request("loadedCollections", { call });
  }

  /** A collection's configuration and size. @throws QuiverError collection_not_found */
  getCollection(name: string, call: CallOptions = {}): Promise<CollectionDetail> {
    return this.collection(name).describe(call);
  }

  /** Deletes a collection with everything in it. @throws QuiverError collection_not_found */
  deleteCollection(name: string, call: CallOptions = {}): Promise<void> {
    return this.collection(name).drop(call);
  }

  /** A handle on a collection, whose filters fit the type of its metadata if one is given. Sends no request. */
  collection<Metadata extends object = AnyMetadata>(name: string): Collection<Metadata> {
    return new Collection<Metadata>(this.#transport, name);
  }

  /** The snapshots of all collections, oldest first, those of deleted collections included. */
  listSnapshots(call: CallOptions = {}): Promise<SnapshotList> {
    return this.#transport.request("listAllSnapshots", { call });
  }

  /**
   * Reads the files of all snapshots completely and reports missing, damaged and unknown files. This takes as long as reading them, so give
   * a sufficient `timeoutMs`. `findings` is empty if there is no damage.
   */
  checkSnapshots(call: CallOptions = {}): Promise<CheckReport> {
    return this.#transport.request("checkAllSnapshots", { call });
  }

  /**
   * Uploads a snapshot file to the server, which verifies it and lists it under its collection. `client.collection(name).restore(...)` then
   * restores it as a collection.
   * @param file returns the file's bytes, anew for every attempt: a stream, or a Blob as from `openAsBlob` of node:fs
   * @throws QuiverError invalid_snapshot with the position of the fault
   */
  uploadSnapshot(file: () => Blob | ReadableStream<Uint8Array>, call: CallOptions = {}): Promise<Snapshot> {
    return this.#transport.request("uploadSnapshot", { upload: file, call });
  }

  /**
   * Sends a request by the name of its route, typed by the route table. For requests that the methods do not cover.
   *
   * @example
   * ```ts no-run
   * import type { QuiverClient } from "@quiver/client";
   * declare const client: QuiverClient;
   * declare const id: string;
   * const flat = await client.request("getTransactionStatus", {
   *   params: { collection_id: "docs", transaction_id: id },
   *   query: { format: "flat" },
   * });
   * ```
   */
  request<R extends RouteName>(route: R, request: RouteRequest<R> = {}): Promise<AnswerOf<R>> {
    const { params, query, body, ...call } = request;
    return this.#transport.request(route, { params, query, body, call });
  }
}

/** Creates a client. Sends no request. */
export function createClient(options: ClientOptions = {}): QuiverClient {
  return new QuiverClient(options);
}
