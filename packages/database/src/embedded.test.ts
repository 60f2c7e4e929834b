// The same database in the same process, and what differs there.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { expect, it } from "vitest";
import { animals, codeOf, databaseContract, makeCollectionIn } from "../../client/test/database-contract.ts";
import { connect, type Database, open, startServer } from "./index.ts";

let dataDir: string;
let database: Database;

databaseContract(
  async () => {
    dataDir = mkdtempSync(join(tmpdir(), "quiver-embedded-"));
    database = await open(dataDir);
    return database;
  },
  async () => {
    await database.close();
    rmSync(dataDir, { recursive: true });
  },
);

it("[P2] a caller's objects stay as they are, and are not kept", async () => {
  const collection = await makeCollectionIn(database, { indexes: false });
  const metadata = { at: new Date(0), none: undefined, deep: { list: [1] } };
  const record = { id: "mine", dense_values: new Float64Array([0.1, 1]), metadata };
  await collection.upsert(record);
  metadata.deep.list.push(2);
  record.dense_values[0] = 7;
  const stored = await collection.get("mine");
  expect(stored.metadata).toEqual({ at: "1970-01-01T00:00:00.000Z", deep: { list: [1] } });
  expect(stored.dense_values?.[0]).toBeCloseTo(0.1, 6);
});

it("[P2] a result is printed with its metadata", async () => {
  const collection = await makeCollectionIn(database, { indexes: false });
  await collection.upsert({ id: "a", dense_values: [1, 0], metadata: { year: 2021 } });
  await collection.createDenseIndex({ distance_metric_type: "cosine" });
  const { results } = await collection.search.dense({ query_vector: [1, 0], include: ["metadata"] });
  expect(inspect(results[0])).toContain("metadata: { year: 2021 }");
});

it("[P1] a record that cannot be stored is refused with its position, whatever is wrong with it", async () => {
  const collection = await makeCollectionIn(database, { indexes: false });
  const good = { id: "good", dense_values: [1, 0] };
  const loop: Record<string, unknown> = {};
  loop.loop = loop;
  const wrong: unknown[] = [
    null,
    "text",
    [1, 0],
    { id: "a", dense_values: [1, Number.NaN] },
    { id: "a", dense_values: new Float32Array([1, Number.POSITIVE_INFINITY]) },
    { id: "a", dense_values: [1] },
    { id: "a", dense_values: [1, 0], metadataJson: "{}" },
    { id: "a", dense_values: [1, 0], metadata: loop },
    { id: "a", dense_values: [1, 0], metadata: { n: 1n } },
  ];
  for (const record of wrong) {
    const error = await collection.upsert([good, record] as never).catch((thrown: Error) => thrown);
    expect((error as Error).message).toMatch(/^vectors\[1\]/);
  }
  expect(await collection.has("good")).toBe(false);
});

it("[P4] a call can be cancelled, and has a time limit", async () => {
  const collection = await makeCollectionIn(database, { records: animals });
  const gone = AbortSignal.abort(new Error("enough"));
  await expect(collection.search.dense({ query_vector: [1, 0] }, { signal: gone })).rejects.toThrow("enough");
  const many = Array.from({ length: 5_000 }, () => ({ vector: [1, 0] }));
  const slow = collection.search.batchDense({ queries: many, top_k: 10, exact: true }, { timeoutMs: 1 });
  expect(await codeOf(slow)).toEqual(["deadline_exceeded", 504]);
});

it("[P4] a signal that is over, or whose time is 0, stops every call, and no write begins", async () => {
  const collection = await makeCollectionIn(database, { records: animals });
  const vector = [1, 0];
  const calls: Record<string, (call: { signal: AbortSignal }) => Promise<unknown>> = {
    dense: (call) => collection.search.dense({ query_vector: vector }, call),
    sparse: (call) => collection.search.sparse({ query_terms: [[7, 1]] }, call),
    text: (call) => collection.search.text({ query: "bees" }, call),
    hybrid: (call) => collection.search.hybrid({ query_vector: vector, query_text: "bees" }, call),
    batch: (call) => collection.search.batchDense({ queries: [{ vector }] }, call),
    recommend: (call) => collection.search.recommend({ positive: ["bee"] }, call),
    neighbors: (call) => collection.neighbors("bee", {}, call),
    get: (call) => collection.get("bee", call),
    getJson: (call) => collection.getJson("bee", call),
    has: (call) => collection.has("bee", call),
    count: (call) => collection.count(null, call),
    facet: (call) => collection.facet({ field: "legs" }, call),
    scroll: (call) => collection.scroll({}, call),
    scrolling: async (call) => {
      for await (const _ of collection.scroll({}, call));
    },
    export: async (call) => {
      for await (const _ of collection.export(call));
    },
    describe: (call) => collection.describe(call),
    upsert: (call) => collection.upsert(animals, call),
    upsertMany: (call) =>
      collection.upsert(
        Array.from({ length: 3_000 }, (_, i) => ({ id: `n${i}`, text: "x" })),
        call,
      ),
    delete: (call) => collection.delete("bee", call),
    deleteMatching: (call) => collection.deleteMatching({ id: "bee" }, call),
    patch: (call) => collection.patch("bee", { legs: 5 }, call),
    transaction: (call) => collection.transaction(call),
    index: (call) => collection.createMetadataIndex("legs", "number", call),
    create: (call) => database.createCollection({ name: "late", tf_idf_options: { enabled: true } }, call),
    drop: (call) => collection.drop(call),
  };
  const before = await collection.currentVersion();
  for (const [name, act] of Object.entries(calls)) {
    for (const signal of [AbortSignal.timeout(0), AbortSignal.any([AbortSignal.timeout(0)])])
      await expect(act({ signal }), name).rejects.toMatchObject({ name: "TimeoutError" });
    const gone = { signal: AbortSignal.abort(new Error("enough")) };
    await expect(act(gone), name).rejects.toThrow("enough");
  }
  expect(await collection.currentVersion()).toEqual(before);
  expect(await collection.transactions()).toEqual([]);
  expect(await collection.metadataIndexes()).toEqual([]);
  expect(await codeOf(database.getCollection("late"))).toEqual(["collection_not_found", 404]);
  // A signal with time left, and one without a timer, stop nothing.
  for (const signal of [AbortSignal.timeout(60_000), new AbortController().signal]) {
    await collection.upsert(animals, { signal });
    expect((await collection.search.dense({ query_vector: vector }, { signal })).results).toHaveLength(3);
    expect(await collection.count(null, { signal })).toBe(3);
  }
});

