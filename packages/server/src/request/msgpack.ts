// How is a body in MessagePack read?
//
//   record record record ...      or      array header | record record record ...
//
// Records one after the other are what lines are in JSON; an array of records is the same behind its header. The result has the form of
// `{"vectors": [...]}`, so that everything after it is the same as for JSON. What JSON has no words for is either meaningful in one place
// (bytes as `dense_values` are little-endian 32-bit floats; integers of 64 bits in metadata are exact) or rejected: extensions, other
// bytes, keys that are not strings, NaN in metadata, text that is not UTF-8.
//
// Why not a library: a body is hostile until it was read. @msgpack/msgpack and msgpackr make an array of the length that a header claims
// (5 bytes claim 4 GiB), read invalid UTF-8 as some other text, and have no limit of depth or use the thread's stack. A walk over the body
// that rules this out is as long as the reader. The tests compare it with @msgpack/msgpack (docs/decisions/rest-path.md).

import { isUtf8 } from "node:buffer";
import type { Steps } from "@quiverdb/engine/database/contract";
import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import { floatsOf } from "./dense-vectors.ts";
import { rawJSON } from "./exact-metadata.ts";
import { FloatArena } from "./float-arena.ts";
import type { ParsedBody } from "./json.ts";

/** Levels of nesting; metadata may have fewer. */
const depthMax = 256;

/** Reads the records of a body, in steps. @throws invalid_msgpack with the offset and the record; invalid_request */
export function* parseMsgpack(bytes: Buffer): Steps<ParsedBody> {
  const reader = new Reader(bytes);
  const count = reader.arrayHeader();
  const vectors: unknown[] = [];
  let steppedAt = 0;
  while (!reader.isAtEnd) {
    vectors.push(reader.record(vectors.length));
    if (reader.at - steppedAt < limits.bodyPieceBytes) continue;
    steppedAt = reader.at;
    yield;
  }
  if (count !== undefined && count !== vectors.length)
    throw reader.fault(`the array has ${vectors.length} records where its header announces ${count}`);
  return {
    bytes,
    value: { vectors },
    spans: reader.spans,
    floats: reader.floats,
    arena: reader.arena,
    binary: reader,
  };
}

