// The requests and expectations of the published TypeScript and Python clients of this interface: one test for each rule marked (client) in
// the interface decisions.

import { clientKeys } from "@quiverdb/engine/operations/client-keys";
import { type Operation, type OperationName, operations } from "@quiverdb/engine/operations/operations";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  adminKey,
  collectionBody,
  expectError,
  pathOf,
  rawHead,
  readAnswer,
  record,
  startTestServer,
  type TestServer,
} from "./running.ts";

let server: TestServer;
const c = { collection_id: "c" };
beforeAll(async () => {
  server = await startTestServer();
  await server.makeCollection("c");
  await server.call("streamingUpsert", c, { vectors: [record("a", 1), record("b", 2)] });
});
afterAll(() => server.end());

const ids = (answer: { json: { results: { id: string }[] } }) => answer.json.results.map(({ id }) => id);

describe("transport", () => {
  test("[H3] Content-Type: application/json on every request, with an empty body or none, is no body", async () => {
    const open = (await server.call("createTransaction", c)).json.transaction_id as string;
    const t = { ...c, transaction_id: open };
    const vector = { ...c, vector_id: "a" };
    const requests: [string, string, number][] = [
      ["GET", "/vectordb/collections", 200],
      ["GET", pathOf("getCollection", c), 200],
      ["HEAD", pathOf("vectorExists", vector), 200],
      ["GET", `${pathOf("vectorsByDocument", c)}?document_id=doc-a`, 200],
      ["POST", pathOf("loadCollection", c), 200],
      ["POST", pathOf("unloadCollection", c), 200],
      ["DELETE", pathOf("deleteVectorInTransaction", { ...t, vector_id: "b" }), 204],
      ["POST", pathOf("abortTransaction", t), 204],
      ["POST", pathOf("createTransaction", c), 200],
    ];
    for (const [method, path, status] of requests) {
      for (const framing of [{ "Content-Length": 0 }, {}, { "Transfer-Encoding": "chunked" }] as Record<
        string,
        string | number
      >[]) {
        if (path.endsWith("/abort") && framing["Content-Length"] !== 0) continue;
        if (path.endsWith("/transactions") && framing["Content-Length"] !== 0) continue;
        const socket = await server.connect();
        const end = framing["Transfer-Encoding"] ? "0\r\n\r\n" : "";
        socket.write(rawHead(method, path, framing) + end);
        const head = method === "HEAD" ? await firstLine(socket) : (await readAnswer(socket))?.status;
        expect([method, path, framing, head]).toEqual([method, path, framing, status]);
        socket.destroy();
      }
    }
    const again = (await server.call("listTransactions", c)).json.transactions[0].transaction_id as string;
    const commit = await server.ask(pathOf("commitTransaction", { ...c, transaction_id: again }), {
      method: "POST",
      raw: "",
    });
    expect(commit.status).toBe(204);
  });

  test("[H3] no body means an empty object", async () => {
    const empty = (name: "countVectors" | "scrollVectors" | "facetVectors" | "searchText") =>
      server.ask(pathOf(name, c), { method: "POST", raw: "" });
    expect((await empty("countVectors")).json).toEqual((await server.call("countVectors", c, {})).json);
    expect((await empty("scrollVectors")).json).toEqual((await server.call("scrollVectors", c, {})).json);
    const facet = expectError(await empty("facetVectors"), 400, "invalid_request");
    expect([facet.details.path, facet.message]).toEqual([
      "field",
      expect.stringContaining("field is missing"),
    ]);
    expect(expectError(await empty("searchText"), 400, "invalid_request").details.path).toBe("query");
  });

  async function firstLine(socket: Awaited<ReturnType<TestServer["connect"]>>): Promise<number> {
    const [chunk] = await new Promise<[Buffer]>((resolve) => socket.once("data", (data) => resolve([data])));
    return Number(chunk.toString().slice(9, 12));
  }

  test("[H11] a known key of the wrong type or range is 400; null for an optional key means absent", async () => {
    expectError(
      await server.call("searchDense", c, { query_vector: [1, 1, 0, 0], top_k: "5" }),
      400,
      "invalid_request",
    );
    expectError(
      await server.call("searchDense", c, { query_vector: [1, 1, 0, 0], top_k: 0 }),
      400,
      "invalid_request",
    );
    const found = await server.call("searchDense", c, {
      query_vector: [1, 1, 0, 0],
      top_k: null,
      return_raw_text: null,
      ef_search: null,
      exact: null,
    });
    expect(ids(found)).toEqual(["a", "b"]);
    const vector = {
      id: "nulls",
      document_id: null,
      dense_values: null,
      sparse_indices: null,
      sparse_values: null,
      text: "x",
      metadata: null,
    };
    expect((await server.call("streamingUpsert", c, { vectors: [vector] })).status).toBe(200);
    expect((await server.call("deleteVector", { ...c, vector_id: "nulls" })).status).toBe(200);
  });
});

