// What does an answer tell of the way of its search?

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { randomNumbers } from "@quiverdb/kernels/random";
import { limits } from "@quiverdb/protocol/limits";
import type { SearchResponse } from "@quiverdb/protocol/shapes/search";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Collection, Database } from "./contract.ts";
import { openDatabase } from "./database.ts";

const dimension = 8;
const records = 4_000;
let folder: string;
let database: Database;
let collection: Collection;

function vectorsOf(count: number, seed: number): number[][] {
  const next = randomNumbers(seed);
  return Array.from({ length: count }, () => Array.from({ length: dimension }, () => next() - 0.5));
}

/** Until every vector is in a graph. */
async function built(): Promise<void> {
  await collection.indexed();
  while (collection.indexes().dense?.status.state !== "ready") await sleep(5);
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "quiver-walk-"));
  database = await openDatabase({ dataDir: folder, builderThreads: 1 });
  await database.createCollection({
    name: "c",
    dense_vector: { enabled: true, dimension },
    sparse_vector: { enabled: false },
    tf_idf_options: { enabled: true },
    config: {},
  });
  collection = database.collection("c");
  await collection.createIndex("dense", {
    name: "dense",
    distance_metric_type: "euclidean",
    quantization: { type: "scalar", properties: { data_type: "u8", range: { min: -1, max: 1 } } },
    index: { type: "hnsw", properties: { ef_search: 64 } },
  });
  await collection.createIndex("tf-idf", { name: "text", sample_threshold: 1_000, k1: 1.2, b: 0.75 });
  const rows = vectorsOf(records, 1);
  for (let from = 0; from < records; from += 1_000)
    await collection.upsert(
      rows.slice(from, from + 1_000).map((dense_values, i) => ({
        id: `r${from + i}`,
        // Some share a vector with another record.
        dense_values: (from + i) % 50 === 49 ? rows[from + i - 1] : dense_values,
        text: "words",
        metadata: { n: (from + i) % 10 },
      })),
    );
  await built();
  await collection.delete("r48");
  await collection.delete("r60");
  await built();
}, 60_000);
afterAll(async () => {
  await database.close();
  rmSync(folder, { recursive: true, force: true });
});

const query_vector = vectorsOf(1, 2)[0];
const common = { query_vector, top_k: 10, ef_search: 100 };

function walkOf({ walk }: SearchResponse): NonNullable<SearchResponse["walk"]> {
  if (walk === undefined) throw new Error("the answer has no walk");
  return walk;
}

