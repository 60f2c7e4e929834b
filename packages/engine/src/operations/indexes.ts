// Which operations are there on indexes?

import { fieldError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import { Empty } from "@quiverdb/protocol/shapes/common";
import * as index from "@quiverdb/protocol/shapes/index-definition";
import { collectionPath, operation } from "./operation.ts";
import { integer } from "./parameters.ts";

const administering = {
  role: "write",
  work: "administration",
  tag: "Indexes",
  status: 201,
  errors: [400, 404, 409, 500],
} as const;

export const indexes = {
  createDenseIndex: operation(
    {
      once: true,
      method: "POST",
      path: `${collectionPath}/indexes/dense`,
      repeat: "refused",
      ...administering,
      audited: ["name", "distance_metric_type", "quantization.type", "quantization.properties.data_type"],
      summary: "Create dense index",
      body: index.CreateDenseIndex,
      answer: Empty,
    },
    ({ collection, body, options }) => collection.createIndex(index.kinds.dense, body, options),
    {
      name: "dense",
      distance_metric_type: "cosine",
      quantization: { type: "auto", properties: { sample_threshold: 1_000 } },
      index: { type: "hnsw", properties: {} },
    },
  ),
  createSparseIndex: operation(
    {
      once: true,
      method: "POST",
      path: `${collectionPath}/indexes/sparse`,
      repeat: "refused",
      ...administering,
      audited: ["name", "quantization"],
      summary: "Create sparse index",
      body: index.CreateSparseIndex,
      answer: Empty,
    },
    ({ collection, body, options }) => collection.createIndex(index.kinds.sparse, body, options),
    { name: "sparse", quantization: 256, sample_threshold: 1_000 },
  ),
  createTextIndex: operation(
    {
      once: true,
      method: "POST",
      path: `${collectionPath}/indexes/tf-idf`,
      repeat: "refused",
      ...administering,
      audited: ["name", "language"],
      summary: "Create TF-IDF/BM25 index",
      body: index.CreateTextIndex,
      answer: Empty,
    },
    ({ collection, body, options }) => collection.createIndex(index.kinds.text, body, options),
    { name: "text", sample_threshold: 1_000, k1: 1.2, b: 0.75, language: "english", positions: true },
  ),
  analyzeText: operation(
    {
      method: "POST",
      path: `${collectionPath}/indexes/tf-idf/analyze`,
      role: "read",
      keyFilter: "harmless",
      tag: "Indexes",
      summary: "Show the terms that the TF-IDF/BM25 index produces from a text",
      body: index.AnalyzeText,
      answer: index.TextAnalysis,
    },
    ({ collection, body, options }) => collection.analyzeText(body, options),
    { text: "How bees navigate by the sun" },
  ),
  getIndexes: operation(
    {
      method: "GET",
      path: `${collectionPath}/indexes`,
      role: "read",
      tag: "Indexes",
      summary: "Get indexes",
      answer: index.Indexes,
      errors: [404, 500],
    },
    ({ collection }) => collection.indexes(),
  ),
  measureRecall: operation(
    {
      method: "GET",
      path: `${collectionPath}/indexes/dense/recall`,
      work: "recall",
      role: "read",
      tag: "Indexes",
      summary: "Measure the recall of the dense index against exact search",
      query: {
        sample: integer(
          1,
          limits.recallSampleMax,
          "Vectors of the collection that are used as queries, 1 to 10,000. Default 100.",
        ),
        top_k: integer(1, limits.topKMax, "Results compared per query, 1 to 10,000. Default 10."),
        ef_search: integer(1, limits.efMax, "Beam width of the searches. Default: that of the index."),
      },
      answer: index.Recall,
    },
    ({ collection, query, options }) => collection.measureRecall(query, options),
  ),
  deleteIndex: operation(
    {
      once: true,
      method: "DELETE",
      path: `${collectionPath}/indexes/{index_type}`,
      done: "index_not_found",
      work: "administration",
      role: "write",
      audited: [],
      tag: "Indexes",
      summary: "Delete index",
      status: 204,
    },
    ({ collection, params, options }) => collection.deleteIndex(indexKind(params.index_type), options),
  ),
  createMetadataIndex: operation(
    {
      once: true,
      method: "PUT",
      path: `${collectionPath}/metadata-indexes/{field}`,
      work: "administration",
      role: "write",
      audited: ["type"],
      tag: "Indexes",
      summary: "Declare the type of a field of the metadata, and index it in the background",
      body: index.MetadataIndex,
      status: 202,
      answer: Empty,
      errors: [400, 404, 409, 500],
    },
    ({ collection, params, body, options }) => collection.createMetadataIndex(params.field, body, options),
    { type: "number" },
  ),
  getMetadataIndexes: operation(
    {
      method: "GET",
      path: `${collectionPath}/metadata-indexes`,
      role: "read",
      tag: "Indexes",
      summary: "Get the metadata indexes with their status",
      answer: index.MetadataIndexes,
      errors: [404, 500],
    },
    ({ collection }) => collection.metadataIndexes(),
  ),
  deleteMetadataIndex: operation(
    {
      once: true,
      method: "DELETE",
      path: `${collectionPath}/metadata-indexes/{field}`,
      done: "index_not_found",
      work: "administration",
      role: "write",
      audited: [],
      tag: "Indexes",
      summary: "Delete a metadata index; the metadata stays",
      status: 204,
    },
    ({ collection, params, options }) => collection.deleteMetadataIndex(params.field, options),
  ),
};

/** The path has `tf_idf`, the response of Get indexes has `tf-idf`; both are accepted. */
function indexKind(text: string): index.IndexKind {
  const name = text === "tf_idf" ? "tf-idf" : text;
  const kind = index.indexKinds.find((candidate) => candidate === name);
  if (kind !== undefined) return kind;
  const expected = "one of dense, sparse, tf_idf";
  const received = text.length <= 24 ? JSON.stringify(text) : `${text.length} characters`;
  throw fieldError("index_type", expected, received, `index_type must be ${expected}, not ${received}.`);
}
