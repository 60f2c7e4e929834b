// How does a benchmark use Quiver?
//
// The whole engine as programs do, through the interface of the embedded engine: every record is written durably before it is indexed, and
// every search includes checks, views, ranking and fetching of the results. And its indexes alone, in this process.

import "../../packages/engine/src/process/node-host.ts";
import { join } from "node:path";
import type { Collection } from "../../packages/engine/src/database/contract.ts";
import { openDatabase } from "../../packages/engine/src/database/database.ts";
import type { Candidates } from "../../packages/engine/src/index/contract.ts";
import { type HnswDataType, rescoreDepth } from "../../packages/engine/src/index/dense/code-types.ts";
import { HnswIndex } from "../../packages/engine/src/index/dense/hnsw-index.ts";
import { SparseIndex } from "../../packages/engine/src/index/sparse/sparse-index.ts";
import { TextIndex } from "../../packages/engine/src/index/text/text-index.ts";
import { tokenize } from "../../packages/engine/src/text/tokenize.ts";
import { bytesOfFloats } from "../../packages/engine/src/vector/floats.ts";
import type { Filter } from "../../packages/protocol/src/shapes/filter.ts";
import type { SearchResponse } from "../../packages/protocol/src/shapes/search.ts";
import { built } from "../shared/built.ts";
import { ownCpuMs, untilQuiet } from "../shared/quiet.ts";
import { b, type Engine, type EngineKind, type Item, k1, m, type Shape } from "./engine.ts";
import { quiverFilter } from "./filter.ts";

type Kinds = { readonly dimension?: number; readonly sparse?: boolean; readonly text?: boolean };

/** A collection without indexes, alone in a new database. It is never closed: the process exits, and the directory is deleted. */
export async function openCollection(
  directory: string,
  { dimension, sparse, text }: Kinds,
): Promise<Collection> {
  const database = await openDatabase({ dataDir: join(directory, "data") });
  await database.createCollection({
    name: "bench",
    dense_vector:
      dimension === undefined ? { enabled: false } : { enabled: true, dimension, auto_create_index: false },
    sparse_vector: { enabled: sparse ?? false, auto_create_index: false },
    tf_idf_options: { enabled: text ?? false },
    config: {},
  });
  return database.collection("bench");
}

/** Writes records whose ids go up from `first`. */
export const upsertItems = (collection: Collection, items: readonly Item[], first: number): Promise<void> =>
  collection.upsert(
    items.map(({ vector, terms, text, fields }, i) => ({
      id: String(first + i),
      ...(vector && { dense_values: vector }),
      ...(terms && { sparse_indices: [...terms.indices], sparse_values: [...terms.values] }),
      ...(text !== undefined && { text }),
      ...(fields && { metadata: fields }),
    })),
  );

/** How an engine of this collection completes its build: all is in the indexes; then the idle collection puts them in order. */
export const finishOf = (collection: Collection) => ({
  async finish() {
    await collection.indexed();
    await built(() => collection.indexes());
  },
  settle: () => untilQuiet(ownCpuMs),
});

export const idsOf = ({ results }: SearchResponse): string[] => results.map(({ id }) => id);

async function createIndex(
  collection: Collection,
  { kind, metric, efConstruction, ef, language }: Shape,
): Promise<void> {
  if (kind === "sparse")
    await collection.createIndex("sparse", { name: "sparse", quantization: 256, sample_threshold: 1 });
  if (kind === "text")
    await collection.createIndex("tf-idf", { name: "text", sample_threshold: 1, k1, b, language });
  if (kind !== "dense") return;
  const properties = { ef_construction: efConstruction, neighbors_count: m, ...(ef && { ef_search: ef }) };
  await collection.createIndex("dense", {
    name: "dense",
    distance_metric_type: metric,
    quantization: { type: "auto", properties: { sample_threshold: 1_000 } },
    index: { type: "hnsw", properties },
  });
}

type Prepared = Pick<Item, "vector" | "text" | "filters"> & {
  readonly query_terms?: { readonly index: number; readonly value: number }[];
};

const prepare = ({ vector, terms, text, filters }: Item): Prepared => ({
  vector,
  text,
  filters,
  ...(terms && { query_terms: Array.from(terms.indices, (index, i) => ({ index, value: terms.values[i] })) }),
});

/** @param isIndexed whether fields have metadata indexes @param isNew whether no filter is asked twice */
const wholeEngine = (isIndexed: boolean, isNew: boolean) =>
  async function open(shape: Shape): Promise<Engine> {
    const { kind, dimension, directory, fields, ef } = shape;
    const collection = await openCollection(directory, {
      ...(kind === "dense" && { dimension }),
      sparse: kind === "sparse",
      text: kind === "text",
    });
    await createIndex(collection, shape);
    if (isIndexed)
      for (const field of fields) await collection.createMetadataIndex(field, { type: "number" });
    let asked = 0;
    const search = (query: Prepared, top_k: number, effort: number, filter: Filter | null) => {
      if (kind === "text") return collection.search("text", { query: query.text as string, top_k, filter });
      if (kind === "dense")
        return collection.search("dense", {
          query_vector: query.vector as Float32Array,
          top_k,
          filter,
          ...(ef === undefined && { ef_search: effort }),
        });
      return collection.search("sparse", {
        query_terms: query.query_terms ?? [],
        top_k,
        filter,
        ...(query.filters === undefined && { early_terminate_threshold: effort }),
      });
    };
    return {
      add: (items, first) => upsertItems(collection, items, first),
      ...finishOf(collection),
      prepare,
      async search(query: Prepared, k, effort) {
        const tree = query.filters?.[effort] ?? null;
        const filter = tree && quiverFilter(tree, isNew ? ++asked * 1e-12 : 0);
        return idsOf(await search(query, k, effort, filter));
      },
    };
  };

