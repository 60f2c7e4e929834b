// Which vectors are nearest to a query, exactly? By the engine's own scan.

import { finishAtOnce } from "../../packages/engine/src/base/steps.ts";
import type { Candidates } from "../../packages/engine/src/index/contract.ts";
import type { VectorRows } from "../../packages/engine/src/index/hnsw/vector-rows.ts";

/** The k nearest of all rows, in any order, and what ties with the k-th. */
export function exactNearest(rows: VectorRows, query: Float32Array, k: number): Candidates {
  return finishAtOnce(rows.view.scanAll(query, k, () => null).search());
}
