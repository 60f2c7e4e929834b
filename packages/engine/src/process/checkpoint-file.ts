// How is a checkpoint of an index stored, so that a reader detects any damage?
//
//   | part 0 | part 1 | ... | footer: JSON | footer's length u32 | footer's CRC-32 u32 | magic, 8 bytes |
//
// A part is stored in chunks of 4 MiB. If it consists of rows, each chunk is shuffled (shuffle.ts) and compressed by zstd. The footer
// describes the checkpoint and has, for each part, its length and, for each chunk, the number of stored bytes and their CRC-32, which is
// verified before they are decompressed. A checkpoint is written to a temporary file, synced, and then renamed. So at any moment there is
// the old one, the new one, or none. Checkpoints are derived data: a damaged one counts as missing (invariant 5).

import {
  closeSync,
  fstatSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import { constants, crc32, zstdCompressSync, zstdDecompressSync } from "node:zlib";
import { failpoint } from "../base/failpoint.ts";
import { syncDirectory } from "./data-directory.ts";
import { shuffled, unshuffle } from "./shuffle.ts";

/** Increased when the format, or what any part means, changes. */
const formatNumber = 3;
const magic = "QUIVERCP";
/** Larger ones save a byte of a graph's node, and take more memory. */
const chunkBytes = 4 * 1024 * 1024;
/** Levels above 1 save no byte of a graph. */
const compression = { params: { [constants.ZSTD_c_compressionLevel]: 1 } };
const endBytes = 16;
const footerBytesMax = 64 * 1024 * 1024;

type Chunk = { readonly stored: number; readonly crc: number };
type Part = {
  readonly offset: number;
  readonly length: number;
  /** 0: it does not consist of rows, and is not compressed. */
  readonly rowBytes: number;
  readonly chunks: readonly Chunk[];
};
type Footer = { readonly format: number; readonly meta: unknown; readonly parts: readonly Part[] };

/** The file is whole, and of another program. */
export class OtherCheckpointFormat extends Error {}

/** Bytes of a checkpoint. If they are rows of `rowBytes`, a multiple of 4, they are in memory at a multiple of 4. */
export type CheckpointPart = { readonly bytes: Uint8Array; readonly rowBytes?: number };

/** Writes a checkpoint and makes it durable. @param meta its description, stored as JSON */
export function writeCheckpoint(path: string, meta: unknown, parts: readonly CheckpointPart[]): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const unfinished = `${path}.new`;
  const file = openSync(unfinished, "w", 0o600);
  try {
    const kept: Part[] = [];
    let offset = 0;
    failpoint("checkpoint:opened");
    for (const { bytes, rowBytes = 0 } of parts) {
      const part = { offset, length: bytes.length, rowBytes, chunks: [] as Chunk[] };
      for (let at = 0; at < bytes.length; at += chunkBytes) {
        const chunk = bytes.subarray(at, at + chunkBytes);
        const stored = rowBytes > 0 ? zstdCompressSync(shuffled(chunk, rowBytes), compression) : chunk;
        part.chunks.push({ stored: stored.length, crc: crc32(stored) });
        writeFully(file, stored);
        offset += stored.length;
      }
      kept.push(part);
      failpoint("checkpoint:part-written");
    }
    const footer = Buffer.from(JSON.stringify({ format: formatNumber, meta, parts: kept } satisfies Footer));
    const end = Buffer.alloc(endBytes);
    end.writeUInt32LE(footer.length, 0);
    end.writeUInt32LE(crc32(footer), 4);
    end.write(magic, 8, "latin1");
    writeFully(file, footer);
    writeFully(file, end);
    failpoint("checkpoint:written");
    fsyncSync(file);
  } catch (error) {
    closeSync(file);
    rmSync(unfinished, { force: true });
    throw error;
  }
  closeSync(file);
  failpoint("checkpoint:synced");
  renameSync(unfinished, path);
  failpoint("checkpoint:renamed");
  syncDirectory(dirname(path));
  failpoint("checkpoint:durable");
}

function writeFully(file: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at, bytes.length - at);
}

function readFully(file: number, into: Uint8Array, position: number): void {
  for (let at = 0; at < into.length; ) {
    const read = readSync(file, into, at, into.length - at, position + at);
    if (read === 0) throw new Error("the file ends too early");
    at += read;
  }
}

/** A checkpoint that is open for reading. Every method throws if the file is damaged. */
export class CheckpointReader {
  readonly meta: unknown;
  readonly #file: number;
  readonly #parts: readonly Part[];

  constructor(path: string) {
    this.#file = openSync(path, "r");
    try {
      const { meta, parts } = this.#readFooter();
      this.meta = meta;
      this.#parts = parts;
    } catch (error) {
      this.close();
      throw error;
    }
  }

  #readFooter(): Footer {
    const { size } = fstatSync(this.#file);
    if (size < endBytes) throw new Error("the file is too short");
    const end = Buffer.alloc(endBytes);
    readFully(this.#file, end, size - endBytes);
    if (end.toString("latin1", 8) !== magic) throw new Error("the file does not end as a checkpoint");
    const length = end.readUInt32LE(0);
    if (length > Math.min(footerBytesMax, size - endBytes))
      throw new Error("the footer is longer than the file");
    const bytes = Buffer.alloc(length);
    readFully(this.#file, bytes, size - endBytes - length);
    if (crc32(bytes) !== end.readUInt32LE(4)) throw new Error("the footer fails its checksum");
    const footer = JSON.parse(bytes.toString()) as Footer;
    if (footer.format !== formatNumber)
      throw new OtherCheckpointFormat(`the format is ${footer.format}, not ${formatNumber}`);
    return footer;
  }

  get partCount(): number {
    return this.#parts.length;
  }

  lengthOf(part: number): number {
    return this.#parts[part].length;
  }

  /** Reads a part into an array of exactly its length. */
  read(part: number, into: Uint8Array): void {
    const { offset, length, rowBytes, chunks } = this.#parts[part];
    if (into.length !== length) throw new Error(`part ${part} has ${length} bytes, not ${into.length}`);
    let position = offset;
    for (let at = 0, i = 0; at < length; at += chunkBytes, i++) {
      const { stored, crc } = chunks[i];
      const chunk = into.subarray(at, at + chunkBytes);
      const bytes = rowBytes > 0 ? Buffer.allocUnsafeSlow(stored) : chunk;
      readFully(this.#file, bytes, position);
      if (crc32(bytes) !== crc) throw new Error(`part ${part} fails its checksum at byte ${at}`);
      position += stored;
      if (rowBytes > 0)
        unshuffle(zstdDecompressSync(bytes, { maxOutputLength: chunk.length }), rowBytes, chunk);
    }
  }

  close(): void {
    closeSync(this.#file);
  }
}

/** Removes a checkpoint, and the temporary file of an interrupted one. */
export function removeCheckpoint(path: string): void {
  rmSync(path, { force: true });
  failpoint("checkpoint:removed");
  rmSync(`${path}.new`, { force: true });
}
