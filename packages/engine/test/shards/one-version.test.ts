// Does every search of several shards see one version, whatever is written meanwhile?

import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Collection } from "../../src/database/contract.ts";
import { MemoryLog } from "./memory-log.ts";

let log: MemoryLog;
beforeAll(async () => {
  log = await MemoryLog.open(3);
});
afterAll(() => log.close());

const ids = Array.from({ length: 24 }, (_, i) => `r${i}`);
const batch = (generation: number) =>
  ids.map((id, i) => ({
    id,
    dense_values: [i, generation, 1],
    text: `word generation${generation}`,
    metadata: { generation },
  }));

type Seen = { generations: unknown[]; count: number };

test("[Y16] a batch and a commit over all shards are never half visible, while nodes apply at their own pace", async () => {
  const [first] = log.databases;
  await first.createCollection({
    name: "c",
    dense_vector: { enabled: true, dimension: 3, auto_create_index: true },
    tf_idf_options: { enabled: true },
    store_raw_text: true,
    config: { shards: 5 },
  });
  const seenBy = log.databases.map((database) => database.collection("c"));
  const [collection] = seenBy;
  await collection.createIndex("tf-idf", { name: "t", sample_threshold: 100, k1: 1.2, b: 0.75 });
  await collection.upsert(batch(0));
  let written = 0;
  let isOver = false;
  log.beforeApply = async (node) => {
    if (node !== "n0" && Math.random() < 0.3) await delay(Math.random() * 12);
  };
  const write = async () => {
    for (let generation = 1; !isOver; generation++) {
      if (generation % 7 === 0) {
        const { transaction_id: id } = await collection.beginTransaction();
        await collection.transaction(id).upsert(batch(generation));
        await collection.transaction(id).commit();
      } else await collection.upsert(batch(generation));
      written = generation;
    }
  };
  const reads: Record<string, (of: Collection) => Promise<Seen>> = {
    dense: async (of) => {
      const { results } = await of.search("dense", {
        query_vector: [1, 0, 1],
        top_k: 100,
        include: ["metadata"],
      });
      return { generations: results.map(({ metadata }) => metadata?.generation), count: results.length };
    },
    text: async (of) => {
      const { results } = await of.search("text", { query: "word", top_k: 100, include: ["metadata"] });
      return { generations: results.map(({ metadata }) => metadata?.generation), count: results.length };
    },
    facet: async (of) => {
      const { facets } = await of.facet({ field: "generation" });
      const values = facets as { value: unknown; count: number }[];
      return { generations: values.map(({ value }) => value), count: values[0]?.count };
    },
    export: async (of) => {
      const generations: unknown[] = [];
      for await (const line of await of.exportMatching({}))
        generations.push(JSON.parse(line.toJson()).metadata.generation);
      return { generations, count: generations.length };
    },
  };
  const searched: Record<string, number> = {};
  const search = async (of: Collection) => {
    let last = 0;
    for (let i = 0; !isOver; i++) {
      const [kind, read] = Object.entries(reads)[i % 4];
      const before = of === collection ? written : last;
      const { generations, count } = await read(of);
      expect(new Set(generations).size, `${kind}: ${generations.join()}`).toBe(1);
      expect(count).toBe(ids.length);
      // What was acknowledged through this node is seen, and nothing goes back.
      expect(generations[0]).toBeGreaterThanOrEqual(before);
      last = generations[0] as number;
      searched[kind] = (searched[kind] ?? 0) + 1;
      await delay(1);
    }
  };
  const running = [write(), ...seenBy.map(search)];
  await Promise.race([delay(6_000), ...running]);
  isOver = true;
  await Promise.all(running);
  expect(written).toBeGreaterThan(20);
  for (const kind of Object.keys(reads)) expect(searched[kind], kind).toBeGreaterThan(10);
}, 30_000);

