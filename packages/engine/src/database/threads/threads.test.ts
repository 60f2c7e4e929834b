// Do serving threads see what was acknowledged, answer as the owner does, and leave nothing behind when they die?

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { randomNumbers } from "@quiverdb/kernels/random";
import type { Filter } from "@quiverdb/protocol/shapes/filter";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { SearchKind } from "../../query/plan.ts";
import { Calls } from "../../runtime/calls.ts";
import type { Collection, Database } from "../contract.ts";
import { openDatabase } from "../database.ts";

const random = randomNumbers(1);
const below = (n: number) => Math.floor(random() * n);
const dimension = 16;
const vector = () => Array.from({ length: dimension }, () => random() - 0.5);
const text = () => Array.from({ length: 8 }, () => `word${below(60)}`).join(" ");
const terms = (): [number, number][] =>
  [...new Set(Array.from({ length: 8 }, () => below(80)))].map((index) => [index, 1 + below(16) / 16]);
const record = (i: number) => ({
  id: `record ${i}`,
  document_id: `document ${i >> 2}`,
  dense_values: vector(),
  sparse_values: terms(),
  text: text(),
  metadata: { n: i, half: i / 2 },
});

let directory: string;
let database: Database;
let threads: Thread[];

/** A serving thread that the test asks. */
class Thread {
  readonly slot: number;
  readonly worker: Worker;
  readonly calls: Calls;
  /** Payers that may not write. */
  readonly refused = new Set<string>();

  constructor(slot: number) {
    this.slot = slot;
    this.worker = new Worker(new URL("../../../test/database/threads/searching-thread.ts", import.meta.url), {
      workerData: { slot },
    });
    const recheck = (payer: string) => {
      if (this.refused.has(payer)) throw new Error("the payer is refused");
    };
    this.calls = new Calls(this.worker, database.threads.handlers(slot, recheck));
    database.threads.admit(slot, this.calls);
    threads.push(this);
  }

  /** @param keyFilter the filter of the records that the caller sees */
  ask<T>(
    name: string,
    call: SearchKind | "upsert" | "delete",
    args: unknown,
    keyFilter?: Filter,
  ): Promise<T> {
    return this.calls.call<T>("ask", { name, call, args, keyFilter });
  }

  /** By an error that nobody catches: a thread that is terminated in a call of LMDB takes the process with it. */
  async die(): Promise<void> {
    const ended = new Promise((resolve) => this.worker.once("exit", resolve));
    this.worker.once("error", () => {});
    this.calls.tell("die", {});
    await ended;
    this.calls.end(new Error("the thread has died"));
    database.threads.abandon(this.slot);
    threads.splice(threads.indexOf(this), 1);
  }
}

async function makeCollection(name = "c"): Promise<Collection> {
  await database.createCollection({
    name,
    dense_vector: { enabled: true, dimension },
    sparse_vector: { enabled: true },
    tf_idf_options: { enabled: true },
    store_raw_text: true,
    config: {},
  });
  const collection = database.collection(name);
  await collection.createIndex("dense", {
    name: "dense",
    distance_metric_type: "cosine",
    quantization: { type: "auto", properties: { sample_threshold: 200 } },
    index: { type: "hnsw", properties: {} },
  });
  await collection.createIndex("sparse", { name: "sparse", quantization: 64, sample_threshold: 1 });
  await collection.createIndex("tf-idf", { name: "text", sample_threshold: 1, k1: 1.2, b: 0.75 });
  return collection;
}

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "quiver-threads-"));
  database = await openDatabase({ dataDir: directory, readerThreads: 2 });
  threads = [];
});

afterEach(async () => {
  for (const thread of [...threads]) await thread.die();
  await database.close();
  rmSync(directory, { recursive: true, force: true });
});

const requests = (): [SearchKind, object][] => [
  ["dense", { query_vector: vector(), top_k: 5 }],
  ["dense", { query_vector: vector(), top_k: 5, exact: true }],
  ["sparse", { query_terms: terms().map(([index, value]) => ({ index, value })), top_k: 5 }],
  ["text", { query: text(), top_k: 5, return_raw_text: true }],
  [
    "hybrid",
    {
      query_vector: vector(),
      query_terms: terms().map(([index, value]) => ({ index, value })),
      query_text: text(),
      top_k: 5,
    },
  ],
  ["batchDense", { queries: [{ vector: vector() }, { vector: vector() }], top_k: 3 }],
  ["batchText", { queries: [text(), text()], top_k: 3 }],
  [
    "dense",
    { query_vector: vector(), top_k: 5, include: ["metadata", "text", "sparse_values", "dense_values"] },
  ],
  ["text", { query: text(), top_k: 5, explain: true }],
  ["dense", { query_vector: vector(), top_k: 5, filter: { n: { gte: 100 } }, include: ["metadata"] }],
  // Only the owner knows which beam reaches it.
  ["dense", { query_vector: vector(), top_k: 5, recall_target: 0.9 }],
];

