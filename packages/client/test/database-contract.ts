// What holds for a database, wherever it is?
//
// One suite over both ways to a database: through a server (client/src/client.test.ts) and in the same process
// (database/src/embedded.test.ts).

import type { Filter } from "@quiverdb/protocol/shapes/filter";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Database, isQuiverError, QuiverError, RawRecord, type RecordInput } from "../src/client.ts";

/** Records with a vector of two numbers, a sparse vector, and a text. */
export const animals: RecordInput[] = [
  {
    id: "bee",
    document_id: "insects",
    dense_values: [1, 0],
    sparse_indices: [7],
    sparse_values: [2],
    text: "Bees dance.",
    metadata: { legs: 6 },
  },
  {
    id: "ant",
    document_id: "insects",
    dense_values: new Float32Array([0.8, 0.6]),
    sparse_values: [[7, 1]],
    text: "Ants walk.",
  },
  {
    id: "whale",
    document_id: "mammals",
    dense_values: [0, 1],
    sparse_values: [[9, 3]],
    text: "Whales sing.",
  },
];

/** Code and status of the error that a call throws; undefined if it throws none. */
export const codeOf = async (promise: Promise<unknown>): Promise<[string, number] | undefined> => {
  const error = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  return error instanceof QuiverError ? [error.code, error.status] : undefined;
};

let collections = 0;

/** A collection of all kinds, with indexes unless `indexes` is false. */
export async function makeCollectionIn(
  database: Database,
  options: { indexes?: boolean; records?: readonly RecordInput[] } = {},
) {
  const collection = await database.createCollection({
    name: `c${collections++} ü/?`.replaceAll(/[/?]/g, "_"),
    description: "a test",
    dense_vector: { enabled: true, dimension: 2 },
    sparse_vector: { enabled: true },
    tf_idf_options: { enabled: true },
    store_raw_text: true,
  });
  if (options.indexes ?? true) {
    await collection.createDenseIndex({ distance_metric_type: "cosine" });
    await collection.createSparseIndex();
    await collection.createTextIndex();
  }
  if (options.records) await collection.upsert(options.records);
  return collection;
}

