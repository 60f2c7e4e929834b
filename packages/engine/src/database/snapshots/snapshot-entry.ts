// What does the entry of a snapshot contain, and does it agree with the snapshot's file?
//
// The file's header has nearly all the facts. But the SHA-256 and the number of records take a reading of the whole file. So the facts
// are kept in an entry, a JSON file with a checksum, and listing reads no snapshot. A damaged entry is made again from the snapshot.

import { closeSync, fsyncSync, openSync, renameSync, writeSync } from "node:fs";
import { crc32 } from "node:zlib";
import { QuiverError } from "@quiverdb/protocol/errors";
import type { Snapshot } from "@quiverdb/protocol/shapes/snapshot";
import type { BackupHeader } from "./backup-header.ts";
import type { VerifiedBackup } from "./read-backup.ts";

/** The description of a snapshot whose whole file was verified. */
export function snapshotOf(id: string, { header, records, bytes, sha256 }: VerifiedBackup): Snapshot {
  return {
    id,
    collection_name: header.collection.name,
    version_number: header.version,
    hash: header.hash,
    vector_count: header.live,
    since_version: header.since?.version ?? null,
    since_hash: header.since?.hash ?? null,
    records_stored: records,
    size_bytes: bytes,
    sha256,
    timestamp: Math.floor(header.created_ms / 1000),
  };
}

/** The text of an entry: the snapshot's description and a CRC-32 of its JSON. */
export const entryText = (snapshot: Snapshot): string =>
  JSON.stringify({ crc32: crc32(JSON.stringify(snapshot)), snapshot });

/** Writes an entry durably, in place of an older one at once. Its name is durable when the directory is synced. */
export function writeEntry(path: string, snapshot: Snapshot): void {
  const unfinished = `${path}.new`;
  const file = openSync(unfinished, "w", 0o600);
  try {
    const bytes = Buffer.from(entryText(snapshot));
    for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(unfinished, path);
}

/** Reads an entry. @returns undefined unless the text is byte for byte a valid entry of this id */
export function readEntry(id: string, text: string): Snapshot | undefined {
  let snapshot: Snapshot | undefined;
  try {
    snapshot = (JSON.parse(text) as { snapshot?: Snapshot } | null)?.snapshot;
  } catch {
    // The text is no JSON. The caller gets the same result for every damaged entry.
    return undefined;
  }
  return snapshot?.id === id && entryText(snapshot) === text ? snapshot : undefined;
}

/** How an entry differs from the header and length of its file. @returns undefined if they agree */
export function headerDifference(entry: Snapshot, header: BackupHeader, bytes: number): string | undefined {
  const { sha256, records_stored: records } = entry;
  return difference(entry, snapshotOf(entry.id, { header, records, bytes, sha256 }));
}

/** The first field in which an entry differs from the file, as a sentence without its subject. @returns undefined if they agree */
export function difference(entry: Snapshot, found: Snapshot): string | undefined {
  for (const name of Object.keys(found) as (keyof Snapshot)[])
    if (entry[name] !== found[name])
      return `has ${name} ${String(entry[name])} in its entry, but ${String(found[name])} in its file`;
  return undefined;
}

// ---- What does a failure to read or write the file of a snapshot mean?

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
