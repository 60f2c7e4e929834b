// Which vectors are really nearest to a few queries?
//
// What an index measures itself by. A builder reads the rows where they lie in shared memory, block by block, through a flat index of
// its own, so scores are the exact ones. The owner may move rows meanwhile: a vector that goes to another place can then be missed,
// or be told under the name of one that was removed, which the owner knows.

import type { MetricName } from "@quiver/protocol/shapes/index-definition";
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

/** Bytes of a block: they stay in the processor's cache while all queries are asked. */
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
