// Does a collection of several shards answer like one of one shard, to the last digit?

import { limits } from "@quiverdb/protocol/limits";
import type { CreateCollection } from "@quiverdb/protocol/shapes/collection";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Collection, VectorWrite } from "../../src/database/contract.ts";
import { resultJson } from "../../src/query/result.ts";
import { MemoryLog } from "./memory-log.ts";

let log: MemoryLog;
/** Of three shards, as two nodes see it, and with the same records in one. */
let sharded: Collection;
let other: Collection;
let whole: Collection;

const definition: Omit<CreateCollection, "name"> = {
  dense_vector: { enabled: true, dimension: 8, auto_create_index: true },
  sparse_vector: { enabled: true, auto_create_index: true },
  tf_idf_options: { enabled: true },
  store_raw_text: true,
};

let seed = 7;
function random(): number {
  seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
  return seed / 2 ** 32;
}
const below = (end: number) => Math.floor(random() * end);
const words = [
  "bee",
  "bees",
  "wasp",
  "honey",
  "honeycomb",
  "hive",
  "flower",
  "glacier",
  "sun",
  "dance",
  "queen",
];
const sentence = (length: number) => Array.from({ length }, () => words[below(words.length)]).join(" ");

function record(i: number): VectorWrite {
  return {
    id: `r${i}`,
    document_id: `d${i % 17}`,
    dense_values: Array.from({ length: 8 }, () => below(5) - 2 + (i % 3 === 0 ? 0 : random())),
    sparse_indices: [below(5), 5 + below(20)],
    sparse_values: [1 + below(3), random()],
    text: sentence(3 + below(8)),
    metadata: { color: ["red", "green", "blue"][i % 3], size: i % 13, name: `n${i}` },
  } as VectorWrite;
}

const again = Array.from({ length: 60 }, (_, i) => record(300 + i));
const staged = Array.from({ length: 30 }, (_, i) => record(2_000 + i));

beforeAll(async () => {
  log = await MemoryLog.open(2);
  const [first, second] = log.databases;
  await first.createCollection({ name: "sharded", ...definition, config: { shards: 3 } });
  await first.createCollection({ name: "whole", ...definition });
  sharded = first.collection("sharded");
  other = second.collection("sharded");
  whole = first.collection("whole");
  for (const collection of [sharded, whole]) {
    await collection.createIndex("tf-idf", {
      name: "t",
      sample_threshold: 100,
      k1: 1.2,
      b: 0.75,
      positions: true,
      language: "english",
    });
    await collection.createMetadataIndex("size", { type: "number" });
  }
  const records = Array.from({ length: 400 }, (_, i) => record(i));
  const changed = Array.from({ length: 60 }, (_, i) => record(i * 5));
  for (const collection of [sharded, whole]) {
    for (let i = 0; i < 400; i += 50) await collection.upsert(records.slice(i, i + 50));
    await collection.upsert(changed);
    await collection.delete("r7");
    await collection.indexed();
  }
});
afterAll(() => log.close());

/** What both answer to a call is the same. */
async function same<T>(call: (collection: Collection) => Promise<T> | T): Promise<T> {
  await log.settled();
  const expected = await call(whole);
  expect(await call(sharded)).toEqual(expected);
  expect(await call(other)).toEqual(expected);
  return expected;
}

const query = [1, 0, -1, 2, 0.5, 0, 1, -2];
const found = async (searching: Promise<unknown>) => {
  const responses = [await searching].flat() as { results: object[] }[];
  return responses.map(({ results, ...rest }) => ({
    results: results.map((each) => resultJson(each as never)),
    ...rest,
  }));
};

