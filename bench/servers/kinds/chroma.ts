// How does the benchmark use Chroma's server?

import { cpSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { type Metric, m, rival } from "../../engines/engine.ts";
import { startChild } from "../child.ts";
import { debianRoot, installDebian, rivalDirectory } from "../debian.ts";
import { efConstruction, type Row, type ServerKind } from "../server.ts";

const spaces: Readonly<Record<Metric, string>> = { cosine: "cosine", euclidean: "l2", dot_product: "ip" };

const modules = resolve(import.meta.dirname, "../../node_modules");
const binding = `chromadb-js-bindings-linux-${process.arch}-gnu`;
const packages = ["chromadb", binding, "semver"];
const inside = "/opt/chroma";

const versionIn = (name: string): string =>
  JSON.parse(readFileSync(join(modules, name, "package.json"), "utf8")).version;

/** Copies Chroma's packages and this Node.js into the root directory of the rivals. */
function install(): void {
  const root = join(debianRoot, inside);
  for (const name of packages)
    cpSync(join(modules, name), join(root, "node_modules", name), { recursive: true, force: true });
  cpSync(process.execPath, join(root, "node"), { force: true, dereference: true });
}

export const chroma: ServerKind = {
  name: "chroma",
  title: "Chroma",
  note: "`chroma run` of its npm package, whose binding brings the whole server; its process is one of Node.js. The beam is a setting of the collection that counts from the next start of the server on, so that the server is started again where it changes, between the measurements. The client is `chromadb`.",
  missing: installDebian,
  version: () => `Chroma's npm package ${versionIn("chromadb")}, binding ${versionIn(binding)}`,
  async start({ metric }) {
    const { ChromaClient } = rival("chromadb");
    install();
    const directory = rivalDirectory("chroma");
    const clientOf = (port: number) => new ChromaClient({ host: "127.0.0.1", port, ssl: false });
    const cli = `${inside}/node_modules/chromadb/dist/cli.mjs`;
    const run = ["run", "--path", directory.inside, "--host", "127.0.0.1", "--port"];
    const start = () =>
      startChild({
        command: (port) => [`${inside}/node`, cli, ...run, String(port)],
        ask: (port) => clientOf(port).heartbeat(),
        // It does not end on any other.
        signal: "SIGKILL",
      });
    const embeddingFunction = null;
    let child = await start();
    let collection = await clientOf(child.port).createCollection({
      name: "bench",
      embeddingFunction,
      configuration: {
        hnsw: { space: spaces[metric], ef_construction: efConstruction, max_neighbors: m },
      },
    });
    let efSearch: number | undefined;
    return {
      get pid() {
        return child.pid;
      },
      async add(rows: readonly Row[], first: number) {
        await collection.add({
          ids: rows.map((_, i) => String(first + i)),
          embeddings: rows.map(({ vector }) => Array.from(vector)),
          metadatas: rows.map(({ u }) => ({ u })),
        });
      },
      finish: async () => {},
      async prepare({ effort }) {
        if (effort === efSearch) return;
        await collection.modify({ configuration: { hnsw: { ef_search: effort } } });
        await child.end();
        child = await start();
        collection = await clientOf(child.port).getCollection({ name: "bench", embeddingFunction });
        efSearch = effort;
      },
      async search(_, query, nResults, { share }) {
        const where = share < 1 ? { u: { $lt: share } } : undefined;
        const queryEmbeddings = [Array.from(query)];
        const { ids } = await collection.query({ queryEmbeddings, nResults, where, include: [] });
        return ids[0];
      },
      diskBytes: directory.bytes,
      async end() {
        await child.end();
        directory.remove();
      },
    };
  },
};
