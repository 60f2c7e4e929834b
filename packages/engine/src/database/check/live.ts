// How is a collection checked while it is served?
//
//   1. indexes in memory that another thread must verify, such as dense ones, are written to separate files like checkpoints;
//   2. a snapshot is taken, and a thread (check-thread.ts) reads the store and compares those files with the records;
//   3. meanwhile the inverted indexes in memory are compared with the records of one view, in time slices (index-comparison.ts).
//
// Snapshot files are read by such a thread, too. A check stops when its collection closes. Only one runs at a time in a database, because
// it reads all stored data.

import { rmSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { QuiverError } from "@quiver/protocol/errors";
import type { CheckReport } from "@quiver/protocol/shapes/check";
import type { CheckReply, CheckStart } from "./check-messages.ts";

export class RunningCheck {
  readonly #worker: Worker;
  readonly report: Promise<CheckReport>;
  #stop: (reason: Error) => void = () => {};

  constructor(start: CheckStart) {
    this.#worker = new Worker(new URL("./check-thread.ts", import.meta.url), {
      workerData: start,
      name: "quiver check",
    });
    this.report = this.#answer().finally(() => {
      if (start.kind === "collection") for (const { path } of start.images) rmSync(path, { force: true });
    });
  }

  async #answer(): Promise<CheckReport> {
    try {
      const reply = await new Promise<CheckReply>((resolve, reject) => {
        this.#stop = reject;
        this.#worker.once("message", resolve);
        this.#worker.once("error", reject);
        this.#worker.once("exit", () => reject(new Error("the thread of the check has ended")));
      });
      if (reply.ok) return reply.report;
      throw new QuiverError(
        "internal",
        "The check failed; the log has the reason.",
        {},
        { cause: new Error(reply.message) },
      );
    } finally {
      await this.#worker.terminate();
    }
  }

  /** Ends the check from outside; it then rejects with `reason`. */
  stop(reason: Error): void {
    this.#stop(reason);
  }
}
