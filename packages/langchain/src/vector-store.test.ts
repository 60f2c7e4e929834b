// What LangChain.js expects of a vector store, over both ways to a database.
//
// The registry has no package of LangChain.js' standard tests, so the cases of vector stores are written here: an empty store, adding with
// and without ids, replacing by id, deleting known and unknown ids, searches by text and by vector, filters, retrievers, and maximal
// marginal relevance.

import { Document } from "@langchain/core/documents";
import { Embeddings } from "@langchain/core/embeddings";
import { type Database, isQuiverError } from "@quiverdb/client";
import { expect, it } from "vitest";
import { overBothDatabases } from "../../client/test/both-databases.ts";
import { wordDimension, wordVector } from "../../client/test/word-embeddings.ts";
import { QuiverVectorStore, type QuiverVectorStoreConfig } from "./vector-store.ts";

class WordEmbeddings extends Embeddings {
  constructor() {
    super({});
  }
  embedDocuments = async (texts: string[]) => texts.map(wordVector);
  embedQuery = async (text: string) => wordVector(text);
}

type Animal = { legs: number; home: string };

const embeddings = new WordEmbeddings();
const animals = [
  new Document<Animal>({
    pageContent: "bees dance in the hive",
    metadata: { legs: 6, home: "air" },
    id: "bee",
  }),
  new Document<Animal>({
    pageContent: "whales sing in the ocean",
    metadata: { legs: 0, home: "sea" },
    id: "whale",
  }),
  new Document<Animal>({
    pageContent: "spiders weave in the attic",
    metadata: { legs: 8, home: "land" },
    id: "spider",
  }),
];

let collections = 0;
const configOf = (
  database: Database,
  more: Partial<QuiverVectorStoreConfig> = {},
): QuiverVectorStoreConfig => ({
  database,
  collection: `langchain-${collections++}`,
  ...more,
});
const ids = (documents: { id?: string }[]) => documents.map(({ id }) => id);

