// Does an answer say what is probably wrong with a filter that matches nothing, and nothing of one that is right?

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Filter } from "@quiverdb/protocol/shapes/filter";
import type { MetadataIndex } from "@quiverdb/protocol/shapes/index-definition";
import type { Warning } from "@quiverdb/protocol/shapes/warning";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Collection, Database, VectorWrite } from "./contract.ts";
import { openDatabase } from "./database.ts";

let directory: string;
let database: Database;
let made = 0;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "quiver-warnings-"));
  database = await openDatabase({ dataDir: directory });
});
afterAll(async () => {
  await database.close();
  rmSync(directory, { recursive: true });
});

const records: readonly VectorWrite[] = Array.from({ length: 40 }, (_, i) => ({
  id: `r${i}`,
  document_id: `d${i % 3}`,
  dense_values: [i, 1],
  text: "bees dance",
  metadata: {
    color: i % 2 === 0 ? "red" : "blue",
    n: i,
    ok: i % 2 === 0,
    at: "2024-05-01T10:00:00Z",
    author: { name: `a${i % 5}` },
    ...(i === 39 && { rare: "yes" }),
  },
}));

async function make(
  fields: Record<string, MetadataIndex["type"]> = {},
  written: readonly VectorWrite[] = records,
): Promise<Collection> {
  const name = `c${made++}`;
  await database.createCollection({
    name,
    dense_vector: { enabled: true, dimension: 2, auto_create_index: true },
    tf_idf_options: { enabled: true },
  });
  const collection = database.collection(name);
  await collection.createIndex("tf-idf", {});
  for (const [field, type] of Object.entries(fields)) await collection.createMetadataIndex(field, { type });
  await collection.upsert(written);
  await collection.indexed();
  return collection;
}

/** The warnings of every request that takes the filter; they must be the same. */
async function warningsOf(collection: Collection, filter: Filter): Promise<Warning[] | undefined> {
  const vector = [1, 1];
  const [first, ...others] = await Promise.all([
    collection.count({ filter }),
    collection.search("dense", { query_vector: vector, filter }),
    collection.search("text", { query: "bees", filter }),
    collection.search("hybrid", { query_vector: vector, query_text: "bees", filter }),
    collection.search("batchDense", { queries: [{ vector }], filter }).then(([answer]) => answer),
    collection.search("recommend", { positive: [vector], filter }),
    collection.scroll({ filter }),
    collection.facet({ field: "color", filter }),
    collection.facet({ fields: ["color", "n"], filter }),
  ]);
  for (const answer of others) {
    expect(answer.warnings).toEqual(first.warnings);
    // Absent, not undefined: it would be seen in a comparison, and by whoever lists the keys.
    expect("warnings" in answer).toBe(first.warnings !== undefined);
  }
  return first.warnings;
}

const absent = (path: string, name: string, meant?: string) => ({
  code: "absent_field",
  path,
  message: expect.stringContaining(
    `field ${JSON.stringify(name)}${meant === undefined ? "" : ` (did you mean ${meant}?)`}.`,
  ),
});
const mismatch = (path: string, words: string) => ({
  code: "type_mismatch",
  path,
  message: expect.stringContaining(words),
});

/** Filters with a mistake, and what is said of it. */
const wrong: readonly [Filter, readonly unknown[]][] = [
  [{ colour: "red" }, [absent("filter.colour", "colour", "color")]],
  [{ field: "colour", eq: "red" }, [absent("filter.field", "colour", "color")]],
  [
    { Is: { field_name: "Color", operator: "Equal", field_value: "red" } },
    [absent("filter.Is.field_name", "Color", "color")],
  ],
  [{ "author.nmae": { prefix: "a" } }, [absent('filter["author.nmae"]', "author.nmae", "author.name")]],
  [{ zzzzzz: { gte: 1, lt: 3 } }, [absent("filter.zzzzzz", "zzzzzz")]],
  [
    { or: [{ colour: "red" }, { kolor: "red" }, { field: "colour", gte: "a", lt: "b" }] },
    [absent("filter.or[0].colour", "colour", "color"), absent("filter.or[1].kolor", "kolor", "color")],
  ],
  [
    { and: [{ color: "red" }, { not: { not: { colour: { in: ["red"] } } } }] },
    [absent("filter.and[1].not.not.colour", "colour", "color")],
  ],
  [{ document_id: "d1", colour: "red" }, [absent("filter.colour", "colour", "color")]],
  [
    { or: [{ colour: "red" }, { kolor: "red" }] },
    [absent("filter.or[0].colour", "colour", "color"), absent("filter.or[1].kolor", "kolor", "color")],
  ],
];

