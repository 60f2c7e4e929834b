// Why has a disk refused a write, and which error does the caller get?
//
// This is not part of the store module because threads that never open a store need it too. They must not load lmdb's native module:
// a thread that ends while it loads one takes the process with it (`napi_throw`).

import { statfsSync } from "node:fs";
import { QuiverError } from "@quiverdb/protocol/errors";

const fullDisk = /ENOSPC|No space|MAP_FULL|EDQUOT|quota/i;
const readOnlyDisk = /EROFS|Read-only file system/i;
const ioError = /EIO|Input\/output error/i;

/**
 * Bytes that a commit leaves free, so that small commits (deletions, aborts) still succeed where large ones are refused.
 *
 * The reserve, and the probe whether the disk accepts writes, also protect LMDB, which does not survive a failing write: lmdb-js 3.5.6
 * prints a message of up to 120 characters into 100 bytes (`mdb_page_flush`) and so corrupts the heap.
 */
export const reserveBytes = 128 * 1024;

/** Free bytes of a disk for unprivileged users; undefined where the system does not report them. */
export function freeBytes(path: string): number | undefined {
  try {
    const { blocks, bavail, bsize } = statfsSync(path);
    return blocks === 0 ? undefined : bavail * bsize;
  } catch {
    // If something is wrong with the disk, the write that follows reports it.
    return undefined;
  }
}

/**
 * Translates a failure of LMDB or of the disk into an error of the table. Errors of our own pass through unchanged.
 * @param path of the file or directory that was written, if known
 * @param isInDoubt whether the request may have been applied in spite of the failure
 */
export function storageError(
  error: unknown,
  { path, isInDoubt = false }: { path?: string; isInDoubt?: boolean } = {},
): unknown {
  if (error instanceof QuiverError || !(error instanceof Error)) return error;
  if (error.message.startsWith("Invariant broken") || error instanceof TypeError) return error;
  if (isInDoubt)
    return new QuiverError(
      "storage_failed",
      "The disk failed while the request was made durable. It was applied as a whole or not at all; read the data to find out once the store is open again.",
      { applied: "unknown" },
      { cause: error },
    );
  const kind = diskFailure(error, path);
  return new QuiverError(
    kind === "full" ? "storage_full" : "storage_failed",
    failureMessages[kind],
    {},
    { cause: error },
  );
}

export const failureMessages = {
  full: "The disk is full; nothing of the request was applied. Free some space and send it again.",
  "read-only":
    "The disk is read-only; nothing of the request was applied. Make it writable and send the request again.",
  other: "The store failed to write; nothing of the request was applied.",
} as const;

/** Why a disk refused a write. @param path a path on that disk, if known */
export function diskFailure(error: Error, path?: string): keyof typeof failureMessages {
  if (fullDisk.test(error.message)) return "full";
  if (readOnlyDisk.test(error.message)) return "read-only";
  // When a full disk cuts a write short, LMDB reports an I/O error.
  const isCutShort =
    path !== undefined && ioError.test(error.message) && (freeBytes(path) ?? reserveBytes) < reserveBytes;
  return isCutShort ? "full" : "other";
}
