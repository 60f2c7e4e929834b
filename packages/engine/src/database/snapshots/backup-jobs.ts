// How does the request thread run backup jobs?
//
// Each job runs in a thread of its own (backup-thread.ts). The number of jobs at a time is limited. Further jobs are refused instead of
// queued, because nobody can predict how long a backup takes. An aborted job stops at its next row, closes its files and store, and ends.

import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import { CalledThread } from "../../runtime/calls.ts";
import type { BackupJob, BackupStart, JobReport } from "./backup-thread.ts";

export type { BackupJob, BackupReport } from "./backup-thread.ts";

export class BackupJobs {
  #running = 0;

  /** Takes one of the slots for jobs. @returns a function that frees it @throws overloaded */
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
   * Runs a job. The caller must have taken a slot with `enter`.
   * @param onProgress gets the completed share, 0 to 1
   * @throws the job's error, or the reason of the signal; the thread has ended by then
   */
  async run<J extends BackupJob>(
    job: J,
    signal: AbortSignal,
    onProgress: (share: number) => void = () => undefined,
  ): Promise<JobReport<J>> {
    signal.throwIfAborted();
    const cancelled = new Int32Array(new SharedArrayBuffer(4));
    const thread = new CalledThread(new URL("./backup-thread.ts", import.meta.url), {
      name: `backup: ${job.kind}`,
      start: { cancelled } satisfies BackupStart,
      handlers: { progress: onProgress },
      onEnd: (cause) =>
        new QuiverError("internal", "The thread of a backup ended unexpectedly.", {}, { cause }),
    });
    const cancel = () => {
      Atomics.store(cancelled, 0, 1);
    };
    signal.addEventListener("abort", cancel, { once: true });
    if (signal.aborted) cancel();
    try {
      return await thread.callOnce<JobReport<J>>("run", job);
    } catch (error) {
      throw signal.aborted ? signal.reason : error;
    } finally {
      signal.removeEventListener("abort", cancel);
    }
  }
}
