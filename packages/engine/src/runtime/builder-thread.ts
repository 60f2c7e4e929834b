// How does a builder thread do the long work on indexes?
//
// It runs tasks (index/builders.ts) in steps, and keeps what several of them work on, such as a graph in shared memory.
//
// Each collection has a queue, and all queues get equal time: the next time slice always goes to the queue that has used the least.
// Otherwise the long texts of one collection would delay the indexes of all others. Tasks of one queue run in order.

import "../process/node-host.ts";
import { setPriority } from "node:os";
import { parentPort, workerData } from "node:worker_threads";
import { invariant } from "../base/invariant.ts";
import type { Steps } from "../base/steps.ts";
import { RecordReader } from "../collection/record.ts";
import { builderTasks } from "../index/builder-tasks.ts";
import type { AnyTask, BuilderPlace } from "../index/builders.ts";
import { collectGarbage } from "../process/collect-garbage.ts";
import { type CallContext, Calls, later } from "./calls.ts";
import {
  checkpointLoading,
  checkpointOpening,
  checkpointWriting,
  storeVerification,
} from "./storage-tasks.ts";

export type TaskCall = {
  /** The collection that sent it. A builder gives each owner the same share of time. */
  readonly owner: number;
  readonly name: string;
  readonly request: unknown;
  /** What it works on; described in the first call of this thread that names it. */
  readonly site?: { readonly id: number; readonly description?: object };
};

/** There are no more calls for a site; after those that wait. */
export type ForgetCall = { readonly owner: number; readonly id: number };

invariant(parentPort !== null, "a builder is not a worker thread");
const place = workerData as BuilderPlace;

// Requests go first where all cores are busy (docs/decisions/serving-threads.md). On Linux this is of the thread alone; elsewhere it would be of
// the process.
if (process.platform === "linux") setPriority(5);

const storage: readonly AnyTask[] = [
  checkpointWriting,
  checkpointOpening,
  checkpointLoading,
  storeVerification,
];
const tasks: ReadonlyMap<string, AnyTask> = new Map([
  ...builderTasks,
  ...storage.map((task) => [task.name, task] as const),
]);

const sites = new Map<number, unknown>();

const textOf = (record: Uint8Array) => new RecordReader(record).textBytes;

function* stepsOf(task: AnyTask, { request, site }: TaskCall): Steps<unknown> {
  if (site?.description !== undefined) sites.set(site.id, task.attach?.(site.description as never, place));
  const own = site === undefined ? undefined : sites.get(site.id);
  invariant(
    site === undefined || own !== undefined,
    () => `the builder does not know what ${task.name} works on`,
  );
  return yield* task.run(request as never, own, textOf);
}

// biome-ignore lint/correctness/useYield: it is one step
function* forgetting(id: number): Steps<void> {
  sites.delete(id);
}

/** The tasks of one collection, in order, and the time that it has used. */
type Queue = {
  ms: number;
  readonly waiting: Waiting[];
};

type Waiting = {
  readonly steps: Steps<unknown>;
  readonly context: CallContext;
  /** Whether it leaves memory outside of the heap to the garbage collector. */
  readonly leavesWaste: boolean;
  /** Frees the memory of its request. */
  readonly release: () => void;
  readonly handedBack: (answer: unknown) => ArrayBuffer[];
};

const queues = new Map<number, Queue>();

/** The used time of the queue that got the last slice. A new queue starts with it. */
let virtualMs = 0;

/** Length of a time slice. The thread reads new messages between slices. */
const sliceMs = 10;

new Calls(parentPort, {
  task(call: TaskCall, context) {
    const task = tasks.get(call.name);
    invariant(task !== undefined, () => `no builder can do ${call.name}`);
    enqueue(call.owner, {
      steps: stepsOf(task, call),
      context,
      leavesWaste: task.leavesWaste === true,
      release: () => task.release?.(call.request as never),
      handedBack: (answer) => task.handedBack?.(answer) ?? [],
    });
    return later;
  },
  forget({ owner, id }: ForgetCall, context) {
    const steps = forgetting(id);
    enqueue(owner, { steps, context, leavesWaste: true, release: () => undefined, handedBack: () => [] });
    return later;
  },
});

function enqueue(owner: number, waiting: Waiting): void {
  let queue = queues.get(owner);
  if (queue === undefined) {
    queue = { ms: virtualMs, waiting: [] };
    queues.set(owner, queue);
    if (queues.size === 1) setImmediate(work);
  }
  queue.waiting.push(waiting);
}

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
function goOn({ steps, context, leavesWaste, release, handedBack }: Waiting): boolean {
  let value: unknown;
  let failure: { readonly error: unknown } | undefined;
  try {
    const step = steps.next();
    if (!step.done) return false;
    value = step.value;
  } catch (error) {
    failure = { error };
  }
  release();
  if (leavesWaste) void collectGarbage();
  if (failure !== undefined) context.fail(failure.error);
  else context.answer(value, handedBack(value));
  return true;
}
