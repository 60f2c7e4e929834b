// What is told of a snapshot beside its file, and is it what the file says?
//
// A header says nearly all of it. What only a reading of the whole file gives (its SHA-256, the records in it) is kept in a file
// of JSON with a checksum, so that listing reads no snapshot. That file is drawn again from the snapshot where it is damaged.

import { crc32 } from "node:zlib";
import type { Snapshot } from "@quiver/protocol/shapes/snapshot";
import type { BackupHeader } from "../backup/header.ts";
import type { VerifiedBackup } from "../backup/read.ts";

/** What is told of a snapshot whose file was read to its end. */
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

/** What is kept of it: the object and a CRC-32 of its text. */
export const entryText = (snapshot: Snapshot): string =>
  JSON.stringify({ crc32: crc32(JSON.stringify(snapshot)), snapshot });

/** @returns undefined unless the text is, to the byte, what is kept of the snapshot of this id */
export function readEntry(id: string, text: string): Snapshot | undefined {
  let snapshot: Snapshot | undefined;
  try {
    snapshot = (JSON.parse(text) as { snapshot?: Snapshot } | null)?.snapshot;
  } catch {
    // No JSON: the caller hears the same of every text that is not what was written.
    return undefined;
  }
  return snapshot?.id === id && entryText(snapshot) === text ? snapshot : undefined;
}

/** Where what is told differs from what the file's header and length say. @returns undefined: nowhere */
export function headerDifference(told: Snapshot, header: BackupHeader, bytes: number): string | undefined {
  const { sha256, records_stored: records } = told;
  return difference(told, snapshotOf(told.id, { header, records, bytes, sha256 }));
}

/** Where two tellings of a snapshot differ, in words. */
export function difference(told: Snapshot, found: Snapshot): string | undefined {
  for (const name of Object.keys(found) as (keyof Snapshot)[])
    if (told[name] !== found[name])
      return `is told to have ${name} ${String(told[name])}, and its file has ${String(found[name])}`;
  return undefined;
}
