// Which versions has a collection had, and what did each change?
//
// The entry of version n and its closed ordinals are the change log: n opened the ordinals
// [firstOrdinal, firstOrdinal + opened) and closed the listed ones. Changes get ascending ordinals, so `born` never decreases as
// ordinals increase. The `died` of a closed record is the version whose entry lists it.
//
//   hash(0) = SHA-256("quiver: version 0")      hash(n) = SHA-256(hash(n - 1) | changes of n in order)
//
// where a change is its operation's bytes (record.ts). Equal histories have equal hashes on every machine.

import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { Version, VersionList } from "@quiverdb/protocol/shapes/version";
import {
  compareBytes,
  fromHex,
  readU16LE,
  readU32Key,
  readU53,
  toHex,
  u32Key,
  utf8,
  writeU53,
} from "../base/bytes.ts";
import { failpoint } from "../base/failpoint.ts";
import { host } from "../base/host.ts";
import { invariant } from "../base/invariant.ts";
import type { Reader, Writer } from "../storage/store.ts";
import { readHead } from "./head.ts";
import { afterPrefix, closedKey, tables, versionKey } from "./tables.ts";

export type VersionEntry = {
  version: number;
  hash: Uint8Array;
  createdMs: number;
  live: number;
  firstOrdinal: number;
  opened: number;
};

export const rootHash: Uint8Array = host.sha256().update(utf8("quiver: version 0")).digest();

/** Closed ordinals of one part of the log: 256 KiB at most. */
export const closedPerPart = 65_536;

/** Bytes of the hash of a version. */
export const hashBytes = 32;

/** Bytes of a stored version entry. */
const versionEntryBytes = tables.versions.value.bytes;

export function writeVersion(writer: Writer, entry: VersionEntry): void {
  writer.put("versions", versionKey(entry.version), encodeVersion(entry));
}

/** The entry as bytes, without its number. */
export function encodeVersion(entry: VersionEntry): Uint8Array {
  const { version, hash, live, firstOrdinal, opened } = entry;
  invariant(hash.length === hashBytes, `the hash of version ${version} has ${hash.length} bytes`);
  invariant(
    live <= firstOrdinal + opened,
    `version ${version} has ${live} records of ${firstOrdinal + opened} ordinals`,
  );
  const bytes = new Uint8Array(versionEntryBytes);
  bytes.set(entry.hash, 0);
  writeU53(bytes, 32, entry.createdMs);
  writeU53(bytes, 40, entry.live);
  bytes.set(u32Key(entry.firstOrdinal), 48);
  bytes.set(u32Key(entry.opened), 52);
  return bytes;
}

/** The entry of a version, from its bytes. */
export function decodeVersion(version: number, bytes: Uint8Array): VersionEntry {
  return {
    version,
    hash: bytes.slice(0, 32),
    createdMs: readU53(bytes, 32),
    live: readU53(bytes, 40),
    firstOrdinal: readU32Key(bytes, 48),
    opened: readU32Key(bytes, 52),
  };
}

/** The entry of a version; undefined if it is no longer kept, or does not exist yet. */
export function readVersion(reader: Reader, version: number): VersionEntry | undefined {
  const bytes = reader.get("versions", versionKey(version));
  if (bytes === undefined) return undefined;
  invariant(bytes.length === versionEntryBytes, `the entry of version ${version} has ${bytes.length} bytes`);
  return decodeVersion(version, bytes);
}

export function writeClosed(writer: Writer, version: number, part: number, ordinals: Uint32Array): void {
  invariant(
    ordinals.length > 0 && ordinals.length <= closedPerPart,
    `part ${part} of version ${version} closes ${ordinals.length} ordinals`,
  );
  writer.put(
    "closed",
    closedKey(version, part),
    new Uint8Array(ordinals.buffer, ordinals.byteOffset, ordinals.byteLength),
  );
}

/** The ordinals that a version closed, part by part, in the order of its changes. */
export function* readClosed(reader: Reader, version: number): Generator<Uint32Array> {
  const prefix = versionKey(version);
  for (const [, value] of reader.entries("closed", { start: prefix, end: afterPrefix(prefix) })) {
    invariant(
      value.length > 0 && value.length % 4 === 0,
      `a part of what version ${version} closed has ${value.length} bytes`,
    );
    yield new Uint32Array(value.slice().buffer);
  }
}

/** Bytes of ids of one part of the log, about. */
export const goneBytesPerPart = 65_536;

