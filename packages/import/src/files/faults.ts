// How does a reader say that a file, or an option, is not what it should be?

import { QuiverError } from "@quiverdb/client";

/** The error for a file that cannot be read, or not as what it should be. */
export const fileFault = (message: string, cause?: unknown): QuiverError =>
  new QuiverError("source_failed", message, {}, { cause });

/** The error for an option that is missing, or does not fit the files. */
export const optionFault = (message: string): QuiverError => new QuiverError("invalid_request", message);
