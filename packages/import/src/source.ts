// Where do the bytes of an import come from, and what do messages call the places in them?

import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { Readable } from "node:stream";
import { QuiverError } from "@quiverdb/client";
import { decompressed } from "./gunzip.ts";
import { lineIn, recordIn } from "./place.ts";
import { prepended } from "./prepended.ts";

/** A path, the URL of a file, or bytes. */
export type ImportSource = string | URL | Blob | AsyncIterable<Uint8Array>;

/** An opened source: its bytes, decompressed, and how many of the file were read. Can be read once. */
export class Source implements AsyncIterable<Uint8Array> {
  /** Of the file as it is stored. */
  bytesRead = 0;
  /** Undefined if the size is not known. */
  readonly bytesTotal: number | undefined;
  /** Of the file, if it has one. */
  readonly #name: string | undefined;
  readonly #stored: AsyncIterable<Uint8Array>;
  /** What was opened here. */
  readonly #own: Readable | undefined;
  readonly #signal: AbortSignal | undefined;
  readonly #content: AsyncGenerator<Uint8Array>;
  /** What was looked at already. */
  #head: Uint8Array = new Uint8Array();
  /** What ended the look: it is thrown behind the bytes before it, which may have records. */
  #fault: unknown;

  private constructor(
    stored: AsyncIterable<Uint8Array>,
    signal: AbortSignal | undefined,
    { bytesTotal, name, own }: { bytesTotal?: number; name?: string; own?: Readable } = {},
  ) {
    this.#stored = stored;
    this.#own = own;
    this.bytesTotal = bytesTotal;
    this.#name = name;
    this.#signal = signal;
    this.#content = this.#read();
  }

  /** @throws the system's error if a file cannot be opened */
  static async open(source: ImportSource, signal?: AbortSignal): Promise<Source> {
    if (typeof source === "string" || source instanceof URL) {
      const { size } = await stat(source);
      const own = createReadStream(source);
      return new Source(own, signal, { bytesTotal: size, name: String(source), own });
    }
    if (source instanceof Blob) {
      const { name } = source as { name?: string };
      const own = Readable.fromWeb(source.stream());
      return new Source(own, signal, { bytesTotal: source.size, name, own });
    }
    return new Source(source, signal);
  }

  /** What messages call the source, at the beginning of a sentence. */
  get title(): string {
    return this.#name ?? "The file";
  }

  /** What messages call a line of it: `points.jsonl:18`. @param line from 1 */
  at(line: number): string {
    return lineIn(this.#name, line);
  }

  /** What messages call a record of it: `points.json:19 (record 3)`. @param record from 0 @param line from 1 */
  recordAt(record: number, line: number | undefined): string {
    return recordIn(this.#name, "record", record + 1, line);
  }

  /** Its beginning, at least so many bytes if it has them. They are still read. */
  async head(bytes: number): Promise<Uint8Array> {
    const parts = [this.#head];
    try {
      for (let length = this.#head.length; length < bytes; ) {
        const { done, value } = await this.#content.next();
        if (done === true) break;
        parts.push(value);
        length += value.length;
      }
    } catch (error) {
      this.#signal?.throwIfAborted();
      this.#fault = error;
    }
    this.#head = parts.length === 1 ? this.#head : Buffer.concat(parts);
    return this.#head;
  }

  /** Throws what has ended the look at the beginning. */
  throwFault(): void {
    if (this.#fault !== undefined) throw this.#fault;
  }

  /** Closes what was opened, however much of it was read. */
  async close(): Promise<void> {
    await this.#content.return(undefined);
    this.#own?.destroy();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    yield* prepended(this.#head, this.#content);
    this.throwFault();
  }

  async *#read(): AsyncGenerator<Uint8Array> {
    try {
      yield* decompressed(this.#counted());
    } catch (error) {
      throw this.#told(error);
    }
  }

  async *#counted(): AsyncGenerator<Uint8Array> {
    for await (const chunk of this.#stored) {
      this.#signal?.throwIfAborted();
      this.bytesRead += chunk.byteLength;
      yield chunk;
    }
  }

  /** A fault of the file or of its compression as one of ours; what the caller's own source throws is the caller's. */
  #told(error: unknown): unknown {
    const { code = "", syscall, message } = Object(error) as NodeJS.ErrnoException;
    const isCompression = /^(Z_|ERR_ZLIB)/.test(code);
    if (!isCompression && syscall !== "read") return error;
    const why = isCompression ? `its gzip is damaged or cut off (${message})` : message;
    return new QuiverError("source_failed", `${this.title} cannot be read: ${why}.`, {}, { cause: error });
  }
}
