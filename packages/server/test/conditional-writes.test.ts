// Do writes over HTTP depend on what they say, and are those with a key done once, also across a restart?

import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Operation, type OperationName, operations } from "@quiverdb/engine/operations/operations";
import { afterAll, beforeAll, expect, test } from "vitest";
import { inCluster, shards } from "./nodes.ts";
import { type Answer, expectError, pathOf, startTestServer, type TestServer } from "./running.ts";

let server: TestServer;
let dataDir: string;
const c = { collection_id: "c" };
const record = (id: string, more: object = {}) => ({ id, dense_values: [1, 2, 3, 4], ...more });

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "quiver-conditions-"));
  server = await startTestServer({ dataDir });
  await server.makeCollection("c");
});
afterAll(() => server.end());

const upsert = (...vectors: object[]) => server.call("streamingUpsert", c, { vectors });
const withKey = (key: string, name: OperationName, params: Record<string, string>, body?: unknown) => {
  const { method }: Operation = operations[name];
  return server.ask(pathOf(name, params), { method, body, headers: { "idempotency-key": key } });
};
const currentVersion = async () => (await server.call("currentVersion", c)).json.version_number;
const versionOf = async (id: string) => {
  const [found] = (await server.call("fetchVectors", c, { ids: [id], include: ["version"] })).json;
  return found?.version ?? null;
};
/** Files take what they take at the node that answers. */
const stateOf = ({ status, json, text }: Answer) => [
  status,
  json === undefined ? text : Array.isArray(json) ? json : { ...json, disk_bytes: undefined },
];

test("[V14] the version of a record is included by reads and searches, and a write asks for it", async () => {
  await upsert(record("a", { text: "fox" }));
  const version = await versionOf("a");
  expect(version).toBe(await currentVersion());
  const [searched] = (await server.call("searchText", c, { query: "fox", include: ["version"] })).json
    .results;
  expect(searched.version).toBe(version);
  const [scrolled] = (await server.call("scrollVectors", c, { include: ["version"] })).json.vectors;
  expect(scrolled).toEqual({ id: "a", document_id: null, version });

  const refused = await upsert(record("b"), record("a", { if_match: version + 1 }));
  expectError(refused, 412, "record_changed");
  expect(refused.json.error.details).toEqual({ vector_id: "a", if_match: version + 1, version });
  expectError(await upsert(record("a", { if_absent: true })), 412, "record_changed");
  expect(await currentVersion()).toBe(version);
  expect((await upsert(record("a", { if_match: version }), record("b", { if_absent: true }))).status).toBe(
    200,
  );

  const patched = await server.call(
    "patchVector",
    { ...c, vector_id: "a" },
    { metadata: {}, if_match: version },
  );
  expectError(patched, 412, "record_changed");
  const at = `?if_match=${version}`;
  for (const name of ["streamingDelete", "streamingDeleteAlias", "deleteVector"] as const)
    expectError(await server.call(name, { ...c, vector_id: "a" }, undefined, at), 412, "record_changed");
  const now = await versionOf("a");
  const patch = { metadata: { n: 1 }, if_match: now };
  expect((await server.call("patchVector", { ...c, vector_id: "a" }, patch)).status).toBe(200);
  const last = await versionOf("a");
  const deleted = await server.call(
    "streamingDelete",
    { ...c, vector_id: "a" },
    undefined,
    `?if_match=${last}`,
  );
  expect(deleted.status).toBe(204);
});

test("[V14] conditions in a transaction are judged by its commit, which leaves it open", async () => {
  await upsert(record("t1"));
  const version = await versionOf("t1");
  const { transaction_id } = (await server.call("createTransaction", c)).json;
  const one = { ...c, transaction_id };
  await server.call("upsertVectors", one, { vectors: [record("t1", { if_match: version })] });
  await server.call("addVector", one, record("t2", { if_absent: true }));
  await upsert(record("t2"));
  expectError(await server.call("commitTransaction", one), 412, "record_changed");
  await server.call("deleteVector", { ...c, vector_id: "t2" });
  expect((await server.call("commitTransaction", one)).status).toBe(204);
  expect(await versionOf("t1")).toBe(await currentVersion());
});

