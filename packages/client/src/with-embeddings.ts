// How does a program write and search texts, and leave the vectors to a model?
//
//   withEmbeddings(collection, embed).upsert(records)            texts -> embed -> dense_values -> collection.upsert
//   withEmbeddings(collection, embed).search.dense({ query })    query -> embed -> query_vector -> collection.search.dense
//
// Nothing is stored about the model: a collection must always be used with the one that it was filled with.

import { QuiverError } from "@quiverdb/protocol/errors";
import { refuseUnknownOptions } from "@quiverdb/protocol/fields";
import { kindOf } from "@quiverdb/protocol/kind-of";
import type { SearchResponse } from "@quiverdb/protocol/shapes/search";
import type { Collection } from "./collection.ts";
import type { Embed } from "./embed.ts";
import type { AnyMetadata, For, Found } from "./filter-types.ts";
import type { DenseValues, RecordInput } from "./record.ts";
import type { DenseSearchInput, HybridSearchInput } from "./search.ts";
import type { BatchOptions, CallOptions } from "./transport.ts";
import type { UpsertResult } from "./upsert.ts";

/** Records of which the vector may be missing: it is made of the text. */
export type TextRecords<Metadata = AnyMetadata> =
  | RecordInput<Metadata>
  | Iterable<RecordInput<Metadata>>
  | AsyncIterable<RecordInput<Metadata>>;

/** A dense search by text. */
export type DenseTextSearchInput = Omit<DenseSearchInput, "query_vector"> & { query: string };

/** A hybrid search by text: the query is both embedded and searched as text; `query_terms` may be added. */
export type HybridTextSearchInput = Omit<HybridSearchInput, "query_vector" | "query_text"> & {
  query: string;
};

/** How queries are embedded. */
export type WithEmbeddingsOptions = {
  /** Embeds queries, for models that treat them differently from the texts to find. Default: the same function. */
  embedQuery?: Embed;
};

/** So many records are embedded in one call of `embed`. */
const recordsAtOnce = 256;

/**
 * A collection of texts: records without `dense_values` get the vector of their `text`, and searches take a text.
 *
 * @example
 * ```ts no-run
 * import { type Database, openAiEmbeddings, withEmbeddings } from "@quiverdb/client";
 * declare const database: Database;
 * const embed = openAiEmbeddings({ url: "http://127.0.0.1:11434/v1", model: "nomic-embed-text" });
 * const articles = withEmbeddings(database.collection<{ year: number }>("articles"), embed);
 * await articles.upsert([{ id: "bees", text: "Bees dance to tell where food is.", metadata: { year: 2024 } }]);
 * const { results } = await articles.search.hybrid({ query: "how do insects talk", filter: { year: { gte: 2020 } } });
 * ```
 */
export function withEmbeddings<Metadata extends object = AnyMetadata>(
  collection: Collection<Metadata>,
  embed: Embed,
  options: WithEmbeddingsOptions = {},
): TextCollection<Metadata> {
  refuseUnknownOptions(options, ["embedQuery"]);
  return new TextCollection(collection, embed, options.embedQuery ?? embed);
}

/** What `withEmbeddings` returns. */
export class TextCollection<Metadata extends object = AnyMetadata> {
  /** The collection itself, with all its methods. */
  readonly collection: Collection<Metadata>;
  /** Searches by text. */
  readonly search: TextCollectionSearch<Metadata>;
  readonly #embed: Embed;

  constructor(collection: Collection<Metadata>, embed: Embed, embedQuery: Embed) {
    this.collection = collection;
    this.search = new TextCollectionSearch(collection, embedQuery);
    this.#embed = embed;
  }

  /**
   * `collection.upsert` of records that have a text in place of a vector. The next records are embedded while earlier ones are written.
   * `timeoutMs` limits the requests to the database, not the embedding.
   * @throws QuiverError as `collection.upsert` and `embed` do, with `details.acknowledged`
   */
  upsert(records: TextRecords<Metadata>, options: BatchOptions & CallOptions = {}): Promise<UpsertResult> {
    return this.collection.upsert(this.records(records, { signal: options.signal }), options);
  }

