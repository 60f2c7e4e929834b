// How does LangChain.js store and find documents in Quiver?
//
//   Document                     record of the collection
//   id, or a random UUID    ->   id
//   pageContent             ->   text          stored, and searched with `mode: "hybrid"`
//   metadata                ->   metadata      what filters name
//   its embedding           ->   dense_values
//
// The collection is created by the first documents, with their dimension, or by `create`. Maximal marginal relevance chooses among the nearest
// `fetchK` documents by LangChain's own function, so that `lambda` means what it means in every store.

import type { Callbacks } from "@langchain/core/callbacks/manager";
import { Document, type DocumentInterface } from "@langchain/core/documents";
import type { EmbeddingsInterface } from "@langchain/core/embeddings";
import { maximalMarginalRelevance } from "@langchain/core/utils/math";
import { type MaxMarginalRelevanceSearchOptions, VectorStore } from "@langchain/core/vectorstores";
import {
  type AnyMetadata,
  type Collection,
  type Database,
  type DenseIndexInput,
  ensureTexts,
  type FilterOf,
  QuiverError,
  type SearchResult,
} from "@quiverdb/client";

/** Where a vector store has its documents, and how it searches. */
export type QuiverVectorStoreConfig = {
  /** From `connect` of `@quiverdb/client` or `open` of `@quiverdb/database`. */
  database: Database;
  /** Name of the collection. */
  collection: string;
  /**
   * What a query given as text searches: vectors alone, or also the words of the documents (BM25), combined by reciprocal rank fusion.
   * Scores of "hybrid" are those of the fusion. Default "dense".
   */
  mode?: "dense" | "hybrid";
  /** Weights of the two searches with "hybrid". Default 1 for each. */
  fusionWeights?: { dense?: number; text?: number };
  /** Metric of a collection that is created. Default "cosine". */
  metric?: DenseIndexInput["distance_metric_type"];
};

/** Which documents to delete: by their ids, or all that match a filter. */
export type QuiverDeleteParams<Metadata> =
  | { ids: string[]; filter?: never }
  | { filter: FilterOf<Metadata>; ids?: never };

/** Candidates of maximal marginal relevance, and their weight of similarity, where a call does not say. */
const mmrDefaults = { fetchK: 20, lambda: 0.5 } as const;
/** A filter's list takes so many values. */
const idsAtOnce = 10_000;

/**
 * A vector store of LangChain.js in a collection of Quiver.
 *
 * @example
 * ```ts no-run
 * import type { EmbeddingsInterface } from "@langchain/core/embeddings";
 * import { connect } from "@quiverdb/client";
 * import { QuiverVectorStore } from "@quiverdb/langchain";
 * declare const embeddings: EmbeddingsInterface;
 * const database = connect("http://127.0.0.1:8443", { apiKey: process.env.QUIVER_API_KEY });
 * const store = await QuiverVectorStore.fromTexts(
 *   ["Bees dance.", "Whales sing."],
 *   [{ legs: 6 }, { legs: 0 }],
 *   embeddings,
 *   { database, collection: "animals", mode: "hybrid" },
 * );
 * const found = await store.similaritySearch("who dances", 1, { legs: { gt: 0 } });
 * ```
 */
// biome-ignore lint/suspicious/noExplicitAny: LangChain's own type of metadata.
export class QuiverVectorStore<Metadata extends Record<string, any> = AnyMetadata> extends VectorStore {
  declare FilterType: FilterOf<Metadata> & object;
  /** The collection itself, with all its methods. */
  readonly collection: Collection<Metadata>;
  readonly #config: QuiverVectorStoreConfig;
  #isCreated = false;

  static override lc_name(): string {
    return "QuiverVectorStore";
  }

  /** Sends no request; the collection is created by the first documents if it does not exist. */
  constructor(embeddings: EmbeddingsInterface, config: QuiverVectorStoreConfig) {
    // LangChain keeps the arguments to print them; a database is nothing to print.
    super(embeddings, { collection: config.collection });
    this.#config = config;
    this.collection = config.database.collection<Metadata>(config.collection);
  }

