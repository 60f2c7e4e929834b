// How does the engine handle requests beyond its time or memory?

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { limits } from "@quiverdb/protocol/limits";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Collection, Database, DatabaseOptions } from "./contract.ts";
import { openDatabase } from "./database.ts";

const dimension = 64;
let directory: string;
let database: Database | null = null;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "quiver-overload-"));
});
afterEach(async () => {
  await database?.close();
  database = null;
  rmSync(directory, { recursive: true, force: true });
});

async function open(options: Partial<DatabaseOptions> = {}): Promise<Database> {
  await database?.close();
  database = await openDatabase({ dataDir: directory, ...options });
  return database;
}

const vectorOf = (seed: number) =>
  Array.from({ length: dimension }, (_, i) => Math.sin(seed * 7 + i * (1 + (seed % 5))));
const vectors = (count: number, from = 0) =>
  Array.from({ length: count }, (_, i) => ({
    id: `v${from + i}`,
    dense_values: vectorOf(from + i),
    text: `word${i % 50}`,
  }));

async function makeCollection(db: Database, name: string, budget: number | null = null): Promise<Collection> {
  await db.createCollection({
    name,
    dense_vector: { enabled: true, dimension },
    sparse_vector: { enabled: false },
    tf_idf_options: { enabled: true },
    config: { memory_budget_bytes: budget },
  });
  return db.collection(name);
}

const denseIndex = {
  name: "d",
  distance_metric_type: "cosine",
  quantization: { type: "scalar", properties: { data_type: "f32" } },
  index: { type: "hnsw", properties: {} },
} as const;
const textIndex = { name: "t", sample_threshold: 100, k1: 1.2, b: 0.75 };

const codeOf = async (act: () => unknown): Promise<string> => {
  try {
    await act();
    return "done";
  } catch (error) {
    return (error as { code?: string }).code ?? (error as Error).message;
  }
};

/** A batch of exact searches that takes much longer than any deadline here. */
const long = () => ({
  queries: Array.from({ length: 5_000 }, (_, i) => ({ vector: vectorOf(i % 100) })),
  top_k: 1,
  exact: true,
});

it("[O3] a deadline ends a search between two queries, and a caller who leaves ends it as well", async () => {
  const collection = await makeCollection(await open(), "c");
  await collection.createIndex("dense", denseIndex);
  for (let from = 0; from < 20_000; from += 5_000) await collection.upsert(vectors(5_000, from));
  await collection.indexed();
  await expect(collection.search("batchDense", long(), { timeoutMs: 50 })).rejects.toMatchObject({
    code: "deadline_exceeded",
    status: 504,
    details: { timeout_ms: 50 },
  });
  const gone = new AbortController();
  const search = codeOf(() => collection.search("batchDense", long(), { signal: gone.signal }));
  setTimeout(() => gone.abort(new Error("the caller has left")), 30);
  expect(await search).toBe("the caller has left");
  expect(await codeOf(() => collection.measureRecall({ sample: 10_000 }, { timeoutMs: 30 }))).toBe(
    "deadline_exceeded",
  );
  // Nothing of it is left: the collection can be unloaded, and searched again.
  await collection.unload();
  expect(
    (await collection.search("dense", { query_vector: vectorOf(3), top_k: 1 }, { timeoutMs: 60_000 }))
      .results,
  ).toHaveLength(1);
});

it("[O3] a search that waits for its index is stopped by its deadline, and the others get their results", async () => {
  const collection = await makeCollection(await open(), "c");
  for (let from = 0; from < 10_000; from += 5_000) await collection.upsert(vectors(5_000, from));
  await collection.createIndex("tf-idf", textIndex);
  await collection.unload();
  const search = (timeoutMs?: number) =>
    collection.search("text", { query: "word7", top_k: 1 }, { timeoutMs });
  const [hasty, patient] = await Promise.allSettled([search(1), search()]);
  expect(hasty).toMatchObject({ status: "rejected", reason: { code: "deadline_exceeded" } });
  expect(patient).toMatchObject({ status: "fulfilled" });
});

it("[O3] no part of a write after its deadline is applied; one that has reached the writer is executed and answered", async () => {
  const collection = await makeCollection(await open(), "c");
  const before = collection.currentVersion();
  const transaction = collection.transaction((await collection.beginTransaction()).transaction_id);
  const gone = new AbortController();
  gone.abort(new Error("left"));
  for (const [options, code] of [
    [{ timeoutMs: 0 }, "deadline_exceeded"],
    [{ signal: gone.signal }, "left"],
  ] as const) {
    expect(await codeOf(() => collection.upsert(vectors(1), options))).toBe(code);
    expect(await codeOf(() => transaction.upsert(vectors(1), options))).toBe(code);
    expect(await codeOf(() => transaction.commit(options))).toBe(code);
  }
  expect(collection.currentVersion()).toEqual(before);
  expect(transaction.status().status).toHaveProperty("NotStarted");
  const late = new AbortController();
  const written = collection.upsert(vectors(1), { signal: late.signal });
  late.abort(new Error("left"));
  await written;
  expect(collection.has("v0")).toBe(true);
});

