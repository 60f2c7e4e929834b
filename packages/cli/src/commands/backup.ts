// quiver backup
//
//   create a snapshot on the server -> download it to a temporary file -> compare its SHA-256 -> rename it -> delete the snapshot

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, statSync } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { type Collection, type Database, isQuiverError } from "@quiverdb/client";
import type { Snapshot } from "@quiverdb/protocol/shapes/snapshot";
import type { Command } from "commander";
import {
  backupFileName,
  byCollection,
  findBackupFiles,
  newest,
  readBackupFile,
} from "../backup/backup-files.ts";
import { discardSnapshot } from "../backup/discard.ts";
import { showStage } from "../backup/stages.ts";
import { type ConnectionOptions, connect, QuiverCommand, withConnection } from "../command.ts";
import { CommandError, UsageError } from "../exit-codes.ts";
import { interruptible } from "../interruption.ts";
import { printJson, printLine } from "../output.ts";
import { countOf, formatBytes, formatDuration } from "../values.ts";

type BackupOptions = ConnectionOptions & {
  all?: boolean;
  output: string;
  since?: string;
  incremental?: boolean;
  keep?: boolean;
  overwrite?: boolean;
  quiet?: boolean;
};

/** A backup has no time limit. */
const timeoutMs = 24 * 3_600_000;
const pollMs = 300;

export function backupCommand(): Command {
  const command = new QuiverCommand("backup")
    .argument("[collection]")
    .option("--all", "all collections, each at its own version")
    .option("--output <path>", "a file, or a directory in which file names are generated", ".")
    .option("--since <file>", "only the changes since this backup")
    .option(
      "--incremental",
      "only the changes since the newest backup in the directory, and no file where nothing has changed; a full backup if there is none or the change log is too short",
    )
    .option("--overwrite", "replace the file that --output names")
    .option("--keep", "keep the snapshot on the server as well")
    .option("--quiet", "do not show progress")
    .addHelpText(
      "after",
      `
Writes and searches continue meanwhile. A file appears when it is complete and its checksum is verified.

  quiver backup docs --output docs.qbackup
  quiver backup --all --incremental --output /backups
  quiver restore /backups --all`,
    );
  return withConnection(command).action((name: string | undefined, options: BackupOptions) =>
    interruptible(
      (signal) => run(name, options, signal),
      "Backups that are complete were kept, others removed.",
    ),
  );
}

type Since = { version: number; hash: string };
type Report = {
  collection: string;
  /** Null: nothing has changed since the last backup, so that none was written. */
  file: string | null;
  version: number;
  since: number | null;
  records: number;
  bytes: number;
  seconds: number;
};

async function run(name: string | undefined, options: BackupOptions, signal: AbortSignal): Promise<void> {
  if ((name === undefined) !== (options.all === true))
    throw new UsageError("Name a collection, or give --all.");
  if (options.since !== undefined && (options.all || options.incremental))
    throw new UsageError(
      "--since names one backup of one collection; with --all or a directory, use --incremental.",
    );
  const isDirectory = options.all || options.output.endsWith("/") || isDirectoryAt(options.output);
  if (options.incremental && !isDirectory)
    throw new UsageError("--incremental needs a directory with the earlier backups as --output.");
  if (!isDirectory && !options.overwrite && existsSync(options.output))
    throw new UsageError(`${options.output} exists. Name another file, or replace it with --overwrite.`);
  if (isDirectory) mkdirSync(options.output, { recursive: true });
  const client = await connect(options, { timeoutMs });
  const names = name === undefined ? (await client.listCollections()).map((each) => each.name) : [name];
  const earlier = options.incremental ? byCollection(findBackupFiles([options.output])) : new Map();
  const reports: Report[] = [];
  for (const each of names) {
    const last =
      options.since === undefined ? newest(earlier.get(each) ?? []) : readBackupFile(options.since);
    const pathOf = (snapshot: Snapshot) =>
      isDirectory
        ? join(options.output, backupFileName(each, snapshot.version_number, snapshot.since_version))
        : options.output;
    const since = last?.heading ?? null;
    const unchanged =
      options.incremental && since !== null && (await isCurrent(client.collection(each), since));
    const report = unchanged
      ? { collection: each, file: null, version: since.version, since: since.version, ...noWork }
      : await backUp(client, each, since, pathOf, options, signal);
    reports.push(report);
    if (!options.json) printLine(sentence(report));
  }
  if (options.json) printJson(options.all ? reports : reports[0]);
}

