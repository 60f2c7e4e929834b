// The dense index of a collection: built in the background, checkpointed, measured.

import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { randomNumbers } from "@quiverdb/kernels/random";
import { QuiverError } from "@quiverdb/protocol/errors";
import type { DenseIndex } from "@quiverdb/protocol/shapes/index-definition";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Collection, Database, DatabaseOptions } from "./contract.ts";
import { openDatabase } from "./database.ts";
import { checkpointPath } from "./updaters.ts";

let directory: string;
let database: Database | null = null;
let warnings: string[] = [];

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "quiver-dense-"));
  warnings = [];
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
  await shut();
  const warn = (_: unknown, message: string) => void warnings.push(message);
  database = await openDatabase({
    dataDir: directory,
    log: { info: () => {}, warn, error: warn },
    ...options,
  });
  return database;
}

const dimension = 12;
function vectors(from: number, count: number, seed = from) {
  const next = randomNumbers(seed + 1);
  return Array.from({ length: count }, (_, i) => ({
    id: `v${from + i}`,
    dense_values: Array.from({ length: dimension }, () => next() + next() - 1),
  }));
}

const definition: DenseIndex = {
  name: "d",
  distance_metric_type: "euclidean",
  quantization: { type: "scalar", properties: { data_type: "u8", range: { min: -1, max: 1 } } },
  index: { type: "hnsw", properties: { ef_search: 200, neighbors_count: 12 } },
};

async function make(
  options: Partial<DatabaseOptions> = {},
  properties: DenseIndex["index"]["properties"] = {},
): Promise<Collection> {
  const db = await open(options);
  await db.createCollection({
    name: "c",
    dense_vector: { enabled: true, dimension },
    sparse_vector: { enabled: false },
    tf_idf_options: { enabled: false },
    config: {},
  });
  const collection = db.collection("c");
  const index = { type: "hnsw" as const, properties: { ...definition.index.properties, ...properties } };
  await collection.createIndex("dense", { ...definition, index });
  return collection;
}

const statusOf = (collection: Collection) => {
  const status = collection.indexes().dense?.status;
  if (status === undefined) throw new Error("there is no dense index");
  return status;
};
const built = (collection: Collection) =>
  expect.poll(() => statusOf(collection).percentage_complete, { timeout: 60_000 }).toBe(100);

/** Every result is one of `expected`, with the score of exact search, and nearly all exact results are found. */
async function expectRight(collection: Collection, expected: ReadonlySet<string>): Promise<void> {
  const queries = vectors(0, 40, 999).map(({ dense_values }) => ({ vector: dense_values }));
  const found = await collection.search("batchDense", { queries, top_k: 10 });
  const exact = await collection.search("batchDense", { queries, top_k: 10, exact: true });
  let met = 0;
  for (const [i, { results }] of found.entries()) {
    const truth = new Map(exact[i].results.map(({ id, score }) => [id, score]));
    expect(results.length).toBe(Math.min(10, expected.size));
    for (const { id, score } of results) {
      expect(expected.has(id)).toBe(true);
      if (!truth.has(id)) continue;
      expect(score).toBe(truth.get(id));
      met++;
    }
  }
  expect(met / (10 * queries.length)).toBeGreaterThan(0.97);
}

const ids = (from: number, count: number) => Array.from({ length: count }, (_, i) => `v${from + i}`);
const fileOf = () => {
  const [internal] = readdirSync(join(directory, "collections"));
  return checkpointPath(join(directory, "collections", internal), "dense");
};

