// What is in a record, and how is it laid out in bytes?
//
// A change is sent from the request thread to the writer, and staged in a transaction, as an operation:
//
//   batch       condition ... operation ...
//   condition   u8 2 | u16 idBytes | id | u53 born
//   operation   u8 kind (0 delete, 1 upsert) | u16 idBytes | id | upsert only: content32 | dense32
//   content     u8 flags | [u16 | document_id] | [u32 | text] | [u32 | metadata JSON] | [u32 n | n u32 | n f32]
//   dense       dimension f32
//
// and is stored, once it has an ordinal, in two tables, so that a scan of the vectors reads nothing else:
//
//   records[ordinal] = u53 born | u16 idBytes | id | content            dense[ordinal] = dense
//
// `32` means preceded by a u32 length. Numbers are little-endian except `born`, which is written like a key.

import {
  ByteWriter,
  concatenated,
  emptyBytes,
  lenientText,
  readU16LE,
  readU32LE,
  readU53,
  u53Key,
  writeU32LE,
  writeU53,
} from "../base/bytes.ts";
import { invariant } from "../base/invariant.ts";

/** Bits of a content's flags. */
export const has = { document: 1, dense: 2, sparse: 4, rawText: 8, processedText: 16, metadata: 32 } as const;

/** A record's content from the caller: validated, with ascending sparse indices. */
export type RecordContent = {
  id: string;
  documentId: string | null;
  dense: ArrayLike<number> | null;
  sparse: { indices: ArrayLike<number>; values: ArrayLike<number> } | null;
  /** Raw text, or the processed words in UTF-8, joined by spaces, if the collection does not store raw texts. */
  text: { kind: "raw"; value: string } | { kind: "processed"; value: Uint8Array } | null;
  metadataJson: string | null;
};

export type Operation = { kind: "delete"; id: Uint8Array } | UpsertOperation;
/** Borrowed views on the bytes they were read from. */
export type UpsertOperation = { kind: "upsert"; id: Uint8Array; content: Uint8Array; dense: Uint8Array };

/** An operation with all of its bytes, as a view on the batch that it was read from. */
export type Encoded<O extends Operation = Operation> = O & { bytes: Uint8Array };

/** Appends an upsert of the record to `out`. */
export function writeUpsert(out: ByteWriter, record: RecordContent): void {
  out.u8(1);
  out.text16(record.id);
  const lengthAt = out.length;
  out.u32(0);
  const contentAt = out.length;
  const { documentId, dense, sparse, text, metadataJson } = record;
  out.u8(
    (documentId === null ? 0 : has.document) |
      (dense === null ? 0 : has.dense) |
      (sparse === null ? 0 : has.sparse) |
      (text === null ? 0 : text.kind === "raw" ? has.rawText : has.processedText) |
      (metadataJson === null ? 0 : has.metadata),
  );
  if (documentId !== null) out.text16(documentId);
  if (text?.kind === "raw") out.text32(text.value);
  else if (text !== null) {
    out.u32(text.value.length);
    out.bytes(text.value);
  }
  if (metadataJson !== null) out.text32(metadataJson);
  if (sparse !== null) {
    invariant(
      sparse.indices.length === sparse.values.length,
      () => `${sparse.indices.length} sparse indices have ${sparse.values.length} values`,
    );
    out.u32(sparse.indices.length);
    out.u32s(sparse.indices);
    out.f32s(sparse.values);
  }
  invariant(out.length > contentAt, () => `the record '${record.id}' has no content bytes`);
  out.setU32(lengthAt, out.length - contentAt);
  if (dense === null) out.u32(0);
  else {
    out.u32(dense.length * 4);
    out.f32s(dense);
  }
}

export function writeDelete(out: ByteWriter, id: string): void {
  out.u8(0);
  out.text16(id);
}

/** What the record of an id must be: last written by this version; 0: there must be none. */
export type RecordCondition = { readonly id: Uint8Array; readonly born: number };

const conditionKind = 2;

/** Appends a condition to `out`. */
export function writeCondition(out: ByteWriter, id: string, born: number): void {
  out.u8(conditionKind);
  out.text16(id);
  out.bytes(u53Key(born));
}

/** The conditions of a batch, in order, as borrowed views, each with the place of what follows it. */
export function* readConditions(batch: Uint8Array): Generator<RecordCondition & { readonly end: number }> {
  for (let at = 0; batch[at] === conditionKind; ) {
    const idEnd = at + 3 + readU16LE(batch, at + 1);
    const id = batch.subarray(at + 3, idEnd);
    at = idEnd + 8;
    invariant(at <= batch.length, () => `a condition ends at ${at} of ${batch.length} bytes`);
    yield { id, born: readU53(batch.subarray(idEnd, at)), end: at };
  }
}

