// How is a graph held against the exact index?

import assert from "node:assert/strict";
import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import type { Visible } from "../../src/index/contract.ts";
import { HnswIndex } from "../../src/index/dense/hnsw-index.ts";
import type { HnswOptions } from "../../src/index/dense/hnsw-options.ts";
import { bytesOfFloats } from "../../src/vector/floats.ts";
import { exactScore } from "../../src/vector/metric.ts";
import { BruteForce } from "./brute-force.ts";
import { asMap } from "./reference.ts";

/** Both indexes, with the same records. */
export type Pair = { hnsw: HnswIndex; flat: BruteForce; rows: Map<number, Float32Array> };

/** A pair without records. */
export function pairOf(dimension: number, metric: MetricName, options: Partial<HnswOptions> = {}): Pair {
  const rows = new Map<number, Float32Array>();
  const hnsw = new HnswIndex({ dimension, metric, dataType: "u8", memoryBytesMax: 2 ** 26, ...options });
  return { hnsw, flat: new BruteForce({ metric }), rows };
}

/** Adds a record to both. */
export function add({ hnsw, flat, rows }: Pair, ordinal: number, row: Float32Array): void {
  rows.set(ordinal, row);
  hnsw.add(ordinal, bytesOfFloats(row));
  flat.add(ordinal, bytesOfFloats(row));
}

/** Takes a record out of both. */
export function remove({ hnsw, flat, rows }: Pair, ordinal: number): void {
  for (const index of [hnsw, flat]) {
    index.retire(ordinal);
    index.remove(ordinal);
  }
  rows.delete(ordinal);
}

/** The fraction of the exact results that the graph finds; every score is exact. */
export function recallOf(
  pair: Pair,
  queries: readonly Float32Array[],
  ef: number,
  visible: Visible = null,
): number {
  const k = 10;
  let met = 0;
  let all = 0;
  for (const query of queries) {
    const exact = asMap(pair.flat.search(query, k, visible));
    const found = asMap(pair.hnsw.reader.search(query, k, { ef, visible }));
    for (const [ordinal, score] of found) {
      const row = pair.rows.get(ordinal);
      if (row === undefined) throw new Error(`ordinal ${ordinal} was removed`);
      assert.equal(score, exactScore(pair.hnsw.metric, query, row));
      assert(visible === null || visible(ordinal));
      if (exact.has(ordinal)) met++;
    }
    all += Math.min(k, exact.size);
  }
  return all === 0 ? 1 : met / all;
}
