// How does the request thread have a backup written, verified or restored?
//
// Each job is a thread of its own (backup-thread.ts), and so many may run at a time; more are refused rather than kept waiting,
// for nobody knows how long a backup takes. An aborted job ends at its next row, closes what it has open, and is then over.

import { Worker } from "node:worker_threads";
import { QuiverError } from "@quiver/protocol/errors";
import { limits } from "@quiver/protocol/limits";
import type { BackupJob, BackupMessage, BackupReport, BackupStart } from "./backup-thread.ts";
import { fromWire } from "./writer-messages.ts";

export type { BackupJob, BackupReport } from "./backup-thread.ts";

export class BackupJobs {
  #running = 0;

  /** Takes a place among the jobs that may run, and gives back how to free it. @throws overloaded */
  enter(): () => void {
    if (this.#running >= limits.snapshotJobsMax)
      throw new QuiverError(
        "overloaded",
        `${this.#running} snapshots are being made, received or restored already. Send the request again later.`,
      );
    this.#running++;
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      this.#running--;
    };
  }

  /**
   * Does a job; the caller has entered.
   * @param onProgress told the share that is done, 0 to 1
   * @throws what the job failed with, or the signal's reason; the thread is over by then
   */
  async run(
    job: BackupJob,
    signal: AbortSignal,
    onProgress: (share: number) => void = () => undefined,
  ): Promise<BackupReport> {
    signal.throwIfAborted();
    const cancelled = new Int32Array(new SharedArrayBuffer(4));
    const worker = new Worker(new URL("./backup-thread.ts", import.meta.url), {
      workerData: { job, cancelled } satisfies BackupStart,
      name: `quiver backup: ${job.kind}`,
    });
    const cancel = () => {
      Atomics.store(cancelled, 0, 1);
    };
    signal.addEventListener("abort", cancel, { once: true });
    if (signal.aborted) cancel();
    try {
      return await new Promise<BackupReport>((resolve, reject) => {
        let end = () => reject(new QuiverError("internal", "The thread of a backup ended by itself."));
        worker.on("message", (message: BackupMessage) => {
          if ("progress" in message) onProgress(message.progress);
          else if (message.ok) end = () => resolve(message.report);
          else end = () => reject(signal.aborted ? signal.reason : fromWire(message.error));
        });
        worker.on("error", reject);
        worker.on("exit", () => end());
      });
    } finally {
      signal.removeEventListener("abort", cancel);
    }
  }
}
