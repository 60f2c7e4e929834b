// Are errors of reading files those of a command: its exit codes, and the names of its options?

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { InputOptions } from "@quiverdb/import/files/inputs";
import { firstPosition } from "@quiverdb/import/files/item";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CommandError, UsageError } from "../exit-codes.ts";
import { inspectInputs, readItems } from "./inputs.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "quiver-inputs-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

const vector = "\0".repeat(4);
test.each<[string, string | undefined, object, typeof UsageError | typeof CommandError, RegExp]>([
  ["a.csv", "sku\n1\n", {}, UsageError, /name the one with the ids: --column id=NAME\. Its columns: sku\.$/],
  [
    "b.csv",
    "id\n1\n",
    { text: "c" },
    UsageError,
    /no column "c" for --column text=\.\.\. Its columns: id\.$/,
  ],
  ["c.f32", vector, {}, UsageError, /floats per vector with --dimension <n>\.$/],
  ["unnamed", "a,b\n", {}, UsageError, /unclear; give it with --format jsonl, json, csv, .*, f32\.$/],
  ["d.jsonl", "[{}]", {}, CommandError, /Import it with --format json\.$/],
  ["e.jsonl", '{\n"id":"a"}', {}, CommandError, /and import that with --format json\.$/],
  ["f.fvecs", `\u0001\0\0\0${vector}`, {}, CommandError, /name the field with the id with --ids-field\.$/],
  ["text.npy", "no array", {}, CommandError, /text\.npy is not in the npy format\.$/],
  ["none.jsonl", undefined, {}, CommandError, /^Cannot read .*none\.jsonl: ENOENT: /],
])("%s", async (name, content, columns, Kind, message) => {
  const path = join(folder, name);
  if (content !== undefined) writeFileSync(path, content);
  const ids = join(folder, "ids");
  writeFileSync(ids, '{"name":"x"}\n');
  const options: InputOptions = {
    files: [path],
    ids: { prefix: "", field: "id", ...(name === "f.fvecs" && { file: ids }) },
    unknown: "reject",
    table: { columns: { ...columns }, asText: false },
  };
  const read = async () => {
    const inputs = await inspectInputs(options);
    for await (const _ of readItems(inputs, options, firstPosition, 0, () => undefined));
  };
  const error = await read().catch((thrown: Error) => thrown);
  expect(error).toBeInstanceOf(Kind);
  expect((error as Error).message).toMatch(message);
});
