// What does a failure to read or write the file of a snapshot mean?

import { QuiverError } from "@quiverdb/protocol/errors";

/** Translates a failure of the file system into an error of the table. Other errors pass through unchanged. */
export function fileError(error: unknown): unknown {
  const { code } = error as NodeJS.ErrnoException;
  if (error instanceof QuiverError || typeof code !== "string" || !(error instanceof Error)) return error;
  const isFull = code === "ENOSPC" || code === "EDQUOT";
  return new QuiverError(
    isFull ? "storage_full" : "storage_failed",
    isFull
      ? "The disk is full; nothing was stored. Free some space, or delete snapshots, and send the request again."
      : `The file of a snapshot could not be read or written (${code}); nothing was changed.`,
    {},
    { cause: error },
  );
}

/** Describes an error in reading a snapshot's file. Errors of our own code are thrown on. */
export function problemWords(error: unknown): string {
  if (error instanceof QuiverError) return error.message.replace(" Nothing was changed.", "");
  const { code } = error as NodeJS.ErrnoException;
  if (typeof code !== "string") throw error;
  return code === "ENOENT" ? "Its file is missing." : `Its file cannot be read (${code}).`;
}
