// How does a program get a collection for texts and their vectors, whether or not it exists?
//
// Several processes may ask for the same one at once. While one of them creates it, the others' creations fail with
// `collection_already_exists` although it is not there yet; they wait for it.

import { type ErrorCode, isQuiverError, QuiverError } from "@quiverdb/protocol/errors";
import { refuseUnknownOptions } from "@quiverdb/protocol/fields";
import type { CollectionDetail } from "@quiverdb/protocol/shapes/collection";
import type { Collection, DenseIndexInput } from "./collection.ts";
import type { Database } from "./database.ts";
import type { AnyMetadata } from "./filter-types.ts";

/** What a collection of texts is created with, if it does not exist. */
export type EnsureTextsOptions = {
  /** Dimension of the vectors. A function is called only if the collection must be created. */
  dimension: number | (() => number | Promise<number>);
  /** Metric of the dense index, if it must be created. Default "cosine". */
  metric?: DenseIndexInput["distance_metric_type"];
};

const pollMs = 50;
const pollsMax = 200;

/**
 * A collection with dense vectors, texts that are stored, and an index for each. What is missing is created; what exists stays as it is.
 * @throws QuiverError modality_not_enabled if a collection of this name has no dense vectors or does not store texts; invalid_request if
 * its dimension is not the given number
 *
 * @example
 * ```ts no-run
 * import { type Database, type Embed, ensureTexts, withEmbeddings } from "@quiverdb/client";
 * declare const database: Database;
 * declare const embed: Embed;
 * const notes = withEmbeddings(await ensureTexts(database, "notes", { dimension: 384 }), embed);
 * await notes.upsert({ id: "n1", text: "Rivers carve valleys." });
 * ```
 */
export async function ensureTexts<Metadata extends object = AnyMetadata>(
  database: Database,
  name: string,
  options: EnsureTextsOptions,
): Promise<Collection<Metadata>> {
  refuseUnknownOptions(options, ["dimension", "metric"]);
  const { dimension, metric = "cosine" } = options;
  const collection = database.collection<Metadata>(name);
  const found = await ensureCollection(database, collection, dimension);
  const lack = !found.dense_vector.enabled ? "has no dense vectors" : "does not store texts";
  if (!found.dense_vector.enabled || !found.store_raw_text) {
    throw new QuiverError(
      "modality_not_enabled",
      `The collection ${JSON.stringify(name)} ${lack}; texts and their vectors need one that was created with dense_vector and store_raw_text.`,
      { name },
    );
  }
  const { dimension: own } = found.dense_vector;
  if (typeof dimension === "number" && own !== dimension)
    throw new QuiverError(
      "invalid_request",
      `dimension is ${dimension}, and the vectors of the collection ${JSON.stringify(name)} have ${own} values. Give that dimension, or another name.`,
      { path: "dimension", expected: own, received: dimension },
    );
  const indexes = await collection.indexes();
  const createDense = () => collection.createDenseIndex({ distance_metric_type: metric });
  if (indexes.dense === undefined) await unless("index_already_exists", createDense());
  if (indexes["tf-idf"] === undefined && found.tf_idf_options.enabled)
    await unless("index_already_exists", collection.createTextIndex());
  return collection;
}

async function ensureCollection(
  database: Database,
  collection: Pick<Collection, "name" | "describe">,
  dimension: EnsureTextsOptions["dimension"],
): Promise<CollectionDetail> {
  for (let polls = 0; ; polls++) {
    const found = await unless("collection_not_found", collection.describe());
    if (found !== undefined) return found;
    const definition = {
      name: collection.name,
      dense_vector: {
        enabled: true,
        dimension: typeof dimension === "number" ? dimension : await dimension(),
      },
      tf_idf_options: { enabled: true },
      store_raw_text: true,
    };
    try {
      await database.createCollection(definition);
    } catch (error) {
      if (!isQuiverError(error, "collection_already_exists") || polls >= pollsMax) throw error;
      await new Promise((resolve) => setTimeout(resolve, pollMs));
    }
  }
}

/** Undefined if the call fails with this code. */
async function unless<T>(code: ErrorCode, call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (isQuiverError(error, code)) return undefined;
    throw error;
  }
}