/** The requests of the clients' code, in order; `{t}` is the latest transaction. */
const session = { username: "admin", password: adminKey };
const nodeCollection = {
  name: "recorded",
  dense_vector: { enabled: true, dimension: 4, auto_create_index: false },
  sparse_vector: { enabled: true, auto_create_index: false },
  tf_idf_options: { enabled: true },
  config: { max_vectors: null, replication_factor: null },
  store_raw_text: false,
};
const earlyCollection = {
  name: "recorded",
  description: "early",
  dense_vector: { enabled: true, auto_create_index: false, dimension: 4 },
  sparse_vector: { enabled: true, auto_create_index: false },
  tf_idf_options: { enabled: true },
  metadata_schema: null,
  config: { max_vectors: null, replication_factor: null },
};
const hnsw = {
  type: "hnsw",
  properties: {
    num_layers: 7,
    max_cache_size: 1000,
    ef_construction: 512,
    ef_search: 256,
    neighbors_count: 32,
    level_0_neighbors_count: 64,
  },
};
const denseIndex = {
  name: "recorded_index",
  distance_metric_type: "cosine",
  quantization: { type: "auto", properties: { sample_threshold: 100 } },
  index: hnsw,
};
const sparseIndex = { name: "s", quantization: 64, sample_threshold: 1000 };
const textIndex = { name: "t", sample_threshold: 1000, k1: 1.2, b: 0.75 };
const r = "/vectordb/collections/recorded";
const t = `${r}/transactions/{t}`;
const typed = { index_type: "dense" };
const vectors = [{ ...record("v"), metadata: { source: "recorded" } }];

const recordings: Readonly<Record<string, readonly (readonly [string, string, unknown, number])[]>> = {
  "TypeScript client": [
    ["POST", "/auth/create-session", session, 200],
    ["POST", "/vectordb/collections", nodeCollection, 201],
    ["POST", `${r}/indexes/dense`, denseIndex, 201],
    ["POST", `${r}/indexes/sparse`, { ...sparseIndex, data_type: "sparse" }, 201],
    ["POST", `${r}/indexes/tf-idf`, textIndex, 201],
    ["POST", `${r}/transactions`, typed, 200],
    ["POST", `${t}/upsert`, { ...typed, vectors }, 200],
    ["POST", `${t}/commit`, typed, 204],
    ["POST", `${r}/search/dense`, { query_vector: [1, 1, 0, 0], top_k: 5, return_raw_text: false }, 200],
    ["POST", `${r}/search/tf-idf`, { query_text: "fox", top_k: 5, return_raw_text: false }, 200],
    ["POST", `${r}/transactions`, typed, 200],
    ["POST", `${t}/abort`, typed, 204],
    ["DELETE", `${r}/indexes/tf_idf`, undefined, 204],
    ["DELETE", r, undefined, 204],
  ],
  "Python client": [
    ["POST", "/auth/create-session", session, 200],
    ["POST", "/vectordb/collections", { ...nodeCollection, description: null }, 201],
    ["POST", `${r}/indexes/dense`, denseIndex, 201],
    ["POST", `${r}/indexes/sparse`, sparseIndex, 201],
    ["POST", `${r}/transactions`, undefined, 200],
    ["POST", `${t}/upsert`, { vectors }, 200],
    ["POST", `${t}/commit`, undefined, 204],
    ["POST", `${r}/streaming/upsert`, { vectors }, 200],
    ["DELETE", `${r}/streaming/vectors/v`, undefined, 204],
    ["POST", `${r}/load`, undefined, 200],
    ["DELETE", r, undefined, 204],
  ],
  "early Python client": [
    ["POST", "/vectordb/collections", earlyCollection, 201],
    ["POST", `${r}/indexes/dense`, denseIndex, 201],
    ["POST", `${r}/transactions`, typed, 200],
    ["POST", `${t}/upsert`, { ...typed, vectors }, 200],
    ["POST", `${t}/abort`, typed, 204],
    ["DELETE", r, undefined, 204],
  ],
};

