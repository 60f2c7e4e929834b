// Every row of every endpoint table of the interface, with every listed status.
//
// 500 is in every row: errors.test.ts tests it for each route.

import { type Operation, type OperationName, operations } from "@quiverdb/engine/operations/operations";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { inCluster, shards } from "./nodes.ts";
import {
  collectionBody,
  denseIndexBody,
  expectError,
  pathOf,
  rawHead,
  readAnswer,
  record,
  sparseIndexBody,
  startTestServer,
  type TestServer,
  textIndexBody,
} from "./running.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer();
});
afterAll(() => server.end());

let made = 0;
/** A new collection with data; `c` for its path. */
async function collection(records = 3) {
  const collection_id = `collection ${++made}`;
  await server.makeCollection(collection_id);
  if (records > 0) {
    const vectors = Array.from({ length: records }, (_, index) => record(`v${index}`, index + 1));
    const answer = await server.call("streamingUpsert", { collection_id }, { vectors });
    expect(answer.status, answer.text).toBe(200);
  }
  return { collection_id };
}

async function transaction(c: { collection_id: string }) {
  const answer = await server.call("createTransaction", c);
  expect(answer.status, answer.text).toBe(200);
  return { ...c, transaction_id: answer.json.transaction_id as string };
}

const nowhere = { collection_id: "nowhere" };

describe("collections", () => {
  test("[H1] create: 201 with id, name and description; 409 when it already exists", async () => {
    const body = { ...collectionBody("created"), description: "words" };
    const created = await server.call("createCollection", {}, body);
    expect([created.status, created.json]).toEqual([
      201,
      { id: "created", name: "created", description: "words" },
    ]);
    const again = expectError(
      await server.call("createCollection", {}, body),
      409,
      "collection_already_exists",
    );
    expect(again.message).toContain("already exists");
    const plain = await server.call("createCollection", {}, collectionBody("plain"));
    expect(plain.json).toEqual({ id: "plain", name: "plain" });
  });

  test("[H1] create: 400 for a bad name, no kind enabled, a missing dimension", async () => {
    const names = [
      "",
      ".",
      "..",
      "loaded",
      "a/b",
      "a\\b",
      "a?b",
      "a#b",
      "a%b",
      "a\u0000b",
      "a\nb",
      "\u0085",
      "ä".repeat(128),
    ];
    for (const name of names) {
      const error = expectError(
        await server.call("createCollection", {}, collectionBody(name)),
        400,
        "invalid_name",
      );
      expect(error.details.path).toBe("name");
    }
    const none = {
      ...collectionBody("none"),
      dense_vector: { enabled: false, dimension: 4 },
      sparse_vector: { enabled: false },
      tf_idf_options: { enabled: false },
    };
    expectError(await server.call("createCollection", {}, none), 400, "invalid_request");
    const flat = { ...collectionBody("flat"), dense_vector: { enabled: true } };
    const error = expectError(await server.call("createCollection", {}, flat), 400, "invalid_request");
    expect(error.details.path).toBe("dense_vector.dimension");
  });

  test("[H1] any other name is valid: spaces, dots, emoji, quotes, 255 bytes", async () => {
    for (const name of ["a b", "...", "loaded ", "😀", 'it\'s "quoted"', "x".repeat(255), "a+b", "a;b=c&d"]) {
      const created = await server.call("createCollection", {}, collectionBody(name));
      expect([name, created.status]).toEqual([name, 201]);
      expect((await server.call("getCollection", { collection_id: name })).json.name).toBe(name);
      expect((await server.call("deleteCollection", { collection_id: name })).status).toBe(204);
    }
  });

  test("[H1] list: 200 with names and the descriptions that were given", async () => {
    await server.call("createCollection", {}, { ...collectionBody("listed"), description: "d" });
    const { status, json } = await server.call("listCollections");
    expect(status).toBe(200);
    expect(json.collections).toContainEqual({ name: "listed", description: "d" });
    expect(json.collections).toContainEqual({ name: "plain" });
  });

  test("[H1] get: 200 with the detail; 404 for no such collection", async () => {
    const c = await collection(2);
    const { status, json } = await server.call("getCollection", c);
    expect(status).toBe(200);
    expect(json).toEqual({
      name: c.collection_id,
      dense_vector: { enabled: true, dimension: 4 },
      sparse_vector: { enabled: true },
      tf_idf_options: { enabled: true },
      config: { max_vectors: null, replication_factor: null },
      store_raw_text: true,
      vectors_count: 2,
      loaded: true,
      disk_bytes: expect.any(Number),
    });
    expectError(await server.call("getCollection", nowhere), 404, "collection_not_found");
  });

  test("[H1] load, unload, loaded: 200; 400 for no such collection", async () => {
    const c = await collection(2);
    const loadedNames = async () => (await server.call("loadedCollections")).json as string[];
    expect(await loadedNames()).toContain(c.collection_id);
    const checked = await server.call("checkCollection", c);
    expect(checked.status, checked.text).toBe(200);
    expect(checked.json).toMatchObject({
      findings: [],
      findings_total: 0,
      collections: [{ name: c.collection_id }],
    });
    const unloaded = await server.call("unloadCollection", c);
    expect([unloaded.status, unloaded.json]).toEqual([
      200,
      `Collection '${c.collection_id}' successfully unloaded`,
    ]);
    expect(await loadedNames()).not.toContain(c.collection_id);
    expect((await server.call("getCollection", c)).json.loaded).toBe(false);
    expect((await server.call("getVector", { ...c, vector_id: "v0" })).status).toBe(200);
    const loaded = await server.call("loadCollection", c);
    expect(loaded.status).toBe(200);
    expect(loaded.json).toMatchObject({ name: c.collection_id, loaded: true, vectors_count: 2 });
    expect(await loadedNames()).toContain(c.collection_id);
    expectError(await server.call("loadCollection", nowhere), 400, "collection_not_found");
    expectError(await server.call("unloadCollection", nowhere), 400, "collection_not_found");
  });

  // In a cluster, each node loads it when that node searches.
  test.skipIf(inCluster)("[H1] the first search loads an unloaded collection again", async () => {
    const c = await collection(2);
    await server.call("unloadCollection", c);
    const found = await server.call("searchDense", c, { query_vector: [1, 1, 0, 0.5] });
    expect(found.json.results).toHaveLength(2);
    expect((await server.call("getCollection", c)).json.loaded).toBe(true);
  });

  test("[H1] delete: 204 without a body; 400 for no such collection", async () => {
    const c = await collection(1);
    const deleted = await server.call("deleteCollection", c);
    expect([deleted.status, deleted.text]).toEqual([204, ""]);
    expectError(await server.call("deleteCollection", c), 400, "collection_not_found");
    expectError(await server.call("getCollection", c), 404, "collection_not_found");
  });
});

