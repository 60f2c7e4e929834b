// quiver restore

import { createReadStream } from "node:fs";
import { Readable } from "node:stream";
import type { Database } from "@quiverdb/client";
import type { RestoredCollection } from "@quiverdb/protocol/shapes/snapshot";
import type { Command } from "commander";
import { type BackupFile, byCollection, findBackupFiles, newestChain } from "../backup/backup-files.ts";
import { discardSnapshot } from "../backup/discard.ts";
import { showStage } from "../backup/stages.ts";
import { type ConnectionOptions, connect, QuiverCommand, withConnection } from "../command.ts";
import { CommandError, UsageError } from "../exit-codes.ts";
import { printJson, printLine } from "../output.ts";
import { countOf, formatDuration } from "../values.ts";

type RestoreOptions = ConnectionOptions & {
  all?: boolean;
  collection?: string;
  as?: string;
  overwrite?: boolean;
  quiet?: boolean;
};

const timeoutMs = 24 * 3_600_000;

export function restoreCommand(): Command {
  const command = new QuiverCommand("restore")
    .argument(
      "<path...>",
      "backup files in any order, or directories with backup files; the newest chain is used",
    )
    .option("--all", "every collection that has a backup")
    .option("--collection <name>", "the collection to restore, if the files contain several")
    .option("--as <name>", "the name of the restored collection (default: its own)")
    .option("--overwrite", "replace an existing collection of that name (by default this is an error)")
    .option("--quiet", "do not show progress")
    .addHelpText(
      "after",
      `
Every file is verified before anything is changed, and the collection is created or replaced atomically. Transactions are
not in a backup. Indexes are rebuilt in the background; searches are answered meanwhile.

  quiver restore docs.qbackup --as docs-copy
  quiver restore /backups --collection docs --overwrite`,
    );
  return withConnection(command).action(run);
}

async function run(paths: readonly string[], options: RestoreOptions): Promise<void> {
  const { all, collection, as } = options;
  if (all && (collection !== undefined || as !== undefined))
    throw new UsageError("--all restores every collection under its own name; omit --collection and --as.");
  const files = byCollection(findBackupFiles(paths));
  const chosen = all ? [...files.keys()].sort() : [chooseOne(files, collection)];
  const chains = chosen.map((name) => newestChain(files.get(name) ?? []));
  const client = await connect(options, { timeoutMs, mayCreate: true });
  const restored: RestoredCollection[] = [];
  for (const [i, chain] of chains.entries()) {
    const startedAt = Date.now();
    const done = await restore(client, chain, as ?? chosen[i], options);
    restored.push(done);
    if (!options.json)
      printLine(
        `Restored ${JSON.stringify(done.name)}, version ${done.version_number}: ${countOf(done.vector_count, "record")} from ${countOf(chain.length, "file")} in ${formatDuration(Date.now() - startedAt)}.`,
      );
  }
  if (options.json) printJson(all ? restored : restored[0]);
}

function chooseOne(files: ReadonlyMap<string, BackupFile[]>, wanted: string | undefined): string {
  const names = [...files.keys()];
  if (names.length === 0) throw new CommandError("There are no backup files here.");
  if (wanted !== undefined) {
    if (files.has(wanted)) return wanted;
    throw new CommandError(`There is no backup of ${JSON.stringify(wanted)} here, only of ${listOf(names)}.`);
  }
  if (names.length > 1)
    throw new UsageError(`The files contain ${listOf(names)}; choose one with --collection, or give --all.`);
  return names[0];
}

const listOf = (names: readonly string[]): string =>
  names
    .slice(0, 10)
    .map((name) => JSON.stringify(name))
    .join(", ") + (names.length > 10 ? ", ..." : "");

async function restore(
  client: Database,
  chain: readonly BackupFile[],
  name: string,
  options: RestoreOptions,
): Promise<RestoredCollection> {
  const uploaded: { id: string; collection: string }[] = [];
  const show = { quiet: options.quiet ?? false, stream: process.stderr };
  try {
    const bytes = chain.reduce((sum, file) => sum + file.bytes, 0);
    const stage = showStage(`${name}: upload`, bytes, show);
    let sent = 0;
    try {
      for (const { path } of chain) {
        const before = sent;
        const snapshot = await client.uploadSnapshot(() => {
          sent = before;
          return countedStream(path, (count) => {
            sent += count;
            stage.update(sent);
          });
        });
        uploaded.push({ id: snapshot.id, collection: snapshot.collection_name });
      }
    } finally {
      stage.end();
    }
    if (!show.quiet) process.stderr.write(`${name}: restoring\n`);
    const snapshots = uploaded.map(({ id }) => id);
    return await client.collection(name).restore({ snapshots, overwrite: options.overwrite ?? false });
  } finally {
    for (const { id, collection } of uploaded) await discardSnapshot(client.collection(collection), id);
  }
}

function countedStream(path: string, onBytes: (count: number) => void): ReadableStream<Uint8Array> {
  async function* chunks(): AsyncGenerator<Uint8Array> {
    for await (const chunk of createReadStream(path, { highWaterMark: 256 * 1024 })) {
      onBytes((chunk as Uint8Array).length);
      yield chunk as Uint8Array;
    }
  }
  return Readable.toWeb(Readable.from(chunks(), { objectMode: false })) as ReadableStream<Uint8Array>;
}
