// How does a caller read a whole collection?

import type { VectorRecord } from "@quiver/protocol/shapes/vector";
import { failureOfFetch } from "./answer.ts";

/** The opened answer: its lines and the version that they are of. */
export type ExportAnswer = { readonly response: Response; readonly request: string };

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

  /** The records as objects. Numbers in metadata become JavaScript numbers; the lines keep them as they are. */
  async *records(): AsyncGenerator<VectorRecord> {
    for await (const line of this) yield JSON.parse(line);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<string> {
    const { response, request } = await this.#opened();
    if (!response.body) return;
    const reader = response.body.getReader();
    const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    // A line may span many chunks; its parts are joined once, when it ends.
    let parts: string[] = [];
    let ended = false;
    try {
      for (;;) {
        const { done, value } = await readChunk(reader, request);
        const text = decoder.decode(value, { stream: !done });
        const pieces = text.split("\n");
        for (let i = 0; i < pieces.length - 1; i++) {
          const line = parts.length === 0 ? pieces[i] : parts.join("") + pieces[i];
          parts = [];
          if (line !== "") yield line;
        }
        const rest = pieces[pieces.length - 1];
        if (rest !== "") parts.push(rest);
        if (done) break;
      }
      ended = true;
      if (parts.length > 0) yield parts.join("");
    } finally {
      if (!ended) await reader.cancel().catch(() => undefined);
    }
  }

  #opened(): Promise<ExportAnswer> {
    this.#answer ??= this.#open();
    return this.#answer;
  }
}

async function readChunk(reader: ReadableStreamDefaultReader<Uint8Array>, request: string) {
  try {
    return await reader.read();
  } catch (thrown) {
    // Cut off in the middle. It cannot be continued: a second request might read another version.
    throw failureOfFetch(thrown, request).error;
  }
}
