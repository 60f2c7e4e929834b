// What can a program do with a database, wherever it is?
//
// `connect` (client.ts) gives a database behind a server's address; `open` of @quiverdb/database gives one in the same process. Both are this
// class, so a program moves from one to the other by one line. Data uses the field names of the REST interface (`top_k`, `dense_values`), as in
// the API reference; options of the calls themselves are in camel case.

import type { CheckReport } from "@quiverdb/protocol/shapes/check";
import type {
  Alias,
  CollectionDetail,
  CollectionSummary,
  CreateCollection,
} from "@quiverdb/protocol/shapes/collection";
import type { Snapshot, SnapshotList } from "@quiverdb/protocol/shapes/snapshot";
import { Collection } from "./collection.ts";
import type { AnswerOf, OperationName, ParamsOf } from "./endpoints.ts";
import type { AnyMetadata } from "./filter-types.ts";
import type { CallOptions, Transport } from "./transport.ts";

declare global {
  // Libraries before "esnext.disposable" lack it, and programs that compile with them use this package, too.
  interface SymbolConstructor {
    readonly asyncDispose: unique symbol;
  }
}

/** A new collection. Kinds that are omitted are not enabled; at least one must be. */
export type NewCollection = CreateCollection;

/** The parts of a request that is sent by the name of its route. */
export type RouteRequest<R extends OperationName> = {
  params?: ParamsOf<R>;
  query?: Readonly<Record<string, string | undefined>>;
  body?: unknown;
} & CallOptions;

/**
 * A database: its collections, and their snapshots. Get one with `connect(url)` or, in the same process, with `open(directory)` of
 * `@quiverdb/database`.
 *
 * @example
 * ```ts no-run
 * import { connect, type Database } from "@quiverdb/client";
 * const database: Database = connect("http://127.0.0.1:8443", { apiKey: process.env.QUIVER_API_KEY });
 * const books = await database.createCollection({ name: "books", dense_vector: { enabled: true, dimension: 2 } });
 * await books.createDenseIndex({ distance_metric_type: "cosine" });
 * await books.upsert([{ id: "dune", dense_values: [0.9, 0.1] }]);
 * const { results } = await books.search.dense({ query_vector: [1, 0] });
 * await database.close();
 * ```
 */
export class Database {
  readonly #transport: Transport;

  /** Not for callers: use `connect`, or `open`. */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Creates a collection and returns a handle on it.
   *
   * If the response is lost, the request is not repeated, because a second one would fail with 409 whoever created the collection. The call
   * then throws `connection_failed`; use `getCollection` to see whether the collection exists.
   *
   * @example
   * ```ts no-run
   * import type { QuiverClient } from "@quiverdb/client";
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
    const created = await this.#transport.request("createCollection", { body: definition, call });
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

  /** Other names of collections, by name. */
  async aliases(call: CallOptions = {}): Promise<Alias[]> {
    return (await this.#transport.request("listAliases", { call })).aliases;
  }

  /**
   * Makes an alias another name of a collection, at once, whatever it stood for: every request sees the one collection or the other.
   * @throws QuiverError collection_not_found, collection_already_exists if a collection has this name
   *
   * @example
   * ```ts no-run
   * import type { QuiverClient } from "@quiverdb/client";
   * declare const client: QuiverClient;
   * await client.putAlias("articles", "articles-2026-12");
   * const { results } = await client.collection("articles").search.text({ query_text: "bees" });
   * ```
   */
  putAlias(alias: string, collection: string, call: CallOptions = {}): Promise<Alias> {
    return this.#transport.request("putAlias", { params: { alias }, body: { collection }, call });
  }

  /** Deletes an alias; its collection stays. @throws QuiverError alias_not_found */
  async deleteAlias(alias: string, call: CallOptions = {}): Promise<void> {
    await this.#transport.request("deleteAlias", { params: { alias }, call });
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
   * Sends a request by the name of its operation, which has the types. For requests that the methods do not cover.
   *
   * @example
   * ```ts no-run
   * import type { QuiverClient } from "@quiverdb/client";
   * declare const client: QuiverClient;
   * declare const id: string;
   * const flat = await client.request("getTransactionStatus", {
   *   params: { collection_id: "docs", transaction_id: id },
   *   query: { format: "flat" },
   * });
   * ```
   */
  request<R extends OperationName>(route: R, request: RouteRequest<R> = {}): Promise<AnswerOf<R>> {
    const { params, query, body, ...call } = request;
    return this.#transport.request(route, { params, query, body, call });
  }

  /**
   * Ends the use of the database. In the same process, this finishes accepted changes, stops the threads and releases the directory; over
   * HTTP there is nothing to end.
   */
  close(): Promise<void> {
    return this.#transport.close();
  }

  /** `await using database = ...` closes it at the end of the block. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
