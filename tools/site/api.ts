// How does the reference of the published packages come about?
//
// From the declarations that `npm run pack` writes, for they are what a program sees: types that the workspace derives from schemas are
// written out there, with the schemas' descriptions. Everything that an entry exports must be documented; what is not, is an error.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Application, Comment, type DeclarationReflection, LogLevel, ReflectionKind } from "typedoc";
import type { Generated } from "./contents.ts";

const moreTypes = "More types";

/** The declarations of each package's entry, relative to the folder of its package. */
const entries: Readonly<Record<string, string>> = {
  "@quiverdb/client": "dist/client.d.ts",
  "@quiverdb/database": "dist/index.d.ts",
  "@quiverdb/import": "dist/import-from.d.ts",
  "@quiverdb/langchain": "dist/vector-store.d.ts",
  "@quiverdb/llamaindex": "dist/vector-store.d.ts",
  "@quiverdb/mcp": "dist/index.d.ts",
};

/**
 * @param root of the project
 * @param packages folder with the packages as they are published
 * @param pages folder of the pages
 * @returns the pages, and what is wrong with the documentation of what the entries export
 */
export async function writeApiReference(
  root: string,
  packages: string,
  pages: string,
): Promise<{ page: Generated; errors: string[] }> {
  const names = Object.keys(entries);
  const entryOf = (name: string) => join(packages, name, entries[name]);
  // The compiler finds the packages as they are published, not those of the workspace.
  const paths = Object.fromEntries(
    names.flatMap((name) => [
      [name, [entryOf(name)]],
      [`${name}/internal/*`, [join(packages, name, "dist/*.d.ts")]],
    ]),
  );
  const work = join(root, ".cache", "site", "typedoc");
  mkdirSync(work, { recursive: true });
  const tsconfig = join(work, "tsconfig.json");
  const compilerOptions = {
    target: "esnext",
    module: "nodenext",
    moduleResolution: "nodenext",
    lib: ["esnext", "dom"],
    types: ["node"],
    typeRoots: [join(root, "node_modules/@types")],
    strict: true,
    skipLibCheck: true,
    noEmit: true,
    paths,
  };
  writeFileSync(tsconfig, JSON.stringify({ compilerOptions, files: names.map(entryOf) }));
  const app = await Application.bootstrapWithPlugins({
    plugin: ["typedoc-plugin-markdown", "typedoc-plugin-missing-exports"],
    // Types that an entry does not export, and that a reader meets in those that it does.
    internalModule: moreTypes,
    entryPoints: names.map(entryOf),
    tsconfig,
    basePath: packages,
    readme: "none",
    outputs: [{ name: "markdown", path: join(pages, "api") }],
    name: "TypeScript",
    // What the database exports of the client is described there.
    excludeReferences: true,
    disableSources: true,
    disableGit: true,
    excludePrivate: true,
    excludeProtected: true,
    excludeInternal: true,
    excludeExternals: true,
    logLevel: LogLevel.Warn,
    sort: ["kind", "alphabetical"],
    validation: {
      notExported: false,
      invalidLink: true,
      rewrittenLink: true,
      notDocumented: true,
      unusedMergeModuleWith: true,
    },
    // Fields that say all in their name need no sentence; a constructor is described by its class.
    requiredToBeDocumented: ["Variable", "Function", "Class", "Interface", "Method", "Accessor", "TypeAlias"],
    ...markdownOptions,
  } as Record<string, unknown>);
  const faults = collectFaults(app);
  const project = await app.convert();
  if (project === undefined)
    return { page: overview(names), errors: ["typedoc made no reference", ...faults] };
  for (const module of project.children ?? []) introduce(module, names);
  app.validate(project);
  await app.generateOutputs(project);
  return { page: overview(names), errors: faults };
}

const overview = (names: readonly string[]): Generated => ({
  file: "api/index.md",
  text: "TypeScript",
  parts: names.map((name) => ({ file: `api/${name}/index.md`, text: name })),
});

/** One page for each package, and a table of fields for each type. */
const markdownOptions = {
  entryFileName: "index",
  fileExtension: ".md",
  hideBreadcrumbs: true,
  indexFormat: "table",
  hidePageHeader: true,
  useCodeBlocks: true,
  expandObjects: false,
  parametersFormat: "table",
  interfacePropertiesFormat: "table",
  classPropertiesFormat: "table",
  typeAliasPropertiesFormat: "table",
  typeDeclarationFormat: "table",
  propertyMembersFormat: "table",
  enumMembersFormat: "table",
  sanitizeComments: true,
};

/** A module has the name of its package, and leads to the page that says how to use it. */
function introduce(module: DeclarationReflection, names: readonly string[]): void {
  const name = names.find((each) => module.name.startsWith(each));
  if (!module.kindOf(ReflectionKind.Module) || name === undefined) return;
  module.name = name;
  const also =
    name === "@quiverdb/database"
      ? " It also exports everything of [@quiverdb/client](/api/@quiverdb/client/index.md)."
      : "";
  const text = `[How to use it](/packages/${name.replace("@quiverdb/", "")}.md).${also}`;
  module.comment = new Comment([{ kind: "text", text }]);
}

/** Keeps what typedoc warns of, which it would only print. */
function collectFaults(app: Application): string[] {
  const faults: string[] = [];
  const { logger } = app;
  // Types that no entry exports are there for those that are exported.
  const keep = (message: unknown) => {
    if (!String(message).includes(`.${moreTypes}.`)) faults.push(`api: ${String(message)}`);
  };
  logger.validationWarning = keep as never;
  logger.warn = keep as never;
  logger.error = keep as never;
  return faults;
}
