// Are searches by examples and diverse ones served over HTTP, with and without serving threads' part of them?

import { afterAll, beforeAll, expect, test } from "vitest";
import { expectError, startTestServer, type TestServer } from "./running.ts";

const c = { collection_id: "c" };

let server: TestServer;

beforeAll(async () => {
  server = await startTestServer();
  await server.makeCollection("c");
  const vectors = Array.from({ length: 40 }, (_, i) => ({
    id: i === 7 ? "a/b ü" : `r${i}`,
    dense_values: [Math.cos(i), Math.sin(i), i % 3, 1],
    text: `fox ${i}`,
    metadata: { n: i },
  }));
  vectors.push({ id: "words", text: "fox", metadata: { n: -1 } } as never);
  expect((await server.call("streamingUpsert", c, { vectors })).status).toBe(200);
});
afterAll(() => server.end());

type Results = { results: { id: string; score: number; metadata?: unknown; text: string | null }[] };
const idsOf = ({ results }: Results) => results.map(({ id }) => id);

const f32 = (...values: number[]) => ({
  f32: Buffer.from(new Float32Array(values).buffer).toString("base64"),
});

test("[H1] [H27] [Q25] a search by examples takes ids, vectors and their bytes", async () => {
  const vector = [1, 0, 2, 1];
  const found = await server.call("recommend", c, { positive: [vector], top_k: 5, include: ["metadata"] });
  expect(found.status, found.text).toBe(200);
  const searched = await server.call("searchDense", c, {
    query_vector: vector,
    top_k: 5,
    include: ["metadata"],
  });
  expect(found.text).toBe(searched.text);
  const asBytes = await server.call("recommend", c, {
    positive: [f32(...vector)],
    top_k: 5,
    include: ["metadata"],
  });
  expect(asBytes.text).toBe(found.text);
  const mixed = { positive: ["r1", vector, f32(0, 1, 0, 1)], negative: ["a/b ü", f32(-1, 0, 0, 0)] };
  const { status, json, text } = await server.call("recommend", c, { ...mixed, top_k: 40 });
  expect(status, text).toBe(200);
  expect(idsOf(json)).toHaveLength(38);
  expect(idsOf(json)).not.toContain("r1");
  expect(idsOf(json)).not.toContain("a/b ü");
  const filtered = await server.call("recommend", c, { ...mixed, filter: { n: { lt: 3 } } });
  expect(idsOf(filtered.json).sort()).toEqual(["r0", "r2"]);
});

test("[H1] [Q25] the neighbours of a record are read with GET, with a filter and fields", async () => {
  const { status, json, text } = await server.call("neighbors", { ...c, vector_id: "a/b ü" });
  expect(status, text).toBe(200);
  expect(idsOf(json)).toHaveLength(10);
  expect(idsOf(json)).not.toContain("a/b ü");
  const filter = encodeURIComponent('{"n":{"in":[7,8,9]}}');
  const few = await server.call(
    "neighbors",
    { ...c, vector_id: "a/b ü" },
    undefined,
    `?top_k=5&filter=${filter}&include=text,metadata`,
  );
  expect((few.json as Results).results.map(({ id, text, metadata }) => [id, text, metadata]).sort()).toEqual([
    ["r8", "fox 8", { n: 8 }],
    ["r9", "fox 9", { n: 9 }],
  ]);
  const ask = (query: string, id = "r1") =>
    server.call("neighbors", { ...c, vector_id: id }, undefined, query);
  for (const [query, code, path] of [
    ["?top_k=0", "invalid_request", "top_k"],
    ["?top_k=1&top_k=2", "invalid_request", "top_k"],
    ["?include=metadata,all", "invalid_request", "include"],
    ["?filter=red", "invalid_filter", "filter"],
    ["?filter=[1]", "invalid_filter", "filter"],
    ["?score_threshold=high", "invalid_request", "score_threshold"],
    ["?offset=-1", "invalid_request", "offset"],
    ["?offset=1.5", "invalid_request", "offset"],
    ["?top_k=", "invalid_request", "top_k"],
    ["?top_k=0x10", "invalid_request", "top_k"],
    ["?ef_search=0", "invalid_request", "ef_search"],
    ["?recall_target=2", "invalid_request", "recall_target"],
    ["?diversity=1e1", "invalid_request", "diversity"],
    ["?exact=yes", "invalid_request", "exact"],
    ["?explain=", "invalid_request", "explain"],
    ["?group_size=0", "invalid_request", "group_size"],
  ]) {
    const error = expectError(await ask(query), 400, code as "invalid_request");
    expect(error.details.path).toBe(path);
  }
  expectError(await ask("?topk=1"), 400, "unknown_field");
  expectError(await ask("", "none"), 404, "vector_not_found");
  expectError(await ask("", "words"), 400, "invalid_request");
});

