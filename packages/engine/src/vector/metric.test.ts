import { padded } from "@quiverdb/kernels/loader";
import { dotRows, l2Rows } from "@quiverdb/kernels/reference";
import { metricNames } from "@quiverdb/protocol/shapes/index-definition";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { exactDot, exactDotAndNorm, found, squaredNorm } from "./exact.ts";
import { bytesOfFloats, readFloats } from "./floats.ts";
import { exactScore, metrics } from "./metric.ts";

const kernels = { dotRows, l2Rows };
const vector = (...values: number[]) => Float32Array.from(values);

const anyFloat = fc.float({ noNaN: true, noDefaultInfinity: true });
const tame = fc.float({ min: -2, max: 2, noNaN: true });
const tiny = fc.float({ min: Math.fround(-1e-38), max: Math.fround(1e-38), noNaN: true });
const pair = fc
  .tuple(fc.integer({ min: 1, max: 40 }), fc.constantFrom(anyFloat, tame, tiny))
  .chain(([length, value]) => {
    const values = fc.array(value, { minLength: length, maxLength: length });
    return fc.tuple(values, values);
  })
  .map(([a, b]) => [Float32Array.from(a), Float32Array.from(b)] as const);

describe.each(metricNames)("%s", (name) => {
  const metric = metrics[name];

  test("is registered by its name", () => expect(metric.name).toBe(name));

  test("the kernel's value bounds the exact distance wherever it is finite", () => {
    fc.assert(
      fc.property(pair, ([query, row]) => {
        const width = padded(query.length);
        const [paddedQuery, paddedRow] = [new Float32Array(width), new Float32Array(width)];
        paddedQuery.set(query);
        paddedRow.set(row);
        const out = new Float32Array(1);
        kernels[metric.kernel](paddedQuery, paddedRow, 1, width, out);
        if (!Number.isFinite(out[0])) return;
        const { scale, scaleByFactor, relative, slack, slackByFactor } = metric.kernelBound(query, width);
        const factor = metric.rowFactor(squaredNorm(row, 0, row.length));
        const centre = out[0] * (scale + scaleByFactor * factor);
        const reach = slack + slackByFactor * factor;
        const distance = metric.exactDistance(query)(row, 0);
        expect(relative === 0 || centre >= 0).toBe(true);
        expect(distance).toBeGreaterThanOrEqual(centre * (1 - relative) - reach);
        expect(distance).toBeLessThanOrEqual(centre * (1 + relative) + reach);
      }),
      { numRuns: 2_000 },
    );
  });

  test("scores are finite and symmetric, and never minus zero", () => {
    fc.assert(
      fc.property(pair, ([a, b]) => {
        const score = exactScore(metric, a, b);
        expect(Number.isFinite(score) && !Object.is(score, -0)).toBe(true);
        expect(exactScore(metric, b, a)).toBe(score);
      }),
    );
  });

  test("no distance beyond the ceiling of a score reaches it", () => {
    const distance = fc.oneof(
      fc.double({ min: name === "euclidean" ? 0 : -1, max: 1, noNaN: true }),
      fc.double({ min: 0, max: 1e82, noNaN: true }),
      fc.constantFrom(0, 1e-40, 1e-33, 1e-32, 1e-31, 1e-16, 1),
    );
    const step = fc.double({ min: 0, max: 1e-14, noNaN: true });
    fc.assert(
      fc.property(distance, step, (distance, step) => {
        const score = metric.score(distance);
        const ceiling = metric.distanceCeiling(score);
        expect(ceiling).toBeGreaterThanOrEqual(distance);
        const beyond = ceiling + Math.max(Math.abs(ceiling) * (step + 2 ** -52), Number.MIN_VALUE);
        if (Number.isFinite(beyond)) expect(metric.score(beyond)).toBeLessThan(score);
      }),
      { numRuns: 2_000 },
    );
  });
});

test("cosine: in [-1, 1], exactly 1 for multiples, 0 with the zero vector", () => {
  const score = (a: Float32Array, b: Float32Array) => exactScore(metrics.cosine, a, b);
  expect(score(vector(0.1, 0.7, -0.3), vector(0.1, 0.7, -0.3))).toBe(1);
  expect(score(vector(0.1, 0.7, -0.3), vector(-0.2, -1.4, 0.6))).toBe(-1);
  expect(score(vector(0, 0), vector(1, 2))).toBe(0);
  expect(score(vector(1, 2), vector(0, 0))).toBe(0);
  expect(score(vector(1, 0), vector(0, 1))).toBe(0);
  expect(score(vector(3, 4), vector(4, 3))).toBe(0.96);
  fc.assert(
    fc.property(pair, ([a, b]) => {
      expect(Math.abs(score(a, b))).toBeLessThanOrEqual(1);
      if (a.some((value) => value !== 0)) expect(score(a, a)).toBe(1);
    }),
  );
});

test("dot product: as it is; the largest floats do not overflow", () => {
  const f32Max = Math.fround(3.4028234663852886e38);
  expect(exactScore(metrics.dot_product, vector(1, 2, 3, 4, 5), vector(1, 1, 1, 1, -2))).toBe(0);
  expect(exactScore(metrics.dot_product, vector(f32Max, f32Max), vector(f32Max, f32Max))).toBe(
    2 * f32Max ** 2,
  );
});

test("euclidean: 1 / (1 + distance)", () => {
  expect(exactScore(metrics.euclidean, vector(0, 0), vector(3, 4))).toBe(1 / 6);
  expect(exactScore(metrics.euclidean, vector(7), vector(7))).toBe(1);
});

test("floats are read from bytes at any offset", () => {
  const floats = vector(1.5, -0, 1e-45, 3.4e38);
  const shifted = new Uint8Array(17);
  shifted.set(bytesOfFloats(floats), 1);
  expect(readFloats(shifted.subarray(1))).toEqual(floats);
  expect(() => readFloats(shifted)).toThrow("whole f32");
});

test("dot product and norm in one pass are bit for bit those of two", () => {
  const value = fc.float({ noNaN: true, noDefaultInfinity: true });
  const rows = fc.array(fc.tuple(value, value), { maxLength: 40 });
  fc.assert(
    fc.property(rows, fc.nat(3), (pairs, offset) => {
      const query = Float32Array.from(pairs, ([q]) => q);
      const row = new Float32Array(offset + pairs.length);
      row.set(
        pairs.map(([, x]) => x),
        offset,
      );
      exactDotAndNorm(query, row, offset);
      expect(found[0]).toBe(exactDot(query, row, offset));
      expect(found[1]).toBe(squaredNorm(row, offset, query.length));
    }),
  );
});
