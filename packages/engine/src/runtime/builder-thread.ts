// Who does the long work on indexes?
//
// This thread: one job after the other, each on a graph in shared memory, in the area that is this builder's.

import { deserialize, serialize } from "node:v8";
import { parentPort, workerData } from "node:worker_threads";
import { limits } from "@quiver/protocol/limits";
import type { Finding } from "@quiver/protocol/shapes/check";
import { failpoint } from "../base/failpoint.ts";
import { invariant } from "../base/invariant.ts";
import type { CollectionDefinition } from "../collection/definition.ts";
import { isBearable, verifyCollection } from "../collection/verify.ts";
import { calibrate } from "../index/hnsw/calibrate.ts";
import { Encoding } from "../index/hnsw/encoding.ts";
import { Graph } from "../index/hnsw/graph.ts";
import { type PostedTarget, perform } from "../index/hnsw/jobs.ts";
import { Linker } from "../index/hnsw/linker.ts";
import { exactNeighbours } from "../index/hnsw/truth.ts";
import { type AnalysedTexts, analyseTexts, buffersOf } from "../index/text/analysed.ts";
import { createAnalyzer } from "../text/analyzer.ts";
import type {
  Analysis,
  BuilderMessage,
  BuilderReply,
  BuilderStart,
  BuilderTask,
  TextRows,
} from "./builder-messages.ts";
import { CheckpointReader, writeCheckpoint } from "./checkpoint-file.ts";
import { wordsOf } from "./stored-words.ts";

const port = parentPort;
invariant(port !== null, "a builder is not a worker thread");
const { number: ownNumber, width } = workerData as BuilderStart;

const linkers = new Map<number, Linker>();

function linkerOf(id: number, target: PostedTarget | undefined): Linker {
  if (target !== undefined) {
    const { shape } = target.graph;
    const graph = Graph.attach(target.graph, shape.areas - width + ownNumber);
    linkers.set(id, new Linker(graph, Encoding.fromState(target.encoding)));
  }
  const linker = linkers.get(id);
  invariant(linker !== undefined, `the builder does not know the graph ${id}`);
  return linker;
}

function doTask(task: BuilderTask): unknown {
  switch (task.kind) {
    case "job": {
      failpoint("build:begin");
      perform(linkerOf(task.id, task.target), task.job);
      if (task.job.kind !== "insert") failpoint("repair:done");
      return undefined;
    }
    case "calibrate":
      return calibrate(task.request);
    case "truth":
      return exactNeighbours(task.request);
    case "analyse":
      return analyse(task.rows, task.analysis);
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

/** Records without a text are left out. */
function analyse(rows: TextRows, { language, stopWords, hasPositions }: Analysis): AnalysedTexts {
  return analyseTexts(createAnalyzer(language, stopWords), textsOf(rows), hasPositions);
}

function* textsOf({ ordinals, ends, bytes }: TextRows): Generator<[ordinal: number, words: string[]]> {
  for (let row = 0, begin = 0; row < ordinals.length; begin = ends[row++]) {
    const words = wordsOf(bytes.subarray(begin, ends[row]));
    if (words !== null) yield [ordinals[row], words];
  }
}

function verify(directory: string, definition: CollectionDefinition): Finding[] {
  const findings: Finding[] = [];
  const onFinding = (finding: Finding) => {
    // One that keeps the store from being opened must not be lost among many that do not.
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

port.on("message", (message: BuilderMessage) => {
  if ("forget" in message) {
    linkers.delete(message.forget);
    return;
  }
  const { number, task } = message;
  let reply: BuilderReply;
  try {
    reply = { number, ok: true, value: doTask(task) };
  } catch (error) {
    // Errors of WebAssembly and of the system are told as text: not all of them can be posted.
    const { message: text, stack, code } = error as NodeJS.ErrnoException;
    reply = { number, ok: false, error: { text, stack, code } };
  }
  const isTexts = reply.ok && task.kind === "analyse";
  port.postMessage(reply, isTexts ? buffersOf((reply as { value: AnalysedTexts }).value) : []);
});
