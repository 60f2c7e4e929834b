// Searches, exports and reads with filters, through the whole engine, on a real store, against brute force.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { randomNumbers } from "@quiverdb/kernels/random";
import type { Filter } from "@quiverdb/protocol/shapes/filter";
import type { SearchResponse } from "@quiverdb/protocol/shapes/search";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { anyFilter, anyMetadata } from "../../test/filter/any-filter.ts";
import { naiveMatches } from "../../test/filter/naive-filter.ts";
import type { Collection, Database, VectorWrite } from "./contract.ts";
import { openDatabase } from "./database.ts";

let directory: string;
let database: Database;
let made = 0;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "quiver-filters-"));
  database = await openDatabase({ dataDir: directory });
});
afterAll(async () => {
  await database.close();
  rmSync(directory, { recursive: true, force: true });
});

const dimension = 4;

async function make(): Promise<Collection> {
  const name = `c${made++}`;
  await database.createCollection({
    name,
    dense_vector: { enabled: true, dimension },
    sparse_vector: { enabled: true },
    tf_idf_options: { enabled: true },
    config: {},
  });
  const collection = database.collection(name);
  await collection.createIndex("dense", {
    name: "d",
    distance_metric_type: "euclidean",
    quantization: { type: "scalar", properties: { data_type: "f32" } },
    index: { type: "hnsw", properties: {} },
  });
  await collection.createIndex("sparse", { name: "s", quantization: 64, sample_threshold: 100 });
  await collection.createIndex("tf-idf", { name: "t", sample_threshold: 100, k1: 1.2, b: 0.75 });
  return collection;
}

const words = ["amber", "birch", "cedar", "delta"];

function recordOf(i: number, next: () => number, metadata: Record<string, unknown> | null): VectorWrite {
  return {
    id: `r${i}`,
    document_id: i % 5 === 0 ? `d${i % 3}` : null,
    dense_values: Array.from({ length: dimension }, () => Math.fround(next() - 0.5)),
    sparse_values: [
      [i % 3, 1 + next()],
      [7, 0.5 + next()],
    ],
    text: words.filter(() => next() < 0.6).join(" ") || "amber",
    metadata,
  };
}

const idsOf = ({ results }: SearchResponse) => results.map(({ id }) => id);
const queryOf = (next: () => number) => Array.from({ length: dimension }, () => next() - 0.5);
const terms: [number, number][] = [
  [0, 1],
  [7, 0.3],
];

/** The answers of all kinds of search with a filter. */
async function searchAll(
  collection: Collection,
  query_vector: number[],
  top_k: number,
  filter: Filter | null,
) {
  const common = { top_k, filter };
  return {
    dense: await collection.search("dense", { query_vector, ...common }),
    exact: await collection.search("dense", { query_vector, exact: true, ...common }),
    sparse: await collection.search("sparse", { query_terms: terms, ...common }),
    text: await collection.search("text", { query: "amber birch", ...common }),
    hybrid: await collection.search("hybrid", {
      query_vector,
      query_terms: terms,
      query_text: "cedar",
      ...common,
    }),
  };
}

/** Metadata indexes of fields that any-filter.ts asks for; "datetime" would refuse most of its operands. */
const declared = {
  a: "keyword",
  b: "number",
  c: "boolean",
  "a.b": "keyword",
  "b.c.a": "number",
  "": "keyword",
  é: "number",
  "a\\.b": "keyword",
} as const;