const searches: [string, (collection: Collection) => Promise<unknown>][] = [
  ["dense", (c) => c.search("dense", { query_vector: query, exact: true, top_k: 40 })],
  [
    "dense, included",
    (c) =>
      c.search("dense", {
        query_vector: query,
        exact: true,
        top_k: 10,
        return_raw_text: true,
        include: ["metadata", "dense_values", "sparse_values", "version"],
      }),
  ],
  [
    "dense, filtered",
    (c) =>
      c.search("dense", { query_vector: query, exact: true, filter: { color: "red", size: { gte: 4 } } }),
  ],
  [
    "dense, no matches",
    (c) => c.search("dense", { query_vector: query, exact: true, filter: { colour: "red" } }),
  ],
  [
    "dense, page",
    (c) =>
      c.search("dense", { query_vector: query, exact: true, offset: 7, top_k: 5, score_threshold: -0.2 }),
  ],
  [
    "dense, groups",
    (c) =>
      c.search("dense", { query_vector: query, exact: true, top_k: 9, group_by: "color", group_size: 3 }),
  ],
  [
    "dense, groups by document",
    (c) => c.search("dense", { query_vector: query, exact: true, top_k: 12, group_by: "document_id" }),
  ],
  [
    "dense, diverse",
    (c) => c.search("dense", { query_vector: query, exact: true, top_k: 8, diversity: 0.6 }),
  ],
  [
    "dense, batch",
    (c) =>
      c.search("batchDense", {
        queries: [{ vector: query }, { vector: query.toReversed(), filter: { size: 3 } }],
        exact: true,
        top_k: 6,
      } as never),
  ],
  [
    "sparse",
    (c) =>
      c.search("sparse", {
        query_terms: [
          { index: 2, value: 1 },
          { index: 9, value: 0.5 },
        ],
        top_k: 50,
      }),
  ],
  ["text", (c) => c.search("text", { query: "honey bees dance", top_k: 30 })],
  ["text, explained", (c) => c.search("text", { query: "honey bees dance", top_k: 5, explain: true })],
  [
    "text, operators",
    (c) => c.search("text", { query: "+bee -wasp hon* glacer~", syntax: "operators", top_k: 30 }),
  ],
  ["text, phrase", (c) => c.search("text", { query: '"honey bee" flower', syntax: "operators", top_k: 30 })],
  [
    "text, filtered",
    (c) => c.search("text", { query: "queen", filter: { size: { lt: 3 } }, include: ["metadata"] }),
  ],
  [
    "text, batch",
    (c) =>
      c.search("batchText", {
        queries: ["bees", { query: "sun flower", filter: { color: "blue" } }],
        top_k: 5,
      } as never),
  ],
  [
    "hybrid",
    (c) =>
      c.search("hybrid", {
        query_vector: query,
        query_text: "honey sun",
        query_terms: [{ index: 3, value: 1 }],
        exact: true,
        top_k: 20,
      }),
  ],
  [
    "hybrid, explained, groups",
    (c) =>
      c.search("hybrid", {
        query_vector: query,
        query_text: "honey sun",
        exact: true,
        top_k: 6,
        explain: true,
        group_by: "color",
        group_size: 2,
        include: ["metadata"],
      }),
  ],
  [
    "recommend",
    (c) =>
      c.search("recommend", {
        positive: ["r1", "r2", query],
        negative: ["r9"],
        exact: true,
        top_k: 15,
      } as never),
  ],
  ["neighbors", (c) => c.search("neighbors", { vector_id: "r12", exact: true, top_k: 5 } as never)],
];
test.each(searches)("[Y15] %s", async (_name, search) => {
  await same((collection) =>
    found(search(collection)).then((responses) =>
      // What is told of the work differs: each shard has an index of its own.
      responses.map(({ legs: _legs, filter: _filter, ...rest }: Record<string, unknown>) => rest),
    ),
  );
});

