// How are the bytes of a file read, compressed or not, from the start or from the middle?
//
// The first two bytes of a file decide whether it is gzip, never its name. Memory stays constant for files of any size: a stream is read
// only as fast as its content is consumed.

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { open, stat } from "node:fs/promises";
import { Readable } from "node:stream";
import { constants, createGunzip, gunzipSync } from "node:zlib";
import { CommandError } from "../exit-codes.ts";

export const standardInput = "-";

const chunkBytes = 256 * 1024;
const fingerprintBytes = 64 * 1024;
const gzipMagic = [0x1f, 0x8b];

let lookedAt: Readable | undefined;

/** Standard input, also what was looked at already. */
export const standardInputStream = (): Readable => lookedAt ?? process.stdin;

/** The beginning of standard input, which is still read: so many bytes, or what is there when its first line has ended. */
async function startOfStandardInput(bytes: number): Promise<Buffer> {
  const chunks = process.stdin.iterator({ destroyOnReturn: false }) as AsyncIterator<Buffer, undefined>;
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
  const all = async function* () {
    yield start;
    for (let next = await chunks.next(); !next.done; next = await chunks.next()) yield next.value;
  };
  lookedAt = Readable.from(all(), { objectMode: false });
  return startsAsGzip(start) ? gunzipSync(start, { finishFlush: constants.Z_SYNC_FLUSH }) : start;
}

export type InputFile = {
  /** The content, uncompressed. */
  readonly chunks: AsyncIterable<Buffer>;
  /** Bytes read from the file so far, for progress. */
  bytesRead(): number;
};

/** The fingerprint that shows whether a file is still the same. */
export type Fingerprint = {
  readonly path: string;
  readonly size: number;
  readonly mtimeMs: number;
  readonly hash: string;
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

/** Size in bytes; 0 for standard input. @throws CommandError if there is no such file */
export async function sizeOf(path: string): Promise<number> {
  if (path === standardInput) return 0;
  try {
    const found = await stat(path);
    if (!found.isDirectory()) return found.size;
  } catch (error) {
    throw unreadable(path, error);
  }
  throw new CommandError(`${path} is a directory, expected a file.`);
}

/** Made of size, modification time and both ends of the file, because reading all of a large file only to compare it takes too long. */
export async function fingerprint(path: string): Promise<Fingerprint> {
  const { size, mtimeMs } = await stat(path);
  const file = await open(path);
  try {
    const hash = createHash("sha256");
    const buffer = Buffer.alloc(fingerprintBytes);
    for (const position of [0, Math.max(0, size - fingerprintBytes)]) {
      const { bytesRead } = await file.read(buffer, 0, fingerprintBytes, position);
      hash.update(buffer.subarray(0, bytesRead));
    }
    return { path, size, mtimeMs, hash: hash.digest("hex") };
  } finally {
    await file.close();
  }
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

const startsAsGzip = (bytes: ArrayLike<number>) => gzipMagic.every((byte, i) => bytes[i] === byte);

/** @param gzip whether the stream is compressed; undefined: its first bytes decide */
async function* content(
  stream: Readable,
  path: string,
  gzip: boolean | undefined,
  leaveOut: number,
  counted: { bytes: number },
): AsyncGenerator<Buffer> {
  try {
    const raw = count(stream, counted);
    const first = await raw.next();
    if (first.done) return;
    if (gzip ?? startsAsGzip(first.value)) {
      yield* skip(gunzip(first.value, raw), leaveOut);
    } else {
      yield first.value;
      yield* raw;
    }
  } catch (error) {
    throw error instanceof CommandError ? error : unreadable(path, error);
  } finally {
    stream.destroy();
  }
}

async function* count(stream: Readable, counted: { bytes: number }): AsyncGenerator<Buffer, undefined> {
  for await (const chunk of stream) {
    counted.bytes += (chunk as Buffer).length;
    yield chunk as Buffer;
  }
  return undefined;
}

async function* gunzip(first: Buffer, rest: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const unzip = createGunzip({ chunkSize: chunkBytes });
  const feed = async () => {
    let more = unzip.write(first);
    for await (const chunk of rest) {
      if (!more && !unzip.destroyed)
        await new Promise((resolve) => unzip.once("drain", resolve).once("close", resolve));
      if (unzip.destroyed) return;
      more = unzip.write(chunk);
    }
    unzip.end();
  };
  const fed = feed().catch((error) => unzip.destroy(error as Error));
  try {
    for await (const chunk of unzip) yield chunk as Buffer;
    await fed;
  } finally {
    unzip.destroy();
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

function unreadable(path: string, error: unknown): CommandError {
  const name = path === standardInput ? "standard input" : path;
  return new CommandError(`Cannot read ${name}: ${(error as Error).message}.`, { cause: error });
}
