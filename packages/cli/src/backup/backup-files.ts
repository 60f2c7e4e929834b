// Which backup files exist here, and which of them form the newest version of a collection?
//
// The first block of a file identifies its contents; file names have no meaning.

import { createHash } from "node:crypto";
import { closeSync, fstatSync, openSync, readdirSync, readSync, statSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import {
  type BackupHeading,
  backupMagic,
  backupPrefixBytes,
  blockHeadBytes,
  blockKinds,
} from "@quiverdb/protocol/backup-format";
import { CommandError } from "../exit-codes.ts";

export type BackupFile = { readonly path: string; readonly bytes: number; readonly heading: BackupHeading };

const backupSuffix = ".qbackup";

const headerBytesMax = 16 * 1024 * 1024;

/** The header of a file. The server verifies the rest of it. @throws CommandError if the file does not start like a backup */
export function readBackupFile(path: string): BackupFile {
  const wrong = (why: string) => new CommandError(`${path} ${why}.`);
  let file: number;
  try {
    file = openSync(path, "r");
  } catch (error) {
    throw new CommandError(`${path}: ${(error as Error).message}`);
  }
  try {
    const { size } = fstatSync(file);
    const begin = Buffer.alloc(backupPrefixBytes + blockHeadBytes);
    if (
      readSync(file, begin, 0, begin.length, 0) < begin.length ||
      !begin.toString("latin1").startsWith(backupMagic)
    )
      throw wrong("is not a Quiver backup");
    const head = begin.subarray(backupPrefixBytes);
    const length = head.readUInt32LE(4);
    if (head[0] !== blockKinds.header || length > headerBytesMax) throw wrong("is damaged: it has no header");
    const bytes = Buffer.alloc(length);
    const read = readSync(file, bytes, 0, length, begin.length);
    if (read < length || crc32(bytes, crc32(head.subarray(0, 16))) !== head.readUInt32LE(16))
      throw wrong("is damaged: its header fails its checksum");
    return { path, bytes: size, heading: JSON.parse(bytes.toString()) as BackupHeading };
  } finally {
    closeSync(file);
  }
}

/** The backup files among paths; for a directory, the files in it. */
export function findBackupFiles(paths: readonly string[]): BackupFile[] {
  return paths.flatMap((path) => {
    if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) return [readBackupFile(path)];
    return readdirSync(path)
      .filter((name) => name.endsWith(backupSuffix))
      .map((name) => readBackupFile(join(path, name)));
  });
}

/** Files grouped by their collection. */
export function byCollection(files: readonly BackupFile[]): Map<string, BackupFile[]> {
  const grouped = new Map<string, BackupFile[]>();
  for (const file of files) {
    const { name } = file.heading.collection;
    grouped.set(name, [...(grouped.get(name) ?? []), file]);
  }
  return grouped;
}

/** Newest last; of two files with the same version, the one that was created later. */
const byAge = (a: BackupFile, b: BackupFile) =>
  a.heading.created_ms - b.heading.created_ms || a.heading.version - b.heading.version;

/** The file that was created last. */
export function newest(files: readonly BackupFile[]): BackupFile | undefined {
  return [...files].sort(byAge).at(-1);
}

/**
 * The chain of files that ends in the newest one: a full backup and the incremental ones after it.
 * @throws CommandError if the base of an incremental backup is missing
 */
export function newestChain(files: readonly BackupFile[]): BackupFile[] {
  const sorted = [...files].sort(byAge);
  const chain: BackupFile[] = [];
  for (let at = sorted.at(-1); at !== undefined; ) {
    chain.unshift(at);
    const { since } = at.heading;
    if (since === null) return chain;
    const before = sorted.findLast(
      ({ heading }) =>
        heading.version === since.version &&
        heading.hash === since.hash &&
        !chain.some((file) => file.heading === heading),
    );
    if (before === undefined)
      throw new CommandError(
        `${at.path} is based on version ${since.version}, and there is no backup of that version here; give its file as well.`,
      );
    at = before;
  }
  return chain;
}

/** A file name for a backup: readable, and safe on every file system. */
export function backupFileName(collection: string, version: number, since: number | null): string {
  const readable = collection.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, 80);
  const own =
    readable === collection ? "" : `-${createHash("sha256").update(collection).digest("hex").slice(0, 8)}`;
  return `${readable}${own}-v${version}${since === null ? "" : `-since-v${since}`}${backupSuffix}`;
}
