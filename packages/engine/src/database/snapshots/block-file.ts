// How are the blocks of a backup file read and written in constant memory?
//
// The layout is in protocol/backup-format. Each block has a CRC-32, which is verified before the block is decompressed. The end of the file
// has the SHA-256 of everything before it. So a truncated or changed file, or one that is no backup at all, is detected, and the error
// names the position.

import { createHash, type Hash } from "node:crypto";
import { fstatSync, readSync, writeSync } from "node:fs";
import { constants, crc32, zstdCompressSync, zstdDecompressSync } from "node:zlib";
import {
  backupFormatNumber,
  backupMagic,
  backupPrefixBytes,
  blockHeadBytes,
  blockKinds,
} from "@quiverdb/protocol/backup-format";
import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import { text, toHex, utf8 } from "../../base/bytes.ts";

export type BlockKind = keyof typeof blockKinds;

/** A verified block. `bytes` are decompressed, and borrowed until the next block is read. */
export type Block = { kind: BlockKind; position: number; rows: number; bytes: Uint8Array };

/** What is wrong with a file. */
export type Fault = "damaged" | "truncated" | "foreign" | "newer";

/** Level 1 compresses text to an eighth and saves a twelfth of floats, faster than a disk writes. Level 3 gained one hundredth. */
const zstd = { params: { [constants.ZSTD_c_compressionLevel]: 1 } };

/** @param position byte of the file at which the fault shows */
export function invalidSnapshot(fault: Fault, position: number, what: string): QuiverError {
  return new QuiverError(
    "invalid_snapshot",
    `The backup ${what} (at byte ${position}). Nothing was changed.`,
    {
      fault,
      position,
    },
  );
}

/** Writes blocks to an open, empty file. */
export class BlockWriter {
  readonly #file: number;
  readonly #content: Hash = createHash("sha256");
  readonly #whole: Hash = createHash("sha256");
  #bytes = 0;

  constructor(file: number) {
    this.#file = file;
    const prefix = Buffer.alloc(backupPrefixBytes);
    prefix.write(backupMagic, 0, "latin1");
    prefix.writeUInt32LE(backupFormatNumber, 8);
    prefix.writeUInt32LE(crc32(prefix.subarray(0, 12)), 12);
    this.#put(prefix);
  }

  /** Bytes written. */
  get bytes(): number {
    return this.#bytes;
  }

  #put(bytes: Uint8Array): void {
    this.#content.update(bytes);
    this.#whole.update(bytes);
    for (let at = 0; at < bytes.length; ) at += writeSync(this.#file, bytes, at, bytes.length - at);
    this.#bytes += bytes.length;
  }

  block(kind: BlockKind, bytes: Uint8Array, rows: number): void {
    const packed = kind === "header" || kind === "end" ? bytes : zstdCompressSync(bytes, zstd);
    const isSmaller = packed.length < bytes.length;
    const stored = isSmaller ? packed : bytes;
    const head = Buffer.alloc(blockHeadBytes);
    head[0] = blockKinds[kind];
    head[1] = isSmaller ? 1 : 0;
    head.writeUInt32LE(stored.length, 4);
    head.writeUInt32LE(bytes.length, 8);
    head.writeUInt32LE(rows, 12);
    head.writeUInt32LE(crc32(stored, crc32(head.subarray(0, 16))), 16);
    this.#put(head);
    this.#put(stored);
  }

