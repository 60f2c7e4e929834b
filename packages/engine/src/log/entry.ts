// How is a log entry written as bytes?
//
//   entry      u8 form (1) | u53 sequence | u53 epoch | u53 timeMs | 16 bytes opId | u32 operations | operation ...
//   operation  u8 kind, and then
//     upsert, delete                bytes32 batch
//     begin, commit, abort          text16 transactionId
//     stage                         text16 transactionId | bytes32 batch
//     fail                          text16 transactionId | text32 message
//     createIndex                   text16 kind of index | text32 definition, JSON
//     deleteIndex                   text16 kind of index
//
// `16` and `32` mean: preceded by a length of 16 or 32 bits. Numbers are little-endian, except that 53-bit numbers are written like keys
// (big-endian). The bytes have no checksum: the layer that stores or sends them adds its own.

import { QuiverError } from "@quiverdb/protocol/errors";
import { type IndexKind, indexKinds, isMetadataIndex } from "@quiverdb/protocol/shapes/index-definition";
import { ByteWriter, fromHex, readU53, text, toHex, u53Key } from "../base/bytes.ts";
import { invariant } from "../base/invariant.ts";
import type { LogEntry, LogOperation } from "../collection/apply.ts";
import { opIdBytes } from "../collection/recent-entries.ts";

const form = 1;

const kinds = [
  "upsert",
  "delete",
  "begin",
  "stage",
  "commit",
  "abort",
  "fail",
  "createIndex",
  "deleteIndex",
] as const satisfies readonly LogOperation["kind"][];

/** The entry as bytes. */
export function encodeEntry({
  sequence,
  epoch,
  timeMs,
  opId,
  operations,
}: LogEntry): Uint8Array<ArrayBuffer> {
  const out = new ByteWriter(1024);
  out.u8(form);
  for (const number of [sequence, epoch, timeMs]) {
    invariant(Number.isSafeInteger(number) && number >= 0, `an entry has the number ${number}`);
    out.bytes(u53Key(number));
  }
  const id = fromHex(opId);
  invariant(id.length === opIdBytes, `an entry has the opId '${opId}'`);
  out.bytes(id);
  out.u32(operations.length);
  for (const operation of operations) writeOperation(out, operation);
  return out.take();
}

function writeOperation(out: ByteWriter, operation: LogOperation): void {
  out.u8(kinds.indexOf(operation.kind));
  if ("transactionId" in operation) out.text16(operation.transactionId);
  if ("index" in operation) out.text16(operation.index);
  if ("batch" in operation) {
    out.u32(operation.batch.length);
    out.bytes(operation.batch);
  }
  if ("message" in operation) out.text32(operation.message);
  if ("definition" in operation) out.text32(JSON.stringify(operation.definition));
}

/** Decodes an entry; its batches are views on the bytes. @throws data_corrupted with the position of the first unreadable field */
export function decodeEntry(bytes: Uint8Array): LogEntry {
  const reader = new EntryReader(bytes);
  if (reader.u8() !== form) throw reader.unreadable();
  const [sequence, epoch, timeMs] = [reader.u53(), reader.u53(), reader.u53()];
  const opId = toHex(reader.take(opIdBytes));
  const operations = Array.from({ length: reader.count() }, () => readOperation(reader));
  if (!reader.isOver) throw reader.unreadable();
  return { sequence, epoch, opId, timeMs, operations };
}

function readOperation(reader: EntryReader): LogOperation {
  const kind = kinds[reader.u8()];
  switch (kind) {
    case "upsert":
    case "delete":
      return { kind, batch: reader.bytes32() };
    case "begin":
    case "commit":
    case "abort":
      return { kind, transactionId: reader.text16() };
    case "stage":
      return { kind, transactionId: reader.text16(), batch: reader.bytes32() };
    case "fail":
      return { kind, transactionId: reader.text16(), message: reader.text32() };
    case "createIndex":
      return { kind, index: reader.index(), definition: reader.json32() };
    case "deleteIndex":
      return { kind, index: reader.index() };
    default:
      throw reader.unreadable();
  }
}

/** Reads an entry's bytes from the front, and throws rather than read beyond their end. */
class EntryReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  /** Start of the field that is being read, for error messages. */
  #from = 0;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get isOver(): boolean {
    return this.#at === this.#bytes.length;
  }

  unreadable(cause?: unknown): QuiverError {
    return new QuiverError(
      "data_corrupted",
      `The bytes of a log entry (${this.#bytes.length}) cannot be read at position ${this.#from}. Fetch the entry again.`,
      { position: this.#from },
      { cause },
    );
  }

  take(length: number): Uint8Array {
    this.#from = this.#at;
    if (this.#at + length > this.#bytes.length) throw this.unreadable();
    this.#at += length;
    return this.#bytes.subarray(this.#from, this.#at);
  }

  u8(): number {
    return this.take(1)[0];
  }

  #u16(): number {
    this.take(2);
    return this.#view.getUint16(this.#from, true);
  }

  #u32(): number {
    this.take(4);
    return this.#view.getUint32(this.#from, true);
  }

  u53(): number {
    const value = readU53(this.take(8));
    if (!Number.isSafeInteger(value)) throw this.unreadable();
    return value;
  }

  /** The number of operations that follow. Each has at least two bytes, which bounds the number. */
  count(): number {
    const count = this.#u32();
    if (2 * count > this.#bytes.length - this.#at) throw this.unreadable();
    return count;
  }

  bytes32(): Uint8Array {
    return this.take(this.#u32());
  }

  text16(): string {
    return this.#text(this.#u16());
  }

  text32(): string {
    return this.#text(this.#u32());
  }

  #text(length: number): string {
    return this.#decoded(length, text);
  }

  index(): IndexKind {
    const name = this.text16();
    const kind = isMetadataIndex(name) ? name : indexKinds.find((known) => known === name);
    if (kind === undefined) throw this.unreadable();
    return kind;
  }

  json32<T>(): T {
    return this.#decoded(this.#u32(), (bytes) => JSON.parse(text(bytes)) as T);
  }

  #decoded<T>(length: number, decode: (bytes: Uint8Array) => T): T {
    const bytes = this.take(length);
    try {
      return decode(bytes);
    } catch (cause) {
      throw this.unreadable(cause);
    }
  }
}
