// What happens to a collection whose store is damaged?
//
// Every start verifies the file of a store before LMDB opens it (collection/verify.ts), because LMDB would silently lose a part of a
// damaged tree, or crash the process. A damaged collection is *quarantined*: it stays in the list, every call on it gets an error that
// says what is wrong, and nothing in its directory changes. The other collections are served as usual, so damage cannot make every
// start crash. A record, vector or staged operation that fails its own checksum quarantines nothing: only reading it fails (C1).

import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { isQuiverError, QuiverError } from "@quiverdb/protocol/errors";
import type { Finding } from "@quiverdb/protocol/shapes/check";
import type { CatalogEntry } from "../collection/definition.ts";
import { isBearable, verifyCollection } from "../collection/verify.ts";
import { ask, type Builders } from "../index/builders.ts";
import { storeVerification } from "../runtime/storage-tasks.ts";

/** A collection that is not served. */
export type Quarantined = {
  readonly name: string;
  /** Undefined if the catalog's entry itself is damaged. */
  readonly entry: CatalogEntry | undefined;
  readonly error: QuiverError;
};

/** The calling thread verifies stores up to this size. A builder thread verifies larger ones, but takes longer to start. */
const inPlaceBytesMax = 8 * 1024 * 1024;

/** Findings that an error names. */
const namedMax = 5;

/** Findings of a quick check of a store that is not open. */
export async function verifyStore(
  directory: string,
  { definition }: CatalogEntry,
  builders: Builders,
): Promise<Finding[]> {
  const path = join(directory, "data.mdb");
  if (!existsSync(path)) return [{ kind: "file", message: "The store's file data.mdb is missing." }];
  if (statSync(path).size > inPlaceBytesMax)
    return ask(builders, storeVerification, { directory, definition });
  const findings: Finding[] = [];
  verifyCollection(directory, {
    depth: "quick",
    definition,
    onFinding: (finding) => findings.push(finding),
  });
  return findings;
}

/** The error of every call on a quarantined collection; undefined if the findings allow opening it. */
export function quarantineError(name: string, findings: readonly Finding[]): QuiverError | undefined {
  const grave = findings.filter((finding) => !isBearable(finding));
  if (grave.length === 0) return undefined;
  const first = grave.slice(0, namedMax).map(({ message }) => message);
  return damagedError(
    name,
    `${first.join(" ")}${grave.length > namedMax ? ` And ${grave.length - namedMax} more.` : ""}`,
    {
      findings: grave.slice(0, namedMax),
      findings_total: grave.length,
    },
  );
}

/** The error of every call on a collection whose store passed verification but could not be opened. */
export function unopenedError(name: string, cause: unknown): QuiverError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new QuiverError(
    isQuiverError(cause) ? cause.code : "storage_failed",
    `The collection '${name.slice(0, 300)}' could not be opened and is not served; the others are. ${why} Start the server again when this is fixed.`,
    { collection: name.slice(0, 300) },
    { cause },
  );
}

/** The error of every call on a collection whose stored data is damaged. */
export function damagedError(name: string, what: string, details: Record<string, unknown> = {}): QuiverError {
  return new QuiverError(
    "data_corrupted",
    `The collection '${name.slice(0, 300)}' is damaged and not served; the others are. ${what} Restore it from a backup, or stop the server and save the intact data with 'quiver repair DIR --into NEWDIR'.`,
    { collection: name.slice(0, 300), ...details },
  );
}