describe("[Q27] a dense search", () => {
  test("with walk tells which vectors it compared, in order, from which it reached each, and their scores", async () => {
    const plain = await collection.search("dense", common);
    const answer = await collection.search("dense", { ...common, walk: true });
    expect(answer.results).toEqual(plain.results);
    expect(Object.keys(answer).sort()).toEqual(["results", "walk"]);
    const { visits, is_cut } = walkOf(answer);
    expect(is_cut).toBe(false);
    expect(visits.length).toBeGreaterThan(100);
    expect(visits[0].from).toBeNull();
    for (const [i, { from }] of visits.entries()) {
      if (from === null) continue;
      expect(from).toBeGreaterThanOrEqual(0);
      expect(from).toBeLessThan(i);
    }
    // Each result was met, under its own id or that of a record with an equal vector, with its score.
    const scores = new Set(visits.map(({ score }) => score));
    for (const { score } of plain.results) expect(scores).toContain(score);
    const exact = await collection.search("dense", { query_vector, top_k: records, exact: true });
    const scoreOf = new Map(exact.results.map(({ id, score }) => [id, score]));
    for (const { id, score } of visits) expect(score).toBe(id === null ? null : scoreOf.get(id));
    const ids = visits.flatMap(({ id }) => id ?? []);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids).not.toContain("r48");
    expect(ids).not.toContain("r60");
  });

  test("with explain tells the beam, the vectors that it visited and the distances that it computed", async () => {
    const { legs, walk } = await collection.search("dense", { ...common, explain: true, walk: true });
    expect(legs).toEqual({
      dense: {
        way: "follow links",
        beam: 100,
        visited: walk?.visits.length,
        distances: expect.any(Number),
      },
    });
    expect(legs?.dense?.distances).toBeGreaterThan(legs?.dense?.visited ?? 0);
    const wider = await collection.search("dense", { ...common, ef_search: 400, explain: true });
    expect(wider.legs?.dense?.visited).toBeGreaterThan(legs?.dense?.visited ?? 0);
    const { legs: exact } = await collection.search("dense", {
      ...common,
      exact: true,
      explain: true,
      walk: true,
    });
    const distinct = collection.indexes().dense?.status.distinct_vectors as number;
    expect(exact).toEqual({ dense: { way: "scan all vectors", visited: distinct, distances: distinct } });
    const hybrid = await collection.search("hybrid", { query_vector, query_text: "words", explain: true });
    expect(Object.keys(hybrid.legs ?? {})).toEqual(["dense"]);
    const batch = await collection.search("batchDense", {
      queries: [{ vector: query_vector }, { vector: [0, 0, 0, 0, 0, 0, 0, 1] }],
      ef_search: 100,
      explain: true,
    });
    expect(batch[0].legs).toEqual(legs);
    expect(batch[1].legs?.dense?.visited).not.toBe(batch[0].legs?.dense?.visited);
  });

  test("with a filter tells the way that it took", async () => {
    for (const [filter, way] of [
      [{ n: { lt: 8 } }, "follow links"],
      [{ n: 3 }, "follow links"],
      [{ id: { in: ["r1", "r2", "r3"] } }, "scan matching vectors"],
    ] as const) {
      const answer = await collection.search("dense", {
        ...common,
        ef_search: 10,
        filter,
        explain: true,
        walk: true,
      });
      expect(answer.legs?.dense?.way).toBe(answer.filter?.legs.dense.way);
      if (way === "scan matching vectors")
        expect(answer.legs?.dense).toEqual({ way, visited: 3, distances: 3 });
      const { visits } = walkOf(answer);
      expect(visits.length > 0).toBe(answer.legs?.dense?.way === "follow links");
    }
  });

  test("lists the first visits of a long walk, and says that there were more", async () => {
    const answer = await collection.search("dense", {
      ...common,
      ef_search: 2_000,
      walk: true,
      explain: true,
    });
    const { visits, is_cut } = walkOf(answer);
    expect([visits.length, is_cut]).toEqual([limits.walkVisitsMax, true]);
    expect(answer.legs?.dense?.visited).toBeGreaterThan(limits.walkVisitsMax);
  });

  test("by examples is told like any other", async () => {
    const { walk: like } = await collection.search("neighbors", {
      vector_id: "r7",
      walk: true,
      ef_search: 50,
    });
    const stored = (collection.get("r7").toRecord().dense_values as number[]).map(Math.fround);
    const { walk } = await collection.search("dense", { query_vector: stored, ef_search: 50, walk: true });
    expect(like).toEqual(walk);
    const recommended = await collection.search("recommend", { positive: ["r7"], walk: true, ef_search: 50 });
    expect(recommended.walk).toEqual(walk);
  });

  test("tells nothing of its work to a caller who sees only some records", async () => {
    const some = database.restrictedTo({ n: { lt: 8 } }).collection("c");
    const answer = await some.search("dense", { ...common, explain: true, walk: true });
    expect(Object.keys(answer)).toEqual(["results"]);
  });
});

test("[Q27] without a graph there is no walk", async () => {
  await database.createCollection({
    name: "few",
    dense_vector: { enabled: true, dimension, auto_create_index: true },
    sparse_vector: { enabled: false },
    tf_idf_options: { enabled: false },
    config: {},
  });
  const few = database.collection("few");
  await few.upsert(vectorsOf(20, 3).map((dense_values, i) => ({ id: `r${i}`, dense_values })));
  const answer = await few.search("dense", { ...common, walk: true, explain: true });
  expect(answer.walk).toEqual({ visits: [], is_cut: false });
  expect(answer.legs).toEqual({ dense: { way: "scan all vectors", visited: 20, distances: 20 } });
});
