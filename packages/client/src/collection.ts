// What can a caller do with one collection?

import { isQuiverError } from "@quiver/protocol/errors";
import { refuseUnknownOptions } from "@quiver/protocol/fields";
import type { CheckReport } from "@quiver/protocol/shapes/check";
import type { CollectionDetail } from "@quiver/protocol/shapes/collection";
import type {
  DenseIndex,
  Indexes,
  IndexKind,
  Recall,
  SparseIndex,
  TextAnalysis,
  TextIndex,
} from "@quiver/protocol/shapes/index-definition";
import type {
  RestoreCollection,
  RestoredCollection,
  Snapshot,
  SnapshotList,
} from "@quiver/protocol/shapes/snapshot";
import type { TransactionList } from "@quiver/protocol/shapes/transaction";
import type { VectorRecord } from "@quiver/protocol/shapes/vector";
import type { Version, VersionList } from "@quiver/protocol/shapes/version";
import { endpoints } from "./endpoints.ts";
import { RecordExport } from "./export.ts";
import { CollectionSearch } from "./search.ts";
import { SnapshotDownload } from "./snapshot-download.ts";
import { Transaction } from "./transaction.ts";
import { type CallOptions, defaults, type Transport } from "./transport.ts";
import { type BatchOptions, type Records, type UpsertResult, upsertInBatches } from "./upsert.ts";
import { type WaitOptions, waitFor } from "./wait.ts";

/** A dense index; what is left out gets a default: name "dense", quantization auto, HNSW with its defaults. */
export type DenseIndexInput = Pick<DenseIndex, "distance_metric_type"> & Partial<DenseIndex>;

/** A sparse index; what is left out gets a default: name "sparse", 64 levels, 1,000 samples. */
export type SparseIndexInput = Partial<SparseIndex>;

/** A text index; what is left out gets a default: name "text", k1 1.2, b 0.75, 1,000 samples. */
export type TextIndexInput = Partial<TextIndex>;

export const indexDefaults = {
  dense: {
    name: "dense",
    quantization: { type: "auto", properties: { sample_threshold: 1_000 } },
    index: { type: "hnsw", properties: {} },
  },
  sparse: { name: "sparse", quantization: 64, sample_threshold: 1_000 },
  text: { name: "text", sample_threshold: 1_000, k1: 1.2, b: 0.75 },
} as const;

/**
 * A handle on a collection: `client.collection("name")`. Making one asks nothing of the server; a collection that
 * does not exist shows in the first call, as `collection_not_found`.
 */
export class Collection {
  readonly name: string;
  /** All kinds of search. */
  readonly search: CollectionSearch;
  readonly #transport: Transport;
  readonly #params: { collection_id: string };

  constructor(transport: Transport, name: string) {
    this.name = name;
    this.search = new CollectionSearch(transport, name);
    this.#transport = transport;
    this.#params = { collection_id: name };
  }

  // --- The collection itself ---

  /** Configuration, number of records and whether it is loaded. */
  describe(call: CallOptions = {}): Promise<CollectionDetail> {
    return this.#transport.request("getCollection", { params: this.#params, call });
  }

  /** Deletes the collection with all its records and indexes. */
  async drop(call: CallOptions = {}): Promise<void> {
    await this.#transport.request("deleteCollection", { params: this.#params, call });
  }

  /**
   * Verifies everything that is stored of the collection, and compares its indexes in memory with its records. Takes time in
   * proportion to the collection: give a `timeoutMs` that allows for it. `findings` is empty where all is well.
   */
  check(call: CallOptions = {}): Promise<CheckReport> {
    return this.#transport.request("checkCollection", { params: this.#params, call });
  }

  /** Loads the indexes into memory, so that the first search need not wait for that. */
  load(call: CallOptions = {}): Promise<CollectionDetail> {
    return this.#transport.request("loadCollection", { params: this.#params, call });
  }

  /** Frees the memory of the indexes. Reads and writes go on working; the next search loads them again. */
  unload(call: CallOptions = {}): Promise<string> {
    return this.#transport.request("unloadCollection", { params: this.#params, call });
  }

  // --- Indexes ---

