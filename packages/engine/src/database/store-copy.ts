// How does a store get from one replica to another, and how are two compared?
//
//   copy    entry ... | u8 254 | 32 bytes SHA-256 of what is before
//   entry   u8 table, by its place in `collectionTables` | u32 bytes of the key | u32 bytes of the value | key | value
//           u8 255 | u32 8 | u32 bytes | u53 spool | bytes that follow those before
//
// A copy is one state of all tables, with the operations of an open transaction. So a replica continues from it as from its own store:
// ordinals, versions and the place in the log are the same, which a backup does not keep.

import { closeSync, mkdirSync, openSync, readSync } from "node:fs";
import { setImmediate as turn } from "node:timers/promises";
import { QuiverError } from "@quiverdb/protocol/errors";
import { concatenated, readU32LE, readU53, text, toHex, u53Key, writeU32LE } from "../base/bytes.ts";
import { host } from "../base/host.ts";
import { readHead } from "../collection/head.ts";
import { collectionTables, metaKeys } from "../collection/tables.ts";
import { openTransaction } from "../collection/transaction.ts";
import { syncStore } from "../process/data-directory.ts";
import { LmdbStore } from "../storage/lmdb.ts";
import { spoolFile } from "../storage/spool-files.ts";
import type { Reader, ReadTransaction, Writer } from "../storage/store.ts";

const spoolTable = 255;
const endMark = 254;
const headerBytes = 9;
const hashBytes = 32;
/** What is read, sent and written in one step. */
const pieceBytes = 4 * 1024 * 1024;

/**
 * @param store in `directory`; the state that it has when this is called is copied
 * @returns the copy, in pieces; end the iteration to release the state
 */
export function copyStore(
  store: { beginRead(): ReadTransaction },
  directory: string,
): AsyncIterable<Uint8Array> {
  const { readTxn, spool } = beginCopy(store, directory);
  return pieces();

  async function* pieces(): AsyncGenerator<Uint8Array> {
    const hash = host.sha256();
    try {
      for (const piece of joined(entriesOf(readTxn, spool))) {
        hash.update(piece);
        yield piece;
        await turn();
      }
      const end = new Uint8Array([endMark]);
      yield concatenated([end, hash.update(end).digest()]);
    } finally {
      readTxn.release();
      if (spool !== undefined) closeSync(spool.file);
    }
  }
}

type Spool = { readonly file: number; readonly number: number; readonly bytes: number };

