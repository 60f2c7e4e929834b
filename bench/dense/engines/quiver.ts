// How is Quiver's HNSW index asked?

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
    // Where the beam is shorter than what is scored again by default, less is scored again: the beam would grow otherwise.
    search: (query: Float32Array, k, ef) =>
      index.search(query, k, { ef, rescore: Math.min(ef, rescoreDepth(dataType, k)) }).ordinals,
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