/** Filters without one, whatever they match. */
const right: readonly Filter[] = [
  { color: "red" },
  { color: "green" },
  { n: { gt: 1_000 } },
  { rare: "no" },
  { colour: { exists: false } },
  { colour: { exists: true } },
  { colour: { ne: "red" } },
  { colour: { nin: ["red"] } },
  { not: { colour: "red" } },
  { color: "green", colour: { ne: "red" } },
  { or: [{ color: "red" }, { colour: "red" }] },
  { id: "nobody" },
  { document_id: "none" },
  { or: [] },
  { color: { in: [] } },
];

describe.each([
  ["without metadata indexes", {}],
  ["with metadata indexes", { color: "keyword", n: "number", ok: "boolean", at: "datetime" }],
] as const)("[W16] %s", (_, fields) => {
  let collection: Collection;
  beforeAll(async () => {
    collection = await make(fields);
  });

  test("a field that no record has is named, with its place and the nearest name", async () => {
    for (const [filter, expected] of wrong) {
      expect(await warningsOf(collection, filter), JSON.stringify(filter)).toEqual(expected);
      // The same when the matches are known from an earlier request.
      expect(await warningsOf(collection, filter)).toEqual(expected);
      expect(await collection.updateMatching({ filter, metadata: { a: 1 } })).toEqual({
        updated: 0,
        warnings: expected,
      });
      expect(await collection.deleteMatching({ filter })).toEqual({ deleted: 0, warnings: expected });
    }
  });

  test("nothing is said of a filter that is right", async () => {
    for (const filter of right)
      expect(await warningsOf(collection, filter), JSON.stringify(filter)).toBeUndefined();
  });

  test("each query of a batch has its own", async () => {
    const [one, two] = await collection.search("batchDense", {
      queries: [
        { vector: [1, 1], filter: { color: "red" } },
        { vector: [1, 1], filter: { colour: "red" } },
      ],
    });
    expect(one.warnings).toBeUndefined();
    expect(two.warnings).toEqual([absent("queries[1].filter.colour", "colour", "color")]);
  });
});

test("[W16] a comparison with another type than that of the field's index is named, where nothing matches", async () => {
  const collection = await make({ color: "keyword", n: "number", ok: "boolean", at: "datetime" });
  for (const [filter, path, words] of [
    [{ n: "5" }, "filter.n", 'field "n" is declared as number, and compared with a string'],
    [{ n: { gte: "5", lt: "9" } }, "filter.n.gte", "declared as number"],
    [{ n: { in: ["5", true] } }, "filter.n.in", "compared with a string or a boolean"],
    [{ field: "n", gte: "5" }, "filter.gte", "declared as number"],
    [{ n: { prefix: "5" } }, "filter.n.prefix", "Compare it with a number."],
    [{ color: 5 }, "filter.color", "declared as keyword, and compared with a number"],
    [{ ok: "true" }, "filter.ok", "declared as boolean, and compared with a string"],
    [{ at: { gt: 5 } }, "filter.at.gt", "declared as datetime, and compared with a number"],
  ] as const)
    expect(await warningsOf(collection, filter as Filter), JSON.stringify(filter)).toEqual([
      mismatch(path, words),
    ]);
  for (const filter of [
    { n: { ne: "5" } },
    { n: { in: [1_000, "5"] } },
    { n: { gt: 1_000 } },
    { at: "2020-01-01" },
    { at: { contains: "1999" } },
    { or: [{ n: "5" }, { n: 5 }] },
  ] as Filter[])
    expect(await warningsOf(collection, filter), JSON.stringify(filter)).toBeUndefined();
  // A value of another type is found; then there is nothing to warn of.
  await collection.upsert([{ id: "other", text: "bees", metadata: { n: "5" } }]);
  expect((await collection.count({ filter: { n: "5" } })).count).toBe(1);
  expect(await warningsOf(collection, { n: "5" })).toBeUndefined();
});

