// What must the rest of the engine know about dense indexes?
//
// They are built only from the stored vectors. A checkpoint is taken when no builder is working, and the index does not change until it is
// written.

import { checkFields } from "@quiverdb/protocol/fields";
import { limits } from "@quiverdb/protocol/limits";
import {
  CreateDenseIndex,
  type DenseIndex,
  denseDataTypes,
  indexNames,
  metricNames,
} from "@quiverdb/protocol/shapes/index-definition";
import { readFloats } from "../../vector/floats.ts";
import { metrics } from "../../vector/metric.ts";
import type { CheckpointAdapter } from "../checkpoint-adapter.ts";
import { integer, invalid, nameOf, oneOf, requireEnabled, sampleThreshold } from "../definition-checks.ts";
import type {
  IndexDependencies,
  IndexedCollection,
  IndexSize,
  Kind,
  KindStatus,
  MeasuredRecall,
  Population,
  PreparedRecords,
} from "../kind.ts";
import { efMax } from "./graph-layout.ts";
import { HnswIndex } from "./hnsw-index.ts";
import type { HnswOptions } from "./hnsw-options.ts";
import { type DenseDescriptor, HnswReader } from "./hnsw-search.ts";
import { type DenseLeg, DenseLegs } from "./legs.ts";
import { type DenseShape, denseBytes } from "./memory.ts";
import type { HnswState } from "./saved-changes.ts";
import { denseSearching, givenVector, legOfVector } from "./searching.ts";

/** Increase this when the bytes of a graph or the meaning of a code change: older checkpoints are then ignored. */
const graphFormat = 7;

/** Size of the calibration sample if the definition has none. */
const sampleDefault = 1_000;

/** The type of codes that a definition asks for: published clients spell `quaternary` as `quaternay`. */
function codeTypeOf({
  type,
  properties: { data_type },
}: DenseIndex["quantization"]): HnswOptions["dataType"] {
  if (type === "auto" || data_type == null) return "auto";
  return data_type === "quaternay" ? "quaternary" : data_type;
}

/** The options of an index of a definition. */
function hnswOptions(
  { dimension }: IndexedCollection,
  { distance_metric_type, quantization, index }: DenseIndex,
  dependencies: IndexDependencies,
): HnswOptions {
  const { properties } = index;
  const { range, sample_threshold } = quantization.properties;
  const [first, second] = crypto.getRandomValues(new Uint32Array(2));
  const m = properties.neighbors_count ?? 16;
  // Half of the budget is for full-precision vectors, in addition to codes and links.
  const allowed =
    dependencies.memoryBudgetBytes === undefined
      ? Number.POSITIVE_INFINITY
      : Math.floor(dependencies.memoryBudgetBytes / 2 / (4 * (dimension as number) + 16));
  return {
    dimension: dimension as number,
    metric: distance_metric_type,
    dataType: codeTypeOf(quantization),
    range: range ?? undefined,
    m,
    m0: properties.level_0_neighbors_count ?? 2 * m,
    efConstruction: Math.min(properties.ef_construction ?? 128, efMax),
    efSearch: properties.ef_search ?? 128,
    levelsMax: properties.num_layers ?? 9,
    sampleCount: sample_threshold ?? sampleDefault,
    cacheMax: properties.max_cache_size ?? allowed,
    builders: dependencies.builders,
    fingerprintKey: [first, second],
    measures: dependencies.measures ?? true,
    readVector: dependencies.readVector,
    mayTake: dependencies.mayTake,
    searchers: 1 + (dependencies.readerSlots ?? 0),
    retire: dependencies.retire && ((free) => dependencies.retire?.(free)),
    onProgress: dependencies.onProgress,
    onMore: dependencies.wake,
    onNotice: dependencies.onNotice,
    onError: () => dependencies.wake(),
  };
}

function checkpointsOf(options: HnswOptions): CheckpointAdapter<HnswIndex, HnswState> {
  return {
    changes: (index) =>
      index.failure !== undefined || index.encoding === undefined ? undefined : index.changes,
    hasNews: (index) => index.hasNewBeams,
    isIdle: (index) => index.isIdle,
    save: (index, write) =>
      new Promise((resolve, reject) => {
        index.save((state, graphs, done) => {
          write(
            state,
            graphs.map(({ image }) => image),
            graphs[0]?.slotBytes,
          ).then(
            (isCheckpointed) => {
              done(isCheckpointed);
              resolve();
            },
            (error: unknown) => {
              done(false);
              reject(error as Error);
            },
          );
        }, resolve);
      }),
    endOf: ({ linkedEnd }) => linkedEnd,
    restored: (state, load) =>
      HnswIndex.restored(options, state, (graphs) => load(graphs.map(({ image }) => image))),
  };
}

