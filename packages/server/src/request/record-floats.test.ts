// Is a body of records whose vectors the kernel reads the same as one that JSON.parse reads?

import "@quiverdb/engine/process/node-host";
import { finishAtOnce } from "@quiverdb/engine/database/contract";
import fc from "fast-check";
import { expect, test } from "vitest";
import { readVectors } from "./dense-vectors.ts";
import { type ParsedBody, parseBody, parseLines } from "./json.ts";

type Vectors = { dense_values?: unknown }[];

/** The records of a body, with floats as numbers, and how many vectors the kernel has read. */
function read(parsed: ParsedBody): { records: unknown; count: number } {
  const { vectors } = parsed.value as { vectors: Vectors };
  finishAtOnce(readVectors(vectors, "dense_values", "vectors", parsed));
  const asNumbers = (value: unknown) => (value instanceof Float32Array ? [...value] : value);
  return {
    records: vectors.map((record) =>
      typeof record === "object" && record !== null && "dense_values" in record
        ? { ...record, dense_values: asNumbers(record.dense_values) }
        : record,
    ),
    count: parsed.floats?.size ?? 0,
  };
}

/** The records as JSON.parse reads them, with each number of a vector rounded to a float. */
function expected(texts: readonly string[]): unknown {
  return texts.map((text) => {
    const record = JSON.parse(text) as { dense_values?: unknown };
    const list = record?.dense_values;
    const isVector = Array.isArray(list) && list.length > 0 && list.every((item) => typeof item === "number");
    return isVector ? { ...record, dense_values: list.map(Math.fround) } : record;
  });
}

const rounded = (records: unknown) =>
  (records as Vectors).map((record) =>
    Array.isArray(record?.dense_values) && record.dense_values.every((item) => typeof item === "number")
      ? { ...record, dense_values: record.dense_values.map(Math.fround) }
      : record,
  );

function expectSame(texts: readonly string[], most = texts.length): void {
  const body = read(finishAtOnce(parseBody(Buffer.from(`{"vectors" : [${texts.join(" , ")}]}`))));
  const lines = read(finishAtOnce(parseLines(Buffer.from(texts.join("\n")))));
  for (const { records, count } of [body, lines]) {
    expect(rounded(records)).toEqual(expected(texts));
    expect(count).toBeLessThanOrEqual(most);
  }
}

const long = (seed: number) => JSON.stringify(Array.from({ length: 100 }, (_, i) => Math.sin(seed + i)));

test("the vectors of many records are floats, in bodies of one piece and of many", () => {
  for (const count of [1, 3, 200]) {
    const texts = Array.from(
      { length: count },
      (_, i) => `{"id":"é${i}","dense_values": ${long(i)} ,"metadata":{"n":[1,2]}}`,
    );
    expectSame(texts);
    const parsed = finishAtOnce(parseBody(Buffer.from(`{"vectors":[${texts.join(",")}]}`)));
    expect(parsed.floats?.size).toBe(count);
    expect(finishAtOnce(parseLines(Buffer.from(texts.join("\n")))).floats?.size).toBe(count);
  }
});

test.each([
  ["a vector in metadata", `{"id":"a","metadata":{"dense_values":${long(1)}},"dense_values":${long(2)}}`],
  ["a vector in metadata only", `{"id":"a","metadata":{"dense_values":${long(1)}}}`],
  ["two vectors", `{"id":"a","dense_values":${long(1)},"dense_values":${long(2)}}`],
  ["a second value that is no vector", `{"id":"a","dense_values":${long(1)},"dense_values":null}`],
  ["the key in a string", `{"id":"\\"dense_values\\":${long(1)}","dense_values":${long(2)}}`],
  ["the key as a value", `{"id":"dense_values","dense_values":${long(2)}}`],
  ["nested lists", `{"id":"a","dense_values":[${long(1)}]}`],
  ["a list of other values", `{"id":"a","dense_values":[1,"]",${long(1).slice(1)}}`],
  ["a number that is no float", `{"id":"a","dense_values":[1e39,${long(1).slice(1)}}`],
  ["an empty vector", `{"id":"a","dense_values":[]}`],
  ["an escaped key", `{"id":"a","dense\\u005fvalues":${long(1)}}`],
])("%s is what JSON.parse makes of it, between other records", (_what, text) => {
  const other = `{"id":"o","dense_values":${long(7)}}`;
  expectSame([other, text, other]);
  expectSame([text]);
});

test("records of any kind are read as by JSON.parse", () => {
  const number = fc.oneof(
    fc.float({ noNaN: true, noDefaultInfinity: true }),
    fc.integer(),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
  );
  const record = fc.record(
    {
      id: fc.string({ unit: "grapheme" }),
      dense_values: fc.oneof(
        fc.array(number, { minLength: 20, maxLength: 60 }),
        fc.array(number),
        fc.constant(null),
      ),
      metadata: fc.dictionary(
        fc.constantFrom("dense_values", "vectors", "a"),
        fc.array(number, { maxLength: 60 }),
      ),
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(fc.array(record, { minLength: 1, maxLength: 12 }), (records) => {
      expectSame(records.map((each) => JSON.stringify(each)));
    }),
    { numRuns: 200 },
  );
});

test("what is no JSON is located as before", () => {
  const good = `{"id":"a","dense_values":${long(1)}}`;
  for (const text of [
    `{"vectors":[${good},{"id":}]}`,
    `{"vectors":[${good} ${good}]}`,
    `{"vectors":[${good}]`,
  ]) {
    let error: unknown;
    try {
      finishAtOnce(parseBody(Buffer.from(text)));
    } catch (caught) {
      error = caught;
    }
    expect(error).toMatchObject({ code: "invalid_json", details: { line: 1 } });
    expect(() => JSON.parse(text)).toThrow();
  }
});
