import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, test } from "vitest";
import { needsOf } from "./create.ts";
import { inspectInputs } from "./inputs.ts";

const f32 = (...values: number[]) => Buffer.from(new Float32Array(values).buffer).toString("base64");

it.each([
  [
    "a list",
    [
      { id: "a", text: "t" },
      { id: "b", dense_values: [1, 2, 3] },
    ],
    3,
  ],
  [
    "bytes",
    [
      { id: "a", text: "t" },
      { id: "b", dense_values: { f32: f32(1, 2, 3, 4, 5) } },
    ],
    5,
  ],
  ["no vector", [{ id: "a", text: "t", dense_values: null }], undefined],
  ["bytes of no whole floats", [{ id: "a", text: "t", dense_values: { f32: "AAAA" } }], undefined],
])("the dimension is that of the first vector: %s", async (_what, records, dimension) => {
  const folder = await mkdtemp(join(tmpdir(), "quiver-create-"));
  try {
    const path = join(folder, "records.jsonl");
    await writeFile(path, records.map((record) => JSON.stringify(record)).join("\n"));
    const input = { path, format: "jsonl" } as Parameters<typeof needsOf>[0][number];
    const options = { files: [path], ids: { prefix: "", field: "id" } } as unknown;
    expect(await needsOf([input], options as Parameters<typeof needsOf>[1])).toEqual({
      dimension,
      sparse: false,
      text: true,
    });
  } finally {
    await rm(folder, { recursive: true });
  }
});

test.each([
  ["a.jsonl", '{"id":"a","vector":[1]}', "qdrant", undefined],
  ["a.csv", "id,dense_values\na,[1]\n", undefined, undefined],
  ["a.fvecs", "\u0001\0\0\0\0\0\0\0", undefined, undefined],
  ["a.fvecs", "no vectors", undefined, /the first row has \d+ dimensions, expected 1 to/],
  [
    "a.jsonl",
    '{"id":"a","metadata":{}}',
    undefined,
    /none of the 1 records.* has dense_values.* for them\.$/,
  ],
  ["a.csv", "id,emb\na,[1]\n", undefined, /a\.csv: none of the 1 records.*--column dense_values=NAME/],
  [
    "a.jsonl",
    '{"id":"a","metadata":{}}',
    "pinecone",
    /none of the 1 records.* has a vector or a text.* them\.$/,
  ],
  ["a.jsonl", '{"id":"a","payload":{}}', "qdrant", /has a vector or a text.*--column dense_values=NAME/],
  [
    "a.jsonl",
    '\n{"id":"a","values":"x"}',
    "pinecone",
    /a\.jsonl:2 \(record 1\): has no vector in values, but "x"\.$/,
  ],
  ["a.jsonl", "{", undefined, /a\.jsonl:1: is not JSON: .*[^.]\.$/],
] as const)(
  "what has no vector and no text is told in the words of the file: %s %s",
  async (name, text, from, message) => {
    const folder = await mkdtemp(join(tmpdir(), "quiver-create-"));
    try {
      const path = join(folder, name);
      await writeFile(path, text);
      const options = {
        files: [path],
        ids: { prefix: "", field: "id" },
        table: { columns: {}, asText: false },
        ...(from !== undefined && { foreign: { format: from, options: {} } }),
      } as unknown as Parameters<typeof inspectInputs>[0];
      const needs = needsOf(await inspectInputs(options), options);
      if (message === undefined) await expect(needs).resolves.toMatchObject({ dimension: 1 });
      else await expect(needs).rejects.toThrow(message);
    } finally {
      await rm(folder, { recursive: true });
    }
  },
);