it("[N4] while the graph is built, searches see everything, and progress is reported", async () => {
  const collection = await make();
  const { transaction_id } = await collection.beginTransaction();
  const transaction = collection.transaction(transaction_id);
  for (let i = 0; i < 12; i++) await transaction.upsert(vectors(i * 1_000, 1_000));
  await transaction.commit();
  const seen = new Set<number>();
  const wanted = vectors(11_000, 1_000)[17];
  for (;;) {
    const { results } = await collection.search("dense", { query_vector: wanted.dense_values, top_k: 1 });
    expect(results[0].id).toBe(wanted.id);
    const { percentage_complete, records_indexed = 0, records_in_tail = 0 } = statusOf(collection);
    expect(records_indexed + records_in_tail).toBe(12_000);
    seen.add(percentage_complete);
    const { status } = transaction.status();
    if (percentage_complete === 100) break;
    expect("InProgress" in status).toBe(true);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  expect(seen.size).toBeGreaterThan(3);
  await expect.poll(() => "Complete" in transaction.status().status).toBe(true);
  await expect.poll(() => statusOf(collection).state, { timeout: 60_000 }).toBe("ready");
  expect(statusOf(collection)).toMatchObject({
    served_by: "hnsw",
    data_type: "u8",
    graphs: 1,
  });
  await expectRight(collection, new Set(ids(0, 12_000)));
});

describe("kept on disk", () => {
  async function prepare(options: Partial<DatabaseOptions> = {}): Promise<void> {
    const collection = await make(options);
    await collection.upsert(vectors(0, 3_000));
    await built(collection);
    await shut();
    expect(existsSync(fileOf())).toBe(true);
  }

  it("[I5] after a restart the index is available at once, and later writes are replayed", async () => {
    await prepare();
    const kept = join(directory, "kept");
    copyFileSync(fileOf(), kept);
    let collection = (await open()).collection("c");
    await collection.indexed();
    const status = statusOf(collection);
    expect(status).toMatchObject({ graphs: 1, records_indexed: 3_000, records_in_tail: 0 });
    // Without a measured beam width searches scan all vectors.
    expect(status.served_by).toBe(status.recall === undefined ? "flat" : "hnsw");
    await expectRight(collection, new Set(ids(0, 3_000)));
    // Some are deleted, some replaced, some new; then the file is that of before, as after a kill.
    for (let i = 0; i < 300; i++) await collection.delete(`v${i}`);
    await collection.upsert(vectors(300, 1_200, 77));
    await collection.upsert(vectors(3_000, 200));
    await shut();
    copyFileSync(kept, fileOf());
    collection = (await open()).collection("c");
    await collection.indexed();
    // The checkpoint serves searches; only replaced and new records must be linked.
    const { graphs, records_in_tail } = statusOf(collection);
    expect(graphs).toBe(1);
    expect(records_in_tail).toBeLessThanOrEqual(1_400);
    await expectRight(collection, new Set(ids(300, 2_900)));
    await built(collection);
    await expectRight(collection, new Set(ids(300, 2_900)));
    expect(warnings).toEqual([]);
  });

  it("[I5] where the log no longer reaches back, the index is reconciled with the records", async () => {
    const options = { versionsKept: 3 };
    await prepare(options);
    const kept = join(directory, "kept");
    copyFileSync(fileOf(), kept);
    let collection = (await open(options)).collection("c");
    for (let i = 0; i < 40; i++) await collection.delete(`v${i * 3}`);
    await collection.upsert(vectors(3_000, 1_100));
    await shut();
    copyFileSync(kept, fileOf());
    collection = (await open(options)).collection("c");
    await collection.indexed();
    expect(statusOf(collection).graphs).toBe(1);
    const gone = new Set(Array.from({ length: 40 }, (_, i) => `v${i * 3}`));
    const expected = new Set(ids(0, 4_100).filter((id) => !gone.has(id)));
    await expectRight(collection, expected);
    expect(statusOf(collection).records_total).toBe(expected.size);
    await built(collection);
    await expectRight(collection, expected);
  });

  it("[I5] a damaged file, one of another configuration, and one of a version that never was are not used", async () => {
    await prepare();
    const file = readFileSync(fileOf());
    const damaged = Buffer.from(file);
    damaged[Math.floor(file.length / 2)] ^= 1;
    writeFileSync(fileOf(), damaged);
    let collection = (await open()).collection("c");
    await collection.indexed();
    await expectRight(collection, new Set(ids(0, 3_000)));
    expect(warnings).toEqual(["the checkpoint of the dense index could not be written or read"]);
    // The file is deleted with the index, and the next index starts empty.
    await built(collection);
    await collection.deleteIndex("dense");
    await expect.poll(() => existsSync(fileOf())).toBe(false);
    await collection.createIndex("dense", { ...definition, distance_metric_type: "cosine" });
    await shut();
    writeFileSync(fileOf(), file);
    collection = (await open()).collection("c");
    await collection.indexed();
    await expectRight(collection, new Set(ids(0, 3_000)));
    await built(collection);
    await shut();

    // A checkpoint newer than the store, as after an older copy of the store was put back.
    const before = join(directory, "before");
    cpSync(join(directory, "collections"), before, { recursive: true });
    collection = (await open()).collection("c");
    await collection.upsert(vectors(3_000, 1_500));
    await built(collection);
    await shut();
    const newer = readFileSync(fileOf());
    rmSync(join(directory, "collections"), { recursive: true });
    cpSync(before, join(directory, "collections"), { recursive: true });
    writeFileSync(fileOf(), newer);
    collection = (await open()).collection("c");
    await collection.indexed();
    await expectRight(collection, new Set(ids(0, 3_000)));
    await built(collection);
    await expectRight(collection, new Set(ids(0, 3_000)));
  });

  it("unloading writes a checkpoint, and loading reads it", async () => {
    const collection = await make();
    await collection.upsert(vectors(0, 2_000));
    await built(collection);
    await collection.unload();
    expect(statusOf(collection).state).toBe("unloaded");
    await collection.load();
    expect(statusOf(collection)).toMatchObject({
      graphs: 1,
      records_indexed: 2_000,
      records_in_tail: 0,
    });
    await expectRight(collection, new Set(ids(0, 2_000)));
  });
});

it("[N5] recall is measured against exact search, and a target picks the beam", async () => {
  const collection = await make();
  await collection.upsert(vectors(0, 6_000));
  await built(collection);
  const wide = await collection.measureRecall({ sample: 50, ef_search: 1_000 });
  const narrow = await collection.measureRecall({ sample: 50, ef_search: 1, top_k: 30 });
  expect(wide).toMatchObject({ queries: 50, top_k: 10, ef_search: 1_000, version: 1 });
  expect(wide.recall).toBeGreaterThan(0.99);
  expect(narrow.recall).toBeLessThan(wide.recall);
  expect(narrow.worst_recall).toBeLessThanOrEqual(narrow.recall);
  const query_vector = vectors(0, 1, 5)[0].dense_values;
  const exact = await collection.search("dense", { query_vector, exact: true });
  expect(statusOf(collection)).not.toHaveProperty("recall_table_records");
  expect(await collection.search("dense", { query_vector, recall_target: 1 })).toEqual(exact);
  expect(statusOf(collection)).toMatchObject({ recall_table_records: 6_000 });
  // The measurements are stored with the graph.
  await collection.unload();
  await collection.load();
  expect(statusOf(collection)).toMatchObject({ recall_table_records: 6_000 });
  expect((await collection.search("dense", { query_vector, recall_target: 0.5 })).results.length).toBe(10);
  const codeOf = async (act: () => Promise<unknown>) => {
    try {
      await act();
      return "ok";
    } catch (error) {
      return error instanceof QuiverError ? error.message : String(error);
    }
  };
  expect(await codeOf(() => collection.search("dense", { query_vector, recall_target: 1.5 }))).toContain(
    "recall_target is 1.5",
  );
  expect(await codeOf(() => collection.measureRecall({ sample: 0 }))).toContain("sample is 0");
  await collection.deleteIndex("dense");
  expect(await codeOf(() => collection.measureRecall())).toContain("no dense index");
});

it("[N5] a search for a target ends by distance once that was measured, after a restart too", async () => {
  let collection = await make();
  await collection.upsert(vectors(0, 6_000));
  await built(collection);
  const query_vector = vectors(0, 1, 5)[0].dense_values;
  const beamOf = async (recall_target: number) => {
    const { legs } = await collection.search("dense", { query_vector, recall_target, explain: true });
    return legs?.dense?.beam;
  };
  const plain = (await beamOf(0.98)) as number;
  await expect.poll(() => beamOf(0.98)).toBe(2 * plain);
  await collection.unload();
  collection = (await open()).collection("c");
  await collection.load();
  expect(await beamOf(0.98)).toBe(2 * plain);
});

it("[N5] recall that is measured while records are linked is that of the vectors at the start", async () => {
  const { name } = await make();
  const db = database as Database;
  await db.deleteCollection(name);
  await db.createCollection({
    name,
    dense_vector: { enabled: true, dimension: 3 },
    sparse_vector: { enabled: false },
    tf_idf_options: { enabled: false },
    config: {},
  });
  const collection = db.collection(name);
  await collection.createIndex("dense", {
    ...definition,
    distance_metric_type: "euclidean",
    quantization: { type: "scalar", properties: { data_type: "f32" } },
    index: { type: "hnsw", properties: { neighbors_count: 16, ef_construction: 200, ef_search: 128 } },
  });
  let seed = 1;
  const random = () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 2 ** 32;
  };
  const centres = Array.from({ length: 60 }, () => [random(), random(), random()]);
  // Past 10,000 vectors the first measurement does not wait for the build to end.
  for (let from = 0; from < 12_000; from += 2_000)
    await collection.upsert(
      Array.from({ length: 2_000 }, (_, i) => ({
        id: `p${from + i}`,
        dense_values: centres[Math.floor(60 * random())].map((x) => x + 0.02 * random()),
      })),
    );
  await built(collection);
  await expect.poll(() => statusOf(collection).recall?.vectors, { timeout: 20_000 }).toBe(12_000);
  const { recall_at_10 = 0, ef_search } = statusOf(collection).recall ?? {};
  const { recall } = await collection.measureRecall({ sample: 200, ef_search: ef_search as number });
  expect(Math.abs(recall - recall_at_10)).toBeLessThan(0.03);
});

it("[N6] with a small cache, vectors are read from the store, and results are the same", async () => {
  const collection = await make({}, { max_cache_size: 50 });
  await collection.upsert(vectors(0, 2_500));
  await built(collection);
  await expectRight(collection, new Set(ids(0, 2_500)));
  const { memory_bytes, graph_bytes = 0 } = statusOf(collection);
  // The tail has released its memory, and the cache holds 50 vectors.
  expect(memory_bytes - graph_bytes).toBeLessThan(2_500 * dimension * 4 + 400_000);
});
