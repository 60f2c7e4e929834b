// Do several shards find as much as one store with the same beam?

import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Collection } from "../../src/database/contract.ts";
import { MemoryLog } from "./memory-log.ts";

const [count, dimension] = [20_000, 32];

let log: MemoryLog;
let sharded: Collection;
let whole: Collection;

let seed = 11;
function random(): number {
  seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
  return seed / 2 ** 32 - 0.5;
}
const vector = () => Array.from({ length: dimension }, random);

/** Resolves when searches follow links, instead of reading most vectors. */
async function linked(collection: Collection): Promise<void> {
  await collection.indexed();
  for (;;) {
    const search = { query_vector: vector(), top_k: 1, ef_search: 10, explain: true };
    const { legs } = await collection.search("dense", search);
    if (legs?.dense?.way === "follow links" && legs.dense.visited < count / 4) return;
    await delay(50);
  }
}

beforeAll(async () => {
  log = await MemoryLog.open(1);
  const [database] = log.databases;
  const dense_vector = { enabled: true, dimension, auto_create_index: true };
  await database.createCollection({ name: "sharded", dense_vector, config: { shards: 3 } });
  await database.createCollection({ name: "whole", dense_vector });
  [sharded, whole] = ["sharded", "whole"].map((name) => database.collection(name));
  for (let from = 0; from < count; from += 1_000) {
    const records = Array.from({ length: 1_000 }, (_, i) => ({ id: `r${from + i}`, dense_values: vector() }));
    for (const collection of [sharded, whole]) await collection.upsert(records);
  }
  for (const collection of [sharded, whole]) await linked(collection);
});
afterAll(() => log.close());

test.each([10, 20, 60])(
  "[Y15] with a beam of %i, three shards find at least as much as one",
  async (ef_search) => {
    const top_k = 10;
    const found = { sharded: 0, whole: 0 };
    for (let i = 0; i < 100; i++) {
      const query_vector = vector();
      const idsOf = async (collection: Collection, how: object) => {
        const { results } = await collection.search("dense", { query_vector, top_k, ...how });
        return results.map(({ id }) => id);
      };
      const exact = new Set(await idsOf(whole, { exact: true }));
      const hits = async (collection: Collection) =>
        (await idsOf(collection, { ef_search })).filter((id) => exact.has(id)).length;
      found.sharded += await hits(sharded);
      found.whole += await hits(whole);
    }
    expect(found.sharded).toBeGreaterThanOrEqual(found.whole);
    // A narrow beam misses some: so it has followed links.
    expect(found.whole).toBeLessThan(ef_search === 10 ? 100 * top_k : Number.POSITIVE_INFINITY);
  },
);
