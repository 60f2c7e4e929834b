// Does the graph find what the exact index finds, through all changes?

import assert from "node:assert/strict";
import { randomNumbers } from "@quiverdb/kernels/random";
import { expect, test } from "vitest";
import { clustered } from "../../../test/index/dense/clustered.ts";
import { add, pairOf, recallOf, remove } from "../../../test/index/graph-pair.ts";
import { asMap } from "../../../test/index/reference.ts";
import { bytesOfFloats } from "../../vector/floats.ts";
import { HnswIndex } from "./hnsw-index.ts";

test("[N8] the same calls make the same bytes; another seed makes others", () => {
  const rows = clustered(1_500, 20, 3);
  const build = (seed: number): Buffer => {
    const pair = pairOf(20, "cosine", { seed, sampleCount: 100 });
    rows.forEach((row, i) => {
      add(pair, i, row);
      if (i % 5 === 4) remove(pair, i - 3);
    });
    return Buffer.from(pair.hnsw.bytes);
  };
  const first = build(1);
  expect(first.equals(build(1))).toBe(true);
  expect(first.equals(build(2))).toBe(false);
});

test("everything removed, also the entry point: the index is empty and can be filled again", () => {
  const pair = pairOf(8, "euclidean", { dataType: "f32", sampleCount: 10 });
  const rows = clustered(600, 8, 5);
  for (let i = 0; i < 300; i++) add(pair, i, rows[i]);
  for (let i = 0; i < 300; i++) remove(pair, i);
  expect(pair.hnsw.count).toBe(0);
  expect(pair.hnsw.reader.search(rows[0], 3, { ef: 10 }).count).toBe(0);
  for (let i = 300; i < 600; i++) add(pair, i, rows[i]);
  pair.hnsw.check();
  expect(recallOf(pair, rows.slice(0, 50), 100)).toBeGreaterThan(0.98);
  pair.hnsw.close();
  expect(pair.hnsw.count).toBe(0);
});

test("[N12] one cluster after the other is removed, and no way is lost", () => {
  const pair = pairOf(8, "euclidean", { dataType: "f32", sampleCount: 100 });
  const next = randomNumbers(9);
  for (let i = 0; i < 2_000; i++) {
    const centre = 10 * Math.floor(i / 200);
    add(
      pair,
      i,
      Float32Array.from({ length: 8 }, (_, j) => (j === 0 ? centre : 0) + next()),
    );
  }
  for (let cluster = 0; cluster < 9; cluster++) {
    for (let i = 200 * cluster; i < 200 * (cluster + 1); i++) remove(pair, i);
    pair.hnsw.check();
    expect(recallOf(pair, [...pair.rows.values()].slice(-50), 64)).toBeGreaterThan(0.95);
  }
});

test("[N2] records beyond one memory go into further graphs, where they are found and removed and their memory is reused", () => {
  const rows = clustered(6_000, 16, 4);
  const pair = pairOf(16, "euclidean", {
    sampleCount: 200,
    memoryBytesMax: 2 ** 18,
    m: 8,
    efConstruction: 60,
  });
  for (let i = 0; i < 3_000; i++) add(pair, i, rows[i]);
  const graphs = pair.hnsw.partitionCount;
  expect(graphs).toBeGreaterThan(2);
  pair.hnsw.check();
  expect(recallOf(pair, rows.slice(0, 60), 60)).toBeGreaterThan(0.99);
  // The records of the first graph are removed; its room is reused before another graph is started.
  for (let i = 0; i < 3_000; i++) {
    if (i % 3 !== 0) remove(pair, i);
    else if (i % 2 === 0) add(pair, 3_000 + i, rows[3_000 + i]);
  }
  pair.hnsw.check();
  expect(pair.hnsw.partitionCount).toBe(graphs);
  expect(recallOf(pair, rows.slice(3_000, 3_060), 60)).toBeGreaterThan(0.99);
  for (const ordinal of [...pair.rows.keys()]) remove(pair, ordinal);
  expect(pair.hnsw.partitionCount).toBe(0);
  expect(pair.hnsw.count).toBe(0);
});

