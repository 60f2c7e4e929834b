// What does a search ask, and what does it answer?

import Type, { type Static } from "typebox";
import { limits } from "../limits.ts";
import { Maybe } from "./common.ts";
import { IndexValue, IndexValuePair } from "./vector.ts";

const TopK = Maybe(
  Type.Integer({
    minimum: 1,
    maximum: limits.topKMax,
    default: limits.topKDefault,
    description: "Results wanted; per query in a batch.",
  }),
);
const ReturnRawText = Maybe(
  Type.Boolean({ default: false, description: "Adds the raw text where the collection stores it." }),
);
const Threshold = Maybe(
  Type.Number({
    minimum: 0,
    maximum: 1,
    default: 0,
    description:
      "0 is exact; t > 0 may skip postings that contribute less than t times the query's largest possible contribution.",
  }),
);
const EfSearch = Maybe(
  Type.Integer({ minimum: 1, maximum: limits.efMax, description: "Candidates kept, for this request only." }),
);
const RecallTarget = Maybe(
  Type.Number({
    exclusiveMinimum: 0,
    maximum: 1,
    description:
      "Picks ef by what was measured on this collection to reach this recall, for this request only. Not used where ef_search is given.",
  }),
);
const Exact = Maybe(Type.Boolean({ default: false, description: "Scans every vector." }));
const FusionConstant = Maybe(
  Type.Number({
    exclusiveMinimum: 0,
    default: limits.fusionConstantDefault,
    description: "k of reciprocal rank fusion: score = sum of 1 / (k + rank).",
  }),
);

const Weight = Maybe(Type.Number({ minimum: 0, maximum: 1_000_000, default: 1 }));
const FusionWeights = Maybe(
  Type.Object(
    { dense: Weight, sparse: Weight, text: Weight },
    { description: "How much each leg counts: score = sum of weight / (k + rank). Default 1 for each." },
  ),
);

const QueryVector = Type.Array(Type.Number(), {
  description: "As many finite numbers as the collection's dimension.",
});
export const QueryTerms = Type.Array(Type.Union([IndexValue, IndexValuePair]), {
  description: "Sparse query: {index, value} or [index, value], indices unique.",
});
const Queries = { maxItems: limits.batchQueriesMax };

const common = { top_k: TopK, return_raw_text: ReturnRawText };
const dense = { ef_search: EfSearch, recall_target: RecallTarget, exact: Exact };

export const DenseSearch = Type.Object({ query_vector: QueryVector, ...common, ...dense });
export const BatchDenseSearch = Type.Object({
  queries: Type.Array(Type.Object({ vector: QueryVector }), Queries),
  ...common,
  ...dense,
});

export const SparseSearch = Type.Object({
  query_terms: QueryTerms,
  early_terminate_threshold: Threshold,
  ...common,
});
export const BatchSparseSearch = Type.Object({
  query_terms_list: Type.Array(QueryTerms, Queries),
  early_terminate_threshold: Threshold,
  ...common,
});

/** `query_text` is accepted for `query`. One of them is required. */
export const TextSearch = Type.Object({
  query: Maybe(Type.String({ description: "Text to search for. Required." })),
  query_text: Maybe(Type.String({ description: "Other name of `query`." })),
  ...common,
});
export const BatchTextSearch = Type.Object({ queries: Type.Array(Type.String(), Queries), ...common });

const hybridLegs = {
  query_vector: Maybe(QueryVector),
  query_terms: Maybe(QueryTerms),
  query_text: Maybe(Type.String()),
};
const hybridOptions = {
  sparse_early_terminate_threshold: Threshold,
  fusion_constant_k: FusionConstant,
  fusion_weights: FusionWeights,
  ...common,
  ...dense,
};
export const HybridSearch = Type.Object(
  { ...hybridLegs, ...hybridOptions },
  { description: "At least two of query_vector, query_terms and query_text; all that are given are fused." },
);
export const BatchHybridSearch = Type.Object({
  queries: Type.Array(Type.Object(hybridLegs), Queries),
  ...hybridOptions,
});

export const SearchResult = Type.Object({
  id: Type.String(),
  document_id: Type.Unsafe<string | null>({ type: ["string", "null"] }),
  score: Type.Number({ description: "Greater is better." }),
  text: Type.Unsafe<string | null>({ type: ["string", "null"] }),
});
export const SearchResponse = Type.Object({
  results: Type.Array(SearchResult, { description: "By descending score, ties by id." }),
});
export const BatchSearchResponse = Type.Array(SearchResponse, {
  description: "In the order of the queries.",
});

export type QueryTerms = Static<typeof QueryTerms>;
export type DenseSearch = Static<typeof DenseSearch>;
export type BatchDenseSearch = Static<typeof BatchDenseSearch>;
export type SparseSearch = Static<typeof SparseSearch>;
export type BatchSparseSearch = Static<typeof BatchSparseSearch>;
export type TextSearch = Static<typeof TextSearch>;
export type BatchTextSearch = Static<typeof BatchTextSearch>;
export type HybridSearch = Static<typeof HybridSearch>;
export type BatchHybridSearch = Static<typeof BatchHybridSearch>;
export type SearchResult = Static<typeof SearchResult>;
export type SearchResponse = Static<typeof SearchResponse>;
export type BatchSearchResponse = Static<typeof BatchSearchResponse>;
