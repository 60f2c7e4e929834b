import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { afterEach, expect, test } from "vitest";
import { checkHosts } from "./hosts.ts";

const cache = resolve(import.meta.dirname, "../.cache");
const roots: string[] = [];
afterEach(() => {
  for (const root of roots.splice(0)) rmSync(root, { recursive: true, force: true });
});

/** The breaches of a project with these files, all of which must run without Node.js, except those under runtime/. */
function breaches(files: Record<string, string>): Promise<string[]> {
  mkdirSync(cache, { recursive: true });
  // Inside the project, so that its packages are found.
  const root = mkdtempSync(join(cache, "hosts-"));
  roots.push(root);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  const config = { extends: "../../tsconfig.portable.json", include: ["base/*.ts"], exclude: [] };
  writeFileSync(join(root, "tsconfig.json"), JSON.stringify(config));
  return checkHosts(root, "tsconfig.json");
}

const broken = [
  'import type { Hash } from "node:crypto"; export type H = Hash;',
  'export { crc32 } from "zlib";',
  'export type Stats = import("node:fs").Stats;',
  'export const fs = await import("node:fs/promises");',
  "export const key = Buffer.from([1]);",
  "export let bytes: Buffer;",
  "export let timer: NodeJS.Timeout | undefined;",
  "export const { versions } = process;",
  "export const options = { process };",
  "setImmediate(() => {});",
  'export const fs = require("fs");',
  "export const here = __dirname;",
  "export const { pid } = globalThis.process;",
  "export const here = import.meta.dirname;",
];

test("each use of Node.js is a breach, with its file and line", async () => {
  const files = broken.map((line, i) => [`base/file${i}.ts`, `// Question?\n${line}\n`]);
  const found = await breaches(Object.fromEntries(files));
  for (const [i, line] of broken.entries())
    expect([line, found.some((breach) => breach.includes(`base/file${i}.ts(2,`))]).toEqual([line, true]);
});

test("what is everywhere is none, nor is a word in a text, a comment or a property", async () => {
  const text = `// Buffer.from() and process.exit()
export const of = (x: { process: number }) => x.process;
export class A { process() {} static Buffer = 1; }
export const text = "process.exit()";
export const here = new URL(import.meta.url);
export const bytes = new TextEncoder().encode("a");
setTimeout(() => {}, 1);
`;
  expect(await breaches({ "base/a.ts": text })).toEqual([]);
});

test("an import of a file or a package that needs Node.js is a breach", async () => {
  const file = {
    "runtime/b.ts": 'import { readFileSync } from "node:fs";\nexport const b = readFileSync;\n',
  };
  expect(await breaches({ "base/a.ts": 'export { b } from "../runtime/b.ts";', ...file })).toEqual([
    expect.stringContaining("runtime/b.ts(1,"),
  ]);
  expect(await breaches({ "base/a.ts": 'export { open } from "lmdb";' })).toContainEqual(
    expect.stringContaining('"lmdb" is not among the packages that run without Node.js'),
  );
});
