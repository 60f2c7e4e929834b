// How does a backup file become a collection again?
//
// `verifyBackup` reads and verifies a whole file. `applyBackup` writes a file into a store that is not visible yet, in many writes of
// limited size, the head last. The store of an interrupted restore has no entry in the catalog, so the next start removes it.
//
// A chain is applied file by file. An incremental file first closes the ordinals that its log lists, and then opens its own records, as the
// collection did. In the end the counts must match the header.
//
// One file: verifying and applying read the same parts in the same order.

import { blockKinds } from "@quiverdb/protocol/backup-format";
import { limits } from "@quiverdb/protocol/limits";
import { fromHex, readU32Key, readU53, utf8 } from "../../base/bytes.ts";
import { formatBytes } from "../../collection/format.ts";
import { writeHead } from "../../collection/head.ts";
import { keptOf, putPast, readHistory } from "../../collection/history.ts";
import { RecordReader } from "../../collection/record.ts";
import { deleteRecord, putRecord } from "../../collection/record-entries.ts";
import { type LogTable, metaKeys, ordinalKey, type Table, tables } from "../../collection/tables.ts";
import { trimVersions } from "../../collection/versions.ts";
import { Batches, pageBytes } from "../../collection/write-batches.ts";
import type { Store, Writer } from "../../storage/store.ts";
import { type BackupHeader, readHeader } from "./backup-header.ts";
import { type Block, BlockReader, invalidSnapshot } from "./block-file.ts";

export type VerifiedBackup = { header: BackupHeader; records: number; bytes: number; sha256: string };

/** Gets the number of bytes read so far. May throw to cancel the work. */
export type OnRead = (bytes: number, size: number) => void;

/** Rows of a block's bytes, with a check of every length. */
class Rows {
  readonly #block: Block;
  #at = 0;

  constructor(block: Block) {
    this.#block = block;
  }

  get isOver(): boolean {
    return this.#at === this.#block.bytes.length;
  }

