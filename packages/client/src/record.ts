// How is a record encoded as JSON text?
//
// Dense values from a Float32Array are written with nine significant digits, which are enough to restore the same 32-bit float (IEEE 754).
// The shortest text of the same number as a 64-bit float takes nearly twice the bytes and three times as long to parse. Numbers that JSON
// cannot represent are rejected here, with their position; JSON.stringify would write them as null.

import { QuiverError } from "@quiver/protocol/errors";
import { kindOf } from "@quiver/protocol/kind-of";
import type { VectorInput } from "@quiver/protocol/shapes/vector";

/** Dense values: plain numbers, or a typed array as embedding libraries return it. */
export type DenseValues = readonly number[] | Float32Array | Float64Array;

/** A record to write, as in the REST interface, except that dense values may also be typed arrays. */
export type RecordInput = Omit<VectorInput, "dense_values"> & { dense_values?: DenseValues | null };

/**
 * A record as JSON text. It is sent unchanged, so that metadata numbers that JavaScript cannot represent (`9007199254740993`, `1e999`) are
 * preserved.
 *
 * @example
 * ```ts no-run
 * import { RawRecord } from "@quiver/client";
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
 * @param position of the record in the caller's array, for messages
 * @throws QuiverError invalid_vector if a number is not finite or a value cannot be written as JSON
 */
export function encodeRecord(record: RecordInput | RawRecord, position: number): string {
  if (record instanceof RawRecord) return record.json;
  if (typeof record !== "object" || record === null || Array.isArray(record)) {
    throw invalid(position, "", `is ${kindOf(record)}, expected a record with an id`);
  }
  const dense = record.dense_values;
  checkNumbers(dense, position, "dense_values");
  if (!(dense instanceof Float32Array || dense instanceof Float64Array)) return stringify(record, position);
  const rest = stringify({ ...record, dense_values: undefined }, position);
  const values = dense instanceof Float32Array ? encodeFloats(dense) : JSON.stringify(Array.from(dense));
  return rest === "{}" ? `{"dense_values":${values}}` : `${rest.slice(0, -1)},"dense_values":${values}}`;
}

/** The exact JSON text of 32-bit floats: parsed and rounded to 32 bits, every value is the same again. */
export function encodeFloats(values: Float32Array): string {
  let text = "";
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (i > 0) text += ",";
    text += Number.isInteger(value) ? encodeInteger(value) : value.toPrecision(9);
  }
  return `[${text}]`;
}

/** Values of a query as plain numbers; a Float32Array's values keep their 32-bit meaning. */
export function plainNumbers(values: DenseValues, path: string): number[] {
  for (let i = 0; i < values.length; i++) {
    if (typeof values[i] === "number" && !Number.isFinite(values[i])) {
      throw new QuiverError("invalid_request", `${path}[${i}] is ${values[i]}, expected a finite number.`, {
        path: `${path}[${i}]`,
      });
    }
  }
  return Array.isArray(values) ? (values as number[]) : Array.from(values);
}

function encodeInteger(value: number): string {
  // The sign of -0 is part of the stored float; String() would drop it.
  return Object.is(value, -0) ? "-0" : String(value);
}

function stringify(record: object, position: number): string {
  checkNumbers((record as RecordInput).sparse_values, position, "sparse_values");
  try {
    return JSON.stringify(record);
  } catch (cause) {
    throw invalid(position, "", `cannot be written as JSON: ${(cause as Error).message}`);
  }
}

function checkNumbers(values: unknown, position: number, field: string): void {
  const list = values as ArrayLike<unknown> | null | undefined;
  if (list === undefined || list === null) return;
  for (let i = 0; i < list.length; i++) {
    const value = list[i];
    if (typeof value === "number" && !Number.isFinite(value)) {
      throw invalid(position, `.${field}[${i}]`, `is ${value}, expected a finite number`);
    }
  }
}

function invalid(position: number, field: string, why: string): QuiverError {
  const path = `vectors[${position}]${field}`;
  return new QuiverError("invalid_vector", `${path} ${why}.`, { path });
}
