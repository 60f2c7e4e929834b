// How is a database opened?
//
// open    lock the data directory -> start the writer -> read the catalog -> remove what interrupted creations
//         and deletions left -> open every collection -> the loaded ones catch up in the background
//
// From then on, open-database.ts.

import "../process/node-host.ts";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { QuiverError } from "@quiverdb/protocol/errors";
import { refuseUnknownOptions } from "@quiverdb/protocol/fields";
import { limits } from "@quiverdb/protocol/limits";
import type { Finding } from "@quiverdb/protocol/shapes/check";
import { type VerifiedCatalog, verifyCatalog } from "../collection/verify-catalog.ts";
import {
  catalogDirectory,
  collectionsDirectory,
  openingError,
  takeDataDirectory,
} from "../process/data-directory.ts";
import { Writer } from "../runtime/writer.ts";
import { makeCatalog } from "./catalog.ts";
import type { Database, DatabaseLog } from "./contract.ts";
import { OpenDatabase, type OpenOptions } from "./open-database.ts";
import type { ReplicatedOptions } from "./replication.ts";

const silent: DatabaseLog = { info: () => {}, warn: () => {}, error: () => {} };

const optionNames = [
  "dataDir",
  "memoryBudgetBytes",
  "transactionIdleMs",
  "builderThreads",
  "readerThreads",
  "indexWaitMs",
  "versionsKept",
  "lockWaitMs",
  "force",
  "log",
  "clock",
  "replication",
] as const satisfies (keyof ReplicatedOptions)[];

/**
 * Opens or creates the database in a directory. A collection with a damaged store is quarantined (quarantine.ts) and does not affect the
 * others; a catalog with damaged pages prevents the database from opening.
 * @throws data_directory_in_use, data_directory_foreign, storage_failed, format_too_new, format_too_old, data_corrupted
 */
export async function openDatabase(given: ReplicatedOptions): Promise<Database> {
  refuseUnknownOptions(given, optionNames);
  const log = given.log ?? silent;
  const options: OpenOptions = {
    ...given,
    log,
    clock: given.clock ?? Date.now,
    versionsKept: given.versionsKept ?? limits.versionsKeptDefault,
  };
  const release = await takeDataDirectory(options.dataDir, {
    waitMs: options.lockWaitMs,
    onWait: (message, waitMs) => log.warn({ wait_ms_max: waitMs }, message),
    clock: options.clock,
    force: options.force,
  });
  let writer: Writer | null = null;
  try {
    const catalog = readVerified(options.dataDir);
    if (catalog === undefined) await makeCatalog(options.dataDir);
    writer = await Writer.start(
      {
        dataDir: options.dataDir,
        versionsKept: options.versionsKept,
      },
      (error) => log.error({ err: error }, "the writer thread has failed"),
    );
    const database = new OpenDatabase(options, writer, release);
    await database.open(catalog);
    return database;
  } catch (error) {
    await writer?.stop();
    release();
    throw openingError(options.dataDir, error);
  }
}

/** The catalog, read before LMDB opens it; undefined if there is none yet. @throws data_corrupted */
function readVerified(dataDir: string): VerifiedCatalog | undefined {
  const directory = catalogDirectory(dataDir);
  if (!existsSync(join(directory, "data.mdb"))) {
    if (readdirSync(collectionsDirectory(dataDir)).length === 0) return undefined;
    throw new QuiverError(
      "data_corrupted",
      "The data directory has collections, but its catalog is missing; nothing was changed. Restore catalog/data.mdb from a backup, or save the data with 'quiver repair DIR --into NEWDIR'.",
    );
  }
  const findings: Finding[] = [];
  const catalog = verifyCatalog(directory, (finding) => findings.push(finding));
  if (catalog.isSound) return catalog;
  throw new QuiverError(
    "data_corrupted",
    `The catalog is damaged, so the collections are unknown; nothing was changed. ${findings[0].message} Restore it from a backup, or save the intact data with 'quiver repair DIR --into NEWDIR'.`,
    { findings: findings.slice(0, 5), findings_total: findings.length },
  );
}
