// How are records read: by id, by document, or all of a collection?

import { QuiverError } from "@quiver/protocol/errors";
import { limits } from "@quiver/protocol/limits";
import type { VectorRecord } from "@quiver/protocol/shapes/vector";
import { compareText, concatenated, readU32Key, toHex, utf8 } from "../base/bytes.ts";
import { host } from "../base/host.ts";
import { invariant } from "../base/invariant.ts";
import { type Steps, sortInSteps } from "../base/steps.ts";
import type { Reader } from "../storage/store.ts";
import { readFloats } from "../vector/floats.ts";
import { RecordReader } from "./record-reader.ts";
import { afterPrefix, documentPrefix, ordinalKey } from "./tables.ts";

/** A record that was read; it owns its bytes. */
export class StoredVector {
  readonly #record: RecordReader;
  readonly #dense: Float32Array | null;
  readonly id: string;

  constructor(record: RecordReader, dense: Float32Array | null) {
    this.#record = record;
    this.#dense = dense;
    // Read once: a document's vectors are compared by it many times.
    this.id = record.id;
  }

  /** Bytes that it takes in memory, about. */
  get bytes(): number {
    return this.#record.byteLength + (this.#dense?.byteLength ?? 0);
  }

  /** The record as objects. Numbers in `metadata` are JavaScript numbers. */
  toRecord(): VectorRecord {
    const { documentId, sparse, rawText, metadataJson } = this.#record;
    return {
      id: this.id,
      document_id: documentId,
      dense_values: this.#dense && Array.from(this.#dense),
      sparse_values: sparse && Array.from(sparse.indices, (index, i) => [index, sparse.values[i]]),
      sparse_indices: sparse && Array.from(sparse.indices),
      text: rawText,
      metadata: metadataJson === null ? null : JSON.parse(metadataJson),
    };
  }

  /** The record as JSON text, with `metadata` exactly as it was written and minus zero as `-0`. */
  toJson(): string {
    const { documentId, sparse, rawText, metadataJson } = this.#record;
    const dense = this.#dense && `[${Array.from(this.#dense, numberJson).join(",")}]`;
    const pairs =
      sparse && Array.from(sparse.values, (value, i) => `[${sparse.indices[i]},${numberJson(value)}]`);
    const indices = sparse && `[${sparse.indices.join(",")}]`;
    return [
      `{"id":${JSON.stringify(this.id)}`,
      `"document_id":${JSON.stringify(documentId)}`,
      `"dense_values":${dense}`,
      `"sparse_values":${pairs && `[${pairs.join(",")}]`}`,
      `"sparse_indices":${indices}`,
      `"text":${JSON.stringify(rawText)}`,
      `"metadata":${metadataJson}}`,
    ].join(",");
  }
}

/** JSON.stringify writes minus zero as 0, which is another 32-bit float. */
function numberJson(value: number): string {
  return value === 0 && Object.is(value, -0) ? "-0" : String(value);
}

function storedVector(reader: Reader, key: Uint8Array): StoredVector {
  const borrowed = stored(reader, "records", key);
  const own = host.allocate(borrowed.length);
  own.set(borrowed);
  const record = new RecordReader(own);
  invariant(
    record.end === own.length,
    () => `the fields of ordinal ${readU32Key(key)} end at ${record.end} of ${own.length} bytes`,
  );
  return new StoredVector(record, record.contents.dense ? readFloats(stored(reader, "dense", key)) : null);
}

/** The value of an ordinal that must exist; borrowed until the next read. */
function stored(reader: Reader, table: "records" | "dense", key: Uint8Array): Uint8Array {
  const bytes = reader.get(table, key);
  if (bytes === undefined) throw missing(table, key);
  return bytes;
}

/** The error for an ordinal that another table refers to but that has no value. */
function missing(table: string, key: Uint8Array): QuiverError {
  return new QuiverError(
    "data_corrupted",
    `The record of ordinal ${readU32Key(key)} is missing in table '${table}'. Restore it from a backup, or run 'quiver check' to find further damage.`,
    { table, key: toHex(key), ordinal: readU32Key(key) },
  );
}

export function vectorNotFound(id: string): QuiverError {
  return new QuiverError("vector_not_found", `The collection has no vector '${id.slice(0, 80)}'.`, {
    vector_id: id,
  });
}

/** @param id checked by the caller. @throws vector_not_found */
export function vectorById(reader: Reader, id: string): StoredVector {
  const ordinal = reader.get("ids", utf8(id));
  if (ordinal === undefined) throw vectorNotFound(id);
  return storedVector(reader, ordinal.slice());
}

export function vectorExists(reader: Reader, id: string): boolean {
  return reader.get("ids", utf8(id)) !== undefined;
}

/** Keys read, and vectors returned, in one step. */
const readPerStep = 256;
const vectorsPerStep = 64;

/**
 * Passes on all vectors of a document, by id, in steps. It reads them one by one: all objects of a large document together are 100 MB of
 * small buffers, whose garbage collection blocks the thread for 50 ms.
 * @throws invalid_request if there are more than one response may contain
 */
export function* eachOfDocument(
  reader: Reader,
  documentId: string,
  take: (vector: StoredVector) => void,
): Steps<void> {
  const prefix = documentPrefix(utf8(documentId));
  const found: { id: string; ordinal: number }[] = [];
  let bytes = 0;
  let denseBytes: number | undefined;
  for (let start = prefix; ; yield) {
    // Read entries, not keys, because only the checksum of the value proves that the key is intact. No cursor stays open between steps.
    const ordinals = [
      ...reader.entries("documents", { start, end: afterPrefix(prefix), limit: readPerStep }),
    ].map(([key]) => readU32Key(key, prefix.length));
    for (const ordinal of ordinals) {
      const key = ordinalKey(ordinal);
      const record = new RecordReader(stored(reader, "records", key));
      found.push({ id: record.id, ordinal });
      bytes += record.byteLength;
      if (record.contents.dense) bytes += denseBytes ??= stored(reader, "dense", key).length;
    }
    if (ordinals.length < readPerStep) break;
    start = concatenated([prefix, ordinalKey(ordinals[ordinals.length - 1] + 1)]);
  }
  if (bytes > limits.documentBytesMax) throw documentTooLarge(documentId, found.length);
  const sorted = yield* sortInSteps(found, (a, b) => compareText(a.id, b.id));
  invariant(
    sorted.length === found.length,
    `${sorted.length} of ${found.length} vectors of '${documentId}' are sorted`,
  );
  for (const [i, { ordinal }] of sorted.entries()) {
    if (i % vectorsPerStep === vectorsPerStep - 1) yield;
    take(storedVector(reader, ordinalKey(ordinal)));
  }
}

function documentTooLarge(documentId: string, count: number): QuiverError {
  return new QuiverError(
    "invalid_request",
    `The document '${documentId.slice(0, 80)}' has ${count} vectors, which together take more than ${limits.documentBytesMax} bytes. Read them by their ids, or export the collection.`,
    { path: "document_id", vectors: count, limit_bytes: limits.documentBytesMax },
  );
}

/** All vectors of a read transaction, by ordinal. */
export function* allVectors(reader: Reader): Generator<StoredVector> {
  for (const key of reader.keys("records")) yield storedVector(reader, key);
}
