// Which collection does --create make for these files?
//
// Bare vectors need dense vectors of their dimension. For other files the first records decide: the kinds of content that occur in them are
// enabled, and the length of the first dense vector is the dimension. Creating is idempotent: existing parts are kept, so that an
// interrupted import can be resumed with the same command.

import { type Collection, type Database, isQuiverError, type NewCollection } from "@quiver/client";
import type { MetricName } from "@quiver/protocol/shapes/index-definition";
import { CommandError, UsageError } from "../exit-codes.ts";
import { hasBareVectors } from "./formats.ts";
import { standardInput } from "./input-file.ts";
import { dimensionOf, type Input, type InputOptions, readItems } from "./inputs.ts";
import { firstPosition, type Item } from "./item.ts";

const recordsLookedAt = 1_000;

export type Needs = { dimension: number | undefined; sparse: boolean; text: boolean };

/** The kinds and the dimension that the first records need. */
export async function needsOf(inputs: readonly Input[], options: InputOptions): Promise<Needs> {
  const needs: Needs = { dimension: undefined, sparse: false, text: false };
  for (const input of inputs) {
    if (input.path === standardInput) {
      throw new UsageError(
        "--create has to read the first records in advance, which is not possible with standard input.",
      );
    }
    if (hasBareVectors(input.format)) needs.dimension ??= await dimensionOf(input, options);
    else addNeeds(needs, await firstRecords(input, options));
  }
  if (needs.dimension === undefined && !needs.sparse && !needs.text) {
    throw new CommandError(
      `The first ${recordsLookedAt} records have no dense_values, no sparse_values and no text; so no collection can be created for them.`,
    );
  }
  return needs;
}

/** Creates the collection and those of its indexes that do not exist yet. */
export async function createWhereMissing(
  client: Database,
  name: string,
  needs: Needs,
  choice: { metric: MetricName; storeRawText: boolean },
): Promise<void> {
  const definition: NewCollection = {
    name,
    dense_vector: { enabled: needs.dimension !== undefined, dimension: needs.dimension },
    sparse_vector: { enabled: needs.sparse },
    tf_idf_options: { enabled: needs.text },
    store_raw_text: choice.storeRawText,
  };
  const collection = client.collection(name);
  if (!(await exists(collection)))
    await unlessThere(client.createCollection(definition), "collection_already_exists");
  const indexes = await collection.indexes();
  if (needs.dimension !== undefined && !indexes.dense) {
    await unlessThere(
      collection.createDenseIndex({ distance_metric_type: choice.metric }),
      "index_already_exists",
    );
  }
  if (needs.sparse && !indexes.sparse)
    await unlessThere(collection.createSparseIndex(), "index_already_exists");
  if (needs.text && !indexes["tf-idf"])
    await unlessThere(collection.createTextIndex(), "index_already_exists");
}

async function exists(collection: Collection): Promise<boolean> {
  try {
    await collection.describe();
    return true;
  } catch (error) {
    if (isQuiverError(error, "collection_not_found")) return false;
    throw error;
  }
}

async function unlessThere(
  creation: Promise<unknown>,
  code: "collection_already_exists" | "index_already_exists",
): Promise<void> {
  try {
    await creation;
  } catch (error) {
    if (!isQuiverError(error, code)) throw error;
  }
}

async function firstRecords(input: Input, options: InputOptions): Promise<Item[]> {
  const items: Item[] = [];
  const anyFields = { ...options, unknown: "ignore" as const };
  for await (const { items: more } of readItems([input], anyFields, firstPosition, 0, () => undefined)) {
    items.push(...more.filter(({ problem }) => !problem));
    if (items.length >= recordsLookedAt) break;
  }
  return items.slice(0, recordsLookedAt);
}

function addNeeds(needs: Needs, items: readonly Item[]): void {
  for (const { json } of items) {
    const record = JSON.parse(json) as Record<string, unknown>;
    needs.dimension ??= lengthOf(record.dense_values);
    if (Array.isArray(record.sparse_values)) needs.sparse = true;
    if (typeof record.text === "string") needs.text = true;
  }
}

/** The length of a vector, as numbers or as the bytes of floats in base64; undefined if it is neither. */
function lengthOf(values: unknown): number | undefined {
  if (Array.isArray(values)) return values.length;
  const { f32 } = (values ?? {}) as { f32?: unknown };
  const dimension = typeof f32 === "string" ? Buffer.from(f32, "base64").length / 4 : undefined;
  return Number.isInteger(dimension) ? dimension : undefined;
}
