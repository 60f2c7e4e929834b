// Has a search become much slower than it was?
//
// A search of each kind, from the call on the collection to its result, is compared with a loop of plain JavaScript that never changes, in
// the same process and in turns: processor times, so that other programs on the machine matter little. The ceilings are about twice what
// was measured when they were set. They are for a mistake that costs every caller, such as a read of the store for each hit; the
// benchmarks (docs/benchmarks.md) tell what a search costs.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Collection, Database } from "@quiverdb/engine/database/contract";
import { openDatabase } from "@quiverdb/engine/database/database";
import { randomNumbers } from "@quiverdb/kernels/random";
import { afterAll, beforeAll, expect, test } from "vitest";

const records = 4_000;
const dimension = 64;
const searches = 100;
/**
 * Rounds at most, and those whose median must be below the ceiling; the first time that it is, is enough, because a mistake of this kind shows
 * in every round. On a machine with many busy processes the optimising compiler's own threads get little time, so that hundreds of searches
 * run unoptimised, and a round can be measured as no time at all.
 */
const rounds = 200;
const judged = 9;

const random = randomNumbers(1);
const below = (n: number) => Math.floor(random() * n);
const vector = () => Array.from({ length: dimension }, () => random() - 0.5);
const word = () => `word${below(40) * below(40)}`;
const text = (words: number) => Array.from({ length: words }, word).join(" ");
const terms = (count: number) =>
  [...new Set(Array.from({ length: count }, () => below(50) * below(50)))].map((index) => ({
    index,
    value: 1 + below(100) / 16,
  }));

let directory: string;
let database: Database;
let collection: Collection;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "quiver-speed-"));
  database = await openDatabase({ dataDir: directory });
  await database.createCollection({
    name: "c",
    dense_vector: { enabled: true, dimension },
    sparse_vector: { enabled: true },
    tf_idf_options: { enabled: true },
    config: {},
  });
  collection = database.collection("c");
  await collection.createIndex("dense", {
    name: "dense",
    distance_metric_type: "cosine",
    quantization: { type: "auto", properties: { sample_threshold: 1_000 } },
    index: { type: "hnsw", properties: {} },
  });
  await collection.createIndex("sparse", { name: "sparse", quantization: 64, sample_threshold: 1 });
  await collection.createIndex("tf-idf", { name: "text", sample_threshold: 1, k1: 1.2, b: 0.75 });
  for (let from = 0; from < records; from += 500)
    await collection.upsert(
      Array.from({ length: 500 }, (_, i) => ({
        id: `record ${from + i}`,
        document_id: `document ${(from + i) >> 2}`,
        dense_values: vector(),
        sparse_values: terms(30).map(({ index, value }): [number, number] => [index, value]),
        text: text(30),
      })),
    );
  while (Object.values(collection.indexes()).some((index) => index?.status.state !== "ready"))
    await sleep(20);
});

afterAll(async () => {
  await database.close();
  rmSync(directory, { recursive: true, force: true });
});

/** The fixed reference: squared distances of a query to 4,000 rows, in plain JavaScript; about 0.25 ms. */
const rows = Float32Array.from({ length: records * dimension }, () => random() - 0.5);
function reference(): number {
  let least = Number.POSITIVE_INFINITY;
  for (let row = 0; row < rows.length; row += dimension) {
    let sum = 0;
    for (let i = 0; i < dimension; i++) {
      const difference = rows[row + i] - rows[i];
      sum += difference * difference;
    }
    if (row > 0 && sum < least) least = sum;
  }
  return least;
}

/** Microseconds of this thread's processor time for one call. */
async function cpuUs(calls: number, act: (i: number) => unknown): Promise<number> {
  const before = process.threadCpuUsage();
  for (let i = 0; i < calls; i++) await act(i);
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / calls;
}

const vectors = Array.from({ length: searches }, vector);
const queryTerms = Array.from({ length: searches }, () => terms(12));
const texts = Array.from({ length: searches }, () => text(4));
const top_k = 10;

/** Of the reference, beside ten busy threads on two cores: dense 0.36 to 0.76, sparse 0.21 to 0.42, text 0.11 to 0.20, hybrid 2.1 to 3.1. */
const kinds: Record<string, { ceiling: number; search(i: number): Promise<unknown> }> = {
  dense: { ceiling: 1.5, search: (i) => collection.search("dense", { query_vector: vectors[i], top_k }) },
  sparse: { ceiling: 0.9, search: (i) => collection.search("sparse", { query_terms: queryTerms[i], top_k }) },
  text: { ceiling: 0.5, search: (i) => collection.search("text", { query: texts[i], top_k }) },
  hybrid: {
    ceiling: 6,
    search: (i) =>
      collection.search("hybrid", {
        query_vector: vectors[i],
        query_terms: queryTerms[i],
        query_text: texts[i],
        top_k,
      }),
  },
};

test.each(Object.keys(kinds))("a %s search does not cost a multiple of what it did", async (kind) => {
  const { ceiling, search } = kinds[kind];
  const ratios: number[] = [];
  const median = () =>
    ratios.slice(-judged).toSorted((a, b) => a - b)[judged >> 1] ?? Number.POSITIVE_INFINITY;
  for (let round = 0; round < rounds && median() >= ceiling; round++) {
    const searched = await cpuUs(searches, search);
    const compared = await cpuUs(searches / 4, reference);
    if (searched > 0 && compared > 0) ratios.push(searched / compared);
  }
  expect(median()).toBeLessThan(ceiling);
});