/** Resolves when the indexes have everything, and are measured. */
async function ready(collection: Collection): Promise<void> {
  const { version_number } = collection.currentVersion();
  const isReady = () =>
    Object.values(collection.indexes()).every(
      ({ status }) => status.state === "ready" && status.complete_version >= version_number,
    );
  await vi.waitUntil(isReady, { timeout: 120_000, interval: 20 });
}

/**
 * Resolves when a round of searches made the thread ask for a view so many times. Indexes that put themselves in order make it ask once more,
 * and when they do is not known: a rest that has begun between two writes moves the next one away (indexing/idle-compaction.ts).
 */
async function untilAsked(thread: Thread, times: number, searches: () => Promise<void>): Promise<void> {
  const asked = () => thread.calls.call<number>("viewsAsked", {});
  const isSo = async () => {
    const before = await asked();
    await searches();
    return (await asked()) === before + times;
  };
  await vi.waitUntil(isSo, { timeout: 60_000, interval: 20 });
}

test("[N3] a thread answers every kind of search as the owner does, without asking it", async () => {
  const collection = await makeCollection();
  await collection.upsert(Array.from({ length: 1_500 }, (_, i) => record(i)));
  for (let i = 0; i < 1_500; i += 3) await collection.delete(`record ${i}`);
  await collection.indexed();
  const thread = new Thread(1);
  for (let round = 0; round < 10; round++)
    for (const [kind, request] of requests())
      expect(await thread.ask("c", kind, request)).toEqual(await collection.search(kind, request as never));
  // Only those that are explained, and those with a recall to be reached.
  expect(await thread.calls.call("forwarded", {})).toBe(20);
});

test("[N14] a thread that searched while the graph was young searches as the owner does once the index is ready, without a further write", async () => {
  const collection = await makeCollection();
  const thread = new Thread(1);
  const queries = Array.from({ length: 100 }, () => ({ query_vector: vector(), top_k: 10 }));
  for (let i = 0; i < 6_000; i += 500) {
    await collection.upsert(Array.from({ length: 500 }, (_, n) => record(i + n)));
    await thread.ask("c", "dense", queries[0]);
  }
  await ready(collection);
  for (const query of queries)
    expect(await thread.ask("c", "dense", query)).toEqual(await collection.search("dense", query));
  await untilAsked(thread, 0, async () => {
    for (const query of queries) await thread.ask("c", "dense", query);
  });
}, 180_000);

test("[O13] a thread finds what the owner finds with a filter, asks once for a filter and version, and sees declared times", async () => {
  const collection = await makeCollection();
  const days = ["2024-01-31T23:30:00+01:00", "2024-02-01T00:10:00Z", "2024-02-01", "someday"];
  const written = (i: number) => ({
    ...record(i),
    metadata: { n: i % 7, day: days[i % 4], none: i % 2 === 0 ? null : i },
  });
  await collection.upsert(Array.from({ length: 900 }, (_, i) => written(i)));
  await ready(collection);
  const thread = new Thread(1);
  const asked = () => thread.calls.call<number>("viewsAsked", {});
  const filters = [
    { n: 3 },
    { n: { lt: 2 } },
    { day: { gte: "2024-02-01T00:00:00Z" } },
    { none: { exists: false } },
    { none: { lt: Number.POSITIVE_INFINITY } },
    { none: { gte: 500 } },
    { or: [{ n: 1 }, { not: { day: "someday" } }] },
    { n: 1_000 },
  ];
  const compareAll = async () => {
    for (const filter of filters) {
      const requests: [SearchKind, object][] = [
        ["dense", { query_vector: vector(), top_k: 8, filter, include: ["metadata"] }],
        ["dense", { query_vector: vector(), top_k: 8, filter, exact: true }],
        ["text", { query: text(), top_k: 8, filter }],
        ["hybrid", { query_vector: vector(), query_text: text(), top_k: 8, filter }],
        ["batchDense", { queries: [{ vector: vector() }, { vector: vector(), filter }], top_k: 3 }],
        ["batchText", { queries: [text(), text()], filter, top_k: 3 }],
      ];
      // A text that is no time is refused where times are declared.
      const outcome = (found: Promise<unknown>) => found.catch(({ code, message }) => ({ code, message }));
      for (const [kind, request] of requests)
        expect(await outcome(thread.ask("c", kind, request))).toEqual(
          await outcome(collection.search(kind, request as never)),
        );
    }
  };
  await untilAsked(thread, 0, compareAll);
  let rounds = 0;
  await untilAsked(thread, 1, async () => {
    const filter = { n: { gte: 2 + rounds++ / 1_000 } };
    for (let i = 0; i < 2; i++) await thread.ask("c", "dense", { query_vector: vector(), top_k: 8, filter });
  });
  const once = await asked();
  expect(await thread.calls.call("forwarded", {})).toBe(0);
  // What is wrong with a filter is the owner's to say.
  const misspelt = { query_vector: vector(), top_k: 8, filter: { nn: 3 } };
  const warned = await thread.ask("c", "dense", misspelt);
  expect(warned).toMatchObject({ results: [], warnings: [{ code: "absent_field", path: "filter.nn" }] });
  expect(warned).toEqual(await collection.search("dense", misspelt));
  // Declared times compare as times.
  await collection.createMetadataIndex("day", { type: "datetime" });
  await compareAll();
  expect(await asked()).toBeGreaterThan(once);
  await collection.deleteMetadataIndex("day");
  await compareAll();
  await collection.upsert([written(900), { ...written(3), metadata: { n: 3 } }]);
  await collection.delete("record 10");
  await compareAll();
});

