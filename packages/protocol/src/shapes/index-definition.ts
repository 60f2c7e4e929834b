// How is an index defined, and what does its status contain?

import Type, { type Static } from "typebox";
import { limits } from "../limits.ts";
import { Defaulted, Fields, Maybe, OneOf } from "./common.ts";

export const metricNames = ["cosine", "euclidean", "dot_product"] as const;
/** Types of codes. Published clients spell `quaternary` as `quaternay`. */
export const denseDataTypes = ["binary", "quaternary", "quaternay", "octal", "u8", "f16", "f32"] as const;
export const sparseLevels = [16, 32, 64, 128, 256] as const;

/** The three kinds of index of which a collection has one, with their names in a path, in the response of Get index and in the code. */
export const indexKinds = ["dense", "sparse", "tf-idf"] as const;

/** The index of a field of the metadata: `metadata:` and the field. */
export type MetadataIndexName = `${typeof metadataPrefix}${string}`;
export const metadataPrefix = "metadata:";

/** What an index is called: its kind, or for one of many of a kind what tells it from the others. */
export type IndexKind = (typeof indexKinds)[number] | MetadataIndexName;

export const isMetadataIndex = (name: string): name is MetadataIndexName => name.startsWith(metadataPrefix);

/** The kind of index that an endpoint names. */
export const kinds = { dense: "dense", sparse: "sparse", text: "tf-idf" } as const;

const IndexName = Type.String({ minLength: 1, description: "Name of the index, at most 255 bytes." });

const Range = Fields(
  { min: Type.Number(), max: Type.Number() },
  { description: "Values outside this range are clamped in the codes; min < max." },
);

const SampleThreshold = Type.Integer({
  minimum: 1,
  maximum: limits.sampleThresholdMax,
  description: "Number of records that are sampled before the index decides.",
});

const QuantizationProperties = Fields({
  sample_threshold: Maybe({
    ...SampleThreshold,
    description: `Number of vectors that \`auto\` samples before it chooses the type. Default ${limits.sampleThresholdDefault}.`,
  }),
  data_type: Maybe(
    OneOf(denseDataTypes, {
      description: "Required for scalar. `quaternay` is another spelling of `quaternary`.",
    }),
  ),
  range: Maybe(Range),
});
const quantizationType = OneOf(["auto", "scalar"]);

export const Quantization = Type.Object({ type: quantizationType, properties: QuantizationProperties });

const count = (maximum: number, description: string) =>
  Maybe(Type.Integer({ minimum: 1, maximum, description }));

export const HnswProperties = Fields({
  num_layers: count(
    limits.layersMax,
    `Maximum number of levels of the graph. Default ${limits.layersDefault}.`,
  ),
  max_cache_size: count(
    Number.MAX_SAFE_INTEGER,
    "Maximum number of full-precision vectors in memory for re-scoring. Default: as many as the memory budget allows.",
  ),
  ef_construction: count(limits.efMax, `Beam width while building. Default ${limits.efDefault}.`),
  ef_search: count(limits.efMax, `Beam width of searches. Default ${limits.efDefault}.`),
  recall_target: Maybe(
    Type.Number({
      exclusiveMinimum: 0,
      maximum: 1,
      description:
        "Recall that searches should reach. They then use the ef that reached it in measurements on this collection, instead of ef_search. Default: ef_search is used.",
    }),
  ),
  neighbors_count: count(
    limits.neighboursMax,
    `Maximum links of a node above level 0 (M). Default ${limits.neighboursDefault}.`,
  ),
  level_0_neighbors_count: count(
    2 * limits.neighboursMax,
    "Maximum links of a node at level 0 (M0). Default: twice neighbors_count.",
  ),
});

/** What an index is called where its definition does not say. */
export const indexNames = { dense: "dense", sparse: "sparse", "tf-idf": "text" } as const;

const hnsw = OneOf(["hnsw"]);
const metric = OneOf(metricNames);
const automatic = { type: "auto", properties: { sample_threshold: limits.sampleThresholdDefault } } as const;