/** @param ids of records that the version deleted, each after its length (u16) */
export const writeGone = (writer: Writer, version: number, part: number, ids: Uint8Array): void =>
  writer.put("gone", closedKey(version, part), ids);

/** The ids of the records that a version deleted. */
export function* readGone(reader: Reader, version: number): Generator<Uint8Array> {
  const prefix = versionKey(version);
  for (const [, ids] of reader.entries("gone", { start: prefix, end: afterPrefix(prefix) }))
    for (let at = 0; at < ids.length; ) {
      const end = at + 2 + readU16LE(ids, at);
      yield ids.slice(at + 2, end);
      at = end;
    }
}

/** Number of the oldest version that is kept in the log. */
export function oldestVersion(reader: Reader): number {
  for (const key of reader.keys("versions", { limit: 1 })) return readU53(key);
  throw new Error("Invariant broken: a collection has no version");
}

/** The most versions that one write removes, so that a lowered limit does not cause a long write. */
const trimMax = 64;

/** Removes versions until at most `kept` remain, but no more than `most` in this write. The current one always stays. */
export function trimVersions(writer: Writer, current: number, kept: number, most = trimMax): void {
  const end = current - Math.max(1, kept) + 1;
  if (end <= 0) return;
  invariant(end <= current, `trimming up to version ${end} would remove the current version ${current}`);
  const old = [
    ...writer.keys("versions", { end: versionKey(end), ...(Number.isFinite(most) && { limit: most }) }),
  ];
  for (const key of old) {
    for (const table of ["closed", "gone"]) {
      const parts = [...writer.keys(table, { start: key, end: afterPrefix(key) })];
      for (const part of parts) writer.delete(table, part);
    }
    failpoint("trim:closed-gone");
    writer.delete("versions", key);
  }
}

function toShape(entry: VersionEntry): Version {
  return {
    hash: toHex(entry.hash),
    version_number: entry.version,
    timestamp: Math.floor(entry.createdMs / 1000),
    vector_count: entry.live,
  };
}

export const currentVersion = (reader: Reader): Version => versionNumbered(reader, readHead(reader).version);

/** A version that the log has. */
export function versionNumbered(reader: Reader, version: number): Version {
  const entry = readVersion(reader, version);
  invariant(entry !== undefined, `version ${version} is not in the log`);
  return toShape(entry);
}

/**
 * Kept versions, newest first.
 * @param page `limit` 1 to 1,000 (default 1,000); only versions smaller than `before`
 */
export function listVersions(
  reader: Reader,
  page: { limit?: number; before?: number } = {},
): Omit<VersionList, "tags" | "oldest_readable"> {
  const { version, hash } = readHead(reader);
  const { limit = limits.versionsPageMax, before = version + 1 } = page;
  if (!Number.isInteger(limit) || limit < 1 || limit > limits.versionsPageMax)
    throw new QuiverError(
      "invalid_request",
      `limit must be an integer from 1 to ${limits.versionsPageMax}; received ${limit}.`,
      { path: "limit" },
    );
  if (!Number.isSafeInteger(before) || before < 0)
    throw new QuiverError("invalid_request", `before must be a version number; received ${before}.`, {
      path: "before",
    });
  const versions: Version[] = [];
  const end = versionKey(Math.min(before, version + 1));
  for (const [key, value] of reader.entries("versions", { end, reverse: true, limit }))
    versions.push(toShape(decodeVersion(readU53(key), value)));
  invariant(versions.length <= limit, `a page of ${limit} versions has ${versions.length}`);
  return { versions, current_hash: toHex(hash), current_version: version };
}

/** The kept version with this hash. @throws invalid_version_hash */
export function versionByHash(reader: Reader, hash: string): Version {
  const problem = /^[0-9a-f]{64}$/.test(hash)
    ? findByHash(reader, fromHex(hash))
    : "has not 64 hex characters";
  if (typeof problem !== "string") return problem;
  throw new QuiverError(
    "invalid_version_hash",
    `The version hash '${hash.slice(0, 80)}' ${problem}. GET .../versions lists the versions that are kept.`,
    { version_hash: hash.slice(0, 80) },
  );
}

function findByHash(reader: Reader, hash: Uint8Array): Version | string {
  for (const [key, value] of reader.entries("versions", { reverse: true })) {
    const entry = decodeVersion(readU53(key), value);
    if (compareBytes(entry.hash, hash) === 0) return toShape(entry);
  }
  return "is not that of a version of this collection";
}
