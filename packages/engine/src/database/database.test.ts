// The database as a whole: load state, recovery, deletion, isolation, limits.

import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { QuiverError } from "@quiverdb/protocol/errors";
import type { CreateCollection } from "@quiverdb/protocol/shapes/collection";
import type { DenseIndex } from "@quiverdb/protocol/shapes/index-definition";
import type { VectorInput } from "@quiverdb/protocol/shapes/vector";
import { afterEach, beforeEach, expect, it } from "vitest";
import { text, utf8 } from "../base/bytes.ts";
import { armFailpoints } from "../base/failpoint.ts";
import { collectionTables, formatNumbers, metaKeys, ordinalKey } from "../collection/tables.ts";
import { takeLock } from "../process/directory-lock.ts";
import { LmdbStore } from "../storage/lmdb.ts";
import { checkDirectory } from "./check/directory.ts";
import { repairDirectory } from "./check/repair.ts";
import type { Database, DatabaseOptions } from "./contract.ts";
import { openDatabase } from "./database.ts";

let directory: string;
let database: Database | null = null;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "quiver-database-"));
});
afterEach(async () => {
  await shut();
  rmSync(directory, { recursive: true, force: true });
});

async function shut(): Promise<void> {
  await database?.close();
  database = null;
}

async function open(options: Partial<DatabaseOptions> = {}): Promise<Database> {
  await database?.close();
  database = await openDatabase({ dataDir: directory, ...options });
  return database;
}

const definition = (name: string, rest: Partial<CreateCollection> = {}): CreateCollection => ({
  name,
  dense_vector: { enabled: true, dimension: 4 },
  sparse_vector: { enabled: true },
  tf_idf_options: { enabled: true },
  config: {},
  store_raw_text: true,
  ...rest,
});
const denseIndex: DenseIndex = {
  name: "d",
  distance_metric_type: "dot_product",
  quantization: { type: "scalar", properties: { data_type: "f32" } },
  index: { type: "hnsw", properties: {} },
};
const vectors = (count: number, x = 1, prefix = "v"): VectorInput[] =>
  Array.from({ length: count }, (_, i) => ({ id: `${prefix}${i}`, dense_values: [x, i, 0, 0] }));
const codeOf = async (act: () => unknown): Promise<string> => {
  try {
    await act();
    return "ok";
  } catch (error) {
    if (error instanceof QuiverError) return error.code;
    throw error;
  }
};
const directories = () => readdirSync(join(directory, "collections"));

it("[R1] deleting a collection gives its disk space back, and its name is free again", async () => {
  const db = await open();
  await db.createCollection(definition("big"));
  await db.collection("big").upsert(vectors(20_000));
  expect(directories()).toHaveLength(1);
  await db.deleteCollection("big");
  expect(directories()).toEqual([]);
  expect(await codeOf(() => db.collection("big"))).toBe("collection_not_found");
  await db.createCollection(definition("big"));
  expect((await db.collection("big").describe()).vectors_count).toBe(0);
});

it("[R2] deleting does not wait: searches, writes and exports in progress end with collection_not_found", async () => {
  const db = await open();
  await db.createCollection(definition("c"));
  const collection = db.collection("c");
  await collection.createIndex("dense", denseIndex);
  await collection.upsert(vectors(5_000));
  const exported = collection.exportVectors()[Symbol.iterator]();
  expect(exported.next().done).toBe(false);
  const running = Array.from({ length: 20 }, () =>
    Promise.all([
      codeOf(() =>
        collection.search("batchDense", {
          queries: Array.from({ length: 50 }, () => ({ vector: [1, 2, 3, 4] })),
        }),
      ),
      codeOf(() => collection.upsert(vectors(10))),
    ]),
  );
  await db.deleteCollection("c");
  for (const codes of await Promise.all(running))
    for (const code of codes) expect(["ok", "collection_not_found", "shutting_down"]).toContain(code);
  expect(() => exported.next()).toThrow();
  expect(directories()).toEqual([]);
});

it("[R3] names never become paths", async () => {
  const db = await open();
  for (const name of [
    "..",
    ".",
    "loaded",
    "a/b",
    "a\\b",
    "a?b",
    "a#b",
    "50%",
    "a\u0000b",
    "",
    "ü".repeat(128),
    "\ud800",
  ])
    expect(await codeOf(() => db.createCollection(definition(name)))).toBe("invalid_name");
  for (const name of ["...", "~", "con", "a b", "ä\u202e", "x".repeat(255), "$(id)", "-rf"])
    expect(await codeOf(() => db.createCollection(definition(name)))).toBe("ok");
  for (const name of directories()) expect(name).toMatch(/^c[0-9a-f]{24}$/);
  expect(db.listCollections()).toHaveLength(8);
});