for (const isIndexed of [false, true])
  test(`[W6] ${isIndexed ? "[W8] with metadata indexes, " : ""}every kind of search finds the best of the matching records, with the scores that it has without the filter`, async () => {
    const collection = await make();
    if (isIndexed)
      for (const [field, type] of Object.entries(declared))
        await collection.createMetadataIndex(field, { type });
    const next = randomNumbers(7);
    const records = new Map<string, VectorWrite>();
    const metadata = fc.sample(fc.option(anyMetadata), { numRuns: 260, seed: 3 });
    for (const [i, one] of metadata.entries()) records.set(`r${i % 200}`, recordOf(i % 200, next, one));
    // The last sixty replace the first ones, and every seventh is deleted.
    await collection.upsert([...metadata.keys()].slice(0, 200).map((i) => ({ ...recordOf(i, next, null) })));
    await collection.upsert([...records.values()]);
    for (const id of [...records.keys()].filter((_, i) => i % 7 === 0)) {
      await collection.delete(id);
      records.delete(id);
    }
    if (isIndexed) {
      // From their checkpoints.
      await collection.unload();
      await collection.load();
      await collection.indexed();
      expect(collection.metadataIndexes().indexes.map(({ status }) => status.state)).toEqual(
        Object.keys(declared).map(() => "ready"),
      );
      expect((await collection.check()).findings).toEqual([]);
    }
    const query = queryOf(next);
    const all = await searchAll(collection, query, 300, null);
    let found = 0;
    for (const sampled of fc.sample(anyFilter, { numRuns: 60, seed: 11 })) {
      const filter = sampled as Filter;
      const matching = new Set(
        [...records.values()].filter((record) => naiveMatches(record as never, filter)).map(({ id }) => id),
      );
      for (const top_k of [5, 300]) {
        const filtered = await searchAll(collection, query, top_k, filter);
        for (const kind of ["dense", "exact", "sparse", "text"] as const) {
          const expected = all[kind].results.filter(({ id }) => matching.has(id)).slice(0, top_k);
          expect(filtered[kind].results, `${kind} ${JSON.stringify(filter)}`).toEqual(expected);
        }
        expect(new Set(idsOf(filtered.hybrid)).isSubsetOf(matching)).toBe(true);
        expect(filtered.dense.results.length).toBe(Math.min(top_k, matching.size));
        expect(filtered.hybrid.results.length).toBe(Math.min(top_k, matching.size));
      }
      const exported = await collection.exportMatching({ filter });
      expect(exported.count).toBe(matching.size);
      expect(new Set(Array.from(exported, (vector) => vector.toRecord().id))).toEqual(matching);
      found += matching.size;
    }
    expect(found).toBeGreaterThan(1_000);
  }, 60_000);

test("[W8] indexes of fields are declared, built in the background, and deleted, whenever it is; filters are right meanwhile", async () => {
  const collection = await make();
  const next = randomNumbers(21);
  const records = (from: number) =>
    Array.from({ length: 3_000 }, (_, i) =>
      recordOf(from + i, next, {
        n: i,
        t: new Date(Date.UTC(2024, 0, 1) + i * 1_000).toISOString(),
        even: i % 2 === 0,
        s: `s${i % 7}`,
      }),
    );
  await collection.upsert(records(0));
  const filter: Filter = { n: { gte: 500, lt: 700 }, even: true, s: { in: ["s1", "s2"] } };
  const expected = Array.from({ length: 200 }, (_, i) => 500 + i).filter(
    (i) => i % 2 === 0 && [1, 2].includes(i % 7),
  ).length;
  const matched = async (wanted = filter) =>
    (await collection.search("dense", { query_vector: [0, 0, 0, 0], top_k: 5_000, filter: wanted })).results
      .length;
  expect(await matched()).toBe(expected);
  for (const [field, type] of [
    ["n", "number"],
    ["even", "boolean"],
    ["s", "keyword"],
    ["t", "datetime"],
  ] as const) {
    await collection.createMetadataIndex(field, { type });
    // The same declaration again changes nothing.
    await collection.createMetadataIndex(field, { type });
    expect(await matched()).toBe(expected);
  }
  await expect(collection.createMetadataIndex("n", { type: "keyword" })).rejects.toMatchObject({
    code: "index_already_exists",
  });
  await collection.indexed();
  expect(await matched()).toBe(expected);
  // 08:10 at +02:00 is 06:10 UTC.
  expect(await matched({ t: { gte: "2024-01-01T02:10:00+02:00", lt: "2024-01-01T00:20:00Z" } })).toBe(600);
  await expect(matched({ t: { gte: "soon" } })).rejects.toMatchObject({ code: "invalid_filter" });
  await collection.upsert(records(3_000));
  expect(await matched()).toBe(2 * expected);
  for (let i = 0; i < 3_000; i += 2) await collection.delete(`r${i}`);
  expect(await matched()).toBe(2 * expected - expected);
  await collection.deleteMetadataIndex("n");
  await expect(collection.deleteMetadataIndex("n")).rejects.toMatchObject({ code: "index_not_found" });
  expect(await matched()).toBe(expected);
  expect(collection.metadataIndexes().indexes.map(({ field }) => field)).toEqual(["even", "s", "t"]);
  expect(Object.keys(collection.indexes())).toEqual(["dense", "sparse", "tf-idf"]);
  expect((await collection.check()).findings).toEqual([]);
});

