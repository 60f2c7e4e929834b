// Compiled in an empty project with the frameworks, with every supported compiler.

import type { Embeddings } from "@langchain/core/embeddings";
import type { BaseRetriever } from "@langchain/core/retrievers";
import type { BaseVectorStore } from "@llamaindex/core/vector-store";
import { type Database, type Embed, openAiEmbeddings, withEmbeddings } from "@quiverdb/client";
import { importFrom } from "@quiverdb/import";
import { QuiverVectorStore } from "@quiverdb/langchain";
import { QuiverVectorStore as NodeStore } from "@quiverdb/llamaindex";
import { createMcpServer, serveHttp } from "@quiverdb/mcp";

type Animal = { legs: number };

export async function retriever(database: Database, embeddings: Embeddings): Promise<BaseRetriever> {
  const store = await QuiverVectorStore.create<Animal>(embeddings, { database, collection: "animals" });
  await store.similaritySearch("bees", 3, { legs: { gt: 4 } });
  await store.similaritySearch("bees", 3, store.collection.where("legs").gt(4));
  // @ts-expect-error: there is no such field
  await store.similaritySearch("bees", 3, { wings: 2 });
  return store.asRetriever({ k: 3, filter: { legs: 6 }, searchType: "mmr" });
}

export const nodes = (database: Database): BaseVectorStore =>
  new NodeStore({ database, collection: "nodes" });

export async function tools(database: Database): Promise<void> {
  const embed: Embed = openAiEmbeddings({ url: "http://127.0.0.1:11434/v1", model: "small" });
  const own: Embed = async (texts: string[]): Promise<number[][]> => texts.map(({ length }) => [length]);
  const texts = withEmbeddings(database.collection<Animal>("animals"), own);
  await texts.search.hybrid({ query: "bees", filter: { legs: 6 } });
  // @ts-expect-error: legs are a number
  await texts.search.dense({ query: "bees", filter: { legs: "six" } });
  await importFrom("pgvector", "items.csv", texts, {
    columns: { text: "content" },
    types: { price: "number" },
  });
  const books = { url: "http://127.0.0.1:6333", collection: "books" };
  await importFrom("qdrant", books, { database, collection: "books" }, { text: "content", pageRecords: 100 });
  // @ts-expect-error: the source is of another format
  await importFrom("pgvector", books, texts);
  // @ts-expect-error: the option is of another format
  await importFrom("qdrant", "points.jsonl", texts.collection, { columns: {} });
  // @ts-expect-error: the option is misspelt
  await texts.search.dense({ query: "bees", topK: 3 });
  createMcpServer({ database, embed, write: true });
  await (await serveHttp({ database }, { port: 0 })).close();
}
