// How are records read: by id, by document, or all of a collection?

import { base64 } from "@quiverdb/protocol/base64";
import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { FilterValue } from "@quiverdb/protocol/shapes/filter";
import type { Includable } from "@quiverdb/protocol/shapes/include";
import type { VectorRecord } from "@quiverdb/protocol/shapes/vector";
import { compareText, concatenated, readU32Key, toHex, utf8 } from "../base/bytes.ts";
import { host } from "../base/host.ts";
import { invariant } from "../base/invariant.ts";
import { type Steps, sortInSteps } from "../base/steps.ts";
import type { Predicate } from "../filter/predicate.ts";
import type { Reader } from "../storage/store.ts";
import { bytesOfFloats, readFloats } from "../vector/floats.ts";
import { denseAt, type StoredAt } from "./history.ts";
import { RecordReader } from "./record.ts";
import { afterPrefix, documentPrefix, ordinalKey, ordinalOfDocumentKey } from "./tables.ts";

/** A record as it is stored, and its vector. */
export type StoredBytes = { readonly record: Uint8Array; readonly dense: Float32Array | null };

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

  /** A record that another node has read. */
  static of({ record, dense }: StoredBytes): StoredVector {
    return new StoredVector(new RecordReader(record), dense);
  }

  /** What another node needs to have it. */
  get stored(): StoredBytes {
    return { record: this.#record.bytes, dense: this.#dense };
  }

  /** The version that wrote it. */
  get born(): number {
    return this.#record.born;
  }

  /** Bytes that it takes in memory, about. */
  get bytes(): number {
    return this.#record.byteLength + (this.#dense?.byteLength ?? 0);
  }

  /** The record as objects, or with some of its fields. Numbers in `metadata` are JavaScript numbers. */
  toRecord(include?: readonly Includable[] | null): VectorRecord {
    const { documentId, sparse, rawText, metadataJson } = this.#record;
    const has = (field: Includable) => !include || include.includes(field);
    return {
      id: this.id,
      document_id: documentId,
      ...(has("dense_values") && { dense_values: this.#dense && Array.from(this.#dense) }),
      ...(include?.includes("dense_f32") && { dense_f32: this.#denseF32 }),
      ...(include?.includes("version") && { version: this.#record.born }),
      ...(has("sparse_values") && { sparse_values: sparse && pairsOf(sparse) }),
      ...(!include && { sparse_indices: sparse && Array.from(sparse.indices) }),
      ...(has("text") && { text: rawText }),
      ...(has("metadata") && { metadata: metadataJson === null ? null : JSON.parse(metadataJson) }),
    } as VectorRecord;
  }

  /** The same as JSON text, with `metadata` exactly as it was written and minus zero as `-0`. */
  toJson(include?: readonly Includable[] | null): string {
    const parts = [
      `{"id":${JSON.stringify(this.id)}`,
      `"document_id":${JSON.stringify(this.#record.documentId)}`,
    ];
    for (const field of include ?? fieldsOfJson) parts.push(`"${field}":${this.#fieldJson(field)}`);
    return `${parts.join(",")}}`;
  }

  get #denseF32(): string | null {
    return this.#dense && base64(bytesOfFloats(this.#dense));
  }

  #fieldJson(field: Includable | "sparse_indices"): string | null {
    const { sparse, rawText, metadataJson } = this.#record;
    switch (field) {
      case "dense_values":
        return this.#dense && `[${Array.from(this.#dense, numberJson).join(",")}]`;
      case "dense_f32":
        return JSON.stringify(this.#denseF32);
      case "sparse_values":
        return sparse && sparseJson(sparse);
      case "sparse_indices":
        return sparse && `[${sparse.indices.join(",")}]`;
      case "version":
        return String(this.#record.born);
      case "text":
        return JSON.stringify(rawText);
      case "metadata":
        return metadataJson;
    }
  }
}

/** The fields of a whole record, in their order. */
const fieldsOfJson = ["dense_values", "sparse_values", "sparse_indices", "text", "metadata"] as const;

type Sparse = { readonly indices: Uint32Array; readonly values: Float32Array };

export const pairsOf = ({ indices, values }: Sparse): [number, number][] =>
  Array.from(indices, (index, i) => [index, values[i]]);

const sparseJson = ({ indices, values }: Sparse): string =>
  `[${Array.from(values, (value, i) => `[${indices[i]},${numberJson(value)}]`).join(",")}]`;

/**
 * JSON.stringify writes minus zero as 0, which is another 32-bit float, and infinities as null. These are numbers of the metadata that no
 * 64-bit float can hold, and are written as such a number.
 */
export function numberJson(value: number): string {
  if (Number.isFinite(value)) return value === 0 && Object.is(value, -0) ? "-0" : String(value);
  invariant(!Number.isNaN(value), "a number is none");
  return value > 0 ? "1e999" : "-1e999";
}

/** JSON text of a value of the metadata. */
export const valueJson = (value: FilterValue | null): string =>
  typeof value === "number" ? numberJson(value) : JSON.stringify(value);

function storedVector(reader: Reader, key: Uint8Array): StoredVector {
  const record = ownRecord(stored(reader, "records", key), key);
  return new StoredVector(record, record.contents.dense ? readFloats(stored(reader, "dense", key)) : null);
}

/** A record of an earlier version, live or past. */
export function vectorOf(reader: Reader, at: StoredAt): StoredVector {
  const record = ownRecord(at.record, ordinalKey(at.ordinal));
  return new StoredVector(record, record.contents.dense ? readFloats(denseAt(reader, at)) : null);
}

function ownRecord(borrowed: Uint8Array, key: Uint8Array): RecordReader {
  const own = host.allocate(borrowed.length);
  own.set(borrowed);
  const record = new RecordReader(own);
  invariant(
    record.end === own.length,
    () => `the fields of ordinal ${readU32Key(key)} end at ${record.end} of ${own.length} bytes`,
  );
  return record;
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

/** Which records a caller sees; null: all. */
export type Sees = Pick<Predicate, "matches"> | null;

/** @param id checked by the caller. @throws vector_not_found */
export function vectorById(reader: Reader, id: string, sees: Sees = null): StoredVector {
  const ordinal = seenOrdinal(reader, id, sees);
  if (ordinal === undefined) throw vectorNotFound(id);
  return storedVector(reader, ordinal);
}

/** The key of the ordinal of a live record that the caller sees. */
function seenOrdinal(reader: Reader, id: string, sees: Sees): Uint8Array | undefined {
  const ordinal = reader.get("ids", utf8(id))?.slice();
  if (ordinal === undefined || sees === null) return ordinal;
  return sees.matches(new RecordReader(stored(reader, "records", ordinal))) ? ordinal : undefined;
}

/** The record of an ordinal, which must exist. */
export const vectorAt = (reader: Reader, ordinal: number): StoredVector =>
  storedVector(reader, ordinalKey(ordinal));

/** The ordinal of a live record; undefined if there is none. */
export function ordinalOf(reader: Reader, id: string, sees: Sees = null): number | undefined {
  const key = seenOrdinal(reader, id, sees);
  return key && readU32Key(key);
}

export function vectorExists(reader: Reader, id: string, sees: Sees = null): boolean {
  return seenOrdinal(reader, id, sees) !== undefined;
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
  sees: Sees = null,
): Steps<void> {
  const prefix = documentPrefix(utf8(documentId));
  const found: { id: string; ordinal: number }[] = [];
  let bytes = 0;
  let denseBytes: number | undefined;
  for (let start = prefix; ; yield) {
    // Read entries, not keys, because only the checksum of the value proves that the key is intact. No cursor stays open between steps.
    const ordinals = [
      ...reader.entries("documents", { start, end: afterPrefix(prefix), limit: readPerStep }),
    ].map(([key]) => ordinalOfDocumentKey(key));
    for (const ordinal of ordinals) {
      const key = ordinalKey(ordinal);
      const record = new RecordReader(stored(reader, "records", key));
      if (sees !== null && !sees.matches(record)) continue;
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

/** The vectors of some ordinals, which must exist, in their order. */
export function* vectorsAt(reader: Reader, ordinals: Iterable<number>): Generator<StoredVector> {
  for (const ordinal of ordinals) yield vectorAt(reader, ordinal);
}
