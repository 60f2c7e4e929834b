// Texts are written and searched with an embedding, over both ways to a database.

import { expect, it } from "vitest";
import { overBothDatabases } from "../test/both-databases.ts";
import { embedWords, wordDimension } from "../test/word-embeddings.ts";
import { type Database, type Embed, isQuiverError, type RecordInput, withEmbeddings } from "./client.ts";

type Animal = { legs: number };

const animals: RecordInput<Animal>[] = [
  { id: "bee", text: "bees dance in the hive", metadata: { legs: 6 } },
  { id: "whale", text: "whales sing in the ocean", metadata: { legs: 0 } },
  { id: "spider", text: "spiders weave in the attic", metadata: { legs: 8 } },
];

let collections = 0;

async function textsIn(database: Database, embed: Embed, embedQuery?: Embed) {
  const collection = await database.createCollection<Animal>({
    name: `texts-${collections++}`,
    dense_vector: { enabled: true, dimension: wordDimension },
    tf_idf_options: { enabled: true },
    store_raw_text: true,
  });
  await collection.createDenseIndex({ distance_metric_type: "cosine" });
  await collection.createTextIndex();
  return withEmbeddings(collection, embed, { embedQuery });
}

const ids = ({ results }: { results: { id: string }[] }) => results.map(({ id }) => id);

overBothDatabases((database) => {
  it("texts get vectors, and are found by texts", async () => {
    const texts = await textsIn(database(), embedWords);
    expect(await texts.upsert(animals)).toEqual({ upserted: 3, requests: 1 });
    expect(ids(await texts.search.dense({ query: "who can dance", top_k: 1 }))).toEqual(["bee"]);
    const found = await texts.search.hybrid({
      query: "the ocean",
      top_k: 1,
      filter: { legs: { lt: 6 } },
      include: ["metadata"],
    });
    expect(found.results).toMatchObject([{ id: "whale", metadata: { legs: 0 } }]);
    expect(
      ids(await texts.search.dense({ query: "dance", filter: texts.collection.where("legs").gt(6) })),
    ).toEqual(["spider"]);
    // @ts-expect-error: there is no such field
    await texts.search.dense({ query: "dance", filter: { wings: 2 } });
    // @ts-expect-error: the vector is made of the query
    await expect(texts.search.dense({ query_vector: [1] })).rejects.toThrow("query is missing");
  });

  it("[J2] records keep a vector that they have, and need none without a text", async () => {
    const embedded: string[] = [];
    const texts = await textsIn(database(), (batch) => {
      embedded.push(...batch);
      return embedWords(batch);
    });
    const own = new Array(wordDimension).fill(0.5);
    await texts.upsert([
      { id: "own", text: "a text", dense_values: own },
      { id: "made", text: "another text" },
      { id: "bare", dense_values: own },
    ]);
    expect(embedded).toEqual(["another text"]);
    expect((await texts.collection.get("own")).dense_values?.[0]).toBe(0.5);
    await texts.upsert({ id: "one", text: "alone" });
    expect(await texts.collection.count()).toBe(4);
  });

  it("records are embedded in lots while they are written, and an error counts in the caller's records", async () => {
    const lots: number[] = [];
    const texts = await textsIn(database(), (batch) => {
      lots.push(batch.length);
      if (batch.includes("text 600")) throw new Error("no vector");
      return embedWords(batch);
    });
    async function* many(count: number): AsyncGenerator<RecordInput<Animal>> {
      for (let i = 0; i < count; i++) yield { id: `t${i}`, text: `text ${i}` };
    }
    const progress: number[] = [];
    const options = {
      batchRecords: 100,
      onProgress: ({ acknowledged }: { acknowledged: number }) => progress.push(acknowledged),
    };
    await expect(texts.upsert(many(700), options)).rejects.toThrow("no vector");
    expect(lots).toEqual([256, 256, 188]);
    expect(await texts.collection.count()).toBe(500);
    expect(progress.at(-1)).toBe(500);
    const wrong = [...animals, { id: "", text: "no id" }];
    const error = await texts.upsert(wrong).catch((thrown: unknown) => thrown);
    expect(isQuiverError(error, "invalid_vector") || isQuiverError(error, "invalid_request")).toBe(true);
    expect((error as Error).message).toMatch(/^vectors\[3\]/);
  });

  it("a transaction takes the records, and queries may have an embedding of their own", async () => {
    const queries: string[] = [];
    const texts = await textsIn(database(), embedWords, (batch) => {
      queries.push(...batch);
      return embedWords(batch);
    });
    {
      await using transaction = await texts.collection.transaction();
      await transaction.upsert(texts.records(animals));
      await transaction.commit();
    }
    expect(ids(await texts.search.dense({ query: "attic", top_k: 1 }))).toEqual(["spider"]);
    expect(queries).toEqual(["attic"]);
  });

  it("an embedding that fails, is too short or of another dimension is reported", async () => {
    const codeOf = async (embed: Embed) => {
      const texts = await textsIn(database(), embed);
      const error = await texts.upsert(animals).catch((thrown: unknown) => thrown);
      return isQuiverError(error) ? error.code : error;
    };
    expect(await codeOf(async () => [])).toBe("embedding_failed");
    expect(await codeOf(async (batch) => batch.map(() => [1, 2]))).toBe("invalid_vector");
  });
});