test("[Y16] transactions and indexes are known to all shards as soon as to the node that was asked, whoever lags", async () => {
  log.beforeApply = async () => {};
  const [first] = log.databases;
  await first.createCollection({
    name: "late",
    dense_vector: { enabled: true, dimension: 3, auto_create_index: true },
    tf_idf_options: { enabled: true },
    store_raw_text: true,
    config: { shards: 5 },
  });
  log.beforeApply = async (node) => {
    if (node !== "n0") await delay(300);
  };
  const collection = first.collection("late");
  const { transaction_id: id } = await collection.beginTransaction();
  const transaction = collection.transaction(id);
  expect((await transaction.flatStatus()).status).toBe("not_started");
  await transaction.upsert(batch(1));
  await transaction.commit();
  const { version_number } = await collection.currentVersion();
  expect((await transaction.flatStatus()).stats.version_created).toBe(version_number);
  await collection.createIndex("tf-idf", { name: "t", sample_threshold: 100, k1: 1.2, b: 0.75 });
  expect(Object.keys(await collection.indexes()).sort()).toEqual(["dense", "tf-idf"]);
  await collection.deleteIndex("tf-idf");
  await collection.createIndex("tf-idf", { name: "t", sample_threshold: 100, k1: 1.2, b: 0.75 });
  expect((await collection.search("text", { query: "word", top_k: 100 })).results).toHaveLength(24);
  await collection.createMetadataIndex("generation", { type: "number" });
  expect((await collection.metadataIndexes()).indexes.map(({ field }) => field)).toEqual(["generation"]);
  expect(await collection.count({ filter: { generation: 1 } })).toEqual({ count: 24 });
});

test("[Y16] a restored version is exactly that one, and a merge takes all of a batch, while others write", async () => {
  log.beforeApply = async (node) => {
    if (node !== "n0" && Math.random() < 0.3) await delay(Math.random() * 6);
  };
  const [first, second, third] = log.databases;
  await first.createCollection({
    name: "main",
    dense_vector: { enabled: true, dimension: 3, auto_create_index: true },
    tf_idf_options: { enabled: true },
    config: { shards: 5, history: "all" },
  });
  const collection = first.collection("main");
  await collection.upsert(batch(0));
  const { version_number: base } = await collection.currentVersion();
  let isOver = false;
  let generation = 0;
  const failures: unknown[] = [];
  const pausing = async (
    database: typeof first,
    name: string,
    write: (g: number) => ReturnType<typeof batch>,
  ) => {
    while (!isOver) {
      await database.collection(name).upsert(write(++generation));
      await delay(Math.random() * 15);
    }
  };
  const generationsOf = async (of: Collection) => {
    const { facets } = await of.facet({ field: "generation", limit: 1_000 });
    return facets as { value: unknown; count: number }[];
  };
  const others = (g: number) => batch(g).map((record) => ({ ...record, id: `${record.id} of ${g}` }));
  const writing = [pausing(first, "main", others), pausing(third, "main", others)];
  let restored = 0;
  const restoring = async () => {
    const until = performance.now() + 3_000;
    while (performance.now() < until) {
      const version = await second.collection("main").restoreVersion({ version: base });
      const of = second.collection("main").at({ version: version.version_number });
      expect([version.vector_count, await of.count()]).toEqual([24, { count: 24 }]);
      for (const { count } of await generationsOf(second.collection("main"))) expect(count).toBe(24);
      restored++;
    }
  };
  await Promise.race([restoring(), ...writing]).catch((error) => failures.push(error));
  isOver = true;
  await Promise.all(writing);
  expect(failures).toEqual([]);
  expect(restored).toBeGreaterThan(1);

  await collection.restoreVersion({ version: base });
  await log.settled();
  await first.copyCollection("main", {}, "draft");
  isOver = false;
  const drafting = [pausing(first, "draft", batch), pausing(third, "draft", batch)];
  let merged = 0;
  const merging = async () => {
    const until = performance.now() + 3_000;
    while (performance.now() < until) {
      await second.mergeCollection("main", { from: "draft", on_conflict: "theirs" });
      const generations = await generationsOf(second.collection("main"));
      expect(generations.map(({ count }) => count)).toEqual([24]);
      merged++;
    }
  };
  await Promise.race([merging(), ...drafting]).catch((error) => failures.push(error));
  isOver = true;
  await Promise.all(drafting);
  expect(failures).toEqual([]);
  expect(merged).toBeGreaterThan(1);
}, 60_000);
