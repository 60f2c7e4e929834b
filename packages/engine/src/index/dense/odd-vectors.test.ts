// Does the index stay correct if vectors are equal, have no direction, or are closer than its codes can distinguish?

import assert from "node:assert/strict";
import { randomNumbers } from "@quiverdb/kernels/random";
import { metricNames } from "@quiverdb/protocol/shapes/index-definition";
import { expect, test } from "vitest";
import { BruteForce } from "../../../test/index/brute-force.ts";
import { asMap } from "../../../test/index/reference.ts";
import { bytesOfFloats } from "../../vector/floats.ts";
import type { Graph } from "./graph.ts";
import { HnswIndex } from "./hnsw-index.ts";
import type { HnswOptions } from "./hnsw-options.ts";
import type { HnswState } from "./saved-changes.ts";

const dimension = 8;

function normals(seed: number): () => Float32Array {
  const next = randomNumbers(seed);
  const normal = () => next() + next() + next() + next() - 2;
  return () => Float32Array.from({ length: dimension }, normal);
}

const options = (more: Partial<HnswOptions> = {}): HnswOptions => ({
  dimension,
  metric: "cosine",
  dataType: "f32",
  sampleCount: 200,
  memoryBytesMax: 2 ** 26,
  ...more,
});

/** What a checkpoint would write and read, in memory. */
async function reopened(index: HnswIndex, with_: HnswOptions): Promise<HnswIndex> {
  const kept = await new Promise<{ state: HnswState; images: Uint8Array[] }>((resolve, reject) =>
    index.save(
      (state, graphs, done) => {
        resolve({ state: structuredClone(state), images: graphs.map(({ image }) => image.slice()) });
        done(true);
      },
      () => reject(new Error("nothing was kept")),
    ),
  );
  index.close();
  return HnswIndex.restored(with_, kept.state, async (graphs: readonly Graph[]) => {
    for (const [i, { image }] of graphs.entries()) image.set(kept.images[i]);
  });
}

test.each(metricNames)(
  "[N11] %s: records with one vector share a node, and all are found, through all changes",
  async (metric) => {
    const draw = normals(3);
    const distinct = Array.from({ length: 1_200 }, draw);
    if (metric === "cosine") distinct[7] = new Float32Array(dimension);
    const next = randomNumbers(4);
    const rows = new Map<number, Float32Array>();
    const with_ = options({
      metric,
      readVector: (ordinal) => {
        const row = rows.get(ordinal);
        return row && bytesOfFloats(row);
      },
    });
    let index = new HnswIndex(with_);
    const flat = new BruteForce({ metric });
    const add = (ordinal: number, row: Float32Array) => {
      rows.set(ordinal, row);
      index.add(ordinal, bytesOfFloats(row));
      flat.add(ordinal, bytesOfFloats(row));
    };
    const remove = (ordinal: number) => {
      index.retire(ordinal);
      index.remove(ordinal);
      flat.remove(ordinal);
      rows.delete(ordinal);
    };
    const expectRight = () => {
      index.check((ordinal) => rows.get(ordinal) as Float32Array);
      expect(index.count).toBe(rows.size);
      expect(index.vectorCount).toBe(new Set([...rows.values()].map((row) => row.join())).size);
      const vectorOf = (ordinal: number) => rows.get(ordinal) as Float32Array;
      for (const query of [...distinct.slice(8, 28), new Float32Array(dimension).fill(0.1)])
        for (const visible of [null, (ordinal: number) => ordinal % 3 !== 0]) {
          const exact = asMap(flat.search(query, 10, visible));
          expect(asMap(index.reader.searchExactly(query, 10, visible, vectorOf))).toEqual(exact);
          const found = asMap(index.reader.search(query, 10, { ef: 400, visible, vectorOf }));
          // All found records exist, each with its exact score.
          for (const [ordinal, score] of found) assert.equal(exact.get(ordinal) ?? score, score);
          expect([...exact.keys()].filter((ordinal) => found.has(ordinal)).length).toBeGreaterThan(
            0.95 * exact.size,
          );
        }
    };
    for (let i = 0; i < 4_000; i++) add(i, distinct[Math.floor(next() ** 3 * distinct.length)]);
    expectRight();
    for (let i = 0; i < 4_000; i += 3) remove(i);
    expectRight();
    index = await reopened(index, with_);
    expectRight();
    for (let i = 4_000; i < 5_000; i++) add(i, distinct[Math.floor(next() * distinct.length)]);
    for (let i = 1; i < 4_000; i += 3) remove(i);
    expectRight();
    index.close();
  },
);

