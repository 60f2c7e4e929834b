// How does a caller read a whole collection?

import type { VectorRecord } from "@quiver/protocol/shapes/vector";
import { failureOfFetch } from "./answer.ts";

/** The opened answer: its lines and the version that they are of. */
export type ExportAnswer = {
  readonly response: Response;
  readonly request: string;
  readonly signal: AbortSignal | undefined;
};

/**
 * All records of one version of a collection, one JSON text at a time; made by `collection.export()`. The request
 * is sent when the first line, or the version, is asked for. Memory stays constant: what is not read yet is not
 * sent yet. Can be read once.
 *
 * @example
 * ```ts no-run
 * import type { Collection } from "@quiver/client";
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

  /** Number of the version that the records are of. */
  async version(): Promise<number> {
    const { response } = await this.#opened();
    return Number(response.headers.get("x-quiver-version"));
  }

  /** How many records there are. */
  async count(): Promise<number> {
    const { response } = await this.#opened();
    return Number(response.headers.get("x-quiver-count"));
  }

  /** The records as objects. Numbers in metadata become JavaScript numbers; the lines keep them as they are. */
  async *records(): AsyncGenerator<VectorRecord> {
    for await (const line of this) yield JSON.parse(line);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<string> {
    const { response, request, signal } = await this.#opened();
    let lines = 0;
    for await (const line of splitLines(readChunks(response, request, signal))) {
      lines++;
      yield line;
    }
    const count = await this.count();
    if (lines !== count) {
      // Something between client and server has ended the answer as if it were complete.
      throw failureOfFetch(new Error(`${lines} of ${count} records arrived`), request).error;
    }
  }

  #opened(): Promise<ExportAnswer> {
    this.#answer ??= this.#open();
    return this.#answer;
  }
}

/** The bytes of an answer as they come. @throws QuiverError connection_failed where it is cut off */
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
        // Cut off in the middle. It cannot be continued: a second request might read another version.
        throw failureOfFetch(thrown, request).error;
      });
      signal?.throwIfAborted();
      if (done) return;
      yield value;
    }
  } finally {
    signal?.removeEventListener("abort", stop);
    // Whoever stops reading early lets the server stop too.
    await reader.cancel().catch(() => undefined);
  }
}

/** The lines of a stream of UTF-8, without empty ones. A line may span many chunks; it is joined once, at its end. */
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
