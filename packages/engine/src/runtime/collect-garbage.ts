// How does released memory return to the system soon?
//
// The indexes of an unloaded collection are unreachable. But their WebAssembly memories and typed arrays return to the system only
// when the garbage collector runs, and an idle process may never run it. A full garbage collection blocks the thread for some tens of
// milliseconds. So it runs after the response, and at most once a second for everything released meanwhile.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

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
