// How is an index defined, and what does it say about itself?

import Type, { type Static } from "typebox";
import { limits } from "../limits.ts";
import { Fields, Maybe, OneOf } from "./common.ts";

export const metricNames = ["cosine", "euclidean", "dot_product"] as const;
export const denseDataTypes = ["binary", "quaternay", "octal", "u8", "f16", "f32"] as const;
export const sparseLevels = [16, 32, 64, 128, 256] as const;

/** The three kinds of index: their names in a path, in the answer of Get index and in the code. */
export const indexKinds = ["dense", "sparse", "tf-idf"] as const;
export type IndexKind = (typeof indexKinds)[number];

/** Which of them an endpoint is about. */
export const kinds = { dense: "dense", sparse: "sparse", text: "tf-idf" } as const;

const IndexName = Type.String({ minLength: 1, description: "Name of the index, at most 255 bytes." });

const Range = Fields(
  { min: Type.Number(), max: Type.Number() },
  { description: "Values outside are clamped in the codes; min < max." },
);

export const Quantization = Fields({
  type: OneOf(["auto", "scalar"]),
  properties: Fields({
    sample_threshold: Maybe(
      Type.Integer({
        minimum: 1,
        maximum: limits.sampleThresholdMax,
        description: "Vectors that are sampled before `auto` decides. Required for auto.",
      }),
    ),
    data_type: Maybe(OneOf(denseDataTypes, { description: "Required for scalar." })),
    range: Maybe(Range),
  }),
});

const count = (maximum: number, description: string) =>
  Maybe(Type.Integer({ minimum: 1, maximum, description }));

export const HnswProperties = Fields({
  num_layers: count(limits.layersMax, "Cap of the graph's levels. Default 9."),
  max_cache_size: count(
    Number.MAX_SAFE_INTEGER,
    "Full-precision vectors that may stay in memory for re-scoring. Default: as many as the memory budget allows.",
  ),
  ef_construction: count(limits.efMax, "Candidates kept while building. Default 128."),
  ef_search: count(limits.efMax, "Candidates kept while searching. Default 128."),
  recall_target: Maybe(
    Type.Number({
      exclusiveMinimum: 0,
      maximum: 1,
      description:
        "Searches pick ef by what was measured on this collection to reach this recall, in place of ef_search. Default: ef_search counts.",
    }),
  ),
  neighbors_count: count(limits.neighboursMax, "Links of a node above level 0 (M). Default 16."),
  level_0_neighbors_count: count(
    2 * limits.neighboursMax,
    "Links of a node at level 0 (M0). Default twice neighbors_count.",
  ),
});

export const DenseIndex = Fields({
  name: IndexName,
  distance_metric_type: OneOf(metricNames),
  quantization: Quantization,
  index: Fields({ type: OneOf(["hnsw"]), properties: HnswProperties }),
});

export const SparseIndex = Fields({
  name: IndexName,
  quantization: Type.Unsafe<(typeof sparseLevels)[number]>({
    type: "integer",
    enum: sparseLevels,
    description: "Levels of the stored impacts: 16, 32, 64, 128 or 256.",
  } as never),
  sample_threshold: Type.Integer({ minimum: 1, maximum: limits.sampleThresholdMax }),
});

/** What `language` of a text index can be. Those without a stemmer have stop words only; `none` has neither. */
export const textLanguages = [
  "arabic",
  "armenian",
  "basque",
  "bengali",
  "bulgarian",
  "catalan",
  "chinese",
  "croatian",
  "czech",
  "danish",
  "dutch",
  "english",
  "estonian",
  "finnish",
  "french",
  "galician",
  "german",
  "greek",
  "hebrew",
  "hindi",
  "hungarian",
  "indonesian",
  "irish",
  "italian",
  "japanese",
  "korean",
  "latvian",
  "lithuanian",
  "marathi",
  "norwegian",
  "persian",
  "polish",
  "portuguese",
  "romanian",
  "russian",
  "slovak",
  "slovene",
  "spanish",
  "swedish",
  "tamil",
  "thai",
  "turkish",
  "ukrainian",
  "urdu",
  "vietnamese",
  "none",
] as const;

export const TextIndex = Fields({
  name: IndexName,
  sample_threshold: Type.Integer({ minimum: 1, maximum: limits.sampleThresholdMax }),
  k1: Type.Number({ minimum: 0, maximum: 1000, description: "Term-frequency saturation, typically 1.2." }),
  b: Type.Number({ minimum: 0, maximum: 1, description: "Length normalization, typically 0.75." }),
  language: Maybe(
    OneOf(textLanguages, { description: "Stemmer and stop words. Default english; none: neither." }),
  ),
  stop_words: Maybe(
    Type.Array(Type.String(), {
      maxItems: limits.stopWordsMax,
      description:
        "Words that are left out instead of the language's list, in any case: one word of at most 255 bytes each. Empty: none. Default: the language's list.",
    }),
  ),
  positions: Maybe(
    Type.Boolean({
      default: false,
      description:
        "Keeps where in its text a record has a word, which phrases need. Takes about a third more memory.",
    }),
  ),
});

