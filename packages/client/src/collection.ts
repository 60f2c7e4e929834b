// What can a caller do with one collection?

import { isQuiverError } from "@quiverdb/protocol/errors";
import { refuseUnknownOptions } from "@quiverdb/protocol/fields";
import type { CheckReport } from "@quiverdb/protocol/shapes/check";
import type { CollectionDetail, History, Merged } from "@quiverdb/protocol/shapes/collection";
import type {
  CreateDenseIndex,
  CreateSparseIndex,
  CreateTextIndex,
  Indexes,
  IndexKind,
  MetadataIndex,
  MetadataIndexes,
  Recall,
  TextAnalysis,
} from "@quiverdb/protocol/shapes/index-definition";
import type {
  FacetValues,
  FacetVectors,
  FetchedVectors,
  FetchVectors,
  ScrollPage,
  ScrollVectors,
} from "@quiverdb/protocol/shapes/matching";
import type { Neighbors, SearchResponse } from "@quiverdb/protocol/shapes/search";
import type {
  RestoreCollection,
  RestoredCollection,
  Snapshot,
  SnapshotList,
} from "@quiverdb/protocol/shapes/snapshot";
import type { TransactionList } from "@quiverdb/protocol/shapes/transaction";
import type { VectorRecord } from "@quiverdb/protocol/shapes/vector";
import type {
  ChangesPage,
  RecordHistory,
  Tag,
  Version,
  VersionList,
} from "@quiverdb/protocol/shapes/version";
import { RecordExport } from "./export.ts";
import {
  type AnyMetadata,
  type FieldName,
  type FilterOf,
  type For,
  type Found,
  found,
  type PatchOf,
} from "./filter-types.ts";
import { waitForIndexes } from "./indexes-ready.ts";
import { checkFilter, jsonText } from "./json.ts";
import { fieldsOf, type PastOf, pastTransport, VersionDiff } from "./past.ts";
import { CollectionSearch } from "./search.ts";
import { SnapshotDownload } from "./snapshot-download.ts";
import { Transaction } from "./transaction.ts";
import type { BatchOptions, CallOptions, IfMatch, RequestParts, Transport } from "./transport.ts";
import { batchingOf, type Records, type UpsertResult, upsertInBatches } from "./upsert.ts";
import type { WaitOptions } from "./wait.ts";
import { type WhereFunction, where } from "./where.ts";

/** Which of a record's neighbours are returned, and with which fields: all options of a dense search. */
export type NeighborsInput<Metadata = AnyMetadata> = For<Metadata, Neighbors>;

type FacetOptions<Metadata> = For<Metadata, Omit<FacetVectors, "field" | "fields">>;
/** The field whose values are counted, and among which records. */
export type FacetInput<Metadata = AnyMetadata> = FacetOptions<Metadata> & { field: FieldName<Metadata> };
/** The same for several fields, at most 16. */
export type FacetsInput<Metadata = AnyMetadata, Name = FieldName<Metadata>> = FacetOptions<Metadata> & {
  fields: readonly Name[];
};

/** A page of records when it is awaited, and all of them, from there on, with `for await`. */
export type Scroll<Metadata = AnyMetadata> = Promise<Found<Metadata, ScrollPage>> &
  AsyncIterable<Found<Metadata, ScrollPage>["vectors"][number]>;

/** A collection as it was: the methods that read. */
export type PastCollection<Metadata extends object> = Pick<
  Collection<Metadata>,
  | "name"
  | "search"
  | "where"
  | "get"
  | "getJson"
  | "has"
  | "fetch"
  | "neighbors"
  | "count"
  | "facet"
  | "scroll"
  | "byDocument"
  | "export"
>;

/**
 * On what a write depends. `ifVersion`: it is refused with `version_changed` unless this version is the current one. Such a write is one
 * request, and is sent again after a lost answer only with an `idempotencyKey`: without one, read what is there.
 */
export type Condition = { ifVersion?: number };

const conditional = ({ ifVersion, ifMatch }: Condition & IfMatch): Pick<RequestParts, "query" | "repeat"> =>
  ifVersion === undefined && ifMatch === undefined
    ? {}
    : {
        query: { if_version: ifVersion?.toString(), if_match: ifMatch?.toString() },
        repeat: "refused",
      };