describe("indexes", () => {
  const bodies = {
    createDenseIndex: denseIndexBody,
    createSparseIndex: sparseIndexBody,
    createTextIndex: textIndexBody,
  } as const;
  const kinds = {
    createDenseIndex: "dense",
    createSparseIndex: "sparse",
    createTextIndex: "tf-idf",
  } as const;

  test.each(Object.keys(bodies) as (keyof typeof bodies)[])(
    "[H1] %s: 201 with an empty object, 409 for a second one, 404, 400",
    async (name) => {
      const c = { collection_id: `index ${name}` };
      await server.makeCollection(c.collection_id, { indexes: false });
      const created = await server.call(name, c, bodies[name]);
      expect([created.status, created.json]).toEqual([201, {}]);
      const again = expectError(await server.call(name, c, bodies[name]), 409, "index_already_exists");
      expect(again.message).toContain("already exists");
      expectError(await server.call(name, nowhere, bodies[name]), 404, "collection_not_found");
      expectError(await server.call(name, c, { ...bodies[name], name: 7 }), 400, "invalid_request");
      const read = (await server.call("getIndexes", c)).json;
      expect(Object.keys(read)).toEqual([kinds[name]]);
      expect(read[kinds[name]]).toMatchObject(bodies[name]);
      expect(read[kinds[name]].status.records_total).toBe(0);
    },
  );

  test("[H1] an index of a kind that is not enabled: 400", async () => {
    const body = {
      ...collectionBody("text only"),
      dense_vector: { enabled: false, dimension: 4 },
      sparse_vector: { enabled: false },
    };
    expect((await server.call("createCollection", {}, body)).status).toBe(201);
    const c = { collection_id: "text only" };
    expectError(await server.call("createDenseIndex", c, denseIndexBody), 400, "modality_not_enabled");
    expectError(await server.call("createSparseIndex", c, sparseIndexBody), 400, "modality_not_enabled");
    expect((await server.call("createTextIndex", c, textIndexBody)).status).toBe(201);
  });

  test("[H1] get: 200, {} without indexes, defaults filled in; 404 for no such collection", async () => {
    const c = { collection_id: "no indexes" };
    await server.makeCollection(c.collection_id, { indexes: false });
    const empty = await server.call("getIndexes", c);
    expect([empty.status, empty.json]).toEqual([200, {}]);
    await server.call("createDenseIndex", c, {
      ...denseIndexBody,
      quantization: { type: "scalar", properties: { data_type: "u8", range: { min: -1, max: 1 } } },
      index: { type: "hnsw", properties: { neighbors_count: 24 } },
    });
    const { dense } = (await server.call("getIndexes", c)).json;
    expect(dense.index.properties).toMatchObject({
      num_layers: 9,
      ef_construction: 128,
      ef_search: 128,
      neighbors_count: 24,
      level_0_neighbors_count: 48,
    });
    expect(dense.quantization).toEqual({
      type: "scalar",
      properties: { data_type: "u8", range: { min: -1, max: 1 } },
    });
    expectError(await server.call("getIndexes", nowhere), 404, "collection_not_found");
  });

  test("[H34] what is left out has its default; without any kind a collection is 400", async () => {
    for (const [name, kinds] of [
      ["none", {}],
      ["nulls", { dense_vector: null, sparse_vector: null, tf_idf_options: null, config: null }],
    ] as const)
      expectError(await server.call("createCollection", {}, { name, ...kinds }), 400, "invalid_request");
    for (const [name, kinds, enabled] of [
      ["left out dense", { dense_vector: { enabled: true, dimension: 2 } }, [true, false, false]],
      ["left out sparse", { sparse_vector: { enabled: true } }, [false, true, false]],
      ["left out text", { tf_idf_options: { enabled: true } }, [false, false, true]],
    ] as const) {
      const created = await server.call("createCollection", {}, { name, ...kinds });
      expect([created.status, created.json]).toEqual([201, { id: name, name }]);
      const { json } = await server.call("getCollection", { collection_id: name });
      const { dense_vector, sparse_vector, tf_idf_options, config } = json;
      expect([dense_vector, sparse_vector, tf_idf_options].map((kind) => kind.enabled)).toEqual(enabled);
      expect(config).toEqual({ max_vectors: null, replication_factor: null });
    }
    const hnsw = {
      num_layers: 9,
      ef_construction: 128,
      ef_search: 128,
      neighbors_count: 16,
      level_0_neighbors_count: 32,
    };
    const auto = { type: "auto", properties: { sample_threshold: 1_000 } };
    const dense = {
      name: "dense",
      distance_metric_type: "cosine",
      quantization: auto,
      index: { type: "hnsw", properties: hnsw },
    };
    const metric = { distance_metric_type: "cosine" };
    const sparse = { name: "sparse", quantization: 256, sample_threshold: 1_000 };
    const text = {
      name: "text",
      sample_threshold: 1_000,
      k1: 1.2,
      b: 0.75,
      language: "english",
      positions: false,
    };
    for (const [route, kind, collection_id, body, made] of [
      ["createDenseIndex", "dense", "left out dense", metric, dense],
      [
        "createDenseIndex",
        "dense",
        "left out dense",
        { ...metric, quantization: { type: "auto" }, index: {} },
        dense,
      ],
      [
        "createDenseIndex",
        "dense",
        "left out dense",
        { ...metric, name: null, quantization: { type: "auto", properties: {} }, index: { properties: {} } },
        dense,
      ],
      ["createSparseIndex", "sparse", "left out sparse", {}, sparse],
      ["createSparseIndex", "sparse", "left out sparse", undefined, sparse],
      [
        "createSparseIndex",
        "sparse",
        "left out sparse",
        { quantization: 16 },
        { ...sparse, quantization: 16 },
      ],
      ["createTextIndex", "tf-idf", "left out text", {}, text],
      ["createTextIndex", "tf-idf", "left out text", { k1: 0, b: null }, { ...text, k1: 0 }],
    ] as const) {
      const c = { collection_id };
      expect((await server.call(route, c, body)).status, JSON.stringify(body)).toBe(201);
      const { status, ...definition } = (await server.call("getIndexes", c)).json[kind];
      expect(status.records_total).toBe(0);
      expect(definition).toEqual(made);
      await server.call("deleteIndex", { ...c, index_type: kind });
    }
    // What says that something else is wanted is not a default.
    for (const [collection_id, body, path] of [
      ["left out dense", {}, "distance_metric_type"],
      [
        "left out dense",
        { ...metric, quantization: { properties: { data_type: "u8" } } },
        "quantization.type",
      ],
    ] as const) {
      const answer = await server.call("createDenseIndex", { collection_id }, body);
      expect(expectError(answer, 400, "invalid_request").details.path).toBe(path);
    }
    const half = await server.call("createCollection", {}, { name: "half", dense_vector: { dimension: 3 } });
    expect(expectError(half, 400, "invalid_request").details.path).toBe("dense_vector.enabled");
  });

  test("[N5] recall: 200 with the measurement; 400 for a parameter out of range, 404 for no index or collection", async () => {
    const c = await collection(3);
    const measured = await server.call("measureRecall", c, undefined, "?sample=2&top_k=5");
    expect(measured.status).toBe(200);
    expect(measured.json).toMatchObject({
      recall: 1,
      worst_recall: 1,
      queries: 2,
      top_k: 5,
      ef_search: null,
    });
    const wrong = await server.call("measureRecall", c, undefined, "?sample=0");
    expect(expectError(wrong, 400, "invalid_request").details.path).toBe("sample");
    await server.call("deleteIndex", { ...c, index_type: "dense" });
    expectError(await server.call("measureRecall", c), 404, "index_not_found");
    expectError(await server.call("measureRecall", nowhere), 404, "collection_not_found");
  });

  test("[Q15] custom stop words: 201, used in searches and returned; 400 with their position", async () => {
    const c = { collection_id: "stop words" };
    await server.makeCollection(c.collection_id, { indexes: false });
    const create = (stop_words: unknown) =>
      server.call("createTextIndex", c, { ...textIndexBody, stop_words });
    for (const [stop_words, path] of [
      [["the", "two words"], "stop_words[1]"],
      [["the", "x".repeat(256)], "stop_words[1]"],
      [Array(2_001).fill("the"), "stop_words"],
    ] as const)
      expect(expectError(await create(stop_words), 400, "invalid_request").details.path).toBe(path);
    expect((await create(["quick"])).status).toBe(201);
    await server.call("streamingUpsert", c, { vectors: [record("a")] });
    const found = async (query: string) =>
      (await server.call("searchText", c, { query })).json.results.length;
    expect([await found("quick"), await found("the")]).toEqual([0, 1]);
    expect((await server.call("getIndexes", c)).json["tf-idf"].stop_words).toEqual(["quick"]);
  });

  test("[Q14] analyze: 200 with each word and its term; 400 for a bad text, 404 for no index or collection", async () => {
    const c = await collection(0);
    const analyzed = await server.call("analyzeText", c, { text: "The foxes" });
    expect(analyzed.status).toBe(200);
    expect(analyzed.json).toEqual({
      language: "english",
      terms: [
        { position: 0, word: "the", term: null, dropped: "stop_word" },
        { position: 1, word: "foxes", term: "fox", dropped: null },
      ],
    });
    const long = await server.call("analyzeText", c, { text: "x".repeat(1024 * 1024 + 1) });
    expect(expectError(long, 400, "invalid_request").details.path).toBe("text");
    expectError(await server.call("analyzeText", nowhere, { text: "x" }), 404, "collection_not_found");
    await server.call("deleteIndex", { ...c, index_type: "tf_idf" });
    const missing = expectError(await server.call("analyzeText", c, { text: "x" }), 404, "index_not_found");
    expect(missing.message).toContain("/indexes/tf-idf");
  });

  test("[H1] delete: 204 for each spelling; 400 for another type, 404 for no index or collection", async () => {
    const c = await collection(2);
    for (const index_type of ["dense", "sparse", "tf_idf"]) {
      const deleted = await server.call("deleteIndex", { ...c, index_type });
      expect([deleted.status, deleted.text]).toEqual([204, ""]);
      expectError(await server.call("deleteIndex", { ...c, index_type }), 404, "index_not_found");
    }
    expect((await server.call("createTextIndex", c, textIndexBody)).status).toBe(201);
    expect((await server.call("deleteIndex", { ...c, index_type: "tf-idf" })).status).toBe(204);
    const error = expectError(
      await server.call("deleteIndex", { ...c, index_type: "hnsw" }),
      400,
      "invalid_request",
    );
    expect(error.details.path).toBe("index_type");
    expectError(
      await server.call("deleteIndex", { ...nowhere, index_type: "dense" }),
      404,
      "collection_not_found",
    );
    expect((await server.call("getCollection", c)).json.vectors_count).toBe(2);
  });
});

