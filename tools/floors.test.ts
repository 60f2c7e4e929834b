import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { checkFloors, importsOf } from "./floors.ts";

const roots: string[] = [];

afterEach(() => {
  for (const root of roots.splice(0)) rmSync(root, { recursive: true });
});

/** A project with these files (paths under packages/), and a package.json for each package. */
function project(files: Record<string, string>): string {
  const root = mkdtempSync(join(tmpdir(), "quiver-floors-"));
  roots.push(root);
  const manifests = new Set(Object.keys(files).map((path) => `${path.split("/")[0]}/package.json`));
  const all = { ...Object.fromEntries([...manifests].map((path) => [path, "{}"])), ...files };
  for (const [path, text] of Object.entries(all)) {
    const full = join(root, "packages", path);
    mkdirSync(dirname(full), { recursive: true });
    writeFileSync(full, text);
  }
  return root;
}

/** The violations if `importer` consists of one import of `specifier` in its second line. */
function breaches(importer: string, specifier: string, more: Record<string, string> = {}): string[] {
  return checkFloors(project({ [importer]: `// Question?\nimport "${specifier}";\n`, ...more }));
}

describe("allowed", () => {
  test.each([
    ["engine/src/base/a.ts", "@quiverdb/protocol/errors"],
    ["engine/src/storage/a.ts", "../base/b.ts"],
    ["engine/src/vector/a.ts", "@quiverdb/kernels/load"],
    ["engine/src/index/dense/a.ts", "../../vector/b.ts"],
    ["engine/src/index/dense/a.ts", "../flat/b.ts"],
    ["engine/src/runtime/a.ts", "../index/b.ts"],
    ["engine/src/query/a.ts", "../runtime/b.ts"],
    ["engine/src/database/a.ts", "../indexing/b.ts"],
    ["server/src/a.ts", "@quiverdb/engine/database/open"],
    ["server/src/a.ts", "@quiverdb/protocol/errors"],
    ["client/src/a.ts", "@quiverdb/protocol/errors"],
    ["cli/src/a.ts", "@quiverdb/server/start"],
    ["cli/src/a.ts", "@quiverdb/client/client"],
    ["console/src/a.ts", "@quiverdb/protocol/errors"],
    ["engine/src/base/a.ts", "node:fs"],
    ["engine/src/base/a.ts", "../../package.json"],
    ["kernels/src/a.ts", "../dist/kernels.wasm"],
  ])("%s imports %s", (importer, specifier) => {
    expect(breaches(importer, specifier)).toEqual([]);
  });
});

describe("broken", () => {
  test.each([
    ["upwards", "engine/src/storage/a.ts", "../collection/b.ts", "imports go downwards"],
    ["upwards by half a floor", "engine/src/index/a.ts", "../runtime/b.ts", "imports go downwards"],
    [
      "the protocol into the engine",
      "protocol/src/a.ts",
      "@quiverdb/engine/base/b",
      "imports never go sideways",
    ],
    ["upwards into the server", "engine/src/database/a.ts", "@quiverdb/server/b", "imports go downwards"],
    ["sideways on floor 0", "kernels/src/a.ts", "@quiverdb/protocol/b", "imports never go sideways"],
    ["sideways on floor 1", "engine/src/vector/a.ts", "../text/b.ts", "imports never go sideways"],
    ["records to index", "engine/src/collection/a.ts", "../index/b.ts", "imports never go sideways"],
    ["pipeline to pipeline", "engine/src/query/a.ts", "../indexing/b.ts", "imports never go sideways"],
    ["client to server", "client/src/a.ts", "@quiverdb/server/b", "imports never go sideways"],
    ["server past the database", "server/src/a.ts", "@quiverdb/engine/query/b", "server sees only"],
    ["an index to the store", "engine/src/index/a.ts", "../storage/b.ts", "engine/index sees only"],
    ["client into the engine", "client/src/a.ts", "@quiverdb/engine/database/b", "client sees only"],
    ["cli into the engine", "cli/src/a.ts", "@quiverdb/engine/database/b", "cli sees only"],
    ["console into the server", "console/src/a.ts", "@quiverdb/server/b", "console sees only"],
    ["unknown module", "engine/src/query/a.ts", "../attic/b.ts", '"engine/attic" is not in the table'],
    ["unknown package", "cli/src/a.ts", "@quiverdb/attic/b", '"attic" is not in the table'],
    ["file in no module", "cli/src/a.ts", "@quiverdb/engine/open", '"engine" is not in the table'],
    ["undeclared package", "engine/src/base/a.ts", "lmdb/x", '"lmdb" is not among the dependencies'],
    ["undeclared scope", "engine/src/base/a.ts", "@a/b/c", '"@a/b" is not among the dependencies'],
    ["leaves its package", "engine/src/base/a.ts", "../../../protocol/src/b.ts", "stays in its package"],
    ["itself by name", "engine/src/query/a.ts", "@quiverdb/engine/base/b", "imports are relative"],
    ["imports a test", "engine/src/query/a.ts", "./b.test.ts", "only tests may import"],
    ["imports test parts", "engine/src/query/a.ts", "../base/testing/b.ts", "only tests may import"],
  ])("%s", (_name, importer, specifier, rule) => {
    const errors = breaches(importer, specifier);
    expect(errors).toHaveLength(1);
    expect(errors[0]).toMatch(`packages/${importer}:2: import "${specifier}": `);
    expect(errors[0]).toContain(rule);
  });

  test("a file whose module is not in the table", () => {
    expect(checkFloors(project({ "engine/src/attic/a.ts": "" }))).toEqual([
      'packages/engine/src/attic/a.ts:1: the module "engine/attic" is not in the table of tools/floors.ts; add it with its floor',
    ]);
  });
});

