// Are searches by examples, and diverse ones, what their definitions say, against plain code over all records?

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { randomNumbers } from "@quiverdb/kernels/random";
import { isQuiverError } from "@quiverdb/protocol/errors";
import { type MetricName, metricNames } from "@quiverdb/protocol/shapes/index-definition";
import type { Recommend, SearchResult } from "@quiverdb/protocol/shapes/search";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exactScore, metrics } from "../vector/metric.ts";
import type { Collection, Database } from "./contract.ts";
import { openDatabase } from "./database.ts";

let directory: string;
let database: Database;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "quiver-examples-"));
  database = await openDatabase({ dataDir: directory });
});
afterAll(async () => {
  await database.close();
  rmSync(directory, { recursive: true, force: true });
});

const dimension = 6;
const count = 400;
type Ranked = { id: string; score: number };
type Stored = { id: string; vector: Float32Array; color: string };

const next = randomNumbers(16);
const vectorOf = () => Float32Array.from({ length: dimension }, () => 4 * next() - 2);

/** Records in groups of four that are nearly equal, so that diversity changes much; every tenth is equal to another one. */
const records: Stored[] = Array.from({ length: count / 4 }, vectorOf).flatMap((center, group) =>
  Array.from({ length: 4 }, (_, i) => ({
    id: `r${String(4 * group + i).padStart(3, "0")}`,
    vector: group % 10 === 0 ? center : center.map((value) => value + 0.1 * next()),
    color: ["red", "blue", "green"][(group + i) % 3],
  })),
);

async function make(metric: MetricName): Promise<Collection> {
  await database.createCollection({
    name: metric,
    dense_vector: { enabled: true, dimension },
    sparse_vector: { enabled: true },
    tf_idf_options: { enabled: false },
    config: {},
  });
  const collection = database.collection(metric);
  await collection.createIndex("dense", {
    name: "d",
    distance_metric_type: metric,
    quantization: { type: "scalar", properties: { data_type: "f32" } },
    index: { type: "hnsw", properties: {} },
  });
  await collection.upsert([
    ...records.map(({ id, vector, color }) => ({
      id,
      dense_values: vector,
      document_id: color,
      metadata: { color },
    })),
    { id: "sparse alone", sparse_values: [[1, 1]] },
    { id: "zero", dense_values: new Float32Array(dimension), metadata: { color: "none" } },
  ]);
  return collection;
}

const byScore = (a: Ranked, b: Ranked) => b.score - a.score || (a.id < b.id ? -1 : 1);

/** All records by their score, as plain code ranks them. */
function ranked(metric: MetricName, query: Float32Array, isAllowed: (one: Stored) => boolean): Ranked[] {
  const zero = { id: "zero", vector: new Float32Array(dimension), color: "none" };
  return [...records, zero]
    .filter(isAllowed)
    .map(({ id, vector }) => ({ id, score: exactScore(metrics[metric], query, vector) }))
    .sort(byScore);
}

const storedOf = (id: string): Float32Array =>
  records.find((one) => one.id === id)?.vector ?? new Float32Array(dimension);

/** The definition, written down plainly. */
function averageOf(metric: MetricName, positive: Float32Array[], negative: Float32Array[]): Float32Array {
  const isAlone = positive.length === 1 && negative.length === 0;
  const mean = (vectors: Float32Array[], at: number) => {
    let sum = 0;
    for (const vector of vectors) {
      const length = metric === "cosine" && !isAlone ? Math.hypot(...vector) || 1 : 1;
      sum += vector[at] / length;
    }
    return sum / vectors.length;
  };
  return Float32Array.from({ length: dimension }, (_, i) =>
    negative.length === 0 ? mean(positive, i) : 2 * mean(positive, i) - mean(negative, i),
  );
}

/** Maximal marginal relevance, without any shortcut. */
function naiveDiverse(metric: MetricName, candidates: Ranked[], wanted: number, share: number): Ranked[] {
  const chosen: Ranked[] = [];
  const left = [...candidates];
  while (chosen.length < wanted && left.length > 0) {
    const values = left.map(({ id, score }) => {
      if (chosen.length === 0) return score;
      const scores = chosen.map((one) => exactScore(metrics[metric], storedOf(one.id), storedOf(id)));
      return (1 - share) * score - share * Math.max(...scores);
    });
    chosen.push(...left.splice(values.indexOf(Math.max(...values)), 1));
  }
  return chosen;
}