test("[A21] a thread answers a caller who sees only some records as the owner does, without asking it", async () => {
  const collection = await makeCollection();
  const written = (i: number) => ({
    ...record(i),
    metadata: { n: i % 7, half: i / 2, day: `2024-02-0${1 + (i % 3)}` },
  });
  await collection.upsert(Array.from({ length: 900 }, (_, i) => written(i)));
  await ready(collection);
  const thread = new Thread(1);
  const compareAll = async (keyFilter: Filter) => {
    const restricted = database.restrictedTo(keyFilter).collection("c");
    for (const filter of [undefined, { n: { lt: 3 } }, { half: { gte: 100 } }, { n: 1_000 }])
      for (const [kind, request] of requests()) {
        const filtered = { ...request, ...(filter !== undefined && { filter }) };
        expect(await thread.ask("c", kind, filtered, keyFilter)).toEqual(
          await restricted.search(kind, filtered as never),
        );
      }
    const queries = [
      { vector: vector(), filter: { n: 1 } },
      { vector: vector(), filter: { half: { lt: 9 } } },
    ];
    expect(await thread.ask("c", "batchDense", { queries, top_k: 3 }, keyFilter)).toEqual(
      await restricted.search("batchDense", { queries, top_k: 3 }),
    );
  };
  for (const keyFilter of [
    { n: 2 },
    { n: { ne: 2 } },
    { or: [{ half: { lt: 50 } }, { not: { n: 4 } }] },
    { n: 99 },
  ])
    await compareAll(keyFilter);
  // With each of four filters one that is explained, and one with a recall to be reached, for four callers.
  expect(await thread.calls.call("forwarded", {})).toBe(2 * 4 * 4);
  // Whether an example exists for the caller the owner knows.
  const example = { positive: ["record 2"], top_k: 3 };
  expect(await thread.ask("c", "recommend", example, { n: 2 })).toEqual(
    await database.restrictedTo({ n: 2 }).collection("c").search("recommend", example),
  );
  await expect(thread.ask("c", "recommend", example, { n: 3 })).rejects.toMatchObject({
    code: "vector_not_found",
  });
  // Declared times compare as times, for the caller's own records, too.
  await collection.createMetadataIndex("day", { type: "datetime" });
  await compareAll({ day: { lt: "2024-02-02T12:00:00Z" } });
  // A filter that names no time is refused with its place in the request.
  const wrong = { query_vector: vector(), top_k: 3, filter: { and: [{ n: 1 }, { day: { gt: "someday" } }] } };
  await expect(thread.ask("c", "dense", wrong, { n: 1 })).rejects.toMatchObject({
    code: "invalid_filter",
    message: expect.stringContaining("filter.and[1].day.gt"),
  });
});