/** A state, and the file of its spool, which a commit may remove at any time. */
function beginCopy(store: { beginRead(): ReadTransaction }, directory: string) {
  for (;;) {
    const readTxn = store.beginRead();
    try {
      const { sequence: number, spoolBytes: bytes = 0 } = openTransaction(readTxn, readHead(readTxn)) ?? {};
      if (number === undefined || bytes === 0) return { readTxn, spool: undefined };
      const spool: Spool = { file: openSync(spoolFile(directory, number), "r"), number, bytes };
      return { readTxn, spool };
    } catch (error) {
      readTxn.release();
      // The transaction has ended meanwhile: then the next state has no spool, or another.
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
  }
}

function* entriesOf(reader: Reader, spool: Spool | undefined): Generator<Uint8Array> {
  for (const [table, name] of collectionTables.entries())
    for (const [key, value] of reader.entries(name)) yield entry(table, key, value);
  for (let at = 0; spool !== undefined && at < spool.bytes; at += pieceBytes) {
    const bytes = new Uint8Array(Math.min(pieceBytes, spool.bytes - at));
    if (readSync(spool.file, bytes, 0, bytes.length, at) !== bytes.length)
      throw new QuiverError("data_corrupted", "The operations of the open transaction are not all there.");
    yield entry(spoolTable, u53Key(spool.number), bytes);
  }
}

function entry(table: number, key: Uint8Array, value: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(headerBytes + key.length + value.length);
  bytes[0] = table;
  writeU32LE(bytes, 1, key.length);
  writeU32LE(bytes, 5, value.length);
  bytes.set(key, headerBytes);
  bytes.set(value, headerBytes + key.length);
  return bytes;
}

function* joined(parts: Iterable<Uint8Array>): Generator<Uint8Array> {
  let waiting: Uint8Array[] = [];
  let bytes = 0;
  for (const part of parts) {
    waiting.push(part);
    bytes += part.length;
    if (bytes < pieceBytes) continue;
    yield concatenated(waiting);
    waiting = [];
    bytes = 0;
  }
  if (bytes > 0) yield concatenated(waiting);
}

/**
 * Writes a copy as a new store, durably. If it throws, the directory may have a part of it.
 * @param directory does not exist
 * @param options `withoutPlace`: the store begins in another log
 * @throws invalid_snapshot for a copy that is not whole, storage_failed, storage_full
 */
export async function writeCopy(
  directory: string,
  copy: AsyncIterable<Uint8Array>,
  { withoutPlace = false } = {},
): Promise<void> {
  mkdirSync(directory, { mode: 0o700 });
  const store = new LmdbStore(directory, collectionTables);
  try {
    const hash = host.sha256();
    const spools = new Map<number, number>();
    let rest: Uint8Array = new Uint8Array();
    let isWhole = false;
    for await (const piece of copy) {
      rest = rest.length === 0 ? piece : concatenated([rest, piece]);
      let at = 0;
      store.write((writer) => {
        for (; !isWhole && at < rest.length; ) {
          if (rest[at] === endMark) {
            if (rest.length < at + 1 + hashBytes) return;
            const expected = toHex(hash.update(rest.subarray(0, at + 1)).digest());
            if (expected !== toHex(rest.subarray(at + 1, at + 1 + hashBytes)))
              throw incomplete("its bytes have changed");
            isWhole = true;
            return;
          }
          const length = lengthOf(rest, at);
          if (length === undefined) return;
          putEntry(writer, rest.subarray(at, at + length), spools);
          at += length;
        }
      });
      if (!isWhole) hash.update(rest.subarray(0, at));
      rest = rest.slice(at);
    }
    if (!isWhole) throw incomplete("it has ended too early");
    if (withoutPlace) store.write((writer) => writer.delete("meta", metaKeys.place));
  } finally {
    await store.close();
  }
  syncStore(directory);
}

/** Bytes of the entry at `at`; undefined if it is not there completely. */
function lengthOf(bytes: Uint8Array, at: number): number | undefined {
  if (at + headerBytes > bytes.length) return undefined;
  const length = headerBytes + readU32LE(bytes, at + 1) + readU32LE(bytes, at + 5);
  return at + length > bytes.length ? undefined : length;
}

function putEntry(writer: Writer, bytes: Uint8Array, spools: Map<number, number>): void {
  const keyEnd = headerBytes + readU32LE(bytes, 1);
  const key = bytes.subarray(headerBytes, keyEnd);
  const value = bytes.subarray(keyEnd);
  if (bytes[0] === spoolTable) {
    const spool = readU53(key);
    const at = spools.get(spool) ?? 0;
    writer.writeSpool(spool, at, [value]);
    spools.set(spool, at + value.length);
    return;
  }
  const table = collectionTables[bytes[0]];
  if (table === undefined) throw incomplete(`it has a table ${bytes[0]}`);
  writer.append(table, key, value);
}

const incomplete = (why: string) =>
  new QuiverError("invalid_snapshot", `The copy of a store cannot be used: ${why}. Fetch it again.`, {});

/** SHA-256, hex, of what replicas of a collection have in common at one place in the log. */
export async function stateHash(reader: Reader): Promise<string> {
  const hash = host.sha256();
  const shared = function* () {
    // When transactions were indexed is local to a node.
    for (const [table, name] of collectionTables.entries())
      if (name !== "indexed")
        for (const [key, value] of reader.entries(name))
          if (name !== "meta" || text(key) !== text(metaKeys.format)) yield entry(table, key, value);
  };
  for (const piece of joined(shared())) {
    hash.update(piece);
    await turn();
  }
  return toHex(hash.digest());
}
