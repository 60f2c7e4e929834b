// Compiled in an empty project, with every supported compiler: with and without all flags that are stricter than `strict`, without
// `skipLibCheck`, without the types of Node.js.

import { connect, type Database, QuiverError, RawRecord, type SearchResponse, where } from "@quiverdb/client";
import { open, startServer } from "@quiverdb/database";

type Product = { color: "red" | "blue"; size: number; maker: { name: string } };

async function use(database: Database): Promise<SearchResponse> {
  const products = database.collection<Product>("products");
  const metadata: Product = { color: "red", size: 1, maker: { name: "x" } };
  await products.upsert([{ id: "a", dense_values: new Float32Array([1]), metadata }, new RawRecord("{}")]);
  // @ts-expect-error: there is no such field
  await products.count({ colour: "red" });
  // @ts-expect-error: a size is a number
  await products.count(products.where("size").eq("large"));
  await products.count({ "maker.name": { prefix: "x" } });
  // @ts-expect-error: the option is misspelt
  await products.search.dense({ query_vector: [1], topK: 3 });
  const filter = products.where("color").eq("red");
  const response = await products.search.dense({
    query_vector: [1],
    filter,
    top_k: 3,
    include: ["metadata"],
  });
  const score: number | undefined = response.results[0]?.score;
  const text: string | null | undefined = response.results[0]?.text;
  const stored: Product | null = (await products.get("a")).metadata;
  // @ts-expect-error: a product has no weight
  console.log(score?.toFixed(3), text, stored, response.results[0]?.metadata?.weight);
  const size: number | undefined = (await products.scroll({})).vectors[0]?.metadata?.size;
  console.log(size);
  const flat = await database.request("getTransactionStatus", {
    params: { collection_id: "products", transaction_id: "1" },
    query: { format: "flat" },
  });
  console.log(flat.status);
  await database.collection("any").count(where("n").gte(3));
  await using transaction = await products.transaction();
  await transaction.commit();
  return response;
}

/** @param apiKey undefined, as a variable of the environment may be: the same as none */
export async function main(apiKey: string | undefined): Promise<void> {
  await use(connect("http://127.0.0.1:8443", { apiKey, timeoutMs: 1_000 }));
  await using database = await open("./data", { memoryBudgetBytes: 2 ** 30 });
  await use(database);
  const server = await startServer({ dataDir: "./served", port: 0 });
  console.log(server.url);
  await server.close();
  try {
    await database.close();
  } catch (error) {
    if (error instanceof QuiverError) console.log(error.code, error.details);
  }
}
