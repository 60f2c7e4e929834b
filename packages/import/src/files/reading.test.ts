import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { rowIds } from "./ids.ts";
import { openInput, readStart } from "./input-file.ts";
import { type InputOptions, inspectInputs, readItems } from "./inputs.ts";
import type { Item } from "./item.ts";
import { readJsonLines, topLevelMembers, type Unknown } from "./json-lines.ts";
import { splitLines } from "./lines.ts";
import { readF32, readFvecs } from "./rows.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "quiver-reading-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

const write = (name: string, content: string | Uint8Array): string => {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
};

/** The content in chunks of the given sizes, over and over. */
async function* inChunks(content: Buffer, sizes: readonly number[]): AsyncGenerator<Buffer> {
  for (let at = 0, i = 0; at < content.length; i++) {
    const size = sizes[i % sizes.length];
    yield content.subarray(at, at + size);
    at += size;
  }
}

async function collect<T>(chunks: AsyncIterable<T[]>): Promise<T[]> {
  const all: T[] = [];
  for await (const chunk of chunks) all.push(...chunk);
  return all;
}

const start = { offset: 0, number: 0 };
const sizes = fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1, maxLength: 5 });

describe("lines", () => {
  it("are the same for any chunking of the bytes, and reading can resume after each", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom("a", "bc", "\n", "\r\n", "ü", "\r")),
        sizes,
        async (parts, chunkSizes) => {
          const content = Buffer.from(parts.join(""));
          const expected = parts.join("").split("\n");
          if (expected.at(-1) === "") expected.pop();
          const lines = await collect(splitLines(inChunks(content, chunkSizes), start, 1_000));
          expect(lines.map(({ bytes }) => bytes?.toString())).toEqual(
            expected.map((line) => line.replace(/\r$/, "")),
          );
          expect(lines.map(({ number }) => number)).toEqual(expected.map((_, i) => i + 1));
          for (const line of lines) {
            const from = { offset: line.end, number: line.number };
            const rest = await collect(
              splitLines(inChunks(content.subarray(line.end), chunkSizes), from, 1_000),
            );
            expect(rest).toEqual(lines.slice(line.number));
          }
        },
      ),
      { numRuns: 300 },
    );
  });

  it("that are too long are yielded without their bytes and do not affect the next ones", async () => {
    const content = Buffer.from(`short\n${"x".repeat(5_000)}\nafter\n`);
    const lines = await collect(splitLines(inChunks(content, [700]), start, 100));
    expect(lines.map(({ bytes, end }) => [bytes?.toString(), end])).toEqual([
      ["short", 6],
      [undefined, 5_007],
      ["after", 5_013],
    ]);
    expect(lines[1].start?.toString()).toMatch(/^x+$/);
  });
});

