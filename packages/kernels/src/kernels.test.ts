// Does every kernel compute what its reference implementation computes, bit for bit, in both builds?

import { describe, expect, test } from "vitest";
import { instantiate, type KernelName, padded, pageBytes } from "./loader.ts";
import { randomNumbers } from "./random.ts";
import { dotRows, exactSums, l2Rows, rotate } from "./reference.ts";
import { f32Max, relativeError, underflowPerTerm } from "./rounding.ts";

type Draw = (next: () => number) => number;
const draws: Record<string, Draw> = {
  ordinary: (next) => next() * 2 - 1,
  denormal: (next) => (next() * 2 - 1) * 2 ** -126,
  zeros: (next) => (next() < 0.5 ? 0 : -0),
  large: (next) => (next() * 2 - 1) * f32Max,
  mixed: (next) => (next() * 2 - 1) * 2 ** Math.floor(next() * 250 - 125),
};

const memory = new WebAssembly.Memory({ initial: 40, maximum: 65_536, shared: true });
const dimensions = [...Array.from({ length: 70 }, (_, i) => i + 1), 100, 128, 255, 768, 1_000, 4_096, 65_535];
const references = { dotRows, l2Rows };
const names: KernelName[] = ["dotRows", "l2Rows"];

/** Lays out [query][rows][out] from `base` on, fills query and rows, and returns views of the three. */
function layOut(dimension: number, count: number, draw: Draw, seed: number, base: number) {
  const next = randomNumbers(seed);
  const width = padded(dimension);
  const query = new Float32Array(memory.buffer, base, width).fill(0);
  const rowsAt = base + width * 4;
  const rows = new Float32Array(memory.buffer, rowsAt, width * count).fill(0);
  const outAt = rowsAt + width * count * 4;
  const out = new Float32Array(memory.buffer, outAt, count + 1).fill(123);
  for (let i = 0; i < dimension; i++) query[i] = draw(next);
  for (let row = 0; row < count; row++)
    for (let i = 0; i < dimension; i++) rows[row * width + i] = draw(next);
  return { width, query, rows, rowsAt, out, outAt };
}

describe.each([{ debug: false }, { debug: true }])("build with %o", (options) => {
  const kernels = instantiate(memory, options);

  test.each(names)("%s equals its reference implementation for every kind of value", (name) => {
    for (const dimension of dimensions) {
      const count = dimension > 4_096 ? 3 : 1 + (dimension % 7);
      for (const [kind, draw] of Object.entries(draws)) {
        const base = 16 * (dimension % 5);
        const { width, query, rows, rowsAt, out, outAt } = layOut(dimension, count, draw, dimension, base);
        const expected = new Float32Array(count);
        references[name](query, rows, count, width, expected);
        kernels[name](base, rowsAt, count, width, outAt);
        expect([...out], `${name} of ${dimension} ${kind} values`).toEqual([...expected, 123]);
      }
    }
  });

  test("no rows: nothing is written", () => {
    const { width, rowsAt, out, outAt } = layOut(8, 1, draws.ordinary, 1, 0);
    for (const name of names) kernels[name](0, rowsAt, 0, width, outAt);
    expect([...out]).toEqual([123, 123]);
  });
});

test("the rounding bounds hold against f64 sums", () => {
  const kernels = instantiate(memory);
  for (const dimension of dimensions) {
    for (const kind of ["ordinary", "denormal", "mixed"]) {
      const draw: Draw = kind === "mixed" ? (next) => draws.mixed(next) / 2 ** 65 : draws[kind];
      const { width, query, rows, rowsAt, out, outAt } = layOut(dimension, 3, draw, dimension, 0);
      const allowed = relativeError(width);
      const underflow = width * underflowPerTerm;
      for (const name of names) {
        kernels[name](0, rowsAt, 3, width, outAt);
        for (let row = 0; row < 3; row++) {
          let sum = 0;
          let magnitude = 0;
          for (let i = 0; i < dimension; i++) {
            const x = rows[row * width + i];
            const term = name === "dotRows" ? query[i] * x : (query[i] - x) ** 2;
            sum += term;
            magnitude += Math.abs(term);
          }
          const bound = magnitude * allowed + underflow;
          expect(Math.abs(out[row] - sum), `${name} ${dimension} ${kind}`).toBeLessThanOrEqual(bound);
        }
      }
    }
  }
});