describe("[W7] in a batch", () => {
  test("the filter of the request and that of the query both hold", async () => {
    const collection = await make();
    const next = randomNumbers(9);
    const records = Array.from({ length: 60 }, (_, i) => recordOf(i, next, { n: i, even: i % 2 === 0 }));
    await collection.upsert(records);
    const vector = queryOf(next);
    const own: (Filter | null)[] = [{ n: { lt: 20 } }, null, { n: { gte: 40 } }, { n: { lt: 20 } }];
    const filter: Filter = { even: true };
    const expected = async (kind: "dense" | "sparse" | "text" | "hybrid") => {
      const answers = [];
      for (const one of own)
        answers.push(
          (await searchAll(collection, vector, 8, one === null ? filter : { and: [filter, one] }))[kind],
        );
      return answers;
    };
    const common = { top_k: 8, filter };
    const dense = await collection.search("batchDense", {
      queries: own.map((one) => ({ vector, filter: one })),
      ...common,
    });
    expect(dense).toEqual(await expected("dense"));
    expect(dense.flatMap(idsOf).length).toBe(32);
    const sparse = await collection.search("batchSparse", {
      query_terms_list: own.map((one) => (one === null ? terms : { query_terms: terms, filter: one })),
      ...common,
    });
    expect(sparse).toEqual(await expected("sparse"));
    const text = await collection.search("batchText", {
      queries: own.map((one) => (one === null ? "amber birch" : { query: "amber birch", filter: one })),
      ...common,
    });
    expect(text).toEqual(await expected("text"));
    const hybrid = await collection.search("batchHybrid", {
      queries: own.map((one) => ({
        query_vector: vector,
        query_terms: terms,
        query_text: "cedar",
        filter: one,
      })),
      ...common,
    });
    expect(hybrid).toEqual(await expected("hybrid"));
  });

  test("a wrong filter fails the whole batch with its position", async () => {
    const collection = await make();
    const vector = [0, 0, 0, 0];
    for (const [search, path] of [
      [
        collection.search("batchDense", {
          queries: [{ vector }, { vector, filter: { n: { like: 1 } } as never }],
        }),
        "queries[1].filter.n.like",
      ],
      [
        collection.search("batchText", { queries: ["a", { query: "b", filter: { and: 1 } as never }] }),
        "queries[1].filter.and",
      ],
      [
        collection.search("batchSparse", { query_terms_list: [{ query_terms: terms, filter: [] as never }] }),
        "query_terms_list[0].filter",
      ],
      [collection.search("dense", { query_vector: vector, filter: "red" as never }), "filter"],
      [collection.exportMatching({ filter: { not: 1 } as never }), "filter.not"],
    ] as const)
      await expect(search).rejects.toMatchObject({ code: "invalid_filter", details: { path } });
  });
});

test("[W6] a search with a filter sees one version, however many records are written meanwhile", async () => {
  const collection = await make();
  const next = randomNumbers(5);
  const round = (version: number) =>
    Array.from({ length: 400 }, (_, i) => ({ ...recordOf(i, next, { version, odd: i % 2 }) }));
  await collection.upsert(round(0));
  let isOver = false;
  const writing = (async () => {
    for (let version = 1; version <= 25; version++) await collection.upsert(round(version));
    isOver = true;
  })();
  let searches = 0;
  while (!isOver || searches < 10) {
    const filter: Filter = { odd: 1 };
    const [first, second] = await collection.search("batchDense", {
      queries: [
        { vector: queryOf(next), filter },
        { vector: queryOf(next), filter: { ...filter, version: { gte: 0 } } },
      ],
      top_k: 300,
    });
    expect(first.results.length).toBe(200);
    expect(new Set(idsOf(first))).toEqual(new Set(idsOf(second)));
    searches++;
  }
  await writing;
});

