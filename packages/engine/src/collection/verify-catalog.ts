// Is a catalog intact, and what can be read of it?
//
// The check reads the store's file with our own reader, because LMDB trusts its file.

import type { Finding } from "@quiverdb/protocol/shapes/check";
import { lenientText, text, toHex } from "../base/bytes.ts";
import { LmdbFile } from "../storage/lmdb-file.ts";
import { verifyFile } from "../storage/lmdb-verify.ts";
import { payloadOf } from "../storage/store.ts";
import type { CatalogEntry } from "./definition.ts";
import { requireKnownFormat } from "./format.ts";
import { catalogTables } from "./tables.ts";

/** What could be read of a catalog. */
export type VerifiedCatalog = {
  readonly entries: CatalogEntry[];
  readonly credentials: [key: string, value: unknown][];
  /** Names of the collections whose entries fail their checksum, if the names are readable. */
  readonly damagedNames: string[];
  /** Whether every existing entry was readable. */
  readonly isWhole: boolean;
  /** Whether the database may be opened: pages, format and credentials are intact. Entries of collections may be damaged. */
  readonly isSound: boolean;
};

/** Checks the catalog's store with our own reader. @throws format_too_new, format_too_old, and if the file cannot be opened at all */
export function verifyCatalog(directory: string, onFinding: (finding: Finding) => void): VerifiedCatalog {
  const entries: CatalogEntry[] = [];
  const credentials: [string, unknown][] = [];
  const damagedNames: string[] = [];
  let isWhole = true;
  let isSound = true;
  const bad = (finding: Omit<Finding, "kind">) => {
    isWhole = false;
    onFinding({ kind: "catalog", ...finding });
  };
  const file = new LmdbFile(directory);
  try {
    requireKnownFormat(file, "catalog");
    verifyFile(file, catalogTables, ({ table, page, problem }) => {
      isSound = false;
      bad({ table, ...(page !== undefined && { page }), message: `In the catalog, ${problem}.` });
    });
    if (file.commitMarkerProblem !== undefined)
      onFinding({
        kind: "catalog",
        derived: true,
        message: `In the catalog, ${file.commitMarkerProblem}. It is rewritten when the catalog is opened.`,
      });
    for (const table of catalogTables)
      for (const { key, stored } of file.entries(table)) {
        const body = stored && payloadOf(table, key, stored);
        const name = lenientText(key);
        const at = { table, key: toHex(key), ...(table === "collections" && { collection: name }) };
        if (body === undefined) {
          if (table === "collections") damagedNames.push(name);
          // An unreadable credential must not be taken for a missing one.
          else isSound = false;
          bad({
            ...at,
            message: `In the catalog, the entry of ${toHex(key)} in '${table}' fails its checksum.`,
          });
          continue;
        }
        if (table === "meta") continue;
        const value = JSON.parse(text(body)) as unknown;
        if (table === "credentials") credentials.push([name, value]);
        if (table !== "collections") continue;
        const entry = value as CatalogEntry;
        if (
          entry.definition.name !== name ||
          entries.some((other) => other.internalId === entry.internalId)
        ) {
          damagedNames.push(name);
          bad({ ...at, message: `In the catalog, the entry of '${name}' is that of another collection.` });
        } else entries.push(entry);
      }
  } finally {
    file.close();
  }
  return { entries, credentials, damagedNames, isWhole, isSound };
}
