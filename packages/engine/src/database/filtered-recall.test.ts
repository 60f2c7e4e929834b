// Do dense searches with filters find what exact searches with them find? On clustered vectors, with filters that are independent of the
// vectors, that select the neighbourhood of the query, or everything but that, and after deletions.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { randomNumbers } from "@quiverdb/kernels/random";
import type { Filter } from "@quiverdb/protocol/shapes/filter";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Collection, Database } from "./contract.ts";
import { openDatabase } from "./database.ts";

const count = 20_000;
const dimension = 24;
const clusters = 40;
const recallMin = 0.98;

let directory: string;
let database: Database;
let collection: Collection;
const next = randomNumbers(17);
const normal = () => next() + next() + next() + next() - 2;
const centres = Array.from({ length: clusters }, () => Array.from({ length: dimension }, () => 2 * normal()));
const near = (cluster: number) => centres[cluster].map((value) => Math.fround(value + normal()));

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "quiver-recall-"));
  database = await openDatabase({ dataDir: directory });
  await database.createCollection({
    name: "c",
    dense_vector: { enabled: true, dimension, auto_create_index: false },
    sparse_vector: { enabled: false },
    tf_idf_options: { enabled: true },
    config: {},
  });
  collection = database.collection("c");
  await collection.createIndex("tf-idf", { name: "t", sample_threshold: 100, k1: 1.2, b: 0.75 });
  await collection.createIndex("dense", {
    name: "d",
    distance_metric_type: "euclidean",
    quantization: { type: "auto", properties: { sample_threshold: 1_000 } },
    index: { type: "hnsw", properties: {} },
  });
  for (const [field, type] of [
    ["u", "number"],
    ["cluster", "number"],
    ["color", "keyword"],
    ["on", "boolean"],
  ] as const)
    await collection.createMetadataIndex(field, { type });
  for (let from = 0; from < count; from += 2_000)
    await collection.upsert(
      Array.from({ length: 2_000 }, (_, i) => {
        const cluster = Math.floor(next() * clusters);
        return {
          id: `r${from + i}`,
          dense_values: near(cluster),
          text: `word${i % 50} common`,
          metadata: { u: next(), cluster, color: ["red", "green", "blue"][i % 3], on: i % 2 === 0, t: i },
        };
      }),
    );
  await collection.indexed();
  // All vectors in the graph.
  while (collection.indexes().dense?.status.records_in_tail !== 0)
    await new Promise((resolve) => setTimeout(resolve, 50));
}, 300_000);
afterAll(async () => {
  await database.close();
  rmSync(directory, { recursive: true, force: true });
});

/** Mean recall@10 of searches near some clusters, with the filters for them. */
async function recallOf(filterOf: (cluster: number) => Filter, queries = 24): Promise<number> {
  let [found, expected] = [0, 0];
  for (let i = 0; i < queries; i++) {
    const cluster = i % clusters;
    const request = { query_vector: near(cluster), top_k: 10, filter: filterOf(cluster) };
    const { results: best } = await collection.search("dense", { ...request, exact: true });
    const { results } = await collection.search("dense", request);
    // Never fewer than are there.
    expect(results.length).toBe(best.length);
    const ids = new Set(best.map(({ id }) => id));
    found += results.filter(({ id }) => ids.has(id)).length;
    expected += best.length;
  }
  return expected === 0 ? 1 : found / expected;
}