describe("JSON Lines", () => {
  const read = (content: string | Buffer, unknown: Unknown = "reject") =>
    collect(readJsonLines(inChunks(Buffer.from(content), [64]), start, "a.jsonl", unknown));

  it("[E9] with an unknown field are rejected as the server would", async () => {
    const line = '{"id":"a","text":"x","metadta":{"n":1}}';
    const [item] = await read(line);
    expect(item).toMatchObject({ json: line, id: undefined, problem: { code: "unknown_field" } });
    expect(item.problem?.reason).toContain("metadta is not a known field; did you mean `metadata`?");
    const nested = '{"id":"a","sparse_values":[{"index":1,"value":2,"weight":3}]}';
    expect((await read(nested))[0].problem?.reason).toContain("sparse_values[0].weight");
    const metadata = '{"id":"a","text":"x","metadata":{"metadta":[{"topK":1}],"__proto__":{}}}';
    expect((await read(metadata))[0].problem).toBeUndefined();
    expect((await read('{"id":"a","text":"x","__proto__":{}}'))[0].problem?.reason).toContain("__proto__");
  });

  it("[E9] lose such a field where they are ignored, and nothing else changes", async () => {
    const read1 = async (line: string) => (await read(line, "ignore"))[0];
    const line =
      '{ "lang":"en","id":"a", "metadta":[1,{"}":","}], "metadata":{"n":1.0,"lang":1e999},"lang":2 }';
    expect(await read1(line)).toEqual({
      number: 1,
      end: line.length,
      json: '{"id":"a","metadata":{"n":1.0,"lang":1e999}}',
      id: "a",
      ignored: ["lang", "metadta"],
    });
    const nested = '{"id":"a","sparse_values":[{"index":1,"value":2.50,"weight":3}],"metadata":{"n":1.0}}';
    expect(await read1(nested)).toMatchObject({
      json: '{"id":"a","sparse_values":[{"index":1,"value":2.5}],"metadata":{"n":1.0}}',
      ignored: ["sparse_values[].weight"],
    });
    const plain = '{"id":"a", "text":"x"}';
    expect(await read1(plain)).toEqual({ number: 1, end: plain.length, json: plain, id: "a" });
    expect(await read1('{"idd":"a"}')).toMatchObject({ json: "{}", id: undefined, ignored: ["idd"] });
  });

  it("are no other JSON, which is refused as a whole", async () => {
    const record = { id: "a", dense_values: [0.25, -1], metadata: { a: { b: [1] } } };
    for (const indent of [1, 2, "\t"]) {
      const printed = JSON.stringify(record, null, indent);
      await expect(read(printed)).rejects.toThrow("a.jsonl begins with a JSON object");
      await expect(read(`\ufeff\n\r\n${printed}`.replaceAll("\n", "\r\n"))).rejects.toThrow("several lines");
      await expect(read(JSON.stringify([record], null, indent))).rejects.toThrow("the format json");
    }
    await expect(read('{"id":"a","dense_values":[\n0.5,\n1]}')).rejects.toThrow("several lines");
    await expect(read(`[${JSON.stringify(record)}]`)).rejects.toThrow("the format json");
    // A faulty first line alone is rejected alone.
    for (const faulty of ['{"id":"x"', '{"id":"x",\n{"id":"a"}', '{"id":"x"\nnonsense', '"["', "{}"])
      expect((await read(faulty)).length, faulty).toBeGreaterThan(0);
  });

  it("are passed on unchanged", async () => {
    const line =
      '{ "id":"a", "dense_values":[1.0, 2], "metadata":{"n":9007199254740993,"x":1e999,"k":1,"k":2} }';
    expect(await read(`${line}\n`)).toEqual([{ number: 1, end: line.length + 1, json: line, id: "a" }]);
  });

  it("may start with a byte order mark and have empty lines between", async () => {
    const items = await read('\ufeff{"id":"a"}\n\n  \n{"id":"b"}');
    expect(items.map(({ id, number }) => [id, number])).toEqual([
      ["a", 1],
      ["b", 4],
    ]);
  });

  it("that are not records are problems with a reason", async () => {
    const items = await read(
      Buffer.concat([
        Buffer.from('{"id":\n[1]\n"text"\nnull\n'),
        Buffer.from([0x7b, 0xff, 0x7d, 0x0a]),
        Buffer.from('{"id":7}'),
      ]),
    );
    expect(items.map(({ problem }) => problem?.reason.split(":")[0])).toEqual([
      "is not JSON",
      "is not a JSON object",
      "is not a JSON object",
      "is not a JSON object",
      "is not UTF-8",
      undefined,
    ]);
    expect(items[5].id).toBeUndefined();
  });

  it("lose sparse_indices if sparse_values has the same in pairs, and nothing else", async () => {
    const record =
      '{"id":"a","sparse_indices" : [1,2],"sparse_values":[[1,0.5],[2,1e400]],"metadata":{"sparse_indices":[9],"t":"a,\\"}{"},"text":null}';
    const [item] = await read(record);
    expect(item.json).toBe(
      '{"id":"a","sparse_values":[[1,0.5],[2,1e400]],"metadata":{"sparse_indices":[9],"t":"a,\\"}{"},"text":null}',
    );
    const disagreeing = '{"id":"a","sparse_indices":[1,3],"sparse_values":[[1,0.5],[2,1]]}';
    expect((await read(disagreeing))[0].json).toBe(disagreeing);
    const plain = '{"id":"a","sparse_indices":[1,3],"sparse_values":[0.5,1]}';
    expect((await read(plain))[0].json).toBe(plain);
  });

  it("are cut into members exactly, for any object", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.boolean(), (object, pretty) => {
        const text = JSON.stringify(object, null, pretty ? 2 : 0);
        const members = topLevelMembers(text);
        expect(members.map(({ key }) => key)).toEqual(Object.keys(object));
        expect(JSON.parse(`{${members.map((member) => member.text).join(",")}}`)).toEqual(JSON.parse(text));
      }),
      { numRuns: 500 },
    );
  });
});

