// Are earlier versions served over HTTP as the interface says?

import { afterAll, beforeAll, expect, test } from "vitest";
import { expectError, startTestServer, type TestServer } from "./running.ts";

let server: TestServer;
const c = { collection_id: "c" };
const record = (id: string, n: number) => ({
  id,
  dense_values: [n, 1, 0, 0],
  sparse_values: [[1, n]],
  text: "fox",
  metadata: { n },
});

beforeAll(async () => {
  server = await startTestServer();
  await server.makeCollection("c");
  expect((await server.call("patchCollection", c, { config: { history: "all" } })).status).toBe(200);
  // Version n has the records a, ..., each with n.
  for (let n = 1; n <= 4; n++) {
    const vectors = ["a", "b", "c", "d"].slice(0, n).map((id) => record(id, n));
    expect((await server.call("streamingUpsert", c, { vectors })).status).toBe(200);
  }
});
afterAll(() => server.end());

const ids = (found: { id: string }[]) => found.map(({ id }) => id).sort();
const letters = (n: number) => ["a", "b", "c", "d"].slice(0, n);

test("[V4] version and as_of in every body, and in the query string of what has none", async () => {
  const vector = [1, 0, 0, 0];
  for (const version of [1, 3, "2", 4]) {
    const n = Number(version);
    const call = async (name: Parameters<TestServer["call"]>[0], body: object) => {
      const answer = await server.call(name, c, { ...body, version });
      expect(answer.status, answer.text).toBe(200);
      return answer.json;
    };
    expect(await call("countVectors", {})).toEqual({ count: n });
    expect(ids((await call("scrollVectors", {})).vectors)).toEqual(letters(n));
    expect((await call("facetVectors", { field: "n" })).facets).toEqual([{ value: n, count: n }]);
    expect((await call("fetchVectors", { ids: ["a"] }))[0].metadata).toEqual({ n });
    const searches = [
      ["searchDense", { query_vector: vector }],
      ["searchSparse", { query_terms: [[1, 1]] }],
      ["searchText", { query: "fox" }],
      ["searchHybrid", { query_vector: vector, query_text: "fox" }],
      ["recommend", { positive: [vector] }],
    ] as const;
    for (const [name, body] of searches) expect(ids((await call(name, body)).results)).toEqual(letters(n));
    const batches = [
      ["searchBatchDense", { queries: [{ vector }] }],
      ["searchBatchSparse", { query_terms_list: [[[1, 1]]] }],
      ["searchBatchText", { queries: ["fox"] }],
      ["searchBatchHybrid", { queries: [{ query_vector: vector, query_text: "fox" }] }],
    ] as const;
    for (const [name, body] of batches) expect(ids((await call(name, body))[0].results)).toEqual(letters(n));
    const query = `?version=${version}`;
    const got = await server.call("getVector", { ...c, vector_id: "a" }, undefined, query);
    expect(got.json.metadata).toEqual({ n });
    const head = await server.call("vectorExists", { ...c, vector_id: "d" }, undefined, query);
    expect(head.status).toBe(n === 4 ? 200 : 404);
    const exported = await server.call("exportVectors", c, undefined, query);
    expect(exported.headers.get("x-quiver-version")).toBe(String(n));
    expect(exported.text.trim().split("\n")).toHaveLength(n);
    const filtered = await server.call(
      "exportVectors",
      c,
      undefined,
      `${query}&filter=${encodeURIComponent('{"n":{"gt":99}}')}`,
    );
    expect(filtered.text).toBe("");
  }
});

test("[V5] what cannot be read is refused, and names what can", async () => {
  const count = (body: object) => server.call("countVectors", c, body);
  expectError(await count({ version: 5 }), 404, "version_not_found");
  expectError(await count({ as_of: "1999-01-01" }), 404, "version_not_found");
  expectError(await count({ version: 1, as_of: "2026-01-01T00:00:00Z" }), 400, "invalid_request");
  expectError(await count({ version: "nothing" }), 404, "tag_not_found");
  expectError(await count({ version: true }), 400, "invalid_request");
  expectError(await server.call("upsertVectors", { ...c, transaction_id: "x" }, { version: 1 }), 400);
});

test("[V7] the published client's ways to an earlier version answer 200 with the new one", async () => {
  const { versions } = (await server.call("listVersions", c)).json;
  const { hash } = versions.find((each: { version_number: number }) => each.version_number === 2);
  const byNumber = await server.call("putCurrentVersion", c, { version: 3 });
  expect([byNumber.status, byNumber.json]).toMatchObject([200, { version_number: 5, vector_count: 3 }]);
  const byHash = await server.call("putCurrentVersionByHash", { ...c, version_hash: hash });
  expect([byHash.status, byHash.json]).toMatchObject([200, { version_number: 6, vector_count: 2 }]);
  const posted = await server.call("restoreVersion", { ...c, version: "4" });
  expect([posted.status, posted.json]).toMatchObject([200, { version_number: 7, vector_count: 4 }]);
});

test("[V8] a difference is sent as lines", async () => {
  const answer = await server.call("diffVersions", { ...c, version: "1", other: "2" });
  expect(answer.headers.get("content-type")).toContain("application/x-ndjson");
  const lines = answer.text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(lines).toMatchObject([
    { added: 1, changed: 1, removed: 0 },
    { op: "changed", id: "a", vector: { metadata: { n: 2 } } },
    { op: "added", id: "b", vector: { metadata: { n: 2 } } },
  ]);
});

test("[V10] a key with a filter reads the current version only", async () => {
  const made = await server.call("createKey", {}, { name: "one", role: "read", filter: { n: 4 } });
  const { key } = made.json;
  const path = "/vectordb/collections/c/vectors/count";
  expect((await server.ask(path, { method: "POST", body: {}, key })).json).toEqual({ count: 4 });
  for (const [at, body] of [
    [path, { version: 1 }],
    ["/vectordb/collections/c/search/dense", { query_vector: [1, 0, 0, 0], version: 1 }],
  ] as const)
    expectError(await server.ask(at, { method: "POST", body, key }), 403, "forbidden");
});

test("[V4] a collection that is deleted ends the searches of its earlier versions", async () => {
  const d = { collection_id: "d" };
  await server.makeCollection("d");
  await server.call("patchCollection", d, { config: { history: "all" } });
  for (let n = 1; n <= 12; n++) await server.call("streamingUpsert", d, { vectors: [record("a", n)] });
  const reading = Array.from({ length: 12 }, (_, i) =>
    server.call("searchText", d, { query: "fox", version: i + 1 }),
  );
  await server.call("searchText", d, { query: "fox", version: 1 });
  expect((await server.call("deleteCollection", d)).status).toBe(204);
  for (const { status } of await Promise.all(reading)) expect([200, 404]).toContain(status);
  expectError(await server.call("countVectors", d, { version: 1 }), 404, "collection_not_found");
});
