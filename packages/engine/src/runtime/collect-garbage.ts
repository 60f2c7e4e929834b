// How does memory that was let go become free at once?
//
// The indexes of an unloaded collection are unreachable, but WebAssembly memories and typed arrays are given
// back to the system only when the garbage collector finds them, which an idle process may put off for ever.
// Unloading is rare and asked for, so a full collection, some tens of milliseconds, is the right price.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

let collect: (() => void) | null = null;

/** Runs a full garbage collection soon, after the current turn of the event loop. */
export function collectGarbage(): void {
  if (collect === null) {
    setFlagsFromString("--expose-gc");
    collect = runInNewContext("gc") as () => void;
  }
  setImmediate(collect);
}