describe("bare vectors", () => {
  const vectors = [
    [1, -0.5, 3e-20],
    [0.1, 2, -7],
    [1e30, 5, 6],
  ];
  const fvecs = Buffer.concat(
    vectors.map((row) =>
      Buffer.concat([Buffer.from(new Int32Array([3]).buffer), Buffer.from(new Float32Array(row).buffer)]),
    ),
  );
  const f32 = Buffer.from(new Float32Array(vectors.flat()).buffer);
  const ids = (from = 0) => rowIds({ prefix: "v", field: "id" }, from);
  const valuesOf = ({ json }: Item) => {
    const bytes = Buffer.from(JSON.parse(json).dense_values.f32, "base64");
    return Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(4 * i));
  };
  const rounded = vectors.map((row) => row.map(Math.fround));

  it("are read from .fvecs and .f32 for any chunking, and from the middle", async () => {
    await fc.assert(
      fc.asyncProperty(sizes, async (chunkSizes) => {
        const one = await collect(readFvecs(inChunks(fvecs, chunkSizes), start, await ids(), "x.fvecs"));
        const other = await collect(readF32(inChunks(f32, chunkSizes), start, await ids(), "x.f32", 3));
        for (const items of [one, other]) {
          expect(items.map(valuesOf)).toEqual(rounded);
          expect(items.map(({ id }) => id)).toEqual(["v0", "v1", "v2"]);
        }
        const from = { offset: one[0].end, number: 1 };
        const rest = await collect(
          readFvecs(inChunks(fvecs.subarray(from.offset), chunkSizes), from, await ids(1), "x"),
        );
        expect(rest).toEqual(one.slice(1));
      }),
      { numRuns: 50 },
    );
  });

  it("that are not finite are problems of their row only", async () => {
    const bytes = Buffer.from(new Float32Array([1, 2, Number.NaN, 4, 5, 6]).buffer);
    const items = await collect(readF32(inChunks(bytes, [24]), start, await ids(), "x", 2));
    expect(items.map(({ problem }) => problem?.reason)).toEqual([
      undefined,
      "vector[0] is NaN, expected a finite number",
      undefined,
    ]);
  });

  it.each([
    ["a cut file", fvecs.subarray(0, -2), /ends in the middle of row 3/],
    [
      "another dimension in between",
      Buffer.concat([fvecs, Buffer.from(new Int32Array([4, 0, 0, 0]).buffer)]),
      /row 4: has 4 dimensions/,
    ],
    ["no fvecs file", Buffer.from("hello world"), /not in the fvecs format/],
  ])("end with a clear error for %s", async (_, content, message) => {
    await expect(collect(readFvecs(inChunks(content, [64]), start, await ids(), "x.fvecs"))).rejects.toThrow(
      message,
    );
  });
});

