// How is the data directory of a stopped server checked?
//
// The check reads the files without LMDB, changes nothing, and does not crash on damaged content (collection/verify.ts). Users need it
// most for a server that does not start.

// First: a checkpoint is restored with the kernels, and this may be the only module of the engine in its process.
import "../../process/node-host.ts";
import { existsSync, readdirSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { QuiverError } from "@quiverdb/protocol/errors";
import type { CheckReport, Finding } from "@quiverdb/protocol/shapes/check";
import type { CatalogEntry } from "../../collection/definition.ts";
import { verifyCatalog } from "../../collection/verify-catalog.ts";
import { catalogDirectory, collectionDirectory, collectionsDirectory } from "../../process/data-directory.ts";
import { lockForReading } from "../../process/directory-lock.ts";
import { checkSnapshots } from "../snapshots/snapshot-check.ts";
import { checkCollection, Report } from "./collection-check.ts";

export type DirectoryCheckOptions = {
  /** Only the collection with this name, and its snapshots. */
  readonly collection?: string | undefined;
  onFinding?(finding: Finding): void;
  /** Called with what is being read, and the number of entries read since the last call. */
  onProgress?(collection: string, entries: number): void;
};

/**
 * Checks the data directory of a database that is not open.
 * @throws data_directory_in_use; storage_failed if it is not a data directory; collection_not_found
 */
export async function checkDirectory(
  dataDir: string,
  options: DirectoryCheckOptions = {},
): Promise<CheckReport> {
  if (!existsSync(join(catalogDirectory(dataDir), "data.mdb")))
    throw new QuiverError(
      "storage_failed",
      `The directory ${dataDir} has no catalog/data.mdb: it is not a data directory of Quiver, or its catalog is lost.`,
    );
  const unlock = lockForReading(realpathSync(dataDir));
  try {
    return await checkUnused(dataDir, options);
  } finally {
    unlock();
  }
}

async function checkUnused(dataDir: string, options: DirectoryCheckOptions): Promise<CheckReport> {
  const report = new Report(options.onFinding);
  const { entries, isWhole } = verifyCatalog(catalogDirectory(dataDir), (finding) => report.add(finding));
  const places = placesOf(dataDir, entries, isWhole);
  const wanted = places.filter(({ name }) => options.collection === undefined || name === options.collection);
  for (const { name, internalId, entry } of wanted) {
    const definition = entry?.definition;
    await checkCollection(
      { name, definition, directory: collectionDirectory(dataDir, internalId) },
      report,
      (entries) => options.onProgress?.(name, entries),
    );
  }
  checkSnapshots(dataDir, report, options);
  // Snapshots outlive their collection.
  const isNothing = wanted.length === 0 && report.snapshots === 0 && report.total === 0;
  if (options.collection !== undefined && isNothing)
    throw new QuiverError("collection_not_found", `There is no collection named '${options.collection}'.`);
  return report.toShape();
}

/** Where a collection is. Without an entry in the catalog, it has the name of its directory. */
export type Place = { name: string; internalId: string; entry: CatalogEntry | undefined };

/** The collections of the catalog. If the catalog is damaged, also directories that it does not name. */
export function placesOf(dataDir: string, entries: readonly CatalogEntry[], isWhole: boolean): Place[] {
  const places: Place[] = entries.map((entry) => ({
    name: entry.definition.name,
    internalId: entry.internalId,
    entry,
  }));
  if (isWhole || !existsSync(collectionsDirectory(dataDir))) return places;
  const known = new Set(places.map(({ internalId }) => internalId));
  for (const internalId of readdirSync(collectionsDirectory(dataDir)))
    if (!known.has(internalId)) places.push({ name: internalId, internalId, entry: undefined });
  return places;
}
