// How does released memory return to the system soon?
//
// The indexes of an unloaded collection are unreachable. But their WebAssembly memories and typed arrays return to the system only
// when the garbage collector runs, and an idle process may never run it. A full garbage collection blocks the thread for some tens of
// milliseconds. So it runs after the response, and at most once a second for everything released meanwhile.

import { performance } from "node:perf_hooks";
import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { processBytes } from "./memory.ts";

const delayMs = 100;
const intervalMs = 1_000;

type Collect = () => void;

let collect: Collect | null = null;
let scheduled: Promise<void> | null = null;
let lastMs = Number.NEGATIVE_INFINITY;

function collector(): Collect {
  if (collect === null) {
    setFlagsFromString("--expose-gc");
    collect = runInNewContext("gc") as Collect;
  }
  return collect;
}

/** Runs a full garbage collection soon: within a tenth of a second, or a second after the last one. Resolves after it. */
export function collectGarbage(): Promise<void> {
  scheduled ??= new Promise((resolve) => {
    const waitMs = Math.max(delayMs, lastMs + intervalMs - performance.now());
    setTimeout(() => {
      scheduled = null;
      lastMs = performance.now();
      collector()();
      resolve();
    }, waitMs).unref();
  });
  return scheduled;
}

/** An idle moment after the last work. */
const idleMs = 2_000;
/** Less is not worth a collection. */
const grownBytesMin = 64 * 1024 * 1024;

let isScheduled = false;
/** Bytes of the process after the last collection, or fewer if it has shrunk since. */
let leastBytes = processBytes();

/**
 * Call this when large work has ended, as often as you like. Two seconds later the garbage is collected if the process has grown by 64 MiB
 * since the last time: building a graph leaves more memory to the collector than the graph takes. Resolves after that.
 */
export function collectGarbageIfGrown(): Promise<void> {
  if (isScheduled) return Promise.resolve();
  isScheduled = true;
  return new Promise((resolve) => {
    setTimeout(async () => {
      isScheduled = false;
      if (processBytes() > leastBytes + grownBytesMin) {
        await collectGarbage();
        leastBytes = processBytes();
      } else leastBytes = Math.min(leastBytes, processBytes());
      resolve();
    }, idleMs).unref();
  });
}

/** How often a thread looks whether it rests. */
const lookMs = 5_000;
/** A thread rests that has worked for less since it looked. */
const restingMsMax = 100;
/** Less is not worth a collection: the young generation alone holds as much after some searches. */
const heapGrownBytesMin = 8 * 1024 * 1024;

/**
 * From now on, the garbage of this thread is collected whenever it rests and its heap has grown, and when it has started. V8 collects when a
 * thread allocates, so one that rests holds what its last work has left. A collection has a price: V8 also throws away optimized code that
 * refers to shapes of which no object is left, such as those of a closed connection, so the next tens of searches take up to 1.4 times as
 * long. So there is one after a load, and none after searches. Bytecode is kept: thrown away, too, they took twice as long, and it takes no
 * memory that could be measured. Nor is the last resort of V8 asked for, which also shrinks the young generation, for 5 MB. Call it once in
 * a thread.
 */
export function collectAtRest(): void {
  setFlagsFromString("--no-flush-bytecode");
  let looked = performance.eventLoopUtilization();
  let collectedBytes: number | undefined;
  setInterval(() => {
    const now = performance.eventLoopUtilization();
    const rests = performance.eventLoopUtilization(now, looked).active < restingMsMax;
    looked = now;
    if (!rests || (collectedBytes !== undefined && heapBytes() < collectedBytes + heapGrownBytesMin)) return;
    collector()();
    collectedBytes = heapBytes();
    looked = performance.eventLoopUtilization();
  }, lookMs).unref();
}

function heapBytes(): number {
  const { used_heap_size, external_memory } = getHeapStatistics();
  return used_heap_size + external_memory;
}
