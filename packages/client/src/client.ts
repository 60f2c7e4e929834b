// How does a program access a Quiver server?
//
// Runs wherever fetch exists: Node.js (there by Node's http), browsers, Deno, Bun, workers. What every database can do is in database.ts; here
// is what only a server has: its health, its keys and sessions, and its audit log.

import { QuiverError } from "@quiverdb/protocol/errors";
import type { AuditList } from "@quiverdb/protocol/shapes/audit";
import type { CreateKey, KeyCreated, KeyInformation } from "@quiverdb/protocol/shapes/key";
import type { CreateSession, Session } from "@quiverdb/protocol/shapes/session";
import { Database } from "./database.ts";
import type { AnyMetadata, FilterOf } from "./filter-types.ts";
import { type ClientOptions, HttpTransport } from "./http-transport.ts";
import type { CallOptions } from "./transport.ts";
import { type WaitOptions, waitFor } from "./wait.ts";

export type { ErrorCode } from "@quiverdb/protocol/errors";
export { isQuiverError, QuiverError } from "@quiverdb/protocol/errors";
export type { CollectionDetail, CollectionSummary } from "@quiverdb/protocol/shapes/collection";
export type { FieldOperators, Filter, FilterValue } from "@quiverdb/protocol/shapes/filter";
export type { Indexes, MetadataIndexes, Recall } from "@quiverdb/protocol/shapes/index-definition";
export type { Facets, FacetValues, ScrollPage } from "@quiverdb/protocol/shapes/matching";
export type { BatchSearchResponse, SearchResponse, SearchResult } from "@quiverdb/protocol/shapes/search";
export type { Snapshot } from "@quiverdb/protocol/shapes/snapshot";
export type { TransactionState } from "@quiverdb/protocol/shapes/transaction";
export type { VectorRecord } from "@quiverdb/protocol/shapes/vector";
export type { Version, VersionList } from "@quiverdb/protocol/shapes/version";
export type { Warning } from "@quiverdb/protocol/shapes/warning";
export {
  Collection,
  type DenseIndexInput,
  type FacetInput,
  type FacetsInput,
  type NeighborsInput,
  type Scroll,
  type SparseIndexInput,
  type TextIndexInput,
} from "./collection.ts";
export { Database, type NewCollection, type RouteRequest } from "./database.ts";
export { type Embed, type EmbedderOptions, type EmbedOptions, embedder } from "./embed.ts";
export { type EmbeddingCache, memoryCache } from "./embedding-cache.ts";
export { type EnsureTextsOptions, ensureTexts } from "./ensure-texts.ts";
export { RecordExport } from "./export.ts";
export type { AnyMetadata, FieldName, FilterOf, Found, PatchOf } from "./filter-types.ts";
export type { ClientOptions, RetryEvent } from "./http-transport.ts";
export { type OpenAiEmbeddingsOptions, openAiEmbeddings } from "./openai-embeddings.ts";
export { type DenseValues, RawRecord, type RecordInput } from "./record.ts";
export {
  type BatchDenseSearchInput,
  type BatchHybridSearchInput,
  CollectionSearch,
  type DenseSearchInput,
  type HybridSearchInput,
  type RecommendInput,
} from "./search.ts";
export { SnapshotDownload } from "./snapshot-download.ts";
export { Transaction } from "./transaction.ts";
export {
  type TransformersEmbeddingsOptions,
  type TransformersModule,
  transformersEmbeddings,
} from "./transformers-embeddings.ts";
export type { BatchOptions, CallOptions } from "./transport.ts";
export type { Records, UpsertResult } from "./upsert.ts";
export type { WaitOptions } from "./wait.ts";
export { Where, type WhereFunction, where, whereOf } from "./where.ts";
export {
  type DenseTextSearchInput,
  type HybridTextSearchInput,
  TextCollection,
  TextCollectionSearch,
  type TextRecords,
  type WithEmbeddingsOptions,
  withEmbeddings,
} from "./with-embeddings.ts";

/** A new API key. */
export type NewKey = Omit<CreateKey, "filter"> & {
  /** Only records that match exist for the key, and it writes no others. */
  filter?: FilterOf<AnyMetadata> | null;
};

/** The state of a server, as a load balancer sees it. */
export type Health = {
  /** The server is running. */
  live: boolean;
  /** Requests are answered. Right after a crash, searches that need an index that lags can get `not_ready` for a while. */
  ready: boolean;
};

/**
 * The database of a server. It does not hold connections open itself and need not be closed.
 *
 * @example
 * ```ts no-run
 * import { connect } from "@quiverdb/client";
 * const client = connect("http://127.0.0.1:8443", { apiKey: process.env.QUIVER_API_KEY });
 * const books = await client.createCollection({ name: "books", dense_vector: { enabled: true, dimension: 2 } });
 * await books.createDenseIndex({ distance_metric_type: "cosine" });
 * await books.upsert([{ id: "dune", dense_values: [0.9, 0.1] }]);
 * const { results } = await books.search.dense({ query_vector: [1, 0] });
 * ```
 */
export class QuiverClient extends Database {
  readonly #transport: HttpTransport;

  constructor(options: ClientOptions = {}) {
    const transport = new HttpTransport(options);
    super(transport);
    this.#transport = transport;
  }

  /** The server's address. */
  get url(): string {
    return this.#transport.url.href;
  }

  /** Whether the server is alive and ready. A server that does not respond is neither; this does not throw. */
  async health(call: CallOptions = {}): Promise<Health> {
    const ask = async (endpoint: "live" | "ready") => {
      try {
        const path = `/health/${endpoint}`;
        const response = await this.#transport.openEndpoint(
          { method: "GET", path, repeat: "always" },
          {
            call: { retries: 0, timeoutMs: 5_000, ...call },
          },
        );
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
   * import { connect } from "@quiverdb/client";
   * declare const adminKey: string;
   * declare const url: string;
   * const session = await connect(url).createSession({ username: "admin", password: adminKey });
   * const client = connect(url, { apiKey: session.access_token });
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
   * import type { QuiverClient } from "@quiverdb/client";
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
}

/**
 * The database of the server at an address: `createClient` with the url as an argument of its own. Sends no request.
 *
 * @example
 * ```ts no-run
 * import { connect } from "@quiverdb/client";
 * const database = connect("http://127.0.0.1:8443", { apiKey: process.env.QUIVER_API_KEY });
 * console.log(await database.listCollections());
 * ```
 */
export function connect(
  url: string | URL | readonly (string | URL)[],
  options: Omit<ClientOptions, "url"> = {},
): QuiverClient {
  return new QuiverClient({ ...options, url });
}

/** Creates a client. Sends no request. */
export function createClient(options: ClientOptions = {}): QuiverClient {
  return new QuiverClient(options);
}