it("[P4] a signal that aborts meanwhile stops a search, a batch, an export and a scroll", async () => {
  const collection = await makeCollectionIn(database, { indexes: false });
  await collection.createDenseIndex({ distance_metric_type: "euclidean" });
  await collection.upsert(
    Array.from({ length: 20_000 }, (_, i) => ({ id: `m${i}`, dense_values: [i, i % 7], metadata: { n: i } })),
  );
  await collection.waitForIndex({ timeoutMs: 60_000 });
  const queries = Array.from({ length: 2_000 }, (_, i) => ({ vector: [i, 1] }));
  const long: Record<string, (call: { signal: AbortSignal }) => Promise<unknown>> = {
    batch: (call) => collection.search.batchDense({ queries, exact: true }, call),
    "batch with filters": (call) =>
      collection.search.batchDense(
        { queries: queries.map((query, i) => ({ ...query, filter: { n: { gte: i } } })) },
        call,
      ),
    count: (call) =>
      collection.count({ and: Array.from({ length: 500 }, (_, i) => ({ n: { ne: -i } })) }, call),
    export: async (call) => {
      for await (const _ of collection.export(call));
    },
    scroll: async (call) => {
      for await (const _ of collection.scroll({ limit: 50 }, call));
    },
  };
  for (const [name, act] of Object.entries(long)) {
    const controller = new AbortController();
    const running = act({ signal: controller.signal });
    setImmediate(() => setImmediate(() => controller.abort(new Error("enough"))));
    await expect(running, name).rejects.toThrow("enough");
  }
});

it("[P5] what only a server has is said to be the server's", async () => {
  expect(await codeOf(database.request("listKeys"))).toEqual(["route_not_found", 404]);
});

it("[P3] a directory is used in process, then served, with the same records; two owners at a time are refused", async () => {
  const directory = mkdtempSync(join(tmpdir(), "quiver-moved-"));
  const inProcess = await open(directory);
  const { name } = await makeCollectionIn(inProcess, { records: animals });
  const before = await inProcess.collection(name).get("bee");
  expect(await codeOf(open(directory, { lockWaitMs: 0 }))).toEqual(["data_directory_in_use", 409]);
  await inProcess.close();
  const server = await startServer({
    dataDir: directory,
    port: 0,
    adminKey: "the-admin-key",
    logLevel: "silent",
  });
  const overHttp: Database = connect(server.url, { apiKey: "the-admin-key" });
  expect(await overHttp.collection(name).get("bee")).toEqual(before);
  await overHttp.close();
  await server.close();
  rmSync(directory, { recursive: true });
});

it("[O14] one search or read after the other does not stop the rest of the program", async () => {
  const collection = await makeCollectionIn(database);
  await collection.upsert(animals);
  const calls: Record<string, () => Promise<unknown>> = {
    search: () => collection.search.dense({ query_vector: [1, 0] }),
    batch: () => collection.search.batchDense({ queries: [{ vector: [1, 0] }] }),
    get: () => collection.get(animals[0].id),
    scroll: () => collection.scroll(),
    count: () => collection.count(),
    byDocument: () => collection.byDocument("none"),
    describe: () => collection.describe(),
    has: () => collection.has("absent"),
    export: async () => {
      for await (const _ of collection.export()) return;
    },
    failing: () => codeOf(collection.fetch({ ids: ["a"], wrong: 1 } as never)),
    list: () => database.listCollections(),
  };
  for (const [name, call] of Object.entries(calls)) {
    await call();
    let turns = 0;
    const timer = setInterval(() => turns++, 1);
    const begun = process.threadCpuUsage();
    // Nothing here waits for anything else than the answers. The time is the processor's, for this thread: on a busy machine the process has
    // little of any other, and compiling and building in other threads take much of it.
    while (process.threadCpuUsage(begun).user < 200_000) await call();
    clearInterval(timer);
    expect(turns, name).toBeGreaterThan(5);
  }
});

it("[O14] what a caller changes after a call does not change the call, however busy the thread is", async () => {
  const collection = await makeCollectionIn(database, { indexes: false });
  await collection.createDenseIndex({ distance_metric_type: "euclidean" });
  await collection.upsert(Array.from({ length: 50 }, (_, i) => ({ id: String(i), dense_values: [i, 0] })));
  const query = [0, 0];
  const answers = Array.from({ length: 50 }, (_, i) => {
    const end = performance.now() + 0.5;
    while (performance.now() < end);
    query[0] = i;
    return collection.search.dense({ query_vector: query, top_k: 1 });
  });
  const counted = collection.count();
  const found = await Promise.all(answers);
  expect(found.map(({ results }) => results[0].id)).toEqual(found.map((_, i) => String(i)));
  expect(await counted).toBe(50);
});
