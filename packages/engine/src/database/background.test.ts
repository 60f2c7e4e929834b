// Does work in the background outlive its failures, and make up for them?

import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "vitest";
import { FailingReads } from "../../test/storage/failing-reads.ts";
import type { Collection, Database } from "./contract.ts";
import { openDatabase } from "./database.ts";

let dataDir: string;
let database: Database;
let reads: FailingReads;
let stamp = 0;

beforeEach(async () => {
  dataDir = mkdtempSync(join(tmpdir(), "quiver-background-"));
  reads = new FailingReads();
  database = await openDatabase({ dataDir, builderThreads: 1 });
});
afterEach(async () => {
  reads.fail(Number.POSITIVE_INFINITY);
  await database.close();
  reads.end();
  rmSync(dataDir, { recursive: true, force: true });
});

async function makeCollection(name: string): Promise<Collection> {
  await database.createCollection({
    name,
    dense_vector: { enabled: true, dimension: 4, auto_create_index: true },
    sparse_vector: { enabled: true, auto_create_index: true },
    tf_idf_options: { enabled: true },
    config: {},
  });
  const collection = database.collection(name);
  await collection.createIndex("tf-idf", { name: "t", sample_threshold: 1, k1: 1.2, b: 0.75 });
  return collection;
}

/** Three records, some new and one replaced; each has a unique word. */
const nextRecords = () =>
  ["fixed", `n${++stamp}`, `m${stamp}`].map((id) => ({
    id,
    dense_values: [stamp, 1, 2, 3],
    sparse_indices: [stamp],
    sparse_values: [1],
    text: `word${stamp}`,
  }));

/** Whether the newest version is in all indexes, and nothing fails. The look is not counted among the reads. */
const isIndexed = (collection: Collection): boolean =>
  reads.aside(() => {
    const { version_number: version } = collection.currentVersion();
    const isThere = Object.values(collection.indexes()).every(
      ({ status }) => status?.watermark === version && status.failure === undefined,
    );
    return isThere && failingOf(collection).length === 0;
  });

const failingOf = (collection: Collection) =>
  database.statistics().collections.find(({ name }) => name === collection.name)?.failing ?? [];

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await sleep(1);
}

async function expectFound(collection: Collection): Promise<void> {
  const ids = ["fixed", `n${stamp}`, `m${stamp}`].sort();
  const found = [
    await collection.search("text", { query: `word${stamp}` }),
    await collection.search("sparse", { query_terms: [{ index: stamp, value: 1 }] }),
    await collection.search("dense", { query_vector: [stamp, 1, 2, 3], top_k: 3 }),
  ];
  for (const { results } of found.slice(0, 2)) expect(results.map(({ id }) => id).sort()).toEqual(ids);
  expect(found[2].results).toHaveLength(3);
}

it("[K2] any read of indexing may fail: the process survives, other collections are served, and everything is indexed afterwards", async () => {
  const [hit, other] = [await makeCollection("hit"), await makeCollection("other")];
  await other.upsert(nextRecords());
  await expectFound(other);
  const served = stamp;
  let reached = 0;
  for (let n = 1; ; n++) {
    // Some at once, some twice: a failure may occur during the recovery from the previous one.
    reads.fail(n, 1 + (n % 2));
    // Durable writes are acknowledged, whatever happens to their indexing.
    await hit.upsert(nextRecords());
    await until(() => isIndexed(hit) || reads.failed > 0);
    const isReached = reads.failed > 0;
    await until(() => isIndexed(hit));
    reads.fail(Number.POSITIVE_INFINITY);
    const { results } = await other.search("text", { query: `word${served}` });
    expect(results).toHaveLength(3);
    if (n % 10 === 0) await expectFound(hit);
    if (!isReached) break;
    reached++;
  }
  expect(reached).toBeGreaterThan(15);
  await expectFound(hit);
});

it("[K2] while its reads fail, a collection reports it, its searches get the error, and others are served", async () => {
  const [hit, other] = [await makeCollection("hit"), await makeCollection("other")];
  await other.upsert(nextRecords());
  const served = stamp;
  await other.indexed();
  reads.fail(1, Number.POSITIVE_INFINITY);
  await hit.upsert(nextRecords());
  await until(() => reads.aside(() => failingOf(hit).length > 0));
  expect(reads.aside(() => failingOf(hit))).toMatchObject([{ task: "indexing", message: /^EIO/ }]);
  expect(reads.aside(() => hit.indexes()["tf-idf"]?.status?.failure)).toMatch(/^EIO/);
  await expect(hit.search("text", { query: `word${stamp}` })).rejects.toThrow("EIO");
  await until(() => reads.aside(() => failingOf(hit)[0].attempts > 2));
  reads.fail(Number.POSITIVE_INFINITY);
  expect((await other.search("text", { query: `word${served}` })).results).toHaveLength(3);
  await until(() => isIndexed(hit));
  await expectFound(hit);
});

it("[R1] a collection that is deleted while its indexes are written to disk leaves nothing behind", async () => {
  for (let round = 0; round < 6; round++) {
    const collection = await makeCollection("gone");
    const vectors = Array.from({ length: 1_200 }, (_, i) => ({
      id: `r${i}`,
      dense_values: [i, 1, 2, 3],
      text: "word",
    }));
    await collection.upsert(vectors);
    await collection.indexed();
    // Some moment of the building or the writing.
    await sleep(round * 15);
    await database.deleteCollection("gone");
    await sleep(100);
    expect(readdirSync(join(dataDir, "collections"))).toEqual([]);
  }
});
