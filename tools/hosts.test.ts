import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { checkHosts } from "./hosts.ts";

const roots: string[] = [];
afterEach(() => {
  for (const root of roots.splice(0)) rmSync(root, { recursive: true, force: true });
});

/** The breaches of one file under packages/, whose second line is `line`. */
function breaches(path: string, line: string): string[] {
  const root = mkdtempSync(join(tmpdir(), "quiver-hosts-"));
  roots.push(root);
  const file = join(root, "packages", path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `// Question?\n${line}\n`);
  return checkHosts(root);
}

const portable = ["base", "vector", "text", "index/hnsw", "collection", "query", "log", "indexing"].map(
  (folder) => `engine/src/${folder}/a.ts`,
);
const files = [
  ...portable,
  "kernels/src/a.ts",
  "protocol/src/a.ts",
  "engine/src/storage/store.ts",
  "engine/src/storage/memory.ts",
  "engine/src/runtime/view.ts",
];

test.each(files)("%s imports no module of Node.js", (path) => {
  expect(breaches(path, 'import { readFileSync } from "node:fs";')).toEqual([
    expect.stringContaining(`packages/${path}:2: import "node:fs": this module runs without Node.js`),
  ]);
});

describe("broken by a line of engine/src/collection/a.ts", () => {
  const broken = (line: string) => breaches("engine/src/collection/a.ts", line);

  test.each([
    'import type { Hash } from "node:crypto";',
    'export { crc32 } from "zlib";',
    'export type Stats = import("node:fs").Stats;',
    'export const fs = await import("node:fs/promises");',
    'import { open } from "lmdb";',
    'import { LmdbStore } from "../storage/lmdb.ts";',
    'import type { Builders } from "../runtime/builders.ts";',
    'import { verifyCollection } from "./verify.ts";',
  ])("%s", (line) => {
    expect(broken(line)).toEqual([
      expect.stringMatching(/^packages\/engine\/src\/collection\/a\.ts:2: import "/),
    ]);
  });

  test.each([
    ["Buffer", "export const key = Buffer.from([1]);"],
    ["Buffer", "export let bytes: Buffer;"],
    ["Buffer", "export const Own = class extends Buffer {};"],
    ["NodeJS", "export let timer: NodeJS.Timeout | undefined;"],
    ["process", "export const { versions } = process;"],
    ["process", "export const options = { process };"],
    ["process", 'export const known = typeof process === "object";'],
    ["setImmediate", "setImmediate(() => {});"],
    ["clearImmediate", "export const stop = [clearImmediate];"],
    ["global", "global.a = 1;"],
    ["require", 'export const fs = require("fs");'],
    ["__dirname", "export const here = __dirname;"],
    ["process", "export const { pid } = globalThis.process;"],
    ["Buffer", 'export const Own = globalThis["Buffer"];'],
    ["import.meta.dirname", "export const here = import.meta.dirname;"],
  ])("%s in: %s", (name, line) => {
    expect(broken(line)).toEqual([
      `packages/engine/src/collection/a.ts:2: ${name}: only Node.js has it; ask the host (engine/src/base/host.ts)`,
    ]);
  });
});

describe("allowed", () => {
  test.each([
    ["engine/src/collection/a.ts", "export const of = (x: { process: number }) => x.process;"],
    ["engine/src/collection/a.ts", "export class A { process() {} static Buffer = 1; }"],
    ["engine/src/collection/a.ts", "// Buffer.from() and process.exit()"],
    ["engine/src/collection/a.ts", 'export const text = "process.exit()";'],
    ["engine/src/collection/a.ts", "export const here = new URL(import.meta.url);"],
    ["engine/src/collection/a.ts", 'import { QuiverError } from "@quiver/protocol/errors";'],
    ["engine/src/collection/a.ts", 'import type { View } from "../runtime/view.ts";'],
    ["engine/src/collection/verify.ts", 'import { LmdbFile } from "../storage/lmdb-file.ts";'],
    ["engine/src/collection/a.test.ts", 'import { tmpdir } from "node:os";'],
    ["engine/src/log/testing/a.ts", "process.exit();"],
    ["engine/src/storage/lmdb.ts", "export const key = Buffer.from([1]);"],
    ["engine/src/runtime/a.ts", 'import { open } from "node:fs";'],
    ["engine/src/backup/a.ts", 'import { open } from "node:fs";'],
    ["engine/src/database/a.ts", "process.exit();"],
    ["server/src/a.ts", 'import { open } from "node:fs";'],
  ])("%s: %s", (path, line) => {
    expect(breaches(path, line)).toEqual([]);
  });
});