describe("search", () => {
  const dense = { query_vector: [1, 1, 0, 0.5] };
  const sparse = { query_terms: [{ index: 1, value: 1 }] };
  const text = { query: "quick fox" };
  const bodies = {
    searchDense: dense,
    searchSparse: sparse,
    searchText: text,
    searchHybrid: { ...dense, query_text: "quick fox" },
    searchBatchDense: { queries: [{ vector: [1, 1, 0, 0.5] }, { vector: [3, 1, 0, 0.5] }] },
    searchBatchSparse: { query_terms_list: [sparse.query_terms, [[5, 1]]] },
    searchBatchText: { queries: ["quick", "number"] },
    searchBatchHybrid: {
      queries: [
        { ...dense, query_text: "fox" },
        { ...sparse, query_text: "fox" },
      ],
    },
  } as const;
  const names = Object.keys(bodies) as (keyof typeof bodies)[];

  test.each(names)("[H1] %s: 200, 400 for bad parameters, 404 for no such collection", async (name) => {
    const c = await collection(3);
    const { status, json } = await server.call(name, c, bodies[name]);
    expect(status).toBe(200);
    const lists = (Array.isArray(json) ? json : [json]) as { results: Record<string, unknown>[] }[];
    expect(lists).toHaveLength(name.includes("Batch") ? 2 : 1);
    for (const { results } of lists) {
      expect(results).toHaveLength(3);
      for (const result of results) {
        expect(Object.keys(result).sort()).toEqual(["document_id", "id", "score", "text"]);
        expect(result.text).toBeNull();
        expect(result.document_id).toBe(`doc-${result.id}`);
      }
      const scores = results.map((result) => result.score as number);
      expect(scores).toEqual([...scores].sort((a, b) => b - a));
    }
    for (const top_k of [0, 10_001, 1.5, "10", true]) {
      const error = expectError(
        await server.call(name, c, { ...bodies[name], top_k }),
        400,
        "invalid_request",
      );
      expect(error.details.path).toBe("top_k");
    }
    expectError(await server.call(name, c, {}), 400, "invalid_request");
    expectError(await server.call(name, nowhere, bodies[name]), 404, "collection_not_found");
    const short = await server.call(name, c, { ...bodies[name], top_k: 1, return_raw_text: true });
    const first = Array.isArray(short.json) ? short.json[0] : short.json;
    expect(first.results).toHaveLength(1);
    expect(first.results[0].text).toMatch(/^the quick fox/);
  });

  test.each(names)("[H1] %s without its index: 400 that names the call which creates it", async (name) => {
    const c = { collection_id: `unindexed ${name}` };
    await server.makeCollection(c.collection_id, { indexes: false });
    const error = expectError(await server.call(name, c, bodies[name]), 400, "index_not_found");
    expect(error.message).toContain("/indexes/");
  });

  test.each(names)("[Q16] %s explains its results on request", async (name) => {
    const c = await collection(3);
    const plain = (await server.call(name, c, { ...bodies[name], explain: false })).text;
    expect(plain).toBe((await server.call(name, c, bodies[name])).text);
    const explained = (await server.call(name, c, { ...bodies[name], explain: true })).json;
    for (const { results, legs: told } of [explained].flat()) {
      // Too few vectors for a graph.
      if (told !== undefined)
        expect(told).toEqual({ dense: { way: "scan all vectors", visited: 3, distances: 3 } });
      for (const { score, explanation } of results) {
        const legs = Object.values(explanation) as { contribution: number }[];
        expect(legs).toHaveLength(name.includes("Hybrid") ? 2 : 1);
        expect(legs.reduce((sum, { contribution }) => sum + contribution, 0)).toBe(score);
      }
    }
    const added = ["explanation", "legs"];
    const without = JSON.stringify(explained, (key, value) => (added.includes(key) ? undefined : value));
    expect(without).toBe(plain);
    const [{ legs: told }] = [explained].flat();
    expect(told === undefined).toBe(!name.includes("Dense") && !name.includes("Hybrid"));
  });

  test("[Q18] operators: 200 in each kind of text search; 400 with the path and the position", async () => {
    const c = { collection_id: "operators" };
    await server.makeCollection(c.collection_id, { indexes: false });
    expect((await server.call("createDenseIndex", c, denseIndexBody)).status).toBe(201);
    expect((await server.call("createTextIndex", c, { ...textIndexBody, positions: true })).status).toBe(201);
    expect((await server.call("getIndexes", c)).json["tf-idf"].positions).toBe(true);
    const texts = { a: "the quick fox", b: "a fox, quick", c: "foxes" };
    const vectors = Object.entries(texts).map(([id, text]) => ({ ...record(id), text }));
    await server.call("streamingUpsert", c, { vectors });
    const idsOf = (answer: { results: { id: string }[] }) => answer.results.map(({ id }) => id).sort();
    const syntax = "operators";
    for (const [query, expected] of [
      ['"quick fox"', ["a"]],
      ['fox -"quick fox"', ["b", "c"]],
      ["+quik~ fo*", ["a", "b"]],
    ] as const) {
      const one = await server.call("searchText", c, { query, syntax });
      expect([one.status, idsOf(one.json)]).toEqual([200, expected]);
      expect((await server.call("searchBatchText", c, { queries: [query], syntax })).json).toEqual([
        one.json,
      ]);
      const legs = { ...dense, query_text: query };
      const hybrid = (await server.call("searchHybrid", c, { ...legs, syntax })).json;
      expect(idsOf({ results: hybrid.results.slice(0, expected.length) })).toEqual(expected);
      const batch = await server.call("searchBatchHybrid", c, { queries: [legs], syntax });
      expect(batch.json).toEqual([hybrid]);
    }
    // Without syntax the same text is a bag of words.
    const plain = await server.call("searchText", c, { query: 'fox -"quick fox"' });
    expect(idsOf(plain.json)).toEqual(["a", "b", "c"]);
    const query = 'fox "quick';
    const refusals = [
      ["searchText", { query }, "query"],
      ["searchBatchText", { queries: ["fox", query] }, "queries[1]"],
      ["searchHybrid", { ...dense, query_text: query }, "query_text"],
      ["searchBatchHybrid", { queries: [{ ...dense, query_text: query }] }, "queries[0].query_text"],
    ] as const;
    for (const [name, body, path] of refusals) {
      const refusal = expectError(await server.call(name, c, { ...body, syntax }), 400, "invalid_request");
      expect(refusal.details).toEqual({ path, position: 4 });
      const unknown = expectError(await server.call(name, c, { ...body, syntax: "lucene" }), 400);
      expect(unknown.details.path).toBe("syntax");
    }
    const bare = await collection(1);
    const phrase = await server.call("searchText", bare, { query: '"quick fox"', syntax });
    expect(expectError(phrase, 400, "invalid_request").message).toContain('"positions": true');
  });

  test("[E3] one bad query fails the batch with its position", async () => {
    const c = await collection(1);
    const at = async (name: keyof typeof bodies, body: unknown) =>
      expectError(await server.call(name, c, body), 400).details.path;
    expect(await at("searchBatchDense", { queries: [{ vector: [1, 2, 3, 4] }, { vector: [1] }] })).toBe(
      "queries[1].vector",
    );
    expect(await at("searchBatchSparse", { query_terms_list: [[], [{ index: 1, value: "a" }]] })).toBe(
      "query_terms_list[1][0]",
    );
    expect(await at("searchBatchText", { queries: ["a", 7] })).toBe("queries[1]");
    expect(await at("searchBatchHybrid", { queries: [{ ...dense, query_text: "a" }, dense] })).toContain(
      "queries[1]",
    );
    expectError(await server.call("searchHybrid", c, dense), 400, "invalid_request");
    expect(await at("searchHybrid", { ...dense, query_text: "a", fusion_constant_k: 0 })).toBe(
      "fusion_constant_k",
    );
    const three = await server.call("searchHybrid", c, { ...dense, ...sparse, query_text: "fox" });
    expect(three.status).toBe(200);
  });
});