  _vectorstoreType(): string {
    return "quiver";
  }

  /**
   * A store whose collection is created now unless it exists.
   * @param config `dimension`: that of the embeddings; without it, a text is embedded to find out
   */
  // biome-ignore lint/suspicious/noExplicitAny: LangChain's own type of metadata.
  static async create<Metadata extends Record<string, any> = AnyMetadata>(
    embeddings: EmbeddingsInterface,
    config: QuiverVectorStoreConfig & { dimension?: number },
  ): Promise<QuiverVectorStore<Metadata>> {
    const { dimension, ...rest } = config;
    const store = new QuiverVectorStore<Metadata>(embeddings, rest);
    await store.#create(async () => dimension ?? (await embeddings.embedQuery("dimension")).length);
    return store;
  }

  /** A store with these texts. @param metadatas one for each text, or one for all of them */
  static override async fromTexts(
    texts: string[],
    metadatas: object[] | object,
    embeddings: EmbeddingsInterface,
    config: QuiverVectorStoreConfig,
  ): Promise<QuiverVectorStore> {
    if (Array.isArray(metadatas)) checkCounts("metadatas", metadatas, "texts", texts);
    const documents = texts.map((pageContent, i) => {
      const metadata = Array.isArray(metadatas) ? metadatas[i] : metadatas;
      return new Document({ pageContent, metadata });
    });
    return QuiverVectorStore.fromDocuments(documents, embeddings, config);
  }

  static override async fromDocuments(
    documents: DocumentInterface[],
    embeddings: EmbeddingsInterface,
    config: QuiverVectorStoreConfig,
  ): Promise<QuiverVectorStore> {
    const store = new QuiverVectorStore(embeddings, config);
    await store.addDocuments(documents);
    return store;
  }

  /**
   * A store of a collection that exists already.
   * @throws QuiverError collection_not_found; modality_not_enabled if it has no dense vectors or does not store texts
   */
  // biome-ignore lint/suspicious/noExplicitAny: LangChain's own type of metadata.
  static async fromExistingCollection<Metadata extends Record<string, any> = AnyMetadata>(
    embeddings: EmbeddingsInterface,
    config: QuiverVectorStoreConfig,
  ): Promise<QuiverVectorStore<Metadata>> {
    await config.database.getCollection(config.collection);
    return QuiverVectorStore.create<Metadata>(embeddings, config);
  }

  /**
   * Embeds and stores documents. A document whose id is stored already replaces it.
   * @param options `ids`, one for each document; default: those of the documents, or random ones
   * @returns the ids, in the order of the documents
   */
  async addDocuments(documents: DocumentInterface[], options: { ids?: string[] } = {}): Promise<string[]> {
    const vectors = await this.embeddings.embedDocuments(documents.map(({ pageContent }) => pageContent));
    return this.addVectors(vectors, documents, options);
  }

  /** Stores documents with vectors that were made elsewhere, as `addDocuments` does. */
  async addVectors(
    vectors: number[][],
    documents: DocumentInterface[],
    { ids: given }: { ids?: string[] } = {},
  ): Promise<string[]> {
    checkCounts("vectors", vectors, "documents", documents);
    if (given !== undefined) checkCounts("ids", given, "documents", documents);
    if (documents.length === 0) return [];
    await this.#create(async () => vectors[0].length);
    const ids = documents.map(({ id }, i) => given?.[i] ?? id ?? crypto.randomUUID());
    await this.collection.upsert(
      documents.map(({ pageContent, metadata }, i) => ({
        id: ids[i],
        text: pageContent,
        dense_values: vectors[i],
        metadata: metadata as Metadata,
      })),
    );
    return ids;
  }

  /** Deletes documents. Ids that are not stored are left out. */
  override async delete(params: QuiverDeleteParams<Metadata>): Promise<void> {
    const { ids, filter } = params ?? {};
    if ((ids === undefined) === (filter === undefined))
      throw new QuiverError("invalid_request", "delete() takes either ids or a filter.");
    if (filter !== undefined) {
      await this.collection.deleteMatching(filter);
      return;
    }
    for (let from = 0; from < (ids as string[]).length; from += idsAtOnce) {
      const some = { field: "id", in: (ids as string[]).slice(from, from + idsAtOnce) };
      await this.collection.deleteMatching(some as never);
    }
  }

