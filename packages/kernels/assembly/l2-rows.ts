// What are the squared euclidean distances of one query to a run of rows?
//
// The shape is that of dot-rows.ts, for the reasons measured there.

import { assertRows, sumAccumulators } from "./lanes";

/**
 * Writes `count` f32 squared distances to `out`, in the order of the rows.
 *
 * `query` holds `dimensionPadded` f32 and `rows` holds `count` rows of as many, contiguous; both are 16-byte aligned and padded with zeros
 * to a multiple of four. Differences, squares and sums are rounded to f32; the order of additions is that of the reference implementation
 * in src/reference.ts, bit for bit. Never NaN for finite input.
 */
export function l2Rows(query: usize, rows: usize, count: u32, dimensionPadded: u32, out: usize): void {
  assertRows(query, rows, count, dimensionPadded, out);
  const unrolledEnd = query + ((<usize>(dimensionPadded & ~15)) << 2);
  const queryEnd = query + ((<usize>dimensionPadded) << 2);
  let row = rows;
  for (let i: u32 = 0; i < count; i++) {
    let a = f32x4.splat(0);
    let b = f32x4.splat(0);
    let c = f32x4.splat(0);
    let d = f32x4.splat(0);
    let q = query;
    while (q < unrolledEnd) {
      const s = f32x4.sub(v128.load(q), v128.load(row));
      const t = f32x4.sub(v128.load(q, 16), v128.load(row, 16));
      const u = f32x4.sub(v128.load(q, 32), v128.load(row, 32));
      const v = f32x4.sub(v128.load(q, 48), v128.load(row, 48));
      a = f32x4.add(a, f32x4.mul(s, s));
      b = f32x4.add(b, f32x4.mul(t, t));
      c = f32x4.add(c, f32x4.mul(u, u));
      d = f32x4.add(d, f32x4.mul(v, v));
      q += 64;
      row += 64;
    }
    while (q < queryEnd) {
      const s = f32x4.sub(v128.load(q), v128.load(row));
      a = f32x4.add(a, f32x4.mul(s, s));
      q += 16;
      row += 16;
    }
    store<f32>(out, sumAccumulators(a, b, c, d));
    out += 4;
  }
}
