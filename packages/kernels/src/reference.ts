// What is the correct result of each kernel, bit for bit?
//
// The same sums in plain TypeScript: every product, difference and sum is rounded to f32, in the order in which the SIMD lanes add. Only
// the tests use these slow functions, to compare every kernel with its reference implementation.

const f32 = Math.fround;

/**
 * Reference implementation of the kernel `dotRows` on arrays of floats: `query` has `dimensionPadded` values, `rows` `count` times as many.
 */
export function dotRows(
  query: Float32Array,
  rows: Float32Array,
  count: number,
  dimensionPadded: number,
  out: Float32Array,
): void {
  sumRows(query, rows, count, dimensionPadded, out, (q, x) => f32(q * x));
}

/** Reference implementation of the kernel `l2Rows`. */
export function l2Rows(
  query: Float32Array,
  rows: Float32Array,
  count: number,
  dimensionPadded: number,
  out: Float32Array,
): void {
  sumRows(query, rows, count, dimensionPadded, out, (q, x) => f32(f32(q - x) * f32(q - x)));
}

/**
 * Sixteen running sums: four accumulators of four lanes. Whole groups of sixteen values go to all of them in turn;
 * the up to twelve values that remain go to the first accumulator.
 */
function sumRows(
  query: Float32Array,
  rows: Float32Array,
  count: number,
  dimensionPadded: number,
  out: Float32Array,
  term: (q: number, x: number) => number,
): void {
  const unrolledEnd = dimensionPadded - (dimensionPadded % 16);
  const sums = new Float32Array(16);
  for (let row = 0; row < count; row++) {
    sums.fill(0);
    const start = row * dimensionPadded;
    for (let i = 0; i < dimensionPadded; i++) {
      const lane = i < unrolledEnd ? i % 16 : i % 4;
      sums[lane] = sums[lane] + term(query[i], rows[start + i]);
    }
    const lane = (i: number) => f32(f32(sums[i] + sums[4 + i]) + f32(sums[8 + i] + sums[12 + i]));
    out[row] = f32(f32(lane(0) + lane(2)) + f32(lane(1) + lane(3)));
  }
}

/** Reference implementation of the kernel `exactSums` for one row: f64 sums, four of them, the rest of a row in the first. */
export function exactSums(query: Float32Array, row: Float32Array, kind: 0 | 1): [number, number] {
  const sums = [0, 0, 0, 0];
  const squares = [0, 0, 0, 0];
  const groupsEnd = query.length - (query.length % 4);
  for (let i = 0; i < query.length; i++) {
    const lane = i < groupsEnd ? i % 4 : 0;
    const [q, x] = [query[i], row[i]];
    sums[lane] += kind === 0 ? q * x : (q - x) * (q - x);
    if (kind === 0) squares[lane] += x * x;
  }
  const sum = ([a, b, c, d]: number[]) => a + b + (c + d);
  return [sum(sums), sum(squares)];
}

/** Reference implementation of the kernel `parseFloats`: undefined for what is not a list of numbers with finite floats. */
export function parseFloats(list: string): Float32Array | undefined {
  let values: unknown[];
  try {
    values = JSON.parse(`[${list}]`);
  } catch {
    return undefined;
  }
  const isNumber = (value: unknown) => typeof value === "number" && Number.isFinite(f32(value));
  return values.length > 0 && values.every(isNumber) ? Float32Array.from(values as number[]) : undefined;
}

/** Reference implementation of the kernel `rotate`: rounds of signs, a Hadamard transform, and a step that joins both halves. */
export function rotate(values: Float64Array, signs: Float64Array, block: number, rounds: number): void {
  const dimension = values.length;
  const rest = dimension - block;
  for (let round = 0; round < rounds; round++) {
    for (let i = 0; i < dimension; i++) values[i] *= signs[round * dimension + i];
    transform(values, round % 2 === 0 ? 0 : rest, block);
    if (rest > 0) joinHalves(values, dimension / 2);
  }
}

/** The orthogonal Hadamard transform of `count` values, a power of two, from `begin` on. */
function transform(values: Float64Array, begin: number, count: number): void {
  const end = begin + count;
  for (let half = 1; half < count; half *= 2) {
    for (let i = begin; i < end; i += 2 * half) {
      for (let j = i; j < i + half; j++) {
        const a = values[j];
        const b = values[j + half];
        values[j] = a + b;
        values[j + half] = a - b;
      }
    }
  }
  const scale = 1 / Math.sqrt(count);
  for (let i = begin; i < end; i++) values[i] *= scale;
}

function joinHalves(values: Float64Array, half: number): void {
  for (let i = 0; i < half; i++) {
    const a = values[i];
    const b = values[i + half];
    values[i] = (a + b) * Math.SQRT1_2;
    values[i + half] = (a - b) * Math.SQRT1_2;
  }
}