test("[V14] wrong conditions are refused with their places; a key with a filter may not ask for versions", async () => {
  for (const [wrong, path] of [
    [{ if_match: 0 }, "vectors[1].if_match"],
    [{ if_match: "1" }, "vectors[1].if_match"],
    [{ if_absent: 1 }, "vectors[1].if_absent"],
    [{ if_match: 1, if_absent: true }, "vectors[1].if_absent"],
  ] as const) {
    const answer = await upsert(record("x"), record("y", wrong));
    expectError(answer, 400);
    expect(answer.json.error.details.path).toBe(path);
  }
  const { key } = (await server.call("createKey", {}, { name: "one", role: "write", filter: { n: 4 } })).json;
  const ask = (name: OperationName, body: unknown) =>
    server.ask(pathOf(name, c), { method: "POST", body, key });
  const mine = (more: object) => ({ vectors: [record("mine", { metadata: { n: 4 }, ...more })] });
  expectError(await ask("streamingUpsert", mine({ if_match: 1 })), 403, "forbidden");
  expectError(await ask("fetchVectors", { ids: ["a"], include: ["version"] }), 403, "forbidden");
  expectError(await ask("scrollVectors", { include: ["version"] }), 403, "forbidden");
  expectError(
    await ask("searchDense", { query_vector: [1, 2, 3, 4], include: ["version"] }),
    403,
    "forbidden",
  );
  // To several shards, a key with a filter writes nothing.
  if (shards > 1)
    return expectError(await ask("streamingUpsert", mine({ if_absent: true })), 403, "forbidden");
  expect((await ask("streamingUpsert", mine({ if_absent: true }))).status).toBe(200);
  expectError(await ask("streamingUpsert", mine({ if_absent: true })), 412, "record_changed");
});

/** Each request that takes a key, with what it needs; run in this order. */
const keyed: [OperationName, Record<string, string>, unknown?][] = [
  ["createCollection", {}, { name: "made", dense_vector: { enabled: true, dimension: 4 } }],
  ["createDenseIndex", { collection_id: "made" }, { distance_metric_type: "cosine" }],
  ["patchCollection", { collection_id: "made" }, { config: { history: "all" } }],
  ["streamingUpsert", { collection_id: "made" }, { vectors: [record("a"), record("b"), record("d")] }],
  ["patchVector", { collection_id: "made", vector_id: "a" }, { metadata: { n: 1 } }],
  ["updateMatching", { collection_id: "made" }, { filter: { n: 1 }, metadata: { n: 2 } }],
  ["putTag", { collection_id: "made", tag: "t" }, {}],
  ["copyCollection", { collection_id: "made" }, { name: "made-copy" }],
  ["streamingDelete", { collection_id: "made-copy", vector_id: "b" }],
  ["mergeCollection", { collection_id: "made" }, { from: "made-copy" }],
  ["deleteMatching", { collection_id: "made" }, { filter: { n: 2 } }],
  ["restoreVersion", { collection_id: "made", version: "t" }],
  ["putCurrentVersion", { collection_id: "made" }, { version: 1 }],
  ["streamingDeleteAlias", { collection_id: "made", vector_id: "a" }],
  ["deleteVector", { collection_id: "made", vector_id: "d" }],
  ["createMetadataIndex", { collection_id: "made", field: "n" }, { type: "number" }],
  ["deleteMetadataIndex", { collection_id: "made", field: "n" }],
  ["deleteIndex", { collection_id: "made", index_type: "dense" }],
  ["deleteTag", { collection_id: "made", tag: "t" }],
  ["putAlias", { alias: "name" }, { collection: "made" }],
  ["deleteAlias", { alias: "name" }],
  ["deleteCollection", { collection_id: "made" }],
];

test("[V15] every kind of write is answered alike when it comes again with its key, also after a restart", async () => {
  const first: unknown[] = [];
  for (const [name, params, body] of keyed) {
    const answer = await withKey(`key-${name}`, name, params, body);
    expect(answer.status, `${name}: ${answer.text}`).toBeLessThan(300);
    first.push(stateOf(answer));
    // While later requests have not changed what it is about: a collection that is deleted answers nothing.
    if (name !== "deleteCollection")
      expect(stateOf(await withKey(`key-${name}`, name, params, body)), name).toEqual(stateOf(answer));
  }
  if (!inCluster) {
    await server.close();
    server = await startTestServer({ dataDir });
  }
  for (const [i, [name, params, body]] of keyed.entries())
    if (params.collection_id === undefined || name === "copyCollection" || name === "deleteCollection")
      expect(stateOf(await withKey(`key-${name}`, name, params, body)), name).toEqual(first[i]);
  // Nothing was created again.
  expectError(await server.call("getCollection", { collection_id: "made" }), 404);
  expect((await server.call("listAliases")).json.aliases).toEqual([]);
  await server.call("deleteCollection", { collection_id: "made-copy" });
});