test("[Y15] records are counted, listed and read", async () => {
  await same((c) => c.count());
  await same((c) => c.count({ filter: { color: "green" } }));
  await same((c) => c.count({ filter: { colour: "green" } }));
  await same((c) => c.facet({ field: "color" }));
  await same((c) => c.facet({ fields: ["size", "name"], limit: 7 }));
  await same((c) => c.facet({ field: "name", filter: { size: { gt: 10 } }, limit: 3 }));
  await same(async (c) =>
    (await c.fetch({ ids: ["r3", "missing", "r1", "r3"] })).map((each) => each?.toJson() ?? null),
  );
  await same(async (c) => (await c.byDocument("d3")).map((each) => each.toJson()));
  await same(async (c) => (await c.get("r5")).toJson(["version", "metadata"]));
  await same((c) => c.has("r5"));
  await same((c) => c.has("r7"));
  await expect(sharded.get("r7")).rejects.toMatchObject({ code: "vector_not_found" });
});

test("[Y15] pages of a scroll, in any order, have each record once", async () => {
  for (const order_by of [undefined, { field: "size", direction: "desc" } as const])
    await same(async (collection) => {
      const pages: string[][] = [];
      let cursor: string | null | undefined;
      do {
        const page = await collection.scroll({
          limit: 37,
          ...(cursor && { cursor }),
          ...(order_by && { order_by }),
        });
        pages.push(page.vectors.map((vector) => vector.toJson(["metadata"])));
        cursor = page.next_cursor;
      } while (cursor);
      return pages;
    });
});

test("[Y15] exports, changes and versions are those of one store", async () => {
  await same(async (collection) => {
    const exported = await collection.exportMatching({ filter: { size: { lt: 5 } } });
    const lines: string[] = [];
    for await (const line of exported) lines.push(line.toJson());
    return { count: exported.count, version: exported.version, lines: lines.sort() };
  });
  await same(async (collection) => {
    const all: string[] = [];
    let since = "0";
    for (;;) {
      const page = await collection.changes({ since, limit: 33 });
      if (page.changes.length === 0) return all.sort();
      all.push(
        ...page.changes.map(({ version, op, id, vector }) => `${version} ${op} ${id} ${vector?.toJson()}`),
      );
      since = page.next;
    }
  });
  const { versions } = await same(async (collection) => {
    const list = await collection.versions();
    return { ...list, versions: list.versions.map(({ timestamp: _, ...rest }) => rest) };
  });
  expect(versions[0].vector_count).toBe(399);
});

/** A change of both has the same answer. */
async function change<T>(make: (collection: Collection) => Promise<T>): Promise<T> {
  const expected = await make(whole);
  expect(await make(sharded)).toEqual(expected);
  await same((c) => c.count());
  return expected;
}

test("[Y15] records are changed by filters, patched and written on conditions, as one version", async () => {
  expect(
    await change((c) => c.updateMatching({ filter: { color: "red" }, metadata: { seen: true } })),
  ).toEqual({
    updated: 134,
  });
  expect((await change((c) => c.deleteMatching({ filter: { size: 12 } }))).deleted).toBeGreaterThan(20);
  expect(await change((c) => c.deleteMatching({ filter: { size: 12 } }))).toEqual({ deleted: 0 });
  await change((c) => c.patch("r1", { metadata: { size: 99 } }));
  await same((c) => c.count({ filter: { size: 99 } }));
  await same(async (c) => (await c.currentVersion()).version_number);
  const version = (await sharded.currentVersion()).version_number;
  const written = [{ ...record(1_000), id: "r2", if_match: version }, record(1_001)];
  for (const collection of [whole, sharded, other]) {
    await expect(collection.upsert(written)).rejects.toMatchObject({ code: "record_changed" });
    await expect(collection.patch("r2", { metadata: {}, if_match: version })).rejects.toMatchObject({
      code: "record_changed",
    });
    await expect(collection.delete("missing")).rejects.toMatchObject({ code: "vector_not_found" });
  }
  await same((c) => c.has("r1001"));
  // The same through a node that has other shards.
  await whole.deleteMatching({ filter: { size: 11 } });
  await other.deleteMatching({ filter: { size: 11 } });
  await same((c) => c.count());
});