const plain = (results: readonly SearchResult[]): Ranked[] => results.map(({ id, score }) => ({ id, score }));
const pathOf = async (call: Promise<unknown>): Promise<[string, unknown]> => {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!isQuiverError(error)) throw new Error("the call did not fail as it should", { cause: error });
  return [error.code, error.details?.path];
};

describe.each(metricNames)("%s", (metric) => {
  let collection: Collection;
  beforeAll(async () => {
    collection = await make(metric);
  });

  test("[Q25] a search by examples finds what is nearest to their average, without the examples that are records", async () => {
    const own = vectorOf();
    const cases: { request: Recommend; positive: Float32Array[]; negative: Float32Array[] }[] = [
      { request: { positive: ["r007"] }, positive: [storedOf("r007")], negative: [] },
      { request: { positive: [own] }, positive: [own], negative: [] },
      { request: { positive: [[...own]] }, positive: [own], negative: [] },
      {
        request: { positive: ["r007", own, "r120"], strategy: "average_vector" },
        positive: [storedOf("r007"), own, storedOf("r120")],
        negative: [],
      },
      {
        request: { positive: ["r001", "r044"], negative: ["r300", own, "zero"] },
        positive: [storedOf("r001"), storedOf("r044")],
        negative: [storedOf("r300"), own, storedOf("zero")],
      },
    ];
    for (const { request, positive, negative } of cases) {
      const query = averageOf(metric, positive, negative);
      const ids = [...request.positive, ...(request.negative ?? [])];
      for (const color of [null, "red"]) {
        const expected = ranked(
          metric,
          query,
          (one) => !ids.includes(one.id) && (color === null || one.color === color),
        );
        const filter = color === null ? null : { color };
        const { results } = await collection.search("recommend", {
          ...request,
          filter,
          top_k: 30,
          offset: 2,
          exact: true,
        });
        const page = expected.slice(2, 32);
        expect(results.map(({ id }) => id)).toEqual(page.map(({ id }) => id));
        // The order of additions may differ in the last bit.
        for (const [i, { score }] of results.entries()) expect(score).toBeCloseTo(page[i].score, 5);
        const all = await collection.search("recommend", { ...request, filter, top_k: 1_000 });
        expect(new Set(all.results.map(({ id }) => id))).toEqual(new Set(expected.map(({ id }) => id)));
      }
    }
  });

  test("[Q25] the neighbours of a record are those of a search for its vector, without itself", async () => {
    for (const { id, vector } of [...records.slice(0, 60), { id: "zero", vector: storedOf("zero") }]) {
      const expected = ranked(metric, vector, (one) => one.id !== id).slice(0, 7);
      const found = await collection.search("neighbors", { vector_id: id, top_k: 7 });
      expect(plain(found.results)).toEqual(expected);
      const filtered = await collection.search("neighbors", {
        vector_id: id,
        filter: { color: "blue" },
        include: ["metadata"],
      });
      expect(plain(filtered.results)).toEqual(
        ranked(metric, vector, (one) => one.id !== id && one.color === "blue").slice(0, 10),
      );
      expect(filtered.results[0].metadata).toEqual({ color: "blue" });
    }
  });

  test("[Q26] diverse results are those of maximal marginal relevance over the candidates", async () => {
    for (const diversity of [0.1, 0.5, 1]) {
      const query = vectorOf();
      for (const { top_k, offset } of [
        { top_k: 10, offset: 0 },
        { top_k: 5, offset: 7 },
        { top_k: 25, offset: 0 },
      ]) {
        const candidates = Math.max(100, 10 * (top_k + offset));
        const all = ranked(metric, query, () => true);
        const expected = naiveDiverse(metric, all.slice(0, candidates), top_k + offset, diversity);
        const { results } = await collection.search("dense", {
          query_vector: query,
          exact: true,
          diversity,
          top_k,
          offset,
        });
        expect(plain(results)).toEqual(expected.slice(offset));
      }
      const [batch] = await collection.search("batchDense", {
        queries: [{ vector: query, filter: { color: "red" } }],
        exact: true,
        diversity,
      });
      const red = ranked(metric, query, ({ color }) => color === "red").slice(0, 100);
      expect(plain(batch.results)).toEqual(naiveDiverse(metric, red, 10, diversity));
    }
  });

  test("[Q26] no diversity is a search by score alone, and diversity keeps thresholds and groups", async () => {
    const query_vector = vectorOf();
    const usual = await collection.search("dense", { query_vector, exact: true });
    expect(await collection.search("dense", { query_vector, exact: true, diversity: 0 })).toEqual(usual);
    const all = ranked(metric, query_vector, () => true);
    const score_threshold = all[19].score;
    const atLeast = all.filter(({ score }) => score >= score_threshold);
    const above = await collection.search("dense", {
      query_vector,
      exact: true,
      diversity: 0.6,
      score_threshold,
      top_k: 50,
    });
    expect(plain(above.results)).toEqual(naiveDiverse(metric, atLeast, 50, 0.6));
    const grouped = await collection.search("dense", {
      query_vector,
      exact: true,
      diversity: 0.6,
      group_by: "color",
    });
    const firsts = ["red", "blue", "green", "none"]
      .map((color) => ranked(metric, query_vector, (one) => one.color === color)[0])
      .sort(byScore);
    expect(plain(grouped.results)).toEqual(naiveDiverse(metric, firsts, 10, 0.6));
    expect(new Set(grouped.results.map(({ group }) => group)).size).toBe(4);
    const explained = await collection.search("dense", {
      query_vector,
      exact: true,
      diversity: 0.6,
      explain: true,
    });
    for (const { id, explanation } of explained.results)
      expect(explanation?.dense?.rank).toBe(1 + all.findIndex((one) => one.id === id));
  });

  test("[E3] what is wrong with examples is reported with its place", async () => {
    const ask = (request: object) => pathOf(collection.search("recommend", request as Recommend));
    expect(await ask({ positive: [] })).toEqual(["invalid_request", "positive"]);
    expect(await ask({ positive: ["r001", "absent"] })).toEqual(["vector_not_found", "positive[1]"]);
    expect(await ask({ positive: ["r001"], negative: ["absent"] })).toEqual([
      "vector_not_found",
      "negative[0]",
    ]);
    expect(await ask({ positive: ["r001", "sparse alone"] })).toEqual(["invalid_request", "positive[1]"]);
    expect(await ask({ positive: ["r001", [1, 2]] })).toEqual(["invalid_request", "positive[1]"]);
    expect(await ask({ positive: [[1, 2, 3, 4, 5, Number.NaN]] })).toEqual([
      "invalid_request",
      "positive[0][5]",
    ]);
    expect(await ask({ positive: [""] })).toEqual(["invalid_request", "positive[0]"]);
    expect(await ask({ positive: ["r001"], strategy: "best" })).toEqual(["invalid_request", "strategy"]);
    expect(await ask({ positive: ["r001"], diversity: 2 })).toEqual(["invalid_request", "diversity"]);
    expect(await ask({ positive: ["r001"], diversity: 0.5, top_k: 1_001 })).toEqual([
      "invalid_request",
      "top_k",
    ]);
    const huge = new Float32Array(dimension).fill(3e38);
    if (metric !== "cosine")
      expect(await ask({ positive: [huge], negative: [huge.map((value) => -value)] })).toEqual([
        "invalid_request",
        "positive",
      ]);
    expect(await pathOf(collection.search("neighbors", { vector_id: "absent" }))).toEqual([
      "vector_not_found",
      "vector_id",
    ]);
    expect(await pathOf(collection.search("neighbors", { vector_id: "sparse alone" }))).toEqual([
      "invalid_request",
      "vector_id",
    ]);
    expect(await pathOf(collection.search("neighbors", { vector_id: "" }))).toEqual([
      "invalid_request",
      "vector_id",
    ]);
    expect(await pathOf(collection.search("neighbors", { vector_id: "r001", top_k: 0 }))).toEqual([
      "invalid_request",
      "top_k",
    ]);
  });
});

test("[I2] examples are those of the searched version: a deleted one is not found, a replaced one counts as it is now", async () => {
  const collection = database.collection("euclidean");
  const target = vectorOf().map((value) => value + 50);
  await collection.upsert([
    { id: "moved", dense_values: vectorOf() },
    { id: "there", dense_values: target.map((value) => value + 0.01) },
  ]);
  await collection.upsert([{ id: "moved", dense_values: target }]);
  expect((await collection.search("neighbors", { vector_id: "moved", top_k: 1 })).results[0].id).toBe(
    "there",
  );
  await collection.delete("moved");
  expect(await pathOf(collection.search("neighbors", { vector_id: "moved" }))).toEqual([
    "vector_not_found",
    "vector_id",
  ]);
});
