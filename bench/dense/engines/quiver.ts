// How does the benchmark use Quiver's HNSW index?

import "../../../packages/engine/src/process/node-host.ts";
import { type HnswDataType, rescoreDepth } from "../../../packages/engine/src/index/dense/code-types.ts";
import { HnswIndex } from "../../../packages/engine/src/index/dense/hnsw-index.ts";
import { bytesOfFloats } from "../../../packages/engine/src/vector/floats.ts";
import { finishOf, idsOf, openCollection, upsertRows } from "../../shared/quiver-database.ts";
import { type Engine, type EngineKind, efConstruction, m, type Shape } from "../engine.ts";

/** An empty index, with codes of this type; what the graph finds is scored again from the full vectors. */
export function openQuiver(
  { dimension, metric }: Pick<Shape, "dimension" | "metric">,
  dataType: HnswDataType,
) {
  const index = new HnswIndex({ dimension, metric, dataType, m, m0: 2 * m, efConstruction });
  return {
    add(rows, first) {
      for (let i = 0; i < rows.length; i++) index.add(first + i, bytesOfFloats(rows[i]));
    },
    // If the beam is narrower than the default number of results to re-score, fewer are re-scored; otherwise the beam would be widened.
    search: (query: Float32Array, k, ef) =>
      index.reader.search(query, k, { ef, rescore: Math.min(ef, rescoreDepth(dataType, k)) }).ordinals,
    bytes: () => index.graphBytes,
  } satisfies Engine;
}

export const quiver: readonly EngineKind[] = (["u8", "f32"] as const).map((dataType) => ({
  name: `quiver-${dataType}`,
  title: `Quiver ${dataType}`,
  isOurs: true,
  note: "Codes in the graph, the best scored again from the full vectors; bytes told are those of codes and graph.",
  open: (shape) => openQuiver(shape, dataType),
}));

export const quiverDatabase: EngineKind = {
  name: "quiver-database",
  title: "Quiver, the whole database",
  isOurs: true,
  note: "The embedded engine as a program uses it, with codes that it chooses itself: records are written durably and then indexed, searches are checked, see one version and fetch what they find. They begin when the collection is idle.",
  async open({ dimension, metric, directory }) {
    const collection = await openCollection(directory, { dimension });
    await collection.createDenseIndex({
      name: "dense",
      distance_metric_type: metric,
      quantization: { type: "auto", properties: { sample_threshold: 1_000 } },
      index: { type: "hnsw", properties: { ef_construction: efConstruction, neighbors_count: m } },
    });
    return {
      add: (rows, first) => upsertRows(collection, rows, first, (dense_values) => ({ dense_values })),
      ...finishOf(collection),
      search: async (query_vector: Float32Array, top_k, ef_search) =>
        idsOf(await collection.search("dense", { query_vector, top_k, ef_search })),
    };
  },
};
