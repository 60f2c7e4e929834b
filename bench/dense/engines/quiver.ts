// How does the benchmark use Quiver's HNSW index?

import "../../../packages/engine/src/runtime/node-host.ts";
import { type HnswDataType, rescoreDepth } from "../../../packages/engine/src/index/hnsw/code-types.ts";
import { HnswIndex } from "../../../packages/engine/src/index/hnsw/hnsw-index.ts";
import { bytesOfFloats } from "../../../packages/engine/src/vector/floats.ts";
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