test("[I7] a thread finds at once what was acknowledged, whoever wrote it, and nothing that was deleted", async () => {
  const collection = await makeCollection();
  const [first, second] = [new Thread(1), new Thread(2)];
  const writers: ((i: number) => Promise<unknown>)[] = [
    (i) => collection.upsert([record(i)]),
    (i) => first.ask("c", "upsert", [record(i)]),
    (i) => second.ask("c", "upsert", [record(i)]),
  ];
  const found = async (thread: Thread, values: number[]) => {
    const request = { query_vector: values, top_k: 1, exact: true };
    const { results } = await thread.ask<{ results: { id: string }[] }>("c", "dense", request);
    return results[0]?.id;
  };
  for (let i = 0; i < 120; i++) {
    const own = record(i);
    await (i % 3 === 0 ? collection.upsert([own]) : [first, second][i % 2].ask("c", "upsert", [own]));
    expect(await found(first, own.dense_values)).toBe(own.id);
    expect(await found(second, own.dense_values)).toBe(own.id);
    if (i % 4 !== 0) continue;
    await (i % 8 === 0 ? collection.delete(own.id) : second.ask("c", "delete", own.id));
    expect(await found(first, own.dense_values)).not.toBe(own.id);
    expect(await found(second, own.dense_values)).not.toBe(own.id);
  }
  // Many at a time, and deletions of what old views see.
  const all = Array.from({ length: 300 }, (_, i) => 1_000 + i);
  await Promise.all(
    all.map(async (i) => {
      await writers[i % 3](i);
      for (const thread of [first, second])
        for (const [kind, request] of requests()) await thread.ask("c", kind, request);
      if (i % 2 === 0) await first.ask("c", "delete", `record ${i}`);
    }),
  );
  const left = await first.ask<{ results: { id: string }[] }>("c", "dense", {
    query_vector: vector(),
    top_k: 1_000,
  });
  expect(left.results.length).toBe(120 - 30 + 150);
});

test("[O3] a search is not ended by the deadline of another one that asks the owner for the same", async () => {
  const collection = await makeCollection();
  await collection.upsert(Array.from({ length: 3_000 }, (_, i) => record(i)));
  await collection.indexed();
  const thread = new Thread(1);
  const search = (n: number, timeoutMs?: number) =>
    thread.calls.call("ask", {
      name: "c",
      call: "dense",
      args: { query_vector: vector(), top_k: 5, filter: { half: { gte: n / 7 } } },
      timeoutMs,
    });
  await search(0);
  const late: unknown[] = [];
  for (let n = 1; n <= 150; n++) {
    const [hurried, patient] = await Promise.allSettled([search(n, 1), search(n)]);
    expect(patient.status).toBe("fulfilled");
    if (hurried.status === "rejected") late.push(hurried.reason.code);
  }
  expect(new Set(late)).toEqual(new Set(["deadline_exceeded"]));
}, 60_000);

test("a thread does not go on scanning records that were in no graph in the view that it knows", async () => {
  const collection = await makeCollection();
  await collection.upsert(Array.from({ length: 1_500 }, (_, i) => record(i)));
  await collection.indexed();
  const thread = new Thread(1);
  const search = () => thread.ask("c", "dense", { query_vector: vector(), top_k: 5 });
  const views = () => thread.calls.call<number>("viewsSearched", {});
  await search();
  const isWaiting = () => {
    const status = collection.indexes().dense?.status;
    return status !== undefined && status.records_indexed < status.records_total;
  };
  // Records can be in the graph before the thread searches: then another round tells.
  let written = 1_500;
  for (let isSeen = false; !isSeen; ) {
    await collection.upsert(Array.from({ length: 200 }, () => record(written++)));
    await search();
    const inTail = await views();
    isSeen = isWaiting();
    // Then nothing of it changes without a write, however long a measurement takes.
    await vi.waitUntil(() => !isWaiting() && collection.indexes().dense?.status.state === "ready", 30_000);
    await search();
    if (isSeen) expect(await views()).toBeGreaterThan(inTail);
  }
  // A measurement of recall at rest may change the beam once more, which threads learn, too.
  await vi.waitFor(async () => {
    const ofAll = await views();
    for (let i = 0; i < 10; i++) await search();
    expect(await views()).toBe(ofAll);
  }, 30_000);
}, 90_000);

test("[I7] a thread that was posted one view searches the next versions without asking", async () => {
  await database.createCollection({
    name: "d",
    dense_vector: { enabled: true, dimension, auto_create_index: true },
    sparse_vector: { enabled: false },
    tf_idf_options: { enabled: false },
    config: {},
  });
  const collection = database.collection("d");
  const plain = (i: number) => ({ id: `record ${i}`, dense_values: vector() });
  await collection.upsert(Array.from({ length: 100 }, (_, i) => plain(i)));
  const thread = new Thread(1);
  const asked = () => thread.calls.call<number>("viewsAsked", {});
  const nearest = async (values: number[]) => {
    const request = { query_vector: values, top_k: 1, exact: true };
    const { results } = await thread.ask<{ results: { id: string }[] }>("d", "dense", request);
    return results[0]?.id;
  };
  await nearest(vector());
  const before = await asked();
  for (let i = 100; i < 150; i++) {
    const own = plain(i);
    await collection.upsert([own]);
    await collection.indexed();
    expect(await nearest(own.dense_values)).toBe(own.id);
  }
  // Rows get another part of memory, or the table of ordinals another page, once at most.
  expect((await asked()) - before).toBeLessThanOrEqual(2);
}, 60_000);

