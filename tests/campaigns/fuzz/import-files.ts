// Which files does the fuzzer pass to `quiver import`, and which outcomes are allowed?
//
// A valid file is generated and then damaged: bits changed, pieces removed, doubled or zeroed, the end missing, compressed before or after.
// The command may import valid records, reject invalid ones, or refuse the file. It must exit in time with one of its exit codes and a
// message, and never with a stack trace.

import { spawn } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { VectorInput } from "@quiverdb/protocol/shapes/vector";
import fc from "fast-check";
import { adminKey } from "../server-process.ts";
import { hostile, shaped } from "./shaped-json.ts";

const main = resolve(import.meta.dirname, "../../../packages/cli/dist/main.js");

/** Name prefix of the collections for imports. */
export const importPrefix = "import-";

export type ImportFile = {
  readonly name: string;
  readonly content: Buffer;
  readonly flags: readonly string[];
};

const hints = {
  id: fc.nat(200).map((n) => `"i${n}"`),
  document_id: fc.constantFrom('"d"', "null"),
  dense_values: fc.tuple(fc.nat(9), fc.nat(9), fc.nat(9)).map((values) => JSON.stringify(values)),
  sparse_indices: fc.constant("null"),
  sparse_values: fc.constant("[[1,2],[5,0.5]]"),
  text: fc.constantFrom('"bees dance"', '"honey"'),
};

const jsonLines = fc
  .array(
    fc.oneof(
      { weight: 20, arbitrary: shaped(VectorInput, { flawPermille: 10, hints }) },
      { weight: 1, arbitrary: hostile },
    ),
    { minLength: 1, maxLength: 60 },
  )
  .map((lines) => Buffer.from(`${lines.join("\n")}\n`));

const float = fc.oneof(
  { weight: 30, arbitrary: fc.float({ noNaN: true, noDefaultInfinity: true }) },
  { weight: 1, arbitrary: fc.constantFrom(Number.NaN, Infinity, -Infinity, -0) },
);
const rows = fc.array(fc.tuple(float, float, float), { minLength: 1, maxLength: 200 });

const f32 = rows.map((list) => Buffer.from(new Float32Array(list.flat()).buffer));
const fvecs = rows.map((list) =>
  Buffer.concat(
    list.map((row) => {
      const bytes = Buffer.alloc(4 + 4 * row.length);
      bytes.writeInt32LE(row.length, 0);
      for (const [i, value] of row.entries()) bytes.writeFloatLE(value, 4 + 4 * i);
      return bytes;
    }),
  ),
);

type Spoil = (content: Buffer) => Buffer;

const place = fc.double({ min: 0, max: 1, noNaN: true });
const at = (content: Buffer, share: number) => Math.floor(share * content.length);

const spoil: fc.Arbitrary<Spoil> = fc.oneof(
  { weight: 2, arbitrary: fc.constant<Spoil>((content) => content) },
  {
    weight: 3,
    arbitrary: fc.array(fc.tuple(place, fc.nat(7)), { minLength: 1, maxLength: 30 }).map(
      (flips): Spoil =>
        (content) => {
          const changed = Buffer.from(content);
          for (const [share, bit] of flips)
            changed[Math.min(at(content, share), content.length - 1)] ^= 1 << bit;
          return changed;
        },
    ),
  },
  {
    weight: 2,
    arbitrary: place.map(
      (share): Spoil =>
        (content) =>
          content.subarray(0, at(content, share)),
    ),
  },
  {
    weight: 2,
    arbitrary: fc.tuple(place, place).map(
      ([from, to]): Spoil =>
        (content) =>
          Buffer.concat([content.subarray(0, at(content, from)), content.subarray(at(content, to))]),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(place, fc.integer({ min: 1, max: 4_096 })).map(
      ([share, count]): Spoil =>
        (content) =>
          Buffer.from(content).fill(
            0,
            at(content, share),
            Math.min(content.length, at(content, share) + count),
          ),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(place, fc.uint8Array({ minLength: 1, maxLength: 64 })).map(
      ([share, more]): Spoil =>
        (content) =>
          Buffer.concat([
            content.subarray(0, at(content, share)),
            more,
            content.subarray(at(content, share)),
          ]),
    ),
  },
  // A line, or a dimension, that never ends.
  {
    weight: 1,
    arbitrary: fc.constantFrom<Spoil>(
      (content) => Buffer.concat([Buffer.from("{".repeat(300_000)), content]),
      () => Buffer.alloc(200_000, 0x7f),
      () => Buffer.alloc(0),
    ),
  },
);

const formats = fc.oneof(
  {
    weight: 3,
    arbitrary: jsonLines.map((content) => ({ content, extension: "jsonl", flags: [] as string[] })),
  },
  {
    weight: 2,
    arbitrary: f32.map((content) => ({ content, extension: "f32", flags: ["--dimension", "3"] })),
  },
  { weight: 2, arbitrary: fvecs.map((content) => ({ content, extension: "fvecs", flags: [] as string[] })) },
);

export const anyImportFile: fc.Arbitrary<ImportFile> = fc
  .record({
    format: formats,
    spoil,
    gzip: fc.constantFrom("no", "no", "before", "after"),
    mode: fc.constantFrom("--streaming", "--transaction"),
    extension: fc.constantFrom(undefined, undefined, undefined, undefined, "bin", "json", "fvecs"),
  })
  .map(({ format, spoil: spoiled, gzip, mode, extension }) => {
    // If compressed before the damage, the gzip stream is damaged; if after, the damaged content is compressed correctly.
    const content =
      gzip === "before"
        ? spoiled(gzipSync(format.content))
        : gzip === "after"
          ? gzipSync(spoiled(format.content))
          : spoiled(format.content);
    return { name: `file.${extension ?? format.extension}`, content, flags: [mode, ...format.flags] };
  });

/** The fault in the outcome of an import; undefined if there is none. */
export async function importFault(
  { name, content, flags }: ImportFile,
  url: string,
  collection: string,
  folder: string,
  timeoutMs: number,
): Promise<string | undefined> {
  const path = join(folder, name);
  writeFileSync(path, content);
  const args = [
    "import",
    collection,
    path,
    ...flags,
    "--create",
    "--retry-for",
    "5s",
    "--json",
    "--url",
    url,
    "--api-key",
    adminKey,
  ];
  // A small memory limit: a file of a few hundred kilobytes must not need more, whatever it contains.
  const child = spawn(process.execPath, ["--max-old-space-size=192", main, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let told = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (more) => {
      told = (told + more).slice(-20_000);
    });
  }
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    child.kill("SIGKILL");
  }, timeoutMs);
  const [code, signal] = await new Promise<[number | null, string | null]>((done) =>
    child.once("close", (exitCode, exitSignal) => done([exitCode, exitSignal])),
  );
  clearTimeout(timer);
  rmSync(`${path}.quiver-import.json`, { force: true });
  if (isLate) return `the import did not end within ${timeoutMs} ms`;
  if (code === null || ![0, 1, 2, 3].includes(code))
    return `the import ended with ${signal ?? code}:\n${told}`;
  if (/^\s+at .+:\d+:\d+\)?$/m.test(told)) return `the import showed a stack:\n${told}`;
  if (told.trim() === "") return "the import said nothing";
  return undefined;
}
