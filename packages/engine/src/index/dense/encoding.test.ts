// Do codes represent their vectors, and never contain NaN?

import { randomNumbers } from "@quiverdb/kernels/random";
import { type MetricName, metricNames } from "@quiverdb/protocol/shapes/index-definition";
import { describe, expect, test } from "vitest";
import { decode } from "../../../test/index/dense/decode.ts";
import { type HnswDataType, hnswDataTypes, rescoreDepth } from "./code-types.ts";
import { Encoding } from "./encoding.ts";
import { Rotation } from "./value-transforms.ts";

/** Vectors of lengths that differ eightfold, far from zero. */
function rowsOf(count: number, dimension: number, seed: number, centre = 3): Float32Array[] {
  const next = randomNumbers(seed);
  return Array.from({ length: count }, () => {
    const scale = 2 ** (3 * next() - 1.5);
    return Float32Array.from(
      { length: dimension },
      () => centre + scale * (next() + next() + next() + next() - 2),
    );
  });
}

/** A key as the kernels compute it, but in f64, and the constant that makes it a distance. */
function keyOf(
  encoding: Encoding,
  query: Float32Array,
  row: Float32Array,
): { key: number; constant: number } {
  const code = new Uint8Array(encoding.codeBytes);
  encoding.encode(row, code);
  const decoded = decode(encoding, code, encoding.lastFactor);
  const asked = new Uint8Array(encoding.queryBytes);
  asked.set(encoding.encodeQuery(query));
  const fields = new Float32Array(asked.buffer, 0, 4);
  const isFloat = encoding.dataType === "f32" || encoding.dataType === "f16";
  const values = isFloat ? new Float32Array(asked.buffer, 16) : new Int8Array(asked.buffer, 16);
  let [product, squared] = [0, 0];
  for (let i = 0; i < decoded.length; i++) {
    product += decoded[i] * values[i];
    squared += (decoded[i] - values[i]) ** 2;
  }
  // Distances of f32 codes are complete.
  if (encoding.dataType === "f32" && fields[2] !== 0) return { key: squared / 2, constant: 0 };
  return { key: fields[2] * encoding.lastBias - fields[0] * product, constant: fields[3] };
}

/** Maximum mean error of |q - x|^2 / 2, as a fraction of the mean distance. */
const errors: Readonly<Record<HnswDataType, number>> = {
  f32: 1e-6,
  f16: 3e-4,
  u8: 0.003,
  octal: 0.04,
  quaternary: 0.07,
  binary: 0.15,
};

