// What does a search ask, and what does it answer?

import Type, { type Static, type TSchema } from "typebox";
import { limits } from "../limits.ts";
import { Fields, Maybe, OneOf } from "./common.ts";
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
  Fields(
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

const Explain = Maybe(
  Type.Boolean({
    default: false,
    description:
      "Adds an explanation to each result; those of one request list at most 100,000 matched terms in all.",
  }),
);

/** How the text of a query is read. */
export const textSyntaxes = ["plain", "operators"] as const;
export type TextSyntax = (typeof textSyntaxes)[number];

const Syntax = Maybe(
  OneOf(textSyntaxes, {
    default: "plain",
    description:
      'plain: a query text is its words, whatever signs it has. operators: "a phrase", +required, -excluded, prefix* and fuzzy~1 are understood in it.',
  }),
);

const common = { top_k: TopK, return_raw_text: ReturnRawText, explain: Explain };
const dense = { ef_search: EfSearch, recall_target: RecallTarget, exact: Exact };

export const DenseSearch = Fields({ query_vector: QueryVector, ...common, ...dense });
export const BatchDenseSearch = Fields({
  queries: Type.Array(Fields({ vector: QueryVector }), Queries),
  ...common,
  ...dense,
});

export const SparseSearch = Fields({
  query_terms: QueryTerms,
  early_terminate_threshold: Threshold,
  ...common,
});
export const BatchSparseSearch = Fields({
  query_terms_list: Type.Array(QueryTerms, Queries),
  early_terminate_threshold: Threshold,
  ...common,
});

/** `query_text` is accepted for `query`. One of them is required. */
export const TextSearch = Fields({
  query: Maybe(Type.String({ description: "Text to search for. Required." })),
  query_text: Maybe(Type.String({ description: "Other name of `query`." })),
  syntax: Syntax,
  ...common,
});
export const BatchTextSearch = Fields({
  queries: Type.Array(Type.String(), Queries),
  syntax: Syntax,
  ...common,
});

const hybridLegs = {
  query_vector: Maybe(QueryVector),
  query_terms: Maybe(QueryTerms),
  query_text: Maybe(Type.String()),
};
const hybridOptions = {
  sparse_early_terminate_threshold: Threshold,
  fusion_constant_k: FusionConstant,
  fusion_weights: FusionWeights,
  syntax: Syntax,
  ...common,
  ...dense,
};
export const HybridSearch = Fields(
  { ...hybridLegs, ...hybridOptions },
  { description: "At least two of query_vector, query_terms and query_text; all that are given are fused." },
);
export const BatchHybridSearch = Fields({
  queries: Type.Array(Fields(hybridLegs), Queries),
  ...hybridOptions,
});

/** Where a result stands in one leg of its search. */
const standing = {
  rank: Type.Integer({ minimum: 1, description: "Place among what the leg found, from 1." }),
  score: Type.Number({ description: "The leg's score." }),
  weight: Type.Number({ description: "How much the leg counts in fusion; 1 in a search with one leg." }),
  contribution: Type.Number({
    description:
      "What the leg adds to the result's score: weight / (fusion_constant_k + rank); in a search with one leg, its score.",
  }),
};

const SparseMatch = Type.Object({
  index: Type.Integer({ minimum: 0, maximum: 0xffff_ffff }),
  query_value: Type.Number({ description: "The query's value, as a 32-bit float." }),
  stored_value: Type.Number({ description: "The record's value, as a 32-bit float." }),
  product: Type.Number(),
});

const TextMatch = Type.Object({
  term: Type.String({ description: "As POST .../indexes/tf-idf/analyze shows it." }),
  query_tf: Type.Number({
    exclusiveMinimum: 0,
    description:
      "How often the query has the term. With operators, a term d edits from a fuzzy word counts 1 / (1 + d).",
  }),
  tf: Type.Integer({ minimum: 1, description: "How often the record has it." }),
  df: Type.Integer({ minimum: 1, description: "How many records of the searched version have it." }),
  idf: Type.Number({ description: "ln(1 + (documents - df + 0.5) / (df + 0.5))." }),
  contribution: Type.Number({
    description:
      "query_tf * idf * tf / (tf + k1 * (1 - b + b * document_length / average_length)), k1 and b as the index has them.",
  }),
});

/** A key that holds an object, or null. */
const orNull = <T extends TSchema>(schema: T) => Type.Optional(Type.Union([schema, Type.Null()]));

export const Explanation = Type.Object(
  {
    dense: orNull(Type.Object(standing)),
    sparse: orNull(
      Type.Object({
        ...standing,
        matches: Type.Array(SparseMatch, {
          description: "By ascending index; the products add up to the leg's score, in this order.",
        }),
      }),
    ),
    "tf-idf": orNull(
      Type.Object({
        ...standing,
        documents: Type.Integer({ description: "Records with a text in the searched version." }),
        document_length: Type.Integer({ description: "Terms of the record's text." }),
        average_length: Type.Number({ description: "Terms of a text on average, in the searched version." }),
        matches: Type.Array(TextMatch, {
          description:
            "In the order in which the query has them first, what a prefix or fuzzy word stands for each by itself; the contributions add up to the leg's score, in this order.",
        }),
      }),
    ),
  },
  {
    description:
      "Only with `explain`. One key for each leg of the search, null where the leg did not find the record; the contributions add up to the result's score, in this order.",
  },
);

export const SearchResult = Type.Object({
  id: Type.String(),
  document_id: Type.Unsafe<string | null>({ type: ["string", "null"] }),
  score: Type.Number({ description: "Greater is better." }),
  text: Type.Unsafe<string | null>({ type: ["string", "null"] }),
  explanation: Type.Optional(Explanation),
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
export type Explanation = Static<typeof Explanation>;
export type SearchResult = Static<typeof SearchResult>;
export type SearchResponse = Static<typeof SearchResponse>;
export type BatchSearchResponse = Static<typeof BatchSearchResponse>;
