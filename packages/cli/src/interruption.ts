// How does a command end when it is interrupted?
//
// The first Ctrl-C or SIGTERM aborts what the command waits for, so that it removes what it has begun; the second one ends the process.

import { exitCodes } from "./exit-codes.ts";

/** The command was interrupted, and has put things in order. */
export class InterruptedError extends Error {
  override readonly name = "InterruptedError";
}

/**
 * Runs something that ends when its signal aborts.
 * @param outcome what is true after an interruption, for the message
 * @throws InterruptedError if it was interrupted
 */
export async function interruptible<T>(
  run: (signal: AbortSignal) => Promise<T>,
  outcome: string,
): Promise<T> {
  const controller = new AbortController();
  const stop = () => {
    if (controller.signal.aborted) process.exit(exitCodes.interrupted);
    process.stderr.write("\nInterrupted: putting things in order. A second signal stops at once.\n");
    controller.abort(new InterruptedError(outcome));
  };
  process.on("SIGINT", stop).on("SIGTERM", stop);
  try {
    return await run(controller.signal);
  } catch (error) {
    throw controller.signal.aborted ? controller.signal.reason : error;
  } finally {
    process.off("SIGINT", stop).off("SIGTERM", stop);
  }
}