  /**
   * Creates the index for dense search. It is built in the background; searches are exact until it is ready.
   *
   * @example
   * ```ts no-run
   * import type { Collection } from "@quiver/client";
   * declare const collection: Collection;
   * await collection.createDenseIndex({
   *   distance_metric_type: "cosine",
   *   index: { type: "hnsw", properties: { ef_construction: 200, neighbors_count: 32 } },
   * });
   * ```
   */
  async createDenseIndex(definition: DenseIndexInput, call: CallOptions = {}): Promise<void> {
    const body = { ...indexDefaults.dense, ...definition };
    await this.#transport.request("createDenseIndex", { params: this.#params, body, call });
  }

  /** Creates the index for sparse search. */
  async createSparseIndex(definition: SparseIndexInput = {}, call: CallOptions = {}): Promise<void> {
    const body = { ...indexDefaults.sparse, ...definition };
    await this.#transport.request("createSparseIndex", { params: this.#params, body, call });
  }

  /** Creates the index for full-text search (BM25). */
  async createTextIndex(definition: TextIndexInput = {}, call: CallOptions = {}): Promise<void> {
    const body = { ...indexDefaults.text, ...definition };
    await this.#transport.request("createTextIndex", { params: this.#params, body, call });
  }

  /**
   * What the text index makes of a text: each word in order, with its term, or why it has none. A search finds a record
   * by a word when both have the same term.
   * @param text at most 1 MiB of UTF-8
   * @throws QuiverError index_not_found without a text index
   *
   * @example
   * ```ts no-run
   * import type { Collection } from "@quiver/client";
   * declare const collection: Collection;
   * const { terms } = await collection.analyzeText("The bees are dancing");
   * // the: dropped, a stop word; bees -> bee; are: dropped, a stop word; dancing -> danc
   * for (const { word, term, dropped } of terms) console.log(word, term ?? dropped);
   * ```
   */
  analyzeText(text: string, call: CallOptions = {}): Promise<TextAnalysis> {
    return this.#transport.request("analyzeText", { params: this.#params, body: { text }, call });
  }

  /** The definitions of the indexes that exist, each with its status. */
  indexes(call: CallOptions = {}): Promise<Indexes> {
    return this.#transport.request("getIndexes", { params: this.#params, call });
  }

