// Which state of a store's file was the newest one that was durable?
//
// LMDB has no checksum over the two beginnings of its file, and goes by the one with the greater number of a transaction: a flipped
// bit there can bring back the state before, without a word, or lead it astray. So after each commit the *tip* is written beside
// the file: the transaction's number and a checksum over what the beginning says. It is not synced, so after a power loss it may be of
// an older transaction, never of one that is not durable; a file whose newest state is older than its tip, or another one, is damaged.
//
//   data.tip   u64 magic | u64 transaction | u32 CRC-32 of the beginning | u32 CRC-32 of the 20 bytes before

import { closeSync, constants, openSync, readFileSync, readSync, writeSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { beginningBytes, checksumOf, findPageBytes, type Tip, txnAt } from "./lmdb-meta.ts";
import { u32At, u64At } from "./lmdb-page.ts";

/** "quivertp". */
const magic = Buffer.from("quivertp");
const tipBytes = 24;
export const tipFile = (directory: string): string => join(directory, "data.tip");

/** The tip beside a store's file; undefined where there is none; a string says what is wrong with it. */
export function readTip(directory: string): Tip | string | undefined {
  let bytes: Buffer;
  try {
    bytes = readFileSync(tipFile(directory));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  // A power loss before it was ever synced can leave its name, or its length, and nothing in it.
  if (bytes.every((byte) => byte === 0)) return undefined;
  const isWhole =
    bytes.length === tipBytes &&
    bytes.subarray(0, 8).equals(magic) &&
    u32At(bytes, 20) === crc32(bytes.subarray(0, 20));
  if (!isWhole) return "the file data.tip, which tells which state is the newest, fails its checksum";
  return { txn: u64At(bytes, 8), checksum: u32At(bytes, 16) };
}

/** Writes the tip of a store that its only writer has open, and whose newest state is durable. */
export class TipWriter {
  readonly #data: number;
  readonly #tip: number;
  /** Where the second beginning is. */
  readonly #oddAt: number;
  readonly #beginnings = [new Uint8Array(beginningBytes), new Uint8Array(beginningBytes)];
  readonly #bytes = Buffer.alloc(tipBytes);

  /** @throws what the system says */
  constructor(directory: string) {
    this.#data = openSync(join(directory, "data.mdb"), "r");
    try {
      this.#oddAt = findPageBytes((at, length) => {
        const bytes = new Uint8Array(length);
        return readSync(this.#data, bytes, 0, length, at) === length ? bytes : undefined;
      });
      this.#tip = openSync(tipFile(directory), constants.O_RDWR | constants.O_CREAT, 0o600);
    } catch (error) {
      closeSync(this.#data);
      throw error;
    }
    magic.copy(this.#bytes);
  }

  /** @throws what the system says; the store is as it was, and its tip of an older transaction */
  write(): void {
    const [even, odd] = this.#beginnings;
    readSync(this.#data, even, 0, beginningBytes, 0);
    readSync(this.#data, odd, 0, beginningBytes, this.#oddAt);
    const newest = u64At(even, txnAt) > u64At(odd, txnAt) ? even : odd;
    const bytes = this.#bytes;
    bytes.set(newest.subarray(txnAt, txnAt + 8), 8);
    bytes.writeUInt32LE(checksumOf(newest), 16);
    bytes.writeUInt32LE(crc32(bytes.subarray(0, 20)), 20);
    writeSync(this.#tip, bytes, 0, tipBytes, 0);
  }

  close(): void {
    closeSync(this.#data);
    closeSync(this.#tip);
  }
}
