// Which searches does a collection support?
//
// Requests and responses have the fields of the REST interface, as the API reference describes them. The client adds two things: vectors
// may be typed arrays, and are sent as bytes (record.ts); and numbers that JSON cannot represent are rejected with their position.

import { invariant } from "@quiverdb/protocol/invariant";
import type { Filter } from "@quiverdb/protocol/shapes/filter";
import type {
  BatchDenseSearch,
  BatchHybridSearch,
  BatchSearchResponse,
  BatchSparseSearch,
  BatchTextSearch,
  DenseSearch,
  HybridSearch,
  Recommend,
  SearchResponse,
  SparseSearch,
  TextSearch,
} from "@quiverdb/protocol/shapes/search";
import type { AnswerOf, OperationName } from "./endpoints.ts";
import { type AnyMetadata, type For, type Found, found } from "./filter-types.ts";
import type { DenseValues } from "./record.ts";
import type { CallOptions, Form, RequestParts, Transport } from "./transport.ts";

type WithVector<T> = Omit<T, "query_vector"> & { query_vector: DenseValues };
type WithOptionalVector<T> = Omit<T, "query_vector"> & { query_vector?: DenseValues | null };

/** A dense search: a vector of the collection's dimension, and options. */
export type DenseSearchInput = WithVector<DenseSearch>;
/** Dense searches of one request; all see the same version. At most 10,000, with 1,000,000 results in total. */
export type BatchDenseSearchInput = Omit<BatchDenseSearch, "queries"> & {
  /** A vector of the collection's dimension each; a filter holds beside that of the batch. */
  queries: readonly { vector: DenseValues; filter?: Filter | null }[];
};
/** A search of two or three of `query_vector`, `query_terms` and `query_text`, fused by rank. */
export type HybridSearchInput = WithOptionalVector<HybridSearch>;
/** Hybrid searches of one request; all see the same version. At most 10,000, with 1,000,000 results in total. */
export type BatchHybridSearchInput = Omit<BatchHybridSearch, "queries"> & {
  /** Two or three of the kinds of query each. */
  queries: readonly WithOptionalVector<BatchHybridSearch["queries"][number]>[];
};

/** Ids of records, and vectors. */
export type ExampleInput = string | DenseValues;
/** A search by examples instead of a vector. */
export type RecommendInput = Omit<Recommend, "positive" | "negative"> & {
  /** What results should be like: ids of records, or vectors; at least one. */
  positive: readonly ExampleInput[];
  /** What results should be unlike. */
  negative?: readonly ExampleInput[] | null;
};

/**
 * The searches of a collection: `collection.search`. Every search sees all changes that were acknowledged before
 * it, and exactly one version of the collection. Results are ordered by descending score, ties by id.
 */
export class CollectionSearch<Metadata = AnyMetadata> {
  readonly #transport: Transport;
  readonly #params: { collection_id: string };

  constructor(transport: Transport, collection: string) {
    this.#transport = transport;
    this.#params = { collection_id: collection };
  }

  #ask<R extends OperationName>(route: R, parts: RequestParts): Promise<Found<Metadata, AnswerOf<R>>> {
    return found<Metadata, AnswerOf<R>>(this.#transport.request(route, parts));
  }

