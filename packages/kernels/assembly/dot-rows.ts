// What are the dot products of one query with a run of rows?
//
// The pass over a large index is limited by memory, so one even stream of loads matters most. Variants in one run, alternating, in ms per
// pass (median of 8; "roof" only reads the rows; bench/flat.ts measures the variant in use):
//
//   rows a step x accumulators     1 x 4   2 x 4   4 x 2   4 x 1   roof
//   100,000 x 100 (40 MB)           2.58    2.57    2.81    2.89   2.11
//    30,000 x 768 (92 MB)           5.72    7.67    6.76    6.39   5.07
//     2,000 x 100 (in the cache)   0.022   0.021   0.019   0.020  0.013
//
// Several rows per step save loads of the query and additions at the end of a row, which pays only while all rows are in the cache; in
// memory their streams interfere. So the kernel handles one row per step.

import { assertRows, sumAccumulators } from "./lanes";

/**
 * Writes `count` f32 dot products to `out`, in the order of the rows.
 *
 * `query` holds `dimensionPadded` f32 and `rows` holds `count` rows of as many, contiguous; both are 16-byte aligned and padded with zeros
 * to a multiple of four. Products and sums are rounded to f32; the order of additions is that of the reference implementation in
 * src/reference.ts, bit for bit.
 */
export function dotRows(query: usize, rows: usize, count: u32, dimensionPadded: u32, out: usize): void {
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
      a = f32x4.add(a, f32x4.mul(v128.load(q), v128.load(row)));
      b = f32x4.add(b, f32x4.mul(v128.load(q, 16), v128.load(row, 16)));
      c = f32x4.add(c, f32x4.mul(v128.load(q, 32), v128.load(row, 32)));
      d = f32x4.add(d, f32x4.mul(v128.load(q, 48), v128.load(row, 48)));
      q += 64;
      row += 64;
    }
    while (q < queryEnd) {
      a = f32x4.add(a, f32x4.mul(v128.load(q), v128.load(row)));
      q += 16;
      row += 16;
    }
    store<f32>(out, sumAccumulators(a, b, c, d));
    out += 4;
  }
}
