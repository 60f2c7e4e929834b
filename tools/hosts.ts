// Does the engine know Node.js only where it may?
//
// The modules below run wherever JavaScript and WebAssembly do: in a browser as in Node.js. What they need of their program they get from
// a host (packages/engine/src/base/host.ts). So a file of theirs
//
//   - imports no module of Node.js, and no package that needs one;
//   - names no global of Node.js, as a value or as a type;
//   - imports only files of which the same is true.
//
// Every rule has a test in hosts.test.ts that breaks it.

import { readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { join, posix } from "node:path";
import { parseSync, Visitor } from "rolldown/utils";
import { importsOf } from "./floors.ts";
import { isTestFile, projectFiles } from "./project-files.ts";

/** Folders and files of the modules that run anywhere. */
const PORTABLE: readonly string[] = [
  "packages/protocol/src/",
  "packages/kernels/src/",
  "packages/engine/src/base/",
  "packages/engine/src/vector/",
  "packages/engine/src/text/",
  "packages/engine/src/index/",
  "packages/engine/src/collection/",
  "packages/engine/src/query/",
  "packages/engine/src/log/",
  "packages/engine/src/indexing/",
  "packages/engine/src/storage/store.ts",
  "packages/engine/src/storage/memory.ts",
  "packages/engine/src/runtime/view.ts",
];

/** Files among them that read the files of LMDB, which are in Node.js only. The others do not import them. */
const READS_LMDB: readonly string[] = [
  "packages/engine/src/collection/salvage.ts",
  "packages/engine/src/collection/verify.ts",
  "packages/engine/src/collection/verify-catalog.ts",
];

/** Packages that run anywhere. */
const PORTABLE_PACKAGES: readonly string[] = [
  "@noble/hashes",
  "@quiver/kernels",
  "@quiver/protocol",
  "fastest-levenshtein",
  "snowball-stemmers",
  "stopword",
  "typebox",
];

const NODE_GLOBALS: ReadonlySet<string> = new Set([
  "Buffer",
  "NodeJS",
  "__dirname",
  "__filename",
  "clearImmediate",
  "global",
  "process",
  "require",
  "setImmediate",
]);
/** Properties of `import.meta` that only Node.js has. */
const NODE_META: ReadonlySet<string> = new Set(["dirname", "filename"]);

const BUILTINS = new Set(builtinModules);

/** Every breach of the rules under `root`, as `file:line: what is wrong`, in the order of files and lines. */
export function checkHosts(root: string): string[] {
  return projectFiles(root)
    .filter((path) => path.endsWith(".ts") && !isTestFile(path) && isPortable(path))
    .flatMap((path) => {
      const source = readFileSync(join(root, path), "utf8");
      return [...brokenImports(path, source), ...nodeNames(path, source)]
        .sort((a, b) => a.line - b.line)
        .map(({ line, problem }) => `${path}:${line}: ${problem}`);
    });
}

type Breach = { line: number; problem: string };

const isPortable = (path: string): boolean =>
  PORTABLE.some((place) => (place.endsWith("/") ? path.startsWith(place) : path === place));

function brokenImports(path: string, source: string): Breach[] {
  return importsOf(path, source).flatMap(({ specifier, line }) => {
    const rule = brokenRule(path, specifier);
    return rule === undefined ? [] : [{ line, problem: `import "${specifier}": ${rule}` }];
  });
}

function brokenRule(path: string, specifier: string): string | undefined {
  if (specifier.startsWith("node:") || BUILTINS.has(specifier))
    return "this module runs without Node.js; ask the host (engine/src/base/host.ts)";
  if (!specifier.startsWith(".")) {
    const name = specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/");
    return PORTABLE_PACKAGES.includes(name)
      ? undefined
      : `"${name}" is not among the packages that run without Node.js (tools/hosts.ts)`;
  }
  const target = posix.join(posix.dirname(path), specifier);
  if (READS_LMDB.includes(path) || !target.startsWith("packages/engine/src/")) return undefined;
  return isPortable(target) && !READS_LMDB.includes(target)
    ? undefined
    : "this module runs without Node.js, and that file does not";
}

/** Where a source names a global of Node.js. A property of that name is something else. */
function nodeNames(path: string, source: string): Breach[] {
  const found = new Map<number, string>();
  const properties = new Set<number>();
  const property = (key: { start: number }, computed: boolean) => {
    if (!computed) properties.add(key.start);
  };
  const { program, errors } = parseSync(path, source);
  if (errors.length > 0) throw new Error(`${path}: ${errors[0].message}`);
  new Visitor({
    Identifier: (node) => {
      if (NODE_GLOBALS.has(node.name)) found.set(node.start, node.name);
    },
    MemberExpression: (node) => {
      const object = source.slice(node.object.start, node.object.end);
      const name = source.slice(node.property.start, node.property.end).replaceAll(/["'`]/g, "");
      if (object === "globalThis" && NODE_GLOBALS.has(name)) found.set(node.start, name);
      if (object === "import.meta" && NODE_META.has(name)) found.set(node.start, `import.meta.${name}`);
      property(node.property, node.computed);
    },
    Property: (node) => property(node.key, node.computed || node.shorthand),
    MethodDefinition: (node) => property(node.key, node.computed),
    PropertyDefinition: (node) => property(node.key, node.computed),
    TSPropertySignature: (node) => property(node.key, node.computed),
    TSMethodSignature: (node) => property(node.key, node.computed),
    TSQualifiedName: (node) => property(node.right, false),
  }).visit(program);
  return [...found]
    .filter(([start]) => !properties.has(start))
    .map(([start, name]) => ({
      line: source.slice(0, start).split("\n").length,
      problem: `${name}: only Node.js has it; ask the host (engine/src/base/host.ts)`,
    }));
}