  /**
   * The records with their vectors, to write in another way, such as `transaction.upsert(articles.records(...))`. A record that has
   * `dense_values`, or no text, stays as it is.
   */
  async *records(
    records: TextRecords<Metadata>,
    { signal }: { signal?: AbortSignal } = {},
  ): AsyncGenerator<RecordInput<Metadata>> {
    for await (const lot of lots(asSource(records))) {
      const bare = lot.filter(needsVector);
      const vectors =
        bare.length === 0
          ? []
          : await this.#embed(
              bare.map(({ text }) => text),
              { signal },
            );
      checkCount(vectors, bare.length);
      const vectorOf = new Map<RecordInput<Metadata>, DenseValues>(
        bare.map((record, i) => [record, vectors[i]]),
      );
      for (const record of lot) {
        const dense_values = vectorOf.get(record);
        yield dense_values === undefined ? record : { ...record, dense_values };
      }
    }
  }
}

/** The searches of a `TextCollection`. */
export class TextCollectionSearch<Metadata extends object = AnyMetadata> {
  readonly #collection: Collection<Metadata>;
  readonly #embedQuery: Embed;

  constructor(collection: Collection<Metadata>, embedQuery: Embed) {
    this.#collection = collection;
    this.#embedQuery = embedQuery;
  }

  /** Records whose vectors are nearest to that of the query. */
  async dense(
    request: For<Metadata, DenseTextSearchInput>,
    call: CallOptions = {},
  ): Promise<Found<Metadata, SearchResponse>> {
    const { query, ...rest } = request as DenseTextSearchInput;
    const query_vector = await this.#vectorOf(query, call);
    return this.#collection.search.dense({ ...rest, query_vector } as For<Metadata, DenseSearchInput>, call);
  }

  /** Records that are near to the query and have its words, combined by reciprocal rank fusion. Needs a dense and a text index. */
  async hybrid(
    request: For<Metadata, HybridTextSearchInput>,
    call: CallOptions = {},
  ): Promise<Found<Metadata, SearchResponse>> {
    const { query, ...rest } = request as HybridTextSearchInput;
    const query_vector = await this.#vectorOf(query, call);
    const hybrid = { ...rest, query_vector, query_text: query };
    return this.#collection.search.hybrid(hybrid as For<Metadata, HybridSearchInput>, call);
  }

  async #vectorOf(query: unknown, { signal }: CallOptions): Promise<DenseValues> {
    if (typeof query !== "string")
      throw new QuiverError("invalid_request", `query is ${kindOf(query)}, expected a text.`, {
        path: "query",
      });
    const vectors = await this.#embedQuery([query], { signal });
    checkCount(vectors, 1);
    return vectors[0];
  }
}

function needsVector<Metadata>(
  record: RecordInput<Metadata>,
): record is RecordInput<Metadata> & { text: string } {
  // What is no record stays, so that the database says what is wrong with it, with its position.
  return typeof record?.text === "string" && (record.dense_values ?? null) === null;
}

function checkCount(vectors: readonly DenseValues[], texts: number): void {
  if (vectors.length === texts) return;
  throw new QuiverError(
    "embedding_failed",
    `The embedding returned ${vectors.length} vectors for ${texts} texts.`,
    { texts },
  );
}

async function* lots<T>(source: Iterable<T> | AsyncIterable<T>): AsyncGenerator<T[]> {
  let lot: T[] = [];
  for await (const item of source) {
    lot.push(item);
    if (lot.length < recordsAtOnce) continue;
    yield lot;
    lot = [];
  }
  if (lot.length > 0) yield lot;
}

function asSource<Metadata>(
  records: TextRecords<Metadata>,
): Iterable<RecordInput<Metadata>> | AsyncIterable<RecordInput<Metadata>> {
  if (typeof records !== "object" || records === null) {
    throw new QuiverError(
      "invalid_request",
      `upsert() got ${kindOf(records)}; expected a record or an iterable of records.`,
    );
  }
  return Symbol.iterator in records || Symbol.asyncIterator in records ? records : [records];
}