test("[V15] a transaction whose requests are all sent twice is one transaction, also after a restart", async () => {
  const twice = async (key: string, name: OperationName, params: Record<string, string>, body?: unknown) => {
    const [a, b] = [await withKey(key, name, params, body), await withKey(key, name, params, body)];
    expect(stateOf(b)).toEqual(stateOf(a));
    return a;
  };
  const { transaction_id } = (await twice("tx", "createTransaction", c)).json;
  const one = { ...c, transaction_id };
  await twice("tx-1", "addVector", one, record("x1"));
  await twice("tx-2", "upsertVectors", one, { vectors: [record("x2"), record("x3")] });
  await twice("tx-3", "deleteVectorInTransaction", { ...one, vector_id: "x3" });
  await twice("tx-4", "commitTransaction", one);
  if (!inCluster) {
    await server.close();
    server = await startTestServer({ dataDir });
  }
  const version = await currentVersion();
  await twice("tx-4", "commitTransaction", one);
  expect(await currentVersion()).toBe(version);
  const { stats } = Object.values((await server.call("getTransactionStatus", one)).json.status)[0] as {
    stats: { records_upserted: number; records_deleted: number };
  };
  expect([stats.records_upserted, stats.records_deleted]).toEqual([3, 1]);
  const aborted = (await twice("tx-5", "createTransaction", c)).json;
  await twice("tx-6", "abortTransaction", { ...c, transaction_id: aborted.transaction_id });
});

test("[V15] of many that come at once with one key, one is done", async () => {
  const version = await currentVersion();
  const all = await Promise.all(
    Array.from({ length: 20 }, () => withKey("many", "streamingUpsert", c, { vectors: [record("many")] })),
  );
  expect(new Set(all.map(({ status }) => status))).toEqual(new Set([200]));
  expect(await currentVersion()).toBe(version + 1);
  const body = { name: "many", dense_vector: { enabled: true, dimension: 4 } };
  const made = await Promise.all(
    Array.from({ length: 8 }, () => withKey("many", "createCollection", {}, body)),
  );
  // Nodes of a cluster do not wait for each other's requests.
  const statuses = new Set(made.map(({ status }) => status));
  expect(statuses.delete(201)).toBe(true);
  expect([...statuses]).toEqual(inCluster && statuses.size > 0 ? [409] : []);
});

test("[V15] a key of another request, a wrong one, and one for a request that takes none are refused", async () => {
  await withKey("mine", "streamingUpsert", c, { vectors: [record("k")] });
  const other = await withKey("mine", "streamingUpsert", c, { vectors: [record("k2")] });
  expectError(other, 422, "idempotency_key_reused");
  await withKey("cat", "putAlias", { alias: "cat" }, { collection: "c" });
  expectError(await withKey("cat", "deleteAlias", { alias: "cat" }), 422, "idempotency_key_reused");
  expect((await server.call("deleteAlias", { alias: "cat" })).status).toBe(204);
  for (const wrong of ["", "x".repeat(256), "é"])
    expectError(await withKey(wrong, "streamingUpsert", c, { vectors: [] }), 400, "invalid_request");
  for (const [name, operation] of Object.entries(operations) as [OperationName, Operation][]) {
    const isWrite = operation.role !== "read" && operation.role !== "anyone" && operation.method !== "GET";
    if (!isWrite || operation.once) continue;
    const answer = await withKey("none", name, { ...c, key_id: "x", snapshot_id: "x" }, {});
    expect([name, answer.status, answer.json.error.details.path]).toEqual([name, 400, "idempotency-key"]);
  }
  // Reads change nothing: a program may send the header with every request.
  expect((await withKey("read", "countVectors", c, {})).status).toBe(200);
});