describe("ignored keys", () => {
  test.each(Object.entries(recordings))("[E8] the requests of the %s are accepted", async (_, requests) => {
    let transaction = "";
    for (const [method, path, body, status] of requests) {
      const answer = await server.ask(path.replace("{t}", transaction), { method, body });
      expect([method, path, answer.status, answer.text.slice(0, 300)]).toEqual([
        method,
        path,
        status,
        expect.anything(),
      ]);
      transaction = answer.json?.transaction_id ?? transaction;
    }
  });

  test("[E8] each is accepted where it is sent, and nowhere else", async () => {
    const keys = clientKeys.map(({ key }) => key);
    expect(keys).toEqual(["index_type", "data_type", "metadata_schema"]);
    for (const [name, route] of Object.entries(operations) as [OperationName, Operation][]) {
      if (route.upload || route.method === "GET" || route.method === "HEAD") continue;
      const taken = clientKeys.filter((each) => each.routes.includes(name)).map(({ key }) => key);
      for (const key of keys) {
        const answer = await server.call(name, {}, { [key]: "dense" });
        const unknown = answer.json?.error.code === "unknown_field";
        expect([name, key, unknown, answer.text.slice(0, 200)]).toEqual([
          name,
          key,
          !taken.includes(key),
          expect.anything(),
        ]);
      }
    }
    const nested = { vectors: [{ ...record("n"), index_type: "dense" }] };
    const error = expectError(await server.call("streamingUpsert", c, nested), 400, "unknown_field");
    expect(error.details.path).toBe("vectors[0].index_type");
  });

  test("[E8] none is in the OpenAPI document, which closes every object of a body", async () => {
    const document = (await server.ask("/openapi.json")).text;
    for (const key of ["index_type", "metadata_schema"]) {
      // As a parameter of a path, index_type has a meaning.
      expect(document).not.toMatch(new RegExp(`"${key}":\\{`));
    }
    const { paths } = JSON.parse(document);
    for (const kind of ["dense", "sparse", "tf-idf"]) {
      const { schema } =
        paths[`/vectordb/collections/{collection_id}/indexes/${kind}`].post.requestBody.content[
          "application/json"
        ];
      expect(Object.keys(schema.properties)).not.toContain("data_type");
      expect(schema.additionalProperties).toBe(false);
    }
  });

  test("[E7] an endpoint without a body rejects every field, and anything that is not an object", async () => {
    const error = expectError(await server.call("loadCollection", c, { wait: true }), 400, "unknown_field");
    expect(error.details.path).toBe("wait");
    expectError(
      await server.call("commitTransaction", { ...c, transaction_id: "x" }, [1]),
      400,
      "invalid_request",
    );
    expect((await server.call("loadCollection", c, {})).status).toBe(200);
    expect((await server.ask(pathOf("loadCollection", c), { method: "POST", raw: "null" })).status).toBe(200);
  });
});

describe("authentication", () => {
  test("[A5] create-session gives a bearer token with its times in unix seconds; wrong credentials are 400", async () => {
    const body = { username: "admin", password: adminKey };
    const { status, json } = await server.ask("/auth/create-session", { body, key: null });
    expect(status).toBe(200);
    expect(typeof json.access_token).toBe("string");
    expect(Number.isInteger(json.created_at) && Number.isInteger(json.expires_at)).toBe(true);
    expect((await server.ask("/vectordb/collections", { key: json.access_token })).status).toBe(200);
    const wrong = await server.ask("/auth/create-session", { body: { ...body, password: "x" }, key: null });
    expectError(wrong, 400, "invalid_credentials");
  });
});

describe("collections", () => {
  test("[H11] auto_create_index inside dense_vector or sparse_vector creates that index with defaults", async () => {
    const body = {
      ...collectionBody("auto"),
      dense_vector: { enabled: true, dimension: 4, auto_create_index: true },
      sparse_vector: { enabled: true, auto_create_index: true },
    };
    expect((await server.call("createCollection", {}, body)).status).toBe(201);
    const auto = { collection_id: "auto" };
    const { dense, sparse, "tf-idf": text } = (await server.call("getIndexes", auto)).json;
    expect(dense.distance_metric_type).toBe("cosine");
    expect(dense.index.properties.ef_construction).toBe(128);
    expect(sparse.quantization).toBe(256);
    expect(text).toBeUndefined();
    await server.call("streamingUpsert", auto, { vectors: [record("a")] });
    expect(ids(await server.call("searchDense", auto, { query_vector: [1, 1, 0, 0] }))).toEqual(["a"]);
  });
});

describe("indexes", () => {
  test("[H35] quaternay means quaternary: a definition is returned as it was given, and a status says quaternary", async () => {
    for (const data_type of ["quaternay", "quaternary"]) {
      await server.makeCollection(data_type, { dimension: 64, indexes: false });
      const named = { collection_id: data_type };
      const properties = { data_type, range: { min: -1, max: 1 } };
      const definition = { distance_metric_type: "cosine", quantization: { type: "scalar", properties } };
      expect((await server.call("createDenseIndex", named, definition)).status).toBe(201);
      const values = (i: number) => Array.from({ length: 64 }, (_, j) => Math.sin(1 + i * (j + 1)));
      const vectors = Array.from({ length: 1_100 }, (_, i) => ({ id: `v${i}`, dense_values: values(i) }));
      expect((await server.call("streamingUpsert", named, { vectors })).status).toBe(200);
      const dense = async () => (await server.call("getIndexes", named)).json.dense;
      await expect.poll(dense).toMatchObject({
        quantization: { properties: { data_type } },
        status: { data_type: "quaternary", data_type_reason: expect.not.stringMatching("quaternay") },
      });
    }
  });
});