describe("ids", () => {
  const take = async (content: string, count: number, firstRow = 0) => {
    const ids = await rowIds({ prefix: "", field: "id", file: write("ids", content) }, firstRow);
    try {
      return { taken: await ids.take(count), more: await ids.hasMore() };
    } finally {
      await ids.close();
    }
  };

  it("are plain lines, JSON strings or a field of JSON objects", async () => {
    const content = 'plain\n"with \\"quotes\\""\n{"id": 7, "text": "x"}\n"unquoted\nlast';
    expect(await take(content, 5)).toEqual({
      taken: ["plain", 'with "quotes"', "7", '"unquoted', "last"],
      more: false,
    });
  });

  it("start at any row, and report when some are left over", async () => {
    expect(await take("a\nb\nc\nd\n", 2, 1)).toEqual({ taken: ["b", "c"], more: true });
  });

  it("must be enough, and none may be empty", async () => {
    await expect(take("a\nb\n", 3)).rejects.toThrow(/has 2 ids, but there are more vectors/);
    await expect(take("a\n\n", 2)).rejects.toThrow(/:2: the line is empty/);
    await expect(take('{"name":"x"}\n', 1)).rejects.toThrow(/the option ids\.field/);
  });
});

describe("files", () => {
  const text = Array.from({ length: 20_000 }, (_, i) => `{"id":"${i}"}`).join("\n");

  it("are read from any offset, compressed or not, whatever their name", async () => {
    for (const path of [write("plain.gz", text), write("packed", gzipSync(text))]) {
      for (const offset of [0, 1, 100_000, text.length]) {
        const parts: Buffer[] = [];
        for await (const chunk of (await openInput(path, offset)).chunks) parts.push(chunk);
        expect(Buffer.concat(parts).toString() === text.slice(offset)).toBe(true);
      }
      expect((await readStart(path, 8)).toString()).toBe('{"id":"0');
    }
  });

  it("that end too early or do not exist give a clear error", async () => {
    const cut = write("cut.gz", gzipSync(text).subarray(0, 10_000));
    const readAll = async (path: string) => {
      for await (const _ of (await openInput(path)).chunks);
    };
    await expect(readAll(cut)).rejects.toThrow(/Cannot read .*cut\.gz: unexpected end of file/);
    await expect(readAll(join(folder, "none"))).rejects.toMatchObject({ code: "source_failed" });
  });

  const options = (files: string[], more: Partial<InputOptions> = {}): InputOptions => ({
    files,
    ids: { prefix: "", field: "id" },
    unknown: "reject",
    table: { columns: {}, asText: false },
    ...more,
  });

  it("are recognised by name or by content", async () => {
    const files = ["a.jsonl", "b.ndjson.gz", "c.fvecs", "d.f32.gz"].map((name) => write(name, ""));
    const unnamed = write("unnamed", '  {"id":"a"}');
    const found = await inspectInputs(options([...files, unnamed], { dimension: 2 }));
    expect(found.map(({ format }) => format)).toEqual(["jsonl", "jsonl", "fvecs", "f32", "jsonl"]);
    await expect(inspectInputs(options([write("data", "a,b\n")]))).rejects.toMatchObject({
      code: "invalid_request",
    });
    await expect(inspectInputs(options([files[3]]))).rejects.toThrow(/the option dimension/);
    await expect(inspectInputs(options([join(folder, "none.jsonl")]))).rejects.toMatchObject({
      code: "source_failed",
    });
    await expect(inspectInputs(options([folder]))).rejects.toThrow(/is a directory/);
  });

  it("have consecutive row numbers across files", async () => {
    const paths = ["r1.f32", "r2.f32"].map((name) =>
      write(name, Buffer.from(new Float32Array([1, 2, 3]).buffer)),
    );
    const all = options(paths, { dimension: 1 });
    const inputs = await inspectInputs(all);
    const read = async (from: { file: number; offset: number; number: number }, row: number) => {
      const ids: (string | undefined)[] = [];
      for await (const { items } of readItems(inputs, all, from, row, () => undefined))
        ids.push(...items.map(({ id }) => id));
      return ids;
    };
    expect(await read({ file: 0, offset: 0, number: 0 }, 0)).toEqual(["0", "1", "2", "3", "4", "5"]);
    expect(await read({ file: 0, offset: 8, number: 2 }, 2)).toEqual(["2", "3", "4", "5"]);
    expect(await read({ file: 1, offset: 4, number: 1 }, 4)).toEqual(["4", "5"]);
  });
});