it("[O5] loads, indexes and writes beyond the process' budget are rejected and change nothing; reads and deletes continue", async () => {
  const unlimited = await open();
  for (const name of ["a", "b"]) {
    const collection = await makeCollection(unlimited, name);
    // Without vectors in memory, which take what is left of a budget.
    await collection.createIndex("dense", {
      ...denseIndex,
      index: { type: "hnsw", properties: { max_cache_size: 1 } },
    });
    await collection.upsert(vectors(2_000));
    await expect
      .poll(() => collection.indexes().dense?.status.percentage_complete, { timeout: 60_000 })
      .toBe(100);
  }
  // Room for one restored collection, and a little more.
  const restored = await open();
  await restored.recovered;
  const [{ memoryBytes }] = restored.statistics().collections;
  const db = await open({ memoryBudgetBytes: Math.ceil(1.18 * memoryBytes) });
  expect(db.loadedCollections()).toEqual(["b"]);
  const [a, b] = [db.collection("a"), db.collection("b")];
  // The idle one leaves, so this fits.
  await a.load();
  expect(db.loadedCollections()).toEqual(["a"]);
  const version = a.currentVersion();
  const refused = await a.upsert(vectors(4_000, 10_000)).catch((error: unknown) => error);
  expect(refused).toMatchObject({
    code: "memory_budget_exceeded",
    status: 507,
    details: { scope: "process" },
  });
  const details = (refused as { details: Record<string, number> }).details;
  expect(details.needed_bytes + details.index_bytes).toBeGreaterThan(details.budget_bytes);
  expect(a.currentVersion()).toEqual(version);
  expect(await codeOf(() => a.createIndex("tf-idf", textIndex))).toBe("memory_budget_exceeded");
  expect(a.indexes()["tf-idf"]).toBeUndefined();
  expect(a.get("v5").toRecord().id).toBe("v5");
  await a.delete("v5");
  expect(a.has("v5")).toBe(false);
  expect((await a.search("dense", { query_vector: vectorOf(7), top_k: 1 })).results[0].id).toBe("v7");
  // An unloaded collection takes no memory, but it must remain loadable.
  await b.upsert(vectors(200, 10_000));
  const grown = b.currentVersion();
  expect(await codeOf(() => b.upsert(vectors(4_000, 20_000)))).toBe("memory_budget_exceeded");
  expect(b.currentVersion()).toEqual(grown);
  expect((await b.describe()).loaded).toBe(false);
  await b.load();
  await a.load();
  // Staging takes no memory, the commit would.
  const transaction = a.transaction((await a.beginTransaction()).transaction_id);
  for (let from = 20_000; from < 24_000; from += 1_000) await transaction.upsert(vectors(1_000, from));
  expect(await codeOf(() => transaction.commit())).toBe("memory_budget_exceeded");
  expect(transaction.status().status).toHaveProperty("NotStarted");
  await transaction.abort();
});

it("[O5] a collection can have its own budget", async () => {
  const db = await open();
  const collection = await makeCollection(db, "c", 2_000_000);
  expect((await collection.describe()).config).toMatchObject({ memory_budget_bytes: 2_000_000 });
  await collection.createIndex("dense", denseIndex);
  await collection.upsert(vectors(1_000));
  const version = collection.currentVersion();
  const refusal = await collection.upsert(vectors(10_000, 1_000)).catch((error: unknown) => error);
  expect(refusal).toMatchObject({
    code: "memory_budget_exceeded",
    details: { scope: "collection", budget_bytes: 2_000_000 },
  });
  expect(collection.currentVersion()).toEqual(version);
  await collection.deleteIndex("dense");
  await collection.unload();
  for (let from = 1_000; from < 11_000; from += 1_000) await collection.upsert(vectors(1_000, from));
  await collection.load();
  expect(await codeOf(() => collection.createIndex("dense", denseIndex))).toBe("memory_budget_exceeded");
  expect(collection.indexes()).toEqual({});
  const other = await makeCollection(db, "other");
  await other.createIndex("dense", denseIndex);
  await other.upsert(vectors(5_000));
});

it("[O7] the number of concurrent exports is limited, and their slots are released", async () => {
  const collection = await makeCollection(await open(), "c");
  await collection.upsert(vectors(10));
  const running = Array.from({ length: limits.exportsMax }, () => collection.exportVectors());
  expect(await codeOf(() => collection.exportVectors())).toBe("overloaded");
  running[0].release();
  const next = collection.exportVectors();
  expect([...next]).toHaveLength(10);
  for (const exported of running) exported.release();
});

it("[O7] a request cannot ask for more results than a response may have", async () => {
  const collection = await makeCollection(await open(), "c");
  await collection.createIndex("dense", denseIndex);
  const queries = Array.from({ length: 101 }, (_, i) => ({ vector: vectorOf(i) }));
  await expect(collection.search("batchDense", { queries, top_k: 10_000 })).rejects.toMatchObject({
    code: "invalid_request",
    details: { path: "top_k" },
  });
  expect(await collection.search("batchDense", { queries: queries.slice(1), top_k: 10_000 })).toHaveLength(
    100,
  );
});