/** A dense index. Defaults for omitted options: name "dense", quantization auto, HNSW with its defaults. */
export type DenseIndexInput = CreateDenseIndex;

/** A sparse index. Defaults for omitted options: name "sparse", 256 levels, 1,000 samples. */
export type SparseIndexInput = CreateSparseIndex;

/** A text index. Defaults for omitted options: name "text", k1 1.2, b 0.75, 1,000 samples. */
export type TextIndexInput = CreateTextIndex;

/**
 * A handle on a collection: `client.collection("name")`. Creating a handle sends no request; if the collection does not exist, the first
 * call throws `collection_not_found`.
 *
 * The type of the metadata, if given, is that of the records to write, and filters must fit it: a field, an operator or an operand that does
 * not fit does not compile. Nothing is checked at run time.
 *
 * @example
 * ```ts no-run
 * import type { QuiverClient } from "@quiverdb/client";
 * declare const client: QuiverClient;
 * type Article = { color: "red" | "blue"; n: number; author: { name: string }; tags?: string[] };
 * const articles = client.collection<Article>("articles");
 * const { where } = articles;
 * await articles.count(where("color").eq("red").and(where("author.name").prefix("B")));
 * await articles.search.text({ query: "bees", filter: { tags: "new", n: { gte: 3 } } });
 * ```
 */
export class Collection<Metadata extends object = AnyMetadata> {
  readonly name: string;
  /** All kinds of search. */
  readonly search: CollectionSearch<Metadata>;
  /** Begins a condition of a filter: `where("color").eq("red")`. */
  readonly where: WhereFunction<Metadata> = where as never;
  readonly #transport: Transport;
  readonly #params: { collection_id: string };

  constructor(transport: Transport, name: string) {
    this.name = name;
    this.search = new CollectionSearch(transport, name);
    this.#transport = transport;
    this.#params = { collection_id: name };
  }

  #found<Answer>(answer: Promise<Answer>): Promise<Found<Metadata, Answer>> {
    return found<Metadata, Answer>(answer);
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
   * Verifies all stored data of the collection, and compares its indexes in memory with its records. The time is proportional to the size
   * of the collection, so give a sufficient `timeoutMs`. `findings` is empty if there is no damage.
   */
  check(call: CallOptions = {}): Promise<CheckReport> {
    return this.#transport.request("checkCollection", { params: this.#params, call });
  }

  /** Loads the indexes into memory, so that the first search does not have to wait for it. */
  load(call: CallOptions = {}): Promise<CollectionDetail> {
    return this.#transport.request("loadCollection", { params: this.#params, call });
  }

  /** Frees the memory of the indexes. Reads and writes continue to work; the next search loads the indexes again. */
  unload(call: CallOptions = {}): Promise<string> {
    return this.#transport.request("unloadCollection", { params: this.#params, call });
  }

  // --- Indexes ---

  /**
   * Creates the index for dense search. It is built in the background; searches are exact until it is ready.
   *
   * @example
   * ```ts no-run
   * import type { Collection } from "@quiverdb/client";
   * declare const collection: Collection;
   * await collection.createDenseIndex({
   *   distance_metric_type: "cosine",
   *   index: { type: "hnsw", properties: { ef_construction: 200, neighbors_count: 32 } },
   * });
   * ```
   */
  async createDenseIndex(definition: DenseIndexInput, call: CallOptions = {}): Promise<void> {
    await this.#transport.request("createDenseIndex", { params: this.#params, body: definition, call });
  }

  /** Creates the index for sparse search. */
  async createSparseIndex(definition: SparseIndexInput = {}, call: CallOptions = {}): Promise<void> {
    await this.#transport.request("createSparseIndex", { params: this.#params, body: definition, call });
  }

  /** Creates the index for full-text search (BM25). */
  async createTextIndex(definition: TextIndexInput = {}, call: CallOptions = {}): Promise<void> {
    await this.#transport.request("createTextIndex", { params: this.#params, body: definition, call });
  }

