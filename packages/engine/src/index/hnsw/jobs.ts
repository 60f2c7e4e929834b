// What is done to a graph, and who does it?
//
// The owner of a graph (hnsw-index.ts) decides, and hands out jobs; *builders* do them, in worker threads
// (runtime/builders.ts) or, in place, in the owner's own. A job that is done in place is done when `run` returns, so such
// an index is synchronous, and equal calls make equal bytes.

import { type CalibrationRequest, calibrate } from "./calibrate.ts";
import type { Encoding, EncodingState } from "./encoding.ts";
import type { Graph, SharedGraph } from "./graph.ts";
import { Linker } from "./linker.ts";

/** The graph that a job is about. `id` is unique in the process and tells builders that they know it already. */
export type Target = { readonly id: number; readonly graph: Graph; readonly encoding: Encoding };

/** The same, as it is posted to a thread. */
export type PostedTarget = {
  readonly id: number;
  readonly graph: SharedGraph;
  readonly encoding: EncodingState;
};

export type GraphJob =
  /** Encodes vectors, one after the other in `vectors`, and links their nodes. */
  | { kind: "insert"; nodes: Uint32Array; vectors: Float32Array }
  /** Rids nodes of links to removed ones. */
  | { kind: "repair"; nodes: Uint32Array }
  /** Chooses an entry point anew where it was removed, and links the living nodes that no way leads to. */
  | { kind: "settle"; living: Uint32Array };

export interface GraphBuilders {
  /** Jobs that can run at a time, 1 at least. */
  readonly width: number;
  /** Does a job; `done` is told how it ended, once. For `settle` the result is how many nodes were linked again. */
  run(target: Target, job: GraphJob, done: (error: unknown, result: number) => void): void;
  /** Learns an encoding from a sample. */
  calibrate(request: CalibrationRequest, done: (error: unknown, state: EncodingState | null) => void): void;
  /** No job about this graph will come any more. */
  forget(id: number): void;
}

/** Does a job with a linker that is bound to its graph. */
export function perform(linker: Linker, job: GraphJob): number {
  switch (job.kind) {
    case "insert":
      linker.insert(job.nodes, job.vectors);
      return 0;
    case "repair":
      linker.repair(job.nodes);
      return 0;
    case "settle":
      return linker.settle(job.living);
  }
}

/** Builders that work in the owner's thread, and in its area. */
export class InPlaceBuilders implements GraphBuilders {
  readonly width = 1;
  readonly #linkers = new Map<number, Linker>();

  run({ id, graph, encoding }: Target, job: GraphJob, done: (error: unknown, result: number) => void): void {
    let linker = this.#linkers.get(id);
    if (linker === undefined) {
      linker = new Linker(graph, encoding);
      this.#linkers.set(id, linker);
    }
    let result = 0;
    try {
      result = perform(linker, job);
    } catch (error) {
      done(error, 0);
      return;
    }
    done(null, result);
  }

  calibrate(request: CalibrationRequest, done: (error: unknown, state: EncodingState | null) => void): void {
    let state: EncodingState;
    try {
      state = calibrate(request);
    } catch (error) {
      done(error, null);
      return;
    }
    done(null, state);
  }

  forget(id: number): void {
    this.#linkers.delete(id);
  }
}
