// Who waits while the indexes apply a write: the writer or the searches?

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { limits } from "@quiverdb/protocol/limits";
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from "vitest";
import { textAnalysis } from "../index/text/tasks.ts";
import { BuilderThreads } from "../runtime/builders.ts";
import type { Collection, Database } from "./contract.ts";
import { openDatabase } from "./database.ts";

/** Enough that other threads analyse the texts. */
const many = 3_000;

let directory: string;
let database: Database;
let collection: Collection;
/** Texts that were to be analysed. */
let analyses: number;
let release: () => void;

/** The texts of large writes are not analysed before `release`. */
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "quiver-acknowledgement-"));
  database = await openDatabase({ dataDir: directory, builderThreads: 1 });
  await database.createCollection({
    name: "c",
    dense_vector: { enabled: true, dimension: 4, auto_create_index: true },
    sparse_vector: { enabled: false },
    tf_idf_options: { enabled: true },
    config: {},
  });
  collection = database.collection("c");
  await collection.createIndex("tf-idf", { name: "t", sample_threshold: 1, k1: 1.2, b: 0.75 });
  await collection.upsert([record("old")]);
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  analyses = 0;
  const { run } = BuilderThreads.prototype;
  vi.spyOn(BuilderThreads.prototype, "run").mockImplementation(function (this: BuilderThreads, ...of) {
    const [task] = of;
    if (task.name !== textAnalysis.name) return run.apply(this, of);
    analyses++;
    void held.then(() => run.apply(this, of));
  });
});
afterEach(async () => {
  release();
  await database.close();
  vi.restoreAllMocks();
  rmSync(directory, { recursive: true, force: true });
});

const record = (id: string) => ({ id, document_id: "d", dense_values: [1, 2, 3, 4], text: "word" });
const records = () => Array.from({ length: many }, (_, i) => record(`new${i}`));

/** The number of records, which every kind of request must agree on. */
async function seen(): Promise<number> {
  const { results } = await collection.search("text", { query: "word", top_k: 10_000 });
  const { results: near } = await collection.search("dense", { query_vector: [1, 2, 3, 4], top_k: 10_000 });
  expect(near).toHaveLength(results.length);
  expect(await collection.byDocument("d")).toHaveLength(results.length);
  expect((await collection.describe()).vectors_count).toBe(results.length);
  expect(collection.has("new0")).toBe(results.length > 1);
  const { records: counted, version } = database.statistics().collections[0];
  expect(counted).toBe(results.length);
  expect(collection.currentVersion().version_number).toBe(version);
  return results.length;
}

/** Until the store has the write, and the indexes are at work on it. */
const untilWritten = () => vi.waitFor(() => expect(analyses).toBeGreaterThan(0), { timeout: 60_000 });

it("[I7] a large write is acknowledged when searches see it, and until then all see the version before", async () => {
  let isAcknowledged = false;
  const writing = collection.upsert(records()).then(() => {
    isAcknowledged = true;
  });
  await untilWritten();
  for (let i = 0; i < 5; i++) expect(await seen()).toBe(1);
  await sleep(100);
  expect(isAcknowledged).toBe(false);
  release();
  await writing;
  expect(await seen()).toBe(1 + many);
});

it("[I7] what is written while the indexes work towards an older version is served, too", async () => {
  const first = collection.upsert(records());
  await untilWritten();
  const second = collection.upsert([...records(), record("last")]);
  // The second one is durable, and its slice has found the first one still in progress.
  await sleep(200);
  release();
  await Promise.all([first, second]);
  expect(await seen()).toBe(2 + many);
});

it("[I7] a transaction is open until its commit is acknowledged, and its records are seen from then on", async () => {
  const { transaction_id } = await collection.beginTransaction();
  const transaction = collection.transaction(transaction_id);
  await transaction.upsert(records());
  const committing = transaction.commit();
  await untilWritten();
  expect(await seen()).toBe(1);
  expect(transaction.status()).toMatchObject({
    status: { NotStarted: { stats: { version_created: null } } },
  });
  expect(collection.transactions().transactions[0].status).toHaveProperty("NotStarted");
  release();
  await committing;
  expect(transaction.flatStatus().stats.version_created).toBe(collection.currentVersion().version_number);
  expect(await seen()).toBe(1 + many);
});

it("[I7] a client that gives up does not make others wait", async () => {
  const hangingUp = new AbortController();
  const writing = collection.upsert(records(), { signal: hangingUp.signal });
  await untilWritten();
  hangingUp.abort(new Error("gone"));
  await sleep(100);
  expect(await seen()).toBe(1);
  release();
  await writing;
  expect(await seen()).toBe(1 + many);
});

it("[I7] a commit is acknowledged after some time, and then searches wait for the missing records", async () => {
  const changed = limits as { commitWaitMs: number };
  const usual = changed.commitWaitMs;
  changed.commitWaitMs = 300;
  onTestFinished(() => {
    changed.commitWaitMs = usual;
  });
  const { transaction_id } = await collection.beginTransaction();
  const transaction = collection.transaction(transaction_id);
  await transaction.upsert(records());
  await transaction.commit();
  expect(collection.has("new0")).toBe(true);
  expect((await collection.describe()).vectors_count).toBe(1 + many);
  expect(transaction.flatStatus().status).toBe("indexing_in_progress");
  const search = { query: "word", top_k: 10_000 };
  await expect(collection.search("text", search, { timeoutMs: 100 })).rejects.toMatchObject({
    code: "deadline_exceeded",
  });
  release();
  expect(await seen()).toBe(1 + many);
});

it("[I7] an export shows the newest version, and later searches see it, too", async () => {
  const writing = collection.upsert(records());
  await untilWritten();
  const exported = collection.exportVectors();
  expect(exported.count).toBe(1 + many);
  exported.release();
  expect(collection.has("new0")).toBe(true);
  release();
  expect(await seen()).toBe(1 + many);
  await writing;
});