test("[N7] after every vector was replaced three times, recall is that of a fresh graph, and memory 1.3 times", () => {
  const count = 2_500;
  const rows = clustered(4 * count, 24, 21);
  const queries = clustered(80, 24, 21);
  const options = { sampleCount: 300, efConstruction: 80 } as const;
  const pair = pairOf(24, "cosine", options);
  for (let i = 0; i < count; i++) add(pair, i, rows[i]);
  const filled = pair.hnsw.graphBytes;
  for (let i = count; i < 4 * count; i++) {
    add(pair, i, rows[i]);
    remove(pair, i - count);
    expect(pair.hnsw.graphBytes).toBeLessThan(1.3 * filled);
  }
  pair.hnsw.check();
  const fresh = pairOf(24, "cosine", options);
  for (let i = 3 * count; i < 4 * count; i++) add(fresh, i, rows[i]);
  for (const ef of [24, 48, 96]) {
    expect(recallOf(pair, queries, ef)).toBeGreaterThan(0.95 * recallOf(fresh, queries, ef));
  }
});

test("an index that is restored from a checkpoint continues unchanged", async () => {
  const rows = clustered(1_600, 20, 6);
  const options = { sampleCount: 200, m: 8, memoryBytesMax: 2 ** 20 } as const;
  const pair = pairOf(20, "euclidean", options);
  for (let i = 0; i < 1_500; i++) {
    add(pair, i, rows[i]);
    if (i % 4 === 3) remove(pair, i - 2);
  }
  let restored: Promise<HnswIndex> | undefined;
  pair.hnsw.retire(0);
  pair.hnsw.save((state, graphs, done) => {
    // As long as it is written, which threads do, nothing of it may change, whatever is removed.
    const before = graphs.map(({ image }) => image.slice());
    remove(pair, 4);
    expect(asMap(pair.hnsw.reader.search(rows[4], 1_500, { ef: 1_500 })).has(4)).toBe(false);
    const images = graphs.map(({ image }) => image.slice());
    expect(images).toEqual(before);
    restored = HnswIndex.restored(
      { dimension: 20, metric: "euclidean", dataType: "u8", ...options },
      state,
      async (made) => {
        made.forEach((graph, i) => {
          graph.image.set(images[i]);
        });
      },
    );
    done(true);
  });
  remove(pair, 0);
  const hnsw = await restored;
  if (hnsw === undefined) throw new Error("nothing was kept");
  expect(hnsw.has(4)).toBe(true);
  hnsw.remove(4);
  const vectorOf = (ordinal: number) => rows[ordinal];
  hnsw.check(vectorOf);
  expect(hnsw.bytes).toEqual(pair.hnsw.bytes);
  for (let i = 1_500; i < 1_600; i++) {
    hnsw.add(i, bytesOfFloats(rows[i]));
    add(pair, i, rows[i]);
    hnsw.remove(i - 700);
    remove(pair, i - 700);
  }
  hnsw.check(vectorOf);
  expect(hnsw.count).toBe(pair.hnsw.count);
  for (const query of rows.slice(0, 30)) {
    const options = { ef: 100, vectorOf };
    expect(asMap(hnsw.reader.search(query, 10, options))).toEqual(
      asMap(pair.hnsw.reader.search(query, 10, options)),
    );
  }
});

test.each([
  { levelsMax: 1 },
  { m: 1, m0: 1 },
  { m: 2, m0: 2, efConstruction: 1 },
  { m: 2_048, m0: 4_096, efConstruction: 4_096 },
  { levelsMax: 64, m: 2 },
  { m: 30, m0: 5 },
  { sampleCount: 1 },
])("options at their ends: %o", (options) => {
  const rows = clustered(700, 6, 8);
  const pair = pairOf(6, "euclidean", { sampleCount: 50, ...options });
  for (let i = 0; i < 600; i++) {
    add(pair, i, rows[i]);
    if (i % 4 === 3) remove(pair, i - 3);
  }
  pair.hnsw.check();
  for (let i = 600; i < 700; i++) {
    const found = pair.hnsw.reader.search(rows[i], 5, { ef: 4_096 });
    for (const ordinal of found.ordinals) assert(pair.rows.has(ordinal));
  }
  // A graph of one link or two finds little; a beam as long as the index finds it all.
  expect(recallOf(pair, rows.slice(600), 600)).toBeGreaterThan(0.9);
});

test("wrong input is rejected and changes nothing", () => {
  const { hnsw } = pairOf(2, "cosine", { dataType: "f32" });
  expect(() => hnsw.add(0, new Uint8Array(12))).toThrow("12 bytes instead of 8");
  expect(() => hnsw.add(0, bytesOfFloats(Float32Array.of(1, Number.NaN)))).toThrow("not finite");
  expect(() => hnsw.reader.search(Float32Array.of(1), 1, { ef: 10 })).toThrow("1 values instead of 2");
  expect(hnsw.count).toBe(0);
});