test("deleted indexes, unloaded and replaced collections are noticed by the next search of a thread", async () => {
  const collection = await makeCollection();
  await collection.upsert(Array.from({ length: 50 }, (_, i) => record(i)));
  const thread = new Thread(1);
  const sparse = { query_terms: [{ index: 1, value: 1 }], top_k: 5 };
  await thread.ask("c", "sparse", sparse);
  await collection.unload();
  await thread.ask("c", "sparse", sparse);
  expect(database.loadedCollections()).toEqual(["c"]);
  await collection.deleteIndex("sparse");
  await expect(thread.ask("c", "sparse", sparse)).rejects.toThrow(/no sparse index/);
  await database.deleteCollection("c");
  await expect(thread.ask("c", "sparse", sparse)).rejects.toThrow(/There is no collection named 'c'/);
  await expect(thread.ask("c", "upsert", [record(1)])).rejects.toThrow(/There is no collection/);
  await makeCollection();
  expect(await thread.ask("c", "sparse", sparse)).toEqual({ results: [] });
  await expect(thread.ask("c", "dense", { query_vector: [1], top_k: 1 })).rejects.toMatchObject({
    code: "invalid_request",
  });
});

test("a collection is deleted while threads ask for views of it: they pin nothing in its closed store", async () => {
  const asking = [new Thread(1), new Thread(2)];
  for (let round = 0; round < 15; round++) {
    const collection = await makeCollection();
    await collection.upsert([record(1), record(2)]);
    // Each filter needs a view with its matches.
    const asked = asking.flatMap((thread) =>
      Array.from({ length: 20 }, (_, n) =>
        thread
          .ask("c", "dense", { query_vector: vector(), top_k: 1, filter: { n: { gte: n } } })
          .catch(String),
      ),
    );
    await Promise.any(asked.slice(below(20)));
    await database.deleteCollection("c");
    for (const answer of await Promise.all(asked))
      if (typeof answer === "string") expect(answer).toMatch(/There is no collection named 'c'|was deleted/);
  }
}, 60_000);

test("a message that cannot be read ends the calls that wait, and no further ones", async () => {
  await makeCollection();
  const thread = new Thread(1);
  const request = { query_vector: vector(), top_k: 1 };
  const nested = (levels: number) => thread.calls.call("nested", { levels });
  expect(await nested(3)).toEqual([[[]]]);
  await expect(nested(8_000)).rejects.toThrow("could not be read");
  expect(await thread.ask("c", "dense", request)).toEqual({ results: [] });
});

test("a thread that dies in the middle of its searches leaves nothing pinned", async () => {
  const collection = await makeCollection();
  await collection.upsert(Array.from({ length: 2_000 }, (_, i) => record(i)));
  for (let round = 0; round < 5; round++) {
    const thread = new Thread(1);
    const asked = Array.from({ length: 40 }, () => {
      const [kind, request] = requests()[below(8)];
      return thread.ask("c", kind, request).catch((error: unknown) => error);
    });
    await Promise.race(asked);
    await collection.upsert(Array.from({ length: 20 }, (_, i) => record(i)));
    await thread.die();
    await Promise.all(asked);
  }
  await collection.indexed();
  const other = new Thread(1);
  for (const [kind, request] of requests())
    expect(await other.ask("c", kind, request)).toEqual(await collection.search(kind, request as never));
  expect((await collection.check()).findings).toEqual([]);
  await collection.unload();
});

test("[A16] a write whose payer lost its key meanwhile is refused by the owner", async () => {
  await makeCollection();
  const thread = new Thread(1);
  await thread.ask("c", "upsert", [record(1)]);
  thread.refused.add("");
  await expect(thread.ask("c", "upsert", [record(2)])).rejects.toThrow("the payer is refused");
  await expect(thread.ask("c", "delete", "record 1")).rejects.toThrow("the payer is refused");
  expect(database.collection("c").has("record 1")).toBe(true);
  expect(database.collection("c").has("record 2")).toBe(false);
});
