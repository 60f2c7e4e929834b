// What LlamaIndex.TS expects of a vector store, over both ways to a database.

import { BaseEmbedding } from "@llamaindex/core/embeddings";
import { Document, IndexNode, NodeRelationship, TextNode } from "@llamaindex/core/schema";
import {
  type MetadataFilter,
  type VectorStoreQuery,
  VectorStoreQueryMode,
} from "@llamaindex/core/vector-store";
import { type Database, isQuiverError } from "@quiverdb/client";
import { expect, it } from "vitest";
import { overBothDatabases } from "../../client/test/both-databases.ts";
import { embedWords, wordDimension, wordVector } from "../../client/test/word-embeddings.ts";
import { QuiverVectorStore } from "./vector-store.ts";

class WordEmbedding extends BaseEmbedding {
  // biome-ignore lint/complexity/noUselessConstructor: that of the base class is protected.
  constructor() {
    super();
  }
  getTextEmbedding = async (text: string) => wordVector(text);
  override getTextEmbeddings = embedWords;
}

const embedModel = new WordEmbedding();
let collections = 0;

const storeIn = (database: Database) =>
  new QuiverVectorStore({ database, collection: `llamaindex-${collections++}`, embedModel });

function node(id_: string, text: string, metadata: Record<string, unknown>, source = "animals"): TextNode {
  const document = new Document({ id_: source, text: "" });
  const relationships = { [NodeRelationship.SOURCE]: document.asRelatedNodeInfo() };
  return new TextNode({ id_, text, metadata, relationships, embedding: wordVector(text) });
}

const nodes = () => [
  node(
    "bee",
    "bees dance in the hive",
    { legs: 6, tags: ["sting", "fly"], "home.is": "air", note: "" },
    "insects",
  ),
  node("whale", "whales sing in the ocean", { legs: 0, tags: ["swim"], "home.is": "sea", id: "w" }),
  node("spider", "spiders weave in the attic", { legs: 8, tags: ["sting"], note: "afraid of heights" }),
];

const queryOf = (text: string, more: Partial<VectorStoreQuery> = {}): VectorStoreQuery => ({
  queryStr: text,
  queryEmbedding: wordVector(text),
  similarityTopK: 3,
  mode: VectorStoreQueryMode.DEFAULT,
  ...more,
});

