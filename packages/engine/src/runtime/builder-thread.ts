// Who does the long work on graphs?
//
// This thread: one job after the other, each on a graph in shared memory, in the area that is this builder's.

import { deserialize, serialize } from "node:v8";
import { parentPort, workerData } from "node:worker_threads";
import { failpoint } from "../base/failpoint.ts";
import { invariant } from "../base/invariant.ts";
import { calibrate } from "../index/hnsw/calibrate.ts";
import { Encoding } from "../index/hnsw/encoding.ts";
import { Graph, type SharedGraph } from "../index/hnsw/graph.ts";
import { type PostedTarget, perform } from "../index/hnsw/jobs.ts";
import { Linker } from "../index/hnsw/linker.ts";
import type { BuilderMessage, BuilderReply, BuilderStart, BuilderTask } from "./builder-messages.ts";
import { CheckpointReader, writeCheckpoint } from "./checkpoint-file.ts";

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
      const result = perform(linkerOf(task.id, task.target), task.job);
      if (task.job.kind !== "insert") failpoint("repair:done");
      return result;
    }
    case "calibrate":
      return calibrate(task.request);
    case "save":
      return writeCheckpoint(task.path, task.meta, [serialize(task.state), ...task.graphs.map(imageOf)]);
    case "open":
      return open(task.path);
    case "load":
      failpoint("checkpoint:read");
      return load(task.path, task.graphs);
  }
}

function imageOf(shared: SharedGraph): Uint8Array {
  return Graph.attach(shared, shared.shape.areas - width + ownNumber).image;
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

function load(path: string, graphs: readonly SharedGraph[]): void {
  const reader = new CheckpointReader(path);
  try {
    invariant(reader.partCount === graphs.length + 1, `the checkpoint has ${reader.partCount - 1} graphs`);
    graphs.forEach((shared, i) => {
      reader.read(i + 1, imageOf(shared));
    });
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
  port.postMessage(reply);
});