test("[N11] under cosine, vectors without direction take no place in a graph, and score 0", () => {
  const draw = normals(5);
  const index = new HnswIndex(options());
  for (let i = 0; i < 3_000; i++)
    index.add(i, bytesOfFloats(i % 2 === 0 ? new Float32Array(dimension) : draw()));
  index.check();
  expect(index.graphs[0].slots).toBeLessThan(1_800);
  const away = index.reader.search(draw(), 1_600, { ef: 4_000 });
  // Half of the others have negative scores: zeros precede those.
  expect(away.scores.filter((score) => score === 0).length).toBe(1_500);
});

test("[N9] [N13] if codes turn out to lose too much, auto builds better ones in the background, and searches continue", () => {
  const next = randomNumbers(6);
  const draw = normals(6);
  const notices: string[] = [];
  const index = new HnswIndex(
    options({ metric: "euclidean", dataType: "auto", onNotice: (notice) => notices.push(notice) }),
  );
  // The sample is easy; later vectors are in tight clusters.
  for (let i = 0; i < 200; i++) index.add(i, bytesOfFloats(draw()));
  const before = index.encoding?.dataType;
  const centres = Array.from({ length: 6 }, draw);
  const rows = new Map<number, Float32Array>();
  for (let i = 200; i < 3_200; i++) {
    const centre = centres[i % 6];
    const row = centre.map((value) => value + 2e-4 * (next() - 0.5));
    rows.set(i, row);
    index.add(i, bytesOfFloats(row));
  }
  expect(before).not.toBe("f32");
  expect(notices.join()).toMatch(/lost 0\.\d+ of the exact results/);
  expect(index.encoding?.dataType).not.toBe(before);
  expect(index.encoding?.reason).toContain("lost");
  index.check();
  let own = 0;
  for (const [ordinal, row] of rows) if (asMap(index.reader.search(row, 1, {})).has(ordinal)) own++;
  expect(own / rows.size).toBeGreaterThan(0.999);
  expect(index.quality?.recall).toBeGreaterThan(0.98);
});

test("a range that misses the data is not applied, and the status says how much it would clamp", () => {
  const draw = normals(8);
  const index = new HnswIndex(options({ dataType: "u8", range: { min: 100, max: 200 } }));
  for (let i = 0; i < 1_500; i++) index.add(i, bytesOfFloats(draw()));
  const state = index.encoding;
  expect(state?.clampedShare).toBe(1);
  expect(state?.range).toBeNull();
  expect(state?.reason).toContain("clamps 100.0 %");
});

test.each([1e-44, 1e-38, 1, 1e19, 1e38])(
  "dot products of values around %d are ordered by the graph",
  (magnitude) => {
    const draw = normals(9);
    const rows = Array.from({ length: 2_000 }, () => draw().map((value) => value * magnitude));
    const index = new HnswIndex(options({ metric: "dot_product", dataType: "u8" }));
    const flat = new BruteForce({ metric: "dot_product" });
    rows.forEach((row, i) => {
      index.add(i, bytesOfFloats(row));
      flat.add(i, bytesOfFloats(row));
    });
    let met = 0;
    for (const query of rows.slice(0, 50)) {
      const exact = asMap(flat.search(query, 10, null));
      for (const ordinal of asMap(index.reader.search(query, 10, { ef: 128 })).keys())
        if (exact.has(ordinal)) met++;
    }
    expect(met / 500).toBeGreaterThan(0.97);
  },
);

test.each(metricNames)(
  "[N10] %s: queries from elsewhere, from which all vectors are far, take a longer beam",
  (metric) => {
    const next = randomNumbers(21);
    const normal = () => next() + next() + next() + next() - 2;
    const [width, count, k] = [48, 12_000, 10];
    const rows = Array.from({ length: count }, () =>
      Float32Array.from({ length: width }, () => normal() + 1.5),
    );
    const queries = Array.from({ length: 40 }, () =>
      Float32Array.from({ length: width }, () => 4 * normal()),
    );
    const index = new HnswIndex(options({ metric, dimension: width, dataType: "u8", efSearch: 32 }));
    for (const [ordinal, row] of rows.entries()) index.add(ordinal, bytesOfFloats(row));
    const recall = (ef?: number, mayWiden = false) => {
      let met = 0;
      for (const query of queries) {
        const right = new Set(index.reader.searchExactly(query, k, null).ordinals);
        for (const ordinal of index.reader.search(query, k, { ef, mayWiden }).ordinals)
          if (right.has(ordinal)) met++;
      }
      return met / (k * queries.length);
    };
    expect(index.reader.isReadingAll).toBe(false);
    expect(recall()).toBeGreaterThan(recall(index.reader.efDefault) + 0.02);
    expect(recall()).toBeGreaterThan(0.97);
    // So does one that is chosen for a recall target.
    expect(recall(index.reader.efDefault, true)).toBeGreaterThan(0.97);
    index.close();
  },
  60_000,
);
