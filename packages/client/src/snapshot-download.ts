// How is a snapshot file downloaded?
//
// As one stream, which is resumed after an interruption: the file never changes, so the rest of it can be requested (Range).

import { QuiverError } from "@quiverdb/protocol/errors";
import { failureOfFetch } from "./answer.ts";
import { readChunks } from "./export.ts";

/** Opens the file at a byte offset. */
type Open = (start: number) => Promise<Response>;

/**
 * The bytes of a snapshot file; created by `collection.downloadSnapshot()`. The request is sent on the first read. Memory stays constant.
 * Can be read once. Compare the SHA-256 of the bytes with `snapshot.sha256`.
 *
 * @example
 * ```ts no-run
 * import { createWriteStream } from "node:fs";
 * import { pipeline } from "node:stream/promises";
 * import type { Collection } from "@quiverdb/client";
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

  /** The bytes of the file, in pieces. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    let at = 0;
    for (let failures = 0; ; ) {
      const response = await this.#open(at);
      const size = sizeOf(response);
      try {
        if (at > 0 && response.status !== 206)
          throw failureOfFetch(new Error("no part of the file arrived"), this.#request).error;
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

/** Size of the whole file in bytes; NaN if the response does not contain it. */
function sizeOf(response: Response): number {
  const range = response.headers.get("content-range");
  return Number(range === null ? response.headers.get("content-length") : range.split("/")[1]);
}