test("[Y15] a write with a key is done once, a change by filter too", async () => {
  const options = { idempotencyKey: "once" };
  const deleted = await sharded.deleteMatching({ filter: { size: 10 } }, options);
  await whole.deleteMatching({ filter: { size: 10 } });
  for (const collection of [whole, sharded]) await collection.upsert(again);
  expect(deleted.deleted).toBeGreaterThan(20);
  expect(await other.deleteMatching({ filter: { size: 10 } }, options)).toEqual(deleted);
  await same((c) => c.count({ filter: { size: 10 } }));
  await expect(other.deleteMatching({ filter: { size: 9 } }, options)).rejects.toMatchObject({
    code: "idempotency_key_reused",
  });
  // What found nothing finds nothing when it is sent again, either.
  for (const [i, collection] of [whole, sharded].entries()) {
    const { version_number } = await collection.currentVersion();
    const first = await collection.deleteMatching({ filter: { rare: 1 } }, { idempotencyKey: `none${i}` });
    expect(first.deleted).toBe(0);
    expect((await collection.currentVersion()).version_number).toBe(version_number);
    await collection.upsert([{ ...again[0], id: "rare", metadata: { rare: 1 } }]);
    const repeated = await collection.deleteMatching({ filter: { rare: 1 } }, { idempotencyKey: `none${i}` });
    expect(repeated.deleted).toBe(0);
    expect(await collection.has("rare")).toBe(true);
    await collection.delete("rare");
  }
});

test("[Y15] a transaction over all shards is one version, and refused as one", async () => {
  for (const collection of [sharded, whole]) {
    const { transaction_id: id } = await collection.beginTransaction();
    const transaction = collection.transaction(id);
    await transaction.upsert(staged);
    await transaction.delete("r3");
    await expect(transaction.delete("missing")).rejects.toMatchObject({ code: "vector_not_found" });
    await transaction.commit();
    await collection.indexed();
    await expect(transaction.commit()).rejects.toMatchObject({ code: "transaction_not_open" });
  }
  await same((c) => c.count());
  await same((c) => found(c.search("text", { query: "honey", top_k: 20 })));
  await same(async (c) => (await c.currentVersion()).version_number);
});

test("[Y15] earlier versions are read, searched, compared and restored", async () => {
  await change((c) => c.setHistory("all").then(() => undefined));
  const { version_number: version } = await sharded.currentVersion();
  for (const collection of [sharded, whole]) {
    await collection.deleteMatching({ filter: { color: "blue" } });
    await collection.upsert(staged.slice(0, 5).map((each) => ({ ...each, text: "snow" })));
  }
  const then = async (c: Collection) => {
    const past = c.at({ version });
    return {
      count: await past.count(),
      text: await found(past.search("text", { query: "honey snow", top_k: 20, include: ["metadata"] })),
      dense: await found(past.search("dense", { query_vector: query, exact: true, top_k: 20 })),
      one: (await past.get("r2")).toJson(),
      history: (await c.history("r2000")).states.map(({ version: at, until }) => [at, until]),
    };
  };
  await same(then);
  await same(async (c) => {
    const lines: string[] = [];
    for await (const line of await c.diff({ version }, { version: version + 2 })) lines.push(line.toJson());
    return lines;
  });
  for (const collection of [sharded, whole]) await collection.restoreVersion({ version });
  await same((c) => c.count());
  await same((c) => found(c.search("text", { query: "honey snow", top_k: 20 })));
  await same(async (c) => (await c.currentVersion()).version_number);
});

