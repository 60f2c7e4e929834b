// How much space do records take on disk?

import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Collection, Database } from "./contract.ts";
import { openDatabase } from "./database.ts";

let dataDir: string;
let database: Database;

beforeEach(async () => {
  dataDir = mkdtempSync(join(tmpdir(), "quiver-space-"));
  database = await openDatabase({ dataDir, builderThreads: 1 });
});
afterEach(async () => {
  await database.close();
  rmSync(dataDir, { recursive: true, force: true });
});

const dimension = 1000;
const records = 2_000;
const batches = Array.from({ length: 10 }, (_, batch) =>
  Array.from({ length: records / 10 }, (_, i) => ({
    id: `v${batch}-${i}`,
    dense_values: Float32Array.from({ length: dimension }, (_, k) => Math.sin(batch + i * k)),
  })),
);

async function collectionOf(name: string): Promise<Collection> {
  await database.createCollection({
    name,
    dense_vector: { enabled: true, dimension },
    sparse_vector: { enabled: false },
    tf_idf_options: { enabled: false },
    config: {},
  });
  return database.collection(name);
}

/** Bytes of the files of all collections, without the locks. */
function diskBytes(): number {
  const collections = join(dataDir, "collections");
  return readdirSync(collections, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name !== "lock.mdb")
    .reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
}

it("[T13] a transaction leaves nothing of its operations on disk, whether it is committed or aborted", async () => {
  const streamed = await collectionOf("streamed");
  for (const batch of batches) await streamed.upsert(batch);
  const streamedBytes = diskBytes();
  expect(streamedBytes).toBeLessThan(1.3 * records * dimension * 4);

  const written = await collectionOf("written");
  const committed = written.transaction((await written.beginTransaction()).transaction_id);
  for (const batch of batches) await committed.upsert(batch);
  const stagedBytes = diskBytes() - streamedBytes;
  expect(stagedBytes).toBeGreaterThan(records * dimension * 4);
  expect(stagedBytes).toBeLessThan(1.1 * records * dimension * 4);
  await committed.commit();
  const writtenBytes = diskBytes() - streamedBytes;
  expect(writtenBytes).toBeLessThan(1.05 * streamedBytes);

  const aborted = written.transaction((await written.beginTransaction()).transaction_id);
  for (const batch of batches) await aborted.upsert(batch);
  expect(diskBytes() - streamedBytes - writtenBytes).toBeGreaterThan(records * dimension * 4);
  await aborted.abort();
  expect(diskBytes() - streamedBytes).toBeLessThan(1.05 * writtenBytes);
});

it("[R15] a collection says what its files take, as they grow with its records and its open transaction", async () => {
  const collection = await collectionOf("told");
  const told = async () => (await collection.describe()).disk_bytes ?? 0;
  const empty = await told();
  expect(empty).toBeGreaterThan(0);
  for (const batch of batches) await collection.upsert(batch);
  const full = await told();
  expect(full - empty).toBeGreaterThan(records * dimension * 4);
  // Files have holes, so what they take is less than their lengths, locks included.
  const lengths = readdirSync(join(dataDir, "collections"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => statSync(join(parentPath, name)).size);
  expect(full).toBeLessThanOrEqual(lengths.reduce((sum, size) => sum + size, 0) + 64 * 1024);
  const open = collection.transaction((await collection.beginTransaction()).transaction_id);
  for (const batch of batches) await open.upsert(batch);
  expect((await told()) - full).toBeGreaterThan(records * dimension * 4);
  await open.abort();
  expect((await told()) - full).toBeLessThan(records * dimension);
  const some = database.restrictedTo({ color: "red" }).collection("told");
  expect(await some.describe()).toMatchObject({ vectors_count: 0, loaded: true });
  expect(await some.describe()).not.toHaveProperty("disk_bytes");
  const [{ name, bytes }] = (await database.diskUse()).collections;
  expect(name).toBe("told");
  // The file system allots blocks when it likes, so two looks may differ.
  expect(Math.abs(bytes - (await told()))).toBeLessThan(64 * 1024);
});
