// How does a caller read a whole collection?

import type { VectorRecord } from "@quiverdb/protocol/shapes/vector";
import { failureOfFetch } from "./answer.ts";

/** The open response: its lines and their version. */
export type ExportAnswer = {
  readonly response: Response;
  readonly request: string;
  readonly signal: AbortSignal | undefined;
};

/**
 * All records of one version of a collection, one JSON text at a time; created by `collection.export()`. The request is sent on the first
 * read of a line or of the version. Memory stays constant: the server sends only as fast as the lines are read. Can be read once.
 *
 * @example
 * ```ts no-run
 * import type { Collection } from "@quiverdb/client";
 * declare const collection: Collection;
 * for await (const line of collection.export()) process.stdout.write(`${line}\n`);
 * ```
 */
export class RecordExport implements AsyncIterable<string> {
  readonly #open: () => Promise<ExportAnswer>;
  #answer: Promise<ExportAnswer> | undefined;

  constructor(open: () => Promise<ExportAnswer>) {
    this.#open = open;
  }

  /** Version of the records; 0 for a key with a filter, which is not told of versions. */
  async version(): Promise<number> {
    const { response } = await this.#opened();
    return Number(response.headers.get("x-quiver-version"));
  }

  /** How many records there are. */
  async count(): Promise<number> {
    const { response } = await this.#opened();
    return Number(response.headers.get("x-quiver-count"));
  }

  /** The records as objects. Numbers in metadata become JavaScript numbers; the lines have their exact text. */
  async *records(): AsyncGenerator<VectorRecord> {
    for await (const line of this) yield JSON.parse(line);
  }

  /** The records as lines of JSON, without line breaks. @throws connection_failed if fewer arrive than there are */
  async *[Symbol.asyncIterator](): AsyncGenerator<string> {
    const { response, request, signal } = await this.#opened();
    let lines = 0;
    for await (const line of splitLines(readChunks(response, request, signal))) {
      lines++;
      yield line;
    }
    const count = await this.count();
    if (lines !== count) {
      // A proxy ended the response early as if it were complete.
      throw failureOfFetch(new Error(`${lines} of ${count} records arrived`), request).error;
    }
  }

  #opened(): Promise<ExportAnswer> {
    this.#answer ??= this.#open();
    return this.#answer;
  }
}

/** The bytes of a response as they arrive. @throws QuiverError connection_failed if it is cut off */
export async function* readChunks(
  response: Response,
  request: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  signal?.throwIfAborted();
  if (!response.body) return;
  const reader = response.body.getReader();
  const stop = () => void reader.cancel(signal?.reason).catch(() => undefined);
  signal?.addEventListener("abort", stop, { once: true });
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((thrown) => {
        // The response was cut off. It cannot be resumed: a second request might read another version.
        throw failureOfFetch(thrown, request).error;
      });
      signal?.throwIfAborted();
      if (done) return;
      yield value;
    }
  } finally {
    signal?.removeEventListener("abort", stop);
    // If the reader stops early, the server stops too.
    await reader.cancel().catch(() => undefined);
  }
}

/** The non-empty lines of a UTF-8 stream. A line may span many chunks; it is joined once, at its end. */
async function* splitLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let parts: string[] = [];
  for await (const chunk of chunks) {
    const pieces = decoder.decode(chunk, { stream: true }).split("\n");
    for (let i = 0; i < pieces.length - 1; i++) {
      const line = parts.length === 0 ? pieces[i] : parts.join("") + pieces[i];
      parts = [];
      if (line !== "") yield line;
    }
    const rest = pieces[pieces.length - 1];
    if (rest !== "") parts.push(rest);
  }
  const last = parts.join("") + decoder.decode();
  if (last !== "") yield last;
}
