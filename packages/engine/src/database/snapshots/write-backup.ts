// How is one version of a collection written to a file while writes go on?
//
// A snapshot of the store is exactly one version. A full backup contains all its records and its change log. An incremental backup
// contains the log since a version that the log still has: the ordinals that were closed since, and the live records that were
// opened since. Blocks are filled row by row and written when they are full, so one or two blocks of memory suffice.
//
//   versions, closed   rows of key | value, as they are stored; a value that may have several lengths after its length
//   past               rows of ordinal | u32 bytes | died, record | u32 bytes | dense vector
//   records            rows of ordinal | u32 bytes | record | u32 bytes | dense vector, both as they are stored
//
// tables.ts declares which tables a backup has, and which ones a restore derives. A backup contains no transactions.

import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import { ByteWriter, emptyBytes, readU32Key, readU53, text, toHex } from "../../base/bytes.ts";
import { invariant } from "../../base/invariant.ts";
import { readIndexDefinitions } from "../../collection/apply.ts";
import type { CollectionDefinition } from "../../collection/definition.ts";
import { readHead } from "../../collection/head.ts";
import { readHistory } from "../../collection/history.ts";
import { RecordReader } from "../../collection/record.ts";
import { logTables, ordinalKey, type Table, tables, versionKey } from "../../collection/tables.ts";
import { oldestVersion, readVersion } from "../../collection/versions.ts";
import type { ReadTransaction } from "../../storage/store.ts";
import { type BackupHeader, headerBytes, headerOf } from "./backup-header.ts";
import { type BlockKind, BlockWriter } from "./block-file.ts";

export type BackupRequest = {
  collection: CollectionDefinition;
  /** The version from which an incremental backup starts, and its hash if the caller knows it; null for a full backup. */
  since: { version: number; hash: string | null } | null;
  createdMs: number;
};

export type WrittenBackup = { header: BackupHeader; records: number; bytes: number; sha256: string };

/** @param onRow called for every record; may throw to cancel the work */
export function writeBackup(
  readTxn: ReadTransaction,
  file: number,
  request: BackupRequest,
  onRow: (done: number, total: number) => void,
): WrittenBackup {
  const head = readHead(readTxn);
  const since = request.since && findSince(readTxn, head.version, request.since);
  const definitions = readIndexDefinitions(readTxn);
  const state = readHistory(readTxn);
  const tags = Array.from(readTxn.entries("tags"), ([key, value]) => [text(key), toHex(value)] as const);
  const history = state && { state, tags };
  const header = headerOf(request.collection, definitions, head, since, request.createdMs, history);
  const blocks = new BlockWriter(file);
  blocks.block("header", headerBytes(header), 1);
  const from = since ? { start: versionKey(since.version + 1) } : {};
  for (const table of logTables) {
    const log = new RowBlocks(blocks, table);
    const { bytes }: Table["value"] = tables[table].value;
    for (const [key, value] of readTxn.entries(table, from))
      log.row((out) => {
        out.bytes(key);
        if (bytes === undefined) writeSized(out, value);
        else out.bytes(value);
      });
    log.flush();
  }
  const records = new RowBlocks(blocks, "records");
  // An estimate: not all ordinals are live, and for an incremental backup the number of live ones is unknown.
  const total = since ? Math.min(head.live, head.nextOrdinal - header.first_ordinal) : head.live;
  for (const [key, value] of readTxn.entries("records", { start: ordinalKey(header.first_ordinal) })) {
    const hasDense = new RecordReader(value).contents.dense;
    const dense = hasDense ? readTxn.get("dense", key) : emptyBytes;
    invariant(dense !== undefined, `ordinal ${readU32Key(key)} has no dense vector`);
    records.row((out) => {
      out.bytes(key);
      writeSized(out, value);
      writeSized(out, dense);
    });
    onRow(records.count, total);
  }
  records.flush();
  const past = new RowBlocks(blocks, "past");
  for (const [key, value] of readTxn.entries("past")) {
    if (since !== null && readU53(value) <= since.version) continue;
    const dense = readTxn.get("pastDense", key) ?? emptyBytes;
    past.row((out) => {
      out.bytes(key);
      writeSized(out, value);
      writeSized(out, dense);
    });
    onRow(past.count, past.count + 1);
  }
  past.flush();
  invariant(since !== null || records.count === head.live, "a full backup has not all live records");
  return { header, records: records.count, sha256: blocks.end(), bytes: blocks.bytes };
}

function writeSized(out: ByteWriter, bytes: Uint8Array): void {
  out.u32(bytes.length);
  out.bytes(bytes);
}

/** Collects rows into blocks. */
class RowBlocks {
  readonly #blocks: BlockWriter;
  readonly #kind: BlockKind;
  readonly #out = new ByteWriter(64 * 1024);
  #rows = 0;
  count = 0;

  constructor(blocks: BlockWriter, kind: BlockKind) {
    this.#blocks = blocks;
    this.#kind = kind;
  }

  row(write: (out: ByteWriter) => void): void {
    write(this.#out);
    this.#rows++;
    this.count++;
    if (this.#out.length >= limits.snapshotBlockBytes) this.flush();
  }

  flush(): void {
    if (this.#rows > 0) this.#blocks.block(this.#kind, this.#out.take(), this.#rows);
    this.#rows = 0;
  }
}

/** The version from which an incremental backup starts, read from the log. @throws version_not_kept, invalid_request */
function findSince(
  readTxn: ReadTransaction,
  current: number,
  since: NonNullable<BackupRequest["since"]>,
): { version: number; hash: Uint8Array; ordinalEnd: number } {
  const { version } = since;
  if (version > current)
    throw new QuiverError(
      "invalid_request",
      `since_version is ${version}, but the collection is at version ${current}. Give an existing version.`,
      { path: "since_version", current_version: current },
    );
  const entry = readVersion(readTxn, version);
  const oldest = oldestVersion(readTxn);
  if (entry === undefined)
    throw new QuiverError(
      "version_not_kept",
      `The change log begins at version ${oldest} and no longer reaches back to version ${version}. Take a full backup (without since_version), and take incremental ones more often or keep more versions.`,
      { since_version: version, oldest_version: oldest },
    );
  if (since.hash !== null && since.hash !== toHex(entry.hash))
    throw new QuiverError(
      "version_not_kept",
      `Version ${version} of this collection is not the one with the hash ${since.hash.slice(0, 64)}: the collection has another history. Take a full backup (without since_version).`,
      { since_version: version, hash: toHex(entry.hash) },
    );
  return { version, hash: entry.hash, ordinalEnd: entry.firstOrdinal + entry.opened };
}
