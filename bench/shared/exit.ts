// What is left behind when a benchmark is ended before its time?
//
// Nothing: its servers are killed and its directories deleted, whether it fails, or is ended by a signal that can be handled.

const acts = new Set<() => void>();

/** Runs when this process ends, unless the function that it returns has been called before. @param act synchronous */
export function atExit(act: () => void): () => void {
  if (acts.size === 0 && process.listenerCount("exit", runAll) === 0) {
    process.on("exit", runAll);
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));
  }
  acts.add(act);
  return () => void acts.delete(act);
}

function runAll(): void {
  for (const act of acts) act();
}