  /**
   * Nearest vectors by the dense index's metric.
   *
   * @example
   * ```ts no-run
   * import type { Collection } from "@quiverdb/client";
   * declare const collection: Collection;
   * const { results } = await collection.search.dense({ query_vector: [0.1, 0.9], top_k: 5 });
   * for (const { id, score } of results) console.log(id, score);
   *
   * const red = await collection.search.dense({ query_vector: [0.1, 0.9], filter: { color: "red", n: { gte: 3 } } });
   * ```
   */
  dense(
    request: For<Metadata, DenseSearchInput>,
    call: CallOptions = {},
  ): Promise<Found<Metadata, SearchResponse>> {
    return this.#ask("searchDense", {
      params: this.#params,
      body: withVector(this.#transport.form, request, "query_vector"),
      call,
    });
  }

  /** Many dense searches in one request; the results are in the order of the queries. */
  async batchDense(
    request: For<Metadata, BatchDenseSearchInput>,
    call: CallOptions = {},
  ): Promise<Found<Metadata, BatchSearchResponse>> {
    const body = withVectors(this.#transport.form, request, "vector");
    const answers = await this.#ask("searchBatchDense", { params: this.#params, body, call });
    return oneEach(answers, request.queries);
  }

  /**
   * Records that are like the positive examples and unlike the negative ones. Examples are ids of records, which are no results, or
   * vectors.
   *
   * @example
   * ```ts no-run
   * import type { Collection } from "@quiverdb/client";
   * declare const collection: Collection;
   * const { results } = await collection.search.recommend({ positive: ["a1", "a2"], negative: ["a3"], diversity: 0.3 });
   * ```
   * @throws QuiverError vector_not_found
   */
  recommend(
    request: For<Metadata, RecommendInput>,
    call: CallOptions = {},
  ): Promise<Found<Metadata, SearchResponse>> {
    const { form } = this.#transport;
    const body = withExamples(form, withExamples(form, request as RecommendInput, "positive"), "negative");
    return this.#ask("recommend", { params: this.#params, body, call });
  }

  /**
   * Largest dot products with a sparse query.
   *
   * @example
   * ```ts no-run
   * import type { Collection } from "@quiverdb/client";
   * declare const collection: Collection;
   * const { results } = await collection.search.sparse({
   *   query_terms: [{ index: 17, value: 0.8 }, { index: 4021, value: 0.3 }],
   * });
   * ```
   */
  sparse(
    request: For<Metadata, SparseSearch>,
    call: CallOptions = {},
  ): Promise<Found<Metadata, SearchResponse>> {
    return this.#ask("searchSparse", { params: this.#params, body: request, call });
  }

  /** Many sparse searches in one request; the results are in the order of the queries. */
  async batchSparse(
    request: For<Metadata, BatchSparseSearch>,
    call: CallOptions = {},
  ): Promise<Found<Metadata, BatchSearchResponse>> {
    const parts = { params: this.#params, body: request, call };
    return oneEach(await this.#ask("searchBatchSparse", parts), request.query_terms_list);
  }

  /**
   * Full-text search with BM25. With `syntax: "operators"` the query may have `"phrases"`, `+required` and `-excluded`
   * clauses, `prefix*` and `fuzzy~1`; phrases need an index with `positions: true`.
   *
   * @example
   * ```ts no-run
   * import type { Collection } from "@quiverdb/client";
   * declare const collection: Collection;
   * const { results } = await collection.search.text({ query: "how do bees navigate", return_raw_text: true });
   * ```
   */
  text(request: For<Metadata, TextSearch>, call: CallOptions = {}): Promise<Found<Metadata, SearchResponse>> {
    return this.#ask("searchText", { params: this.#params, body: request, call });
  }

  /** Many text searches in one request; the results are in the order of the queries. */
  async batchText(
    request: For<Metadata, BatchTextSearch>,
    call: CallOptions = {},
  ): Promise<Found<Metadata, BatchSearchResponse>> {
    const parts = { params: this.#params, body: request, call };
    return oneEach(await this.#ask("searchBatchText", parts), request.queries);
  }

  /**
   * Two or three kinds of search in one, combined by reciprocal rank fusion.
   *
   * @example
   * ```ts no-run
   * import type { Collection } from "@quiverdb/client";
   * declare const collection: Collection;
   * declare const embedding: Float32Array;
   * const { results } = await collection.search.hybrid({
   *   query_vector: embedding,
   *   query_text: "how do bees navigate",
   *   top_k: 5,
   * });
   * ```
   */
  hybrid(
    request: For<Metadata, HybridSearchInput>,
    call: CallOptions = {},
  ): Promise<Found<Metadata, SearchResponse>> {
    return this.#ask("searchHybrid", {
      params: this.#params,
      body: withVector(this.#transport.form, request, "query_vector"),
      call,
    });
  }

  /** Many hybrid searches in one request; the results are in the order of the queries. */
  async batchHybrid(
    request: For<Metadata, BatchHybridSearchInput>,
    call: CallOptions = {},
  ): Promise<Found<Metadata, BatchSearchResponse>> {
    const body = withVectors(this.#transport.form, request, "query_vector");
    const answers = await this.#ask("searchBatchHybrid", { params: this.#params, body, call });
    return oneEach(answers, request.queries);
  }
}

/** Asserts that each query has an answer. */
function oneEach<Answer>(answers: Answer[], queries: readonly unknown[]): Answer[] {
  invariant(answers.length === queries.length, `${queries.length} queries have ${answers.length} answers`);
  return answers;
}

/** The request with its vector as it is passed on. Any other value stays, so that the database says what is wrong with it. */
function withVector<Field extends string>(
  form: Form,
  request: { readonly [field in Field]?: DenseValues | null },
  field: Field,
): unknown {
  const vector: unknown = request?.[field];
  const passed = passedOn(form, vector);
  return passed === vector ? request : { ...request, [field]: passed };
}

/** A vector as it is passed on; any other value unchanged. */
function passedOn(form: Form, value: unknown): unknown {
  return Array.isArray(value) || ArrayBuffer.isView(value) ? form.vector(value as DenseValues) : value;
}

/** The same for a list of ids and vectors. */
function withExamples<Request extends { readonly positive: readonly ExampleInput[] }>(
  form: Form,
  request: Request & { readonly negative?: readonly ExampleInput[] | null },
  field: "positive" | "negative",
): Request {
  const examples: unknown = request?.[field];
  if (!Array.isArray(examples)) return request;
  return { ...request, [field]: examples.map((one) => passedOn(form, one)) };
}

/** The same for each query of a batch. */
function withVectors<Field extends string>(
  form: Form,
  request: { readonly queries: readonly { readonly [field in Field]?: DenseValues | null }[] },
  field: Field,
): unknown {
  if (!Array.isArray(request?.queries)) return request;
  return { ...request, queries: request.queries.map((query) => withVector(form, query, field)) };
}
