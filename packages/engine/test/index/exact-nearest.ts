// Which vectors are nearest to a query, exactly? By the engine's own scan of all rows.

import { finishAtOnce } from "../../src/base/steps.ts";
import type { Candidates, Visible } from "../../src/index/contract.ts";
import type { VectorRows } from "../../src/index/dense/vector-rows.ts";

/** The k nearest of all rows, in any order, and what ties with the k-th. @param k at least 1 */
export const exactNearest = (
  rows: VectorRows,
  query: Float32Array,
  k: number,
  visible: Visible = null,
): Candidates => finishAtOnce(rows.view.scanAll(query, k, () => visible).search());
