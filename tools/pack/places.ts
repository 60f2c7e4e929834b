// In which published package, and in which file of it, is each module?
//
// A module is named by its source without `src`: `engine/query/plan` is packages/engine/src/query/plan.ts. The client has its own modules and
// those of the protocol that it or another package loads without the engine; the database has the engine, the kernels, the server and the rest
// of the protocol; the command line and the integrations have their own.

import { readFileSync } from "node:fs";
import { join, posix } from "node:path";
import ts from "typescript-6";

/** The folder of each published package under packages/. */
export const folders = {
  "@quiverdb/client": "client",
  "@quiverdb/database": "database",
  "@quiverdb/import": "import",
  "@quiverdb/langchain": "langchain",
  "@quiverdb/llamaindex": "llamaindex",
  "@quiverdb/mcp": "mcp",
  quiverdb: "cli",
} as const;

export type PackageName = keyof typeof folders;
export const packageNames = Object.keys(folders) as PackageName[];

/** The module that a published package is imported as; the command line cannot be imported. */
export const entries: Readonly<Partial<Record<PackageName, string>>> = {
  "@quiverdb/client": "client/client",
  "@quiverdb/database": "database/index",
  "@quiverdb/import": "import/import-from",
  "@quiverdb/langchain": "langchain/vector-store",
  "@quiverdb/llamaindex": "llamaindex/vector-store",
  "@quiverdb/mcp": "mcp/index",
};

/** The compiled file of a module. */
export const compiledFile = (compiled: string, module: string, extension: ".js" | ".d.ts"): string => {
  const [name, ...path] = module.split("/");
  return join(compiled, name, "src", `${path.join("/")}${extension}`);
};

/** The module that an import names; undefined for one that is not ours. @param from the importing module */
export function moduleOf(specifier: string, from: string): string | undefined {
  if (specifier.startsWith("."))
    return posix.join(posix.dirname(from), specifier).replace(/\.(js|ts|d\.ts)$/, "");
  if (Object.hasOwn(entries, specifier)) return entries[specifier as PackageName];
  const match = /^@quiverdb\/(\w+)\/(.+)$/.exec(specifier);
  return match === null ? undefined : `${match[1]}/${match[2]}`;
}

/** The imports of a file, with the positions of their specifiers, quotes not included. */
export function importsOf(text: string): readonly { specifier: string; start: number; end: number }[] {
  return ts.preProcessFile(text).importedFiles.map(({ fileName, pos }) => {
    // The compiler counts the opening quote or not, depending on the kind of the import.
    const start = text.indexOf(fileName, pos);
    return { specifier: fileName, start, end: start + fileName.length };
  });
}

/** All modules that some modules load, themselves included. @param enters whether to go on from a module that is loaded */
export function reachable(
  compiled: string,
  roots: readonly string[],
  extension: ".js" | ".d.ts" = ".js",
  enters: (module: string) => boolean = () => true,
): Set<string> {
  const found = new Set(roots);
  // A set that grows is iterated to its end.
  for (const module of found) {
    if (!enters(module)) continue;
    for (const { specifier } of importsOf(readFileSync(compiledFile(compiled, module, extension), "utf8"))) {
      const imported = moduleOf(specifier, module);
      if (imported !== undefined) found.add(imported);
    }
  }
  return found;
}

export class Places {
  /** The modules of the protocol that are in the client. */
  readonly #ofClient: ReadonlySet<string>;

  constructor(ofClient: ReadonlySet<string>) {
    this.#ofClient = ofClient;
  }

  packageOf(module: string): PackageName {
    const [folder] = module.split("/");
    if (this.#ofClient.has(module)) return "@quiverdb/client";
    return packageNames.find((name) => folders[name] === folder) ?? "@quiverdb/database";
  }

  /** Path in the package, without an extension: `dist/protocol/errors`. */
  pathOf(module: string): string {
    const prefix = `${folders[this.packageOf(module)]}/`;
    return `dist/${module.startsWith(prefix) ? module.slice(prefix.length) : module}`;
  }

  /** How a module of one package imports another module. */
  specifier(from: string, to: string): string {
    const owner = this.packageOf(to);
    if (owner === this.packageOf(from)) {
      const path = posix.relative(posix.dirname(this.pathOf(from)), this.pathOf(to));
      return `${path.startsWith(".") ? "" : "./"}${path}.js`;
    }
    if (entries[owner] === to) return owner;
    return `${owner}/internal/${this.pathOf(to).slice("dist/".length)}`;
  }
}