it("[R4] an unloaded collection is read and written as before; the first search loads it; the load state survives a restart", async () => {
  let db = await open();
  await db.createCollection(definition("c"));
  let collection = db.collection("c");
  await collection.createIndex("dense", denseIndex);
  await collection.upsert(vectors(100));
  await collection.indexed();
  expect(collection.indexes().dense?.status).toMatchObject({
    state: "ready",
    records_indexed: 100,
    records_total: 100,
  });
  expect(db.statistics().collections[0].memoryBytes).toBeGreaterThan(0);
  await collection.unload();
  expect(db.loadedCollections()).toEqual([]);
  expect(db.statistics().collections[0].memoryBytes).toBe(0);
  db = await open();
  collection = db.collection("c");
  expect(await collection.describe()).toMatchObject({ loaded: false, vectors_count: 100 });
  expect(collection.indexes().dense?.status.state).toBe("unloaded");
  expect(collection.has("v5")).toBe(true);
  await collection.upsert(vectors(1, 50, "w"));
  expect(db.loadedCollections()).toEqual([]);
  expect((await collection.search("dense", { query_vector: [1, 0, 0, 0], top_k: 1 })).results[0].id).toBe(
    "w0",
  );
  expect(db.loadedCollections()).toEqual(["c"]);
  db = await open();
  expect(db.loadedCollections()).toEqual(["c"]);
});

it("[R8] a search during an unload loads the collection again and is answered", async () => {
  const db = await open();
  await db.createCollection(definition("c"));
  const collection = db.collection("c");
  await collection.createIndex("dense", denseIndex);
  await collection.upsert(vectors(20_000));
  for (let round = 0; round < 12; round++) {
    const search = () => collection.search("dense", { query_vector: [0, 1, 0, 0], top_k: 1 });
    const [early, , late] = await Promise.all([search(), collection.unload(), search()]);
    for (const { results } of [early, late]) expect(results[0].id).toBe("v19999");
  }
});

it("[I2] a search continues at its version when its index is deleted and an older search ends", async () => {
  const db = await open();
  await db.createCollection(definition("c"));
  const collection = db.collection("c");
  await collection.createIndex("dense", denseIndex);
  await collection.upsert(vectors(2_000));
  const batch = (count: number) =>
    collection.search("batchDense", {
      queries: Array.from({ length: count }, () => ({ vector: [0, 1, 0, 0] })),
      top_k: 2_000,
      exact: true,
    });
  // The first search pins the version before the write, so replaced records stay in the index for a while.
  const first = batch(40);
  // A write of this size is acknowledged when it is served: the second search has its view before a later search is answered.
  await collection.upsert(vectors(2_000));
  const second = batch(200);
  await collection.search("dense", { query_vector: [0, 1, 0, 0], top_k: 1, exact: true });
  await collection.deleteIndex("dense");
  await first;
  for (const { results } of await second) {
    expect(results).toHaveLength(2_000);
    expect(new Set(results.map(({ id }) => id)).size).toBe(2_000);
  }
});

it("[R8] a search, or a load, during the deletion of an index is answered", async () => {
  const db = await open();
  await db.createCollection(definition("c"));
  const collection = db.collection("c");
  await collection.createIndex("sparse", { name: "s", quantization: 16, sample_threshold: 10 });
  await collection.createIndex("tf-idf", { name: "t", sample_threshold: 10, k1: 1.2, b: 0.75 });
  await collection.upsert([{ id: "a", sparse_values: [[1, 1]], text: "bees" }]);
  await collection.unload();
  // The deletion runs first, while the search, which saw the index before, waits to load it.
  const deleted = collection.deleteIndex("sparse");
  const search = collection.search("sparse", { query_terms: [[1, 1]] });
  const load = collection.load();
  await deleted;
  await expect(search).rejects.toMatchObject({ code: "index_not_found" });
  expect((await load).loaded).toBe(true);
  expect((await collection.search("text", { query: "bees" })).results).toHaveLength(1);
});

