// Are JSON arrays, CSV, Parquet and NumPy files read as records, from any position on?

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { parquetWriteBuffer } from "hyparquet-writer";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { dimensionOf, type InputOptions, inspectInputs, readItems } from "./inputs.ts";
import { firstPosition, type Item, type ReadFrom } from "./item.ts";
import { splitArray } from "./json-array.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "quiver-tables-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

const write = (name: string, content: string | Uint8Array): string => {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
};

const optionsOf = (path: string, more: Partial<InputOptions> = {}): InputOptions => ({
  files: [path],
  ids: { prefix: "", field: "id" },
  unknown: "reject",
  table: { columns: {}, asText: false },
  ...more,
});

async function itemsOf(options: InputOptions, after?: Item): Promise<Item[]> {
  const inputs = await inspectInputs(options);
  const from =
    after === undefined
      ? firstPosition
      : { file: 0, offset: after.end, number: after.number, line: after.lines?.last };
  const items: Item[] = [];
  for await (const chunk of readItems(inputs, options, from, after?.number ?? 0, () => undefined))
    items.push(...chunk.items);
  return items;
}

/** The records of a file, after a proof that reading resumes behind each of them. */
async function recordsOf(options: InputOptions): Promise<unknown[]> {
  const items = await itemsOf(options);
  expect(items.map(({ number }) => number)).toEqual(items.map((_, i) => i + 1));
  for (const [i, item] of items.entries()) expect(await itemsOf(options, item)).toEqual(items.slice(i + 1));
  return items.map(({ json, problem }) => (problem === undefined ? JSON.parse(json) : problem.reason));
}

describe("a JSON array", () => {
  const chunked = async function* (bytes: Buffer, size: number) {
    for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
  };

  test("has the same items for any chunking, with any blanks, and from each position on", async () => {
    const blanks = fc.constantFrom("", " ", "\n\t", "\r\n  ");
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.jsonValue({ maxDepth: 3 }), blanks, blanks), { maxLength: 6 }),
        blanks,
        fc.integer({ min: 1, max: 9 }),
        async (given, outside, size) => {
          const values = given.map(([value]) => JSON.stringify(value));
          const inside = given.map(([, before, after], i) => before + values[i] + after).join(",");
          const bytes = Buffer.from(`${outside}[${inside}]${outside}`);
          const read = async (from: ReadFrom) => {
            const lines = [];
            for await (const some of splitArray(chunked(bytes.subarray(from.offset), size), from, "a", 1e6))
              lines.push(...some);
            return lines;
          };
          const lines = await read({ offset: 0, number: 0 });
          expect(lines.map((line) => line.bytes?.toString())).toEqual(values);
          for (const [i, { end: offset, number, lines: on }] of lines.entries()) {
            expect(await read({ offset, number, line: on?.last })).toEqual(lines.slice(i + 1));
            const lineAt = (at: number) => bytes.subarray(0, at).toString().split("\n").length;
            const start = offset - Buffer.byteLength(values[i]);
            expect(on).toEqual({ first: lineAt(start), last: lineAt(offset) });
          }
        },
      ),
      { numRuns: 500 },
    );
  });

  test("is read as records, whatever the name and the compression", async () => {
    const text = '\ufeff[ {"id":"a","metadata":{"n":9007199254740993}},\n{"id":"b","metadta":1}, 7 ]\n';
    for (const path of [
      write("a.json", text),
      write("unnamed-array", text.slice(1)),
      write("a.json.gz", gzipSync(text)),
    ]) {
      const items = await itemsOf(optionsOf(path));
      expect(items[0]).toMatchObject({ id: "a", json: '{"id":"a","metadata":{"n":9007199254740993}}' });
      expect(items.slice(1).map(({ problem }) => problem?.code)).toEqual(["unknown_field", "invalid_json"]);
    }
    const lines = await itemsOf(optionsOf(write("lines.json", '{"id":"a"}\n{"id":"b"}\n')));
    expect(lines.map(({ id }) => id)).toEqual(["a", "b"]);
  });

  test.each([
    ['[{"id":"a"} {"id":"b"}]', /broken\.json:1, byte 13, behind 1 item: has "\{", expected a comma or \]/],
    ['[{"id":"a"},]', /expected an item/],
    ['[{"id":"a"}] x', /expected nothing more/],
    ['[{"id":"a"},{"id":', /ends within its array, behind 1 item\./],
    ['[{"id":"a"}', /ends within its array/],
  ])("that is broken ends the import with the place: %s", async (text, message) => {
    const options = optionsOf(write("broken.json", text), { format: "json" });
    await expect(itemsOf(options)).rejects.toMatchObject({ code: "source_failed" });
    await expect(itemsOf(options)).rejects.toThrow(message);
  });
});

