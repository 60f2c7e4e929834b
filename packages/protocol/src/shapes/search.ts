// What do search requests and responses contain?

import Type, { type Static, type TSchema } from "typebox";
import { limits } from "../limits.ts";
import { Fields, Maybe, mapOf, OneOf } from "./common.ts";
import { type Filter, FilterField, type FilterValue } from "./filter.ts";
import { Include } from "./include.ts";
import { DenseVector, Example, IndexValue, IndexValuePair, PartialRecord } from "./vector.ts";
import { Warnings } from "./warning.ts";

const TopK = Maybe(
  Type.Integer({
    minimum: 1,
    maximum: limits.topKMax,
    default: limits.topKDefault,
    description: "Number of results; in a batch, per query.",
  }),
);
const ReturnRawText = Maybe(
  Type.Boolean({ default: false, description: "Returns the raw text if the collection stores it." }),
);
const Threshold = Maybe(
  Type.Number({
    minimum: 0,
    maximum: 1,
    default: 0,
    description:
      "0 is exact; with t > 0, the search may skip postings that contribute less than t times the query's largest possible contribution.",
  }),
);
const EfSearch = Maybe(
  Type.Integer({ minimum: 1, maximum: limits.efMax, description: "Beam width of this request." }),
);
const RecallTarget = Maybe(
  Type.Number({
    exclusiveMinimum: 0,
    maximum: 1,
    description:
      "Recall that this request should reach, with the ef that reached it in measurements on this collection. Ignored if ef_search is given.",
  }),
);
const Exact = Maybe(
  Type.Boolean({ default: false, description: "Scans all vectors instead of using the graph." }),
);
const FusionConstant = Maybe(
  Type.Number({
    exclusiveMinimum: 0,
    default: limits.fusionConstantDefault,
    description: "The k of reciprocal rank fusion: score = sum of 1 / (k + rank).",
  }),
);

const Weight = Maybe(Type.Number({ minimum: 0, maximum: 1_000_000, default: 1 }));
const FusionWeights = Maybe(
  Fields(
    { dense: Weight, sparse: Weight, text: Weight },
    { description: "Weight of each leg: score = sum of weight / (k + rank). Default 1 for each." },
  ),
);

const QueryVector = DenseVector(
  'As many finite numbers as the collection\'s dimension; or {"f32": their bytes in base64}.',
);
export const QueryTerms = Type.Array(Type.Union([IndexValue, IndexValuePair]), {
  description: "Sparse query: {index, value} or [index, value], indices unique.",
});
const Queries = { maxItems: limits.batchQueriesMax };

const Explain = Maybe(
  Type.Boolean({
    default: false,
    description:
      "Adds an explanation to each result; the explanations of one request list at most 100,000 matched terms in total.",
  }),
);

/** How the text of a query is parsed. */
export const textSyntaxes = ["plain", "operators"] as const;
export type TextSyntax = (typeof textSyntaxes)[number];

const Syntax = Maybe(
  OneOf(textSyntaxes, {
    default: "plain",
    description:
      'plain: the query text is a bag of words; other characters have no meaning. operators: "a phrase", +required, -excluded, prefix* and fuzzy~1 are recognised.',
  }),
);

const GroupBy = Maybe(
  Type.String({
    description:
      "Returns at most group_size results with the same `document_id`, or the same value of this field of the metadata (of several, the first). Results without a value are groups of their own.",
  }),
);

const common = {
  top_k: TopK,
  filter: FilterField,
  return_raw_text: ReturnRawText,
  explain: Explain,
  include: Include("Added to each result. Default: none."),
  score_threshold: Maybe(Type.Number({ description: "Returns no results with a lower score." })),
  offset: Maybe(
    Type.Integer({
      minimum: 0,
      maximum: limits.topKMax,
      default: 0,
      description: `Leaves out so many of the best results. With top_k at most ${limits.topKMax} together.`,
    }),
  ),
  group_by: GroupBy,
  group_size: Maybe(
    Type.Integer({
      minimum: 1,
      maximum: limits.groupSizeMax,
      default: 1,
      description: "Results of each group; needs group_by.",
    }),
  ),
};
const dense = { ef_search: EfSearch, recall_target: RecallTarget, exact: Exact };

