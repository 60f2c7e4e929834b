// What does a stored record contain, read field by field as asked?
//
// The layout is that of record.ts.

import {
  concatenated,
  emptyBytes,
  lenientText,
  readU16LE,
  readU32LE,
  readU53,
  writeU32LE,
} from "../base/bytes.ts";
import { type Contents, contentsOf, has, type RecordContent } from "./record.ts";

/** A stored record, read field by field as asked. Borrows its bytes: use it before the next read of the store. */
export class RecordReader {
  readonly #bytes: Uint8Array;
  readonly #idEnd: number;
  readonly #flags: number;

  /** Bytes of the stored record. */
  get byteLength(): number {
    return this.#bytes.length;
  }

  constructor(stored: Uint8Array) {
    this.#bytes = stored;
    this.#idEnd = 10 + readU16LE(stored, 8);
    this.#flags = stored[this.#idEnd];
  }

  get born(): number {
    return readU53(this.#bytes);
  }

  get id(): string {
    return this.#textOf(10, this.#idEnd);
  }

  #textOf(from: number, to: number): string {
    return lenientText(this.#bytes.subarray(from, to));
  }

  get idBytes(): Uint8Array {
    return this.#bytes.subarray(10, this.#idEnd);
  }

  get contents(): Contents {
    return contentsOf(this.#bytes.subarray(this.#idEnd));
  }

  get #documentAt(): number {
    return this.#idEnd + 1;
  }

  get #textAt(): number {
    const at = this.#documentAt;
    return this.#flags & has.document ? at + 2 + readU16LE(this.#bytes, at) : at;
  }

  get #metadataAt(): number {
    const at = this.#textAt;
    return this.#flags & (has.rawText | has.processedText) ? at + 4 + readU32LE(this.#bytes, at) : at;
  }

  get #sparseAt(): number {
    const at = this.#metadataAt;
    return this.#flags & has.metadata ? at + 4 + readU32LE(this.#bytes, at) : at;
  }

  /** Where the fields end, as their lengths say: the length of the record. @throws RangeError where it is cut short */
  get end(): number {
    const at = this.#sparseAt;
    return this.#flags & has.sparse ? at + 4 + 8 * readU32LE(this.#bytes, at) : at;
  }

  get documentId(): string | null {
    const at = this.#documentAt;
    if (!(this.#flags & has.document)) return null;
    return this.#textOf(at + 2, at + 2 + readU16LE(this.#bytes, at));
  }

  get documentIdBytes(): Uint8Array {
    const at = this.#documentAt;
    if (!(this.#flags & has.document)) return emptyBytes;
    return this.#bytes.subarray(at + 2, at + 2 + readU16LE(this.#bytes, at));
  }

  get text(): RecordContent["text"] {
    const raw = (this.#flags & has.rawText) !== 0;
    if (!raw && !(this.#flags & has.processedText)) return null;
    const at = this.#textAt;
    return {
      kind: raw ? "raw" : "processed",
      value: this.#textOf(at + 4, at + 4 + readU32LE(this.#bytes, at)),
    };
  }

  get rawText(): string | null {
    return this.#flags & has.rawText ? (this.text?.value ?? null) : null;
  }

  get metadataJson(): string | null {
    const bytes = this.metadataBytes;
    return bytes && lenientText(bytes);
  }

  /** The same in UTF-8. */
  get metadataBytes(): Uint8Array | null {
    if (!(this.#flags & has.metadata)) return null;
    const at = this.#metadataAt;
    return this.#bytes.subarray(at + 4, at + 4 + readU32LE(this.#bytes, at));
  }

  /** The content (record.ts) with other metadata, JSON text in UTF-8. */
  contentWithMetadata(metadata: Uint8Array): Uint8Array {
    const bytes = this.#bytes;
    const length = new Uint8Array(4);
    writeU32LE(length, 0, metadata.length);
    return concatenated([
      Uint8Array.of(this.#flags | has.metadata),
      bytes.subarray(this.#documentAt, this.#metadataAt),
      length,
      metadata,
      bytes.subarray(this.#sparseAt),
    ]);
  }

  /** Indices ascending, and their values; the caller's to keep. */
  get sparse(): { indices: Uint32Array; values: Float32Array } | null {
    if (!(this.#flags & has.sparse)) return null;
    const at = this.#sparseAt;
    const count = readU32LE(this.#bytes, at);
    const bytes = new Uint8Array(count * 8);
    bytes.set(this.#bytes.subarray(at + 4, at + 4 + count * 8));
    return {
      indices: new Uint32Array(bytes.buffer, 0, count),
      values: new Float32Array(bytes.buffer, count * 4, count),
    };
  }
}
