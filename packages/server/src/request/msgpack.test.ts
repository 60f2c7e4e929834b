// Does the reader of MessagePack read what @msgpack/msgpack writes, and does nothing hostile get past it?

import "@quiverdb/engine/process/node-host";
import { decode, decodeMulti, Encoder, encode } from "@msgpack/msgpack";
import { finishAtOnce } from "@quiverdb/engine/database/contract";
import type { QuiverError } from "@quiverdb/protocol/errors";
import type { VectorInput } from "@quiverdb/protocol/shapes/vector";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { withExactMetadata } from "./exact-metadata.ts";
import type { ParsedBody } from "./json.ts";
import { parseMsgpack } from "./msgpack.ts";

const read = (bytes: Uint8Array) => finishAtOnce(parseMsgpack(Buffer.from(bytes)));
const recordsOf = (parsed: ParsedBody) => (parsed.value as { vectors: unknown[] }).vectors;
const sequence = (records: readonly unknown[]) => Buffer.concat(records.map((record) => encode(record)));

function fault(bytes: Uint8Array): QuiverError {
  try {
    read(bytes);
  } catch (error) {
    return error as QuiverError;
  }
  throw new Error("nothing was thrown");
}

/** Values that JSON has, with long and short texts, lists and numbers of every size; the library rejects the key __proto__. */
const value = fc.jsonValue({ maxDepth: 4 }).filter((json) => !JSON.stringify(json).includes("__proto__"));
const plain = fc.oneof(
  value,
  fc.string({ unit: "binary", maxLength: 300 }).filter((text) => text.isWellFormed()),
  fc.array(fc.integer(), { maxLength: 70 }),
  fc.array(fc.double({ noNaN: true }), { maxLength: 20 }),
  fc.dictionary(
    fc.string().filter((key) => key !== "__proto__" && key.isWellFormed()),
    fc.integer(),
    { maxKeys: 20 },
  ),
);
const record = fc.dictionary(fc.constantFrom("id", "text", "a", "document_id", "sparse_values"), plain);