const Diversity = Maybe(
  Type.Number({
    minimum: 0,
    maximum: 1,
    default: 0,
    description:
      "How much results should differ from each other (maximal marginal relevance): the next result is that with the greatest (1 - diversity) * score - diversity * (greatest score of it and a result before it). 0: by score alone.",
  }),
);

const WithWalk = Maybe(
  Type.Boolean({
    default: false,
    description: `Adds \`walk\` to the answer: the vectors that the search compared on its way through the graph, at most ${limits.walkVisitsMax}.`,
  }),
);

export const DenseSearch = Fields({
  query_vector: QueryVector,
  ...common,
  ...dense,
  diversity: Diversity,
  walk: WithWalk,
});
export const BatchDenseSearch = Fields({
  queries: Type.Array(Fields({ vector: QueryVector, filter: FilterField }), Queries),
  ...common,
  ...dense,
  diversity: Diversity,
});

const Examples = (description: string) =>
  Type.Array(Example("The id of a record, a vector of the collection's dimension, or its bytes."), {
    maxItems: limits.examplesMax,
    description,
  });

/** What becomes of examples. */
export const strategies = ["average_vector"] as const;

export const Recommend = Fields(
  {
    positive: Examples("What results should be like; at least one."),
    negative: Maybe(Examples("What results should be unlike.")),
    strategy: Maybe(
      OneOf(strategies, {
        default: "average_vector",
        description:
          "average_vector: a search for the average of the positive examples; with negative ones, for twice that average minus theirs. With cosine, the averages are those of the directions.",
      }),
    ),
    ...common,
    ...dense,
    diversity: Diversity,
    walk: WithWalk,
  },
  {
    description: "Records that are given as examples are no results.",
  },
);

/** Of a search for the neighbours of a record: everything of a dense search but its vector. */
export const Neighbors = Fields({ ...common, ...dense, diversity: Diversity, walk: WithWalk });

export const SparseSearch = Fields({
  query_terms: QueryTerms,
  early_terminate_threshold: Threshold,
  ...common,
});

/**
 * A query of a batch that has a short form and one with a filter. One schema and no `anyOf`, so that a fault is reported with its position.
 * @param short schema of the query alone
 * @param name of the query beside a filter
 */
function orFiltered<Query, Name extends string>(short: TSchema, name: Name, description: string) {
  return Type.Unsafe<Query | ({ [field in Name]: Query } & { filter?: Filter | null })>({
    ...short,
    type: [(short as unknown as { type: string }).type, "object"],
    properties: { [name]: short, filter: FilterField },
    required: [name],
    additionalProperties: false,
    description,
  } as unknown as TSchema);
}

export const BatchSparseSearch = Fields({
  query_terms_list: Type.Array(
    orFiltered<QueryTerms, "query_terms">(
      QueryTerms,
      "query_terms",
      "Sparse query; or {query_terms, filter}, whose filter holds beside that of the request.",
    ),
    Queries,
  ),
  early_terminate_threshold: Threshold,
  ...common,
});