  /**
   * Measures how much of the truth the dense index finds: vectors of the collection are asked as queries, and the answers
   * compared with those of exact search.
   * @param options `sample` queries, 1 to 10,000 (default 100); `topK` results (default 10); `efSearch` beam (default
   * as the index is defined)
   */
  measureRecall(
    options: { sample?: number; topK?: number; efSearch?: number } = {},
    call: CallOptions = {},
  ): Promise<Recall> {
    refuseUnknownOptions(options, ["sample", "topK", "efSearch"]);
    return this.#transport.request("measureRecall", {
      params: this.#params,
      query: {
        sample: options.sample?.toString(),
        top_k: options.topK?.toString(),
        ef_search: options.efSearch?.toString(),
      },
      call,
    });
  }

  /** Deletes an index; the records stay. */
  async deleteIndex(kind: IndexKind, call: CallOptions = {}): Promise<void> {
    await this.#transport.request("deleteIndex", {
      // In a path the text index is called tf_idf.
      params: { ...this.#params, index_type: kind === "tf-idf" ? "tf_idf" : kind },
      call,
    });
  }

  /**
   * Resolves when every index has taken over the version that is current now. Never needed for correct answers:
   * searches scan what is not indexed yet.
   */
  async waitForIndex(options: WaitOptions = {}): Promise<void> {
    const { version_number: wanted } = await this.currentVersion({ signal: options.signal });
    await waitFor(
      `Indexing of collection ${JSON.stringify(this.name)}`,
      async (call) => {
        const all = Object.values(await this.indexes(call));
        // An unloaded index catches up when it is loaded again.
        const settled = ({ status }: (typeof all)[number]) =>
          status.state === "unloaded" || (status.state === "ready" && status.watermark >= wanted);
        return all.every(settled) ? true : undefined;
      },
      options,
      this.#transport.runtime,
    );
  }

  // --- Records ---

  /**
   * Creates or replaces records by id, any number of them, without a transaction. What has been acknowledged is
   * durable and visible to searches at once.
   *
   * More than `batchRecords` records or `batchBytes` bytes are split into several requests. Each request is
   * atomic, the call as a whole then is not: use a transaction for that. When a request fails, the error's
   * `details.acknowledged` says how many records, from the first one on, were acknowledged, and a position in it
   * (`vectors[1017]`) counts in what was given here. Requests are repeated after a lost answer: if another writer
   * changes one of the same ids in between, this call's record wins.
   *
   * @example
   * ```ts no-run
   * import type { Collection } from "@quiver/client";
   * declare const collection: Collection;
   * await collection.upsert([
   *   { id: "a", dense_values: new Float32Array([0.1, 0.9]), metadata: { page: 1 } },
   *   { id: "b", text: "Bees dance to tell where food is.", document_id: "bees" },
   * ]);
   * ```
   */
  upsert(records: Records, options: BatchOptions & CallOptions = {}): Promise<UpsertResult> {
    return upsertInBatches(records, options, (body) =>
      this.#transport.request("streamingUpsert", { params: this.#params, body, call: options }),
    );
  }

  /** Deletes a record, at once. @throws QuiverError vector_not_found */
  async delete(id: string, call: CallOptions = {}): Promise<void> {
    await this.#transport.request("streamingDelete", { params: { ...this.#params, vector_id: id }, call });
  }

  /** Reads a record. @throws QuiverError vector_not_found */
  get(id: string, call: CallOptions = {}): Promise<VectorRecord> {
    return this.#transport.request("getVector", { params: { ...this.#params, vector_id: id }, call });
  }

  /** Reads a record as JSON text, with the metadata exactly as it was written. @throws QuiverError vector_not_found */
  getJson(id: string, call: CallOptions = {}): Promise<string> {
    return this.#transport.text("getVector", { params: { ...this.#params, vector_id: id }, call });
  }

  /** Whether a record with this id exists. */
  async has(id: string, call: CallOptions = {}): Promise<boolean> {
    try {
      await this.#transport.request("vectorExists", { params: { ...this.#params, vector_id: id }, call });
      return true;
    } catch (error) {
      if (isQuiverError(error, "vector_not_found")) return false;
      throw error;
    }
  }

  /** All records of a document, by id. */
  byDocument(documentId: string, call: CallOptions = {}): Promise<VectorRecord[]> {
    return this.#transport.request("vectorsByDocument", {
      params: this.#params,
      query: { document_id: documentId },
      call,
    });
  }

  /** Reads all records of one version of the collection, one after the other. */
  export(call: CallOptions = {}): RecordExport {
    return new RecordExport(async () => {
      const parts = { params: this.#params, call };
      const response = await this.#transport.open(endpoints.exportVectors, parts);
      return { response, request: `GET ${new URL(response.url).pathname}`, signal: call.signal };
    });
  }

  // --- Transactions ---

  /**
   * Opens a transaction. A collection has at most one: while another is open, this throws `transaction_ongoing`.
   * With `await using` it is aborted at the end of the block unless it was committed.
   */
  async transaction(call: CallOptions = {}): Promise<Transaction> {
    const created = await this.#transport.request("createTransaction", { params: this.#params, call });
    return new Transaction(this.#transport, this.name, created.transaction_id, created.created_at);
  }

  /** A handle on a transaction that was opened before, perhaps by another process. Asks nothing of the server. */
  resumeTransaction(transactionId: string): Transaction {
    return new Transaction(this.#transport, this.name, transactionId);
  }

  /** The open and the recent transactions, newest first. */
  async transactions(call: CallOptions = {}): Promise<TransactionList["transactions"]> {
    const answer = await this.#transport.request("listTransactions", { params: this.#params, call });
    return answer.transactions;
  }

  // --- Versions ---

  /** Versions, newest first. `before` continues a list: the smallest version number that was seen. */
  versions(page: { limit?: number; before?: number } = {}, call: CallOptions = {}): Promise<VersionList> {
    refuseUnknownOptions(page, ["limit", "before"]);
    return this.#transport.request("listVersions", {
      params: this.#params,
      query: { limit: page.limit?.toString(), before: page.before?.toString() },
      call,
    });
  }

  currentVersion(call: CallOptions = {}): Promise<Version> {
    return this.#transport.request("currentVersion", { params: this.#params, call });
  }

  /** The version with this hash. @throws QuiverError invalid_version_hash */
  version(hash: string, call: CallOptions = {}): Promise<Version> {
    return this.#transport.request("getVersion", { params: { ...this.#params, version_hash: hash }, call });
  }

  // --- Snapshots ---

  /**
   * Makes a snapshot of the current version on the server, while writes and searches go on. It is done when this resolves;
   * give a large collection more time (`timeoutMs`).
   * @param options `sinceVersion`: only what has changed since then; `sinceHash`: that version's hash, to be sure
   * @throws QuiverError version_not_kept when the change log no longer reaches back
   *
   * @example
   * ```ts no-run
   * import type { Collection } from "@quiver/client";
   * declare const collection: Collection;
   * const full = await collection.createSnapshot();
   * // later
   * const { version_number: sinceVersion, hash: sinceHash } = full;
   * const changes = await collection.createSnapshot({ sinceVersion, sinceHash });
   * await collection.restore({ snapshots: [full.id, changes.id], overwrite: true });
   * ```
   */
  createSnapshot(
    options: { sinceVersion?: number; sinceHash?: string } = {},
    call: CallOptions = {},
  ): Promise<Snapshot> {
    refuseUnknownOptions(options, ["sinceVersion", "sinceHash"]);
    const body = { since_version: options.sinceVersion, since_hash: options.sinceHash };
    return this.#transport.request("createSnapshot", { params: this.#params, body, call });
  }

  /** The collection's snapshots, oldest first, and those that are being made. */
  snapshots(call: CallOptions = {}): Promise<SnapshotList> {
    return this.#transport.request("listSnapshots", { params: this.#params, call });
  }

  /**
   * Reads the files of the snapshots of this collection, which may be deleted, to their end. Takes as long as reading them: give a
   * `timeoutMs` that allows for it. `findings` is empty where all is well.
   */
  checkSnapshots(call: CallOptions = {}): Promise<CheckReport> {
    return this.#transport.request("checkSnapshots", { params: this.#params, call });
  }

  /** @throws QuiverError snapshot_not_found */
  getSnapshot(snapshotId: string, call: CallOptions = {}): Promise<Snapshot> {
    const params = { ...this.#params, snapshot_id: snapshotId };
    return this.#transport.request("getSnapshot", { params, call });
  }

  /** The file of a snapshot. A download that breaks off goes on where it was, `retries` times in a row at most. */
  downloadSnapshot(snapshotId: string, call: CallOptions = {}): SnapshotDownload {
    const params = { ...this.#params, snapshot_id: snapshotId };
    const open = (start: number) => {
      const headers: Record<string, string> = start === 0 ? {} : { range: `bytes=${start}-` };
      return this.#transport.open(endpoints.downloadSnapshot, { params, headers, call });
    };
    const retries = call.retries ?? this.#transport.options.retries ?? defaults.retries;
    return new SnapshotDownload(open, `GET snapshot ${snapshotId}`, call.signal, retries);
  }

  /** @throws QuiverError snapshot_not_found */
  async deleteSnapshot(snapshotId: string, call: CallOptions = {}): Promise<void> {
    const params = { ...this.#params, snapshot_id: snapshotId };
    await this.#transport.request("deleteSnapshot", { params, call });
  }

  /**
   * Makes this collection, new or in place of the one that is there, of snapshots: a full one, then incremental ones. All are
   * verified before anything changes, and the change is one step.
   * @param request `snapshots` by id; `overwrite: true` to replace a collection of this name
   * @throws QuiverError collection_already_exists, snapshot_chain_broken, invalid_snapshot
   */
  restore(request: RestoreCollection, call: CallOptions = {}): Promise<RestoredCollection> {
    return this.#transport.request("restoreCollection", { params: this.#params, body: request, call });
  }
}