function estimate({ dimension }: IndexedCollection, definition: DenseIndex, of: Population): IndexSize {
  const { quantization, index } = definition;
  const { properties } = index;
  const vectors = of.counts.dense;
  const shape: DenseShape = {
    dimension: dimension as number,
    dataType: codeTypeOf(quantization),
    m: properties.neighbors_count ?? undefined,
    m0: properties.level_0_neighbors_count ?? undefined,
    levelsMax: properties.num_layers ?? undefined,
    sampleCount: quantization.properties.sample_threshold ?? undefined,
    scratchCount: of.threads,
  };
  const bytes = denseBytes(shape, { vectors, pages: of.densePages() });
  // Tables double: over a doubling each record has its share.
  const many = Math.max(vectors, 4_096);
  const recordBytes =
    (denseBytes(shape, { vectors: 2 * many }) - denseBytes(shape, { vectors: many })) / many;
  return { bytes: vectors === 0 ? 0 : bytes, recordBytes };
}

function statusOf(index: HnswIndex | undefined): KindStatus {
  if (index === undefined) return { served_by: "flat" };
  const { encoding, quality } = index;
  return {
    served_by: index.reader.isReadingAll ? "flat" : "hnsw",
    ...(encoding && { data_type: encoding.dataType, data_type_reason: encoding.reason }),
    ...(encoding?.clampedShare !== undefined && { clamped_share: encoding.clampedShare }),
    ...(index.successorType && { next_data_type: index.successorType }),
    distinct_vectors: index.vectorCount,
    ...(!index.reader.isReadingAll && { ef_search_effective: index.reader.efDefault }),
    ...(quality && {
      recall: {
        recall_at_10: quality.recall,
        finds_itself: quality.itself,
        lost_by_codes: quality.codeLoss,
        ef_search: quality.ef,
        queries: quality.queries,
        vectors: quality.count,
      },
    }),
    records_in_tail: index.tailCount,
    graphs: index.partitionCount,
    graph_bytes: index.graphBytes,
    ...(index.failedCopies > 0 && { failed_graph_copies: index.failedCopies }),
    ...(index.measuredBeams && { recall_table_records: index.measuredBeams.count }),
  };
}

function recallOf({ quality, reader }: HnswIndex): MeasuredRecall | undefined {
  return quality && { at10: quality.recall, itself: quality.itself, readsAll: reader.isReadingAll };
}

export const denseKind: Kind<DenseIndex, HnswIndex, HnswState, PreparedRecords, HnswReader> = {
  name: "dense",
  define: defineDenseIndex,
  automatic: {
    definition: { distance_metric_type: "cosine" },
    isWanted: ({ dense_vector }) => dense_vector?.auto_create_index === true && dense_vector.enabled,
  },
  table: "dense",
  countOf: ({ dense }) => dense,
  blueprint(collection, definition, dependencies) {
    const options = hnswOptions(collection, definition, dependencies);
    const { dimension, metric, dataType, range, m, m0, efConstruction, levelsMax, sampleCount } = options;
    const deciding = { dimension, metric, dataType, range, m, m0, efConstruction, levelsMax, sampleCount };
    return {
      make: () => new HnswIndex(options),
      checkpoint: checkpointsOf(options),
      deciding: { graphFormat, ...deciding },
    };
  },
  add: (index, ordinal, bytes) => index.add(ordinal, bytes),
  estimate,
  descriptor: ({ descriptor }) => descriptor,
  attach: (descriptor: DenseDescriptor, slot) => HnswReader.attach(descriptor, slot),
  search: (reader, legs, version, options) =>
    new DenseLegs(reader, legs as readonly DenseLeg[], version, options),
  searching: denseSearching,
  growth: (recordBytes, records) => records * recordBytes,
  status: statusOf,
  recall: recallOf,
  measuring: {
    beams: (index) => index,
    legOf: (stored) => legOfVector(readFloats(stored)),
    targetOf: ({ index }) => index.properties.recall_target ?? null,
  },
  vectors: {
    metric: ({ metric }) => metric,
    metricOf: ({ distance_metric_type }) => metrics[distance_metric_type],
    given: givenVector,
    legOf: legOfVector,
  },
  backlogMax: ({ dimension }) => Math.ceil(limits.indexBacklogBytesMax / (4 * dimension)),
  prove: (index, vectorOf) => index.check(vectorOf),
};

// ---- Is the definition of a dense index complete and possible, and what are its defaults?

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