describe("vectors", () => {
  test("[H11] sparse_values are accepted as pairs or objects, and records that were read can be written back", async () => {
    const forms = [
      [
        [7, 0.5],
        [3, 1],
      ],
      [
        { index: 7, value: 0.5 },
        { index: 3, value: 1 },
      ],
    ];
    for (const [index, sparse_values] of forms.entries()) {
      const id = `form-${index}`;
      const sent = await server.call("streamingUpsert", c, { vectors: [{ id, sparse_values }] });
      expect(sent.status, sent.text).toBe(200);
      const read = (await server.call("getVector", { ...c, vector_id: id })).json;
      expect(read.sparse_values).toEqual([
        [3, 1],
        [7, 0.5],
      ]);
      expect(read.sparse_indices).toEqual([3, 7]);
    }
    const read = await server.call("getVector", { ...c, vector_id: "a" });
    expect(
      (await server.ask(pathOf("streamingUpsert", c), { raw: `{"vectors":[${read.text}]}` })).status,
    ).toBe(200);
    expect((await server.call("getVector", { ...c, vector_id: "a" })).text).toBe(read.text);
  });

  test("[H1] DELETE .../vectors/{id} answers 200 with {}", async () => {
    await server.call("streamingUpsert", c, { vectors: [record("deleted")] });
    const deleted = await server.call("deleteVector", { ...c, vector_id: "deleted" });
    expect([deleted.status, deleted.json]).toEqual([200, {}]);
    expect((await server.call("vectorExists", { ...c, vector_id: "deleted" })).status).toBe(404);
  });

  test("[H1] DELETE .../streaming/vectors/{id} is a streaming delete", async () => {
    await server.call("streamingUpsert", c, { vectors: [record("deleted")] });
    const path = "/vectordb/collections/c/streaming/vectors/deleted";
    expect((await server.ask(path, { method: "DELETE" })).status).toBe(204);
    expect((await server.ask(path, { method: "DELETE" })).status).toBe(404);
  });
});

describe("search", () => {
  test("[H11] query_terms are accepted as [[index, value], ...], query_text for query", async () => {
    const objects = await server.call("searchSparse", c, { query_terms: [{ index: 1, value: 2 }] });
    const pairs = await server.call("searchSparse", c, { query_terms: [[1, 2]] });
    expect(pairs.json).toEqual(objects.json);
    expect(ids(pairs).slice(0, 2)).toEqual(["b", "a"]);
    const batch = await server.call("searchBatchSparse", c, { query_terms_list: [[[1, 2]]] });
    expect(batch.json[0]).toEqual(objects.json);
    const hybrid = await server.call("searchHybrid", c, { query_terms: [[1, 2]], query_text: "fox" });
    expect(hybrid.status).toBe(200);
    const query = await server.call("searchText", c, { query: "fox" });
    const query_text = await server.call("searchText", c, { query_text: "fox" });
    expect(query_text.json).toEqual(query.json);
    expect(ids(query)).toHaveLength(2);
  });
});

describe("transactions", () => {
  test("[H16] batches are upserted concurrently into one transaction, and repeating one changes nothing", async () => {
    const t = {
      ...c,
      transaction_id: (await server.call("createTransaction", c)).json.transaction_id as string,
    };
    const before = (await server.call("getCollection", c)).json.vectors_count as number;
    const batch = (n: number) => ({
      vectors: Array.from({ length: 50 }, (_, i) => record(`batch-${n}-${i}`)),
    });
    const numbers = Array.from({ length: 20 }, (_, n) => n);
    const answers = await Promise.all(
      [...numbers, ...numbers].map((n) => server.call("upsertVectors", t, batch(n))),
    );
    for (const answer of answers) expect([answer.status, answer.json]).toEqual([200, {}]);
    expect((await server.call("commitTransaction", t)).status).toBe(204);
    expect((await server.call("getCollection", c)).json.vectors_count).toBe(before + 1_000);
    const status = (await server.call("getTransactionStatus", t)).json.status;
    const [{ stats }] = Object.values(status) as { stats: { records_upserted: number } }[];
    expect(stats.records_upserted).toBe(2_000);
  });

  test("[E6] the phrases that existing users rely on are in the messages", async () => {
    const again = expectError(await server.call("createCollection", {}, collectionBody("c")), 409);
    expect(again.message).toContain("already exists");
    const open = await server.call("createTransaction", c);
    expect(open.status).toBe(200);
    const second = expectError(await server.call("createTransaction", c), 409);
    expect(second.message).toContain("There is an on-going transaction!");
  });
});