  /** The nearest documents to a vector, with the scores of the collection's metric: higher is nearer. */
  async similaritySearchVectorWithScore(
    query: number[],
    k: number,
    filter?: this["FilterType"],
  ): Promise<[Document<Metadata>, number][]> {
    return scored(await this.#dense(query, k, filter));
  }

  /** The best documents for a text, as `mode` says. */
  override async similaritySearchWithScore(
    query: string,
    k = 4,
    filter?: this["FilterType"],
    _callbacks?: Callbacks,
  ): Promise<[Document<Metadata>, number][]> {
    const vector = await this.embeddings.embedQuery(query);
    if (this.#config.mode !== "hybrid") return this.similaritySearchVectorWithScore(vector, k, filter);
    const { results } = await this.collection.search.hybrid({
      query_vector: vector,
      query_text: query,
      top_k: k,
      filter,
      fusion_weights: this.#config.fusionWeights,
      return_raw_text: true,
      include: ["metadata"],
    } as Parameters<typeof this.collection.search.hybrid>[0]);
    return scored(results);
  }

  override async similaritySearch(
    query: string,
    k = 4,
    filter?: this["FilterType"],
    callbacks?: Callbacks,
  ): Promise<Document<Metadata>[]> {
    const found = await this.similaritySearchWithScore(query, k, filter, callbacks);
    return found.map(([document]) => document);
  }

  /**
   * Documents that are near to the query and unlike each other, in the order of choice.
   * @param options `k` documents of the nearest `fetchK` (default 20, at least `k`); `lambda` from 0, as different as possible, to 1, by
   *   nearness alone (default 0.5)
   */
  override async maxMarginalRelevanceSearch(
    query: string,
    options: MaxMarginalRelevanceSearchOptions<this["FilterType"]>,
    _callbacks?: Callbacks,
  ): Promise<Document<Metadata>[]> {
    const { k, fetchK = mmrDefaults.fetchK, lambda = mmrDefaults.lambda, filter } = options;
    const vector = await this.embeddings.embedQuery(query);
    const candidates = await this.#dense(vector, Math.max(k, fetchK), filter, ["metadata", "dense_values"]);
    const vectors = candidates.map(({ dense_values }) => Array.from(dense_values ?? []));
    return maximalMarginalRelevance(vector, vectors, lambda, k).map((i) => documentOf(candidates[i]));
  }

  async #dense(
    query_vector: number[],
    top_k: number,
    filter: this["FilterType"] | undefined,
    include: ("metadata" | "dense_values")[] = ["metadata"],
  ): Promise<SearchResult[]> {
    const request = { query_vector, top_k, filter, return_raw_text: true, include };
    type Request = Parameters<typeof this.collection.search.dense>[0];
    return (await this.collection.search.dense(request as Request)).results;
  }

  /** Creates the collection and its indexes, as far as they do not exist. */
  async #create(dimension: () => Promise<number>): Promise<void> {
    if (this.#isCreated) return;
    const { database, collection, metric } = this.#config;
    await ensureTexts(database, collection, { dimension, metric });
    this.#isCreated = true;
  }
}

function scored<Metadata extends object>(results: readonly SearchResult[]): [Document<Metadata>, number][] {
  return results.map((result) => [documentOf<Metadata>(result), result.score]);
}

function documentOf<Metadata extends object>({ id, text, metadata }: SearchResult): Document<Metadata> {
  return new Document<Metadata>({ id, pageContent: text ?? "", metadata: (metadata ?? {}) as Metadata });
}

function checkCounts(what: string, these: readonly unknown[], of: string, those: readonly unknown[]): void {
  if (these.length === those.length) return;
  throw new QuiverError(
    "invalid_request",
    `There are ${these.length} ${what} for ${those.length} ${of}; expected one for each.`,
  );
}
