// Which tasks does a dense index give to builders?
//
// Jobs on a graph, which its owner (graph-jobs.ts) makes; the calibration of codes; and the exact results to which those of the graph are
// compared.

import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import { release } from "../../base/bytes.ts";
import { failpoint } from "../../base/failpoint.ts";
import { finishAtOnce } from "../../base/steps.ts";
import { leastOf } from "../../base/top-k.ts";
import { squaredNorm } from "../../vector/exact.ts";
import { bytesOfFloats } from "../../vector/floats.ts";
import { metrics } from "../../vector/metric.ts";
import type { BuilderPlace, SiteOf, Task } from "../builders.ts";
import { bestOf, type Candidates, nothing } from "../contract.ts";
import { absent } from "../ordinal-map.ts";
import { type CalibrationRequest, calibrate } from "./calibrate.ts";
import { Encoding, type EncodingState } from "./encoding.ts";
import { Graph, type SharedGraph } from "./graph.ts";
import { Linker } from "./linker.ts";
import type { NewSlots } from "./node-order.ts";
import { Block, layOutBlock } from "./row-block.ts";
import { RowScan } from "./row-scan.ts";
import type { RowsOfBlock } from "./vector-rows.ts";

/** The graph of a job. `id` is unique in the process. */
export type Target = { readonly id: number; readonly graph: Graph; readonly encoding: Encoding };

/** The same for builders. */
export const siteOf = ({ id, graph, encoding }: Target): SiteOf<Linker> => ({
  id,
  describe: (): PostedTarget => ({ graph: graph.shared, encoding: encoding.toState() }),
  own: () => new Linker(graph, encoding),
});

type PostedTarget = { readonly graph: SharedGraph; readonly encoding: EncodingState };

export type GraphJob =
  /** Encodes vectors, one after the other in `vectors`, and links their nodes. */
  | { kind: "insert"; nodes: Uint32Array; vectors: Float32Array }
  /** Rids nodes of links to removed ones. */
  | { kind: "repair"; nodes: Uint32Array }
  /** Adds links so that a beam of `ef` finds vectors that few links lead to. One such job at a time. */
  | { kind: "reconnect"; living: Uint32Array; ef: number }
  /** Rebuilds the backbone without the nodes to unlink, and chooses a new entry point if the old one is among them. */
  | { kind: "redraw"; living: Uint32Array; unlinked: Uint32Array }
  /** Copies a graph, which does not change meanwhile, in another order (node-order.ts). */
  | { kind: "copy"; kinds: Uint8Array; to: SharedGraph; newSlots: NewSlots };

export const graphJobs: Task<GraphJob, void, Linker> = {
  name: "graph job",
  // biome-ignore lint/correctness/useYield: a job is one step
  *run(job, linker) {
    failpoint("build:begin");
    perform(linker, job);
    if (job.kind !== "insert") failpoint("repair:done");
  },
  attach({ graph, encoding }: PostedTarget, { number, width }: BuilderPlace) {
    // Builders take the last blocks of scratch memory of a graph.
    const attached = Graph.attach(graph, graph.shape.scratchCount - width + number);
    return new Linker(attached, Encoding.fromState(encoding));
  },
  handedOver: (job) => (job.kind === "insert" ? [job.vectors.buffer as ArrayBuffer] : []),
  release(job) {
    if (job.kind === "insert") release(job.vectors);
  },
};

function perform(linker: Linker, job: GraphJob): void {
  switch (job.kind) {
    case "insert":
      linker.insert(job.nodes, job.vectors);
      return;
    case "repair":
      linker.repair(job.nodes);
      return;
    case "reconnect":
      linker.reconnect(job.living, job.ef);
      return;
    case "redraw":
      linker.redraw(job.living, job.unlinked);
      return;
    case "copy":
      linker.copy(job.kinds, job.to, job.newSlots);
  }
}

/** Learns an encoding from a sample. */
export const calibration: Task<CalibrationRequest, EncodingState> = {
  name: "calibration",
  // biome-ignore lint/correctness/useYield: it is one step
  *run(request) {
    return calibrate(request);
  },
  leavesWaste: true,
};

/** Computes exact results. */
export const truths: Task<TruthRequest, Candidates[]> = {
  name: "truths",
  // biome-ignore lint/correctness/useYield: it is one step
  *run(request) {
    return exactNeighbours(request);
  },
  leavesWaste: true,
};

// ---- Which vectors are really nearest to a few queries?
//
// The ground truth for the measurements of an index. A builder copies the rows from shared memory into a block of its own, piece by piece, and
// compares all queries with each, so scores are exact. Rows stay as they are meanwhile; that a vector was removed the owner knows.

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

function exactNeighbours({ metric: metricName, dimension, rows, queries, k }: TruthRequest): Candidates[] {
  const metric = metrics[metricName];
  const count = queries.length / dimension;
  const best: Candidates[] = new Array(count).fill(nothing);
  const layout = layOutBlock(dimension, 8 * pieceBytes);
  const block = new Block(layout);
  for (const { bytes, rowBytes, vectorKeys } of rows) {
    const pieceRows = Math.max(1, Math.floor(pieceBytes / rowBytes));
    for (let from = 0; from < vectorKeys.length; from += pieceRows) {
      block.clear();
      for (let row = from; row < Math.min(vectorKeys.length, from + pieceRows); row++) {
        if (vectorKeys[row] === absent) continue;
        const values = new Float32Array(bytes.buffer, bytes.byteOffset + row * rowBytes, dimension);
        block.push(
          vectorKeys[row],
          bytesOfFloats(values),
          metric.rowFactor(squaredNorm(values, 0, dimension)),
        );
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
            floor: floorOf(best[i], k),
            visible: () => null,
          },
        );
        const found = finishAtOnce(scan.search());
        if (found.count > 0) best[i] = bestOf([best[i], found], k);
      }
    }
  }
  return best;
}

/** The score of the k-th best; minus infinity while there are fewer. */
const floorOf = (best: Candidates, k: number): number =>
  best.count < k ? Number.NEGATIVE_INFINITY : leastOf(best);
