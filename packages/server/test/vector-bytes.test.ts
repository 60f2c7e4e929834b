// Are dense vectors that are given as bytes the same as those that are given as numbers?

import type { OperationName } from "@quiverdb/engine/operations/operations";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expectError, startTestServer, type TestServer } from "./running.ts";

const dimension = 4;
const c = { collection_id: "c" };
const f32 = (...values: number[]) => ({ f32: base64(new Float32Array(values).buffer as ArrayBuffer) });
const base64 = (bytes: ArrayBuffer) => Buffer.from(bytes).toString("base64");
const numbers = [0.1, -0, 1e-40, 3.25].map(Math.fround);

let server: TestServer;
let transaction: Record<string, string>;

beforeAll(async () => {
  server = await startTestServer();
  await server.makeCollection("c", { dimension });
  const vectors = Array.from({ length: 50 }, (_, i) => ({
    id: `r${i}`,
    dense_values: [Math.sin(i), Math.cos(i), i % 7, 0.5].map(Math.fround),
    text: `fox ${i}`,
  }));
  await server.call("streamingUpsert", c, { vectors });
  const { json } = await server.call("createTransaction", c);
  transaction = { ...c, transaction_id: json.transaction_id };
});
afterAll(() => server.end());

describe("[H27] vectors as bytes of 32-bit floats", () => {
  test("every search finds what it finds for the same numbers", async () => {
    const values = [0.3, -0.5, 2, 0.25];
    for (const [route, body] of [
      ["searchDense", (vector: unknown) => ({ query_vector: vector })],
      ["recommend", (vector: unknown) => ({ positive: [vector], negative: ["r3", vector] })],
      ["searchBatchDense", (vector: unknown) => ({ queries: [{ vector: [1, 0, 0, 0] }, { vector }] })],
      ["searchHybrid", (vector: unknown) => ({ query_vector: vector, query_text: "fox 3" })],
      [
        "searchBatchHybrid",
        (vector: unknown) => ({ queries: [{ query_vector: vector, query_text: "fox" }] }),
      ],
    ] as const) {
      const [asNumbers, asBytes] = await Promise.all(
        [values.map(Math.fround), f32(...values)].map((vector) => server.call(route, c, body(vector))),
      );
      expect(asBytes.status, asBytes.text).toBe(200);
      expect(asBytes.text).toBe(asNumbers.text);
      expect(asBytes.text).toContain('"id":"r');
    }
  });

  test("[D3] they are read as they are given, where they are asked for", async () => {
    const given = { id: "bytes", dense_values: f32(...numbers) };
    await server.call("streamingUpsert", c, { vectors: [given, { id: "bare", text: "without a vector" }] });
    const include = ["dense_f32", "dense_values"];
    const read = async (route: OperationName, body: object) => (await server.call(route, c, body)).json;
    const filter = { field: "id", in: ["bytes", "bare"] };
    const { vectors } = await read("scrollVectors", { filter, include });
    const fetched = await read("fetchVectors", { ids: ["bare", "bytes"], include });
    const found = await read("searchDense", { query_vector: numbers, filter: { id: "bytes" }, include });
    const inText = await read("searchText", { query: "without a vector", include, top_k: 1 });
    const explained = await read("searchDense", {
      query_vector: numbers,
      filter: { id: "bytes" },
      include,
      explain: true,
    });
    for (const record of [vectors[1], fetched[1], found.results[0], explained.results[0]]) {
      expect(record.id).toBe("bytes");
      expect({ f32: record.dense_f32 }).toEqual(given.dense_values);
      expect(record.dense_values).toEqual(numbers);
    }
    for (const record of [vectors[0], fetched[0], inText.results[0]])
      expect([record.id, record.dense_f32, record.dense_values]).toEqual(["bare", null, null]);
    expect((await read("scrollVectors", { filter })).vectors[0]).not.toHaveProperty("dense_f32");
  });

  test("they are stored bit for bit, by every kind of upsert", async () => {
    const record = (id: string) => ({ id, dense_values: f32(...numbers) });
    expect((await server.call("streamingUpsert", c, { vectors: [record("s")] })).status).toBe(200);
    expect((await server.call("addVector", transaction, record("a"))).status).toBe(200);
    expect((await server.call("upsertVectors", transaction, { vectors: [record("u")] })).status).toBe(200);
    expect((await server.call("commitTransaction", transaction)).status).toBe(204);
    for (const vector_id of ["s", "a", "u"]) {
      const { json } = await server.call("getVector", { ...c, vector_id });
      expect(json.dense_values).toEqual(numbers);
    }
    const { json } = await server.call("createTransaction", c);
    transaction = { ...c, transaction_id: json.transaction_id };
  });

  test("the characters of base64 for URLs are accepted, too", async () => {
    const bytes = Buffer.from([0xfb, 0xff, 0x7f, 0x3f, 0, 0, 0, 0, 0xff, 0xff, 0xbf, 0x3e, 0, 0, 0, 0]);
    const [plain, forUrls] = [bytes.toString("base64"), bytes.toString("base64url")];
    expect(forUrls).not.toBe(plain.replaceAll("=", ""));
    const padded = forUrls.padEnd(plain.length, "=");
    const answers = await Promise.all(
      [plain, padded].map((text) => server.call("searchDense", c, { query_vector: { f32: text } })),
    );
    expect(answers[0].status).toBe(200);
    expect(answers[1].text).toBe(answers[0].text);
  });

  const one = f32(1, 2, 3, 4).f32;
  test.each([
    ["not base64", one.replace("A", "!"), ".f32"],
    ["with a blank", `${one.slice(0, 8)} ${one.slice(9)}`, ".f32"],
    ["with padding inside", "AAA=AAAA", ".f32"],
    ["not padded", one.replaceAll("=", ""), ".f32"],
    ["of half a float", base64(new ArrayBuffer(18)), ".f32"],
    ["not ASCII", `é${one.slice(1)}`, ".f32"],
    ["empty", "", ""],
    ["too short", f32(1, 2, 3).f32, ""],
    ["too long", f32(1, 2, 3, 4, 5).f32, ""],
    ["with NaN", f32(1, Number.NaN, 3, 4).f32, "[1]"],
    ["with infinity", f32(1, 2, 3, Number.NEGATIVE_INFINITY).f32, "[3]"],
  ])("text %s is 400 with its position, and nothing changes", async (_what, text, end) => {
    const before = await server.fingerprint("c");
    const vector = { f32: text };
    const places: [OperationName, Record<string, string>, unknown, string][] = [
      ["searchDense", c, { query_vector: vector }, "query_vector"],
      ["searchBatchDense", c, { queries: [{ vector: numbers }, { vector }] }, "queries[1].vector"],
      ["searchHybrid", c, { query_vector: vector, query_text: "fox" }, "query_vector"],
      [
        "searchBatchHybrid",
        c,
        { queries: [{ query_vector: vector, query_text: "fox" }] },
        "queries[0].query_vector",
      ],
      [
        "streamingUpsert",
        c,
        {
          vectors: [
            { id: "x", text: "a" },
            { id: "y", dense_values: vector },
          ],
        },
        "vectors[1].dense_values",
      ],
      [
        "upsertVectors",
        transaction,
        {
          vectors: [
            { id: "x", text: "a" },
            { id: "y", dense_values: vector },
          ],
        },
        "vectors[1].dense_values",
      ],
      ["addVector", transaction, { id: "y", dense_values: vector }, "dense_values"],
    ];
    for (const [route, params, body, path] of places) {
      const error = expectError(await server.call(route, params, body), 400);
      expect([route, error.details.path]).toEqual([route, path + end]);
      expect(error.message).toContain(path + end);
      // Never more of what was sent than a position.
      if (text.length > 8) expect(JSON.stringify(error)).not.toContain(text);
    }
    expect(await server.fingerprint("c")).toEqual(before);
  });

  test("any other object, and a field beside f32, are rejected with their path", async () => {
    for (const [vector, path, code] of [
      [{}, "query_vector.f32", "invalid_request"],
      [{ f32: [1, 2, 3, 4] }, "query_vector.f32", "invalid_request"],
      [{ f64: "AAAA" }, "query_vector.f64", "unknown_field"],
      [{ ...f32(1, 2, 3, 4), dtype: "f32" }, "query_vector.dtype", "unknown_field"],
      ["AAAA", "query_vector", "invalid_request"],
    ] as const) {
      const error = expectError(await server.call("searchDense", c, { query_vector: vector }), 400, code);
      expect(error.details.path).toBe(path);
    }
  });

  test("many of them in a large body are read, and a wrong one is found", async () => {
    const vectors = Array.from({ length: 3_000 }, (_, i) => ({ id: `m${i}`, dense_values: f32(i, 1, 2, 3) }));
    expect((await server.call("streamingUpsert", c, { vectors })).status).toBe(200);
    const { json } = await server.call("getVector", { ...c, vector_id: "m2999" });
    expect(json.dense_values).toEqual([2999, 1, 2, 3]);
    vectors[2_500].dense_values = { f32: "????" };
    const error = expectError(await server.call("streamingUpsert", c, { vectors }), 400, "invalid_request");
    expect(error.details.path).toBe("vectors[2500].dense_values.f32");
  });
});
