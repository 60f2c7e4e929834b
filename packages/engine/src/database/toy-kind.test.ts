// Does a new kind of index need more than its object and a line of the registry?

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { IndexStatus } from "@quiverdb/protocol/shapes/index-definition";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Toy, type ToyLeg, toyCalls, toyKind, toyName } from "../../test/index/toy-kind.ts";
import { Deadline } from "../base/deadline.ts";
import { finishAtOnce } from "../base/steps.ts";
import { defineCollection } from "../collection/definition.ts";
import { prepareCollection } from "../collection/format.ts";
import { encodeUpserts } from "../collection/schema.ts";
import { collectionTables } from "../collection/tables.ts";
import { Visibility } from "../collection/visibility.ts";
import { readFilter } from "../filter/read-filter.ts";
import { register } from "../index/registry.ts";
import { LocalSequencer, randomOpId } from "../log/sequencer.ts";
import { lookUpIn } from "../query/filter/look-up.ts";
import type { Plan } from "../query/plan.ts";
import { runPlan } from "../query/search.ts";
import { MemoryStore } from "../storage/memory.ts";
import { Views } from "../views/view.ts";
import type { OpenCollection } from "./collection.ts";
import type { Collection, Database } from "./contract.ts";
import { openDatabase } from "./database.ts";
import type { OpenDatabase } from "./open-database.ts";

let directory: string;
let unregister: () => void;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "quiver-toy-"));
  unregister = register(toyKind);
});
afterAll(() => {
  unregister();
  rmSync(directory, { recursive: true, force: true });
});

const textsOnly = {
  name: "c",
  dense_vector: { enabled: false },
  sparse_vector: { enabled: false },
  tf_idf_options: { enabled: true },
  config: {},
  store_raw_text: true,
};

const toyOf = (collection: Collection) =>
  (collection.indexes() as Record<string, { status: IndexStatus } | undefined>)[toyName]?.status;

test("[I4] [I5] a kind that only the registry knows is built, updated, measured, checkpointed, restored, checked and deleted", async () => {
  const open = (memoryBudgetBytes: number) => openDatabase({ dataDir: directory, memoryBudgetBytes });
  let database: Database = await open(2 ** 30);
  await database.createCollection(textsOnly);
  const opened = (): OpenCollection => (database as OpenDatabase).collections.find("c");
  let collection = database.collection("c");
  await collection.upsert([{ id: "before", text: "four" }]);
  await collection.createIndex(toyName as never, {} as never);
  const texts = (from: number, count: number) =>
    Array.from({ length: count }, (_, i) => ({ id: `v${from + i}`, text: "x".repeat(1 + ((from + i) % 7)) }));
  await collection.upsert(texts(0, 1_500));
  await collection.delete("v3");
  await collection.indexed();
  expect(toyOf(collection)).toMatchObject({
    state: "ready",
    served_by: "toys",
    records_indexed: 1_500,
    records_total: 1_500,
    percentage_complete: 100,
  });
  expect(opened().bytesToLoad).toBe(15_000);
  expect((await collection.check()).findings).toEqual([]);
  expect((await collection.check()).collections[0].indexes).toEqual([toyName]);

  await collection.unload();
  expect(toyOf(collection)).toMatchObject({ state: "unloaded", records_indexed: 0 });
  const { saved, made } = toyCalls;
  expect(saved).toBeGreaterThan(0);
  // The checkpoint states its size. One that was written during the load may have been the last that was worth it; then the records that
  // came after it count.
  expect(opened().bytesToLoad).toBeGreaterThanOrEqual(100);
  expect(opened().bytesToLoad).toBeLessThan(1_000);
  await collection.load();
  expect(toyCalls).toMatchObject({ restored: 1, made: made + 2 });
  await collection.upsert(texts(2_000, 10));
  await collection.indexed();
  expect(toyOf(collection)).toMatchObject({ state: "ready", records_indexed: 1_510 });
  expect((await collection.check()).findings).toEqual([]);

  await database.close();
  database = await open(2 ** 30);
  collection = database.collection("c");
  await database.recovered;
  expect(toyOf(collection)).toMatchObject({ state: "ready", records_indexed: 1_510 });
  const { closed } = toyCalls;
  await collection.deleteIndex(toyName);
  expect(toyOf(collection)).toBeUndefined();
  expect(toyCalls.closed).toBeGreaterThan(closed);
  await database.close();
});

test("[I4] a plan's legs of a kind that only the registry knows are searched, ranked, fused and explained", async () => {
  const definition = defineCollection(textsOnly);
  const store = new MemoryStore(collectionTables);
  prepareCollection(store, 1, definition);
  const texts = ["a", "bb", "cc", "dd", "eee"];
  const records = texts.map((text) => ({ id: `id-${text}`, text }));
  const options = { versionsKept: 10, maxVectors: null, clock: () => 1, newOpId: randomOpId };
  const batch = encodeUpserts(definition, records, "vectors");
  for (const outcomes of new LocalSequencer(store, options).write([{ kind: "upsert", batch }]))
    expect(outcomes.every(({ ok }) => ok)).toBe(true);
  const toy = new Toy();
  for (const [ordinal, text] of texts.entries()) toy.add(ordinal, text.length);
  const view = new Views(() => {}).publish(
    {
      version: 1,
      ordinalEnd: 5,
      readTxn: store.beginRead(),
      indexes: { [toyName]: toy },
      statistics: {},
    },
    new Visibility(),
  );
  const leg = (length: number): ToyLeg => ({ kind: toyName, length });
  const plan: Plan = {
    queries: [[leg(2)], [leg(3)], [leg(7)]],
    topK: 2,
    returnRawText: true,
    selection: {
      excluded: new Set(),
      diversity: null,
      scoreMin: Number.NEGATIVE_INFINITY,
      offset: 0,
      group: null,
    },
    include: [],
    explain: true,
    beam: { exact: false, efSearch: null, recallTarget: null },
    filters: [],
    fusion: null,
    deadline: Deadline.none,
  };
  const lookUp = lookUpIn(view);
  const [two, three, none] = finishAtOnce(runPlan(view, plan, lookUp));
  expect(two.results).toMatchObject([
    { id: "id-bb", score: 1, text: "bb", explanation: { [toyName]: { rank: 1, score: 1, length: 2 } } },
    { id: "id-cc", explanation: { [toyName]: { rank: 2, contribution: 1, length: 2 } } },
  ]);
  expect(three.results.map(({ id }) => id)).toEqual(["id-eee"]);
  expect(none.results).toEqual([]);
  const filter = finishAtOnce(readFilter({ id: { in: ["id-a", "id-cc", "id-dd"] } }));
  const [among, nothing] = finishAtOnce(
    runPlan(view, { ...plan, filters: [filter, filter, filter] }, lookUp),
  );
  expect(nothing.results).toEqual([]);
  expect(among.results.map(({ id }) => id)).toEqual(["id-cc", "id-dd"]);
  const weights = { dense: 0, sparse: 0, "tf-idf": 0, [toyName]: 2 };
  const fused = { ...plan, queries: [[leg(2), leg(3)]], topK: 4, fusion: { constant: 60, weights } };
  const [both] = finishAtOnce(runPlan(view, fused, lookUp));
  expect(both.results.map(({ id }) => id)).toEqual(["id-bb", "id-eee", "id-cc", "id-dd"]);
  expect(both.results[0].score).toBe(2 / 61);
  view.unpin();
});
