// Which state of a store's file was the newest durable one?
//
// A user who puts an older copy of a file in place of the newest, or whose meta page has a flipped bit, is told so, and not served old data.
//
// LMDB has no checksum over its two meta pages and picks the one with the greater transaction number. A flipped bit there can silently
// bring back the previous state, or point LMDB at the wrong pages. So after each commit the store writes a *commit marker* beside its
// file: the transaction number and a checksum over the meta page. The marker is not synced. After a power loss it may name an older
// transaction, but never one that is not durable. If the newest state in the file is older than the marker, or differs from the state
// that the marker names, the file is damaged.
//
//   data.tip   u64 magic | u64 transaction | u32 CRC-32 of the meta page | u32 CRC-32 of the 20 bytes before

import { closeSync, constants, openSync, readFileSync, readSync, writeSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { type CommitMarker, checksumOf, findPageBytes, metaPageBytes, txnAt } from "./lmdb-meta.ts";
import { u32At, u64At } from "./lmdb-page.ts";

/** "quivertp". */
const magic = Buffer.from("quivertp");
const markerBytes = 24;
export const commitMarkerFile = (directory: string): string => join(directory, "data.tip");

/** The commit marker beside a store's file; undefined if there is none; a string that describes the problem if it is damaged. */
export function readCommitMarker(directory: string): CommitMarker | string | undefined {
  let bytes: Buffer;
  try {
    bytes = readFileSync(commitMarkerFile(directory));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  // A power loss before its first sync can leave an empty file, or one full of zeros.
  if (bytes.every((byte) => byte === 0)) return undefined;
  const isWhole =
    bytes.length === markerBytes &&
    bytes.subarray(0, 8).equals(magic) &&
    u32At(bytes, 20) === crc32(bytes.subarray(0, 20));
  if (!isWhole) return "the commit marker data.tip fails its checksum";
  return { txn: u64At(bytes, 8), checksum: u32At(bytes, 16) };
}

/** Writes the commit marker. Used only by the store's one writer, and only when the newest state is durable. */
export class CommitMarkerWriter {
  readonly #data: number;
  readonly #marker: number;
  /** Byte offset of the second meta page. */
  readonly #oddAt: number;
  readonly #metaPages = [new Uint8Array(metaPageBytes), new Uint8Array(metaPageBytes)];
  readonly #bytes = Buffer.alloc(markerBytes);

  /** @throws the error of the system */
  constructor(directory: string) {
    this.#data = openSync(join(directory, "data.mdb"), "r");
    try {
      this.#oddAt = findPageBytes((at, length) => {
        const bytes = new Uint8Array(length);
        return readSync(this.#data, bytes, 0, length, at) === length ? bytes : undefined;
      });
      this.#marker = openSync(commitMarkerFile(directory), constants.O_RDWR | constants.O_CREAT, 0o600);
    } catch (error) {
      closeSync(this.#data);
      throw error;
    }
    magic.copy(this.#bytes);
  }

  /** @throws the system's error; the store is unchanged, and its marker still names an older transaction */
  write(): void {
    const [even, odd] = this.#metaPages;
    readSync(this.#data, even, 0, metaPageBytes, 0);
    readSync(this.#data, odd, 0, metaPageBytes, this.#oddAt);
    const newest = u64At(even, txnAt) > u64At(odd, txnAt) ? even : odd;
    const bytes = this.#bytes;
    bytes.set(newest.subarray(txnAt, txnAt + 8), 8);
    bytes.writeUInt32LE(checksumOf(newest), 16);
    bytes.writeUInt32LE(crc32(bytes.subarray(0, 20)), 20);
    writeSync(this.#marker, bytes, 0, markerBytes, 0);
  }

  close(): void {
    closeSync(this.#data);
    closeSync(this.#marker);
  }
}