describe.each(hnswDataTypes)("%s", (dataType) => {
  test.each([3, 16, 100, 192])(
    "distances are near the true ones, and err to neither side: %i",
    (dimension) => {
      const rows = rowsOf(400, dimension, dimension);
      const queries = rowsOf(5, dimension, dimension + 1);
      const encoding = new Encoding({ metric: "euclidean", dataType, dimension }, rows.slice(0, 200));
      const { unit } = encoding.toState();
      let [sum, absolute, signed] = [0, 0, 0];
      for (const query of queries) {
        for (const row of rows) {
          const { key, constant } = keyOf(encoding, query, row);
          let truth = 0;
          for (let i = 0; i < dimension; i++) truth += (query[i] - row[i]) ** 2 / 2;
          sum += truth;
          absolute += Math.abs((key + constant) * unit * unit - truth);
          signed += (key + constant) * unit * unit - truth;
        }
      }
      expect(absolute / sum).toBeLessThan(errors[dataType]);
      expect(Math.abs(signed) / sum).toBeLessThan(Math.max(1e-7, errors[dataType] / 4));
    },
  );

  test("products keep their order for vectors whose lengths differ", () => {
    const rows = rowsOf(300, 128, 5, 0);
    const [query] = rowsOf(1, 128, 6, 0);
    const encoding = new Encoding({ metric: "dot_product", dataType, dimension: 128 }, rows.slice(0, 100));
    const product = (row: Float32Array) => row.reduce((sum, value, i) => sum + value * query[i], 0);
    const best = new Set([...rows].sort((a, b) => product(b) - product(a)).slice(0, 60));
    const byKey = [...rows].sort((a, b) => keyOf(encoding, query, a).key - keyOf(encoding, query, b).key);
    expect(byKey.slice(0, 60).filter((row) => best.has(row)).length).toBeGreaterThan(
      dataType === "binary" ? 30 : 42,
    );
  });

  test("values beyond the range are clamped to its ends, except for floats; nothing is rejected", () => {
    const options = { metric: "euclidean", dataType, dimension: 20, range: { min: -1, max: 2 } } as const;
    const rows = rowsOf(50, 20, 8);
    const encoding = new Encoding(options, rows);
    const [ofRow, ofClamped] = [new Uint8Array(encoding.codeBytes), new Uint8Array(encoding.codeBytes)];
    for (const row of rows) {
      encoding.encode(row, ofRow);
      const isFloat = dataType === "f32" || dataType === "f16";
      if (isFloat) expect(encoding.toState().range).toBeNull();
      else
        row.forEach((value, i) => {
          row[i] = Math.min(2, Math.max(-1, value));
        });
      encoding.encode(row, ofClamped);
      expect(ofRow).toEqual(ofClamped);
    }
  });

  test.each(metricNames)("%s: hostile values never make a key that is no number", (metric: MetricName) => {
    const big = 3.4e38;
    const tiny = 1.4e-45;
    const rows = [
      [0, 0, 0],
      [big, big, -big],
      [tiny, 0, 0],
      [-tiny, tiny, big],
      [1, -0, 0],
      [1e-20, 1e20, 1],
    ];
    const vectors = rows.map((row) => Float32Array.from({ length: 17 }, (_, i) => row[i % 3]));
    for (const sample of [[], vectors, [vectors[0]], [vectors[1]], [vectors[2]]]) {
      const encoding = new Encoding({ metric, dataType, dimension: 17 }, sample);
      for (const query of vectors) {
        for (const row of vectors) {
          const { key, constant } = keyOf(encoding, query, row);
          expect(Number.isFinite(Math.fround(key)) && Number.isFinite(constant)).toBe(true);
          expect(Number.isFinite(encoding.lastFactor * encoding.lastBias)).toBe(true);
        }
      }
    }
  });

  test("the state makes the same encoding", () => {
    const rows = rowsOf(30, 50, 9);
    const encoding = new Encoding({ metric: "cosine", dataType, dimension: 50, seed: 4 }, rows);
    const again = Encoding.fromState(structuredClone(encoding.toState()));
    const [a, b] = [new Uint8Array(encoding.codeBytes), new Uint8Array(encoding.codeBytes)];
    for (const row of rows) {
      encoding.encode(row, a);
      again.encode(row, b);
      expect(b).toEqual(a);
      expect([again.lastFactor, again.lastBias]).toEqual([encoding.lastFactor, encoding.lastBias]);
    }
  });

  test("the depth of exact scores is at least k", () => {
    for (const k of [1, 10, 1_000]) {
      expect(rescoreDepth(dataType, k)).toBeGreaterThanOrEqual(k);
      expect(Number.isInteger(rescoreDepth(dataType, k))).toBe(true);
    }
  });
});

test.each([64, 128, 192, 832, 1_536])(
  "a rotation keeps products and spreads a single value: %i",
  (dimension) => {
    const rotation = new Rotation(dimension, 7);
    const next = randomNumbers(dimension);
    const [a, b] = [0, 1].map(() => Float64Array.from({ length: dimension }, () => next() - 0.5));
    const product = () => a.reduce((sum, value, i) => sum + value * b[i], 0);
    const before = product();
    const rotate = (vector: Float64Array) => {
      rotation.values.set(vector);
      rotation.apply();
      vector.set(rotation.values);
    };
    rotate(a);
    rotate(b);
    expect(product()).toBeCloseTo(before, 10);
    const single = new Float64Array(dimension);
    single[dimension - 1] = 1;
    rotate(single);
    expect(Math.max(...single.map(Math.abs))).toBeLessThan(7 / Math.sqrt(dimension));
  },
);
