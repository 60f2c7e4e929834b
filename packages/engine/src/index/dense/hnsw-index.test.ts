// Does the graph find what the exact index finds, through all changes?

import { randomNumbers } from "@quiverdb/kernels/random";
import { metricNames } from "@quiverdb/protocol/shapes/index-definition";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { add, pairOf, recallOf, remove } from "../../../test/index/graph-pair.ts";
import { asMap } from "../../../test/index/reference.ts";
import { bytesOfFloats } from "../../vector/floats.ts";
import { hnswDataTypes } from "./code-types.ts";
import { HnswIndex } from "./hnsw-index.ts";

/** Vectors around random centres, far from zero, of lengths that differ. */
function clustered(count: number, dimension: number, seed: number): Float32Array[] {
  const next = randomNumbers(seed);
  const normal = () => next() + next() + next() + next() - 2;
  const centres = Array.from({ length: 30 }, () =>
    Float32Array.from({ length: dimension }, () => 0.5 + 2 * normal()),
  );
  return Array.from({ length: count }, () => {
    const centre = centres[Math.floor(next() * centres.length)];
    const scale = 0.5 + next();
    return centre.map((value) => scale * (value + normal()));
  });
}

/**
 * Recall that each type must reach: one bit per value says little about a vector of 24 dimensions, and re-scoring cannot add vectors that
 * were not visited.
 */
const floors = { f32: 0.97, f16: 0.97, u8: 0.97, octal: 0.97, quaternay: 0.95, binary: 0.9 } as const;

describe.each(metricNames)("%s", (metric) => {
  describe.each(hnswDataTypes)("%s", (dataType) => {
    test("[N1] recall on clusters, before and after every vector is replaced, and with a filter", () => {
      const pair = pairOf(24, metric, { dataType, sampleCount: 300 });
      const rows = clustered(4_000, 24, 1);
      const queries = clustered(60, 24, 1).concat(rows.slice(0, 20));
      for (let i = 0; i < 2_000; i++) add(pair, i, rows[i]);
      pair.hnsw.check();
      expect(recallOf(pair, queries, 100)).toBeGreaterThan(floors[dataType]);
      expect(recallOf(pair, queries, 100, (ordinal) => ordinal % 50 === 7)).toBeGreaterThan(floors[dataType]);
      const filled = pair.hnsw.memoryBytes;
      for (let i = 2_000; i < 4_000; i++) {
        add(pair, i, rows[i]);
        remove(pair, (i * 7) % 2_000);
      }
      expect(pair.hnsw.count).toBe(2_000);
      pair.hnsw.check();
      expect(recallOf(pair, queries, 100)).toBeGreaterThan(floors[dataType]);
      while (pair.hnsw.tidy());
      pair.hnsw.check();
      expect(pair.hnsw.memoryBytes).toBeLessThan(1.35 * filled);
    });

    test("random changes and searches against the exact index", () => {
      const value = fc.float({ min: -2, max: 2, noNaN: true });
      const values = fc.array(value, { minLength: 3, maxLength: 3 }).map((row) => Float32Array.from(row));
      const act = fc.oneof(
        { weight: 6, arbitrary: fc.record({ kind: fc.constant("add" as const), gap: fc.nat(3), values }) },
        { weight: 3, arbitrary: fc.record({ kind: fc.constant("remove" as const), pick: fc.nat(200) }) },
        {
          weight: 2,
          arbitrary: fc.record({
            kind: fc.constant("search" as const),
            values,
            modulus: fc.integer({ min: 1, max: 3 }),
          }),
        },
      );
      fc.assert(
        fc.property(fc.array(act, { maxLength: 150, size: "max" }), (acts) => {
          const pair = pairOf(3, metric, { dataType, sampleCount: 5, m: 4, efConstruction: 20 });
          let next = 0;
          for (const act of acts) {
            if (act.kind === "add") {
              next += act.gap;
              add(pair, next++, act.values);
            } else if (act.kind === "remove") {
              remove(pair, act.pick % Math.max(1, next));
              expect(pair.hnsw.has(act.pick % Math.max(1, next))).toBe(false);
            } else {
              const visible = act.modulus === 1 ? null : (ordinal: number) => ordinal % act.modulus !== 0;
              recallOf(pair, [act.values], 20, visible);
            }
            expect(pair.hnsw.count).toBe(pair.flat.count);
          }
          pair.hnsw.check();
          for (const ordinal of pair.rows.keys()) expect(pair.hnsw.has(ordinal)).toBe(true);
          const query = Float32Array.of(1, 0, 0);
          expect(pair.hnsw.reader.search(query, 1_000, { ef: 1_000 }).count).toBe(pair.flat.count);
        }),
        { numRuns: 25 },
      );
    });
  });
});

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
    for (const ordinal of found.ordinals) expect(pair.rows.has(ordinal)).toBe(true);
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
