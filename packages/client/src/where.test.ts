// The types of filters, and what the builder makes, sent to a real server. The lines with @ts-expect-error fail the check of the types if
// what follows compiles.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RunningServer } from "@quiverdb/server/running-server";
import { startServer } from "@quiverdb/server/server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Collection, createClient, type FilterOf, where, whereOf } from "./client.ts";

type Article = {
  color: "red" | "blue";
  n: number;
  fresh?: boolean | null;
  tags: string[];
  author: { name: string; books?: { year: number }[] };
  "a.b": number;
  id: string;
  mixed: (string | number)[];
};

const articles: Article[] = [
  { color: "red", n: 1, tags: ["x"], author: { name: "Ann" }, "a.b": 1, id: "own", mixed: [1, "one"] },
  {
    color: "blue",
    n: 3,
    fresh: true,
    tags: [],
    author: { name: "Bob", books: [{ year: 1999 }] },
    "a.b": 2,
    id: "other",
    mixed: [],
  },
  {
    color: "red",
    n: 5,
    fresh: false,
    tags: ["y", "xy"],
    author: { name: "Bo" },
    "a.b": 3,
    id: "",
    mixed: ["2"],
  },
];

let dataDir: string;
let server: RunningServer;
let collection: Collection<Article>;

beforeAll(async () => {
  dataDir = mkdtempSync(join(tmpdir(), "quiver-where-"));
  server = await startServer({ dataDir, port: 0, adminKey: "the-admin-key", logLevel: "silent" });
  const client = createClient({ url: server.url, apiKey: "the-admin-key" });
  collection = await client.createCollection<Article>({
    name: "articles",
    dense_vector: { enabled: true, dimension: 2, auto_create_index: true },
    tf_idf_options: { enabled: true },
  });
  await collection.createTextIndex();
  await collection.upsert(
    articles.map((metadata, i) => ({ id: `r${i}`, dense_values: [1, i], text: "bees", metadata })),
  );
});
afterAll(async () => {
  await server.close();
  rmSync(dataDir, { recursive: true });
});

const matching = async (filter: FilterOf<Article>): Promise<string[]> => {
  const { vectors } = await collection.scroll({ filter, include: [] });
  return vectors.map(({ id }) => id as string);
};

test("conditions select the records that they describe", async () => {
  const { where } = collection;
  expect(await matching(where("color").eq("red"))).toEqual(["r0", "r2"]);
  expect(await matching(where("color").ne("red"))).toEqual(["r1"]);
  expect(await matching(where("n").in([1, 5]))).toEqual(["r0", "r2"]);
  expect(await matching(where("n").nin([1, 5]))).toEqual(["r1"]);
  expect(await matching(where("n").gt(1).and(where("n").lt(5)))).toEqual(["r1"]);
  expect(await matching(where("n").lte(1).or(where("n").gte(5)))).toEqual(["r0", "r2"]);
  expect(await matching(where("fresh").exists())).toEqual(["r1", "r2"]);
  expect(await matching(where("fresh").exists(false))).toEqual(["r0"]);
  expect(await matching(where("author.name").prefix("Bo").not())).toEqual(["r0"]);
  expect(await matching(where("tags").contains("x"))).toEqual(["r0", "r2"]);
  expect(await matching(where("author.books.year").lt(2000))).toEqual(["r1"]);
  expect(await matching(where("a\\.b").gte(3))).toEqual(["r2"]);
  expect(await matching(where("\\id").eq("own"))).toEqual(["r0"]);
  expect(await matching(where("id").eq("r1"))).toEqual(["r1"]);
  expect(await matching(where("document_id").exists())).toEqual([]);
  expect(await matching(where("mixed").in([1, "2"]))).toEqual(["r0", "r2"]);
});

test("conditions are values: plain filters stand in them, and they in plain filters", async () => {
  const { where } = collection;
  const red = where("color").eq("red");
  const some = red.and({ n: { gte: 3 } });
  expect(red.toJSON()).toEqual({ field: "color", eq: "red" });
  expect(JSON.stringify(some.and(red))).toBe(
    '{"and":[{"field":"color","eq":"red"},{"n":{"gte":3}},{"field":"color","eq":"red"}]}',
  );
  expect(await matching(some)).toEqual(["r2"]);
  expect(await matching({ or: [some, { not: red }] })).toEqual(["r1", "r2"]);
  const { results } = await collection.search.text({ query: "bees", filter: some });
  expect(results.map(({ id }) => id)).toEqual(["r2"]);
  const batch = await collection.search.batchDense({
    queries: [{ vector: [1, 0], filter: some }],
    filter: red,
  });
  expect(batch[0].results.map(({ id }) => id)).toEqual(["r2"]);
  expect(await collection.count(some)).toBe(1);
  expect(await collection.facet({ field: "author.name", filter: some })).toEqual([{ value: "Bo", count: 1 }]);
  const exported: string[] = [];
  for await (const record of collection.export({ filter: red }).records()) exported.push(record.id);
  expect(exported).toEqual(["r0", "r2"]);
});

