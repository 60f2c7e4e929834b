// A thread that searches a graph of another thread while builders change it, and reports violations.

import "../../src/process/node-host.ts";
import { parentPort, workerData } from "node:worker_threads";
import { Encoding, type EncodingState } from "../../src/index/dense/encoding.ts";
import { Graph, type SharedGraph } from "../../src/index/dense/graph.ts";

export type SearchingStart = {
  graph: SharedGraph;
  encoding: EncodingState;
  scratch: number;
  /** Of the records 0 ... n - 1, one after the other. */
  vectors: Float32Array;
  /** [0] the clock; [1] not 0: stop. */
  clock: Int32Array;
  /** By ordinal: when it was removed by the clock; 0: never. */
  removedAt: Int32Array;
  /** Ordinals below are never removed. */
  stable: number;
};

export type SearchingReport = { searches: number; found: number; wrong: string[] };

const {
  graph: shared,
  encoding: state,
  scratch,
  vectors,
  clock,
  removedAt,
  stable,
} = workerData as SearchingStart;
const graph = Graph.attach(shared, scratch);
const encoding = Encoding.fromState(state);
const { dimension } = encoding;
const report: SearchingReport = { searches: 0, found: 0, wrong: [] };
const none = 0xffff_ffff;

for (let i = scratch; Atomics.load(clock, 1) === 0; i = (i * 7 + 13) % stable) {
  graph.refresh();
  graph.setQuery(encoding, vectors.subarray(i * dimension, (i + 1) * dimension));
  const begin = Atomics.load(clock, 0);
  graph.kernels.hnswEnter(graph.scratch);
  const length = graph.kernels.hnswSearch(graph.scratch, 64);
  graph.refresh();
  const beam = graph.placeOf("beam") / 4;
  let isFound = false;
  const seen = new Set<number>();
  for (let j = 0; j < length; j++) {
    const ordinal = graph.ordinalOf(graph.words[beam + 2 * j] >>> 1);
    if (ordinal === none) continue;
    if (ordinal >= removedAt.length) report.wrong.push(`ordinal ${ordinal} was never given`);
    if (seen.has(ordinal)) report.wrong.push(`ordinal ${ordinal} was found twice`);
    seen.add(ordinal);
    const removed = Atomics.load(removedAt, ordinal);
    if (removed !== 0 && removed < begin) {
      report.wrong.push(
        `ordinal ${ordinal}, removed at ${removed}, was found by a search that began at ${begin}`,
      );
    }
    if (ordinal === i) isFound = true;
  }
  graph.kernels.hnswLeave(graph.scratch);
  report.searches++;
  if (isFound) report.found++;
  if (report.wrong.length > 10) break;
}
parentPort?.postMessage(report);
