// How does memory that was let go become free soon?
//
// The indexes of an unloaded collection are unreachable, but WebAssembly memories and typed arrays are given
// back to the system only when the garbage collector finds them, which an idle process may put off for ever.
// A full collection holds the thread for some tens of milliseconds, so it runs after the answer, and once for
// all that is let go within a second.

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