const shares = [1, 0.9, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.001, 0.000_1];
const farFrom = (cluster: number) => (cluster + clusters / 2) % clusters;
const kinds: Readonly<Record<string, (share: number) => (cluster: number) => Filter>> = {
  "independent of the vectors": (share) => () => ({ u: { lt: share } }),
  "near the query": (share) => (cluster) =>
    share >= 1 / clusters
      ? { cluster: { in: around(cluster, share) } }
      : { cluster, u: { lt: share * clusters } },
  "far from the query": (share) => (cluster) => ({
    cluster: share > 0.5 ? { ne: cluster } : { in: around(farFrom(cluster), Math.max(share, 1 / clusters)) },
    u: { lt: Math.min(1, share * clusters) },
  }),
  "of five fields":
    (share) =>
    (cluster): Filter => ({
      and: [
        { u: { gte: 0.1, lt: 0.1 + 0.8 * share } },
        { or: [{ color: "red" }, { field: "color", eq: "green" }, { on: true }] } as Filter,
        { not: { cluster: { in: [farFrom(cluster)] } } },
        { t: { gte: 0 } },
      ],
    }),
};

/** So many clusters from one on. */
const around = (cluster: number, share: number): number[] =>
  Array.from({ length: Math.max(1, Math.round(share * clusters)) }, (_, i) => (cluster + i) % clusters);

describe("[W15] recall with filters", () => {
  for (const [name, make] of Object.entries(kinds))
    test(`${name}, from all records to one in ten thousand`, async () => {
      for (const share of shares)
        expect(await recallOf(make(share)), `${name}, ${share}`).toBeGreaterThanOrEqual(recallMin);
    }, 120_000);

  test("after most records were deleted, also those near the queries", async () => {
    expect((await collection.deleteMatching({ filter: { u: { lt: 0.5 } } })).deleted).toBeGreaterThan(9_000);
    expect(
      (await collection.deleteMatching({ filter: { cluster: { in: [0, 1, 2] } } })).deleted,
    ).toBeGreaterThan(500);
    for (const share of [1, 0.7, 0.55, 0.51, 0.501])
      expect(await recallOf(() => ({ u: { lt: share } })), `${share}`).toBeGreaterThanOrEqual(recallMin);
    for (const name of ["near the query", "far from the query"])
      expect(await recallOf(kinds[name](0.1)), name).toBeGreaterThanOrEqual(recallMin);
  }, 120_000);
});

test("[W14] an explained search says how its filter was used", async () => {
  const query_vector = near(5);
  const explain = true;
  const indexed = await collection.search("dense", { query_vector, filter: { u: { gte: 0.75 } }, explain });
  expect(indexed.filter).toMatchObject({ is_known: false, records_read: 0 });
  expect(indexed.filter?.matching).toBe((await collection.count({ filter: { u: { gte: 0.75 } } })).count);
  const again = await collection.search("dense", { query_vector, filter: { u: { gte: 0.75 } }, explain });
  expect(again.filter).toEqual({
    ...indexed.filter,
    is_known: true,
    records_read: undefined,
    legs: { dense: { way: expect.any(String), estimated_us: expect.any(Object) } },
  });
  const few = await collection.search("dense", { query_vector, filter: { u: { gte: 0.999 } }, explain });
  expect(few.filter?.legs.dense.way).toBe("scan matching vectors");
  const read = await collection.search("dense", { query_vector, filter: { t: 7 }, explain });
  expect(read.filter?.records_read).toBe((await collection.count()).count);
  const hybrid = await collection.search("hybrid", {
    query_vector,
    query_text: "word3 common",
    filter: { on: true },
    explain,
  });
  expect(Object.keys(hybrid.filter?.legs ?? {})).toEqual(["dense", "tf-idf"]);
  expect(Object.keys(hybrid.filter?.legs["tf-idf"].estimated_us ?? {})).toEqual([
    "mask postings",
    "look up matching records",
  ]);
  const none = await collection.search("dense", { query_vector, filter: { color: "purple" }, explain });
  expect(none.filter?.matching).toBe(0);
  // Every estimate can be said in JSON.
  for (const us of Object.values(none.filter?.legs.dense.estimated_us ?? {}))
    expect(us).toSatisfy(Number.isFinite);
  expect((await collection.search("dense", { query_vector, explain })).filter).toBeUndefined();
  expect((await collection.search("dense", { query_vector, filter: { on: true } })).filter).toBeUndefined();
});