test("[W16] an empty collection has nothing to warn of, and neither has a field that came meanwhile", async () => {
  const collection = await make({ declared: "keyword" }, []);
  for (const filter of [{ colour: "red" }, { declared: "x" }])
    expect(await warningsOf(collection, filter)).toBeUndefined();
  await collection.upsert([{ id: "a", text: "bees", metadata: { color: "red" } }]);
  expect(await warningsOf(collection, { colour: "red" })).toHaveLength(1);
  await collection.upsert([{ id: "b", text: "bees", metadata: { colour: "blue" } }]);
  expect(await warningsOf(collection, { colour: "red" })).toBeUndefined();
  await collection.delete("b");
  expect(await warningsOf(collection, { colour: "red" })).toHaveLength(1);
});

test("[W16] a filter with many mistakes has a bounded number of warnings", async () => {
  const collection = await make();
  const filter = { and: Array.from({ length: 100 }, (_, i) => ({ [`nobody ${i}`]: 1 })) } as Filter;
  expect(await warningsOf(collection, filter)).toHaveLength(10);
});

test("[W16] facets of all records warn of each field that nobody has", async () => {
  const collection = await make({ n: "number" });
  const { facets, warnings } = await collection.facet({ fields: ["n", "colour", "author", "document_id"] });
  expect(Object.values(facets).map(({ length }) => length)).toEqual([40, 0, 0, 3]);
  expect(warnings?.map(({ code, path }) => [code, path])).toEqual([
    ["absent_field", "fields[1]"],
    ["absent_field", "fields[2]"],
  ]);
  expect(warnings?.[0].message).toContain("did you mean color?");
  expect((await collection.facet({ field: "nothing" })).warnings).toMatchObject([{ path: "field" }]);
  expect(await collection.facet({ field: "color" })).not.toHaveProperty("warnings");
  // Of some records nothing is known.
  expect(await collection.facet({ field: "rare", filter: { n: 1 } })).not.toHaveProperty("warnings");
  const restricted = database.restrictedTo({ color: "red" }).collection(collection.name);
  expect(await restricted.facet({ field: "rare" })).toEqual({ facets: [] });
  const empty = await make({}, []);
  expect(await empty.facet({ field: "nothing" })).toEqual({ facets: [] });
});

test("[W16] a condition of Qdrant, which is also one on fields named key and range, is told how it is written", async () => {
  const collection = await make();
  const warnings = await warningsOf(collection, { key: "n", range: { gt: 1 } });
  expect(warnings?.map(({ path }) => path)).toEqual(["filter.key", "filter.range"]);
  for (const { message } of warnings ?? []) expect(message).toContain('is written {"n": {"gt": 1}} here');
  const other = await warningsOf(collection, { nothing: 1 });
  expect(other?.[0].message).not.toContain("Qdrant");
});

test("[W16] [A21] who sees only some records is told nothing of the others", async () => {
  const collection = await make({ n: "number" });
  const { name } = collection;
  const restricted = database.restrictedTo({ color: "red" }).collection(name);
  for (const filter of [{ colour: "x" }, { n: "5" }, { rare: "no" }]) {
    expect(await restricted.count({ filter })).toEqual({ count: 0 });
    expect(await restricted.search("text", { query: "bees", filter })).toEqual({ results: [] });
    expect(await restricted.scroll({ filter })).toEqual({ vectors: [], next_cursor: null });
    expect(await restricted.facet({ field: "color", filter })).toEqual({ facets: [] });
    expect(await restricted.deleteMatching({ filter })).toEqual({ deleted: 0 });
    expect(await restricted.updateMatching({ filter, metadata: { color: "red" } })).toEqual({ updated: 0 });
  }
});