overBothDatabases((database) => {
  async function filled() {
    const store = storeIn(database());
    expect(await store.add(nodes())).toEqual(["bee", "whale", "spider"]);
    return store;
  }

  it("nodes come back as they were, the nearest first", async () => {
    const store = await filled();
    const {
      nodes: found = [],
      similarities,
      ids,
    } = await store.query(queryOf("who can dance", { similarityTopK: 2 }));
    expect(ids[0]).toBe("bee");
    expect(similarities[0]).toBeGreaterThan(similarities[1]);
    const [bee] = nodes();
    expect(found[0]).toBeInstanceOf(TextNode);
    expect({ ...found[0].toJSON(), embedding: undefined }).toEqual({ ...bee.toJSON(), embedding: undefined });
    expect(found[0].sourceNode?.nodeId).toBe("insects");
    expect(store.client().name).toMatch(/^llamaindex-/);
    expect(await store.add([])).toEqual([]);
  });

  it("nodes of other kinds, and records that something else has written, are nodes", async () => {
    const store = await filled();
    const text = "an index";
    await store.add([new IndexNode({ id_: "index", text, indexId: "other", embedding: wordVector(text) })]);
    await store
      .client()
      .upsert({ id: "plain", text: "zebras graze", dense_values: wordVector("zebras graze") });
    const [index] = (await store.query(queryOf(text, { similarityTopK: 1 }))).nodes ?? [];
    expect(index).toMatchObject({ id_: "index", text, indexId: "other" });
    const [plain] = (await store.query(queryOf("zebras", { similarityTopK: 1 }))).nodes ?? [];
    expect(plain).toMatchObject({ id_: "plain", text: "zebras graze", metadata: {} });
  });

  it("a hybrid query finds words that the vectors miss, as `alpha` weighs them; sparse finds words alone", async () => {
    const store = storeIn(database());
    const all = nodes();
    all[2].embedding = wordVector("nothing of this");
    await store.add(all);
    const query = (more: Partial<VectorStoreQuery>) => store.query(queryOf("weave dance hive", more));
    const { HYBRID, SPARSE } = VectorStoreQueryMode;
    expect((await query({ similarityTopK: 1 })).ids).toEqual(["bee"]);
    expect((await query({ mode: HYBRID, similarityTopK: 2 })).ids).toContain("spider");
    const onlyWords = await store.query(queryOf("weave", { mode: HYBRID, alpha: 0, similarityTopK: 1 }));
    expect(onlyWords.ids).toEqual(["spider"]);
    const onlyVectors = await query({ mode: HYBRID, alpha: 1, similarityTopK: 1 });
    expect(onlyVectors.ids).toEqual(["bee"]);
    expect((await store.query(queryOf("weave", { mode: SPARSE }))).ids).toEqual(["spider"]);
  });

  it("mmr leaves out what says the same", async () => {
    const store = storeIn(database());
    const texts = ["bees dance well", "bees dance well today", "bees sing"];
    await store.add(texts.map((text, i) => node(`n${i}`, text, {})));
    const { MMR: mode } = VectorStoreQueryMode;
    const idsAt = async (mmrThreshold?: number) =>
      (await store.query(queryOf("bees dance well", { mode, similarityTopK: 2, mmrThreshold }))).ids;
    expect(await idsAt(1)).toEqual(["n0", "n1"]);
    expect(await idsAt(0.2)).toEqual(["n0", "n2"]);
  });

  it("filters are translated, with all operators", async () => {
    const store = await filled();
    const idsOf = async (...filters: MetadataFilter[]) =>
      (await store.query(queryOf("the", { filters: { filters } }))).ids.sort();
    expect(await idsOf({ key: "legs", operator: "==", value: 6 })).toEqual(["bee"]);
    expect(await idsOf({ key: "legs", operator: "!=", value: 6 })).toEqual(["spider", "whale"]);
    expect(await idsOf({ key: "legs", operator: ">", value: 6 })).toEqual(["spider"]);
    expect(await idsOf({ key: "legs", operator: ">=", value: 6 })).toEqual(["bee", "spider"]);
    expect(await idsOf({ key: "legs", operator: "<", value: 6 })).toEqual(["whale"]);
    expect(await idsOf({ key: "legs", operator: "<=", value: 6 })).toEqual(["bee", "whale"]);
    expect(await idsOf({ key: "legs", operator: "in", value: [0, 8] })).toEqual(["spider", "whale"]);
    expect(await idsOf({ key: "legs", operator: "nin", value: [0, 8] })).toEqual(["bee"]);
    expect(await idsOf({ key: "tags", operator: "contains", value: "sting" })).toEqual(["bee", "spider"]);
    expect(await idsOf({ key: "tags", operator: "any", value: ["swim", "fly"] })).toEqual(["bee", "whale"]);
    expect(await idsOf({ key: "tags", operator: "all", value: ["sting", "fly"] })).toEqual(["bee"]);
    expect(await idsOf({ key: "note", operator: "text_match", value: "of hei" })).toEqual(["spider"]);
    expect(await idsOf({ key: "note", operator: "is_empty" })).toEqual(["bee", "whale"]);
    expect(await idsOf({ key: "home.is", operator: "==", value: "sea" })).toEqual(["whale"]);
    expect(await idsOf({ key: "id", operator: "==", value: "w" })).toEqual(["whale"]);
    const either: MetadataFilter[] = [
      { key: "legs", operator: "==", value: 0 },
      { key: "legs", operator: "==", value: 8 },
    ];
    expect(await idsOf(...either)).toEqual([]);
    const or = queryOf("the", { filters: { filters: either, condition: "or" } });
    expect((await store.query(or)).ids.sort()).toEqual(["spider", "whale"]);
    const docIds = ["animals"];
    expect((await store.query({ ...or, docIds })).ids.sort()).toEqual(["spider", "whale"]);
    expect((await store.query({ ...or, docIds: ["insects"] })).ids).toEqual([]);
    expect((await store.query(queryOf("the", { docIds: ["insects"] }))).ids).toEqual(["bee"]);
  });

  it("a document is deleted with all its nodes", async () => {
    const store = await filled();
    await store.delete("animals");
    expect((await store.query(queryOf("the"))).ids).toEqual(["bee"]);
    await store.delete("unknown");
    expect(await store.client().count()).toBe(1);
    const { dense_vector } = await store.client().describe();
    expect(dense_vector.dimension).toBe(wordDimension);
  });

  it("what cannot be asked is reported", async () => {
    const store = await filled();
    const codeOf = async (query: VectorStoreQuery) => {
      try {
        await store.query(query);
      } catch (error) {
        return isQuiverError(error) ? error.code : error;
      }
      return undefined;
    };
    expect(await codeOf(queryOf("x", { mode: VectorStoreQueryMode.SVM }))).toBe("invalid_request");
    expect(await codeOf(queryOf("x", { queryEmbedding: undefined }))).toBe("invalid_request");
    const hybrid = { mode: VectorStoreQueryMode.HYBRID, queryStr: undefined };
    expect(await codeOf(queryOf("x", hybrid))).toBe("invalid_request");
    const notAList: MetadataFilter = { key: "legs", operator: "in", value: 3 };
    expect(await codeOf(queryOf("x", { filters: { filters: [notAList] } }))).toBe("invalid_filter");
    const unknown = { key: "legs", operator: "~" } as never;
    expect(await codeOf(queryOf("x", { filters: { filters: [unknown] } }))).toBe("invalid_filter");
    await expect(() => store.add([new TextNode({ text: "no embedding" })])).rejects.toThrow(
      "Embedding not set",
    );
  });
});