  take(length: number): Uint8Array {
    const { bytes, position } = this.#block;
    if (this.#at + length > bytes.length)
      throw invalidSnapshot("damaged", position, "has a row that is longer than its block");
    this.#at += length;
    return new Uint8Array(bytes.buffer, bytes.byteOffset + this.#at - length, length);
  }

  takeValue({ bytes }: Table["value"]): Uint8Array {
    return bytes === undefined ? this.takeSized() : this.take(bytes);
  }

  takeSized(): Uint8Array {
    const head = this.take(4);
    return this.take(new DataView(head.buffer, head.byteOffset).getUint32(0, true));
  }
}

type PastRow = { ordinal: number; died: number; record: Uint8Array; dense: Uint8Array };
type RecordRow = { ordinal: number; record: Uint8Array; reader: RecordReader; dense: Uint8Array };

/** Receives the rows of a file, in order. */
type Visitor = {
  log(table: LogTable, key: Uint8Array, value: Uint8Array): void;
  record(row: RecordRow): void;
  past(row: PastRow): void;
  /** Called after each block. */
  blockEnd(position: number): void;
};

/** Walks a file, with all checks that need no other file. */
function walk(reader: BlockReader, visitorOf: (header: BackupHeader) => Visitor): BackupHeader {
  let header: BackupHeader | null = null;
  let visitor: Visitor | null = null;
  const order = Object.keys(blockKinds);
  let last = 0;
  let lastVersion = -1;
  let lastOrdinal = -1;
  for (const block of reader.blocks()) {
    const { kind, position } = block;
    const damaged = (what: string) => invalidSnapshot("damaged", position, what);
    if (kind === "header") {
      if (header !== null) throw damaged("has two headers");
      header = readHeader(block.bytes, position);
      visitor = visitorOf(header);
      lastVersion = header.since?.version ?? -1;
      lastOrdinal = header.first_ordinal - 1;
      continue;
    }
    if (header === null || visitor === null) throw damaged("does not begin with its header");
    if (order.indexOf(kind) < last) throw damaged("has its blocks in another order");
    if (order.indexOf(kind) > last) lastOrdinal = kind === "past" ? -1 : lastOrdinal;
    last = order.indexOf(kind);
    const rows = new Rows(block);
    let count = 0;
    for (; !rows.isOver; count++) {
      if (kind === "versions" || kind === "closed" || kind === "gone") {
        const { key: ofKey, value: ofValue } = tables[kind];
        const key = rows.take(ofKey.bytes);
        const version = readU53(key);
        if (kind === "versions") {
          if (version <= lastVersion || version > header.version) throw damaged("has a version out of order");
          lastVersion = version;
        } else if (version > header.version || version <= (header.since?.version ?? -1))
          throw damaged("has closed or deleted records of a version that it does not have");
        const value = rows.takeValue(ofValue);
        if (!ofValue.fits(value)) throw damaged("has half an entry of the log");
        visitor.log(kind, key, value);
      } else if (kind === "past") {
        const row = pastRow(rows, header, damaged);
        if (row.ordinal <= lastOrdinal) throw damaged("has a past record out of order");
        lastOrdinal = row.ordinal;
        visitor.past(row);
      } else {
        const row = recordRow(rows, header, damaged);
        if (row.ordinal <= lastOrdinal) throw damaged("has a record out of order");
        lastOrdinal = row.ordinal;
        visitor.record(row);
      }
    }
    if (count !== block.rows) throw damaged("has a block with a wrong number of rows");
    visitor.blockEnd(reader.position);
  }
  if (header === null) throw invalidSnapshot("damaged", reader.position, "has no header");
  const isLogThere = lastVersion === header.version;
  if (!isLogThere) throw invalidSnapshot("damaged", reader.position, "lacks the entry of its own version");
  return header;
}

function recordRow(rows: Rows, header: BackupHeader, damaged: (what: string) => Error): RecordRow {
  const ordinal = readU32Key(rows.take(4));
  const record = rows.takeSized();
  const dense = rows.takeSized();
  const { collection, version, since } = header;
  try {
    const reader = new RecordReader(record);
    const { contents, idBytes, documentIdBytes } = reader;
    const isPossible =
      ordinal < header.next_ordinal &&
      reader.born <= version &&
      reader.born > (since?.version ?? -1) &&
      idBytes.length > 0 &&
      idBytes.length <= limits.idBytesMax &&
      documentIdBytes.length <= limits.idBytesMax &&
      reader.end === record.length &&
      dense.length === (contents.dense ? 4 * (collection.dimension ?? 0) : 0);
    if (isPossible) return { ordinal, record, reader, dense };
  } catch (error) {
    // A field starts beyond the end of the record.
    if (!(error instanceof RangeError) && !(error instanceof TypeError)) throw error;
  }
  throw damaged("has a record that cannot be");
}

function pastRow(rows: Rows, header: BackupHeader, damaged: (what: string) => Error): PastRow {
  const ordinal = readU32Key(rows.take(4));
  const value = rows.takeSized();
  const dense = rows.takeSized();
  try {
    const record = value.subarray(8);
    const [reader, died] = [new RecordReader(record), readU53(value)];
    const isPossible =
      header.history !== undefined &&
      ordinal < header.next_ordinal &&
      reader.born < died &&
      died <= header.version &&
      reader.end === record.length &&
      dense.length === (reader.contents.dense ? 4 * (header.collection.dimension ?? 0) : 0);
    if (isPossible) return { ordinal, died, record, dense };
  } catch (error) {
    if (!(error instanceof RangeError) && !(error instanceof TypeError)) throw error;
  }
  throw damaged("has a past record that cannot be");
}

/** Reads and verifies only the header of a file. @throws invalid_snapshot */
export function readBackupHeader(file: number): BackupHeader {
  for (const { kind, bytes, position } of new BlockReader(file).blocks()) {
    if (kind !== "header") throw invalidSnapshot("damaged", position, "does not begin with its header");
    return readHeader(bytes, position);
  }
  throw invalidSnapshot("truncated", 0, "has no header");
}

/** Reads a whole file. @throws invalid_snapshot with the position of the first fault */
export function verifyBackup(file: number, onRead: OnRead): VerifiedBackup {
  const reader = new BlockReader(file);
  let records = 0;
  const header = walk(reader, () => ({
    log: () => undefined,
    record: () => {
      records++;
    },
    past: () => undefined,
    blockEnd: (read) => onRead(read, reader.size),
  }));
  if (header.since === null && records !== header.live)
    throw invalidSnapshot(
      "damaged",
      reader.size,
      `has ${records} records, but its header says ${header.live}`,
    );
  return { header, records, bytes: reader.size, sha256: reader.sha256() };
}

/**
 * Applies a file of a chain to a store that is not in use otherwise; the first file to an empty store.
 * @param versionsKept number of versions to keep in the log
 * @throws invalid_snapshot, storage_failed, storage_full; the store is then unusable
 */
export function applyBackup(store: Store, file: number, versionsKept: number, onRead: OnRead): BackupHeader {
  const reader = new BlockReader(file);
  const batches = new Batches(store);
  const header = walk(reader, (of) => ({
    log: (table, key, value) => {
      put(batches, table, key, value);
      if (table === "closed" && of.since !== null) closeOrdinals(batches, value, of.first_ordinal, reader);
    },
    record: (row) => openRecord(batches, row),
    past: ({ ordinal, died, record, dense }) => {
      const [ownRecord, ownDense] = [record.slice(), dense.slice()];
      batches.add(record.length + dense.length + 2 * pageBytes, (writer) =>
        putPast(writer, ordinal, died, ownRecord, ownDense),
      );
    },
    blockEnd: (read) => onRead(read, reader.size),
  }));
  batches.flush();
  store.write((writer) => {
    writer.put("meta", metaKeys.format, formatBytes("collection"));
    writer.put("meta", metaKeys.indexes, utf8(JSON.stringify(header.indexes)));
    restoreHistory(writer, header);
    trimVersions(
      writer,
      header.version,
      keptOf(readHistory(writer), header.version, versionsKept),
      Number.POSITIVE_INFINITY,
    );
    const { version, live, dense, sparse, text, next_ordinal: nextOrdinal } = header;
    writeHead(writer, {
      version,
      hash: fromHex(header.hash),
      nextOrdinal,
      live,
      dense,
      sparse,
      text,
      nextTransaction: header.next_transaction,
      openTransaction: 0,
      sequence: header.sequence ?? 0,
      epoch: header.epoch ?? 0,
    });
  });
  return header;
}

/** What an incremental file lacks of the past was vacuumed since: then all past records must be looked at. */
function restoreHistory(writer: Writer, { history, since }: BackupHeader): void {
  writer.clear("tags");
  writer.delete("meta", metaKeys.history);
  if (history === undefined) {
    for (const table of ["past", "pastDense", "pastIds"]) writer.clear(table);
    return;
  }
  for (const [name, entry] of history.tags) writer.put("tags", utf8(name), fromHex(entry));
  const state = since === null ? history.state : { ...history.state, sweep: 0 };
  writer.put("meta", metaKeys.history, utf8(JSON.stringify(state)));
}

function put(batches: Batches, table: string, key: Uint8Array, value: Uint8Array): void {
  const [ownKey, ownValue] = [key.slice(), value.slice()];
  batches.add(key.length + value.length, (writer) => writer.put(table, ownKey, ownValue));
}

function closeOrdinals(batches: Batches, ordinals: Uint8Array, end: number, reader: BlockReader): void {
  // Stored as little-endian numbers of 32 bits, at any address.
  const closed = new Uint32Array(ordinals.slice().buffer);
  for (const ordinal of closed) {
    // Newer ones were created and removed between the two versions.
    if (ordinal >= end) continue;
    batches.add(2 * pageBytes, (writer) => {
      const stored = writer.get("records", ordinalKey(ordinal));
      if (stored === undefined)
        throw invalidSnapshot("damaged", reader.position, `closes ordinal ${ordinal}, which does not exist`);
      const record = new RecordReader(stored.slice());
      writer.delete("ids", record.idBytes);
      deleteRecord(writer, ordinal, record);
    });
  }
}

function openRecord(batches: Batches, { ordinal, record, dense }: RecordRow): void {
  const [ownRecord, ownDense] = [record.slice(), dense.slice()];
  batches.add(record.length + dense.length + pageBytes, (writer) =>
    putRecord(writer, ordinal, ownRecord, ownDense),
  );
}

/**
 * Counts the entries of a restored store and compares them with the header. Each id must have its record, and each record its id.
 * @throws invalid_snapshot
 */
export function checkRestored(store: Store, header: BackupHeader, onRow: () => void): void {
  const readTxn = store.beginRead();
  try {
    const counts = { live: 0, dense: 0, sparse: 0, text: 0, ids: 0 };
    for (const [key, value] of readTxn.entries("records")) {
      const reader = new RecordReader(value);
      const { dense, sparse, text } = reader.contents;
      counts.live++;
      if (dense) counts.dense++;
      if (sparse) counts.sparse++;
      if (text) counts.text++;
      const ordinal = readTxn.get("ids", reader.idBytes);
      if (ordinal === undefined || readU32Key(ordinal) !== readU32Key(key))
        throw invalidSnapshot(
          "damaged",
          0,
          `has two live records with the same id, one of them with ordinal ${readU32Key(key)}`,
        );
      onRow();
    }
    for (const _ of readTxn.keys("ids")) counts.ids++;
    const { live, dense, sparse, text } = header;
    const expected = { live, dense, sparse, text, ids: live };
    for (const name of Object.keys(counts) as (keyof typeof counts)[])
      if (counts[name] !== expected[name])
        throw invalidSnapshot(
          "damaged",
          0,
          `results in ${counts[name]} (${name}), but its header says ${expected[name]}`,
        );
  } finally {
    readTxn.release();
  }
}
