// What is in the package.json of a published package?

import { readFileSync } from "node:fs";
import { isBuiltin } from "node:module";
import { join } from "node:path";
import { folders, importsOf, type PackageName } from "./places.ts";

type Manifest = Readonly<Record<string, unknown>>;

/** The address of the repository: fill it in here before the first publication. */
const repository: string | undefined = undefined;

const internal = { "./internal/*": { types: "./dist/*.d.ts", default: "./dist/*.js" } };

/** What differs between the packages. */
const own: Readonly<Record<PackageName, Manifest>> = {
  "@quiverdb/client": {
    description:
      "A typed client of the vector database Quiver: Node.js, browsers, Deno and Bun, without dependencies.",
    keywords: ["vector", "database", "search", "embeddings", "bm25", "hybrid", "quiver"],
    engines: { node: ">=20" },
    sideEffects: false,
    exports: { ".": { types: "./dist/client.d.ts", default: "./dist/client.js" }, ...internal },
  },
  "@quiverdb/database": {
    description:
      "The vector database Quiver in your process, and its server: dense, sparse, full-text and hybrid search.",
    keywords: ["vector", "database", "search", "embeddings", "bm25", "hnsw", "hybrid", "embedded", "quiver"],
    engines: { node: ">=24" },
    exports: { ".": { types: "./dist/index.d.ts", default: "./dist/index.js" }, ...internal },
  },
  "@quiverdb/import": {
    description:
      "Imports from Chroma, Qdrant, Pinecone and pgvector, exports or running servers, into the vector database Quiver.",
    keywords: [
      "vector",
      "database",
      "import",
      "migration",
      "chroma",
      "qdrant",
      "pinecone",
      "pgvector",
      "quiver",
    ],
    engines: { node: ">=20" },
    sideEffects: false,
    exports: { ".": { types: "./dist/import-from.d.ts", default: "./dist/import-from.js" } },
  },
  "@quiverdb/langchain": {
    description:
      "The vector database Quiver as a vector store of LangChain.js: hybrid retrieval, filters, MMR.",
    keywords: ["vector", "database", "langchain", "rag", "retriever", "hybrid", "quiver"],
    engines: { node: ">=20" },
    sideEffects: false,
    exports: { ".": { types: "./dist/vector-store.d.ts", default: "./dist/vector-store.js" } },
  },
  "@quiverdb/llamaindex": {
    description:
      "The vector database Quiver as a vector store of LlamaIndex.TS: hybrid and MMR queries, filters.",
    keywords: ["vector", "database", "llamaindex", "rag", "retriever", "hybrid", "quiver"],
    engines: { node: ">=20" },
    sideEffects: false,
    exports: { ".": { types: "./dist/vector-store.d.ts", default: "./dist/vector-store.js" } },
  },
  "@quiverdb/mcp": {
    description:
      "The vector database Quiver as tools of the Model Context Protocol: `npx @quiverdb/mcp`, read-only by default.",
    keywords: ["vector", "database", "mcp", "model context protocol", "search", "quiver"],
    engines: { node: ">=20" },
    bin: { "quiver-mcp": "dist/main.js" },
    exports: { ".": { types: "./dist/index.d.ts", default: "./dist/index.js" } },
  },
  quiverdb: {
    description: "The command line of the vector database Quiver: `npx quiverdb serve` runs the server.",
    keywords: ["vector", "database", "search", "server", "cli", "quiver"],
    // The first with the checksums of backups (CRC-32).
    engines: { node: ">=20.15.0" },
    bin: { quiver: "dist/main.js" },
  },
};

/** What a package loads only where it is needed: npm leaves it out, without a warning, on versions of Node.js that are too old for it. */
const optional: Readonly<Partial<Record<PackageName, readonly PackageName[]>>> = {
  "@quiverdb/mcp": ["@quiverdb/database"],
};

/** @param files texts of all its modules: their imports are its dependencies */
export function manifestOf(name: PackageName, root: string, files: readonly string[]): Manifest {
  const read = (path: string) => JSON.parse(readFileSync(join(root, path), "utf8"));
  const { version, license } = read("package.json") as { version: string; license: string };
  const versions: Record<string, string> = Object.assign(
    {},
    ...["protocol", "engine", "cluster", "server", "import", "mcp", "cli"].map(
      (folder) => read(`packages/${folder}/package.json`).dependencies,
    ),
  );
  const { peerDependencies, peerDependenciesMeta } = read(`packages/${folders[name]}/package.json`);
  const dependencies: Record<string, string> = {};
  for (const { specifier } of files.flatMap(importsOf)) {
    if (specifier.startsWith(".") || isBuiltin(specifier)) continue;
    const dependency = /^(@[^/]+\/)?[^/]+/.exec(specifier)?.[0] ?? specifier;
    if (dependency === name || dependency in (peerDependencies ?? {})) continue;
    const wanted = dependency.startsWith("@quiverdb/") ? version : versions[dependency];
    if (wanted === undefined)
      throw new Error(`${name} imports ${specifier}, which no package of the workspace depends on`);
    dependencies[dependency] = wanted;
  }
  const isOptional = (dependency: string) => optional[name]?.includes(dependency as PackageName) ?? false;
  const versionsOf = (isWanted: (dependency: string) => boolean) => {
    const wanted = Object.entries(dependencies).filter(([dependency]) => isWanted(dependency));
    return wanted.length === 0
      ? undefined
      : Object.fromEntries(wanted.toSorted(([a], [b]) => (a < b ? -1 : 1)));
  };
  return {
    name,
    version,
    license,
    type: "module",
    ...own[name],
    files: ["dist"],
    // npm publishes a package with a scope only to who pays, unless it is told to publish to all.
    publishConfig: { access: "public" },
    homepage: repository && `${repository}#readme`,
    repository: repository && {
      type: "git",
      url: `git+${repository}.git`,
      directory: `packages/${folders[name]}`,
    },
    // Without a value, JSON has no such key.
    dependencies: versionsOf((dependency) => !isOptional(dependency)),
    optionalDependencies: versionsOf(isOptional),
    peerDependencies,
    peerDependenciesMeta,
  };
}