/** A batch without its conditions. */
export function operationsOf(batch: Uint8Array): Uint8Array {
  let from = 0;
  for (const { end } of readConditions(batch)) from = end;
  return from === 0 ? batch : batch.subarray(from);
}

/** The operations of a batch, in order, as borrowed views. */
export function* readOperations(whole: Uint8Array): Generator<Encoded> {
  const batch = operationsOf(whole);
  const view = new DataView(batch.buffer, batch.byteOffset, batch.byteLength);
  let at = 0;
  const take = (length: number) => {
    const bytes = batch.subarray(at, at + length);
    invariant(bytes.length === length, () => `an operation is cut short: ${bytes.length} of ${length} bytes`);
    at += length;
    return bytes;
  };
  const take32 = () => {
    const length = view.getUint32(at, true);
    at += 4;
    return take(length);
  };
  while (at < batch.length) {
    const from = at;
    const kind = view.getUint8(at);
    invariant(kind <= 1, () => `an operation at ${at} of ${batch.length} bytes has the kind ${kind}`);
    const upsert = kind === 1;
    const idBytes = view.getUint16(at + 1, true);
    at += 3;
    const id = take(idBytes);
    if (upsert) {
      const [content, dense] = [take32(), take32()];
      yield { kind: "upsert", id, content, dense, bytes: batch.subarray(from, at) };
    } else yield { kind: "delete", id, bytes: batch.subarray(from, at) };
  }
}

/** Encodes one operation; the inverse of `readOperations` for a single one. */
export function operationBytes(operation: Operation): Uint8Array {
  const upsert = operation.kind === "upsert";
  const out = new ByteWriter(
    16 + operation.id.length + (upsert ? operation.content.length + operation.dense.length : 0),
  );
  out.u8(upsert ? 1 : 0);
  out.u16(operation.id.length);
  out.bytes(operation.id);
  if (upsert) {
    out.u32(operation.content.length);
    out.bytes(operation.content);
    out.u32(operation.dense.length);
    out.bytes(operation.dense);
  }
  return out.take();
}

/** The stored form of an operation that opens a record at version `born`. */
export function storedRecord(operation: UpsertOperation, born: number): Uint8Array {
  const { id, content } = operation;
  invariant(Number.isSafeInteger(born) && born > 0, () => `a record is born at version ${born}`);
  invariant(
    id.length > 0 && id.length <= 0xffff && content.length > 0,
    () => `a record has an id of ${id.length} bytes and ${content.length} bytes of content`,
  );
  const bytes = new Uint8Array(10 + id.length + content.length);
  writeU53(bytes, 0, born);
  bytes[8] = id.length;
  bytes[9] = id.length >>> 8;
  bytes.set(id, 10);
  bytes.set(content, 10 + id.length);
  return bytes;
}

export type Contents = { dense: boolean; sparse: boolean; text: boolean };

/** What kinds of content an operation's content bytes announce. */
export function contentsOf(content: Uint8Array): Contents {
  const flags = content[0];
  return {
    dense: (flags & has.dense) !== 0,
    sparse: (flags & has.sparse) !== 0,
    text: (flags & (has.rawText | has.processedText)) !== 0,
  };
}

// ---- What does a stored record contain, read field by field as asked?
//
// The layout is drawn at the beginning of this file.

/** A stored record, read field by field as asked. Borrows its bytes: use it before the next read of the store. */
export class RecordReader {
  readonly #bytes: Uint8Array;
  readonly #idEnd: number;
  readonly #flags: number;

  /** The stored record. */
  get bytes(): Uint8Array {
    return this.#bytes;
  }

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
    return contentsOf(this.content);
  }

  /** The content, as an operation has it. */
  get content(): Uint8Array {
    return this.#bytes.subarray(this.#idEnd);
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

  get text(): { kind: "raw" | "processed"; value: string } | null {
    const found = this.textBytes;
    return found && { kind: found.kind, value: lenientText(found.bytes) };
  }

  /** The same in UTF-8. */
  get textBytes(): { kind: "raw" | "processed"; bytes: Uint8Array } | null {
    const raw = (this.#flags & has.rawText) !== 0;
    if (!raw && !(this.#flags & has.processedText)) return null;
    const at = this.#textAt;
    return {
      kind: raw ? "raw" : "processed",
      bytes: this.#bytes.subarray(at + 4, at + 4 + readU32LE(this.#bytes, at)),
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

  /** The content with other metadata, JSON text in UTF-8. */
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
