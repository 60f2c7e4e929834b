// Is a stream of bytes compressed, and what is in it?
//
// Its first two bytes decide whether it is gzip, never a name.

import { pipeline } from "node:stream";
import { createGunzip } from "node:zlib";
import { prepended } from "./prepended.ts";

const gzipMagic = [0x1f, 0x8b] as const;
const chunkBytes = 256 * 1024;

export const startsAsGzip = (bytes: ArrayLike<number>): boolean =>
  gzipMagic.every((byte, i) => bytes[i] === byte);

/** The content of a stream, decompressed if it is gzip. What is before a fault comes before it. */
export async function* decompressed<Bytes extends Uint8Array>(
  stored: AsyncGenerator<Bytes>,
): AsyncGenerator<Bytes | Buffer> {
  let head = Buffer.alloc(0);
  while (head.length < gzipMagic.length) {
    const { done, value } = await stored.next();
    if (done === true) break;
    head = Buffer.concat([head, value]);
  }
  if (head.length === 0) return;
  const all = prepended<Bytes | Buffer>(head, stored);
  if (!startsAsGzip(head)) return yield* all;
  const gunzip = createGunzip({ chunkSize: chunkBytes });
  // Each ends the other; a fault is thrown where the result is read.
  pipeline(all, gunzip, () => undefined);
  yield* gunzip;
}
