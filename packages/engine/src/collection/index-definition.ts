// Is an index definition complete and possible, and what are its defaults?

import { QuiverError } from "@quiver/protocol/errors";
import { refuseUnknownFields } from "@quiver/protocol/fields";
import { kindOf } from "@quiver/protocol/kind-of";
import { limits } from "@quiver/protocol/limits";
import {
  DenseIndex,
  denseDataTypes,
  type IndexKind,
  metricNames,
  SparseIndex,
  sparseLevels,
  TextIndex,
  textLanguages,
} from "@quiver/protocol/shapes/index-definition";
import { canonicalStopWord } from "../text/analyzer.ts";
import type { CollectionDefinition } from "./definition.ts";

function invalid(path: string, problem: string): QuiverError {
  return new QuiverError("invalid_request", `${path} ${problem}`, { path });
}

function checkName(name: unknown): void {
  if (typeof name !== "string" || name === "" || !name.isWellFormed())
    throw invalid("name", "must be a non-empty string of UTF-8.");
  const bytes = Buffer.byteLength(name);
  if (bytes > limits.indexNameBytesMax)
    throw invalid("name", `has ${bytes} bytes, at most ${limits.indexNameBytesMax} are allowed.`);
}

function oneOf(value: unknown, values: readonly unknown[], path: string): void {
  if (!values.includes(value))
    throw invalid(path, `is ${JSON.stringify(value)}; expected one of ${values.join(", ")}.`);
}

function integer(value: number | null | undefined, fallback: number, path: string, max: number): number {
  const number = value ?? fallback;
  if (!Number.isInteger(number) || number < 1 || number > max)
    throw invalid(path, `is ${number}; expected an integer from 1 to ${max}.`);
  return number;
}

function requireEnabled(enabled: boolean, kind: string, what: string): void {
  if (!enabled)
    throw new QuiverError(
      "modality_not_enabled",
      `The collection was created without ${what}, so it cannot have a ${kind} index. Create a collection with ${what} enabled.`,
      { index_type: kind },
    );
}

/** The definition with all defaults filled in. @throws unknown_field, invalid_request, modality_not_enabled */
export function defineDenseIndex(collection: CollectionDefinition, given: DenseIndex): DenseIndex {
  refuseUnknownFields(DenseIndex, given);
  requireEnabled(collection.dense, "dense", "dense vectors");
  checkName(given.name);
  oneOf(given.distance_metric_type, metricNames, "distance_metric_type");
  oneOf(given.index?.type, ["hnsw"], "index.type");
  const hnsw = given.index.properties ?? {};
  const at = (name: string) => `index.properties.${name}`;
  const neighbours = integer(hnsw.neighbors_count, 16, at("neighbors_count"), limits.neighboursMax);
  const { max_cache_size } = hnsw;
  const { recall_target } = hnsw;
  if (recall_target != null && !(recall_target > 0 && recall_target <= 1))
    throw invalid(at("recall_target"), `is ${recall_target}; expected a number greater than 0, at most 1.`);
  if (max_cache_size != null) integer(max_cache_size, 1, at("max_cache_size"), Number.MAX_SAFE_INTEGER);
  return {
    name: given.name,
    distance_metric_type: given.distance_metric_type,
    quantization: defineQuantization(given.quantization),
    index: {
      type: "hnsw",
      properties: {
        num_layers: integer(hnsw.num_layers, 9, at("num_layers"), limits.layersMax),
        ...(max_cache_size != null && { max_cache_size }),
        ...(recall_target != null && { recall_target }),
        ef_construction: integer(hnsw.ef_construction, 128, at("ef_construction"), limits.efMax),
        ef_search: integer(hnsw.ef_search, 128, at("ef_search"), limits.efMax),
        neighbors_count: neighbours,
        level_0_neighbors_count: integer(
          hnsw.level_0_neighbors_count,
          2 * neighbours,
          at("level_0_neighbors_count"),
          2 * limits.neighboursMax,
        ),
      },
    },
  };
}