class Reader {
  readonly spans: number[] = [];
  readonly floats = new Map<number, Float32Array>();
  readonly arena = new FloatArena();
  readonly metadata = new Map<number, string>();
  at = 0;
  readonly #bytes: Buffer;
  readonly #view: DataView;
  /** The record that is being read. */
  #index = 0;
  #depth = 0;
  /** Whether metadata is being read, and whether it has a number that a JavaScript number is not. */
  #isMetadata = false;
  #isInexact = false;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  get isAtEnd(): boolean {
    return this.at >= this.#bytes.length;
  }

  /** The length in the header of an array, if the body begins with one. */
  arrayHeader(): number | undefined {
    const type = this.#bytes[0];
    if (type !== 0xdc && type !== 0xdd && (type & 0xf0) !== 0x90) return undefined;
    this.at = 1;
    return type < 0xa0 ? type & 0x0f : this.#uint(type === 0xdc ? 2 : 4);
  }

  /** The next record. */
  record(index: number): unknown {
    this.#index = index;
    const from = this.at;
    const value = this.#value(true);
    this.spans.push(from, this.at);
    return value;
  }

  fault(problem: string, offset = this.at): QuiverError {
    return new QuiverError(
      "invalid_msgpack",
      `The request body cannot be read as MessagePack: at byte ${offset}, in vectors[${this.#index}], ${problem}. ` +
        "Send records one after the other, or an array of them.",
      { byte_offset: offset, path: `vectors[${this.#index}]` },
    );
  }

  /** @param isRecord whether the value is a record: its fields have meanings */
  #value(isRecord = false): unknown {
    const from = this.at;
    const type = this.#uint(1);
    if (type < 0x80) return type;
    if (type >= 0xe0) return type - 0x100;
    if (type < 0x90) return this.#map(type & 0x0f, isRecord);
    if (type < 0xa0) return this.#array(type & 0x0f);
    if (type < 0xc0) return this.#text(type & 0x1f);
    switch (type) {
      case 0xc0:
        return null;
      case 0xc2:
        return false;
      case 0xc3:
        return true;
      case 0xca:
        return this.#float(this.#view.getFloat32(this.#take(4)), from);
      case 0xcb:
        return this.#float(this.#view.getFloat64(this.#take(8)), from);
      case 0xcc:
        return this.#uint(1);
      case 0xcd:
        return this.#uint(2);
      case 0xce:
        return this.#uint(4);
      case 0xcf:
        return this.#integer(this.#view.getBigUint64(this.#take(8)));
      case 0xd0:
        return this.#view.getInt8(this.#take(1));
      case 0xd1:
        return this.#view.getInt16(this.#take(2));
      case 0xd2:
        return this.#view.getInt32(this.#take(4));
      case 0xd3:
        return this.#integer(this.#view.getBigInt64(this.#take(8)));
      case 0xd9:
        return this.#text(this.#uint(1));
      case 0xda:
        return this.#text(this.#uint(2));
      case 0xdb:
        return this.#text(this.#uint(4));
      case 0xdc:
        return this.#array(this.#uint(2));
      case 0xdd:
        return this.#array(this.#uint(4));
      case 0xde:
        return this.#map(this.#uint(2), isRecord);
      case 0xdf:
        return this.#map(this.#uint(4), isRecord);
      case 0xc4:
      case 0xc5:
      case 0xc6:
        throw this.fault("there are bytes, which only dense_values can be", from);
      default:
        throw this.fault(
          `there is a value of the type 0x${type.toString(16)}, which JSON does not have`,
          from,
        );
    }
  }

  #map(count: number, isRecord: boolean): object {
    this.#enter(2 * count);
    const map: Record<string, unknown> = {};
    for (let i = 0; i < count; i++) {
      const from = this.at;
      const key = this.#value();
      if (typeof key !== "string") throw this.fault("there is a key that is not a string", from);
      const value = isRecord ? this.#field(key) : this.#value();
      if (key !== "__proto__") map[key] = value;
      // As in JSON.parse, it is an ordinary key.
      else Object.defineProperty(map, key, { value, writable: true, enumerable: true, configurable: true });
    }
    this.#depth--;
    return map;
  }

  /** The value of a field of a record. */
  #field(key: string): unknown {
    if (key === "dense_values") {
      this.floats.delete(this.#index);
      return this.#denseValues();
    }
    if (key !== "metadata") return this.#value();
    this.#isMetadata = true;
    this.#isInexact = false;
    const value = this.#value();
    this.#isMetadata = false;
    this.metadata.delete(this.#index);
    if (!this.#isInexact) return value;
    const text = JSON.stringify(value);
    this.metadata.set(this.#index, text);
    return JSON.parse(text);
  }

  #denseValues(): unknown {
    const lengthBytes = [1, 2, 4][this.#bytes[this.at] - 0xc4];
    if (lengthBytes === undefined) return this.#value();
    this.at++;
    const length = this.#uint(lengthBytes);
    const from = this.#take(length);
    this.floats.set(
      this.#index,
      floatsOf(this.#bytes.subarray(from, from + length), `vectors[${this.#index}].dense_values`, this.arena),
    );
    return [];
  }

  #array(count: number): unknown[] {
    this.#enter(count);
    const array: unknown[] = [];
    for (let i = 0; i < count; i++) array.push(this.#value());
    this.#depth--;
    return array;
  }

  /** Asserts that a container of this many values can be there. */
  #enter(count: number): void {
    if (count > this.#bytes.length - this.at) throw this.#truncated();
    if (++this.#depth > depthMax) throw this.fault(`values are nested more than ${depthMax} levels deep`);
  }

  #text(length: number): string {
    const from = this.#take(length);
    const text = this.#bytes.subarray(from, from + length);
    if (!isUtf8(text)) throw this.fault("there is text that is not UTF-8", from);
    return text.toString();
  }

  #float(value: number, from: number): unknown {
    if (!this.#isMetadata) return value;
    if (!Number.isFinite(value))
      throw this.fault(`there is ${value} in metadata, which JSON does not have`, from);
    return Object.is(value, -0) ? this.#inexact("-0") : value;
  }

  #integer(value: bigint): unknown {
    const number = Number(value);
    return Number.isSafeInteger(number) || !this.#isMetadata ? number : this.#inexact(value.toString());
  }

  /** A number that keeps its text in JSON. */
  #inexact(text: string): unknown {
    this.#isInexact = true;
    return rawJSON(text);
  }

  /** An unsigned integer of 1, 2 or 4 bytes. */
  #uint(size: number): number {
    const from = this.#take(size);
    if (size === 1) return this.#bytes[from];
    return size === 2 ? this.#view.getUint16(from) : this.#view.getUint32(from);
  }

  /** Passes bytes. @returns where they begin */
  #take(length: number): number {
    const from = this.at;
    if (length > this.#bytes.length - from) throw this.#truncated();
    this.at = from + length;
    return from;
  }

  #truncated(): QuiverError {
    return this.fault(`the body ends within a value: it has ${this.#bytes.length} bytes`);
  }
}