  /**
   * Shows how the text index analyses a text: each word in order, with its term, or the reason why it has none. A search finds a record by
   * a word if both produce the same term.
   * @param text at most 1 MiB of UTF-8
   * @throws QuiverError index_not_found without a text index
   *
   * @example
   * ```ts no-run
   * import type { Collection } from "@quiverdb/client";
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
   * Measures the recall of the dense index: vectors of the collection are used as queries, and the results are compared with those of exact
   * search.
   * @param options `sample` queries, 1 to 10,000 (default 100); `topK` results (default 10); `efSearch` beam width (default: that of the
   *   index)
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
      // In paths the text index is called tf_idf.
      params: { ...this.#params, index_type: kind === "tf-idf" ? "tf_idf" : kind },
      call,
    });
  }

  /**
   * Declares the type of a field of the metadata, and indexes it in the background. Filters work without an index; with one they need not
   * read the records. A field that is declared as `datetime` is compared by time.
   *
   * @example
   * ```ts no-run
   * import type { Collection } from "@quiverdb/client";
   * declare const collection: Collection;
   * await collection.createMetadataIndex("color", "keyword");
   * await collection.createMetadataIndex("published.at", "datetime");
   * ```
   */
  async createMetadataIndex(
    field: FieldName<Metadata>,
    type: MetadataIndex["type"],
    call: CallOptions = {},
  ): Promise<void> {
    const params = { ...this.#params, field };
    await this.#transport.request("createMetadataIndex", { params, body: { type }, call });
  }

  /** The metadata indexes, by field, each with its status. */
  async metadataIndexes(call: CallOptions = {}): Promise<MetadataIndexes["indexes"]> {
    return (await this.#transport.request("getMetadataIndexes", { params: this.#params, call })).indexes;
  }

  /** Deletes a metadata index; the metadata stays. @throws QuiverError index_not_found */
  async deleteMetadataIndex(field: FieldName<Metadata>, call: CallOptions = {}): Promise<void> {
    await this.#transport.request("deleteMetadataIndex", { params: { ...this.#params, field }, call });
  }

  /**
   * Resolves when every index is ready, with all records of the version that is current now in their final places: searches are as fast
   * as they get. Correct results never need this: searches scan records that are not in their final places yet.
   */
  async waitForIndex(options: WaitOptions = {}): Promise<void> {
    const { version_number: version } = await this.currentVersion({ signal: options.signal });
    await waitForIndexes(this.#transport, this.name, version, options);
  }

  // --- Records ---

  /**
   * Creates or replaces records by id, any number of them, without a transaction. Acknowledged records are durable and immediately visible
   * to searches.
   *
   * More than `batchRecords` records or `batchBytes` bytes are split into several requests. Each request is atomic, but the call as a whole
   * is not: use a transaction for that. When a request fails, the error's `details.acknowledged` is the number of records, from the first
   * one on, that were acknowledged. Positions in the error (`vectors[1017]`) refer to the records of this call. Requests are repeated after
   * a lost response: if another writer changes one of the same ids in between, this call's record wins. With `ifVersion` there is one request,
   * which is refused with `version_changed` if anything was written since that version. A record with `if_match` (the version that wrote it,
   * which `include: ["version"]` tells) or `if_absent` is written only if it is as that says; otherwise its request is refused with
   * `record_changed`.
   *
   * @example
   * ```ts no-run
   * import type { Collection } from "@quiverdb/client";
   * declare const collection: Collection;
   * await collection.upsert([
   *   { id: "a", dense_values: new Float32Array([0.1, 0.9]), metadata: { page: 1 } },
   *   { id: "b", text: "Bees dance to tell where food is.", document_id: "bees" },
   * ]);
   * ```
   */
  upsert(
    records: Records<Metadata>,
    { ifVersion, ...options }: BatchOptions & CallOptions & Condition = {},
  ): Promise<UpsertResult> {
    const batching = batchingOf(options, ifVersion !== undefined);
    return upsertInBatches(records, batching, this.#transport.form, (body) =>
      this.#transport.request("streamingUpsert", {
        params: this.#params,
        ...body,
        ...conditional({ ifVersion }),
        call: options,
      }),
    );
  }

  /** Deletes a record immediately. @throws QuiverError vector_not_found, version_changed, record_changed */
  async delete(
    id: string,
    { ifVersion, ifMatch, ...call }: CallOptions & Condition & IfMatch = {},
  ): Promise<void> {
    const params = { ...this.#params, vector_id: id };
    await this.#transport.request("streamingDelete", {
      params,
      ...conditional({ ifVersion, ifMatch }),
      call,
    });
  }