function defineQuantization(given: DenseIndex["quantization"]): DenseIndex["quantization"] {
  oneOf(given?.type, ["auto", "scalar"], "quantization.type");
  const properties = given.properties ?? {};
  const at = (name: string) => `quantization.properties.${name}`;
  const { sample_threshold, data_type, range } = properties;
  if (given.type === "auto") {
    if (sample_threshold == null)
      throw invalid(at("sample_threshold"), "is missing; quantization of type auto needs it.");
    integer(sample_threshold, 1, at("sample_threshold"), limits.sampleThresholdMax);
    return { type: "auto", properties: { sample_threshold } };
  }
  if (data_type == null)
    throw invalid(
      at("data_type"),
      `is missing; quantization of type scalar needs one of ${denseDataTypes.join(", ")}.`,
    );
  oneOf(data_type, denseDataTypes, at("data_type"));
  if (range == null) {
    if (data_type !== "f16" && data_type !== "f32")
      throw invalid(at("range"), `is missing; data_type ${data_type} needs {"min": number, "max": number}.`);
    return { type: "scalar", properties: { data_type } };
  }
  for (const end of ["min", "max"] as const)
    if (typeof range[end] !== "number" || !Number.isFinite(range[end]))
      throw invalid(`${at("range")}.${end}`, "must be a finite number.");
  if (!(range.min < range.max))
    throw invalid(
      `${at("range")}.min`,
      `is ${range.min} and max is ${range.max}; min must be less than max.`,
    );
  return { type: "scalar", properties: { data_type, range: { min: range.min, max: range.max } } };
}

/** @throws unknown_field, invalid_request, modality_not_enabled */
export function defineSparseIndex(collection: CollectionDefinition, given: SparseIndex): SparseIndex {
  refuseUnknownFields(SparseIndex, given);
  requireEnabled(collection.sparse, "sparse", "sparse vectors");
  checkName(given.name);
  oneOf(given.quantization, sparseLevels, "quantization");
  return {
    name: given.name,
    quantization: given.quantization,
    sample_threshold: integer(given.sample_threshold, 0, "sample_threshold", limits.sampleThresholdMax),
  };
}

/** @throws unknown_field, invalid_request, modality_not_enabled */
export function defineTextIndex(collection: CollectionDefinition, given: TextIndex): TextIndex {
  refuseUnknownFields(TextIndex, given);
  requireEnabled(collection.text, "tf-idf", "text search");
  checkName(given.name);
  const { k1, b, language, stop_words, positions } = given;
  if (typeof k1 !== "number" || !(k1 >= 0 && k1 <= 1000))
    throw invalid("k1", `is ${k1}; expected a number from 0 to 1000.`);
  if (typeof b !== "number" || !(b >= 0 && b <= 1))
    throw invalid("b", `is ${b}; expected a number from 0 to 1.`);
  oneOf(language ?? "english", textLanguages, "language");
  if (typeof (positions ?? false) !== "boolean")
    throw invalid("positions", `is ${kindOf(positions)}; expected true or false.`);
  return {
    name: given.name,
    sample_threshold: integer(given.sample_threshold, 0, "sample_threshold", limits.sampleThresholdMax),
    k1,
    b,
    language: language ?? "english",
    positions: positions ?? false,
    ...(stop_words != null && { stop_words: checkStopWords(stop_words) }),
  };
}

/** A copy of the list as it was given. */
function checkStopWords(words: readonly unknown[]): string[] {
  if (!Array.isArray(words)) throw invalid("stop_words", "must be an array of words.");
  if (words.length > limits.stopWordsMax)
    throw invalid("stop_words", `has ${words.length} words, at most ${limits.stopWordsMax} are allowed.`);
  // A loop, for array methods skip the holes that an array in the same process can have.
  for (let i = 0; i < words.length; i++) {
    const problem = stopWordProblem(words[i]);
    if (problem !== null)
      throw invalid(
        `stop_words[${i}]`,
        `${problem}; expected one word of 1 to ${limits.stopWordBytesMax} bytes of UTF-8.`,
      );
  }
  return words.slice();
}

function stopWordProblem(word: unknown): string | null {
  if (typeof word !== "string") return `is ${kindOf(word)}`;
  if (!word.isWellFormed()) return "has half of a surrogate pair, which UTF-8 cannot hold";
  const bytes = Buffer.byteLength(word);
  if (bytes > limits.stopWordBytesMax) return `has ${bytes} bytes`;
  const canonical = canonicalStopWord(word);
  if (canonical === "") return "has no letter or digit";
  // What texts have as several words would never be found in one.
  const words = canonical.split(" ").length;
  return words === 1 ? null : `is ${words} words`;
}

/** Definitions for auto_create_index. */
export const defaultDenseIndex: DenseIndex = {
  name: "dense",
  distance_metric_type: "cosine",
  quantization: { type: "auto", properties: { sample_threshold: 1000 } },
  index: { type: "hnsw", properties: {} },
};
export const defaultSparseIndex: SparseIndex = { name: "sparse", quantization: 64, sample_threshold: 1000 };

/** The kind of index that a path names. @throws invalid_request */
export function indexKindOf(name: string): IndexKind {
  if (name === "dense" || name === "sparse" || name === "tf-idf") return name;
  if (name === "tf_idf") return "tf-idf";
  throw new QuiverError(
    "invalid_request",
    `index_type is '${name.slice(0, 40)}'; expected one of dense, sparse, tf_idf.`,
    { path: "index_type" },
  );
}