/** `query_text` is an alias of `query`. One of them is required. */
export const TextSearch = Fields({
  query: Maybe(Type.String({ description: "Text to search for. Required unless `query_text` is given." })),
  query_text: Maybe(Type.String({ description: "Alias of `query`." })),
  syntax: Syntax,
  ...common,
});
export const BatchTextSearch = Fields({
  queries: Type.Array(
    orFiltered<string, "query">(
      Type.String(),
      "query",
      "Text to search for; or {query, filter}, whose filter holds beside that of the request.",
    ),
    Queries,
  ),
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
  { description: "At least two of query_vector, query_terms and query_text; all given legs are fused." },
);
export const BatchHybridSearch = Fields({
  queries: Type.Array(Fields({ ...hybridLegs, filter: FilterField }), Queries),
  ...hybridOptions,
});

/** The rank and score of a result in one leg of its search. */
const standing = {
  rank: Type.Integer({ minimum: 1, description: "Rank among the results of the leg, from 1." }),
  score: Type.Number({ description: "The leg's score." }),
  weight: Type.Number({ description: "Weight of the leg in fusion; 1 in a search with one leg." }),
  contribution: Type.Number({
    description:
      "Contribution of the leg to the result's score: weight / (fusion_constant_k + rank); in a search with one leg, the leg's score.",
  }),
};

const SparseMatch = Type.Object({
  index: Type.Integer({ minimum: 0, maximum: 0xffff_ffff, description: "The index that both have." }),
  query_value: Type.Number({ description: "The query's value, as a 32-bit float." }),
  stored_value: Type.Number({ description: "The record's value, as a 32-bit float." }),
  product: Type.Number({ description: "The product of the two." }),
});

const TextMatch = Type.Object({
  term: Type.String({ description: "The term, as POST .../indexes/tf-idf/analyze shows it." }),
  query_tf: Type.Number({
    exclusiveMinimum: 0,
    description:
      "Occurrences of the term in the query. With operators, a term at edit distance d from a fuzzy word counts 1 / (1 + d).",
  }),
  tf: Type.Integer({ minimum: 1, description: "Occurrences of the term in the record." }),
  df: Type.Integer({
    minimum: 1,
    description: "Number of records of the searched version that contain the term.",
  }),
  idf: Type.Number({ description: "ln(1 + (documents - df + 0.5) / (df + 0.5))." }),
  contribution: Type.Number({
    description:
      "query_tf * idf * tf / (tf + k1 * (1 - b + b * document_length / average_length)), with k1 and b of the index.",
  }),
});

/** A key whose value is an object or null. */
const orNull = <T extends TSchema>(schema: T) => Type.Optional(Type.Union([schema, Type.Null()]));

export const Explanation = Type.Object(
  {
    dense: orNull(Type.Object(standing, { description: "The dense leg." })),
    sparse: orNull(
      Type.Object({
        ...standing,
        matches: Type.Array(SparseMatch, {
          description: "Ordered by index; the products add up to the leg's score, in this order.",
        }),
      }),
    ),
    "tf-idf": orNull(
      Type.Object({
        ...standing,
        documents: Type.Integer({ description: "Number of records with a text in the searched version." }),
        document_length: Type.Integer({ description: "Number of terms in the record's text." }),
        average_length: Type.Number({
          description: "Average number of terms in a text, in the searched version.",
        }),
        matches: Type.Array(TextMatch, {
          description:
            "Ordered by first occurrence in the query; each term that a prefix or fuzzy word expands to is listed separately. The contributions add up to the leg's score, in this order.",
        }),
      }),
    ),
  },
  {
    description:
      "Present only with `explain`. One key for each leg of the search, null if the leg did not find the record; the contributions add up to the result's score, in this order.",
  },
);

const { dense_values, dense_f32, sparse_values, metadata, version } = PartialRecord.properties;
/** Present where a search asks for them. */
const included = { dense_values, dense_f32, sparse_values, metadata, version };

export const SearchResult = Type.Object(
  {
    id: Type.String({ description: "The id of the record." }),
    document_id: Type.Unsafe<string | null>({
      type: ["string", "null"],
      description: "The document that it belongs to; null if it has none.",
    }),
    score: Type.Number({ description: "Higher is better." }),
    text: Type.Unsafe<string | null>({
      type: ["string", "null"],
      description: "Its text; null unless it was asked for and the collection has store_raw_text.",
    }),
    explanation: Type.Optional(Explanation),
    ...included,
    group: Type.Optional(
      Type.Unsafe<FilterValue | null>({
        type: ["string", "number", "boolean", "null"],
        description: "With group_by: the document or value of the result's group; null if it has none.",
      } as unknown as TSchema),
    ),
  },
  { description: "A record that a search has found." },
);

export const FilterExplanation = Type.Object(
  {
    matching: Type.Integer({ description: "Records that match." }),
    records: Type.Integer({ description: "Records of the searched version." }),
    is_known: Type.Boolean({
      description: "Whether an earlier request for the same version had found the set.",
    }),
    records_read: Type.Optional(
      Type.Integer({ description: "Records that were read to find the set; 0: only indexes were used." }),
    ),
    absent_fields: Type.Optional(
      Type.Array(Type.String(), {
        description:
          "Fields of the filter at which neither the field's index nor any record that was read has a value: probably misspelt. Absent if there are none.",
      }),
    ),
    known_fields: Type.Optional(
      Type.Array(Type.String(), {
        description:
          "Beside `absent_fields`: fields that records have, at most 50: those with a metadata index, and those of the first records.",
      }),
    ),
    legs: mapOf(
      Type.Object({
        way: Type.String({ description: "How the leg used the set." }),
        estimated_us: mapOf(Type.Number(), { description: "Expected microseconds of each way." }),
      }),
      { description: "By kind of leg." },
    ),
  },
  {
    description:
      "Present only with `explain` and a filter, and not for keys with a filter: how the filter was used.",
  },
);

export const LegWork = Type.Object({
  way: Type.String({
    description: "`follow links` of the graph, `scan matching vectors`, or `scan all vectors`.",
  }),
  beam: Type.Optional(
    Type.Integer({
      description:
        "Width of the beam of the last pass, at most; absent if no links were followed. Where a search ends by distance, it is up to a quarter more than ef_search_effective, or with recall_target twice the width that reaches it.",
    }),
  ),
  visited: Type.Integer({
    description:
      "Vectors that were compared with the query: at the bottom level of the graphs, and those that no graph has yet.",
  }),
  distances: Type.Integer({ description: "Comparisons; more than `visited` by those on upper levels." }),
});

export const Walk = Type.Object(
  {
    visits: Type.Array(
      Type.Object({
        id: Type.Unsafe<string | null>({
          type: ["string", "null"],
          description: "A record with this vector; null if the version has none: it was removed.",
        } as unknown as TSchema),
        from: Type.Unsafe<number | null>({
          type: ["integer", "null"],
          minimum: 0,
          description:
            "Position in this list of the vector whose links led here; null: the search began here.",
        } as unknown as TSchema),
        score: Type.Unsafe<number | null>({
          type: ["number", "null"],
          description: "Exact, as in results; null without a record.",
        } as unknown as TSchema),
      }),
      { description: "In the order in which the search compared them." },
    ),
    is_cut: Type.Boolean({ description: `Whether there were more than the ${limits.walkVisitsMax} first.` }),
  },
  {
    description:
      "Present only with `walk`, and not for keys with a filter: the way through the bottom level of the graphs. Without visits, no links were followed (`legs` of an explanation says what was done instead).",
  },
);

export const SearchResponse = Type.Object(
  {
    results: Type.Array(SearchResult, {
      description: "By descending score, ties by id; with diversity, in the order of choice.",
    }),
    filter: Type.Optional(FilterExplanation),
    legs: Type.Optional(
      Type.Object(
        { dense: Type.Optional(LegWork) },
        {
          description:
            "Present only with `explain`, and not for keys with a filter: what the legs did. Only dense legs tell it.",
        },
      ),
    ),
    walk: Type.Optional(Walk),
    warnings: Warnings,
  },
  { description: "What a search has found." },
);
export const BatchSearchResponse = Type.Array(SearchResponse, {
  description: "In the order of the queries.",
});

export type QueryTerms = Static<typeof QueryTerms>;
export type DenseSearch = Static<typeof DenseSearch>;
export type BatchDenseSearch = Static<typeof BatchDenseSearch>;
export type Recommend = Static<typeof Recommend>;
export type Neighbors = Static<typeof Neighbors>;
export type SparseSearch = Static<typeof SparseSearch>;
export type BatchSparseSearch = Static<typeof BatchSparseSearch>;
export type TextSearch = Static<typeof TextSearch>;
export type BatchTextSearch = Static<typeof BatchTextSearch>;
export type HybridSearch = Static<typeof HybridSearch>;
export type BatchHybridSearch = Static<typeof BatchHybridSearch>;
/** What each search takes. */
export type SearchRequests = {
  dense: DenseSearch;
  batchDense: BatchDenseSearch;
  sparse: SparseSearch;
  batchSparse: BatchSparseSearch;
  text: TextSearch;
  batchText: BatchTextSearch;
  hybrid: HybridSearch;
  batchHybrid: BatchHybridSearch;
  /** Records that are like the positive examples and unlike the negative ones; the examples themselves are not among them. */
  recommend: Recommend;
  /** The records whose dense vectors are nearest to that of a record, without itself. */
  neighbors: Neighbors & { readonly vector_id: string };
};
export type Explanation = Static<typeof Explanation>;
export type FilterExplanation = Static<typeof FilterExplanation>;
export type LegWork = Static<typeof LegWork>;
export type Walk = Static<typeof Walk>;
export type SearchResult = Static<typeof SearchResult>;
export type SearchResponse = Static<typeof SearchResponse>;
export type BatchSearchResponse = Static<typeof BatchSearchResponse>;