it("[R5] beyond the memory budget idle collections are unloaded, least recently used first", async () => {
  let now = 1_000;
  const unlimited = await open();
  for (const name of ["a", "b", "c"]) {
    await unlimited.createCollection(definition(name));
    const collection = unlimited.collection(name);
    await collection.createIndex("dense", denseIndex);
    await collection.upsert(vectors(3_000));
    await expect
      .poll(() => collection.indexes().dense?.status.percentage_complete, { timeout: 20_000 })
      .toBe(100);
  }
  // Their size after loading, as counted for the budget: searches fill their caches later.
  await unlimited.close();
  const reopened = await open();
  await reopened.recovered;
  const needed = reopened.statistics().collections.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0);
  const memoryBudgetBytes = Math.floor((needed * 5) / 6);
  const db = await open({ memoryBudgetBytes, clock: () => now++ });
  await expect.poll(() => db.loadedCollections(), { timeout: 20_000 }).toEqual(["b", "c"]);
  await db.collection("a").search("dense", { query_vector: [1, 0, 0, 0] });
  await expect.poll(() => db.loadedCollections(), { timeout: 20_000 }).toEqual(["a", "c"]);
  const bytes = db.statistics().collections.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0);
  expect(bytes <= memoryBudgetBytes || db.loadedCollections().length === 1).toBe(true);
  expect(
    (await db.collection("b").search("dense", { query_vector: [0, 1, 0, 0], top_k: 1 })).results[0].id,
  ).toBe("v2999");
});

it("[R7] what interrupted creations and deletions left is removed at start", async () => {
  await (await open()).createCollection(definition("kept"));
  await shut();
  mkdirSync(join(directory, "collections", "c0123"));
  writeFileSync(join(directory, "collections", "c0123", "data.mdb"), "x");
  expect(directories()).toHaveLength(2);
  const again = await open();
  expect(directories()).toHaveLength(1);
  expect(again.listCollections()).toEqual([{ name: "kept" }]);
});

it("[F2] data of a newer format is rejected with a clear message, and nothing is changed", async () => {
  const db = await open();
  await db.createCollection(definition("c"));
  await shut();
  const store = new LmdbStore(join(directory, "collections", directories()[0]), collectionTables);
  const format = formatNumbers.collection + 1;
  store.write((writer) =>
    writer.put("meta", metaKeys.format, utf8(`{"format":${format},"what":"collection"}`)),
  );
  await store.close();
  expect(await codeOf(() => openDatabase({ dataDir: directory }))).toBe("format_too_new");
  // A rejected directory is not locked.
  (await takeLock(directory, { waitMs: 0 }))();
});

it("[F3] data of a format that is no longer supported is rejected with a clear message, and nothing is changed", async () => {
  const db = await open();
  await db.createCollection(definition("c"));
  await shut();
  const path = join(directory, "collections", directories()[0]);
  const write = async (format: number) => {
    const store = new LmdbStore(path, collectionTables);
    store.write((writer) =>
      writer.put("meta", metaKeys.format, utf8(`{"format":${format},"what":"collection"}`)),
    );
    await store.close();
  };
  await write(1);
  const before = readFileSync(join(path, "data.mdb"));
  expect(await codeOf(() => openDatabase({ dataDir: directory }))).toBe("format_too_old");
  expect(await codeOf(() => checkDirectory(directory))).toBe("format_too_old");
  const into = `${directory}-repaired`;
  expect(await codeOf(() => repairDirectory(directory, into))).toBe("format_too_old");
  rmSync(into, { recursive: true, force: true });
  expect(readFileSync(join(path, "data.mdb")).equals(before)).toBe(true);
  await write(formatNumbers.collection);
  expect((await open()).listCollections()).toEqual([{ name: "c" }]);
});

it("[F3] a collection of the format before this one is opened if it has no open transaction", async () => {
  const db = await open();
  await db.createCollection(definition("c"));
  await db.collection("c").upsert(vectors(3));
  const { transaction_id: id } = await db.collection("c").beginTransaction();
  await shut();
  const path = join(directory, "collections", directories()[0]);
  const formatIn = async (change?: number): Promise<string> => {
    const store = new LmdbStore(path, collectionTables);
    if (change !== undefined)
      store.write((w) => w.put("meta", metaKeys.format, utf8(`{"format":${change},"what":"collection"}`)));
    const readTxn = store.beginRead();
    const format = text(readTxn.get("meta", metaKeys.format) as Uint8Array);
    readTxn.release();
    await store.close();
    return format;
  };
  await formatIn(2);
  expect(await codeOf(() => openDatabase({ dataDir: directory }))).toBe("format_too_old");
  expect(await codeOf(() => checkDirectory(directory))).toBe("format_too_old");
  await formatIn(3);
  await (await open()).collection("c").transaction(id).abort();
  await shut();
  await formatIn(2);
  expect((await checkDirectory(directory)).findings).toEqual([]);
  expect((await open()).collection("c").has("v1")).toBe(true);
  await shut();
  expect(await formatIn()).toBe('{"format":3,"what":"collection"}');
});