/** A dense index as it is stored and returned. */
export const DenseIndex = Type.Object({
  name: IndexName,
  distance_metric_type: metric,
  quantization: Quantization,
  index: Type.Object({ type: hnsw, properties: HnswProperties }),
});

export const CreateDenseIndex = Fields(
  {
    name: Defaulted(IndexName, indexNames.dense),
    distance_metric_type: metric,
    quantization: Defaulted(
      Fields({ type: quantizationType, properties: Defaulted(QuantizationProperties, {}) }),
      automatic,
    ),
    index: Defaulted(Fields({ type: Defaulted(hnsw, "hnsw"), properties: Defaulted(HnswProperties, {}) }), {
      type: "hnsw",
      properties: {},
    }),
  },
  { description: "A dense index: approximate nearest neighbours by a graph (HNSW) over quantized vectors." },
);

const Levels = Type.Unsafe<(typeof sparseLevels)[number]>({
  type: "integer",
  enum: sparseLevels,
  description: "Number of quantization levels of the stored impacts: 16, 32, 64, 128 or 256.",
} as never);

/** A sparse index as it is stored and returned. */
export const SparseIndex = Type.Object({
  name: IndexName,
  quantization: Levels,
  sample_threshold: SampleThreshold,
});

export const CreateSparseIndex = Fields(
  {
    name: Defaulted(IndexName, indexNames.sparse),
    quantization: Defaulted(Levels, limits.sparseLevelsDefault),
    sample_threshold: Defaulted(SampleThreshold, limits.sampleThresholdDefault),
  },
  { description: "A sparse index: the greatest dot products." },
);

/** The values of `language` of a text index. Some languages have stop words but no stemmer; `none` has neither. */
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

const K1 = Type.Number({
  minimum: 0,
  maximum: 1000,
  description: "Term-frequency saturation, typically 1.2.",
});
const B = Type.Number({ minimum: 0, maximum: 1, description: "Length normalization, typically 0.75." });

const textOptions = {
  language: Maybe(
    OneOf(textLanguages, { description: "Stemmer and stop words. Default english; none: neither." }),
  ),
  stop_words: Maybe(
    Type.Array(Type.String(), {
      maxItems: limits.stopWordsMax,
      description:
        "Stop words that replace the language's list, case-insensitive, each one word of at most 255 bytes. Empty: no stop words. Default: the language's list.",
    }),
  ),
  positions: Maybe(
    Type.Boolean({
      default: false,
      description:
        "Stores the positions of words in each text, which phrase queries need. Takes about a third more memory.",
    }),
  ),
};

/** A text index as it is stored and returned. */
export const TextIndex = Type.Object({
  name: IndexName,
  sample_threshold: SampleThreshold,
  k1: K1,
  b: B,
  ...textOptions,
});

export const CreateTextIndex = Fields(
  {
    name: Defaulted(IndexName, indexNames["tf-idf"]),
    sample_threshold: Defaulted(SampleThreshold, limits.sampleThresholdDefault),
    k1: Defaulted(K1, limits.k1Default),
    b: Defaulted(B, limits.bDefault),
    ...textOptions,
  },
  { description: "A text index: BM25." },
);

/** The types of a metadata index. */
export const metadataTypes = ["keyword", "number", "boolean", "datetime"] as const;

export const MetadataIndex = Fields({
  type: OneOf(metadataTypes, {
    description:
      "keyword: strings. number: numbers. boolean: true and false. datetime: strings in ISO 8601, which filters then compare by time. Values of other types stay where they are, and filters find them.",
  }),
});