/** Read-only part of a definition that is read. */
export const IndexStatus = Type.Object({
  state: OneOf(["building", "ready", "unloaded"]),
  served_by: Type.String({ description: "The structure that answers searches now." }),
  records_indexed: Type.Integer(),
  records_total: Type.Integer({ description: "Records of the current version that belong into the index." }),
  percentage_complete: Type.Number({ minimum: 0, maximum: 100 }),
  watermark: Type.Integer({ description: "Version up to which the index has taken over all changes." }),
  memory_bytes: Type.Integer(),
  data_type: Type.Optional(
    Type.String({ description: "Dense: type of the codes; absent while the sample is gathered." }),
  ),
  data_type_reason: Type.Optional(Type.String({ description: "Dense: why codes are of this type." })),
  next_data_type: Type.Optional(
    Type.String({
      description: "Dense: type of the codes that are being built, because the present ones lose too much.",
    }),
  ),
  clamped_share: Type.Optional(
    Type.Number({
      description:
        "Dense, scalar with a range: share of the sample's values outside of it, 0 to 1. Above 0.01 the range is not applied.",
    }),
  ),
  distinct_vectors: Type.Optional(
    Type.Integer({ description: "Dense: vectors that differ; records with equal ones share a node." }),
  ),
  ef_search_effective: Type.Optional(
    Type.Integer({
      description:
        "Dense: beam of searches that name none; longer than ef_search where that finds too little, absent where they read all vectors.",
    }),
  ),
  recall: Type.Optional(
    Type.Object(
      {
        recall_at_10: Type.Number({ description: "Mean share of the ten exact answers, 0 to 1." }),
        finds_itself: Type.Number({ description: "Share of vectors that a search for themselves finds." }),
        lost_by_codes: Type.Number({ description: "Share of the exact answers that the codes lost." }),
        ef_search: Type.Integer({ description: "The beam that was measured." }),
        queries: Type.Integer(),
        vectors: Type.Integer({ description: "Distinct vectors in the graphs when it was measured." }),
      },
      {
        description:
          "Dense: what the graphs were last seen to find, of a sample of their own vectors; measured when they are built and after each tenth of change.",
      },
    ),
  ),
  records_in_tail: Type.Optional(
    Type.Integer({
      description: "Dense: records that are scanned exactly until they are linked into the graph.",
    }),
  ),
  graphs: Type.Optional(Type.Integer({ description: "Dense: graphs, of at most 4 GiB each." })),
  graph_bytes: Type.Optional(
    Type.Integer({ description: "Dense: bytes of codes and links; the rest of memory_bytes is vectors." }),
  ),
  recall_table_records: Type.Optional(
    Type.Integer({
      description:
        "Dense: records that were there when the beams for recall_target were measured; absent before.",
    }),
  ),
  failure: Type.Optional(
    Type.String({
      description:
        "Only while the index does not go on: why. It is tried again by itself; answers stay right.",
    }),
  ),
});

/** How much of the truth the dense index finds. */
export const Recall = Type.Object({
  recall: Type.Number({ description: "Mean share of the exact answers that the index found, 0 to 1." }),
  worst_recall: Type.Number({ description: "The least share of one query." }),
  queries: Type.Integer({
    description: "Vectors of the collection that were asked, each without itself in the answers.",
  }),
  top_k: Type.Integer(),
  ef_search: Type.Union([Type.Integer(), Type.Null()], {
    description: "The beam that searches took; null where there is no graph yet and all records are scanned.",
  }),
  version: Type.Integer({ description: "Version of the collection that was measured." }),
  search_ms: Type.Number({ description: "Mean milliseconds of a search." }),
  exact_ms: Type.Number({ description: "Mean milliseconds of an exact search." }),
});

/** Why a word of a text has no term. */
export const dropReasons = ["stop_word", "too_long", "no_letters"] as const;

export const AnalyzeText = Fields({
  text: Type.String({ description: "Text to analyse, at most 1 MiB of UTF-8, as the text of a query." }),
});

export const AnalyzedWord = Type.Object({
  position: Type.Integer({
    minimum: 0,
    description:
      "Place of the word in the text, counted from 0 in words, and in characters of Chinese, Japanese and Korean, whose pairs stand at their first; dropped words count.",
  }),
  word: Type.String({ description: "The word as it was found: in NFKC and lower case, before stemming." }),
  term: Type.Unsafe<string | null>({
    type: ["string", "null"],
    description: "What the index keeps of the word, and searches compare; null where it is dropped.",
  }),
  dropped: Type.Unsafe<(typeof dropReasons)[number] | null>({
    type: ["string", "null"],
    enum: [...dropReasons, null],
    description:
      "Why the word has no term: a stop word, longer than 255 bytes, or nothing but marks; null where it has one.",
  }),
});

/** What a text index makes of a text. */
export const TextAnalysis = Type.Object({
  language: OneOf(textLanguages, { description: "Of the index." }),
  terms: Type.Array(AnalyzedWord, { description: "Every word of the text, in order." }),
});

const withStatus = { status: IndexStatus };

export const Indexes = Type.Object({
  dense: Type.Optional(Type.Object({ ...DenseIndex.properties, ...withStatus })),
  sparse: Type.Optional(Type.Object({ ...SparseIndex.properties, ...withStatus })),
  "tf-idf": Type.Optional(Type.Object({ ...TextIndex.properties, ...withStatus })),
});

export type MetricName = (typeof metricNames)[number];
export type TextLanguage = (typeof textLanguages)[number];
export type DenseIndex = Static<typeof DenseIndex>;
export type SparseIndex = Static<typeof SparseIndex>;
export type TextIndex = Static<typeof TextIndex>;
export type DropReason = (typeof dropReasons)[number];
export type AnalyzeText = Static<typeof AnalyzeText>;
export type AnalyzedWord = Static<typeof AnalyzedWord>;
export type TextAnalysis = Static<typeof TextAnalysis>;
/** The indexes that a collection has. */
export type IndexDefinitions = { dense?: DenseIndex; sparse?: SparseIndex; "tf-idf"?: TextIndex };
export type IndexStatus = Static<typeof IndexStatus>;
export type Recall = Static<typeof Recall>;
export type Indexes = Static<typeof Indexes>;