/** As far as it is known. */
interface Loose {
  scores: Record<string, number>;
  anything: unknown;
  // biome-ignore lint/suspicious/noExplicitAny: some metadata is declared so.
  whatever?: any;
  self?: Loose[];
}

test("without a type of the metadata, any field goes; with one, what does not fit does not compile", () => {
  const untyped = createClient({ url: server.url, apiKey: "the-admin-key" }).collection("articles");
  const any = where("whatever").gte("x").and(where("n").eq(true));
  const here = whereOf<Article>();
  const loose = createClient({ url: server.url }).collection<Loose>("articles");
  // None of these is sent: they are only compiled.
  const compiled = [
    () => untyped.count(any),
    () => untyped.count({ and: [any, { "x.y": { in: [1, "a"] } }] }),
    () => untyped.count(here("n").gt(1)),
    () => untyped.count(any.or(here("n").gt(1))),
    () => collection.count(here("n").gt(1)),
    () =>
      collection.count({
        and: [
          { color: "red", n: { gte: 1, lt: 2 } },
          { field: "tags", eq: "x" },
        ],
      }),
    () => collection.count({ "author.books.year": 1999, author: { exists: true } }),
    () => collection.upsert({ id: "r", metadata: articles[0] }),
    () => loose.count({ "scores.math": { gte: 3 }, anything: "x", "anything.a.b": 3, "whatever.c": true }),
    () => loose.count({ "self.self.scores.math": 3 }),
    () => loose.count(loose.where("scores.art").lt(3).and(loose.where("whatever").prefix("x"))),
    // @ts-expect-error an operand of another type
    () => loose.count({ "scores.math": "3" }),
    // @ts-expect-error a field that the metadata has not
    () => loose.count({ others: 1 }),
    // @ts-expect-error a field that the metadata has not
    () => here("colour"),
    // @ts-expect-error a value that the field cannot have
    () => here("color").eq("green"),
    // @ts-expect-error an operand of another type
    () => here("n").gte("3"),
    // @ts-expect-error a list of another type
    () => here("n").in(["3"]),
    // @ts-expect-error booleans have no order
    () => here("fresh").gt(true),
    // @ts-expect-error numbers have no prefix
    () => here("n").prefix("1"),
    // @ts-expect-error an object has no values, it only exists
    () => here("author").eq("Bob"),
    // @ts-expect-error the key has a dot
    () => here("a.b"),
    // The imported `where` fits every collection, and is not checked.
    () => collection.count(any),
    () => collection.search.text({ query: "bees", filter: any }),
    () => collection.count({ or: [any, { not: any }, { color: "red" }] }),
    () => collection.count(any.and(any)),
    () => collection.count(here("n").gt(1).and(any)),
    // @ts-expect-error a condition on other metadata
    () => collection.count(whereOf<{ n: number; x: string }>()("n").eq(1)),
    // @ts-expect-error a field that the metadata has not
    () => collection.count({ colour: "red" }),
    // @ts-expect-error an operator that no field has
    () => collection.count({ n: { greater: 1 } }),
    // @ts-expect-error an operator that the field has not
    () => collection.count({ n: { prefix: "1" } }),
    // @ts-expect-error an operand of another type
    () => collection.count({ field: "n", gte: "1" }),
    // @ts-expect-error a fault deep inside
    () => collection.count({ or: [{ not: { n: "1" } }] }),
    // @ts-expect-error in a search
    () => collection.search.text({ query: "bees", filter: { colour: "red" } }),
    // @ts-expect-error in a query of a batch
    () => collection.search.batchText({ queries: [{ query: "bees", filter: { n: "1" } }] }),
    // @ts-expect-error results by a field that the metadata has not
    () => collection.search.dense({ query_vector: [1, 0], group_by: "colour" }),
    // @ts-expect-error an order by a field that the metadata has not
    () => collection.scroll({ order_by: { field: "colour" } }),
    // @ts-expect-error values of a field that the metadata has not
    () => collection.facet({ field: "colour" }),
    // @ts-expect-error a record with other metadata
    () => collection.upsert({ id: "r", metadata: { color: "red" } }),
    () => collection.neighbors("r", { filter: here("n").gt(1), group_by: "author.name", ef_search: 64 }),
    () => collection.neighbors("r", { filter: { color: "red" }, include: ["metadata"] }),
    () => untyped.neighbors("r", { filter: { colour: "red" }, group_by: "anything" }),
    // @ts-expect-error neighbours by a field that the metadata has not
    () => collection.neighbors("r", { filter: { colour: "red" } }),
    // @ts-expect-error neighbours in groups by a field that the metadata has not
    () => collection.neighbors("r", { group_by: "colour" }),
    // @ts-expect-error a field that no result has
    () => collection.neighbors("r", { include: ["colour"] }),
    // @ts-expect-error an option that a search has not
    () => collection.neighbors("r", { topk: 3 }),
    () => collection.search.recommend({ positive: ["r", [1, 0]], filter: { n: { gt: 1 } } }),
    // @ts-expect-error examples with a filter on a field that the metadata has not
    () => collection.search.recommend({ positive: ["r"], filter: { colour: "red" } }),
    () => collection.patch("r", { color: "blue", author: { name: "Bo" }, fresh: null, tags: [] }),
    () => collection.updateMatching({ n: 1 }, { n: 2, "a.b": 3, author: { books: null } }),
    () => untyped.patch("r", { anything: { goes: null } }),
    () => loose.patch("r", { scores: { math: 1, art: null }, anything: [1], whatever: null }),
    // @ts-expect-error a field that the metadata has not
    () => collection.patch("r", { colour: "red" }),
    // @ts-expect-error a value that the field cannot have
    () => collection.patch("r", { color: "green" }),
    // @ts-expect-error a field that an object of the metadata has not
    () => collection.patch("r", { author: { nome: "Bo" } }),
    // @ts-expect-error a field that the metadata must have is not removed
    () => collection.patch("r", { n: null }),
    // @ts-expect-error an array is replaced as a whole
    () => collection.patch("r", { tags: "x" }),
    // @ts-expect-error a field that the metadata has not
    () => collection.updateMatching({ n: 1 }, { colour: "red" }),
    // @ts-expect-error a value that the field cannot have
    () => collection.updateMatching({ n: 1 }, { n: "2" }),
    // @ts-expect-error a value that the object cannot have
    () => loose.updateMatching({ "scores.math": 1 }, { scores: { math: "1" } }),
  ];
  expect(compiled).toHaveLength(59);
});

