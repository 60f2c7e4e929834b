// Which vectors are really nearest to a few queries?
//
// The ground truth for the measurements of an index. A builder reads the rows in shared memory, block by block, through its own flat index,
// so scores are exact. The owner may move rows meanwhile: a moved vector can be missed, or be reported under the name of a removed one; the
// owner detects both.

import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import { bestOf, type Candidates, nothing } from "../contract.ts";
import { FlatIndex, type SharedRows } from "../flat/flat-index.ts";

export type TruthRequest = {
  readonly metric: MetricName;
  readonly dimension: number;
  readonly rows: readonly SharedRows[];
  /** Vectors, one after the other. */
  readonly queries: Float32Array;
  /** How many nearest vectors to report for each query; ties with the last are reported too. */
  readonly k: number;
};

/** Bytes of a block, which stays in the processor's cache for all queries. */
const blockBytes = 2 ** 20;

export function exactNeighbours({ metric, dimension, rows, queries, k }: TruthRequest): Candidates[] {
  const count = queries.length / dimension;
  const best: Candidates[] = new Array(count).fill(nothing);
  for (const { bytes, rowBytes, ordinals } of rows) {
    const blockRows = Math.max(1, Math.floor(blockBytes / rowBytes));
    for (let from = 0; from < ordinals.length; from += blockRows) {
      const block = new FlatIndex({ dimension, metric, isUnordered: true });
      for (let row = from; row < Math.min(ordinals.length, from + blockRows); row++)
        block.add(ordinals[row], bytes.subarray(row * rowBytes, row * rowBytes + 4 * dimension));
      for (let i = 0; i < count; i++) {
        const query = queries.subarray(i * dimension, (i + 1) * dimension);
        best[i] = bestOf([best[i], block.search(query, k, null)], k);
      }
      block.close();
    }
  }
  return best;
}