/** Read-only part of a returned definition. */
export const IndexStatus = Type.Object({
  state: OneOf(["building", "ready", "unloaded"], {
    description:
      "ready: the structure that serves searches from now on is in place, but for a few new records. building: it is being made or measured; searches are answered meanwhile, by what `served_by` says.",
  }),
  served_by: Type.String({
    description:
      "The structure that currently serves searches. Dense: `hnsw`, or `flat`, which reads all vectors: while the graph is built, and for good where no beam of the finished graph finds enough for less than reading all costs (few vectors, or vectors without structure).",
  }),
  records_indexed: Type.Integer(),
  records_total: Type.Integer({ description: "Records of the current version that belong in the index." }),
  percentage_complete: Type.Number({ minimum: 0, maximum: 100 }),
  watermark: Type.Integer({ description: "Version up to which the index has applied all changes." }),
  complete_version: Type.Integer({
    description:
      "Version up to which all indexes of the collection have their records in their final places. Searches scan what came later.",
  }),
  memory_bytes: Type.Integer(),
  data_type: Type.Optional(
    Type.String({ description: "Dense: type of the codes; absent while `auto` collects its sample." }),
  ),
  data_type_reason: Type.Optional(Type.String({ description: "Dense: why this type of codes was chosen." })),
  next_data_type: Type.Optional(
    Type.String({
      description:
        "Dense: type of the codes that are being built because the current ones lose too much recall.",
    }),
  ),
  clamped_share: Type.Optional(
    Type.Number({
      description:
        "Dense, scalar with a range: fraction of the sampled values outside the range, 0 to 1. Above 0.01 the range is not applied.",
    }),
  ),
  distinct_vectors: Type.Optional(
    Type.Integer({
      description: "Dense: number of distinct vectors; records with equal vectors share a node.",
    }),
  ),
  ef_search_effective: Type.Optional(
    Type.Integer({
      description:
        "Dense: beam width of searches that set none; wider than ef_search if that finds too little, absent if such searches scan all vectors.",
    }),
  ),
  recall: Type.Optional(
    Type.Object(
      {
        recall_at_10: Type.Number({
          description: "Mean fraction of the ten exact results that were found, 0 to 1.",
        }),
        finds_itself: Type.Number({
          description: "Fraction of vectors that are found by a search for the same vector.",
        }),
        lost_by_codes: Type.Number({ description: "Fraction of the exact results lost to quantization." }),
        ef_search: Type.Integer({ description: "The beam width that was measured." }),
        queries: Type.Integer(),
        vectors: Type.Integer({
          description: "Distinct vectors in the graphs at the time of the measurement.",
        }),
      },
      {
        description:
          "Dense: latest recall measurement on a sample of the graphs' own vectors; measured after a build and whenever a tenth of the vectors has changed.",
      },
    ),
  ),
  records_in_tail: Type.Optional(
    Type.Integer({
      description: "Dense: records that are not in the graph yet and are scanned exactly.",
    }),
  ),
  graphs: Type.Optional(Type.Integer({ description: "Dense: number of graphs, of at most 4 GiB each." })),
  graph_bytes: Type.Optional(
    Type.Integer({
      description: "Dense: bytes of codes and links; the rest of memory_bytes is full-precision vectors.",
    }),
  ),
  failed_graph_copies: Type.Optional(
    Type.Integer({
      description:
        "Dense: how often the graphs could not be copied in a faster order since the index was loaded; the log has the reasons. Absent if never.",
    }),
  ),
  recall_table_records: Type.Optional(
    Type.Integer({
      description:
        "Dense: number of records when the beam widths for recall_target were measured; absent before that.",
    }),
  ),
  failure: Type.Optional(
    Type.String({
      description:
        "Present only while indexing fails: the reason. Indexing is retried automatically, and search results stay correct.",
    }),
  ),
});

/** Measured recall of the dense index. */
export const Recall = Type.Object(
  {
    recall: Type.Number({ description: "Mean fraction of the exact results that the index found, 0 to 1." }),
    worst_recall: Type.Number({ description: "The lowest recall of a single query." }),
    queries: Type.Integer({
      description:
        "Number of vectors of the collection that were used as queries; a vector does not count as a result of its own query.",
    }),
    top_k: Type.Integer({ description: "Results of each query that were compared." }),
    ef_search: Type.Union([Type.Integer(), Type.Null()], {
      description:
        "The beam width of the measured searches; null if there is no graph yet and all records are scanned.",
    }),
    version: Type.Integer({ description: "The measured version of the collection." }),
    search_ms: Type.Number({ description: "Mean duration of a search in milliseconds." }),
    exact_ms: Type.Number({ description: "Mean duration of an exact search in milliseconds." }),
  },
  { description: "How many of the exact results searches of the dense index find, measured." },
);

