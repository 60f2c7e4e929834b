// Is the definition of a dense index complete and possible, and what are its defaults?

import { checkFields } from "@quiverdb/protocol/fields";
import { limits } from "@quiverdb/protocol/limits";
import {
  CreateDenseIndex,
  type DenseIndex,
  denseDataTypes,
  indexNames,
  metricNames,
} from "@quiverdb/protocol/shapes/index-definition";
import { integer, invalid, nameOf, oneOf, requireEnabled, sampleThreshold } from "../definition-checks.ts";
import type { IndexedCollection } from "../kind.ts";

/** The definition with all defaults filled in. @throws unknown_field, invalid_request, modality_not_enabled */
export function defineDenseIndex(collection: IndexedCollection, given: CreateDenseIndex): DenseIndex {
  checkFields(CreateDenseIndex, given);
  requireEnabled(collection.dense, "dense", "dense vectors");
  const name = nameOf(given.name, indexNames.dense);
  oneOf(given.distance_metric_type, metricNames, "distance_metric_type");
  oneOf(given.index?.type ?? "hnsw", ["hnsw"], "index.type");
  const hnsw = given.index?.properties ?? {};
  const at = (name: string) => `index.properties.${name}`;
  const neighbours = integer(
    hnsw.neighbors_count,
    limits.neighboursDefault,
    at("neighbors_count"),
    limits.neighboursMax,
  );
  const ef = (name: "ef_construction" | "ef_search") =>
    integer(hnsw[name], limits.efDefault, at(name), limits.efMax);
  const { max_cache_size } = hnsw;
  const { recall_target } = hnsw;
  if (recall_target != null && !(recall_target > 0 && recall_target <= 1))
    throw invalid(at("recall_target"), `is ${recall_target}; expected a number greater than 0, at most 1.`);
  if (max_cache_size != null) integer(max_cache_size, 1, at("max_cache_size"), Number.MAX_SAFE_INTEGER);
  return {
    name,
    distance_metric_type: given.distance_metric_type,
    quantization: defineQuantization(given.quantization),
    index: {
      type: "hnsw",
      properties: {
        num_layers: integer(hnsw.num_layers, limits.layersDefault, at("num_layers"), limits.layersMax),
        ...(max_cache_size != null && { max_cache_size }),
        ...(recall_target != null && { recall_target }),
        ef_construction: ef("ef_construction"),
        ef_search: ef("ef_search"),
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

function defineQuantization(given: CreateDenseIndex["quantization"]): DenseIndex["quantization"] {
  if (given == null) return { type: "auto", properties: { sample_threshold: sampleThreshold({}) } };
  oneOf(given.type, ["auto", "scalar"], "quantization.type");
  const properties = given.properties ?? {};
  const at = (name: string) => `quantization.properties.${name}`;
  const { data_type, range } = properties;
  if (given.type === "auto") {
    const sample_threshold = sampleThreshold(properties, at("sample_threshold"));
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
