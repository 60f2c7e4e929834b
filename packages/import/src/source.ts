// Where do the bytes of an import come from?

import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { pipeline, Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { prepended } from "./prepended.ts";

/** A path, the URL of a file, or bytes. */
export type ImportSource = string | URL | Blob | AsyncIterable<Uint8Array>;

const gzipMagic = [0x1f, 0x8b] as const;

/** An opened source: its bytes, decompressed, and how many of the file were read. Can be read once. */
export class Source implements AsyncIterable<Uint8Array> {
  /** Of the file as it is stored. */
  bytesRead = 0;
  /** Undefined if the size is not known. */
  readonly bytesTotal: number | undefined;
  readonly #stored: AsyncIterable<Uint8Array>;
  readonly #signal: AbortSignal | undefined;

  private constructor(
    stored: AsyncIterable<Uint8Array>,
    bytesTotal: number | undefined,
    signal: AbortSignal | undefined,
  ) {
    this.#stored = stored;
    this.bytesTotal = bytesTotal;
    this.#signal = signal;
  }

  /** @throws the system's error if a file cannot be opened */
  static async open(source: ImportSource, signal?: AbortSignal): Promise<Source> {
    if (typeof source === "string" || source instanceof URL) {
      const { size } = await stat(source);
      return new Source(createReadStream(source), size, signal);
    }
    if (source instanceof Blob) return new Source(Readable.fromWeb(source.stream()), source.size, signal);
    return new Source(source, undefined, signal);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    const counted = this.#counted();
    let head: Uint8Array = new Uint8Array();
    while (head.length < gzipMagic.length) {
      const { done, value } = await counted.next();
      if (done === true) break;
      head = Buffer.concat([head, value]);
    }
    const all = prepended(head, counted);
    if (!gzipMagic.every((byte, i) => head[i] === byte)) {
      yield* all;
      return;
    }
    const gunzip = createGunzip();
    // Each ends the other; a fault is thrown where the result is read.
    pipeline(all, gunzip, () => undefined);
    yield* gunzip;
  }

  async *#counted(): AsyncGenerator<Uint8Array> {
    for await (const chunk of this.#stored) {
      this.#signal?.throwIfAborted();
      this.bytesRead += chunk.byteLength;
      yield chunk;
    }
  }
}
