// Does `auto` choose a type that holds recall, and say why?

import { randomNumbers } from "@quiver/kernels/random";
import { describe, expect, test } from "vitest";
import { bytesOfFloats } from "../../vector/floats.ts";
import { FlatIndex } from "../flat/flat-index.ts";
import { isAbsent, readF32 } from "../test/reference-data.ts";
import { calibrate } from "./calibrate.ts";
import { HnswIndex } from "./hnsw-index.ts";

const auto = (dimension: number, rows: Float32Array) =>
  calibrate({ metric: "euclidean", dataType: "auto", dimension, range: undefined, seed: 0, rows });

/** Points whose values are all random, in so many dimensions, and zeros in the others. */
function noise(count: number, dimension: number, used: number): Float32Array {
  const next = randomNumbers(3);
  return Float32Array.from({ length: count * dimension }, (_, i) =>
    i % dimension < used ? next() + next() - 1 : 0,
  );
}

test("data of many dimensions pass with fewer bits than data of few", () => {
  const wide = auto(256, noise(600, 256, 256));
  const narrow = auto(8, noise(600, 8, 8));
  expect(["binary", "quaternay", "octal"]).toContain(wide.dataType);
  expect(["u8", "f16", "f32"]).toContain(narrow.dataType);
  for (const { dataType, reason } of [wide, narrow]) {
    expect(reason).toContain("on a sample of 600");
    expect(dataType === "f32" || reason?.includes(`${dataType} `)).toBe(true);
  }
});

test("a sample that is too small is not measured; one of equal vectors, or of zeros, breaks nothing", () => {
  expect(auto(4, noise(5, 4, 4))).toMatchObject({
    dataType: "u8",
    reason: "the sample has 5 different records, too few to measure by",
  });
  expect(auto(4, new Float32Array(4 * 300)).dataType).toBeDefined();
  expect(auto(4, new Float32Array(4 * 300).fill(7)).dataType).toBeDefined();
});

test("records that come many times make no type of code look better", () => {
  const rows = noise(300, 8, 8);
  const often = new Float32Array(20 * rows.length);
  for (let i = 0; i < 20; i++) often.set(rows, i * rows.length);
  expect(auto(8, often).dataType).toBe(auto(8, rows).dataType);
  const mostlyOne = new Float32Array(4 * rows.length).fill(0.5);
  mostlyOne.set(rows);
  expect(auto(8, mostlyOne).dataType).toBe(auto(8, rows).dataType);
  expect(auto(8, new Float32Array(8 * 300).fill(7))).toMatchObject({
    dataType: "u8",
    reason: "the sample has 1 different records, too few to measure by",
  });
});

test("equal samples decide equally", () => {
  const rows = noise(400, 32, 32);
  expect(auto(32, rows)).toEqual(auto(32, rows.slice()));
});

describe.skipIf(isAbsent("glove100-100k"))("glove100-100k, the first 20,000", () => {
  test("[N9] what auto chooses has a recall within 0.01 of f32's", () => {
    const base = readF32("glove100-100k/base.f32", 100).rows.slice(0, 20_000);
    const queries = readF32("glove100-100k/queries.f32", 100).rows.slice(0, 200);
    const flat = new FlatIndex({ dimension: 100, metric: "cosine" });
    const indexes = (["auto", "f32"] as const).map(
      (dataType) => new HnswIndex({ dimension: 100, metric: "cosine", dataType, memoryBytesMax: 2 ** 27 }),
    );
    for (const [i, row] of base.entries())
      for (const index of [flat, ...indexes]) index.add(i, bytesOfFloats(row));
    const [chosen, f32] = indexes.map((index) => {
      let met = 0;
      for (const query of queries) {
        const truth = new Set(flat.search(query, 10, null).ordinals);
        for (const ordinal of index.search(query, 10, { ef: 160 }).ordinals) if (truth.has(ordinal)) met++;
      }
      return met / (10 * queries.length);
    });
    expect(indexes[0].encoding?.dataType).not.toBe("f32");
    expect(chosen).toBeGreaterThan(f32 - 0.01);
  }, 120_000);
});