describe("a CSV file", () => {
  const text = [
    "\ufeffid;text;dense_values;color;n;code;ok;metadata",
    'a;"two',
    'lines; ""quoted""";[1, 0.5];red;9007199254740993;007;true;"{""m"":1}"',
    "b;ü;[0,1];;-1.50e3;1e5;yes;",
    "c;too few",
    "",
    "d;;no;;;;;{}",
    "",
  ].join("\r\n");

  test("has a record a row: fields by their names, and metadata", async () => {
    const path = write("shop.csv", text);
    const records = await recordsOf(optionsOf(path));
    expect(records).toEqual([
      {
        id: "a",
        text: 'two\r\nlines; "quoted"',
        dense_values: [1, 0.5],
        metadata: { color: "red", n: 9007199254740992, code: "007", ok: true, m: 1 },
      },
      { id: "b", text: "ü", dense_values: [0, 1], metadata: { n: -1500, code: 100000, ok: "yes" } },
      "has 2 cells, but there are 8 columns",
      'the column "dense_values" is not JSON',
    ]);
    const items = await itemsOf(optionsOf(path));
    expect(items[0].json).toContain('"n":9007199254740993');
    // The first row has two lines, and one before the last row is empty.
    expect(items.map(({ lines }) => lines?.first)).toEqual([3, 4, 5, 7]);
    const asText = await itemsOf(optionsOf(path, { table: { columns: {}, asText: true } }));
    expect(JSON.parse(asText[1].json).metadata).toEqual({ n: "-1.50e3", code: "1e5", ok: "yes" });
    expect(await recordsOf(optionsOf(write("shop.csv.gz", gzipSync(text))))).toEqual(records);
  });

  test("may name its columns, and separate them, otherwise", async () => {
    const path = write("other.tsv", 'sku\ttext\tabout\n7\tfrom the "shop\tx\n'.replace('"', ""));
    const table = { columns: { id: "sku", text: "about" }, asText: false };
    expect(await recordsOf(optionsOf(path, { table }))).toEqual([
      { id: "7", text: "x", metadata: { text: "from the shop" } },
    ]);
  });

  test.each([
    ["a,b\n1,2\n", {}, "invalid_request", /no column "id".*columns\.id. Its columns: a, b\./],
    ["id,b\n1,2\n", { text: "c" }, "invalid_request", /no column "c" for the option columns\.text/],
    ["id,b,b\n1,2,3\n", {}, "invalid_request", /several columns named "b"/],
    ["", {}, "source_failed", /is empty/],
    ['id,b\n1,"x\n', {}, "source_failed", /is not CSV/],
    [`id,b\n1,${"\u0000\u001b".repeat(5_000)}"x\n`, {}, "source_failed", /^[^\p{Cc}]{1,400}$/u],
  ] as const)("that is unclear or broken is refused: %s", async (content, columns, code, message) => {
    const options = optionsOf(write("wrong.csv", content), { table: { columns, asText: false } });
    await expect(itemsOf(options)).rejects.toMatchObject({ code });
    await expect(itemsOf(options)).rejects.toThrow(message);
  });
});