/** The tests. @param open called once, before them; @param close after them */
export function databaseContract(open: () => Promise<Database>, close: () => Promise<void>): void {
  let database: Database;
  beforeAll(async () => {
    database = await open();
  });
  afterAll(close);
  const makeCollection = (options?: Parameters<typeof makeCollectionIn>[1]) =>
    makeCollectionIn(database, options);

  describe("collections", () => {
    it("are created, listed, described, loaded, unloaded and dropped", async () => {
      const collection = await makeCollection();
      expect(await database.listCollections()).toContainEqual({
        name: collection.name,
        description: "a test",
      });
      expect(await database.loadedCollections()).toContain(collection.name);
      expect(await collection.check()).toMatchObject({ findings: [], findings_total: 0 });
      expect(await collection.unload()).toContain("successfully unloaded");
      expect(await database.loadedCollections()).not.toContain(collection.name);
      expect((await collection.load()).loaded).toBe(true);
      expect(await database.getCollection(collection.name)).toMatchObject({
        name: collection.name,
        vectors_count: 0,
      });
      await database.deleteCollection(collection.name);
      expect(await codeOf(collection.describe())).toEqual(["collection_not_found", 404]);
      expect(await codeOf(collection.drop())).toEqual(["collection_not_found", 400]);
    });

    it("need only the kinds that they contain", async () => {
      const collection = await database.createCollection({
        name: "text-only",
        tf_idf_options: { enabled: true },
      });
      expect(await collection.describe()).toMatchObject({
        dense_vector: { enabled: false },
        sparse_vector: { enabled: false },
        tf_idf_options: { enabled: true },
      });
      const again = database.createCollection({ name: "text-only", tf_idf_options: { enabled: true } });
      await expect(again).rejects.toThrow("already exists");
    });
  });

  it("records are selected by filters: searched, counted, listed, changed and deleted", async () => {
    const collection = await makeCollection({ records: animals });
    await collection.createMetadataIndex("legs", "number");
    await collection.createMetadataIndex("kept", "boolean");
    await collection.deleteMetadataIndex("kept");
    await collection.waitForIndex({ timeoutMs: 10_000 });
    expect(await collection.metadataIndexes()).toMatchObject([{ field: "legs", type: "number" }]);
    await collection.patch("ant", { legs: 6, kind: "ant" });
    expect(await collection.count({ legs: { gte: 6 } })).toBe(2);
    const { where } = collection;
    const made = where("legs").gte(6).and(where("kind").eq("ant"));
    expect(await collection.count(made)).toBe(1);
    expect(await collection.count({ not: made } as never)).toBe(2);
    const insect = { vector: [1, 0], filter: made };
    const [single] = await collection.search.batchDense({ queries: [insect as never] });
    expect(single.results).toMatchObject([{ id: "ant" }]);
    expect(await codeOf(collection.count({ legs: { lt: Number.NaN } }))).toEqual(["invalid_request", 400]);
    // A condition that JSON would leave out must not become a filter that matches more.
    const leftOut = [
      { kind: undefined },
      { legs: 6, kind: undefined },
      { legs: { gte: 1, lt: undefined } },
      { not: undefined },
    ];
    const strange = [{ kind: () => 1 }, { kind: Symbol() }, { legs: 6n }, { kind: new Map() }];
    for (const filter of [...leftOut, ...strange] as never[]) {
      expect(await codeOf(collection.deleteMatching(filter))).toEqual(["invalid_filter", 400]);
      expect(await codeOf(collection.search.text({ query: "x", filter }))).toEqual(["invalid_filter", 400]);
      expect(await codeOf(collection.neighbors("ant", { filter }))).toEqual(["invalid_filter", 400]);
      expect(await codeOf(collection.export({ filter }).count())).toEqual(["invalid_filter", 400]);
    }
    expect(await collection.count()).toBe(3);
    expect(await codeOf(collection.patch("ant", { legs: Number.NaN }))).toEqual(["invalid_request", 400]);
    const ring: Record<string, unknown> = {};
    ring.next = [ring];
    for (const [patch, path] of [
      [{ legs: [1, 6n] }, "metadata.legs[1]"],
      [{ ring }, "metadata.ring.next[0]"],
    ] as const)
      for (const patching of [
        collection.patch("ant", patch as never),
        collection.updateMatching({ kind: "ant" }, patch as never),
      ])
        await expect(patching).rejects.toMatchObject({ code: "invalid_request", details: { path } });
    expect(await collection.count()).toBe(3);
    expect(await collection.facet({ field: "legs" })).toEqual([{ value: 6, count: 2 }]);
    expect(await collection.facet({ fields: ["legs", "kind", "none"], filter: { legs: 6 } })).toEqual({
      legs: [{ value: 6, count: 2 }],
      kind: [{ value: "ant", count: 1 }],
      none: [],
    });
    const { vectors, next_cursor } = await collection.scroll({
      order_by: { field: "legs" },
      limit: 1,
      include: [],
    });
    expect(vectors).toEqual([{ id: "ant", document_id: "insects" }]);
    expect(
      (await collection.scroll({ order_by: { field: "legs" }, cursor: next_cursor })).vectors,
    ).toMatchObject([{ id: "bee", metadata: { legs: 6 } }]);
    expect(await collection.fetch({ ids: ["whale", "gnu"], include: ["text"] })).toEqual([
      { id: "whale", document_id: "mammals", text: "Whales sing." },
      null,
    ]);
    const filter: Filter = { legs: { exists: false } };
    const found = await collection.search.dense({ query_vector: [1, 0], filter, include: ["metadata"] });
    expect(found.results).toMatchObject([{ id: "whale", metadata: null }]);
    const like = await collection.search.recommend({
      positive: ["ant", [0.1, 0.9]],
      negative: ["whale"],
      top_k: 1,
    });
    expect(like.results).toMatchObject([{ id: "bee" }]);
    const far = await collection.search.recommend({
      positive: [new Float32Array([1, 0])],
      filter,
      diversity: 0.5,
    });
    expect(far.results).toMatchObject([{ id: "whale" }]);
    const near = await collection.neighbors("ant", {
      top_k: 1,
      filter: { legs: { gte: 6 } },
      include: ["metadata", "text"],
    });
    expect(near.results).toMatchObject([{ id: "bee", metadata: { legs: 6 } }]);
    expect((await collection.neighbors("whale")).results.map(({ id }) => id).sort()).toEqual(["ant", "bee"]);
    expect(await codeOf(collection.neighbors("gnu"))).toEqual(["vector_not_found", 404]);
    const lines: string[] = [];
    for await (const line of collection.export({ filter: { kind: "ant" } })) lines.push(JSON.parse(line).id);
    expect(lines).toEqual(["ant"]);
    expect(await collection.updateMatching(filter, { legs: 0 })).toBe(1);
    expect(await collection.deleteMatching({ legs: 6 })).toBe(2);
    expect(await codeOf(collection.count({ legs: { is: 6 } } as never))).toEqual(["invalid_filter", 400]);
  });

  it("[W17] a scroll is a page where it is awaited, and all records with `for await`", async () => {
    const collection = await makeCollection({ indexes: false });
    const many = Array.from({ length: 230 }, (_, i) => ({
      id: `s${String(i).padStart(3, "0")}`,
      text: "x",
      metadata: { even: i % 2 === 0 },
    }));
    await collection.upsert(many);
    const idsOf = async (scroll: AsyncIterable<{ id?: string }>) => {
      const ids: (string | undefined)[] = [];
      for await (const { id } of scroll) ids.push(id);
      return ids;
    };
    const ids = many.map(({ id }) => id);
    for (const limit of [1, 50, 115, 230, 1_000])
      expect(await idsOf(collection.scroll({ limit }))).toEqual(ids);
    expect(await idsOf(collection.scroll())).toEqual(ids);
    expect(await idsOf(collection.scroll({ filter: { even: true }, limit: 7 }))).toEqual(
      ids.filter((_, i) => i % 2 === 0),
    );
    expect(await idsOf(collection.scroll({ filter: { even: "no" } }))).toEqual([]);
    const { vectors, next_cursor } = await collection.scroll({ limit: 200, include: [] });
    expect(vectors).toHaveLength(200);
    const rest = collection.scroll({ limit: 7, cursor: next_cursor, include: [] });
    expect(await idsOf(rest)).toEqual(ids.slice(200));
    // Again from its first page, which is not asked for again.
    expect(await idsOf(rest)).toEqual(ids.slice(200));
    // What is deleted behind the page is not met, and what comes later is.
    const met: (string | undefined)[] = [];
    for await (const { id } of collection.scroll({ limit: 100, include: ["metadata"] })) {
      if (met.push(id) === 1) {
        await collection.delete("s150");
        await collection.upsert({ id: "t", text: "x" });
      }
    }
    expect(met).toEqual([...ids.filter((id) => id !== "s150"), "t"]);
    // Left early: nothing is asked for any more.
    for await (const { id } of collection.scroll({ limit: 10 })) if (id === "s012") break;
    const stop = new AbortController();
    const reading = async () => {
      for await (const _ of collection.scroll({ limit: 10 }, { signal: stop.signal }))
        stop.abort(new Error("enough"));
    };
    await expect(reading()).rejects.toThrow("enough");
    const missing = database.collection("nobody").scroll();
    expect(await codeOf(idsOf(missing))).toEqual(["collection_not_found", 404]);
    expect(await codeOf(missing)).toEqual(["collection_not_found", 404]);
  });

  it("[P1] what is left out has its default, and a filter on a field that nobody has is warned of", async () => {
    const collection = await database.createCollection({
      name: "defaults",
      dense_vector: { enabled: true, dimension: 2 },
      sparse_vector: { enabled: true },
      tf_idf_options: { enabled: true },
    });
    expect((await collection.describe()).config).toEqual({ max_vectors: null, replication_factor: null });
    await collection.createDenseIndex({ distance_metric_type: "cosine" });
    await collection.createSparseIndex();
    await collection.createTextIndex();
    expect(await collection.indexes()).toMatchObject({
      dense: {
        name: "dense",
        quantization: { type: "auto", properties: { sample_threshold: 1_000 } },
        index: { type: "hnsw", properties: { num_layers: 9, ef_construction: 128, neighbors_count: 16 } },
      },
      sparse: { name: "sparse", quantization: 256, sample_threshold: 1_000 },
      "tf-idf": { name: "text", sample_threshold: 1_000, k1: 1.2, b: 0.75, language: "english" },
    });
    await collection.upsert(animals);
    const filter = { lgs: 6 };
    const warnings = [{ code: "absent_field", path: "filter.lgs", message: expect.stringContaining("legs") }];
    expect(await collection.search.dense({ query_vector: [1, 0], filter })).toEqual({
      results: [],
      warnings,
    });
    expect(await collection.neighbors("bee", { filter })).toEqual({ results: [], warnings });
    expect(await collection.scroll({ filter })).toEqual({ vectors: [], next_cursor: null, warnings });
    const [first, second] = await collection.search.batchText({
      queries: ["bees", { query: "bees", filter }],
    });
    expect(first.warnings).toBeUndefined();
    expect(second).toMatchObject({ results: [], warnings: [{ path: "queries[1].filter.lgs" }] });
    const params = { collection_id: collection.name };
    for (const [route, body, answer] of [
      ["countVectors", { filter }, { count: 0 }],
      ["facetVectors", { filter, field: "legs" }, { facets: [] }],
      ["facetVectors", { filter, fields: ["legs"] }, { facets: { legs: [] } }],
      ["deleteMatching", { filter }, { deleted: 0 }],
      ["updateMatching", { filter, metadata: {} }, { updated: 0 }],
    ] as const)
      expect(await database.request(route, { params, body })).toEqual({ ...answer, warnings });
  });

  it("[P1] conditions of `where` are filters of every request that takes one, alone and inside of plain ones", async () => {
    const collection = await makeCollection({ records: animals });
    const { search, where } = collection;
    const wanted = where("id").in(["bee", "whale"]);
    const inside = { and: [wanted, { not: where("legs").exists() }] };
    const ids = ({ results }: { results: { id: string }[] }) => results.map(({ id }) => id).sort();
    const vector = [1, 0];
    const terms = [{ index: 9, value: 1 }];
    for (const [filter, found] of [
      [wanted, ["bee", "whale"]],
      [inside, ["whale"]],
    ] as const) {
      expect(ids(await search.dense({ query_vector: vector, filter }))).toEqual(found);
      expect(ids(await search.sparse({ query_terms: terms, filter }))).toEqual(["whale"]);
      expect(ids(await search.text({ query: "bees whales", filter }))).toEqual(found);
      expect(ids(await search.hybrid({ query_vector: vector, query_text: "ants", filter }))).toEqual(found);
      expect(ids(await search.recommend({ positive: ["ant"], filter }))).toEqual(found);
      expect(ids(await collection.neighbors("ant", { filter }))).toEqual(found);
      const dense = await search.batchDense({ queries: [{ vector, filter }] });
      expect(ids(dense[0])).toEqual(found);
      expect(ids((await search.batchSparse({ query_terms_list: [[[9, 1]]], filter }))[0])).toEqual(["whale"]);
      expect(ids((await search.batchText({ queries: [{ query: "bees whales", filter }] }))[0])).toEqual(
        found,
      );
      const hybrid = await search.batchHybrid({
        queries: [{ query_vector: vector, query_text: "bees", filter }],
      });
      expect(ids(hybrid[0])).toEqual(found);
      expect(await collection.count(filter)).toBe(found.length);
      expect(await collection.facet({ field: "id", filter })).toHaveLength(found.length);
      expect((await collection.scroll({ filter })).vectors.map(({ id }) => id)).toEqual(found);
      const exported: string[] = [];
      for await (const { id } of collection.export({ filter }).records()) exported.push(id);
      expect(exported.sort()).toEqual(found);
    }
    expect(await collection.updateMatching(inside, { big: true })).toBe(1);
    expect(await collection.deleteMatching(where("big").eq(true))).toBe(1);
  });

  it("indexes are created, shown, waited for and deleted", async () => {
    const collection = await makeCollection({ records: animals });
    await collection.waitForIndex({ timeoutMs: 10_000 });
    const indexes = await collection.indexes();
    expect(await collection.measureRecall({ sample: 3, topK: 2 })).toMatchObject({
      recall: 1,
      top_k: 2,
      ef_search: null,
    });
    expect(await collection.analyzeText("The whales")).toEqual({
      language: "english",
      terms: [
        { position: 0, word: "the", term: null, dropped: "stop_word" },
        { position: 1, word: "whales", term: "whale", dropped: null },
      ],
    });
    expect(Object.keys(indexes).sort()).toEqual(["dense", "sparse", "tf-idf"]);
    expect(indexes.dense?.status).toMatchObject({ state: "ready", records_indexed: 3 });
    for (const kind of ["dense", "sparse", "tf-idf"] as const) await collection.deleteIndex(kind);
    expect(await collection.indexes()).toEqual({});
    await collection.createTextIndex({ language: "none", stop_words: ["whales"] });
    expect((await collection.indexes())["tf-idf"]).toMatchObject({
      language: "none",
      stop_words: ["whales"],
    });
    expect((await collection.search.text({ query: "whales" })).results).toEqual([]);
    expect(await codeOf(collection.deleteIndex("dense"))).toEqual(["index_not_found", 404]);
  });

  describe("searches", () => {
    const ids = ({ results }: { results: { id: string }[] }) => results.map(({ id }) => id);

    it("of every kind find what they should", async () => {
      const { search } = await makeCollection({ records: animals });
      const vector = new Float32Array([1, 0.1]);
      const terms = [{ index: 7, value: 1 }];
      expect(ids(await search.dense({ query_vector: vector }))).toEqual(["bee", "ant", "whale"]);
      expect(ids(await search.dense({ query_vector: [0, 1], top_k: 1, exact: true }))).toEqual(["whale"]);
      expect(ids(await search.sparse({ query_terms: terms }))).toEqual(["bee", "ant"]);
      const text = await search.text({ query: "singing whale", return_raw_text: true });
      expect(text.results).toMatchObject([{ id: "whale", document_id: "mammals", text: "Whales sing." }]);
      expect(ids(await search.hybrid({ query_vector: vector, query_terms: terms, top_k: 1 }))).toEqual([
        "bee",
      ]);
      expect(ids(await search.hybrid({ query_terms: terms, query_text: "ants" }))[0]).toBe("ant");
      const why = (await search.hybrid({ query_vector: vector, query_text: "ants", explain: true })).results;
      expect(why[0].explanation?.["tf-idf"]?.matches).toMatchObject([{ term: "ant", tf: 1, df: 1 }]);
      expect(why[1].explanation).toMatchObject({ dense: { rank: 1 }, "tf-idf": null });
    });

    it("understand operators on request", async () => {
      const collection = await makeCollection({ records: animals });
      await collection.deleteIndex("tf-idf");
      await collection.createTextIndex({ positions: true });
      expect((await collection.indexes())["tf-idf"]).toMatchObject({ positions: true });
      const { search } = collection;
      const syntax = "operators";
      expect(ids(await search.text({ query: '"whales sing"', syntax }))).toEqual(["whale"]);
      expect(ids(await search.text({ query: '"sing whales"', syntax }))).toEqual([]);
      expect(ids(await search.text({ query: '"sing whales"' }))).toEqual(["whale"]);
      const [some, none] = await search.batchText({ queries: ["whal*", "whal* -sing"], syntax });
      expect([ids(some), ids(none)]).toEqual([["whale"], []]);
      const legs = { query_terms: [{ index: 7, value: 1 }], query_text: "wahle~" };
      expect(ids(await search.hybrid({ ...legs, syntax }))).toContain("whale");
      expect(ids((await search.batchHybrid({ queries: [legs], syntax }))[0])).toContain("whale");
      expect(await codeOf(search.text({ query: '"whales', syntax }))).toEqual(["invalid_request", 400]);
    });

    it("in batches answer in the order of the queries", async () => {
      const { search } = await makeCollection({ records: animals });
      const first = (batch: { results: { id: string }[] }[]) => batch.map(({ results }) => results[0].id);
      const vectors = [{ vector: new Float32Array([0, 1]) }, { vector: [1, 0] }];
      expect(first(await search.batchDense({ queries: vectors }))).toEqual(["whale", "bee"]);
      expect(first(await search.batchSparse({ query_terms_list: [[[9, 1]], [[7, 1]]] }))).toEqual([
        "whale",
        "bee",
      ]);
      expect(first(await search.batchText({ queries: ["ants", "bees"] }))).toEqual(["ant", "bee"]);
      const both = [
        { query_vector: new Float32Array([0, 1]), query_text: "whale" },
        { query_terms: [{ index: 7, value: 1 }], query_text: "bees" },
      ];
      expect(first(await search.batchHybrid({ queries: both }))).toEqual(["whale", "bee"]);
    });

    it("without their index name the call that creates it", async () => {
      const { search } = await makeCollection({ indexes: false });
      expect(await codeOf(search.text({ query: "x" }))).toEqual(["index_not_found", 400]);
    });
  });

  describe("records", () => {
    it("are read, found and deleted by any id that a path can carry", async () => {
      const collection = await makeCollection({ indexes: false });
      const ids = ["a/b", "50%", "c?d#e", "ü", "+ &", "...", "日本"];
      await collection.upsert(ids.map((id) => ({ id, document_id: `doc ${id}`, text: id })));
      for (const id of ids) {
        expect((await collection.get(id)).id).toBe(id);
        expect(await collection.has(id)).toBe(true);
        expect((await collection.byDocument(`doc ${id}`)).map((record) => record.id)).toEqual([id]);
        await collection.delete(id);
        expect(await collection.has(id)).toBe(false);
        expect(await codeOf(collection.get(id))).toEqual(["vector_not_found", 404]);
      }
    });

    it("keep every digit of 32-bit floats", async () => {
      const collection = await makeCollection({ indexes: false });
      const floats = new Float32Array([-1e-30, 1 / 3]);
      await collection.upsert({ id: "f", dense_values: floats });
      const { dense_values } = await collection.get("f");
      expect(dense_values).toEqual(Array.from(floats));
    });

    it("keep metadata as it was written", async () => {
      const collection = await makeCollection({ indexes: false });
      const metadata = '{"big":9007199254740993,"huge":1e999,"n":1.0,"__proto__":{"x":1}}';
      await collection.upsert(new RawRecord(`{"id":"m","text":"t","metadata":${metadata}}`));
      expect(await collection.getJson("m")).toContain(`"metadata":${metadata}`);
    });

    it("by the thousand are split, and an error counts in the caller's array", async () => {
      const collection = await makeCollection({ indexes: false });
      const many = Array.from({ length: 2_500 }, (_, i) => ({ id: `n${i}`, dense_values: [i, 1] }));
      expect(await collection.upsert(many, { concurrency: 3 })).toEqual({ upserted: 2_500, requests: 3 });
      many[1_017] = { id: "bad", dense_values: [1, 2, 3] };
      const error = await collection.upsert(many).catch((thrown: unknown) => thrown);
      expect(isQuiverError(error, "invalid_vector")).toBe(true);
      expect((error as QuiverError).message).toMatch(/^vectors\[1017\]\.dense_values has 3 values/);
      expect((error as QuiverError).details).toMatchObject({
        acknowledged: 1_000,
        path: "vectors[1017].dense_values",
      });
    });

    it("[E7] are rejected with fields that are unknown to the server; options, with those that are unknown to the client", async () => {
      const collection = database.collection("unknown-fields");
      await database.createCollection({
        name: collection.name,
        dense_vector: { enabled: true, dimension: 2 },
      });
      const loose = (value: unknown) => value as never;
      const detailsOf = async (promise: Promise<unknown>) => {
        try {
          await promise;
        } catch (error) {
          if (isQuiverError(error, "unknown_field")) return [error.details.path, error.details.suggestion];
          throw error;
        }
        throw new Error("not refused");
      };
      const many = Array.from({ length: 1_200 }, (_, i) => ({ id: `m${i}`, dense_values: [1, i] }));
      const wrong = [...many, { id: "w", dense_values: [1, 2], metadta: {} }];
      expect(await detailsOf(collection.upsert(loose(wrong)))).toEqual(["vectors[1200].metadta", "metadata"]);
      expect(await detailsOf(collection.createDenseIndex(loose({ distanceMetricType: "cosine" })))).toEqual([
        "distanceMetricType",
        "distance_metric_type",
      ]);
      const search = collection.search.dense(loose({ query_vector: [1, 2], topK: 3 }));
      expect(await detailsOf(search)).toEqual(["topK", "top_k"]);
      const before = (await collection.currentVersion()).version_number;
      expect(await detailsOf(collection.upsert(many, loose({ batchSize: 5 })))).toEqual([
        "batchSize",
        undefined,
      ]);
      expect(await detailsOf(collection.describe(loose({ timeout: 5 })))).toEqual(["timeout", "timeoutMs"]);
      expect(await detailsOf((async () => collection.measureRecall(loose({ top_k: 5 })))())).toEqual([
        "top_k",
        "topK",
      ]);
      expect(await detailsOf((async () => collection.createSnapshot(loose({ since_version: 0 })))())).toEqual(
        ["since_version", "sinceVersion"],
      );
      expect((await collection.currentVersion()).version_number).toBe(before);
      await collection.drop();
    });

    it("are exported as they are stored, as of one version", async () => {
      const collection = await makeCollection({ records: animals });
      const exported = collection.export();
      expect(await exported.version()).toBe((await collection.currentVersion()).version_number);
      expect(await exported.count()).toBe(3);
      const lines: string[] = [];
      for await (const line of exported) lines.push(line);
      expect(lines).toEqual(await Promise.all(animals.map(({ id }) => collection.getJson(id))));
      const ids: string[] = [];
      for await (const { id } of collection.export().records()) ids.push(id);
      expect(ids).toEqual(["bee", "ant", "whale"]);
      const nobody = database.collection("nobody").export();
      expect(await codeOf(nobody.version())).toEqual(["collection_not_found", 404]);
    });

    it("can be left in the middle of an export", async () => {
      const collection = await makeCollection({ indexes: false });
      await collection.upsert(
        Array.from({ length: 5_000 }, (_, i) => ({ id: `e${i}`, text: "x".repeat(500) })),
      );
      for await (const line of collection.export()) {
        expect(line).toContain('"id":"e0"');
        break;
      }
      const abort = new AbortController();
      const read = async () => {
        for await (const _ of collection.export({ signal: abort.signal })) abort.abort(new Error("enough"));
      };
      await expect(read()).rejects.toThrow("enough");
    });
  });

  describe("transactions", () => {
    it("are invisible until their commit, and then complete", async () => {
      const collection = await makeCollection({ records: animals });
      await using transaction = await collection.transaction();
      await transaction.upsert(
        Array.from({ length: 1_500 }, (_, i) => ({ id: `t${i}`, dense_values: [1, i] })),
      );
      await transaction.add({ id: "one", dense_values: new Float32Array([1, 1]) });
      await transaction.delete("bee");
      expect(await transaction.status()).toHaveProperty("NotStarted");
      expect(await collection.has("t0")).toBe(false);
      expect((await collection.describe()).vectors_count).toBe(3);
      await transaction.commit({ waitForIndex: true });
      expect(await transaction.status()).toMatchObject({
        Complete: { stats: { records_upserted: 1_501, records_deleted: 1 } },
      });
      expect((await collection.describe()).vectors_count).toBe(1_503);
      expect(await codeOf(transaction.upsert(animals))).toEqual(["transaction_not_open", 400]);
      const flat = await database.request("getTransactionStatus", {
        params: { collection_id: collection.name, transaction_id: transaction.id },
        query: { format: "flat" },
      });
      expect(flat.status).toBe("complete");
    });

    it("that are left without a commit are aborted, and can be resumed while they are open", async () => {
      const collection = await makeCollection();
      const { id } = await (async () => {
        await using transaction = await collection.transaction();
        await transaction.upsert(animals);
        expect(await codeOf(collection.transaction())).toEqual(["transaction_ongoing", 409]);
        return transaction;
      })();
      expect((await collection.transactions())[0]).toMatchObject({
        transaction_id: id,
        status: { Aborted: {} },
      });
      const left = await collection.transaction();
      await left.upsert(animals[0]);
      await collection.resumeTransaction(left.id).commit();
      expect((await collection.describe()).vectors_count).toBe(1);
      const third = await collection.transaction();
      await third.abort();
      expect(await third.status()).toHaveProperty("Aborted");
      expect(await codeOf(collection.resumeTransaction("none").status())).toEqual([
        "transaction_not_found",
        404,
      ]);
    });
  });

  it("versions are listed and found", async () => {
    const collection = await makeCollection({ indexes: false });
    for (const record of animals) await collection.upsert(record);
    const { versions, current_hash } = await collection.versions();
    expect(versions.map(({ vector_count }) => vector_count)).toEqual([3, 2, 1, 0]);
    expect(await collection.currentVersion()).toEqual(versions[0]);
    expect(versions[0].hash).toBe(current_hash);
    expect(await collection.version(versions[2].hash)).toEqual(versions[2]);
    const page = await collection.versions({ limit: 1, before: versions[0].version_number });
    expect(page.versions).toEqual([versions[1]]);
    expect(await codeOf(collection.version("no hash"))).toEqual(["invalid_version_hash", 400]);
  });

  describe("earlier versions", () => {
    it("[V4] every method that reads reads the version that it is asked for, in every form of naming it", async () => {
      const collection = await makeCollection({ records: animals });
      await collection.setHistory("all");
      const { version_number: version, hash } = await collection.currentVersion();
      const begun = new Date();
      await new Promise((resolve) => setTimeout(resolve, 20));
      await collection.delete("ant");
      await collection.upsert({ id: "bee", dense_values: [0, 1], text: "Bees sleep." });
      for (const past of [{ version }, { version: hash }, { version: String(version) }, { asOf: begun }]) {
        const at = collection.at(past);
        expect(await at.count()).toBe(3);
        expect(await at.has("ant")).toBe(true);
        expect(await at.get("bee")).toMatchObject({ text: "Bees dance.", metadata: { legs: 6 } });
        expect(JSON.parse(await at.getJson("bee"))).toMatchObject({ text: "Bees dance." });
        expect(await at.fetch({ ids: ["ant", "no"] })).toMatchObject([{ id: "ant" }, null]);
        expect((await at.byDocument("insects")).map(({ id }) => id)).toEqual(["ant", "bee"]);
        expect(await at.facet({ field: "legs" })).toEqual([{ value: 6, count: 1 }]);
        const ids: string[] = [];
        for await (const { id } of at.scroll({ limit: 2 })) ids.push(id as string);
        expect(ids).toEqual(["ant", "bee", "whale"]);
        const exported: string[] = [];
        for await (const record of at.export().records()) exported.push(record.id);
        expect(exported.sort()).toEqual(["ant", "bee", "whale"]);
        expect(await at.export().version()).toBe(version);
        const { results } = await at.search.dense({ query_vector: [1, 0], top_k: 1 });
        expect(results).toMatchObject([{ id: "bee", score: 1 }]);
        const batch = await at.search.batchText({ queries: ["ants", "dance"] });
        expect(batch.map((found) => found.results.map(({ id }) => id))).toEqual([["ant"], ["bee"]]);
        expect((await at.neighbors("bee", { top_k: 1 })).results).toMatchObject([{ id: "ant" }]);
        const hybrid = await at.search.hybrid({ query_text: "ants", query_vector: [0, 1], top_k: 3 });
        expect(hybrid.results.map(({ id }) => id)).toContain("ant");
      }
      expect(await collection.count()).toBe(2);
      expect(await codeOf(collection.at({ version: 99 }).count())).toEqual(["version_not_found", 404]);
      expect(await codeOf(collection.at({ asOf: "soon" }).count())).toEqual(["invalid_request", 400]);
    });

    it("[V6] [V7] [V8] tags, differences, histories of records, and restored versions", async () => {
      const collection = await makeCollection({ records: animals });
      const { version_number: first } = await collection.currentVersion();
      expect(await collection.putTag("first")).toMatchObject({ name: "first", version: first });
      await collection.delete("ant");
      await collection.upsert([
        { id: "bee", text: "Bees sleep." },
        { id: "cat", text: "Cats play." },
      ]);
      const current = await collection.currentVersion();
      expect(await collection.versions()).toMatchObject({
        oldest_readable: current.version_number,
        tags: [{ name: "first", version: first }],
      });
      const diff = collection.diff("first", current.version_number);
      expect(await diff.counts()).toEqual({ added: 1, changed: 1, removed: 1 });
      const changes: unknown[] = [];
      for await (const { op, id } of diff) changes.push([op, id]);
      expect(changes).toEqual([
        ["removed", "ant"],
        ["changed", "bee"],
        ["added", "cat"],
      ]);
      const { states } = await collection.history("bee");
      expect(states).toMatchObject([
        { until: null, vector: { text: "Bees sleep." } },
        { version: first, vector: { text: "Bees dance." } },
      ]);
      expect(await codeOf(collection.at({ version: first + 1 }).count())).toEqual(["version_gone", 410]);
      const restored = await collection.restoreVersion("first");
      expect(restored).toMatchObject({ version_number: current.version_number + 1, vector_count: 3 });
      expect(await collection.get("bee")).toMatchObject({ text: "Bees dance." });
      expect(await collection.has("cat")).toBe(false);
      expect(await codeOf(collection.putTag("first"))).toEqual(["tag_already_exists", 409]);
      await collection.deleteTag("first");
      expect((await collection.versions()).tags).toEqual([]);
      expect(await codeOf(collection.restoreVersion("first"))).toEqual(["tag_not_found", 404]);
      expect((await collection.setHistory({ versions: 5 })).config.history).toEqual({ versions: 5 });
      expect((await collection.setHistory(null)).config).not.toHaveProperty("history");
    });
  });

  it("[V13] changes are told in order, once each, from any place on, and a page waits for a write", async () => {
    const collection = await makeCollection({ records: animals });
    const { version_number: first } = await collection.currentVersion();
    await collection.setHistory("all");
    await collection.upsert([
      { id: "bee", text: "Bees sleep." },
      { id: "cat", text: "Cats play." },
    ]);
    await collection.delete("ant");
    const transaction = await collection.transaction();
    await transaction.upsert({ id: "dog", text: "Dogs bark." });
    await transaction.delete("cat");
    await transaction.commit();
    await collection.upsert({ id: "bee", text: "Bees dance again." });
    const told = [
      [first + 1, "upsert", "bee", "Bees sleep."],
      [first + 1, "upsert", "cat", "Cats play."],
      [first + 2, "delete", "ant", undefined],
      [first + 3, "upsert", "dog", "Dogs bark."],
      [first + 3, "delete", "cat", undefined],
      [first + 4, "upsert", "bee", "Bees dance again."],
    ];
    for (const limit of [1, 2, 4, 100]) {
      const seen: unknown[] = [];
      for (let since = String(first); ; ) {
        const page = await collection.changes({ since, limit });
        seen.push(...page.changes.map(({ version, op, id, vector }) => [version, op, id, vector?.text]));
        since = page.next;
        if (page.changes.length === 0) break;
      }
      expect(seen).toEqual(told);
    }
    const { next } = await collection.changes({ since: first });
    const waiting = collection.changes({ since: next, waitMs: 20_000 });
    await collection.delete("dog");
    expect((await waiting).changes).toMatchObject([{ op: "delete", id: "dog" }]);
    const nothing = await collection.changes({ since: (await waiting).next, waitMs: 50 });
    expect(nothing.changes).toEqual([]);
    expect(await codeOf(collection.changes({ since: 99 }))).toEqual(["version_not_found", 404]);
    expect(await codeOf(collection.changes({ since: "soon" }))).toEqual(["invalid_request", 400]);
    // Without history, what was replaced is left out.
    await collection.setHistory(null);
    const plain = await makeCollection({ indexes: false });
    await plain.upsert({ id: "a", text: "1" });
    await plain.upsert([
      { id: "a", text: "2" },
      { id: "b", text: "1" },
    ]);
    await plain.delete("b");
    const page = await plain.changes();
    expect(page.changes.map(({ version, op, id }) => [version, op, id])).toEqual([
      [2, "upsert", "a"],
      [3, "delete", "b"],
    ]);
  });

  it("[V12] a copy has the records and indexes of a version, and lives on by itself", async () => {
    const collection = await makeCollection({ records: animals });
    const { version_number: version, hash } = await collection.currentVersion();
    await collection.setHistory("all");
    await collection.delete("ant");
    const copy = await collection.copy(`${collection.name}-then`, { version });
    expect(await copy.describe()).toMatchObject({
      vectors_count: 3,
      config: { history: "all" },
      origin: { name: collection.name, version, hash },
    });
    expect(await copy.currentVersion()).toMatchObject({ version_number: version, hash });
    expect((await copy.search.text({ query: "ants" })).results).toMatchObject([{ id: "ant" }]);
    await copy.delete("bee");
    expect([await copy.count(), await collection.count()]).toEqual([2, 2]);
    expect(await copy.at({ version }).count()).toBe(3);
    expect((await copy.check()).findings).toEqual([]);
    const now = await collection.copy(`${collection.name}-now`);
    expect(await now.count()).toBe(2);
    expect(await codeOf(collection.copy(copy.name))).toEqual(["collection_already_exists", 409]);
    expect(await codeOf(collection.copy("x/y"))).toEqual(["invalid_name", 400]);
    expect(await codeOf(collection.copy("later", { version: 99 }))).toEqual(["version_not_found", 404]);
    for (const each of [copy, now]) await each.drop();
  });

  it("[V11] a write with a condition is refused when another version is current, and changes nothing", async () => {
    const collection = await makeCollection({ records: animals });
    const { version_number: ifVersion } = await collection.currentVersion();
    await collection.upsert({ id: "cat", text: "x" }, { ifVersion });
    expect(await codeOf(collection.upsert({ id: "dog", text: "x" }, { ifVersion }))).toEqual([
      "version_changed",
      412,
    ]);
    expect(await codeOf(collection.delete("cat", { ifVersion }))).toEqual(["version_changed", 412]);
    expect([await collection.has("cat"), await collection.has("dog")]).toEqual([true, false]);
    await collection.delete("cat", { ifVersion: ifVersion + 1 });
    const transaction = await collection.transaction();
    await transaction.upsert({ id: "dog", text: "x" });
    expect(await codeOf(transaction.commit({ ifVersion }))).toEqual(["version_changed", 412]);
    await transaction.commit({ ifVersion: ifVersion + 2 });
    expect(await collection.has("dog")).toBe(true);
    // Of many at a time one succeeds.
    const current = (await collection.currentVersion()).version_number;
    const codes = await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        codeOf(collection.upsert({ id: `n${i}`, text: "x" }, { ifVersion: current })),
      ),
    );
    expect(codes.filter((code) => code === undefined)).toHaveLength(1);
    expect(codes.filter((code) => code?.[0] === "version_changed")).toHaveLength(7);
    expect(await codeOf(collection.upsert({ id: "x", text: "x" }, { ifVersion: -1 }))).toEqual([
      "invalid_request",
      400,
    ]);
  });

  it("[V14] [V15] conditions of records, and writes that are done once", async () => {
    const collection = await makeCollection({ records: animals });
    const versionOf = async (id: string) =>
      ((await collection.fetch({ ids: [id], include: ["version"] }))[0] as { version?: number })
        .version as number;
    const ifMatch = await versionOf("bee");
    await collection.upsert({ id: "bee", text: "Bees hum.", if_match: ifMatch });
    const changed = ["record_changed", 412];
    expect(await codeOf(collection.upsert({ id: "bee", text: "x", if_match: ifMatch }))).toEqual(changed);
    expect(await codeOf(collection.upsert({ id: "bee", text: "x", if_absent: true }))).toEqual(changed);
    expect(await codeOf(collection.patch("bee", { n: 1 }, { ifMatch }))).toEqual(changed);
    expect(await codeOf(collection.delete("bee", { ifMatch }))).toEqual(changed);
    await collection.patch("bee", { n: 1 }, { ifMatch: await versionOf("bee") });
    const transaction = await collection.transaction();
    await transaction.delete("bee", { ifMatch });
    expect(await codeOf(transaction.commit())).toEqual(changed);
    await transaction.abort();
    await collection.delete("bee", { ifMatch: await versionOf("bee") });

    const idempotencyKey = crypto.randomUUID();
    await collection.upsert({ id: "cat", text: "Cats play." }, { idempotencyKey });
    await collection.delete("cat");
    await collection.upsert({ id: "cat", text: "Cats play." }, { idempotencyKey });
    expect(await collection.has("cat")).toBe(false);
    expect(await codeOf(collection.upsert({ id: "dog", text: "x" }, { idempotencyKey }))).toEqual([
      "idempotency_key_reused",
      422,
    ]);
    for (const wrong of ["\n", "x"])
      expect(await codeOf(collection.load({ idempotencyKey: wrong }))).toEqual(["invalid_request", 400]);
  });

  it("[V16] a copy is merged into its original", async () => {
    const collection = await makeCollection({ records: animals });
    const copy = await collection.copy(`${collection.name}-draft`);
    await copy.upsert([
      { id: "bee", text: "Bees hum." },
      { id: "cat", text: "Cats play." },
    ]);
    await copy.delete("ant");
    expect(await collection.merge(copy.name)).toMatchObject({
      added: 1,
      changed: 1,
      removed: 1,
      conflicts: [],
    });
    expect(await collection.get("bee")).toMatchObject({ text: "Bees hum." });
    await copy.delete("bee");
    await collection.upsert({ id: "bee", text: "Bees sleep." });
    expect(await codeOf(collection.merge(copy.name))).toEqual(["merge_conflict", 409]);
    expect(await collection.merge(copy.name, { onConflict: "theirs" })).toMatchObject({
      removed: 1,
      conflicts: [{ id: "bee", ours: "changed", theirs: "removed" }],
    });
    expect((await collection.check()).findings).toEqual([]);
    expect((await copy.check()).findings).toEqual([]);
    await copy.drop();
  });

  it("[V17] an alias is another name of a collection", async () => {
    const collection = await makeCollection({ records: animals });
    const alias = `${collection.name}-live`;
    expect(await database.putAlias(alias, collection.name)).toEqual({ alias, collection: collection.name });
    expect(await database.collection(alias).has("bee")).toBe(true);
    expect(await database.aliases()).toContainEqual({ alias, collection: collection.name });
    expect(await codeOf(collection.drop())).toEqual(["collection_has_aliases", 409]);
    await database.deleteAlias(alias);
    expect(await codeOf(database.deleteAlias(alias))).toEqual(["alias_not_found", 404]);
    expect(await codeOf(database.collection(alias).count())).toEqual(["collection_not_found", 404]);
  });

  it("checks the stored data of a collection", async () => {
    const collection = await makeCollection({ records: animals });
    const report = await collection.check();
    expect(report).toMatchObject({ findings: [] });
  });

  it("creates, lists, transfers, restores and deletes snapshots", async () => {
    const collection = await makeCollection({ records: animals });
    const made = await collection.createSnapshot();
    expect(await collection.snapshots()).toMatchObject({ snapshots: [made] });
    expect((await database.listSnapshots()).snapshots).toContainEqual(made);
    expect(await collection.getSnapshot(made.id)).toEqual(made);
    expect(await collection.checkSnapshots()).toEqual({
      findings: [],
      findings_total: 0,
      collections: [],
      snapshots: 1,
    });
    expect((await database.checkSnapshots()).findings).toEqual([]);
    const parts: Uint8Array[] = [];
    for await (const part of collection.downloadSnapshot(made.id)) parts.push(Uint8Array.from(part));
    const file = new Blob(parts as Uint8Array<ArrayBuffer>[]);
    expect(file.size).toBe(made.size_bytes);
    await collection.deleteSnapshot(made.id);
    const uploaded = await database.uploadSnapshot(() => file);
    expect(uploaded.sha256).toBe(made.sha256);
    const copy = database.collection(`${collection.name}-copy`);
    const restored = await copy.restore({ snapshots: [uploaded.id] });
    expect(restored).toMatchObject({ hash: made.hash, vector_count: made.vector_count });
    expect(await copy.get("bee")).toEqual(await collection.get("bee"));
  });
}