test("[H1] [Q25] the neighbours of a record are those of a search by one example, with every option of it", async () => {
  const options: Record<string, unknown> = {
    top_k: 4,
    filter: { n: { gte: 3 } },
    return_raw_text: true,
    include: ["metadata", "dense_values"],
    score_threshold: -0.9,
    offset: 2,
    group_by: "n",
    group_size: 1,
    ef_search: 60,
    recall_target: 0.9,
    exact: false,
    diversity: 0.25,
    explain: true,
    walk: true,
  };
  for (const some of [options, ...Object.entries(options).map(([name, value]) => ({ [name]: value }))]) {
    if ("group_size" in some && !("group_by" in some)) {
      const answer = await server.call("neighbors", { ...c, vector_id: "r1" }, undefined, "?group_size=1");
      expect(expectError(answer, 400, "invalid_request").details.path).toBe("group_size");
      continue;
    }
    const texts = Object.entries(some).map(([name, value]) => {
      const text = Array.isArray(value) || typeof value !== "object" ? String(value) : JSON.stringify(value);
      return `${name}=${encodeURIComponent(text)}`;
    });
    const found = await server.call("neighbors", { ...c, vector_id: "r1" }, undefined, `?${texts.join("&")}`);
    const expected = await server.call("recommend", c, { positive: ["r1"], ...some });
    expect([found.status, found.json.results]).toEqual([200, expected.json.results]);
    expect("walk" in found.json).toBe("walk" in some);
    expect(found.json.walk).toEqual(expected.json.walk);
    expect(found.json.results.length).toBeGreaterThan(2);
  }
});

test("[H1] [Q26] diverse results come in the order of their choice", async () => {
  const query = { query_vector: [1, 0, 2, 1], top_k: 8 };
  const usual = await server.call("searchDense", c, query);
  expect((await server.call("searchDense", c, { ...query, diversity: 0 })).text).toBe(usual.text);
  const { status, json, text } = await server.call("searchDense", c, { ...query, diversity: 0.7 });
  expect(status, text).toBe(200);
  expect(idsOf(json)[0]).toBe(idsOf(usual.json)[0]);
  const scores = (json as Results).results.map(({ score }) => score);
  expect(scores).not.toEqual([...scores].sort((a, b) => b - a));
  const recommended = await server.call("recommend", c, {
    positive: [query.query_vector],
    top_k: 8,
    diversity: 0.7,
  });
  expect(recommended.text).toBe(text);
});

test("[E3] a wrong example is reported with its place", async () => {
  for (const [body, status, code, path] of [
    [{ positive: ["r1", "none"] }, 404, "vector_not_found", "positive[1]"],
    [{ positive: ["words"] }, 400, "invalid_request", "positive[0]"],
    [{ positive: ["r1"], negative: [{ f32: "AAA" }] }, 400, "invalid_request", "negative[0].f32"],
    [{ positive: [[1, 2]] }, 400, "invalid_request", "positive[0]"],
    [{ positive: [7] }, 400, "invalid_request", "positive[0]"],
    [{ positive: [] }, 400, "invalid_request", "positive"],
  ] as const) {
    const error = expectError(await server.call("recommend", c, body), status, code);
    expect(error.details.path).toBe(path);
  }
});
