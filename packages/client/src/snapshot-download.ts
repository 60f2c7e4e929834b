// How does the file of a snapshot come to a caller?
//
// In one stream, which goes on where it broke off: the file never changes, so its rest can be asked for (Range).

import { QuiverError } from "@quiver/protocol/errors";
import { failureOfFetch } from "./answer.ts";
import { readChunks } from "./export.ts";

/** Opens the file from a byte on. */
type Open = (start: number) => Promise<Response>;

/**
 * The bytes of a snapshot's file; made by `collection.downloadSnapshot()`. Nothing is asked before they are read. Memory stays
 * constant. Can be read once. Compare the SHA-256 of what was read with `snapshot.sha256`.
 *
 * @example
 * ```ts no-run
 * import { createWriteStream } from "node:fs";
 * import { pipeline } from "node:stream/promises";
 * import type { Collection } from "@quiver/client";
 * declare const collection: Collection;
 * const snapshot = await collection.createSnapshot();
 * await pipeline(collection.downloadSnapshot(snapshot.id), createWriteStream("docs.qbackup"));
 * ```
 */
export class SnapshotDownload implements AsyncIterable<Uint8Array> {
  readonly #open: Open;
  readonly #request: string;
  readonly #signal: AbortSignal | undefined;
  readonly #retries: number;

  constructor(open: Open, request: string, signal: AbortSignal | undefined, retries: number) {
    this.#open = open;
    this.#request = request;
    this.#signal = signal;
    this.#retries = retries;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    let at = 0;
    for (let failures = 0; ; ) {
      const response = await this.#open(at);
      const size = sizeOf(response);
      try {
        if (at > 0 && response.status !== 206)
          throw failureOfFetch(new Error("no part of the file came"), this.#request).error;
        for await (const chunk of readChunks(response, this.#request, this.#signal)) {
          at += chunk.length;
          failures = 0;
          yield chunk;
        }
        if (at === size) return;
        throw failureOfFetch(new Error(`${at} of ${size} bytes arrived`), this.#request).error;
      } catch (error) {
        if (!(error instanceof QuiverError) || error.code !== "connection_failed") throw error;
        if (failures++ >= this.#retries) throw error;
      }
    }
  }
}

/** Bytes of the whole file; NaN where the answer does not tell. */
function sizeOf(response: Response): number {
  const range = response.headers.get("content-range");
  return Number(range === null ? response.headers.get("content-length") : range.split("/")[1]);
}
