import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { encodeFloats, encodeRecord, plainNumbers, RawRecord } from "./record.ts";

describe("32-bit floats", () => {
  it("are the same again after being read as JSON and rounded to 32 bits", () => {
    fc.assert(
      fc.property(fc.array(fc.float({ noNaN: true, noDefaultInfinity: true })), (values) => {
        const floats = new Float32Array(values);
        const read = new Float32Array(JSON.parse(encodeFloats(floats)));
        expect(new Uint32Array(read.buffer)).toEqual(new Uint32Array(floats.buffer));
      }),
      { numRuns: 2_000 },
    );
  });

  it("are exact at the edges of the format", () => {
    const edges = [0, -0, 1, -1, 2 ** -149, 2 ** -126, 3.4028234663852886e38, 16777217, 1e-45, 1 / 3];
    const floats = new Float32Array(edges);
    const read = new Float32Array(JSON.parse(encodeFloats(floats)));
    expect(new Uint32Array(read.buffer)).toEqual(new Uint32Array(floats.buffer));
  });
});

describe("a record", () => {
  it("reads the same with a typed array as with plain numbers", () => {
    const plain = { id: "a", document_id: "d", dense_values: [0.5, -2, 3], metadata: { k: [1] } };
    for (const dense_values of [new Float32Array([0.5, -2, 3]), new Float64Array([0.5, -2, 3])]) {
      expect(JSON.parse(encodeRecord({ ...plain, dense_values }, 0))).toEqual(plain);
    }
    expect(JSON.parse(encodeRecord(plain, 0))).toEqual(plain);
  });

  it("as text is sent unchanged", () => {
    expect(encodeRecord(new RawRecord(' {"id" : 1}'), 0)).toBe(' {"id" : 1}');
  });

  it.each([
    [{ id: "a", dense_values: [1, Number.POSITIVE_INFINITY] }, "vectors[3].dense_values[1]"],
    [{ id: "a", sparse_indices: [1], sparse_values: [Number.NaN] }, "vectors[3].sparse_values[0]"],
    [{ id: "a", text: "t", metadata: { big: 1n } }, "vectors[3]"],
    [null, "vectors[3]"],
    [[1, 2], "vectors[3]"],
  ])("%# that JSON cannot carry is refused with its position", (record, path) => {
    expect(() => encodeRecord(record as never, 3)).toThrow(
      expect.objectContaining({ code: "invalid_vector", details: { path } }),
    );
  });
});

it("a query with a number that JSON cannot carry is refused with its position", () => {
  expect(() => plainNumbers([1, Number.NaN], "query_vector")).toThrow(/query_vector\[1\] is NaN/);
  expect(plainNumbers(new Float32Array([0.1]), "query_vector")).toEqual([Math.fround(0.1)]);
});