test("rows at the end of a 4 GiB memory are read and results after them written", () => {
  const large = new WebAssembly.Memory({ initial: 65_536, maximum: 65_536, shared: true });
  const kernels = instantiate(large, { debug: true });
  const end = 65_536 * pageBytes;
  new Float32Array(large.buffer, 0, 4).set([1, 2, 3, 4]);
  const rowsAt = end - 48;
  new Float32Array(large.buffer, rowsAt, 8).set([1, 1, 1, 1, 2, 0, 0, 1]);
  kernels.dotRows(0, rowsAt, 2, 4, end - 16);
  expect([...new Float32Array(large.buffer, end - 16, 2)]).toEqual([10, 6]);
  kernels.l2Rows(0, end - 32, 2, 4, 16);
  expect([...new Float32Array(large.buffer, 16, 1)]).toEqual([1 + 4 + 9 + 9]);
});

test.each(names)("the debug build of %s traps if a precondition is violated", (name) => {
  const kernel = instantiate(memory, { debug: true })[name];
  expect(() => kernel(4, 64, 1, 4, 128)).toThrow(WebAssembly.RuntimeError);
  expect(() => kernel(0, 68, 1, 4, 128)).toThrow(WebAssembly.RuntimeError);
  expect(() => kernel(0, 64, 1, 5, 128)).toThrow(WebAssembly.RuntimeError);
  expect(() => kernel(0, 64, 1, 0, 128)).toThrow(WebAssembly.RuntimeError);
  expect(() => kernel(0, 64, 1, 4, 130)).toThrow(WebAssembly.RuntimeError);
  expect(() => kernel(0, 64, 0x7fff_ffff, 4, 128)).toThrow(WebAssembly.RuntimeError);
});

test.each([{ debug: false }, { debug: true }])(
  "exact sums equal their reference implementation, with %o",
  (options) => {
    const kernels = instantiate(memory, options);
    const [rowsAt, addressesAt, outAt] = [32_768, 16_384, 20_480];
    const words = new Uint32Array(memory.buffer);
    const floats = new Float32Array(memory.buffer);
    const doubles = new Float64Array(memory.buffer);
    let state = 1;
    const next = () => {
      state = Math.imul(state, 1_664_525) + 1_013_904_223;
      return (state >>> 0) / 2 ** 31 - 1;
    };
    for (const dimension of [1, 2, 3, 4, 5, 7, 8, 31, 100, 768]) {
      const query = floats.subarray(0, dimension);
      for (let i = 0; i < dimension; i++) query[i] = next() * 2 ** (40 * next());
      // Rows with gaps between them, not in order.
      const rows = [2, 0, 1].map((place, i) => {
        const at = rowsAt + place * 4_096;
        words[addressesAt / 4 + i] = at;
        const row = floats.subarray(at / 4, at / 4 + dimension);
        for (let j = 0; j < dimension; j++) row[j] = next() * 2 ** (40 * next());
        return row;
      });
      for (const kind of [0, 1] as const) {
        doubles.fill(123, outAt / 8, outAt / 8 + 7);
        kernels.exactSums(0, addressesAt, 3, dimension, kind, outAt);
        const expected = rows.flatMap((row) => exactSums(query, row, kind));
        expect([...doubles.subarray(outAt / 8, outAt / 8 + 7)]).toEqual([...expected, 123]);
      }
    }
  },
);

test.each([{ debug: false }, { debug: true }])(
  "rotations equal their reference implementation to the last bit, with %o",
  (options) => {
    const kernels = instantiate(memory, options);
    const next = randomNumbers(11);
    for (const dimension of [2, 4, 6, 10, 16, 64, 96, 128, 130, 768, 1_536, 4_094]) {
      const block = 2 ** Math.floor(Math.log2(dimension));
      for (const rounds of [1, 2, 3, 4]) {
        for (const draw of [draws.ordinary, draws.zeros, draws.mixed]) {
          const values = new Float64Array(memory.buffer, 0, dimension);
          const signs = new Float64Array(memory.buffer, 8 * dimension, rounds * dimension + 1);
          for (let i = 0; i < dimension; i++) values[i] = draw(next);
          for (let i = 0; i < rounds * dimension; i++) signs[i] = next() < 0.5 ? 1 : -1;
          signs[rounds * dimension] = 123;
          const expected = values.slice();
          rotate(expected, signs.slice(), block, rounds);
          kernels.rotate(0, 8 * dimension, dimension, block, rounds, 1 / Math.sqrt(block));
          expect([...values]).toEqual([...expected]);
          expect(signs[rounds * dimension]).toBe(123);
        }
      }
    }
  },
);