test("[Y15] snapshots, restores, copies and merges are of all shards", async () => {
  const [first, second] = log.databases;
  const { id, vector_count } = await second.snapshots.create("sharded");
  expect(vector_count).toBe((await sharded.count()).count);
  const restored = await second.restoreCollection("restored", { snapshots: [id] });
  const { version_number: version } = await sharded.currentVersion();
  expect(restored).toMatchObject({ vector_count, version_number: version });
  const read = async (collection: Collection) => ({
    count: await collection.count(),
    found: await found(collection.search("text", { query: "honey snow", top_k: 20, include: ["metadata"] })),
    detail: { ...(await collection.describe()), name: "", disk_bytes: 0 },
  });
  const { detail, ...expected } = await read(sharded);
  for (const database of log.databases) {
    const { detail: own, ...rest } = await read(database.collection("restored"));
    expect(rest).toEqual(expected);
    expect(own.config.shards).toBe(3);
  }
  await first.copyCollection("sharded", {}, "branch");
  await first.copyCollection("whole", {}, "whole-branch");
  for (const [branch, of] of [
    ["branch", sharded],
    ["whole-branch", whole],
  ] as const) {
    const copy = first.collection(branch);
    expect((await copy.count()).count).toBe((await of.count()).count);
    await copy.upsert(staged.slice(5, 15).map((each) => ({ ...each, text: "branch" })));
    await copy.delete("r2");
    await of.upsert([{ ...staged[5], text: "both" } as VectorWrite]);
  }
  await expect(second.mergeCollection("sharded", { from: "branch" })).rejects.toMatchObject({
    code: "merge_conflict",
    details: { conflict_count: 1 },
  });
  const merged = await second.mergeCollection("sharded", { from: "branch", on_conflict: "theirs" });
  const alone = await first.mergeCollection("whole", { from: "whole-branch", on_conflict: "theirs" });
  expect({ ...merged, version: 0 }).toEqual({ ...alone, version: 0 });
  expect(merged.version.vector_count).toBe(alone.version.vector_count);
  await same((c) => found(c.search("text", { query: "branch both", top_k: 20 })));
  // One of several shards can replace one of one, and the other way round.
  const { id: one } = await first.snapshots.create("whole");
  await first.restoreCollection("restored", { snapshots: [one], overwrite: true });
  expect((await first.collection("restored").describe()).config.shards).toBeUndefined();
  await second.restoreCollection("restored", { snapshots: [id], overwrite: true });
  expect((await first.collection("restored").count()).count).toBe(vector_count);
  expect(first.listCollections().map(({ name }) => name)).toEqual(
    second.listCollections().map(({ name }) => name),
  );
  for (const name of ["restored", "branch", "whole-branch"]) await second.deleteCollection(name);
  expect(first.listCollections().map(({ name }) => name)).toEqual(["sharded", "whole"]);
  expect(detail.config.shards).toBe(3);
  expect((await sharded.check()).findings).toEqual([]);
});

test("[Y15] more shards than exports may run are exported, which counts as one", async () => {
  const [first] = log.databases;
  await first.createCollection({
    name: "many",
    tf_idf_options: { enabled: true },
    config: { shards: limits.exportsMax + 6 },
  });
  const many = first.collection("many");
  await many.upsert(Array.from({ length: 300 }, (_, i) => ({ id: `m${i}`, text: "a" })));
  const exported = await Promise.all([many.exportMatching({}), many.exportMatching({})]);
  for (const lines of exported) {
    let count = 0;
    for await (const _ of lines) count++;
    expect(count).toBe(300);
  }
  await first.deleteCollection("many");
});

test("[Y15] a filter of a key restricts reads of all shards, and writes are refused", async () => {
  const [first, second] = log.databases.map((database) => database.restrictedTo({ color: "green" }));
  const [ours, theirs, all] = [
    first.collection("sharded"),
    second.collection("sharded"),
    first.collection("whole"),
  ];
  for (const collection of [ours, theirs]) {
    expect(await collection.count()).toEqual(await all.count());
    const search = { query: "honey bees", top_k: 10 } as const;
    expect(await found(collection.search("text", search))).toEqual(await found(all.search("text", search)));
    expect(await collection.has("r4")).toBe(true);
    expect(await collection.has("r5")).toBe(false);
    await expect(collection.upsert([record(5_000)])).rejects.toMatchObject({ code: "forbidden" });
  }
});