test("[W14] a prefix of ids is found without reading records, whatever the ids are", async () => {
  const name = `c${made++}`;
  await database.createCollection({
    name,
    dense_vector: { enabled: false },
    sparse_vector: { enabled: false },
    tf_idf_options: { enabled: true },
    config: {},
  });
  const collection = database.collection(name);
  const ids = [
    ...Array.from({ length: 1_500 }, (_, i) => `acme/${i}`),
    ...[
      "acme",
      "acm",
      "acme0",
      "Acme/1",
      "acme/é",
      "acme/e\u0301",
      "acme/\u{10ffff}",
      "acme/\u0000",
      "\u{10ffff}",
      "z",
    ],
  ];
  for (let from = 0; from < ids.length; from += 500)
    await collection.upsert(ids.slice(from, from + 500).map((id) => ({ id, text: "x" })));
  for (const id of ["acme/7", "acme/1499", "z"]) await collection.delete(id);
  const live = ids.filter((id) => !["acme/7", "acme/1499", "z"].includes(id));
  for (const prefix of [
    "acme/",
    "acme",
    "a",
    "acme/14",
    "acme/é",
    "acme/e",
    "\u{10ffff}",
    "b",
    "acme/\u0000",
    "z",
    "",
  ]) {
    const expected = live.filter((id) => id.startsWith(prefix)).length;
    expect((await collection.count({ filter: { id: { prefix } } })).count, prefix).toBe(expected);
    expect((await collection.count({ filter: { not: { id: { prefix } } } })).count, prefix).toBe(
      live.length - expected,
    );
  }
  await collection.createIndex("tf-idf", { name: "t", sample_threshold: 1, k1: 1.2, b: 0.75 });
  const { filter } = await collection.search("text", {
    query: "x",
    filter: { id: { prefix: "acme/1" } },
    explain: true,
  });
  expect(filter).toMatchObject({ is_known: false, records_read: 0 });
  // The places of deleted records are empty, and nothing is read there.
  const all = await collection.search("text", {
    query: "x",
    filter: { a: { exists: false } },
    explain: true,
  });
  expect(all.filter).toMatchObject({ is_known: false, records_read: live.length });
});

describe("[W14] an explained search names the fields of its filter that nobody has", () => {
  const records = [
    {
      id: "a",
      text: "x",
      metadata: { color: "red", author: { name: "Ann" }, tags: [{ of: 1 }], gone: null },
    },
    { id: "b", text: "x", metadata: { "a.b": 1 } },
    { id: "c", text: "x", document_id: "d" },
  ];
  const told = async (collection: Collection, filter: Filter) => {
    const answer = await collection.search("text", { query: "x", filter, explain: true });
    return [answer.filter?.absent_fields, answer.filter?.known_fields];
  };
  const known = ["color", "author.name", "tags.of", "a\\.b"];

  test("without metadata indexes, from the records that were read", async () => {
    const collection = await make();
    expect(await told(collection, { colour: "red" })).toEqual([undefined, undefined]);
    await collection.upsert(records);
    expect(await told(collection, { colour: "red" })).toEqual([["colour"], known]);
    // Also when the set is known from an earlier request.
    expect(await told(collection, { colour: "red" })).toEqual([["colour"], known]);
    expect(await told(collection, { not: { colour: "red" } })).toEqual([["colour"], known]);
    expect(await told(collection, { gone: 1, "author.names": "Ann", color: "blue" })).toEqual([
      ["gone", "author.names"],
      known,
    ]);
    for (const has of ["color", "author", "author.name", "tags.of", "a\\.b"])
      expect(await told(collection, { [has]: "nothing like this" }), has).toEqual([undefined, undefined]);
    expect(await told(collection, { id: "a", document_id: "e" })).toEqual([undefined, undefined]);
    // Other conditions leave only some records to read, which say nothing of the field.
    for (const document_id of ["d", "e"])
      expect(await told(collection, { document_id, color: "red" })).toEqual([undefined, undefined]);
    expect(await told(collection, { id: "c", color: "red" })).toEqual([undefined, undefined]);
  });

  test("from the index of a field, without reading records", async () => {
    const collection = await make();
    await collection.upsert(records);
    for (const field of ["color", "colour"]) await collection.createMetadataIndex(field, { type: "keyword" });
    await vi.waitFor(() =>
      expect(collection.metadataIndexes().indexes.map(({ status }) => status.state)).toEqual([
        "ready",
        "ready",
      ]),
    );
    expect(await told(collection, { color: "blue" })).toEqual([undefined, undefined]);
    expect(await told(collection, { colour: "red" })).toEqual([["colour"], known]);
  });
});
