// How does released memory return to the system soon?
//
// The indexes of an unloaded collection are unreachable. But their WebAssembly memories and typed arrays return to the system only
// when the garbage collector runs, and an idle process may never run it. A full garbage collection blocks the thread for some tens of
// milliseconds. So it runs after the response, and at most once a second for everything released meanwhile.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { processBytes } from "./memory.ts";

const delayMs = 100;
const intervalMs = 1_000;

let collect: (() => void) | null = null;
let scheduled: Promise<void> | null = null;
let lastMs = Number.NEGATIVE_INFINITY;

/** Runs a full garbage collection soon: within a tenth of a second, or a second after the last one. Resolves after it. */
export function collectGarbage(): Promise<void> {
  scheduled ??= new Promise((resolve) => {
    const waitMs = Math.max(delayMs, lastMs + intervalMs - performance.now());
    setTimeout(() => {
      scheduled = null;
      lastMs = performance.now();
      if (collect === null) {
        setFlagsFromString("--expose-gc");
        collect = runInNewContext("gc") as () => void;
      }
      collect();
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
