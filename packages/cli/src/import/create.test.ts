import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { needsOf } from "./create.ts";

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
