// Does `auto` choose a type that preserves recall, and report the reason?

import { randomNumbers } from "@quiverdb/kernels/random";
import { expect, test } from "vitest";
import { calibrate } from "./calibrate.ts";

const auto = (dimension: number, rows: Float32Array) =>
  calibrate({ metric: "euclidean", dataType: "auto", dimension, range: undefined, seed: 0, rows });

/** Points with random values in the given number of dimensions, and zeros in the others. */
function noise(count: number, dimension: number, used: number): Float32Array {
  const next = randomNumbers(3);
  return Float32Array.from({ length: count * dimension }, (_, i) =>
    i % dimension < used ? next() + next() - 1 : 0,
  );
}

test("data of many dimensions pass with fewer bits than data of few", () => {
  const wide = auto(256, noise(600, 256, 256));
  const narrow = auto(8, noise(600, 8, 8));
  expect(["binary", "quaternary", "octal"]).toContain(wide.dataType);
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

test("repeated records do not make any type of code look better", () => {
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
