// What must a store be able to do?
//
// A store is a set of named tables of byte keys and byte values, ordered by key. It makes one atomic, durable
// change at a time and gives consistent snapshots to readers.
//
//   S1  `write` is all or nothing: when it returns, everything it wrote is durable and visible to every
//       snapshot taken afterwards; when it throws, nothing of it is there.
//   S2  A snapshot sees exactly one state, however long it lives and whatever is written meanwhile.
//   S3  Keys have 1 to 1,900 bytes and iterate in byte order. Values have 0 to 2^31 bytes.
//   S4  Bytes given to the store are copied before the call returns. Bytes that it gives are borrowed: they
//       are valid until the next call on the store in the same thread, unless the method says otherwise.
//       They are plain Uint8Arrays, never Buffers: their `slice` copies.
//   S5  Every value is sealed: a CRC-32 over table, key and value is stored behind it and compared when it is
//       read, so that neither a flipped bit nor a value under a wrong key is ever taken for data.
//
// `lmdb.ts` and `memory.ts` keep these rules; `store-contract.test.ts` runs the same suite over both.

import { crc32 } from "node:zlib";
import { QuiverError } from "@quiver/protocol/errors";

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
  /** The value under a key, borrowed; undefined where there is none. @throws data_corrupted */
  get(table: string, key: Uint8Array): Uint8Array | undefined;
  /** Entries of a range in order. Keys and values are the caller's to keep. @throws data_corrupted */
  entries(table: string, range?: Range): Iterable<[key: Uint8Array, value: Uint8Array]>;
  /** Keys of a range in order, the caller's to keep. */
  keys(table: string, range?: Range): Iterable<Uint8Array>;
}

export interface Snapshot extends Reader {
  /** Gives the snapshot back. Using it afterwards throws. */
  release(): void;
}

export interface Writer extends Reader {
  put(table: string, key: Uint8Array, value: Uint8Array): void;
  /** Returns whether the key was there. */
  delete(table: string, key: Uint8Array): boolean;
  /** Removes every entry of a table, in time that does not depend on their number. */
  clear(table: string): void;
}

export interface Store {
  /** Runs `action` as one atomic, durable change (S1). Not reentrant, not async. @throws storage_failed, storage_full */
  write<T>(action: (writer: Writer) => T): T;
  /** The newest state. Release it soon: pages that it sees cannot be reused. */
  snapshot(): Snapshot;
  /** Bytes on disk. */
  sizeBytes(): number;
  close(): Promise<void>;
}

export const sealBytes = 4;

const tableSeeds = new Map<string, number>();

function sealOf(table: string, key: Uint8Array, body: Uint8Array): number {
  let seed = tableSeeds.get(table);
  if (seed === undefined) {
    seed = crc32(table);
    tableSeeds.set(table, seed);
  }
  return crc32(body, crc32(key, seed));
}

/** A copy of `body` with its seal behind it (S5). */
export function seal(table: string, key: Uint8Array, body: Uint8Array): Uint8Array {
  const sealed = Buffer.allocUnsafe(body.length + sealBytes);
  sealed.set(body, 0);
  sealed.writeUInt32LE(sealOf(table, key, body), body.length);
  return sealed;
}

/** The body of a sealed value, as a view on it; undefined where the seal is not that of this table, key and value. */
export function bodyOf(table: string, key: Uint8Array, sealed: Uint8Array): Uint8Array | undefined {
  const length = sealed.length - sealBytes;
  if (length < 0) return undefined;
  const body = new Uint8Array(sealed.buffer, sealed.byteOffset, length);
  const view = new DataView(sealed.buffer, sealed.byteOffset + length, sealBytes);
  return view.getUint32(0, true) === sealOf(table, key, body) ? body : undefined;
}

/** The body of a sealed value, as a view on it. @throws data_corrupted */
export function unseal(table: string, key: Uint8Array, sealed: Uint8Array, length: number): Uint8Array {
  const bodyLength = length - sealBytes;
  if (bodyLength >= 0) {
    // A plain view: on a Buffer, `slice` would not copy.
    const body = new Uint8Array(sealed.buffer, sealed.byteOffset, bodyLength);
    const stored =
      (sealed[bodyLength] |
        (sealed[bodyLength + 1] << 8) |
        (sealed[bodyLength + 2] << 16) |
        (sealed[bodyLength + 3] << 24)) >>>
      0;
    if (stored === sealOf(table, key, body)) return body;
  }
  const hex = Buffer.from(key).toString("hex");
  throw new QuiverError(
    "data_corrupted",
    `The stored value of key ${hex} in table '${table}' (${length} bytes) fails its checksum. Restore it from a backup or write the record again.`,
    { table, key: hex },
  );
}
