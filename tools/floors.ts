// Do imports go downwards, and never sideways?
//
// A contributor who takes a short cut from an index to the disk learns it before the review, with the rule in words.
//
// The table below lists the modules and their floors (ARCHITECTURE.md draws them). An import is every mention of another module: `import`,
// `export from`, `import type`, `import("x")` as value or as type, and the file given to `new URL("./x.ts", import.meta.url)`, because
// worker threads are started that way. Circular imports inside a module are found by Biome (biome.json).
//
// Every rule has a test in floors.test.ts that violates it.

import { existsSync, readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { join, posix } from "node:path";
import { parseSync, Visitor } from "rolldown/utils";
import { isTestFile, projectFiles } from "./project-files.ts";

/** A module: its floor, and the lower modules that it may import (all of them if `sees` is absent). */
type Module = { floor: number; sees?: readonly string[] };

const modules: Readonly<Record<string, Module>> = {
  protocol: { floor: 0 },
  kernels: { floor: 0 },
  "engine/base": { floor: 0, sees: ["protocol"] },
  "engine/storage": { floor: 1 },
  "engine/vector": { floor: 1 },
  "engine/text": { floor: 1 },
  "engine/metadata": { floor: 1 },
  "engine/filter": { floor: 1.5, sees: ["engine/metadata", "engine/base", "protocol"] },
  "engine/collection": { floor: 2 },
  // Indexes are derived from the change log and do not access the disk, so losing one loses no data.
  "engine/index": {
    floor: 2,
    sees: [
      "engine/vector",
      "engine/text",
      "engine/metadata",
      "engine/filter",
      "engine/base",
      "protocol",
      "kernels",
    ],
  },
  "engine/log": { floor: 2.25, sees: ["engine/collection", "engine/storage", "engine/base", "protocol"] },
  "engine/views": {
    floor: 2.25,
    sees: ["engine/collection", "engine/index", "engine/storage", "engine/base", "protocol"],
  },
  "engine/process": { floor: 2.25 },
  "engine/runtime": { floor: 2.5 },
  "engine/query": { floor: 3 },
  "engine/indexing": { floor: 3 },
  "engine/database": { floor: 4 },
  "engine/operations": { floor: 4.5, sees: ["protocol", "engine/base", "engine/database"] },
  // Loaded only by a node of a cluster.
  cluster: { floor: 4.5, sees: ["protocol", "engine/database"] },
  server: { floor: 5, sees: ["protocol", "kernels", "engine/database", "engine/operations", "cluster"] },
  client: { floor: 5, sees: ["protocol"] },
  database: { floor: 5.5, sees: ["protocol", "client", "server", "engine/database", "engine/operations"] },
  cli: { floor: 6, sees: ["protocol", "client", "server", "database", "import", "cluster"] },
  console: { floor: 6, sees: ["protocol", "client"] },
  import: { floor: 5.5, sees: ["protocol", "client"] },
  // Integrations are published beside the client, so they use only what its entry exports.
  langchain: { floor: 6, sees: ["client"] },
  llamaindex: { floor: 6, sees: ["client"] },
  mcp: { floor: 6, sees: ["client", "database"] },
};

/** The only pair of modules on one floor in which one may import the other. */
const maySeeSideways: readonly string[] = ["engine/base -> protocol"];

/** A mention of a module. `line` counts from 1. */
export type ModuleImport = { specifier: string; line: number };

type SourceFile = {
  /** Relative to the project, with `/`. */
  path: string;
  /** The folder under packages/. */
  pkg: string;
  module: string;
  isTest: boolean;
  imports: readonly ModuleImport[];
};

const builtins = new Set(builtinModules);

/**
 * Code that names a kind of index, or casts around its types; allowed only in the folders of the kinds, the protocol, the registry and the
 * records of operations.
 */
const namedKind =
  /["']tf-idf["']|\bkinds\.(?:dense|sparse|text)\b|\bkind: ["'](?:dense|sparse)["']|\bdefinitions\.(?:dense|sparse)\b|\b(?:[cC]reate)?(?:Dense|Hnsw|Sparse|Text)(?:Index|Leg|Search)\b|\bas unknown as\b/;
/** Exceptions in which the match means something else, with the reason. */
const namedKindAllowed: Readonly<Record<string, string>> = {
  "packages/engine/src/storage/lmdb.ts": "a field of lmdb-js that its types do not have",
};

/** Modules of the contract of kinds that list kinds, and so import them. */
const listsOfKinds: readonly string[] = [
  "packages/engine/src/index/registry.ts",
  "packages/engine/src/index/builder-tasks.ts",
];

/** Every violation of the rules under `root`, as `file:line: import "x": rule`, in the order of files and lines. */
export function checkFloors(root: string): string[] {
  const files = projectFiles(root)
    .filter((path) => /^packages\/[^/]+\/src\/.*\.tsx?$/.test(path))
    .map((path) => readSource(root, path));
  return files.flatMap((file) => [
    ...checkModule(file),
    ...checkImports(root, file),
    ...checkKinds(root, file),
  ]);
}

/** All modules that a TypeScript source mentions, in the order of the text. Throws when the source does not parse. */
export function importsOf(path: string, source: string): ModuleImport[] {
  const { program, errors } = parseSync(path, source);
  if (errors.length > 0) throw new Error(`${path}: ${errors[0].message}`);
  const found: { specifier: string; start: number }[] = [];
  const add = (literal: { type: string; value?: unknown; start: number } | null) => {
    if (literal?.type === "Literal" && typeof literal.value === "string") {
      found.push({ specifier: literal.value, start: literal.start });
    }
  };
  new Visitor({
    ImportDeclaration: (node) => add(node.source),
    ExportAllDeclaration: (node) => add(node.source),
    ExportNamedDeclaration: (node) => add(node.source),
    ImportExpression: (node) => add(node.source),
    TSImportType: (node) => add(node.source),
    NewExpression: (node) => {
      const [target, base] = node.arguments;
      const isUrl = node.callee.type === "Identifier" && node.callee.name === "URL";
      if (isUrl && base !== undefined && source.slice(base.start, base.end) === "import.meta.url")
        add(target);
    },
  }).visit(program);
  return found
    .sort((a, b) => a.start - b.start)
    .map(({ specifier, start }) => ({ specifier, line: source.slice(0, start).split("\n").length }));
}

function readSource(root: string, path: string): SourceFile {
  const imports = importsOf(path, readFileSync(join(root, path), "utf8"));
  return { path, pkg: path.split("/")[1], module: moduleOf(path), isTest: isTestFile(path), imports };
}

/** The module of a file under packages/<pkg>/src: the package, or in the engine the first folder under src. */
function moduleOf(path: string): string {
  const [, pkg, , ...inside] = path.split("/");
  if (pkg !== "engine") return pkg;
  return inside.length > 1 ? `engine/${inside[0]}` : "engine";
}

function checkModule(file: SourceFile): string[] {
  if (file.isTest || file.module in modules) return [];
  return [
    `${file.path}:1: the module "${file.module}" is not in the table of tools/floors.ts; add it with its floor`,
  ];
}

/** The engine outside `index/` must not name a kind of index. */
function checkKinds(root: string, { path, module, isTest }: SourceFile): string[] {
  if (
    isTest ||
    !module.startsWith("engine") ||
    module === "engine/index" ||
    module === "engine/operations" ||
    path in namedKindAllowed
  )
    return [];
  return readFileSync(join(root, path), "utf8")
    .split("\n")
    .flatMap((line, i) =>
      namedKind.test(line) && !line.trimStart().startsWith("//")
        ? [
            `${path}:${i + 1}: names a kind of index, or casts around its types; use its object in index/registry.ts`,
          ]
        : [],
    );
}

function checkImports(root: string, file: SourceFile): string[] {
  if (file.isTest) return [];
  return file.imports.flatMap(({ specifier, line }) => {
    const rule = brokenRule(root, file, specifier);
    return rule === undefined ? [] : [`${file.path}:${line}: import "${specifier}": ${rule}`];
  });
}

/** The rule that this import violates, as text, or undefined. */
function brokenRule(root: string, file: SourceFile, specifier: string): string | undefined {
  const target = targetPath(root, file, specifier);
  if (target !== undefined && isOfKind(target) && !maySeeKinds(file))
    return "only a kind of index and index/registry.ts import a kind's modules; use its object in the registry";
  if (target === undefined) return undeclaredPackage(root, file, specifier);
  if (!target.startsWith(`packages/${file.pkg}/`) && isRelative(specifier)) {
    return "a relative import stays in its package; write @quiverdb/<package>/<path>";
  }
  if (!isRelative(specifier) && target.startsWith(`packages/${file.pkg}/`)) {
    return "inside a package, imports are relative";
  }
  if (isTestFile(target)) return "only tests may import test code";
  // A file outside src (package.json, the built kernels) belongs to the package and to no module.
  if (!target.startsWith(`packages/${target.split("/")[1]}/src/`)) return undefined;
  return brokenFloor(file.module, moduleOf(target));
}

function brokenFloor(from: string, to: string): string | undefined {
  if (from === to) return undefined;
  const lower = modules[to];
  const upper = modules[from];
  if (lower === undefined) return `the module "${to}" is not in the table of tools/floors.ts`;
  // If the file's own module is unknown, that is reported once for the file.
  if (upper === undefined) return undefined;
  if (lower.floor > upper.floor) {
    return `imports go downwards; ${from} is on floor ${upper.floor}, ${to} is above it on floor ${lower.floor}`;
  }
  if (lower.floor === upper.floor && !maySeeSideways.includes(`${from} -> ${to}`)) {
    return `imports never go sideways; ${from} and ${to} are both on floor ${upper.floor}`;
  }
  if (upper.sees !== undefined && !upper.sees.includes(to)) {
    return `${from} sees only ${upper.sees.join(", ")}, not ${to}`;
  }
  return undefined;
}

/** Whether a file is in the folder of a kind of index, and not in the contract of all. */
const isOfKind = (path: string): boolean => /^packages\/engine\/src\/index\/[^/]+\//.test(path);

const maySeeKinds = ({ path, pkg }: SourceFile): boolean =>
  pkg !== "engine" || isOfKind(path) || listsOfKinds.includes(path);

const isRelative = (specifier: string) => /^\.\.?(\/|$)/.test(specifier);

/** The project path that a relative or @quiverdb import names, or undefined for an external module. */
function targetPath(root: string, file: SourceFile, specifier: string): string | undefined {
  if (isRelative(specifier)) return posix.join(posix.dirname(file.path), specifier);
  const own = /^@quiverdb\/([^/]+)(?:\/(.+))?$/.exec(specifier);
  if (own === null) return undefined;
  const [, pkg, path] = own;
  return path === undefined ? mainOf(root, pkg) : `packages/${pkg}/src/${path}.ts`;
}

/** The file that `@quiverdb/<pkg>` names: the "." of its exports. */
function mainOf(root: string, pkg: string): string | undefined {
  const main = manifestOf(root, pkg)?.exports?.["."];
  return typeof main === "string" ? posix.join("packages", pkg, main) : undefined;
}

function manifestOf(root: string, pkg: string) {
  const path = join(root, "packages", pkg, "package.json");
  return existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : undefined;
}

function undeclaredPackage(root: string, file: SourceFile, specifier: string): string | undefined {
  if (specifier.startsWith("node:") || builtins.has(specifier)) return undefined;
  // `new URL("https://...")` has no second argument; a scheme here is an address, not a package.
  if (/^[a-z][a-z+.-]+:/.test(specifier)) return undefined;
  const [first, second] = specifier.split("/");
  const name = first.startsWith("@") ? `${first}/${second}` : first;
  const manifestPath = `packages/${file.pkg}/package.json`;
  const manifest = manifestOf(root, file.pkg);
  if (manifest === undefined) return `${manifestPath} does not exist`;
  const declared = {
    ...manifest.dependencies,
    ...manifest.optionalDependencies,
    ...manifest.peerDependencies,
  };
  return name in declared ? undefined : `"${name}" is not among the dependencies of ${manifestPath}`;
}
