// Who is told that work in the background fails?
//
// The log, when a task begins to fail, fails in another way, and is done after all; and the status, while it fails.

import { Background } from "../base/background.ts";
import type { DatabaseLog, FailingTask } from "./contract.ts";

/** An owner of background tasks whose failures are logged. @param fields what the lines have besides */
export function loggedBackground(log: DatabaseLog, fields: Record<string, unknown>): Background {
  return new Background({
    onFailed: ({ task, error }) =>
      log.error({ ...fields, task, err: error }, "a background task failed and is tried again"),
    onRecovered: (task) => log.info({ ...fields, task }, "a background task that had failed is done"),
  });
}

/** What the status says. */
export function failingTasks(background: Background): FailingTask[] {
  return background.failing.map(({ task, error, attempts }) => ({
    task,
    message: error instanceof Error ? error.message : String(error),
    attempts,
  }));
}
