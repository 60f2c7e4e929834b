// How is a record encoded as JSON text?
//
// Dense vectors are sent as the bytes of their 32-bit floats, `{"f32": "<base64>"}`: for 768 numbers 4 KB in place of 16, at a twelfth of
// the time to write and a sixth of the time to read them. Short lists of plain numbers stay as they are, because people read them in logs.
// Numbers that JSON cannot represent are rejected here, with their position; JSON.stringify would write them as null.

import { base64 } from "@quiverdb/protocol/base64";
import { QuiverError } from "@quiverdb/protocol/errors";
import { finiteFloat, kindOf } from "@quiverdb/protocol/kind-of";
import type { VectorInput } from "@quiverdb/protocol/shapes/vector";
import type { AnyMetadata } from "./filter-types.ts";

/** Dense values: plain numbers, or a typed array as embedding libraries return it. */
export type DenseValues = readonly number[] | Float32Array | Float64Array;

/** A record to write, as in the REST interface, except that dense values may also be typed arrays. */
export type RecordInput<Metadata = AnyMetadata> = Omit<VectorInput, "dense_values" | "metadata"> & {
  dense_values?: DenseValues | null;
  metadata?: Metadata | null;
};

/**
 * A record as JSON text. It is sent unchanged, so that metadata numbers that JavaScript cannot represent (`9007199254740993`, `1e999`) are
 * preserved.
 *
 * @example
 * ```ts no-run
 * import { RawRecord } from "@quiverdb/client";
 * const record = new RawRecord('{"id":"a","dense_values":[1,0],"metadata":{"n":9007199254740993}}');
 * ```
 */
export class RawRecord {
  readonly json: string;
  constructor(json: string) {
    this.json = json;
  }
}

/**
 * The JSON text of a record.
 * @param position of the record in the caller's array, for messages; null: it is no array
 * @throws QuiverError invalid_vector if a number is not finite or a value cannot be written as JSON
 */
export function encodeRecord(record: RecordInput<unknown> | RawRecord, position: number | null): string {
  if (record instanceof RawRecord) return record.json;
  requireRecord(record, position);
  const dense = record.dense_values;
  checkNumbers(dense, position, "dense_values");
  if (!Array.isArray(dense) && !ArrayBuffer.isView(dense)) return stringify(record, position);
  return stringify({ ...record, dense_values: wireVector(dense as DenseValues) }, position);
}

/** A dense vector as it is sent. */
export type WireVector = readonly number[] | { readonly f32: string };

/** Plain lists with fewer numbers are sent as they are. */
const numbersMin = 32;

/** The form in which a dense vector is sent: the same vector, rounded to 32-bit floats as the server does. */
export function wireVector(values: DenseValues): WireVector {
  const floats = floatsOf(values);
  // What is not a vector of floats is sent as it is, so that the server reports what is wrong with it.
  return floats === undefined ? Array.from(values) : { f32: base64(littleEndian(floats)) };
}

function floatsOf(values: DenseValues): Float32Array | undefined {
  if (values instanceof Float32Array) return values;
  if (Array.isArray(values)) {
    const isVector = values.length >= numbersMin && values.every((value) => typeof value === "number");
    if (!isVector) return undefined;
  }
  const floats = new Float32Array(values);
  return floats.every(Number.isFinite) ? floats : undefined;
}

const isLittleEndian = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

function littleEndian(floats: Float32Array): Uint8Array {
  if (isLittleEndian) return new Uint8Array(floats.buffer, floats.byteOffset, floats.byteLength);
  const view = new DataView(new ArrayBuffer(floats.byteLength));
  floats.forEach((value, i) => {
    view.setFloat32(i * floats.BYTES_PER_ELEMENT, value, true);
  });
  return new Uint8Array(view.buffer);
}

/** @throws QuiverError invalid_vector for what is no object */
export function requireRecord(record: unknown, position: number | null): asserts record is object {
  if (typeof record === "object" && record !== null && !Array.isArray(record)) return;
  throw invalidRecord(position, "", `is ${kindOf(record)}, expected a record with an id.`);
}

function stringify(record: object, position: number | null): string {
  checkNumbers((record as RecordInput).sparse_values, position, "sparse_values");
  try {
    return JSON.stringify(record);
  } catch (cause) {
    throw unwritable(position, cause);
  }
}

/** The error for a record that JSON cannot represent. */
export const unwritable = (position: number | null, cause: unknown): QuiverError =>
  invalidRecord(position, "", `cannot be written as JSON: ${(cause as Error).message}.`);

function checkNumbers(values: unknown, position: number | null, field: string): void {
  const list = values as ArrayLike<unknown> | null | undefined;
  if (list === undefined || list === null) return;
  for (let i = 0; i < list.length; i++) {
    const value = numberOf(list[i]);
    if (typeof value === "number" && !Number.isFinite(value)) {
      throw invalidRecord(position, `.${field}[${i}]`, `is ${value}; ${finiteFloat}`);
    }
  }
}

/** The number of an entry, which can be `[index, value]` or `{index, value}`. */
function numberOf(entry: unknown): unknown {
  if (typeof entry !== "object" || entry === null) return entry;
  return Array.isArray(entry) ? entry[1] : (entry as { value?: unknown }).value;
}

/** What is wrong with a record. @param field of it, with a dot before */
export function invalidRecord(position: number | null, field: string, problem: string): QuiverError {
  const path = position === null ? field.slice(1) : `vectors[${position}]${field}`;
  return new QuiverError("invalid_vector", `${path === "" ? "The record" : path} ${problem}`, { path });
}