  /** Reads a record. @throws QuiverError vector_not_found */
  get(id: string, call: CallOptions = {}): Promise<Found<Metadata, VectorRecord>> {
    return this.#found(
      this.#transport.request("getVector", { params: { ...this.#params, vector_id: id }, call }),
    );
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

  /**
   * Merges a patch into the metadata of a record (RFC 7396): keys are replaced, objects merged, and null removes a key. Vectors and text stay.
   * @throws QuiverError vector_not_found, record_changed
   */
  async patch(
    id: string,
    metadata: PatchOf<Metadata>,
    { ifMatch, ...call }: CallOptions & IfMatch = {},
  ): Promise<void> {
    const params = { ...this.#params, vector_id: id };
    const isConditional = ifMatch !== undefined;
    await this.#transport.request("patchVector", {
      params,
      body: { metadata, ...(isConditional && { if_match: ifMatch }) },
      ...(isConditional && { repeat: "refused" }),
      call,
    });
  }

  /** Records by their ids, in this order; null where there is none. At most 10,000. */
  fetch(request: FetchVectors, call: CallOptions = {}): Promise<Found<Metadata, FetchedVectors>> {
    return this.#found(
      this.#transport.request("fetchVectors", { params: this.#params, body: request, call }),
    );
  }

  /**
   * The records whose dense vectors are nearest to that of a record, without itself.
   * @throws QuiverError vector_not_found
   */
  async neighbors(
    id: string,
    request: NeighborsInput<Metadata> = {} as NeighborsInput<Metadata>,
    call: CallOptions = {},
  ): Promise<Found<Metadata, SearchResponse>> {
    const query = Object.fromEntries(
      Object.entries(request).map(([name, value]) => [name, parameterText(name, value)]),
    );
    return this.#found(
      this.#transport.request("neighbors", { params: { ...this.#params, vector_id: id }, query, call }),
    );
  }

  /** How many records match a filter; without one, all. */
  async count(filter: FilterOf<Metadata> | null = null, call: CallOptions = {}): Promise<number> {
    const parts = { params: this.#params, body: { filter }, call };
    return (await this.#transport.request("countVectors", parts)).count;
  }

  /**
   * The values of a field among the matching records, and how many records have each, most frequent first; of several fields, those of each, by
   * their names, all of one version.
   *
   * @example
   * ```ts no-run
   * import type { Collection } from "@quiverdb/client";
   * declare const collection: Collection;
   * for (const { value, count } of await collection.facet({ field: "color", filter: { n: { gt: 3 } } }))
   *   console.log(value, count);
   * const { color, size } = await collection.facet({ fields: ["color", "size"], limit: 10 });
   * ```
   */
  facet(request: FacetInput<Metadata>, call?: CallOptions): Promise<FacetValues>;
  facet<Name extends FieldName<Metadata>>(
    request: FacetsInput<Metadata, Name>,
    call?: CallOptions,
  ): Promise<Record<Name, FacetValues>>;
  async facet(
    request: FacetInput<Metadata> | FacetsInput<Metadata, FieldName<Metadata>>,
    call: CallOptions = {},
  ): Promise<FacetValues & Record<string, FacetValues>> {
    const parts = { params: this.#params, body: request, call };
    return (await this.#transport.request("facetVectors", parts)).facets as never;
  }

  /**
   * A page of the matching records, by id or in the order of an indexed field; to continue, pass its `next_cursor` as `cursor`. With `for await`,
   * all of them from there on: one page of `limit` records is in memory at a time, and `timeoutMs` is for each. Nothing stays open where the loop
   * is left.
   *
   * @example
   * ```ts no-run
   * import type { Collection } from "@quiverdb/client";
   * declare const collection: Collection;
   * const { vectors, next_cursor } = await collection.scroll({ limit: 20 });
   * for await (const { id, metadata } of collection.scroll({ filter: { color: "red" }, include: ["metadata"] }))
   *   console.log(id, metadata);
   * ```
   */
  scroll(request: For<Metadata, ScrollVectors> = {}, call: CallOptions = {}): Scroll<Metadata> {
    const page = (body: unknown) =>
      this.#found(this.#transport.request("scrollVectors", { params: this.#params, body, call }));
    const first = page(request);
    const asked = { ...request };
    const next = (cursor: string) => page({ ...asked, cursor });
    return Object.assign(first, {
      [Symbol.asyncIterator]: () => eachRecord(first, next, call.signal),
    });
  }

  /** Deletes the matching records of one version, as one version. @returns how many there were */
  async deleteMatching(filter: FilterOf<Metadata>, call: CallOptions = {}): Promise<number> {
    const parts = { params: this.#params, body: { filter }, call };
    return (await this.#transport.request("deleteMatching", parts)).deleted;
  }

  /** Merges a patch into the metadata of the matching records of one version, as one version. @returns how many there were */
  async updateMatching(
    filter: FilterOf<Metadata>,
    metadata: PatchOf<Metadata>,
    call: CallOptions = {},
  ): Promise<number> {
    const parts = { params: this.#params, body: { filter, metadata }, call };
    return (await this.#transport.request("updateMatching", parts)).updated;
  }

  /** All records of a document, by id. */
  byDocument(documentId: string, call: CallOptions = {}): Promise<Found<Metadata, VectorRecord[]>> {
    const parts = { params: this.#params, query: { document_id: documentId }, call };
    return this.#found(this.#transport.request("vectorsByDocument", parts));
  }

  /**
   * Reads all records of one version of the collection as a stream.
   * @param options `filter`: only the records that satisfy it
   */
  export({ filter, ...call }: CallOptions & { filter?: FilterOf<Metadata> | null } = {}): RecordExport {
    return new RecordExport(async () => {
      if (filter != null) checkFilter(filter, "filter");
      const query = { filter: filter == null ? undefined : jsonText(filter, "filter") };
      const parts = { params: this.#params, query, call };
      const response = await this.#transport.open("exportVectors", parts);
      return { response, request: `The export of ${JSON.stringify(this.name)}`, signal: call.signal };
    });
  }

  // --- Transactions ---

  /**
   * Opens a transaction. A collection has at most one: while another is open, this throws `transaction_ongoing`.
   * With `await using` it is aborted at the end of the block unless it was committed.
   */
  async transaction(call: CallOptions = {}): Promise<Transaction<Metadata>> {
    const created = await this.#transport.request("createTransaction", { params: this.#params, call });
    return new Transaction(this.#transport, this.name, created.transaction_id, created.created_at);
  }

  /** A handle on an existing transaction, perhaps opened by another process. Sends no request. */
  resumeTransaction(transactionId: string): Transaction<Metadata> {
    return new Transaction(this.#transport, this.name, transactionId);
  }

  /** Open and recent transactions, newest first. */
  async transactions(call: CallOptions = {}): Promise<TransactionList["transactions"]> {
    const answer = await this.#transport.request("listTransactions", { params: this.#params, call });
    return answer.transactions;
  }

  // --- Versions ---

  /** Versions, newest first. To continue a list, pass the smallest version number so far as `before`. */
  versions(page: { limit?: number; before?: number } = {}, call: CallOptions = {}): Promise<VersionList> {
    refuseUnknownOptions(page, ["limit", "before"]);
    return this.#transport.request("listVersions", {
      params: this.#params,
      query: { limit: page.limit?.toString(), before: page.before?.toString() },
      call,
    });
  }

  /** The version that reads and searches see now. */
  currentVersion(call: CallOptions = {}): Promise<Version> {
    return this.#transport.request("currentVersion", { params: this.#params, call });
  }

  /** The version with this hash. @throws QuiverError invalid_version_hash */
  version(hash: string, call: CallOptions = {}): Promise<Version> {
    return this.#transport.request("getVersion", { params: { ...this.#params, version_hash: hash }, call });
  }

  /**
   * The collection as it was at an earlier version, which must be readable: `config.history` says how far back versions are, and tags keep
   * single ones. All methods that read read that version alone.
   * @param past `version`: number, hash or tag; `asOf`: the version that was current at this time
   *
   * @example
   * ```ts no-run
   * import type { Collection } from "@quiverdb/client";
   * declare const collection: Collection;
   * const before = collection.at({ asOf: new Date(Date.now() - 3_600_000) });
   * await before.search.text({ query: "bees", top_k: 5 });
   * await collection.at({ version: "release-1" }).count();
   * ```
   */
  at(past: PastOf): PastCollection<Metadata> {
    return new Collection<Metadata>(pastTransport(this.#transport, past), this.name);
  }

  /**
   * Says how far back versions can be read from now on: the latest `versions`, those that were current in the last `seconds`, or all. null:
   * only the current one, and those with a tag.
   */
  setHistory(history: History | null, call: CallOptions = {}): Promise<CollectionDetail> {
    return this.#transport.request("patchCollection", {
      params: this.#params,
      body: { config: { history } },
      call,
    });
  }

  /**
   * Names a version, which stays readable while it has the name.
   * @param version number or hash; default: the current one
   * @throws QuiverError tag_already_exists, version_gone, version_not_found
   */
  putTag(name: string, version?: number | string, call: CallOptions = {}): Promise<Tag> {
    return this.#transport.request("putTag", {
      params: { ...this.#params, tag: name },
      body: version === undefined ? {} : { version },
      call,
    });
  }

  /** Deletes the name of a version. @throws QuiverError tag_not_found */
  async deleteTag(name: string, call: CallOptions = {}): Promise<void> {
    await this.#transport.request("deleteTag", { params: { ...this.#params, tag: name }, call });
  }

  /**
   * Makes a version whose records are those of an earlier one. Versions in between stay readable.
   * @param version number, hash or tag
   */
  restoreVersion(version: number | string, call: CallOptions = {}): Promise<Version> {
    const params = { ...this.#params, version: String(version) };
    return this.#transport.request("restoreVersion", { params, call });
  }

  /**
   * Makes a collection of this one, or of an earlier version, under another name, with its indexes; the original stays. The copy continues the
   * versions, and `describe()` says its origin.
   * @param past `version` or `asOf`; default: the current version
   */
  async copy(
    name: string,
    past: Partial<PastOf> = {},
    call: CallOptions = {},
  ): Promise<Collection<Metadata>> {
    const body = { name, ...fieldsOf(past) };
    await this.#transport.request("copyCollection", { params: this.#params, body, call });
    return new Collection<Metadata>(this.#transport, name);
  }

  /**
   * Takes over what a copy of this collection has changed since it was made, record by record, as one version.
   * @param from name of the copy
   * @param options `onConflict`: what holds for records that both have changed: `ours`, as they are here, or `theirs`, as in the copy
   * @throws QuiverError merge_conflict, whose details list the records; nothing was changed
   *
   * @example
   * ```ts no-run
   * import type { Collection } from "@quiverdb/client";
   * declare const articles: Collection;
   * const draft = await articles.copy("articles-draft");
   * await draft.delete("a17");
   * const { removed, conflicts } = await articles.merge("articles-draft", { onConflict: "theirs" });
   * ```
   */
  merge(
    from: string,
    { onConflict, ...call }: CallOptions & { onConflict?: "ours" | "theirs" } = {},
  ): Promise<Merged> {
    const body = { from, ...(onConflict !== undefined && { on_conflict: onConflict }) };
    return this.#transport.request("mergeCollection", { params: this.#params, body, call });
  }

  /**
   * Compares two versions.
   * @param from,to number, hash or tag
   *
   * @example
   * ```ts no-run
   * import type { Collection } from "@quiverdb/client";
   * declare const collection: Collection;
   * const diff = collection.diff("release-1", "release-2");
   * console.log(await diff.counts());
   * for await (const { op, id } of diff) console.log(op, id);
   * ```
   */
  diff(from: number | string, to: number | string, call: CallOptions = {}): VersionDiff {
    const params = { ...this.#params, version: String(from), other: String(to) };
    return new VersionDiff(
      new RecordExport(async () => {
        const response = await this.#transport.open("diffVersions", { params, call });
        return { response, request: "The comparison of two versions", signal: call.signal };
      }),
    );
  }

  /**
   * A page of what has changed since a version, in order: written records, and ids of deleted ones. Without history, states that were replaced
   * since are left out.
   * @param options `since`: a version (default 0), or the `next` of a page; `waitMs`: how long an empty page waits for a write
   * @throws QuiverError version_gone if the change log no longer reaches back so far
   *
   * @example
   * ```ts no-run
   * import type { Collection } from "@quiverdb/client";
   * declare const collection: Collection;
   * declare const kept: { load(): Promise<string>; save(place: string): Promise<void> };
   * for (let since = await kept.load(); ; ) {
   *   const { changes, next } = await collection.changes({ since, waitMs: 20_000 });
   *   for (const { op, id } of changes) console.log(op, id);
   *   await kept.save((since = next));
   * }
   * ```
   */
  changes(
    options: { since?: string | number; limit?: number; waitMs?: number } = {},
    call: CallOptions = {},
  ): Promise<ChangesPage> {
    refuseUnknownOptions(options, ["since", "limit", "waitMs"]);
    const { since, limit, waitMs } = options;
    const query = {
      since: since?.toString(),
      limit: limit?.toString(),
      wait_ms: waitMs?.toString(),
    };
    return this.#transport.request("readChanges", { params: this.#params, query, call });
  }

  /** Every state of a record that is kept, newest first. @throws QuiverError vector_not_found */
  history(id: string, call: CallOptions = {}): Promise<RecordHistory> {
    return this.#transport.request("vectorHistory", { params: { ...this.#params, vector_id: id }, call });
  }

  // --- Snapshots ---

  /**
   * Creates a snapshot of the current version on the server, while writes and searches continue. Resolves when the snapshot is complete;
   * give a sufficient `timeoutMs` for a large collection.
   * @param options `sinceVersion`: only the changes since this version; `sinceHash`: the hash that this version must have
   * @throws QuiverError version_not_kept if the change log no longer reaches back to it
   *
   * @example
   * ```ts no-run
   * import type { Collection } from "@quiverdb/client";
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

  /** The collection's snapshots, oldest first, and those that are being created. */
  snapshots(call: CallOptions = {}): Promise<SnapshotList> {
    return this.#transport.request("listSnapshots", { params: this.#params, call });
  }

  /**
   * Reads the snapshot files of this collection completely; the collection itself may be deleted. This takes as long as reading them, so
   * give a sufficient `timeoutMs`. `findings` is empty if there is no damage.
   */
  checkSnapshots(call: CallOptions = {}): Promise<CheckReport> {
    return this.#transport.request("checkSnapshots", { params: this.#params, call });
  }

  /** @throws QuiverError snapshot_not_found */
  getSnapshot(snapshotId: string, call: CallOptions = {}): Promise<Snapshot> {
    const params = { ...this.#params, snapshot_id: snapshotId };
    return this.#transport.request("getSnapshot", { params, call });
  }

  /** The file of a snapshot. An interrupted download is resumed, at most `retries` times in a row. */
  downloadSnapshot(snapshotId: string, call: CallOptions = {}): SnapshotDownload {
    const params = { ...this.#params, snapshot_id: snapshotId };
    const open = (start: number) => {
      const headers: Record<string, string> = start === 0 ? {} : { range: `bytes=${start}-` };
      return this.#transport.open("downloadSnapshot", { params, headers, call });
    };
    const retries = call.retries ?? this.#transport.retries;
    return new SnapshotDownload(open, `GET snapshot ${snapshotId}`, call.signal, retries);
  }

  /** @throws QuiverError snapshot_not_found */
  async deleteSnapshot(snapshotId: string, call: CallOptions = {}): Promise<void> {
    const params = { ...this.#params, snapshot_id: snapshotId };
    await this.#transport.request("deleteSnapshot", { params, call });
  }

  /**
   * Restores this collection from snapshots: a full one, then incremental ones. All are verified before anything changes, and the
   * collection is created or replaced atomically.
   * @param request `snapshots` by id; `overwrite: true` to replace an existing collection of this name
   * @throws QuiverError collection_already_exists, snapshot_chain_broken, invalid_snapshot
   */
  restore(request: RestoreCollection, call: CallOptions = {}): Promise<RestoredCollection> {
    return this.#transport.request("restoreCollection", { params: this.#params, body: request, call });
  }
}

/** The records of a page and of those behind it. */
async function* eachRecord<Item>(
  first: Promise<{ vectors: readonly Item[]; next_cursor: string | null }>,
  next: (cursor: string) => typeof first,
  signal: AbortSignal | undefined,
): AsyncGenerator<Item, void, undefined> {
  for (let page = await first; ; page = await next(page.next_cursor)) {
    for (const record of page.vectors) {
      signal?.throwIfAborted();
      yield record;
    }
    if (page.next_cursor === null) return;
  }
}

/** A field of a request as a query parameter; undefined: it is left out. */
function parameterText(name: string, value: unknown): string | undefined {
  if (value === null || value === undefined) return undefined;
  if (Array.isArray(value)) return value.length > 0 ? value.join(",") : undefined;
  if (name === "filter") checkFilter(value, name);
  return typeof value === "object" ? jsonText(value, name) : String(value);
}
