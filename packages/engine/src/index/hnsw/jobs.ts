// Which jobs change a graph, and which thread runs them?
//
// The owner of a graph (graph-jobs.ts) creates jobs; *builders* run them, in worker threads (runtime/builders.ts) or in place, in the
// owner's thread. A job in place is complete when `run` returns, so such an index is synchronous, and equal calls produce equal bytes.

import type { Candidates } from "../contract.ts";
import { type CalibrationRequest, calibrate } from "./calibrate.ts";
import type { Encoding, EncodingState } from "./encoding.ts";
import type { Graph, SharedGraph } from "./graph.ts";
import { Linker } from "./linker.ts";
import type { NewSlots } from "./node-order.ts";
import { exactNeighbours, type TruthRequest } from "./truth.ts";

/** The graph of a job. `id` is unique in the process; builders use it to recognise a graph that they already know. */
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
  /** Adds links so that a beam of `ef` finds vectors that few links lead to. One such job at a time. */
  | { kind: "reconnect"; living: Uint32Array; ef: number }
  /** Rebuilds the backbone without the nodes to unlink, and chooses a new entry point if the old one is among them. */
  | { kind: "redraw"; living: Uint32Array; unlinked: Uint32Array }
  /** Copies a graph, which does not change meanwhile, in another order (node-order.ts). */
  | { kind: "copy"; kinds: Uint8Array; to: SharedGraph; newSlots: NewSlots };

export interface GraphBuilders {
  /** Number of concurrent jobs, at least 1. */
  readonly width: number;
  /** Runs a job; `done` is called once with its outcome. */
  run(target: Target, job: GraphJob, done: (error: unknown) => void): void;
  /** Learns an encoding from a sample. */
  calibrate(request: CalibrationRequest, done: (error: unknown, state: EncodingState | null) => void): void;
  /** Computes exact results; `done` is called once with the outcome. */
  truth(request: TruthRequest, done: (error: unknown, truths: Candidates[] | null) => void): void;
  /** There will be no more jobs on this graph. */
  forget(id: number): void;
}

/** Does a job with a linker that is bound to its graph. */
export function perform(linker: Linker, job: GraphJob): void {
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

/** Builders that work in the owner's thread, and in its scratch memory. */
export class InPlaceBuilders implements GraphBuilders {
  readonly width = 1;
  readonly #linkers = new Map<number, Linker>();

  run({ id, graph, encoding }: Target, job: GraphJob, done: (error: unknown) => void): void {
    let linker = this.#linkers.get(id);
    if (linker === undefined) {
      linker = new Linker(graph, encoding);
      this.#linkers.set(id, linker);
    }
    try {
      perform(linker, job);
    } catch (error) {
      done(error);
      return;
    }
    done(null);
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

  truth(request: TruthRequest, done: (error: unknown, truths: Candidates[] | null) => void): void {
    let truths: Candidates[];
    try {
      truths = exactNeighbours(request);
    } catch (error) {
      done(error, null);
      return;
    }
    done(null, truths);
  }

  forget(id: number): void {
    this.#linkers.delete(id);
  }
}
