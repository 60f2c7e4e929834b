// How is a collection checked while it is served?
//
//   1. The dense index in memory is written to a temporary file, like a checkpoint, because another thread compares it.
//   2. A thread (check-thread.ts) reads the store under a read transaction, and compares that file with the records.
//   3. Meanwhile the request thread compares the inverted indexes in memory with the records of one view, in slices (index-comparison.ts).
//
// Such a thread also reads the files of snapshots. A check ends when its collection closes. A database runs one check at a time, because
// a check reads everything that is stored.

import { rmSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { QuiverError } from "@quiverdb/protocol/errors";
import type { CheckReport } from "@quiverdb/protocol/shapes/check";
import { threadFile } from "../../runtime/thread-file.ts";
import type { CheckReply, CheckStart } from "./check-messages.ts";

export class RunningCheck {
  readonly #worker: Worker;
  readonly report: Promise<CheckReport>;
  #stop: (reason: Error) => void = () => {};

  constructor(start: CheckStart) {
    this.#worker = new Worker(threadFile(new URL("./check-thread.ts", import.meta.url)), {
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

  /** Cancels the check, which then rejects with `reason`. */
  stop(reason: Error): void {
    this.#stop(reason);
  }
}