test("tests may import everything", () => {
  expect(breaches("engine/src/base/a.test.ts", "../query/b.ts")).toEqual([]);
  expect(breaches("engine/src/base/testing/a.ts", "fast-check")).toEqual([]);
});

test("a declared package may be imported", () => {
  const manifest = '{ "dependencies": { "lmdb": "3.5.6" } }';
  expect(breaches("engine/src/base/a.ts", "lmdb", { "engine/package.json": manifest })).toEqual([]);
});

test("every way to mention a module is an import", () => {
  const source = `import a from "a";
import type { B } from "b";
import "c";
export * from "d";
export type { E } from "e";
const f = await import("f");
type G = import("g").G;
new Worker(new URL("./h.ts", import.meta.url));
const no = 'import "x"'; // import "y"
const address = new URL("./z", base);
`;
  expect(importsOf("x.ts", source)).toEqual(
    ["a", "b", "c", "d", "e", "f", "g", "./h.ts"].map((specifier, i) => ({ specifier, line: i + 1 })),
  );
});

test("the name of a package alone is the main file that its exports name", () => {
  const withMain = { "client/package.json": '{ "exports": { ".": "./src/client.ts" } }' };
  expect(breaches("cli/src/a.ts", "@quiverdb/client", withMain)).toEqual([]);
  expect(breaches("server/src/a.ts", "@quiverdb/client", withMain)[0]).toMatch("imports never go sideways");
  expect(breaches("cli/src/a.ts", "@quiverdb/client")[0]).toMatch(
    '"@quiverdb/client" is not among the dependencies',
  );
});

describe("kinds of index", () => {
  const told = (path: string, text: string) => checkFloors(project({ [path]: `// Question?\n${text}\n` }));

  test.each([
    ["engine/src/query/a.ts", 'export const leg = "tf-idf";'],
    ["engine/src/database/a.ts", "export const is = (x: unknown) => x instanceof HnswIndex;"],
    ["engine/src/indexing/a.ts", "export const cast = (x: object) => x as unknown as string;"],
    ["engine/src/query/a.ts", "export const index = kinds.dense;"],
    ["engine/src/query/a.ts", 'export const leg = { kind: "sparse" };'],
    ["engine/src/query/a.ts", "export const target = (definitions: any) => definitions.dense?.index;"],
    ["engine/src/database/a.ts", "export function createDenseIndex() {}"],
    ["engine/src/collection/a.ts", "export type A = { definition: TextIndex };"],
  ])("%s names none: %s", (path, text) => {
    expect(told(path, text)).toEqual([expect.stringContaining(":2: names a kind of index")]);
  });

  test.each([
    ["engine/src/index/text/a.ts", 'export const name = "tf-idf";'],
    ["protocol/src/a.ts", 'export const name = "tf-idf";'],
    ["engine/src/query/a.ts", '// What "tf-idf" is.'],
    ["engine/src/query/a.test.ts", 'export const leg = "tf-idf";'],
  ])("%s may say %s", (path, text) => {
    expect(told(path, text)).toEqual([]);
  });

  test.each([
    ["engine/src/query/a.ts", "../index/fields/kind.ts"],
    ["engine/src/index/kind.ts", "./dense/kind.ts"],
    ["engine/src/runtime/a.ts", "../index/text/tasks.ts"],
  ])("%s does not import the kind's module %s", (path, specifier) => {
    expect(breaches(path, specifier)).toEqual([expect.stringContaining("import a kind's modules")]);
  });

  test.each([
    ["engine/src/index/registry.ts", "./dense/kind.ts"],
    ["engine/src/index/builder-tasks.ts", "./text/tasks.ts"],
    ["engine/src/index/fields/kind.ts", "../text/dictionary-reader.ts"],
    ["engine/src/query/a.ts", "../index/field-index.ts"],
    ["engine/src/query/a.test.ts", "../index/fields/kind.ts"],
  ])("%s may import %s", (path, specifier) => {
    expect(breaches(path, specifier)).toEqual([]);
  });
});
