// How much memory will a dense index take for a given number of vectors?
//
// Computed from the layouts of its parts, without creating any of them; HnswIndex.memoryBytes returns the same for an existing index. Only
// written memory counts: memory that a graph has reserved in advance takes no physical pages. If the type of codes is not chosen yet
// (`auto`), one byte per value is assumed.

import { ordinalMapBytes } from "../ordinal-map.ts";
import { codeSizes, dataTypeNumbers, type HnswDataType } from "./code-types.ts";
import { fingerprintBytes } from "./fingerprints.ts";
import { bytesInUse, efMax, type GraphShape, layOutGraph } from "./graph-layout.ts";
import { rowsBytes } from "./vector-rows.ts";

/** What memory depends on, see HnswOptions. */
export type DenseShape = {
  readonly dimension: number;
  readonly dataType: HnswDataType | "auto";
  readonly m?: number | undefined;
  readonly m0?: number | undefined;
  readonly levelsMax?: number | undefined;
  readonly sampleCount?: number | undefined;
  readonly memoryBytesMax?: number | undefined;
  /** Threads that search or build at a time. */
  readonly scratchCount: number;
};

export type DenseCounts = {
  /** Distinct vectors. */
  readonly vectors: number;
  /** Records besides those. */
  readonly duplicates?: number;
  /** Full-precision vectors in memory. */
  readonly cached?: number;
  /** Number of ranges of 1,024 ordinals with a record; default: as many as the records fill. */
  readonly pages?: number;
};

/** Fixed bytes of an index and of a graph, besides the counted ones. */
export const indexBytes = 500;
export const partitionBytes = 500;

/** A column that doubles: Growable. */
const columnBytes = (length: number): number => Math.max(16, 2 ** Math.ceil(Math.log2(Math.max(1, length))));

function shapeOf({ dimension, dataType, m, m0, memoryBytesMax, scratchCount }: DenseShape): GraphShape {
  const type: HnswDataType = dataType === "auto" ? "u8" : dataType;
  const links = Math.max(2, m ?? 16);
  return {
    ...codeSizes(type, dimension),
    dataType: dataTypeNumbers[type],
    m: links,
    m0: Math.max(2, m0 ?? 2 * links),
    efConstruction: 1,
    efMax,
    buildMode: 0,
    memoryBytesMax: memoryBytesMax ?? 2 ** 32,
    scratchCount,
  };
}

/** Slots of a node on the average: one, and those of its levels, of which it has l or more with probability m^-l (graph-jobs.ts). */
function slotsOfNode(m: number, levelsPerSlot: number, levelsMax: number): number {
  let slots = 1;
  for (let level = 1; level < levelsMax; level += levelsPerSlot) slots += m ** -level;
  return slots;
}

/** Bytes of the graphs of this many vectors, and of the node map. */
export function graphSetBytes(
  shape: DenseShape,
  vectors: number,
  pages = Math.ceil(vectors / 1_024),
): number {
  if (vectors === 0) return 0;
  const graph = shapeOf(shape);
  const layout = layOutGraph(graph);
  const slots = Math.ceil(vectors * slotsOfNode(graph.m, layout.levelsPerSlot, shape.levelsMax ?? 9));
  let bytes = ordinalMapBytes(pages);
  for (let left = slots; left > 0; left -= layout.slotsMax) {
    const here = Math.min(left, layout.slotsMax);
    bytes += bytesInUse(layout, graph.scratchCount, here) + columnBytes(here) + partitionBytes;
  }
  return bytes;
}

/** Bytes of a dense index with all its vectors in graphs, or in rows alone if there are too few. */
export function denseBytes(
  shape: DenseShape,
  { vectors, duplicates = 0, cached = 0, pages }: DenseCounts,
): number {
  const { dimension, sampleCount = 1_000 } = shape;
  const records = vectors + duplicates;
  const pagesOf = (count: number) => Math.min(count, pages ?? Math.ceil(records / 1_024));
  const vectorKeys = fingerprintBytes(vectors) + 4 * dimension + 3 * ordinalMapBytes(pagesOf(duplicates));
  const own = indexBytes + vectorKeys;
  const held = vectors < sampleCount ? vectors : Math.min(cached, vectors);
  const rows = rowsBytes(dimension, held, pagesOf(held));
  return own + rows + (vectors < sampleCount ? 0 : graphSetBytes(shape, vectors, pagesOf(vectors)));
}
