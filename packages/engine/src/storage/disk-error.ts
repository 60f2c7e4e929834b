// Why has a disk refused a write, and what is whoever asked told?
//
// Apart from the store itself: threads that never open a store ask this too, and must not load lmdb's native module. A thread that is
// ended while it loads one takes the process with it (`napi_throw`).

import { statfsSync } from "node:fs";
import { QuiverError } from "@quiver/protocol/errors";

const fullDisk = /ENOSPC|No space|MAP_FULL|EDQUOT|quota/i;
const readOnlyDisk = /EROFS|Read-only file system/i;
const ioError = /EIO|Input\/output error/i;

/**
 * What a commit leaves free: small ones, such as deletions and aborts, find room where large ones were refused. That, and the question
 * whether the disk takes writes, is also for LMDB's sake. It is not safe against a failing write: lmdb-js 3.5.6 prints a message
 * of up to 120 characters into 100 bytes (`mdb_page_flush`), and overwrites what lies behind them in the heap.
 */
export const reserveBytes = 128 * 1024;

/** Bytes that a disk has free, for users without privileges; unknown where the system does not tell. */
export function freeBytes(path: string): number | undefined {
  try {
    const { blocks, bavail, bsize } = statfsSync(path);
    return blocks === 0 ? undefined : bavail * bsize;
  } catch {
    // The write tells what is wrong with the disk, if anything is.
    return undefined;
  }
}

/**
 * The error of the table for a failure of LMDB or the disk below it; bugs of ours pass through.
 * @param path what was written, when that is known
 * @param isInDoubt whether what was asked for may have been applied all the same
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
      "The disk failed while the request was made durable. Whether it was applied, as a whole, can be read when the store is open again.",
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

/** Why a disk has refused a write. @param path on that disk, where it is known */
export function diskFailure(error: Error, path?: string): keyof typeof failureMessages {
  if (fullDisk.test(error.message)) return "full";
  if (readOnlyDisk.test(error.message)) return "read-only";
  // LMDB takes a write that a full disk has cut short for an I/O error.
  const isCutShort =
    path !== undefined && ioError.test(error.message) && (freeBytes(path) ?? reserveBytes) < reserveBytes;
  return isCutShort ? "full" : "other";
}