describe("[H28] MessagePack", () => {
  test("records one after the other, and an array of them, are read as the library reads them", () => {
    fc.assert(
      fc.property(fc.array(record, { maxLength: 20 }), (records) => {
        const asSequence = read(sequence(records));
        expect(recordsOf(asSequence)).toEqual([...decodeMulti(sequence(records))]);
        expect(recordsOf(read(encode(records)))).toEqual(decode(encode(records)));
        expect(asSequence.spans).toHaveLength(2 * records.length);
      }),
      { numRuns: 500 },
    );
  });

  test("integers of every size and sign are read", () => {
    const numbers = [
      0,
      1,
      127,
      128,
      255,
      256,
      65_535,
      65_536,
      2 ** 32 - 1,
      2 ** 32,
      Number.MAX_SAFE_INTEGER,
    ].flatMap((number) => [number, 0 - number, 0 - number - 1]);
    expect(recordsOf(read(encode({ numbers })))).toEqual([{ numbers }]);
    // Encoded as 64 bits, whatever they are.
    expect(recordsOf(read(new Encoder({ useBigInt64: true }).encode({ n: 5n, m: -5n })))).toEqual([
      { n: 5, m: -5 },
    ]);
  });

  test("bytes as dense_values are the 32-bit floats, and the last value of a key counts", () => {
    const floats = new Float32Array([1, -0, 1e-45, 3.5]);
    const bytes = new Uint8Array(floats.buffer);
    for (const padding of [0, 1, 2, 3]) {
      const parsed = read(sequence([{ id: "x".repeat(padding), dense_values: bytes }, { id: "b" }]));
      expect(parsed.floats).toEqual(new Map([[0, floats]]));
      expect(recordsOf(parsed)[0]).toEqual({ id: "x".repeat(padding), dense_values: [] });
    }
    const twice = Buffer.concat([
      Buffer.from([0x82]),
      encode("dense_values"),
      encode(bytes),
      encode("dense_values"),
      encode([1, 2]),
    ]);
    expect(read(twice).floats?.size).toBe(0);
    expect(recordsOf(read(twice))).toEqual([{ dense_values: [1, 2] }]);
    expect(fault(encode({ dense_values: new Uint8Array(7) })).details.path).toBe("vectors[0].dense_values");
  });

  test("[H9] metadata keeps integers of 64 bits and the sign of zero", () => {
    const metadata = { big: 12345678901234567890n, small: -9223372036854775808n, list: [-0, 1.5, "a"], n: 7 };
    const parsed = read(sequenceOf64([{ id: "a" }, { id: "b", metadata }, { id: "c", metadata: { n: 1 } }]));
    const records = finishAtOnce(withExactMetadata(recordsOf(parsed) as VectorInput[], parsed, "vectors"));
    const exact = '{"big":12345678901234567890,"small":-9223372036854775808,"list":[-0,1.5,"a"],"n":7}';
    expect(records.map(({ metadataJson }) => metadataJson)).toEqual([undefined, exact, undefined]);
    expect(records[1].metadata).toEqual(JSON.parse(exact));
  });

  test("__proto__ is an ordinary key", () => {
    const bytes = Buffer.concat([Buffer.from([0x81]), encode("__proto__"), encode({ a: 1 })]);
    const [first] = recordsOf(read(bytes)) as object[];
    expect(Object.hasOwn(first, "__proto__")).toBe(true);
    expect(Object.getPrototypeOf(first)).toBe(Object.prototype);
  });

  test.each<[string, Uint8Array | number[], number]>([
    ["an extension", [0x81, 0xa1, 0x61, 0xd4, 1, 2], 3],
    ["a timestamp", encode({ a: new Date(0) }), 3],
    ["bytes in another field", encode({ id: new Uint8Array(4) }), 4],
    ["bytes in metadata", encode({ metadata: { a: new Uint8Array(4) } }), 13],
    ["NaN in metadata", encode({ metadata: { a: Number.NaN } }), 13],
    ["the unused type", [0xc1], 0],
    ["a key that is a number", [0x81, 0x01, 0x01], 1],
    ["text that is not UTF-8", [0x81, 0xa1, 0x61, 0xa2, 0xc3, 0x28], 4],
    ["an array that claims 4 GiB", [0xdd, 0xff, 0xff, 0xff, 0xff, 0x80], 6],
    ["an array inside that claims 4 GiB", [0x81, 0xa1, 0x61, 0xdd, 0xff, 0xff, 0xff, 0xff], 8],
    ["a map that claims 4 GiB", [0xdf, 0xff, 0xff, 0xff, 0xff], 5],
    ["text that claims 4 GiB", [0x81, 0xa1, 0x61, 0xdb, 0xff, 0xff, 0xff, 0xff], 8],
    ["fewer records than announced", [0x92, 0x80], 2],
    ["more records than announced", [0x91, 0x80, 0x80], 3],
    ["endless nesting", Buffer.alloc(1_000_000, 0x91), 258],
  ])("%s is rejected where it is", (_what, bytes, offset) => {
    const { code, details } = fault(Uint8Array.from(bytes));
    expect([code, details.byte_offset]).toEqual(["invalid_msgpack", offset]);
  });

  test("a body that is cut anywhere is rejected, with the record in which it ends", () => {
    const records = [
      { id: "a", dense_values: [1.5, 2] },
      { id: "b", metadata: { a: [1, "é", null, 70_000] } },
    ];
    const whole = sequence(records);
    const first = encode(records[0]).length;
    for (let end = 1; end < whole.length; end++) {
      if (end === first) continue;
      const { code, details } = fault(whole.subarray(0, end));
      expect([end, code, details.path]).toEqual([
        end,
        "invalid_msgpack",
        end < first ? "vectors[0]" : "vectors[1]",
      ]);
    }
  });

  test("any bytes are read or rejected, without another outcome", () => {
    const nearly = fc
      .tuple(
        fc.array(record, { minLength: 1, maxLength: 4 }),
        fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 4 }),
      )
      .map(([records, changes]) => {
        const bytes = Buffer.from(sequence(records));
        for (const [at, byte] of changes) bytes[at % bytes.length] = byte;
        return bytes;
      });
    fc.assert(
      fc.property(fc.oneof(nearly, fc.uint8Array({ maxLength: 100 })), (bytes) => {
        try {
          read(bytes);
        } catch (error) {
          expect(["invalid_msgpack", "invalid_request"]).toContain((error as QuiverError).code);
        }
      }),
      { numRuns: 5_000 },
    );
  });
});

/** Records with bigints, one after the other; numbers are floats, because the library writes -0 as the integer 0. */
function sequenceOf64(records: readonly unknown[]): Buffer {
  const encoder = new Encoder({ useBigInt64: true, forceIntegerToFloat: true });
  return Buffer.concat(records.map((each) => encoder.encode(each)));
}
