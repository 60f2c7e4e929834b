// Which collection do foreign records need?

import {
  type Collection,
  type CollectionDetail,
  type Database,
  isQuiverError,
  type NewCollection,
  QuiverError,
} from "@quiverdb/client";
import type { Metric, SourceShape } from "./format.ts";

/** What records have. */
export type Needs = { dimension: number | undefined; sparse: boolean; text: boolean };

/** What the first records have, as they are written or as they are sent. */
export function addNeeds(
  needs: Needs,
  record: { dense_values?: unknown; sparse_values?: unknown; text?: unknown },
): void {
  needs.dimension ??= lengthOf(record.dense_values);
  if (Array.isArray(record.sparse_values)) needs.sparse = true;
  if (typeof record.text === "string") needs.text = true;
}

/** The length of a vector, as numbers or as the bytes of floats in base64; undefined if it is neither. */
function lengthOf(values: unknown): number | undefined {
  if (Array.isArray(values) || ArrayBuffer.isView(values)) return (values as ArrayLike<unknown>).length;
  const { f32 } = (values ?? {}) as { f32?: unknown };
  const dimension = typeof f32 === "string" ? Buffer.from(f32, "base64").length / 4 : undefined;
  return Number.isInteger(dimension) ? dimension : undefined;
}

/** The needs that a source tells, before those of its records. */
export const needsOf = ({ dimension, sparse = false, text = false }: SourceShape): Needs => ({
  dimension,
  sparse,
  text,
});

/**
 * The metric of a new index: the chosen one, or the source's.
 * @throws QuiverError invalid_request if the source has one that is not known here
 */
export function metricOf({ metric, otherMetric }: SourceShape, chosen: Metric | undefined): Metric {
  if (chosen !== undefined) return chosen;
  if (metric !== undefined) return metric;
  if (otherMetric === undefined) return "cosine";
  throw new QuiverError(
    "invalid_request",
    `The source has the metric ${otherMetric}; there are cosine, euclidean and dot_product here. Choose one with the option metric.`,
    { option: "metric", metric: otherMetric },
  );
}

/**
 * The collection, and those of its indexes that the records need. What is missing is created; what exists stays as it is, so that an import
 * that is run again finds what it has made.
 * @param choice its metric is asked for only if the dense index must be created
 * @throws QuiverError invalid_request if it has another dimension than the records
 */
export async function ensureCollection(
  database: Database,
  name: string,
  needs: Needs,
  choice: { metric: () => Metric; storeRawText: boolean },
): Promise<Collection> {
  const definition: NewCollection = {
    name,
    dense_vector: { enabled: needs.dimension !== undefined, dimension: needs.dimension },
    sparse_vector: { enabled: needs.sparse },
    tf_idf_options: { enabled: needs.text },
    store_raw_text: choice.storeRawText,
  };
  const collection = database.collection(name);
  const found = await existing(collection);
  if (found === undefined) await unless("collection_already_exists", database.createCollection(definition));
  else refuseOtherDimension(found, needs);
  const indexes = await collection.indexes();
  const create = async (isWanted: boolean, index: unknown, make: () => Promise<unknown>) => {
    if (isWanted && index === undefined) await unless("index_already_exists", make());
  };
  // Of what an existing collection has not, there is no index. A record that has it is refused when it is written.
  const { dense_vector, sparse_vector, tf_idf_options } = found ?? definition;
  const isDense = needs.dimension !== undefined && dense_vector?.enabled === true;
  await create(isDense, indexes.dense, () =>
    collection.createDenseIndex({ distance_metric_type: choice.metric() }),
  );
  await create(needs.sparse && sparse_vector?.enabled === true, indexes.sparse, () =>
    collection.createSparseIndex(),
  );
  await create(needs.text && tf_idf_options?.enabled === true, indexes["tf-idf"], () =>
    collection.createTextIndex(),
  );
  return collection;
}

function refuseOtherDimension({ name, dense_vector }: CollectionDetail, { dimension }: Needs): void {
  if (dimension === undefined || !dense_vector.enabled || dense_vector.dimension === dimension) return;
  throw new QuiverError(
    "invalid_request",
    `The records have vectors of ${dimension} dimensions, and the collection ${JSON.stringify(name)} has ${dense_vector.dimension}. Import them into another collection.`,
    { name, dimension, expected: dense_vector.dimension },
  );
}

async function existing(collection: Collection): Promise<CollectionDetail | undefined> {
  try {
    return await collection.describe();
  } catch (error) {
    if (isQuiverError(error, "collection_not_found")) return undefined;
    throw error;
  }
}

async function unless(
  code: "collection_already_exists" | "index_already_exists",
  creation: Promise<unknown>,
): Promise<void> {
  try {
    await creation;
  } catch (error) {
    if (!isQuiverError(error, code)) throw error;
  }
}
