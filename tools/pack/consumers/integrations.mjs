// With the frameworks installed: node integrations.mjs DIR, or URL KEY

import { Document } from "@langchain/core/documents";
import { TextNode } from "@llamaindex/core/schema";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { connect, embedder, ensureTexts, memoryCache, withEmbeddings } from "@quiverdb/client";
import { importFrom } from "@quiverdb/import";
import { QuiverVectorStore } from "@quiverdb/langchain";
import { QuiverVectorStore as NodeStore } from "@quiverdb/llamaindex";

const [place, apiKey] = process.argv.slice(2);
const words = ["bees", "dance", "whales", "sing"];
const vectorOf = (text) => words.map((word) => (text.includes(word) ? 1 : 0.01));
const texts = { bee: "bees dance", whale: "whales sing" };

// Older versions of Node.js cannot load the database.
const isServer = place.startsWith("http");
const database = isServer
  ? connect(place, { apiKey })
  : await (await import("@quiverdb/database")).open(place);

const embeddings = {
  embedDocuments: async (all) => all.map(vectorOf),
  embedQuery: async (text) => vectorOf(text),
};
const documents = Object.entries(texts).map(([id, pageContent]) => new Document({ id, pageContent }));
const store = await QuiverVectorStore.fromDocuments(documents, embeddings, {
  database,
  collection: "documents",
});
const [{ id: document }] = await store.asRetriever(1).invoke("dance");

const nodes = new NodeStore({ database, collection: "nodes", embedModel: {} });
await nodes.add(
  Object.entries(texts).map(([id_, text]) => new TextNode({ id_, text, embedding: vectorOf(text) })),
);
const { ids } = await nodes.query({ queryEmbedding: vectorOf("sing"), similarityTopK: 1, mode: "default" });

const embed = embedder(async (all) => all.map(vectorOf), { cache: memoryCache() });
const collection = await ensureTexts(database, "texts", { dimension: words.length });
const embedded = withEmbeddings(collection, embed);
await embedded.upsert(Object.entries(texts).map(([id, text]) => ({ id, text })));
const { results } = await embedded.search.dense({ query: "bees", top_k: 1 });
const points = new Blob([JSON.stringify({ id: 1, payload: { text: "owls" }, vector: vectorOf("owls") })]);
const imported = await importFrom("qdrant", points, collection, { text: "text" });
// The clients of other databases are optional peers, and not installed here.
const missing = await importFrom("pgvector", { url: "postgres://127.0.0.1/", table: "t" }, collection).catch(
  ({ message }) => message,
);
if (!missing.endsWith("npm install pg")) throw new Error(missing);
await database.close();

const where = isServer ? ["--url", place, "--api-key", apiKey] : ["--data-dir", place];
const args = ["node_modules/@quiverdb/mcp/dist/main.js", ...where];
const client = new Client({ name: "consumer", version: "1" });
await client.connect(new StdioClientTransport({ command: process.execPath, args }));
const { tools } = await client.listTools();
const search = { name: "search", arguments: { collection: "texts", query_text: "whales" } };
const { structuredContent } = await client.callTool(search);
await client.close();

console.log(
  [
    `langchain ${document}`,
    `llamaindex ${ids[0]}`,
    `embeddings ${results[0].id}`,
    `import ${imported.records}`,
    `mcp ${tools.length} tools ${structuredContent.results[0].id}`,
  ].join(", "),
);