export const quiver: EngineKind = {
  name: "quiver-database",
  title: "Quiver, the whole engine",
  isOurs: true,
  note: "The embedded engine as a program uses it, with codes that it chooses itself: records are written durably and then indexed, searches are checked, see one version and fetch what they find. They begin when the collection is idle. A metadata index of each field; a filter that was asked before at this version is known.",
  open: wholeEngine(true, false),
};

export const quiverNewFilters: EngineKind = {
  ...quiver,
  name: "quiver-new",
  title: "Quiver, each filter new",
  note: "The whole engine, and no filter is asked twice.",
  open: wholeEngine(true, true),
};

/** @param efforts some of the filters: each takes tens of milliseconds */
export const quiverUnindexed = (efforts: readonly number[]): EngineKind => ({
  ...quiver,
  name: "quiver-unindexed",
  title: "Quiver, no metadata indexes",
  note: "The whole engine without metadata indexes, and no filter is asked twice: each search reads all records. Asked some of the filters.",
  efforts,
  open: wholeEngine(false, true),
});

/** Postings that an idle index merges in one step. */
const tidiedAtOnce = 100_000;

/** Merges all that an idle index merges. */
export function tidyAll(index: { tidy(postings: number, leisure: "resting"): boolean }): void {
  while (index.tidy(tidiedAtOnce, "resting"));
}

/** The k best, best first: an index returns its candidates in any order, with all ties at the boundary. */
function bestFirst({ ordinals, scores }: Candidates, k: number): number[] {
  const places = Array.from(ordinals, (_, i) => i).sort((x, y) => scores[y] - scores[x]);
  return places.slice(0, k).map((place) => ordinals[place]);
}

function openDense({ dimension, metric, efConstruction }: Shape, dataType: HnswDataType): Engine {
  const index = new HnswIndex({ dimension, metric, dataType, m, m0: 2 * m, efConstruction });
  return {
    add: (items, first) =>
      items.forEach(({ vector }, i) => void index.add(first + i, bytesOfFloats(vector as Float32Array))),
    prepare: ({ vector }) => vector,
    // If the beam is narrower than the default number of results to re-score, fewer are re-scored; otherwise the beam would be widened.
    search: (query: Float32Array, k, ef) =>
      index.reader.search(query, k, { ef, rescore: Math.min(ef, rescoreDepth(dataType, k)) }).ordinals,
    bytes: () => index.graphBytes,
  };
}

const denseAlone = (dataType: "u8" | "f32"): EngineKind => ({
  name: `quiver-${dataType}`,
  title: `Quiver ${dataType}, index alone`,
  isOurs: true,
  note: "Codes in the graph, the best scored again from the full vectors; bytes are those of codes and graph.",
  open: (shape) => openDense(shape, dataType),
});

export const [quiverU8, quiverF32] = [denseAlone("u8"), denseAlone("f32")];

export const sparseAlone: EngineKind = {
  name: "quiver",
  title: "Quiver, index alone",
  isOurs: true,
  note: "Its sparse index in this process, after what a collection does when it is idle (it counts as building). An effort is its `early_terminate_threshold`.",
  open() {
    const index = new SparseIndex();
    return {
      add: (items, first) =>
        items.forEach(({ terms }, i) => void (terms && index.add(first + i, terms.indices, terms.values))),
      finish: () => tidyAll(index),
      prepare: ({ terms }) => terms,
      search: (query: NonNullable<Item["terms"]>, k, threshold) =>
        bestFirst(index.reader.search(query, k, threshold, null), k),
      bytes: () => index.memoryBytes,
    };
  },
};

export const textAlone: EngineKind = {
  name: "quiver",
  title: "Quiver, index alone",
  isOurs: true,
  note: "Its text index in this process, after what a collection does when it is idle (it counts as building). English: the Snowball stemmer and Lucene's 33 stop words; marks and apostrophes are folded away.",
  open({ language }) {
    const index = new TextIndex({ language, k1, b });
    return {
      add: (items, first) =>
        items.forEach(({ text }, i) => void index.add(first + i, tokenize(text as string))),
      finish: () => tidyAll(index),
      prepare: ({ text }) => text,
      search: (query: string, k) => bestFirst(index.reader.search(query, k, index.statistics(), null), k),
      bytes: () => index.memoryBytes,
    };
  },
};