const isDirectoryAt = (path: string): boolean =>
  statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;

const sentence = ({ collection, file, version, since, records, bytes, seconds }: Report): string =>
  file === null
    ? `${JSON.stringify(collection)} has not changed since its last backup, of version ${version}; nothing was written.`
    : `Backed up ${JSON.stringify(collection)}, version ${version}${since === null ? "" : ` since ${since}`}: ` +
      `${countOf(records, "record")}, ${formatBytes(bytes)} in ${formatDuration(seconds * 1000)}, ${file}`;

const noWork = { records: 0, bytes: 0, seconds: 0 };

/** Whether a version is the newest one. */
async function isCurrent(collection: Collection, { version, hash }: Since): Promise<boolean> {
  const current = await collection.currentVersion();
  return current.version_number === version && current.hash === hash;
}

async function backUp(
  client: Database,
  name: string,
  since: Since | null,
  pathOf: (snapshot: Snapshot) => string,
  options: BackupOptions,
  signal: AbortSignal,
): Promise<Report> {
  const startedAt = Date.now();
  const collection = client.collection(name);
  const snapshot = await makeSnapshot(collection, since, options);
  const file = pathOf(snapshot);
  try {
    // A snapshot that is being created is waited for, so that it can be deleted.
    signal.throwIfAborted();
    await download(collection, snapshot, file, options, signal);
  } finally {
    if (!options.keep) await discardSnapshot(collection, snapshot.id);
  }
  return {
    collection: name,
    file,
    version: snapshot.version_number,
    since: snapshot.since_version,
    records: snapshot.records_stored,
    bytes: snapshot.size_bytes,
    seconds: (Date.now() - startedAt) / 1000,
  };
}

async function makeSnapshot(
  collection: Collection,
  since: Since | null,
  options: BackupOptions,
): Promise<Snapshot> {
  const stage = showStage(`${collection.name}: snapshot`, null, {
    quiet: options.quiet ?? false,
    stream: process.stderr,
  });
  const create = (from: Since | null) =>
    collection.createSnapshot(from === null ? {} : { sinceVersion: from.version, sinceHash: from.hash });
  const poll = setInterval(() => {
    // Progress is optional: if it cannot be read, the backup itself reports the error.
    collection.snapshots({ retries: 0 }).then(
      ({ running }) => stage.update(running.at(-1)?.percentage_complete ?? 0),
      () => undefined,
    );
  }, pollMs);
  try {
    return await create(since);
  } catch (error) {
    if (!options.incremental || since === null || !isQuiverError(error, "version_not_kept")) throw error;
    process.stderr.write(
      `quiver: ${error.message} Creating a full backup of ${JSON.stringify(collection.name)} instead.\n`,
    );
    return await create(null);
  } finally {
    clearInterval(poll);
    stage.end();
  }
}

async function download(
  collection: Collection,
  { id, sha256, size_bytes }: Snapshot,
  path: string,
  options: BackupOptions,
  signal: AbortSignal,
): Promise<void> {
  const stage = showStage(`${collection.name}: download`, size_bytes, {
    quiet: options.quiet ?? false,
    stream: process.stderr,
  });
  const partial = `${path}.partial`;
  const file = await open(partial, "w", 0o600);
  try {
    const hash = createHash("sha256");
    let bytes = 0;
    try {
      for await (const chunk of collection.downloadSnapshot(id, { signal })) {
        hash.update(chunk);
        await file.appendFile(chunk);
        bytes += chunk.length;
        stage.update(bytes);
      }
      await file.sync();
    } finally {
      await file.close();
      stage.end();
    }
    const found = hash.digest("hex");
    if (found !== sha256)
      throw new CommandError(
        `The downloaded file has the SHA-256 ${found}, but the server reported ${sha256}. Try again.`,
      );
    await rename(partial, path);
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  }
}
