// How are failures of background work reported?
//
// The log has a line when a task starts to fail, fails with another error, and recovers. The status lists the tasks that are failing.

import { Background } from "../base/background.ts";
import type { DatabaseLog, FailingTask } from "./contract.ts";

/** A background whose failures are logged. @param fields additional fields of the log lines */
export function loggedBackground(log: DatabaseLog, fields: Record<string, unknown>): Background {
  return new Background({
    onFailed: ({ task, error }) =>
      log.error({ ...fields, task, err: error }, "a background task failed and is tried again"),
    onRecovered: (task) => log.info({ ...fields, task }, "a background task that had failed is done"),
  });
}

/** The failing tasks, for the status. */
export function failingTasks(background: Background): FailingTask[] {
  return background.failing.map(({ task, error, attempts }) => ({
    task,
    message: error instanceof Error ? error.message : String(error),
    attempts,
  }));
}
