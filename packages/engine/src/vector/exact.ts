// What is the exact sum, and in which order is it added?
//
// "Exact" is f64 arithmetic on f32 values: a product of two f32 is exact in f64, and a sum of n of them is off by
// less than n * 2^-53 of their magnitudes. Four running sums, because one alone waits four cycles for each addition:
// the value at i goes to sum i mod 4 as long as whole groups of four last, the rest to the first sum.

/** Dot product of `query` with the row of the same length at `offset` of `rows`. */
export function exactDot(query: Float32Array, rows: Float32Array, offset: number): number {
  const dimension = query.length;
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  let i = 0;
  for (; i + 4 <= dimension; i += 4) {
    const at = offset + i;
    a += query[i] * rows[at];
    b += query[i + 1] * rows[at + 1];
    c += query[i + 2] * rows[at + 2];
    d += query[i + 3] * rows[at + 3];
  }
  for (; i < dimension; i++) a += query[i] * rows[offset + i];
  return a + b + (c + d);
}

/** The last result of `exactDotAndNorm`: the dot product and the row's squared norm. An array, because its numbers are not boxed. */
export const found = new Float64Array(2);

/**
 * exactDot and squaredNorm of a row in one pass, bit for bit the same, into `found`. It takes half of the time, because a row is read from
 * memory only once.
 */
export function exactDotAndNorm(query: Float32Array, rows: Float32Array, offset: number): void {
  const dimension = query.length;
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  let s = 0;
  let t = 0;
  let u = 0;
  let v = 0;
  let i = 0;
  for (; i + 4 <= dimension; i += 4) {
    const at = offset + i;
    const w = rows[at];
    const x = rows[at + 1];
    const y = rows[at + 2];
    const z = rows[at + 3];
    a += query[i] * w;
    b += query[i + 1] * x;
    c += query[i + 2] * y;
    d += query[i + 3] * z;
    s += w * w;
    t += x * x;
    u += y * y;
    v += z * z;
  }
  for (; i < dimension; i++) {
    const w = rows[offset + i];
    a += query[i] * w;
    s += w * w;
  }
  found[0] = a + b + (c + d);
  found[1] = s + t + (u + v);
}

/** Squared euclidean distance of `query` to the row of the same length at `offset` of `rows`. */
export function exactSquaredDistance(query: Float32Array, rows: Float32Array, offset: number): number {
  const dimension = query.length;
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  let i = 0;
  for (; i + 4 <= dimension; i += 4) {
    const at = offset + i;
    const s = query[i] - rows[at];
    const t = query[i + 1] - rows[at + 1];
    const u = query[i + 2] - rows[at + 2];
    const v = query[i + 3] - rows[at + 3];
    a += s * s;
    b += t * t;
    c += u * u;
    d += v * v;
  }
  for (; i < dimension; i++) {
    const s = query[i] - rows[offset + i];
    a += s * s;
  }
  return a + b + (c + d);
}

/** Sum of the squares of the `dimension` floats at `offset` of `rows`. */
export function squaredNorm(rows: Float32Array, offset: number, dimension: number): number {
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  let i = 0;
  for (; i + 4 <= dimension; i += 4) {
    const at = offset + i;
    a += rows[at] * rows[at];
    b += rows[at + 1] * rows[at + 1];
    c += rows[at + 2] * rows[at + 2];
    d += rows[at + 3] * rows[at + 3];
  }
  for (; i < dimension; i++) a += rows[offset + i] * rows[offset + i];
  return a + b + (c + d);
}
