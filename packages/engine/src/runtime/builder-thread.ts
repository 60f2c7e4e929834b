// How does a builder thread do the long work on indexes?
//
// It runs jobs on graphs in shared memory, each builder with its own scratch memory, and all other tasks that take long.
//
// Each collection has a queue, and all queues get equal time: the next time slice always goes to the queue that has used the least.
// Otherwise the long texts of one collection would delay the indexes of all others. Tasks of one queue run in order.

import "./node-host.ts";
import { deserialize, serialize } from "node:v8";
import { parentPort, workerData } from "node:worker_threads";
import { limits } from "@quiverdb/protocol/limits";
import type { Finding } from "@quiverdb/protocol/shapes/check";
import { release } from "../base/bytes.ts";
import { failpoint } from "../base/failpoint.ts";
import { invariant } from "../base/invariant.ts";
import type { Steps } from "../base/steps.ts";
import type { CollectionDefinition } from "../collection/definition.ts";
import { RecordReader } from "../collection/record-reader.ts";
import { isBearable, verifyCollection } from "../collection/verify.ts";
import type { CheckpointMeta } from "../index/checkpoint-adapter.ts";
import { type CalibrationRequest, calibrate } from "../index/hnsw/calibrate.ts";
import { Encoding } from "../index/hnsw/encoding.ts";
import { Graph } from "../index/hnsw/graph.ts";
import { type GraphJob, type PostedTarget, perform } from "../index/hnsw/jobs.ts";
import { Linker } from "../index/hnsw/linker.ts";
import { exactNeighbours, type TruthRequest } from "../index/hnsw/truth.ts";
import type { TextAnalysisOptions, TextRows } from "../index/kind.ts";
import { type AnalysedTexts, analyseTexts, buffersOf } from "../index/text/analysed.ts";
import { wordsInSteps } from "../index/text/stored-text.ts";
import { createAnalyzer } from "../text/analyzer.ts";
import { type CallContext, Calls, later } from "./calls.ts";
import { CheckpointReader, writeCheckpoint } from "./checkpoint-file.ts";
import { collectGarbage } from "./collect-garbage.ts";

export type BuilderStart = {
  /** Of this builder, and how many there are: they take the last blocks of scratch memory of a graph. */
  readonly number: number;
  readonly width: number;
};

export type BuilderTask =
  | { readonly kind: "job"; readonly id: number; readonly target?: PostedTarget; readonly job: GraphJob }
  | { readonly kind: "forget"; readonly id: number }
  | { readonly kind: "calibrate"; readonly request: CalibrationRequest }
  | { readonly kind: "truth"; readonly request: TruthRequest }
  | { readonly kind: "analyse"; readonly rows: TextRows; readonly analysis: TextAnalysisOptions }
  /** Writes a checkpoint: a state of plain values and typed arrays, and images in shared memory. */
  | {
      readonly kind: "save";
      readonly path: string;
      readonly meta: CheckpointMeta;
      readonly state: unknown;
      readonly images: readonly Uint8Array[];
    }
  /** Reads the description and the state of a checkpoint. */
  | { readonly kind: "open"; readonly path: string }
  /** Verifies a collection's store before it is opened; replies with findings. */
  | { readonly kind: "verify"; readonly directory: string; readonly definition: CollectionDefinition }
  /** Reads the images into shared memory. */
  | { readonly kind: "load"; readonly path: string; readonly images: readonly Uint8Array[] };

export type TaskCall = {
  /** The collection that sent it. A builder gives each owner the same share of time. */
  readonly owner: number;
  readonly task: BuilderTask;
};

invariant(parentPort !== null, "a builder is not a worker thread");
const { number: ownNumber, width } = workerData as BuilderStart;

const linkers = new Map<number, Linker>();

function linkerOf(id: number, target: PostedTarget | undefined): Linker {
  if (target !== undefined) {
    const { shape } = target.graph;
    const graph = Graph.attach(target.graph, shape.scratchCount - width + ownNumber);
    linkers.set(id, new Linker(graph, Encoding.fromState(target.encoding)));
  }
  const linker = linkers.get(id);
  invariant(linker !== undefined, `the graph ${id} is unknown to the builder`);
  return linker;
}

function* stepsOf(task: BuilderTask): Steps<unknown> {
  switch (task.kind) {
    case "job": {
      failpoint("build:begin");
      perform(linkerOf(task.id, task.target), task.job);
      if (task.job.kind !== "insert") failpoint("repair:done");
      return undefined;
    }
    case "forget":
      linkers.delete(task.id);
      return undefined;
    case "calibrate":
      return calibrate(task.request);
    case "truth":
      return exactNeighbours(task.request);
    case "analyse":
      return yield* analyse(task.rows, task.analysis);
    case "save":
      return writeCheckpoint(task.path, task.meta, [serialize(task.state), ...task.images]);
    case "open":
      return open(task.path);
    case "verify":
      return verify(task.directory, task.definition);
    case "load":
      failpoint("checkpoint:read");
      return load(task.path, task.images);
  }
}