test("a Parquet file has a record a row, with the types of its columns", async () => {
  const rows = 25;
  const each = <T>(value: (i: number) => T): T[] => Array.from({ length: rows }, (_, i) => value(i));
  const buffer = parquetWriteBuffer({
    columnData: [
      { name: "sku", data: each((i) => BigInt(i)), type: "INT64" },
      { name: "text", data: each((i) => (i === 3 ? null : `item ${i}`)), type: "STRING" },
      { name: "dense_values", data: each((i) => [i, 0.5]), type: "JSON" },
      { name: "n", data: each((i) => 9007199254740993n + BigInt(i)), type: "INT64" },
      { name: "price", data: each((i) => i / 4), type: "DOUBLE" },
      { name: "sold", data: each((i) => new Date(i * 1000)), type: "TIMESTAMP" },
      { name: "ok", data: each((i) => i % 2 === 0), type: "BOOLEAN" },
    ],
    rowGroupSize: 10,
  });
  const options = optionsOf(write("items.parquet", new Uint8Array(buffer)), {
    table: { columns: { id: "sku" }, asText: false },
  });
  const records = await recordsOf(options);
  expect(records).toHaveLength(rows);
  expect(records[3]).toEqual({
    id: "3",
    dense_values: [3, 0.5],
    metadata: { n: 9007199254740996, price: 0.75, sold: "1970-01-01T00:00:03.000Z", ok: false },
  });
  expect((await itemsOf(options))[0].json).toContain('"n":9007199254740993');
  await expect(itemsOf(optionsOf(write("no.parquet", "PAR1 but no more")))).rejects.toThrow(
    /is not a Parquet file/,
  );
  await expect(itemsOf(optionsOf(options.files[0]))).rejects.toThrow(/columns\.id/);
});

describe("a NumPy file", () => {
  function npy(type: string, shape: string, values: Float32Array | Float64Array, order = "False"): Buffer {
    const text = `{'descr': '${type}', 'fortran_order': ${order}, 'shape': ${shape}, }`;
    const padded = `${text.padEnd(64 * Math.ceil((text.length + 11) / 64) - 11)}\n`;
    const head = Buffer.from("\u0093NUMPY\u0001\u0000\u0000\u0000", "latin1");
    head.writeUInt16LE(padded.length, 8);
    return Buffer.concat([head, Buffer.from(padded), Buffer.from(values.buffer)]);
  }

  test("has a vector a row, of 32-bit or 64-bit floats", async () => {
    const values = [0.5, 1, -2, 3, 4, 5];
    const f32 = (row: readonly number[]) => Buffer.from(Float32Array.from(row).buffer).toString("base64");
    const expected = [0, 1, 2].map((i) => ({
      id: String(i),
      dense_values: { f32: f32(values.slice(2 * i, 2 * i + 2)) },
    }));
    for (const file of [
      write("f4.npy", npy("<f4", "(3, 2)", Float32Array.from(values))),
      write("f8.npy", npy("<f8", "(3, 2)", Float64Array.from(values))),
      write("f4.npy.gz", gzipSync(npy("<f4", "(3, 2)", Float32Array.from(values)))),
    ]) {
      expect(await recordsOf(optionsOf(file))).toEqual(expected);
      const [input] = await inspectInputs(optionsOf(file));
      expect(await dimensionOf(input, optionsOf(file))).toBe(2);
    }
  });

  const six = new Float32Array(6);
  test.each([
    [npy("<i8", "(3, 2)", six), /float32 or float64/],
    [npy("<f4", "(6,)", six), /has the shape \(6\); expected \(vectors, dimension\)/],
    [npy("<f4", "(3, 2)", six, "True"), /np\.ascontiguousarray/],
    [npy("<f4", "(4, 2)", six), /has 3 rows, but its header says 4/],
    [npy("<f4", "(3, 0)", six), /vectors of 0 dimensions/],
    [npy("<f4", "(3, 2)", six).subarray(0, 20), /ends within its header/],
    [Buffer.from("no array"), /is not in the npy format/],
  ])("of another kind is refused with what to do (%#)", async (content, message) => {
    const options = optionsOf(write("wrong.npy", content));
    await expect(itemsOf(options)).rejects.toMatchObject({ code: "source_failed" });
    await expect(itemsOf(options)).rejects.toThrow(message);
  });
});