overBothDatabases((database) => {
  async function filled(more?: Partial<QuiverVectorStoreConfig>) {
    const store = await QuiverVectorStore.create<Animal>(embeddings, configOf(database(), more));
    await store.addDocuments(animals);
    return store;
  }

  it("an empty store finds nothing", async () => {
    const store = await QuiverVectorStore.create(embeddings, configOf(database()));
    expect(await store.similaritySearch("anything", 1)).toEqual([]);
    expect(await store.maxMarginalRelevanceSearch("anything", { k: 1 })).toEqual([]);
    expect(await store.addDocuments([])).toEqual([]);
    const { dense_vector } = await store.collection.describe();
    expect(dense_vector.dimension).toBe(wordDimension);
  });

  it("documents come back with their id, content and metadata", async () => {
    const store = await filled();
    const found = await store.similaritySearch("who can dance", 1);
    expect(found).toEqual([animals[0]]);
    expect(found[0]).toBeInstanceOf(Document);
  });

  it("ids are those of the call, of the documents, or random", async () => {
    const config = configOf(database());
    const store = new QuiverVectorStore(embeddings, config);
    const documents = [new Document({ pageContent: "one" }), new Document({ pageContent: "two", id: "own" })];
    const made = await store.addDocuments(documents);
    expect(made[1]).toBe("own");
    expect(made[0]).toMatch(/^[0-9a-f-]{36}$/);
    expect(await store.addDocuments(documents, { ids: ["a", "b"] })).toEqual(["a", "b"]);
    expect(await store.collection.count()).toBe(4);
    expect((await store.similaritySearch("one", 1))[0].metadata).toEqual({});
  });

  it("adding a document again replaces it", async () => {
    const store = await filled();
    await store.addDocuments([new Document({ ...animals[0], pageContent: "bees make honey" })]);
    expect(await store.collection.count()).toBe(3);
    expect((await store.similaritySearch("honey", 1))[0]).toMatchObject({
      id: "bee",
      pageContent: "bees make honey",
    });
  });

  it("documents are deleted by ids, of which some may be unknown, and by a filter", async () => {
    const store = await filled();
    await store.delete({ ids: ["bee", "unicorn"] });
    expect(await store.collection.count()).toBe(2);
    await store.delete({ filter: { legs: { gt: 0 } } });
    expect(ids(await store.similaritySearch("in the", 4))).toEqual(["whale"]);
    await store.delete({ ids: [] });
    expect(await store.collection.count()).toBe(1);
    for (const params of [undefined, {}, { ids: ["whale"], filter: { legs: 0 } }]) {
      const error = await store.delete(params as never).catch((thrown: unknown) => thrown);
      expect(isQuiverError(error, "invalid_request")).toBe(true);
    }
    expect(await store.collection.count()).toBe(1);
  });

  it("searches by text and by vector agree, scores fall, and `k` limits them", async () => {
    const store = await filled();
    const byText = await store.similaritySearchWithScore("dance in the hive", 2);
    const byVector = await store.similaritySearchVectorWithScore(wordVector("dance in the hive"), 2);
    expect(byText).toEqual(byVector);
    expect(byText.map(([{ id }]) => id)[0]).toBe("bee");
    expect(byText).toHaveLength(2);
    expect(byText[0][1]).toBeGreaterThan(byText[1][1]);
    expect(byText[0][1]).toBeCloseTo(
      wordVector(animals[0].pageContent).reduce(
        (sum, value, i) => sum + value * wordVector("dance in the hive")[i],
        0,
      ),
      5,
    );
  });

  it("filters are those of Quiver, with the types of the metadata", async () => {
    const store = await filled();
    expect(ids(await store.similaritySearch("dance", 4, { legs: { gte: 8 } }))).toEqual(["spider"]);
    expect(ids(await store.similaritySearch("dance", 4, store.collection.where("home").in(["sea"])))).toEqual(
      ["whale"],
    );
    expect(
      ids(await store.similaritySearch("dance", 4, { and: [{ home: "air" }, { not: { legs: 8 } }] })),
    ).toEqual(["bee"]);
    // @ts-expect-error: there is no such field
    expect(await store.similaritySearch("dance", 4, { wings: 2 })).toEqual([]);
  });

  it("a hybrid search finds words that the vectors miss", async () => {
    const config = configOf(database(), { mode: "hybrid" });
    const store = await QuiverVectorStore.create(embeddings, config);
    // The vector of the best text says nothing about it.
    const vectors = animals.map(({ pageContent }, i) =>
      wordVector(i === 2 ? "nothing of this" : pageContent),
    );
    await store.addVectors(vectors, animals);
    const dense = await QuiverVectorStore.fromExistingCollection(embeddings, { ...config, mode: "dense" });
    const weighed = await QuiverVectorStore.fromExistingCollection(embeddings, {
      ...config,
      fusionWeights: { dense: 0, text: 1 },
    });
    const query = "weave dance hive";
    expect(ids(await dense.similaritySearch(query, 1))).toEqual(["bee"]);
    expect(ids(await store.similaritySearch(query, 2))).toContain("spider");
    expect(ids(await weighed.similaritySearch("weave", 1))).toEqual(["spider"]);
    expect(ids(await store.similaritySearch(query, 3, { legs: 8 }))).toEqual(["spider"]);
    expect(ids(await store.asRetriever(1, { legs: 8 }).invoke("weave"))).toEqual(["spider"]);
  });

  it("maximal marginal relevance leaves out what says the same", async () => {
    const same = ["bees dance well", "bees dance well today", "bees sing"];
    const store = await QuiverVectorStore.fromTexts(
      same,
      same.map((_, n) => ({ n })),
      embeddings,
      configOf(database()),
    );
    const texts = (documents: { pageContent: string }[]) => documents.map(({ pageContent }) => pageContent);
    const query = "bees dance well";
    expect(texts(await store.maxMarginalRelevanceSearch(query, { k: 2, lambda: 1 }))).toEqual(
      same.slice(0, 2),
    );
    expect(texts(await store.maxMarginalRelevanceSearch(query, { k: 2, lambda: 0.2 }))).toEqual([
      same[0],
      same[2],
    ]);
    // The third is not among the candidates.
    expect(texts(await store.maxMarginalRelevanceSearch(query, { k: 2, fetchK: 2, lambda: 0.2 }))).toEqual(
      same.slice(0, 2),
    );
    expect(
      texts(await store.maxMarginalRelevanceSearch(query, { k: 2, lambda: 0.2, filter: { n: { gt: 0 } } })),
    ).toEqual(same.slice(1));
    const retriever = store.asRetriever({
      searchType: "mmr",
      k: 2,
      searchKwargs: { fetchK: 3, lambda: 0.2 },
    });
    expect(texts(await retriever.invoke(query))).toEqual([same[0], same[2]]);
  });

  it("texts take one metadata for all, or one each; retrievers add documents", async () => {
    const config = configOf(database());
    const store = await QuiverVectorStore.fromTexts(["a b", "c d"], { source: "test" }, embeddings, config);
    expect((await store.similaritySearch("a", 1))[0].metadata).toEqual({ source: "test" });
    await store.asRetriever().addDocuments([new Document({ pageContent: "e f" })]);
    expect(await store.collection.count()).toBe(3);
    const uneven = QuiverVectorStore.fromTexts(["a"], [{}, {}], embeddings, config);
    await expect(uneven).rejects.toThrow("2 metadatas");
    await expect(store.addVectors([], [animals[0]])).rejects.toThrow("0 vectors for 1 documents");
    await expect(store.addDocuments(animals, { ids: ["a"] })).rejects.toThrow("1 ids");
  });

  it("an existing collection must be able to hold documents", async () => {
    const config = configOf(database());
    const codeOf = async () => {
      const error = await QuiverVectorStore.fromExistingCollection(embeddings, config).catch(
        (thrown) => thrown,
      );
      return isQuiverError(error) ? error.code : undefined;
    };
    expect(await codeOf()).toBe("collection_not_found");
    await database().createCollection({ name: config.collection, tf_idf_options: { enabled: true } });
    expect(await codeOf()).toBe("modality_not_enabled");
    const { collection } = await filled();
    const again = await QuiverVectorStore.fromExistingCollection(embeddings, {
      ...config,
      collection: collection.name,
    });
    expect(ids(await again.similaritySearch("sing", 1))).toEqual(["whale"]);
  });

  it("many stores may create one collection at once", async () => {
    const config = configOf(database());
    const stores = Array.from({ length: 4 }, () => new QuiverVectorStore(embeddings, config));
    await Promise.all(
      stores.map((store, i) => store.addDocuments([new Document({ pageContent: `text ${i}` })])),
    );
    expect(await stores[0].collection.count()).toBe(4);
    expect(ids(await stores[3].similaritySearch("text", 4))).toHaveLength(4);
  });
});