function analyse(
  rows: TextRows,
  { language, stopWords, hasPositions }: TextAnalysisOptions,
): Steps<AnalysedTexts> {
  return analyseTexts(createAnalyzer(language, stopWords), textsOf(rows), hasPositions);
}

function* textsOf({ ordinals, ends, bytes }: TextRows): Generator<[ordinal: number, words: Steps<string[]>]> {
  for (let row = 0, begin = 0; row < ordinals.length; begin = ends[row++]) {
    const { text } = new RecordReader(bytes.subarray(begin, ends[row]));
    if (text !== null) yield [ordinals[row], wordsInSteps(text)];
  }
}

function verify(directory: string, definition: CollectionDefinition): Finding[] {
  const findings: Finding[] = [];
  const onFinding = (finding: Finding) => {
    // The limit must not drop a finding that prevents opening the store.
    if (findings.length < limits.findingsMax || !isBearable(finding)) findings.push(finding);
  };
  verifyCollection(directory, { depth: "quick", definition, onFinding });
  return findings.slice(-limits.findingsMax);
}

function open(path: string): unknown {
  const reader = new CheckpointReader(path);
  try {
    const state = new Uint8Array(reader.lengthOf(0));
    reader.read(0, state);
    return { meta: reader.meta, state: deserialize(state) };
  } finally {
    reader.close();
  }
}

function load(path: string, images: readonly Uint8Array[]): void {
  const reader = new CheckpointReader(path);
  try {
    invariant(reader.partCount === images.length + 1, `the checkpoint has ${reader.partCount - 1} images`);
    for (const [i, image] of images.entries()) reader.read(i + 1, image);
  } finally {
    reader.close();
  }
}

/** The tasks of one collection, in order, and the time that it has used. */
type Queue = {
  ms: number;
  readonly waiting: {
    readonly task: BuilderTask;
    readonly steps: Steps<unknown>;
    readonly context: CallContext;
  }[];
};

const queues = new Map<number, Queue>();

/**
 * Tasks that leave memory outside of the heap to the garbage collector: graphs and blocks that were made for one calculation, or views of a
 * graph that its owner gave up. The collector of V8 does not see how much that is, and this thread allocates little else.
 */
const leavesWaste: ReadonlySet<BuilderTask["kind"]> = new Set(["calibrate", "truth", "forget"]);

/** The used time of the queue that got the last slice. A new queue starts with it. */
let virtualMs = 0;

/** Length of a time slice. The thread reads new messages between slices. */
const sliceMs = 10;

new Calls(parentPort, {
  task({ owner, task }: TaskCall, context) {
    let queue = queues.get(owner);
    if (queue === undefined) {
      queue = { ms: virtualMs, waiting: [] };
      queues.set(owner, queue);
      if (queues.size === 1) setImmediate(work);
    }
    queue.waiting.push({ task, steps: stepsOf(task), context });
    return later;
  },
});

/** Runs one time slice for the queue that has used the least time. */
function work(): void {
  let owner = 0;
  let next: Queue | undefined;
  for (const [each, queue] of queues)
    if (next === undefined || queue.ms < next.ms) [owner, next] = [each, queue];
  if (next === undefined) return;
  virtualMs = next.ms;
  const beganMs = performance.now();
  let nowMs = beganMs;
  while (next.waiting.length > 0 && nowMs < beganMs + sliceMs) {
    if (goOn(next.waiting[0])) next.waiting.shift();
    nowMs = performance.now();
  }
  next.ms += nowMs - beganMs;
  if (next.waiting.length === 0) queues.delete(owner);
  if (queues.size > 0) setImmediate(work);
}

/** Runs one step of a task, and answers after the last one. @returns whether it was the last */
function goOn({ task, steps, context }: Queue["waiting"][number]): boolean {
  let value: unknown;
  let failure: { readonly error: unknown } | undefined;
  try {
    const step = steps.next();
    if (!step.done) return false;
    value = step.value;
  } catch (error) {
    failure = { error };
  }
  if (task.kind === "job" && task.job.kind === "insert") release(task.job.vectors);
  if (leavesWaste.has(task.kind)) void collectGarbage();
  if (failure !== undefined) context.fail(failure.error);
  else context.answer(value, task.kind === "analyse" ? buffersOf(value as AnalysedTexts) : []);
  return true;
}
