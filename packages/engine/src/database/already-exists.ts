// The error for a name that is taken.

import { QuiverError } from "@quiverdb/protocol/errors";

/** @param advice what to do */
export function alreadyExists(name: string, advice: string): QuiverError {
  return new QuiverError(
    "collection_already_exists",
    `A collection named '${name}' already exists. ${advice}`,
    {
      name,
    },
  );
}
