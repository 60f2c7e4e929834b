// How are the bytes of a file read, compressed or not, from the start or from the middle?
//
// Memory stays constant for files of any size: a stream is read only as fast as its content is consumed.

import { createReadStream } from "node:fs";
import { open, stat } from "node:fs/promises";
import { Readable } from "node:stream";
import { constants, gunzipSync } from "node:zlib";
import type { QuiverError } from "@quiverdb/client";
import { decompressed, startsAsGzip } from "../gunzip.ts";
import { nameOf, standardInput } from "../place.ts";
import { prepended } from "../prepended.ts";
import { fileFault } from "./faults.ts";

const chunkBytes = 256 * 1024;

let lookedAt: Readable | undefined;

/** Standard input, also what was looked at already. */
export const standardInputStream = (): Readable => lookedAt ?? process.stdin;

/** The beginning of standard input, which is still read: so many bytes, or what is there when its first line has ended. */
async function startOfStandardInput(bytes: number): Promise<Buffer> {
  const chunks = process.stdin.iterator({ destroyOnReturn: false }) as AsyncGenerator<Buffer>;
  const parts: Buffer[] = [];
  const isEnough = () => {
    const length = parts.reduce((sum, part) => sum + part.length, 0);
    return length >= bytes || (!startsAsGzip(parts[0] ?? []) && parts.at(-1)?.includes("\n") === true);
  };
  while (!isEnough()) {
    const { done, value } = await chunks.next();
    if (done) break;
    parts.push(value);
  }
  const start = Buffer.concat(parts);
  lookedAt = Readable.from(prepended(start, chunks), { objectMode: false });
  return startsAsGzip(start) ? gunzipSync(start, { finishFlush: constants.Z_SYNC_FLUSH }) : start;
}

export type InputFile = {
  /** The content, uncompressed. */
  readonly chunks: AsyncGenerator<Buffer>;
  /** Bytes read from the file so far, for progress. */
  bytesRead(): number;
};

/**
 * Opens a file, or standard input.
 * @param offset bytes of the uncompressed content to skip
 */
export async function openInput(path: string, offset = 0): Promise<InputFile> {
  const gzip = path === standardInput ? undefined : await isGzip(path);
  // Compressed content must be read from its start to reach an offset in it.
  const start = gzip === false ? offset : 0;
  const stream =
    path === standardInput
      ? standardInputStream()
      : createReadStream(path, { highWaterMark: chunkBytes, start });
  const counted = { bytes: start };
  const chunks = content(stream, path, gzip, gzip === false ? 0 : offset, counted);
  return { chunks, bytesRead: () => counted.bytes };
}

/** Bytes at the start of the content of a file, or of standard input, for the format detection. */
export async function readStart(path: string, bytes: number): Promise<Buffer> {
  if (path === standardInput) return startOfStandardInput(bytes);
  const parts: Buffer[] = [];
  let length = 0;
  const { chunks } = await openInput(path);
  try {
    for await (const chunk of chunks) {
      parts.push(chunk);
      length += chunk.length;
      if (length >= bytes) break;
    }
  } catch (error) {
    // What is before a fault may have records. The fault is told when the file is read.
    if (parts.length === 0) throw error;
  }
  return Buffer.concat(parts).subarray(0, bytes);
}

/** Size in bytes; 0 for standard input. @throws QuiverError source_failed if there is no such file */
export async function sizeOf(path: string): Promise<number> {
  if (path === standardInput) return 0;
  try {
    const found = await stat(path);
    if (!found.isDirectory()) return found.size;
  } catch (error) {
    throw unreadable(path, error);
  }
  throw fileFault(`${path} is a directory, expected a file.`);
}

async function isGzip(path: string): Promise<boolean> {
  const file = await open(path).catch((error) => {
    throw unreadable(path, error);
  });
  try {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(2), 0, 2, 0);
    return bytesRead === 2 && startsAsGzip(buffer);
  } finally {
    await file.close();
  }
}

/** @param gzip false: the stream is not compressed, whatever its first bytes are */
async function* content(
  stream: Readable,
  path: string,
  gzip: boolean | undefined,
  leaveOut: number,
  counted: { bytes: number },
): AsyncGenerator<Buffer> {
  try {
    const raw = count(stream, counted);
    yield* gzip === false ? raw : skip(decompressed(raw), leaveOut);
  } catch (error) {
    throw unreadable(path, error);
  } finally {
    stream.destroy();
  }
}

async function* count(stream: Readable, counted: { bytes: number }): AsyncGenerator<Buffer> {
  for await (const chunk of stream) {
    counted.bytes += (chunk as Buffer).length;
    yield chunk as Buffer;
  }
}

async function* skip(chunks: AsyncIterable<Buffer>, bytes: number): AsyncGenerator<Buffer> {
  let left = bytes;
  for await (const chunk of chunks) {
    if (left >= chunk.length) {
      left -= chunk.length;
      continue;
    }
    yield left === 0 ? chunk : chunk.subarray(left);
    left = 0;
  }
}

const unreadable = (path: string, error: unknown): QuiverError =>
  fileFault(`Cannot read ${nameOf(path)}: ${(error as Error).message}.`, error);