  /** Writes the end. Nothing may follow. @returns the SHA-256 of the whole file, in hex */
  end(): string {
    this.block("end", utf8(JSON.stringify({ sha256: this.#content.copy().digest("hex") })), 0);
    return this.#whole.digest("hex");
  }
}

const kindOf = new Map<number, BlockKind>(
  Object.entries(blockKinds).map(([name, number]) => [number, name as BlockKind]),
);

/** Reads the blocks of an open file, and throws at the first damage. */
export class BlockReader {
  readonly #file: number;
  readonly #size: number;
  readonly #content: Hash = createHash("sha256");
  readonly #whole: Hash = createHash("sha256");
  #at = 0;
  #buffer = Buffer.allocUnsafeSlow(16 * 1024);

  /** @throws invalid_snapshot when the file does not begin as a backup */
  constructor(file: number) {
    this.#file = file;
    this.#size = fstatSync(file).size;
    const prefix = this.#take(backupPrefixBytes, "prefix");
    const isOurs = prefix.toString("latin1", 0, 8) === backupMagic;
    if (!isOurs)
      throw invalidSnapshot("foreign", 0, "is not a Quiver backup: it does not start with the magic bytes");
    if (crc32(prefix.subarray(0, 12)) !== prefix.readUInt32LE(12))
      throw invalidSnapshot("damaged", 8, "is damaged: its prefix fails its checksum");
    const format = prefix.readUInt32LE(8);
    if (format > backupFormatNumber)
      throw invalidSnapshot(
        "newer",
        8,
        `has format ${format}, and this version of Quiver reads formats up to ${backupFormatNumber}; use the newer version that wrote it`,
      );
    this.#hash(prefix);
  }

  get size(): number {
    return this.#size;
  }

  /** Bytes read. */
  get position(): number {
    return this.#at;
  }

  #hash(bytes: Uint8Array): void {
    this.#content.update(bytes);
    this.#whole.update(bytes);
  }

  /** The next bytes, borrowed until the next call. */
  #take(length: number, what: string): Buffer {
    if (this.#at + length > this.#size)
      throw invalidSnapshot(
        this.#size < backupPrefixBytes ? "foreign" : "truncated",
        this.#at,
        `ends after ${this.#size} bytes, in the middle of a ${what}`,
      );
    if (this.#buffer.length < length) this.#buffer = Buffer.allocUnsafeSlow(length);
    const bytes = this.#buffer.subarray(0, length);
    for (let read = 0; read < length; ) {
      const count = readSync(this.#file, bytes, read, length - read, this.#at + read);
      if (count === 0)
        throw invalidSnapshot("truncated", this.#at + read, "became shorter while it was read");
      read += count;
    }
    this.#at += length;
    return bytes;
  }

  /** All blocks except the end block, which is only verified. @throws invalid_snapshot */
  *blocks(): Generator<Block> {
    for (;;) {
      const position = this.#at;
      if (position === this.#size) throw invalidSnapshot("truncated", position, "has no end");
      const head = Buffer.from(this.#take(blockHeadBytes, "block's head"));
      const kind = kindOf.get(head[0]);
      const storedBytes = head.readUInt32LE(4);
      const unpackedBytes = head.readUInt32LE(8);
      const isPlausible =
        kind !== undefined && Math.max(storedBytes, unpackedBytes) <= limits.snapshotBlockBytesMax;
      if (!isPlausible) throw invalidSnapshot("damaged", position, "has a block that cannot be");
      const stored = this.#take(storedBytes, "block");
      if (crc32(stored, crc32(head.subarray(0, 16))) !== head.readUInt32LE(16))
        throw invalidSnapshot("damaged", position, "has a block that fails its checksum");
      if (kind === "end") {
        this.#verifyEnd(position, head, stored);
        return;
      }
      this.#hash(head);
      this.#hash(stored);
      const bytes = head[1] === 0 ? stored : unpack(stored, unpackedBytes, position);
      if (bytes.length !== unpackedBytes)
        throw invalidSnapshot("damaged", position, "has a block with a wrong length");
      yield { kind, position, rows: head.readUInt32LE(12), bytes };
    }
  }

  #verifyEnd(position: number, head: Uint8Array, stored: Uint8Array): void {
    if (this.#at !== this.#size)
      throw invalidSnapshot("damaged", this.#at, `has ${this.#size - this.#at} bytes after its end`);
    const { sha256 } = parseJson<{ sha256: string }>(stored, position);
    if (toHex(this.#content.digest()) !== sha256)
      throw invalidSnapshot("damaged", position, "fails its checksum as a whole");
    this.#whole.update(head);
    this.#whole.update(stored);
  }

  /** The SHA-256 of the whole file, in hex. Call it once, after the last block. */
  sha256(): string {
    return this.#whole.digest("hex");
  }
}

/** A block's bytes as an object of JSON. @throws invalid_snapshot */
export function parseJson<T extends object>(bytes: Uint8Array, position: number): T {
  let value: unknown;
  try {
    value = JSON.parse(text(bytes));
  } catch {
    value = null;
  }
  if (typeof value === "object" && value !== null) return value as T;
  throw invalidSnapshot("damaged", position, "has a block that is not the JSON that it should be");
}

function unpack(stored: Uint8Array, unpackedBytes: number, position: number): Uint8Array {
  try {
    return zstdDecompressSync(stored, { maxOutputLength: Math.max(1, unpackedBytes) });
  } catch (error) {
    const fault = invalidSnapshot("damaged", position, "has a block that cannot be unpacked");
    throw new QuiverError(fault.code, fault.message, fault.details, { cause: error });
  }
}
