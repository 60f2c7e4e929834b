// How does a backup thread read and write backup files?
//
// Each job has a thread of its own, so a backup that takes hours blocks neither requests nor other backups. The thread opens the store
// itself and holds a read transaction only while it writes the file. It works without a turn of its event loop, so a job ends early when
// the request thread sets a flag that both share.

import "../../process/node-host.ts";
import { closeSync, fsyncSync, openSync, rmSync } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";
import { isQuiverError, QuiverError } from "@quiverdb/protocol/errors";
import { invariant } from "../../base/invariant.ts";
import type { HistoryPolicy } from "../../collection/history.ts";
import { collectionTables } from "../../collection/tables.ts";
import { copyVersion } from "../../collection/version-copy.ts";
import type { VersionEntry } from "../../collection/versions.ts";
import { syncDirectory } from "../../process/data-directory.ts";
import { Calls } from "../../runtime/calls.ts";
import { LmdbStore } from "../../storage/lmdb.ts";
import { type BackupHeader, checkChain } from "./backup-header.ts";
import { applyBackup, checkRestored, verifyBackup } from "./read-backup.ts";
import { fileError } from "./snapshot-entry.ts";
import { type BackupRequest, writeBackup } from "./write-backup.ts";

export type BackupJob =
  /** Writes the current version of a store to a new file. In the end the file is durable, or does not exist. */
  | { kind: "write"; directory: string; path: string; request: BackupRequest }
  /** Reads and verifies a whole file. */
  | { kind: "verify"; path: string }
  /** Verifies a chain of files, and only then builds a store from them in an unused directory. */
  | { kind: "restore"; paths: readonly string[]; directory: string; versionsKept: number }
  /** Writes an earlier version of a store as a store in an unused directory. */
  | {
      kind: "copyVersion";
      from: string;
      directory: string;
      entry: VersionEntry;
      history: HistoryPolicy | null;
      isOrigin: boolean;
    };

export type BackupStart = { cancelled: Int32Array<SharedArrayBuffer> };

export type BackupReport = { header: BackupHeader; records: number; bytes: number; sha256: string };
/** What a job gives. */
export type JobReport<J extends BackupJob> = J extends { kind: "copyVersion" } ? null : BackupReport;

const progressMs = 100;

invariant(parentPort !== null, "a backup is not made by a worker thread");
const { cancelled } = workerData as BackupStart;

let saidAt = 0;

/** Reports progress, and throws if the job was cancelled. @param share 0 to 1 */
function step(share: () => number): void {
  if (Atomics.load(cancelled, 0) !== 0) throw new QuiverError("shutting_down", "The backup was cancelled.");
  const now = performance.now();
  if (now - saidAt < progressMs) return;
  saidAt = now;
  calls.tell("progress", Math.min(1, share()));
}

function withFile<T>(path: string, flags: string, act: (file: number) => T): T {
  const file = openSync(path, flags, 0o600);
  try {
    return act(file);
  } finally {
    closeSync(file);
  }
}

async function withStore<T>(directory: string, act: (store: LmdbStore) => T | Promise<T>): Promise<T> {
  const store = new LmdbStore(directory, collectionTables);
  try {
    return await act(store);
  } finally {
    await store.close();
  }
}

async function write({
  directory,
  path,
  request,
}: Extract<BackupJob, { kind: "write" }>): Promise<BackupReport> {
  try {
    return await withStore(directory, (store) => {
      const readTxn = store.beginRead();
      try {
        return withFile(path, "wx", (file) => {
          const written = writeBackup(readTxn, file, request, (done, total) => step(() => done / total));
          fsyncSync(file);
          return written;
        });
      } finally {
        readTxn.release();
      }
    });
  } catch (error) {
    rmSync(path, { force: true });
    throw error;
  }
}

function verify(path: string, from: number, share: number): BackupReport {
  return withFile(path, "r", (file) =>
    verifyBackup(file, (read, size) => step(() => from + (share * read) / size)),
  );
}

async function restore({
  paths,
  directory,
  versionsKept,
}: Extract<BackupJob, { kind: "restore" }>): Promise<BackupReport> {
  // About a third of the work is verifying, the rest is writing.
  const share = 1 / paths.length;
  const reports = paths.map((path, i) => verify(path, (share * i) / 3, share / 3));
  checkChain(reports.map(({ header }) => header));
  const report = reports[reports.length - 1];
  return withStore(directory, (store) => {
    for (const [i, path] of paths.entries())
      withFile(path, "r", (file) =>
        applyBackup(store, file, versionsKept, (read, size) =>
          step(() => 1 / 3 + (2 / 3) * share * (i + read / size)),
        ),
      );
    checkRestored(store, report.header, () => step(() => 1));
    syncDirectory(directory);
    return report;
  });
}

async function copy({
  from,
  directory,
  entry,
  history,
  isOrigin,
}: Extract<BackupJob, { kind: "copyVersion" }>): Promise<null> {
  let done = 0;
  await withStore(from, (source) =>
    withStore(directory, (store) => {
      const readTxn = source.beginRead();
      try {
        copyVersion(readTxn, store, entry, history, isOrigin, () => step(() => ++done / entry.live));
      } finally {
        readTxn.release();
      }
    }),
  );
  return null;
}

async function run(job: BackupJob): Promise<BackupReport | null> {
  switch (job.kind) {
    case "write":
      return write(job);
    case "verify":
      return verify(job.path, 0, 1);
    case "restore":
      return restore(job);
    case "copyVersion":
      return copy(job);
  }
}

const calls = new Calls(parentPort, {
  async run(job: BackupJob) {
    try {
      return await run(job);
    } catch (thrown) {
      const error = fileError(thrown);
      if (isQuiverError(error)) throw error;
      throw new QuiverError("internal", "The backup failed; nothing was changed.", {}, { cause: error });
    }
  },
});
