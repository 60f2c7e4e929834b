// What does a store guarantee?
//
// A store is a set of named tables of byte keys and byte values, ordered by key. It makes one atomic, durable change at a time and
// gives readers read transactions.
//
//   S1  `write` is all or nothing. When it returns, everything it wrote is durable and visible to every read transaction begun afterwards.
//       When it throws, it has written nothing.
//   S2  A read transaction sees exactly one state, however long it lives and whatever is written meanwhile.
//   S3  Keys have 1 to 1,900 bytes and iterate in byte order. Values have 0 to 2^31 bytes.
//   S4  The store copies the bytes that it is given before the call returns. The bytes that it returns are borrowed: they are valid
//       until the next call on the store in the same thread, unless the method says otherwise. They are plain Uint8Arrays, never
//       Buffers, so their `slice` copies.
//   S5  Every value has a checksum trailer: a CRC-32 over table, key and value, which each read verifies. So neither a flipped bit nor
//       a value under the wrong key is ever taken for data.
//   S6  A spool is a sequence of bytes beside the tables. Its owner keeps its length and checksums in a table. What a write puts there is
//       durable with the write; if the write throws, the bytes before the place where it wrote are as they were. A write that gives a
//       spool up removes it when it is durable.
//
// `lmdb.ts` and `memory.ts` follow these rules; `store-contract.test.ts` runs the same suite over both.

import { QuiverError } from "@quiverdb/protocol/errors";
import { toHex, utf8, writeU32LE } from "../base/bytes.ts";
import { host } from "../base/host.ts";
import { invariant } from "../base/invariant.ts";

export type Range = {
  /** First key, inclusive. */
  start?: Uint8Array;
  /** End of the range, exclusive. */
  end?: Uint8Array;
  /** Descending: from the last key before `end` down to `start`. */
  reverse?: boolean;
  limit?: number;
};

export interface Reader {
  /** The value of a key, borrowed; undefined if there is none. @throws data_corrupted */
  get(table: string, key: Uint8Array): Uint8Array | undefined;
  /** Entries of a range, in order. The caller may keep keys and values. @throws data_corrupted */
  entries(table: string, range?: Range): Iterable<[key: Uint8Array, value: Uint8Array]>;
  /** Keys of a range, in order. The caller may keep them. */
  keys(table: string, range?: Range): Iterable<Uint8Array>;
}

export interface ReadTransaction extends Reader {
  /** Ends it. Using it afterwards throws. */
  release(): void;
}

export interface Writer extends Reader {
  put(table: string, key: Uint8Array, value: Uint8Array): void;
  /** `put` of a key that is greater than all others of the table: fills pages that `put` leaves half empty. */
  append(table: string, key: Uint8Array, value: Uint8Array): void;
  /** @returns whether the key was present */
  delete(table: string, key: Uint8Array): boolean;
  /** Removes every entry of a table, in time independent of their number. */
  clear(table: string): void;
  /** Writes a spool from byte `at` on (S6). The bytes may be reused when this returns. @param at the length of the spool, or less */
  writeSpool(spool: number, at: number, parts: readonly Uint8Array[]): void;
  /** Fills `into` with bytes of a spool; false if it ends before, or does not exist. */
  readSpool(spool: number, at: number, into: Uint8Array): boolean;
  /** Removes a spool, if it exists, when the write is durable. */
  removeSpool(spool: number): void;
}

export interface Store {
  /** Runs `action` as one atomic, durable change (S1). Not reentrant, not async. @throws storage_failed, storage_full */
  write<T>(action: (writer: Writer) => T): T;
  /** The newest state. Release it soon: pages that it sees cannot be reused. */
  beginRead(): ReadTransaction;
  /** Bytes on disk, without spools. */
  sizeBytes(): number;
  /** Removes what a crash has left: all spools but one. @param kept the one to keep; null for none */
  removeSpoolsBut(kept: number | null): void;
  /** All read transactions must be released. */
  close(): Promise<void>;
}

/** The longest key (S3). */
const keyBytesMax = 1_900;
const valueBytesMax = 2 ** 31;

/** Asserts that a key may be written (S3). */
export function assertKey(table: string, key: Uint8Array): void {
  invariant(
    key.length > 0 && key.length <= keyBytesMax,
    () => `a key of ${key.length} bytes is written to table '${table}'; 1 to ${keyBytesMax} are possible`,
  );
}

/** Asserts what is true of every range that is read. */
export function assertRange(table: string, { start, end, limit }: Range): void {
  invariant(
    limit === undefined || (Number.isInteger(limit) && limit >= 0),
    () => `a range of table '${table}' is limited to ${limit} entries`,
  );
  for (const bound of [start, end])
    invariant(
      bound === undefined || bound.length > 0,
      () => `a range of table '${table}' has an empty bound`,
    );
}

/** Bytes of the checksum trailer. */
export const checksumBytes = 4;

const tableSeeds = new Map<string, number>();

function checksumOf(table: string, key: Uint8Array, payload: Uint8Array): number {
  let seed = tableSeeds.get(table);
  if (seed === undefined) {
    seed = host.crc32(utf8(table));
    tableSeeds.set(table, seed);
  }
  return host.crc32(payload, host.crc32(key, seed));
}

/** A copy of `payload` with its checksum trailer (S5). */
export function withChecksum(table: string, key: Uint8Array, payload: Uint8Array): Uint8Array {
  const stored = host.allocate(payload.length + checksumBytes);
  writeWithChecksum(stored, table, key, payload);
  return stored;
}

/** Writes `payload` and its checksum trailer to the beginning of `into`. */
export function writeWithChecksum(
  into: Uint8Array,
  table: string,
  key: Uint8Array,
  payload: Uint8Array,
): void {
  const { length } = payload;
  invariant(length <= valueBytesMax, () => `a value of ${length} bytes is written to table '${table}'`);
  invariant(
    into.length >= length + checksumBytes,
    () => `${into.length} bytes have no room for a value of ${length} bytes and its checksum`,
  );
  into.set(payload, 0);
  writeU32LE(into, length, checksumOf(table, key, payload));
}

/** The payload of a stored value, as a view on it; undefined if the checksum does not match this table, key and value. */
export function payloadOf(table: string, key: Uint8Array, stored: Uint8Array): Uint8Array | undefined {
  const length = stored.length - checksumBytes;
  if (length < 0) return undefined;
  const payload = new Uint8Array(stored.buffer, stored.byteOffset, length);
  const view = new DataView(stored.buffer, stored.byteOffset + length, checksumBytes);
  return view.getUint32(0, true) === checksumOf(table, key, payload) ? payload : undefined;
}

/** The payload of a stored value of `length` bytes, as a view on it. @throws data_corrupted if the checksum does not match */
export function verifiedPayload(
  table: string,
  key: Uint8Array,
  stored: Uint8Array,
  length: number,
): Uint8Array {
  const payloadLength = length - checksumBytes;
  if (payloadLength >= 0) {
    // A plain view: on a Buffer, `slice` would not copy.
    const payload = new Uint8Array(stored.buffer, stored.byteOffset, payloadLength);
    const found =
      (stored[payloadLength] |
        (stored[payloadLength + 1] << 8) |
        (stored[payloadLength + 2] << 16) |
        (stored[payloadLength + 3] << 24)) >>>
      0;
    if (found === checksumOf(table, key, payload)) return payload;
  }
  const hex = toHex(key);
  throw new QuiverError(
    "data_corrupted",
    `The stored value of key ${hex} in table '${table}' (${length} bytes) fails its checksum. Restore it from a backup or write the record again.`,
    { table, key: hex },
  );
}