it("[C1] a corrupted record is named, never served, and the rest continues to work", async () => {
  let db = await open();
  await db.createCollection(definition("c"));
  await db.collection("c").upsert(vectors(3));
  await db.collection("c").createIndex("dense", denseIndex);
  await shut();
  const store = new LmdbStore(join(directory, "collections", directories()[0]), collectionTables);
  store.write((writer) => {
    const raw = writer as unknown as {
      table(name: string): { putSync(key: Uint8Array, value: Buffer): void };
    };
    raw.table("dense").putSync(ordinalKey(1), Buffer.from("not what was written"));
  });
  await store.close();
  db = await open();
  const errors: unknown[] = [];
  const collection = db.collection("c");
  expect(collection.get("v0").toRecord().dense_values).toEqual([1, 0, 0, 0]);
  for (const act of [
    () => collection.get("v1"),
    () => collection.search("dense", { query_vector: [1, 0, 0, 0] }),
  ])
    try {
      await act();
    } catch (error) {
      errors.push(error);
    }
  expect(errors).toHaveLength(2);
  for (const error of errors)
    expect(error).toMatchObject({ code: "data_corrupted", details: { table: "dense", key: "00000001" } });
  await db.recovered;
  await collection.delete("v1");
  expect((await collection.search("dense", { query_vector: [1, 0, 0, 0] })).results).toHaveLength(2);
});

it("[I2] a request sees one version: a batch that runs while records are replaced uses one state", async () => {
  const db = await open();
  await db.createCollection(definition("c"));
  const collection = db.collection("c");
  await collection.createIndex("dense", denseIndex);
  const generation = (n: number): VectorInput[] =>
    Array.from({ length: 2_000 }, (_, i) => ({ id: `v${i}`, dense_values: [n, 0, 0, 0] }));
  await collection.upsert(generation(1));
  let isOver = false;
  const writing = (async () => {
    for (let n = 2; n < 30; n++) await collection.upsert(generation(n));
    isOver = true;
  })();
  let batches = 0;
  const seen = new Set<number>();
  while (!isOver) {
    const queries = Array.from({ length: 60 }, () => ({ vector: [1, 0, 0, 0] }));
    const answers = await collection.search("batchDense", { queries, top_k: 50 });
    const scores = new Set(answers.flatMap(({ results }) => results.map(({ score }) => score)));
    expect(scores.size).toBe(1);
    const [score] = scores;
    expect(score).toBeGreaterThanOrEqual(Math.max(0, ...seen));
    seen.add(score);
    batches++;
  }
  await writing;
  expect(batches).toBeGreaterThan(1);
  expect(seen.size).toBeGreaterThan(1);
  expect((await collection.search("dense", { query_vector: [1, 0, 0, 0], top_k: 1 })).results[0].score).toBe(
    29,
  );
});

it("[I7] a write that was acknowledged is seen by every later read and search", async () => {
  const db = await open();
  await db.createCollection(definition("c"));
  const collection = db.collection("c");
  await collection.createIndex("dense", denseIndex);
  await Promise.all(
    Array.from({ length: 200 }, async (_, i) => {
      await collection.upsert([{ id: `v${i}`, dense_values: [0, i === 0 ? 1 : 0, i, 1] }]);
      expect(collection.has(`v${i}`)).toBe(true);
      const { results } = await collection.search("dense", { query_vector: [0, 0, 1, 0], top_k: 200 });
      expect(results.map(({ id }) => id)).toContain(`v${i}`);
    }),
  );
  const { commits, commitRequests } = db.statistics();
  expect(commitRequests - commits).toBeGreaterThan(100);
});

it("[T11] an open transaction survives a restart with every operation; idle for too long, it is aborted", async () => {
  let db = await open();
  await db.createCollection(definition("c"));
  const { transaction_id } = await db.collection("c").beginTransaction();
  await db.collection("c").transaction(transaction_id).upsert(vectors(1_000));
  await db.collection("c").transaction(transaction_id).delete("v0");
  db = await open();
  expect(Object.keys(db.collection("c").transaction(transaction_id).status().status)).toEqual(["NotStarted"]);
  await db.collection("c").transaction(transaction_id).commit();
  expect((await db.collection("c").describe()).vectors_count).toBe(999);
  db = await open({ transactionIdleMs: 200 });
  const second = await db.collection("c").beginTransaction();
  await expect
    .poll(() => Object.keys(db.collection("c").transaction(second.transaction_id).status().status), {
      timeout: 20_000,
    })
    .toEqual(["Aborted"]);
  const third = await db.collection("c").beginTransaction();
  expect(
    db
      .collection("c")
      .transactions()
      .transactions.map((t) => Object.keys(t.status)[0]),
  ).toEqual(["NotStarted", "Aborted", "Complete"]);
  expect(third.transaction_id).not.toBe(second.transaction_id);
});

