import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import { type DenseValues, encodeRecord, RawRecord, wireVector } from "./record.ts";

afterEach(() => {
  vi.unstubAllGlobals();
  vi.resetModules();
});

/** What a server reads: the floats of a vector as it is sent. */
function floatsOf(sent: unknown): number[] {
  if (Array.isArray(sent)) return sent.map(Math.fround);
  const bytes = Buffer.from((sent as { f32: string }).f32, "base64");
  return Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(4 * i));
}

const numbers = fc.oneof(
  fc.float({ noNaN: true, noDefaultInfinity: true }),
  fc.constantFrom(-0, 2 ** -149, 3.4028234663852886e38, 1 / 3, 1e-300),
);
const vectors = fc.array(numbers, { maxLength: 100 });

describe("[H27] a dense vector", () => {
  it("is the same again when it was read, however it is given and sent", () => {
    fc.assert(
      fc.property(vectors, (values) => {
        const expected = values.map(Math.fround);
        for (const given of [values, new Float32Array(values), new Float64Array(values)])
          expect(floatsOf(wireVector(given))).toEqual(expected);
      }),
      { numRuns: 1_000 },
    );
  });

  it("is sent as bytes, except a short list of plain numbers", () => {
    const long = Array.from({ length: 32 }, (_, i) => i);
    for (const bytes of [new Float32Array([1]), new Float64Array([1]), new Float32Array(0), long])
      expect(wireVector(bytes)).toEqual({ f32: expect.any(String) });
    expect(wireVector([1, -0.5])).toEqual([1, -0.5]);
  });

  it("is a part of a larger array as well as an array of its own", () => {
    const part = new Float32Array([9, 1, 2, 9]).subarray(1, 3);
    expect(floatsOf(wireVector(part))).toEqual([1, 2]);
  });

  it("that the server must reject is sent as it is", () => {
    const long = Array.from({ length: 40 }, (_, i) => i);
    const words = long.with(7, "7" as never);
    expect(wireVector(words)).toEqual(words);
    expect(wireVector(long.with(7, null as never))[7 as never]).toBeNull();
    expect(wireVector(long.with(7, 1e39))).toEqual(long.with(7, 1e39));
    expect(wireVector(new Float64Array([1, 1e39]))).toEqual([1, 1e39]);
  });

  it.each([
    ["without Buffer", { Buffer: undefined }],
    ["with Buffer", {}],
  ])("has the same bytes in a runtime %s", async (_what, globals) => {
    for (const [name, value] of Object.entries(globals)) vi.stubGlobal(name, value);
    vi.resetModules();
    const other = await import("./record.ts");
    vi.unstubAllGlobals();
    for (const length of [0, 1, 2, 3, 5_000]) {
      const values = Float32Array.from({ length }, (_, i) => Math.sin(i));
      const bytes = Buffer.from(values.buffer).toString("base64");
      expect(other.wireVector(values)).toEqual({ f32: bytes });
    }
  });
});

describe("a record", () => {
  it("reads the same with a typed array as with plain numbers", () => {
    const plain = { id: "a", document_id: "d", dense_values: [0.5, -2, 3], metadata: { k: [1] } };
    const typed: DenseValues[] = [new Float32Array([0.5, -2, 3]), new Float64Array([0.5, -2, 3])];
    for (const dense_values of typed) {
      const sent = JSON.parse(encodeRecord({ ...plain, dense_values }, 0));
      expect({ ...sent, dense_values: floatsOf(sent.dense_values) }).toEqual(plain);
    }
    expect(JSON.parse(encodeRecord(plain, 0))).toEqual(plain);
  });

  it("as text is sent unchanged", () => {
    expect(encodeRecord(new RawRecord(' {"id" : 1}'), 0)).toBe(' {"id" : 1}');
  });

  it.each([
    [{ id: "a", dense_values: [1, Number.POSITIVE_INFINITY] }, "vectors[3].dense_values[1]"],
    [{ id: "a", dense_values: new Float32Array([1, Number.NaN]) }, "vectors[3].dense_values[1]"],
    [{ id: "a", sparse_indices: [1], sparse_values: [Number.NaN] }, "vectors[3].sparse_values[0]"],
    [{ id: "a", sparse_values: [[1, Number.NaN]] }, "vectors[3].sparse_values[0]"],
    [{ id: "a", sparse_values: [{ index: 1, value: Number.NaN }] }, "vectors[3].sparse_values[0]"],
    [{ id: "a", text: "t", metadata: { big: 1n } }, "vectors[3]"],
    [null, "vectors[3]"],
    [[1, 2], "vectors[3]"],
  ])("%# that JSON cannot carry is refused with its position", (record, path) => {
    expect(() => encodeRecord(record as never, 3)).toThrow(
      expect.objectContaining({ code: "invalid_vector", details: { path } }),
    );
  });
});