test("numbers that are not finite are refused with their place: as null they would be no condition, or remove a key", async () => {
  const { where } = collection;
  const paths: [() => Promise<unknown>, string][] = [
    [() => collection.count({ color: "red", n: { gte: 1, lt: Number.NaN } }), "filter.n.lt"],
    [
      () => collection.deleteMatching(where("color").eq("red").and(where("n").lt(Number.NaN))),
      "filter.and[1].lt",
    ],
    [() => collection.count(where("n").in([1, Number.POSITIVE_INFINITY])), "filter.in[1]"],
    [() => collection.patch("r0", { n: Number.NaN }), "metadata.n"],
    [
      () => collection.updateMatching({ n: 1 }, { author: { books: [{ year: Number.NaN }] } }),
      "metadata.author.books[0].year",
    ],
    [() => collection.neighbors("r0", { filter: where("n").gt(Number.NEGATIVE_INFINITY) }), "filter.gt"],
    [
      async () => {
        for await (const _ of collection.export({ filter: { n: Number.NaN } }));
      },
      "filter.n",
    ],
    [() => collection.search.dense({ query_vector: [1, 0], score_threshold: Number.NaN }), "score_threshold"],
  ];
  for (const [ask, path] of paths)
    await expect(ask()).rejects.toMatchObject({ code: "invalid_request", details: { path } });
  expect(await collection.count()).toBe(articles.length);
  expect(await collection.count({ color: "red", n: null } as never).catch(({ code }) => code)).toBe(
    "invalid_filter",
  );
});

test("[H1] [Q25] neighbours take all options of a dense search", async () => {
  const { where } = collection;
  const all = await collection.neighbors("r0", { exact: true, include: ["metadata"] });
  expect(all.results.map(({ id }) => id)).toEqual(["r1", "r2"]);
  const request = {
    filter: where("n").gte(1),
    group_by: "author.name",
    offset: 1,
    top_k: 1,
    explain: true,
    ef_search: 40,
    diversity: 0.5,
    score_threshold: -0.5,
  } as const;
  const some = await collection.neighbors("r0", request);
  expect(some).toMatchObject({ filter: { matching: 3 }, results: [{ id: "r2", group: "Bo" }] });
  expect(some.results[0].explanation).toBeDefined();
});