it("[L5] since when a transaction is indexed is the same after restarts, and another node finds it out for itself", async () => {
  let db = await open();
  await db.createCollection(definition("c"));
  await db.collection("c").createIndex("dense", denseIndex);
  const { transaction_id } = await db.collection("c").beginTransaction();
  await db.collection("c").transaction(transaction_id).upsert(vectors(10));
  await db.collection("c").transaction(transaction_id).commit();
  await db.collection("c").indexed();
  const statusOf = () => db.collection("c").transaction(transaction_id).status().status;
  await expect.poll(() => Object.keys(statusOf())).toEqual(["Complete"]);
  const status = statusOf();
  for (let restart = 0; restart < 2; restart++) {
    // A later moment, which the status must not take for its own.
    db = await open({ clock: () => Date.now() + 60_000 });
    await db.collection("c").indexed();
    expect(statusOf()).toEqual(status);
  }
  await shut();
  const store = new LmdbStore(join(directory, "collections", directories()[0]), collectionTables);
  store.write((writer) => writer.clear("indexed"));
  await store.close();
  db = await open({ clock: () => Date.now() + 60_000 });
  await db.collection("c").indexed();
  await expect.poll(() => Object.keys(statusOf())).toEqual(["Complete"]);
  expect(statusOf()).not.toEqual(status);
});

it("[X1] an export has every vector of one version, whatever is written meanwhile", async () => {
  const db = await open();
  await db.createCollection(definition("c"));
  const collection = db.collection("c");
  await collection.upsert(vectors(500));
  const exported = collection.exportVectors();
  expect([exported.version, exported.count]).toEqual([1, 500]);
  const ids: string[] = [];
  for (const vector of exported) {
    if (ids.length === 10) await collection.upsert(vectors(500, 7));
    ids.push(vector.toRecord().id);
    expect(vector.toRecord().dense_values?.[0]).toBe(1);
  }
  expect(ids).toEqual(vectors(500).map(({ id }) => id));
});

it("[K1] a closed database rejects everything and has lost nothing", async () => {
  const db = await open();
  await db.createCollection(definition("c"));
  const collection = db.collection("c");
  const writes = Array.from({ length: 50 }, (_, i) =>
    codeOf(() => collection.upsert([{ id: `v${i}`, dense_values: [1, 1, 1, 1] }])),
  );
  await db.close();
  const codes = await Promise.all(writes);
  for (const code of codes) expect(["ok", "shutting_down"]).toContain(code);
  expect(await codeOf(() => collection.get("v0"))).toBe("shutting_down");
  expect(await codeOf(() => db.createCollection(definition("d")))).toBe("shutting_down");
  const again = await open();
  expect((await again.collection("c").describe()).vectors_count).toBe(
    codes.filter((code) => code === "ok").length,
  );
});

it("[D2] two creations of one name at once: one succeeds", async () => {
  const db = await open();
  const codes = await Promise.all([1, 2, 3].map(() => codeOf(() => db.createCollection(definition("same")))));
  expect(codes.sort()).toEqual(["collection_already_exists", "collection_already_exists", "ok"]);
});

it("[D2] a creation is refused only when reads find the name, and waits for a deletion of it", async () => {
  const db = await open();
  const first = db.createCollection(definition("same"));
  const second = db.createCollection(definition("same")).then(
    () => "ok",
    (error: { code: string }) => [error.code, db.collection("same").name],
  );
  expect(await second).toEqual(["collection_already_exists", "same"]);
  await first;
  const gone = db.deleteCollection("same");
  while (db.listCollections().length > 0) await sleep(0);
  await db.createCollection(definition("same"));
  await gone;
  expect((await db.collection("same").describe()).vectors_count).toBe(0);
});

it("[D2] of creations that wait for one that fails, one succeeds", async () => {
  const db = await open();
  let failures = 1;
  armFailpoints((name) => {
    if (name === "create:synced" && failures-- > 0)
      throw new QuiverError("storage_failed", "The disk fails.");
  });
  try {
    const creating = [1, 2, 3].map(() => codeOf(() => db.createCollection(definition("same"))));
    expect(await Promise.all(creating)).toEqual(["storage_failed", "ok", "collection_already_exists"]);
  } finally {
    armFailpoints(() => {});
  }
});
