// Which vectors are really nearest to a few queries?
//
// The ground truth for the measurements of an index. A builder copies the rows from shared memory into a block of its own, piece by piece, and
// compares all queries with each, so scores are exact. Rows stay as they are meanwhile; that a vector was removed the owner knows.

import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import { finishAtOnce } from "../../base/steps.ts";
import { squaredNorm } from "../../vector/exact.ts";
import { bytesOfFloats } from "../../vector/floats.ts";
import { metrics } from "../../vector/metrics.ts";
import { bestOf, type Candidates, nothing } from "../contract.ts";
import { absent } from "../ordinal-map.ts";
import { Block, layOutBlock } from "./row-block.ts";
import { RowScan } from "./row-scan.ts";
import type { RowsOfBlock } from "./vector-rows.ts";

export type TruthRequest = {
  readonly metric: MetricName;
  readonly dimension: number;
  readonly rows: readonly RowsOfBlock[];
  /** Vectors, one after the other. */
  readonly queries: Float32Array;
  /** How many nearest vectors to report for each query; ties with the last are reported too. */
  readonly k: number;
};

/** Bytes of a piece, which stays in the processor's cache for all queries. */
const pieceBytes = 2 ** 20;

export function exactNeighbours({ metric: name, dimension, rows, queries, k }: TruthRequest): Candidates[] {
  const metric = metrics[name];
  const count = queries.length / dimension;
  const best: Candidates[] = new Array(count).fill(nothing);
  const layout = layOutBlock(dimension, 8 * pieceBytes);
  for (const { bytes, rowBytes, names } of rows) {
    const pieceRows = Math.max(1, Math.floor(pieceBytes / rowBytes));
    for (let from = 0; from < names.length; from += pieceRows) {
      const block = new Block(layout);
      for (let row = from; row < Math.min(names.length, from + pieceRows); row++) {
        if (names[row] === absent) continue;
        const values = new Float32Array(bytes.buffer, bytes.byteOffset + row * rowBytes, dimension);
        block.push(names[row], bytesOfFloats(values), metric.rowFactor(squaredNorm(values, 0, dimension)));
      }
      if (block.length === 0) continue;
      for (let i = 0; i < count; i++) {
        const query = queries.subarray(i * dimension, (i + 1) * dimension);
        const scan = new RowScan(
          { metric, layout, blocks: [block] },
          [{ number: 0, first: 0, end: block.length }],
          {
            query,
            k: Math.min(k, block.length),
            visible: () => null,
          },
        );
        best[i] = bestOf([best[i], finishAtOnce(scan.search())], k);
      }
    }
  }
  return best;
}