describe("transactions", () => {
  test("[H1] create: 200 with id and time; 409 while one is open; 400 for no such collection", async () => {
    const c = await collection(0);
    const { status, json } = await server.call("createTransaction", c);
    expect(status).toBe(200);
    expect(json.created_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    const error = expectError(await server.call("createTransaction", c), 409, "transaction_ongoing");
    expect(error.message).toContain("There is an on-going transaction!");
    expectError(await server.call("createTransaction", nowhere), 400, "collection_not_found");
  });

  test("[H1] add, upsert, delete, commit: buffered until 204, then visible at once", async () => {
    const c = await collection(1);
    const t = await transaction(c);
    const added = await server.call("addVector", t, record("added"));
    expect([added.status, added.json]).toEqual([200, {}]);
    const upserted = await server.call("upsertVectors", t, { vectors: [record("u1"), record("u2")] });
    expect([upserted.status, upserted.json]).toEqual([200, {}]);
    const deleted = await server.call("deleteVectorInTransaction", { ...t, vector_id: "v0" });
    expect([deleted.status, deleted.text]).toEqual([204, ""]);
    expect((await server.call("getCollection", c)).json.vectors_count).toBe(1);
    const notStarted = (await server.call("getTransactionStatus", t)).json.status;
    expect(Object.keys(notStarted)).toEqual(["NotStarted"]);
    const committed = await server.call("commitTransaction", t);
    expect([committed.status, committed.text]).toEqual([204, ""]);
    expect((await server.call("getCollection", c)).json.vectors_count).toBe(3);
    const found = await server.call("searchText", c, { query: "quick fox" });
    expect(found.json.results.map((result: { id: string }) => result.id).sort()).toEqual([
      "added",
      "u1",
      "u2",
    ]);
  });

  test("[H1] status: 200 with the state and its stats; 400, 404; flat for older clients", async () => {
    const c = await collection(0);
    const t = await transaction(c);
    await server.call("upsertVectors", t, { vectors: [record("a"), record("b")] });
    await server.call("commitTransaction", t);
    const state = async () => Object.keys((await server.call("getTransactionStatus", t)).json.status);
    await expect.poll(state).toEqual(["Complete"]);
    const { status, json } = await server.call("getTransactionStatus", t);
    expect(status).toBe(200);
    const { started_at, completed_at, stats } = json.status.Complete;
    for (const time of [started_at, completed_at]) expect(new Date(time).toISOString()).toBe(time);
    expect(stats).toMatchObject({
      records_upserted: 2,
      records_deleted: 0,
      total_operations: 2,
      percentage_complete: 100,
      version_created: 1,
    });
    expect(Number.isInteger(stats.processing_time_seconds)).toBe(true);
    expect(typeof stats.average_throughput).toBe("number");
    const flat = (await server.call("getTransactionStatus", t, undefined, "?format=flat")).json;
    expect(flat).toMatchObject({ status: "complete", stats: { records_upserted: 2 } });
    const odd = await server.call("getTransactionStatus", t, undefined, "?format=round");
    expect(expectError(odd, 400, "invalid_request").details.path).toBe("format");
    expectError(
      await server.call("getTransactionStatus", { ...t, transaction_id: "none" }),
      404,
      "transaction_not_found",
    );
    expectError(
      await server.call("getTransactionStatus", { ...nowhere, transaction_id: "none" }),
      400,
      "collection_not_found",
    );
  });

  test("[H1] abort: 204, nothing remains; not open: 400", async () => {
    const c = await collection(1);
    const t = await transaction(c);
    await server.call("addVector", t, record("gone"));
    const aborted = await server.call("abortTransaction", t);
    expect([aborted.status, aborted.text]).toEqual([204, ""]);
    expect((await server.call("getCollection", c)).json.vectors_count).toBe(1);
    expect(Object.keys((await server.call("getTransactionStatus", t)).json.status)).toEqual(["Aborted"]);
    expectError(await server.call("commitTransaction", t), 400, "transaction_not_open");
    expectError(await server.call("abortTransaction", t), 400, "transaction_not_open");
    expectError(await server.call("addVector", t, record("late")), 400, "transaction_not_open");
    expectError(
      await server.call("upsertVectors", t, { vectors: [record("late")] }),
      400,
      "transaction_not_open",
    );
    const late = await server.call("deleteVectorInTransaction", { ...t, vector_id: "v0" });
    expectError(late, 400, "transaction_not_open");
    expect((await server.call("createTransaction", c)).status).toBe(200);
  });

  test("[H1] every operation: 400 for no such collection, no such transaction; delete: no such vector", async () => {
    const c = await collection(1);
    const t = await transaction(c);
    const unknown = { ...c, transaction_id: "unknown" };
    const lost = { ...nowhere, transaction_id: t.transaction_id };
    const operations = [
      ["commitTransaction", undefined],
      ["abortTransaction", undefined],
      ["addVector", record("a")],
      ["upsertVectors", { vectors: [record("a")] }],
      ["deleteVectorInTransaction", undefined],
    ] as const;
    for (const [name, body] of operations) {
      const vector_id = "v0";
      expectError(await server.call(name, { ...unknown, vector_id }, body), 400, "transaction_not_found");
      expectError(await server.call(name, { ...lost, vector_id }, body), 400, "collection_not_found");
    }
    const absent = await server.call("deleteVectorInTransaction", { ...t, vector_id: "absent" });
    expectError(absent, 400, "vector_not_found");
    await server.call("addVector", t, record("buffered"));
    expect((await server.call("deleteVectorInTransaction", { ...t, vector_id: "buffered" })).status).toBe(
      204,
    );
  });

  test("[E3] bad vector data: 400 with the position, without one for a single vector", async () => {
    const t = await transaction(await collection(0));
    const many = await server.call("upsertVectors", t, {
      vectors: [record("a"), { ...record("b"), dense_values: [1, 2, 3] }],
    });
    const error = expectError(many, 400, "invalid_vector");
    expect(error.details.path).toBe("vectors[1].dense_values");
    expect(error.message).toContain("has 3 values, the collection's dimension is 4");
    const one = await server.call("addVector", t, { ...record("b"), dense_values: [1, 2, 3] });
    expect(expectError(one, 400, "invalid_vector").details.path).toBe("dense_values");
    expectError(await server.call("addVector", t, { id: "empty" }), 400, "invalid_vector");
  });

  test("[H1] list: the open and recent ones, newest first; 400 for no such collection", async () => {
    const c = await collection(0);
    const first = await transaction(c);
    await server.call("abortTransaction", first);
    const second = await transaction(c);
    const { status, json } = await server.call("listTransactions", c);
    expect(status).toBe(200);
    const ids = json.transactions.map((entry: { transaction_id: string }) => entry.transaction_id);
    expect(ids).toEqual([second.transaction_id, first.transaction_id]);
    expect(Object.keys(json.transactions[0].status)).toEqual(["NotStarted"]);
    expectError(await server.call("listTransactions", nowhere), 400, "collection_not_found");
  });
});

describe("vectors", () => {
  const whole = {
    id: "v0",
    document_id: "doc-v0",
    dense_values: [1, 1, 0, 0.5],
    sparse_values: [
      [1, 1],
      [5, 0.5],
    ],
    sparse_indices: [1, 5],
    text: "the quick fox number 1",
    metadata: { seed: 1 },
  };

  test("[H1] get by id: 200 with every field, null where absent; 404, 400", async () => {
    const c = await collection(1);
    const read = await server.call("getVector", { ...c, vector_id: "v0" });
    expect([read.status, read.json]).toEqual([200, whole]);
    await server.call("streamingUpsert", c, { vectors: [{ id: "bare", text: "words" }] });
    expect((await server.call("getVector", { ...c, vector_id: "bare" })).json).toEqual({
      id: "bare",
      document_id: null,
      dense_values: null,
      sparse_values: null,
      sparse_indices: null,
      text: "words",
      metadata: null,
    });
    expectError(await server.call("getVector", { ...c, vector_id: "none" }), 404, "vector_not_found");
    expectError(await server.call("getVector", { ...nowhere, vector_id: "v0" }), 400, "collection_not_found");
    expectError(await server.call("getVector", { ...c, vector_id: "x".repeat(513) }), 400, "invalid_request");
  });

  test("[H1] by document: 200 with an array, empty for an unknown document; 400", async () => {
    const c = await collection(1);
    await server.call("streamingUpsert", c, { vectors: [{ ...record("v9"), document_id: "doc-v0" }] });
    const read = await server.call("vectorsByDocument", c, undefined, "?document_id=doc-v0");
    expect(read.status).toBe(200);
    expect(read.json.map((vector: { id: string }) => vector.id)).toEqual(["v0", "v9"]);
    expect(read.json[0]).toEqual(whole);
    const none = await server.call("vectorsByDocument", c, undefined, "?document_id=none");
    expect([none.status, none.json]).toEqual([200, []]);
    const queries = [
      "",
      "?document_id=",
      "?document_id=a&document_id=b",
      "?document_id=%f0",
      `?document_id=${"x".repeat(513)}`,
    ];
    for (const query of queries) {
      expectError(await server.call("vectorsByDocument", c, undefined, query), 400, "invalid_request");
    }
    expectError(
      await server.call("vectorsByDocument", nowhere, undefined, "?document_id=a"),
      400,
      "collection_not_found",
    );
  });

  test("[H14] exists: HEAD answers 200 or 404 and no body", async () => {
    const c = await collection(1);
    const there = await server.call("vectorExists", { ...c, vector_id: "v0" });
    expect([there.status, there.text]).toEqual([200, ""]);
    const absent = await server.call("vectorExists", { ...c, vector_id: "none" });
    expect([absent.status, absent.text]).toEqual([404, ""]);
    const lost = await server.call("vectorExists", { ...nowhere, vector_id: "v0" });
    expect([lost.status, lost.text]).toEqual([404, ""]);
  });

  test("[H2] any id works when it is percent-encoded", async () => {
    const c = await collection(0);
    const ids = [
      "a/b",
      "%",
      "%25",
      "%2F",
      "a+b",
      "a b",
      "?q=1#f",
      "\u0000",
      "😀",
      "é",
      ";,:@&=$",
      "\"'\\",
      "x".repeat(512),
      "😀".repeat(128),
      "%".repeat(512),
      "__proto__",
      "current",
    ];
    const sent = await server.call("streamingUpsert", c, {
      vectors: ids.map((id) => ({ ...record("x"), id, document_id: id })),
    });
    expect(sent.status, sent.text).toBe(200);
    for (const vector_id of ids) {
      const read = await server.call("getVector", { ...c, vector_id });
      expect([vector_id, read.status, read.json?.id]).toEqual([vector_id, 200, vector_id]);
      expect((await server.call("vectorExists", { ...c, vector_id })).status).toBe(200);
      const query = `?document_id=${encodeURIComponent(vector_id)}`;
      expect((await server.call("vectorsByDocument", c, undefined, query)).json).toHaveLength(1);
      expect((await server.call("streamingDelete", { ...c, vector_id })).status).toBe(204);
    }
    expect((await server.call("getCollection", c)).json.vectors_count).toBe(0);
  });

  test("[H2] . and .. are valid ids for clients that do not normalise paths", async () => {
    const c = await collection(0);
    await server.call("streamingUpsert", c, { vectors: [record("."), record("..")] });
    for (const vector_id of [".", ".."]) {
      const socket = await server.connect();
      const path = `${pathOf("getVector", { ...c, vector_id: "" })}${vector_id.replaceAll(".", "%2e")}`;
      // Without the position of the write, a node of a cluster answers with what it has.
      socket.write(rawHead("GET", path, { "x-quiver-consistency": "strict" }));
      const answer = await readAnswer(socket);
      expect([answer?.status, JSON.parse(answer?.body ?? "{}").id]).toEqual([200, vector_id]);
      socket.destroy();
    }
  });

  test("[H1] delete: 200 with an empty object; 404 for no such vector or collection", async () => {
    const c = await collection(1);
    const deleted = await server.call("deleteVector", { ...c, vector_id: "v0" });
    expect([deleted.status, deleted.json]).toEqual([200, {}]);
    expectError(await server.call("deleteVector", { ...c, vector_id: "v0" }), 404, "vector_not_found");
    expectError(
      await server.call("deleteVector", { ...nowhere, vector_id: "v0" }),
      404,
      "collection_not_found",
    );
  });
});

describe("export", () => {
  test("[H1] export: 200 with a line for each vector of one version; 404 for no such collection", async () => {
    const c = await collection(3);
    const answer = await server.call("exportVectors", c);
    expect(answer.status).toBe(200);
    expect(answer.headers.get("content-type")).toBe("application/x-ndjson; charset=utf-8");
    expect(answer.headers.get("x-quiver-version")).toBe("1");
    expect(answer.headers.get("x-quiver-count")).toBe("3");
    const lines = answer.text.trimEnd().split("\n");
    // Of several shards, the records of one version come shard by shard.
    if (shards > 1) lines.sort();
    expect(lines.map((line) => JSON.parse(line).id)).toEqual(["v0", "v1", "v2"]);
    expect(lines[0]).toBe((await server.call("getVector", { ...c, vector_id: "v0" })).text);
    expect(
      (await server.call("streamingUpsert", c, { vectors: lines.map((line) => JSON.parse(line)) })).status,
    ).toBe(200);
    expectError(await server.call("exportVectors", nowhere), 404, "collection_not_found");
    const empty = await server.call("exportVectors", await collection(0));
    expect([empty.status, empty.text]).toEqual([200, ""]);
  });

  test("[H16] a client that disconnects in the middle of an export affects nothing else", async () => {
    const c = { collection_id: "exported" };
    await server.makeCollection(c.collection_id, { indexes: false });
    const text = "x".repeat(500_000);
    for (let i = 0; i < 10; i++)
      await server.call("streamingUpsert", c, { vectors: [{ id: `v${i}`, text }] });
    for (let i = 0; i < 5; i++) {
      const socket = await server.connect();
      socket.write(rawHead("GET", pathOf("exportVectors", c)));
      await new Promise((resolve) => socket.once("data", resolve));
      socket.destroy();
    }
    const whole = await server.call("exportVectors", c);
    expect(whole.text.trimEnd().split("\n")).toHaveLength(10);
    expect((await server.call("deleteCollection", c)).status).toBe(204);
    expect(server.log.filter((line) => (line.level as number) >= 50)).toEqual([]);
  });
});

describe("streaming", () => {
  test("[H1] upsert: 200 with an empty object, visible at once; 400 applies nothing; 404", async () => {
    const c = await collection(0);
    const done = await server.call("streamingUpsert", c, { vectors: [record("a"), record("b")] });
    expect([done.status, done.json]).toEqual([200, {}]);
    expect((await server.call("searchDense", c, { query_vector: [1, 1, 0, 0] })).json.results).toHaveLength(
      2,
    );
    const before = await server.fingerprint(c.collection_id);
    const bad = await server.call("streamingUpsert", c, {
      vectors: [record("c"), { ...record("d"), dense_values: [1] }],
    });
    expectError(bad, 400, "invalid_vector");
    expect(await server.fingerprint(c.collection_id)).toEqual(before);
    expectError(
      await server.call("streamingUpsert", nowhere, { vectors: [record("a")] }),
      404,
      "collection_not_found",
    );
  });

  test.each(["streamingDelete", "streamingDeleteAlias"] as const)(
    "[H1] %s: 204; 404 for no such vector or collection",
    async (name) => {
      const c = await collection(1);
      const deleted = await server.call(name, { ...c, vector_id: "v0" });
      expect([deleted.status, deleted.text]).toEqual([204, ""]);
      expectError(await server.call(name, { ...c, vector_id: "v0" }), 404, "vector_not_found");
      expectError(await server.call(name, { ...nowhere, vector_id: "v0" }), 404, "collection_not_found");
      expect((await server.call("searchText", c, { query: "fox" })).json.results).toEqual([]);
    },
  );

  test("[H1] an operation beyond max_vectors: 400, nothing changed", async () => {
    const c = { collection_id: "small" };
    await server.makeCollection(c.collection_id, { maxVectors: 2 });
    expect((await server.call("streamingUpsert", c, { vectors: [record("a"), record("b")] })).status).toBe(
      200,
    );
    expectError(
      await server.call("streamingUpsert", c, { vectors: [record("b"), record("c")] }),
      400,
      "max_vectors_exceeded",
    );
    expect((await server.call("getCollection", c)).json.vectors_count).toBe(2);
  });
});

describe("versions", () => {
  test("[H1] list, current, by hash: 200; 404 for no such collection; 400 for an unknown hash", async () => {
    const c = await collection(0);
    for (const id of ["a", "b", "c"]) await server.call("streamingUpsert", c, { vectors: [record(id)] });
    const { status, json } = await server.call("listVersions", c);
    expect(status).toBe(200);
    expect(json.versions.map((version: { version_number: number }) => version.version_number)).toEqual([
      3, 2, 1, 0,
    ]);
    expect(json.versions.map((version: { vector_count: number }) => version.vector_count)).toEqual([
      3, 2, 1, 0,
    ]);
    expect(json.current_hash).toBe(json.versions[0].hash);
    expect(json.current_version).toBe(3);
    expect(json.current_hash).toMatch(/^[0-9a-f]{64}$/);
    const current = await server.call("currentVersion", c);
    expect([current.status, current.json]).toEqual([200, json.versions[0]]);
    const old = await server.call("getVersion", { ...c, version_hash: json.versions[2].hash });
    expect([old.status, old.json]).toEqual([200, json.versions[2]]);
    for (const version_hash of ["x", "0".repeat(64), json.current_hash.toUpperCase()]) {
      expectError(await server.call("getVersion", { ...c, version_hash }), 400, "invalid_version_hash");
    }
    expectError(await server.call("listVersions", nowhere), 404, "collection_not_found");
    expectError(await server.call("currentVersion", nowhere), 404, "collection_not_found");
    expectError(
      await server.call("getVersion", { ...nowhere, version_hash: json.current_hash }),
      404,
      "collection_not_found",
    );
  });

  test("[H12] the list is paged by limit and before", async () => {
    const c = await collection(0);
    for (const id of ["a", "b", "c"]) await server.call("streamingUpsert", c, { vectors: [record(id)] });
    const numbers = async (query: string) =>
      (await server.call("listVersions", c, undefined, query)).json.versions.map(
        (version: { version_number: number }) => version.version_number,
      );
    expect(await numbers("?limit=2")).toEqual([3, 2]);
    expect(await numbers("?limit=2&before=2")).toEqual([1, 0]);
    expect(await numbers("?before=0")).toEqual([]);
    expect(await numbers("?before=9")).toEqual([3, 2, 1, 0]);
    for (const query of [
      "?limit=0",
      "?limit=1001",
      "?limit=a",
      "?limit=1&limit=2",
      "?before=-1",
      "?before=",
    ]) {
      expectError(await server.call("listVersions", c, undefined, query), 400, "invalid_request");
    }
  });
});

describe("sessions", () => {
  test("[A5] create session: 200 with a token and its times; [A6] 400 for wrong credentials", async () => {
    const { status, json } = await server.call(
      "createSession",
      {},
      { username: "admin", password: "test-admin-key" },
    );
    expect(status).toBe(200);
    expect(Object.keys(json).sort()).toEqual(["access_token", "created_at", "expires_at"]);
    expect(json.expires_at - json.created_at).toBe(24 * 3600);
    expect(Math.abs(json.created_at - Date.now() / 1000)).toBeLessThan(60);
    for (const body of [
      { username: "admin", password: "wrong" },
      { username: "root", password: "test-admin-key" },
      { username: "", password: "" },
    ]) {
      expectError(await server.call("createSession", {}, body), 400, "invalid_credentials");
    }
  });
});

// A restore needs no collection: it creates one.
const needsCollection = (Object.entries(operations) as [OperationName, Operation][]).filter(
  ([name, route]) => route.path.includes("{collection_id}") && name !== "restoreCollection",
);

test.each(needsCollection)(
  "[E1] %s answers a missing collection in the shape of every error",
  async (name, route) => {
    const query = name === "vectorsByDocument" ? "?document_id=d" : "";
    const answer = await server.call(name, nowhere, route.body ? bodies[name] : undefined, query);
    expect(answer.headers.get("x-request-id")).toBeTruthy();
    if (route.method === "HEAD") expect([answer.status, answer.text]).toEqual([404, ""]);
    else {
      const status = route.statusOf?.collection_not_found ?? 404;
      const error = expectError(answer, status, "collection_not_found");
      expect(Object.keys(answer.json)).toEqual(["error"]);
      expect(Object.keys(error)).toEqual(["code", "message", "details"]);
    }
  },
);

/** A valid body for each endpoint that takes one. */
const bodies: Partial<Record<OperationName, unknown>> = {
  createMetadataIndex: { type: "keyword" },
  patchCollection: { config: { history: "all" } },
  putCurrentVersion: { version: 1 },
  putTag: { version: 1 },
  copyCollection: { name: "copy" },
  mergeCollection: { from: "copy" },
  putAlias: { collection: "c" },
  countVectors: {},
  facetVectors: { field: "color" },
  scrollVectors: {},
  fetchVectors: { ids: ["a"] },
  deleteMatching: { filter: { color: "red" } },
  updateMatching: { filter: { color: "red" }, metadata: {} },
  patchVector: { metadata: {} },
  createDenseIndex: denseIndexBody,
  createSparseIndex: sparseIndexBody,
  createTextIndex: textIndexBody,
  analyzeText: { text: "x" },
  createSnapshot: {},
  searchDense: { query_vector: [1, 2, 3, 4] },
  searchBatchDense: { queries: [{ vector: [1, 2, 3, 4] }] },
  recommend: { positive: [[1, 2, 3, 4]] },
  searchSparse: { query_terms: [{ index: 1, value: 1 }] },
  searchBatchSparse: { query_terms_list: [[{ index: 1, value: 1 }]] },
  searchText: { query: "x" },
  searchBatchText: { queries: ["x"] },
  searchHybrid: { query_text: "x", query_vector: [1, 2, 3, 4] },
  searchBatchHybrid: { queries: [{ query_text: "x", query_vector: [1, 2, 3, 4] }] },
  addVector: record("a"),
  upsertVectors: { vectors: [record("a")] },
  streamingUpsert: { vectors: [record("a")] },
};