/** Why a word of a text produces no term. */
export const dropReasons = ["stop_word", "too_long", "no_letters"] as const;

export const AnalyzeText = Fields({
  text: Type.String({ description: "Text to analyse, at most 1 MiB of UTF-8 like the text of a query." }),
});

export const AnalyzedWord = Type.Object({
  position: Type.Integer({
    minimum: 0,
    description:
      "Position of the word in the text, from 0. Each word counts one, and so does each character in Chinese, Japanese and Korean, where a pair has the position of its first character. Dropped words count.",
  }),
  word: Type.String({
    description: "The word as it was tokenized: in NFKC and lower case, before stemming.",
  }),
  term: Type.Unsafe<string | null>({
    type: ["string", "null"],
    description: "The term that is indexed and that searches compare; null if the word is dropped.",
  }),
  dropped: Type.Unsafe<(typeof dropReasons)[number] | null>({
    type: ["string", "null"],
    enum: [...dropReasons, null],
    description:
      "Why the word has no term: it is a stop word, longer than 255 bytes, or consists of marks only; null if it has a term.",
  }),
});

/** The terms that a text index produces from a text. */
export const TextAnalysis = Type.Object({
  language: OneOf(textLanguages, { description: "Language of the index." }),
  terms: Type.Array(AnalyzedWord, { description: "Every word of the text, in order." }),
});

const withStatus = { status: IndexStatus };

/** A metadata index as it is stored. */
export type MetadataDefinition = { readonly field: string; readonly type: (typeof metadataTypes)[number] };

export const MetadataIndexes = Type.Object(
  {
    indexes: Type.Array(
      Type.Object({
        field: Type.String({ description: "The field of the metadata; `a.b` is the field b of a." }),
        ...MetadataIndex.properties,
        ...withStatus,
      }),
      { description: "By field." },
    ),
  },
  { description: "The indexes of fields of the metadata." },
);

export const Indexes = Type.Object(
  {
    dense: Type.Optional(
      Type.Object({ ...DenseIndex.properties, ...withStatus }, { description: "Absent if there is none." }),
    ),
    sparse: Type.Optional(
      Type.Object({ ...SparseIndex.properties, ...withStatus }, { description: "Absent if there is none." }),
    ),
    "tf-idf": Type.Optional(
      Type.Object({ ...TextIndex.properties, ...withStatus }, { description: "Absent if there is none." }),
    ),
  },
  {
    description:
      "The indexes of a collection as they were created, defaults filled in, each with its status.",
  },
);

export type MetricName = (typeof metricNames)[number];
export type TextLanguage = (typeof textLanguages)[number];
export type DenseIndex = Static<typeof DenseIndex>;
export type SparseIndex = Static<typeof SparseIndex>;
export type TextIndex = Static<typeof TextIndex>;
export type CreateDenseIndex = Static<typeof CreateDenseIndex>;
export type CreateSparseIndex = Static<typeof CreateSparseIndex>;
export type CreateTextIndex = Static<typeof CreateTextIndex>;
export type DropReason = (typeof dropReasons)[number];
export type AnalyzeText = Static<typeof AnalyzeText>;
export type AnalyzedWord = Static<typeof AnalyzedWord>;
export type TextAnalysis = Static<typeof TextAnalysis>;
/** The indexes that a collection has. */
export type IndexDefinitions = {
  dense?: DenseIndex;
  sparse?: SparseIndex;
  "tf-idf"?: TextIndex;
  [name: MetadataIndexName]: MetadataDefinition;
};
export type IndexDefinition = NonNullable<IndexDefinitions[IndexKind]>;
/** What each kind of index is created with. */
export type NewIndexes = {
  dense: CreateDenseIndex;
  sparse: CreateSparseIndex;
  "tf-idf": CreateTextIndex;
  [name: MetadataIndexName]: MetadataDefinition;
};
export type IndexStatus = Static<typeof IndexStatus>;
export type Recall = Static<typeof Recall>;
export type Indexes = Static<typeof Indexes>;
export type MetadataIndex = Static<typeof MetadataIndex>;
export type MetadataIndexes = Static<typeof MetadataIndexes>;
