// What are the exact sums of one query with scattered rows?
//
// "Exact" is f64 over f32 values, as vector/exact.ts of the engine defines it and adds: four running sums, the value at i in
// that of i mod 4 for whole groups of four, the rest in the first. The same bits, at a third of the time of JavaScript.

/** Sums of products and of the row's squares. */
const PRODUCTS: u32 = 0;

/** Rows whose cache lines are touched before the first of them is summed. */
const TOUCHED: u32 = 32;

/**
 * Prefetches rows from memory, many at a time; otherwise each access would wait for memory. The values that it writes to `out` have no
 * meaning and only prevent the compiler from removing the loads.
 */
function touch(addresses: usize, count: u32, rowBytes: usize, out: usize): void {
  let sum: u32 = 0;
  for (let i: u32 = 0; i < count; i++) {
    const row = <usize>load<u32>(addresses + ((<usize>i) << 2));
    for (let at = row; at < row + rowBytes; at += 64) sum += load<u32>(at);
  }
  store<u32>(out, sum);
}

/**
 * For each of `count` rows, whose byte offsets are stored as u32 at `addresses`, writes two f64 to `out`: for `kind` 0 the dot product with
 * the query and the row's squared norm, for 1 the squared euclidean distance and 0.
 */
export function exactSums(
  query: usize,
  addresses: usize,
  count: u32,
  dimension: u32,
  kind: u32,
  out: usize,
): void {
  const groupsEnd = query + ((<usize>(dimension & ~3)) << 2);
  const queryEnd = query + ((<usize>dimension) << 2);
  for (let i: u32 = 0; i < count; i++) {
    if (i % TOUCHED === 0)
      touch(addresses + ((<usize>i) << 2), min(TOUCHED, count - i), (<usize>dimension) << 2, out);
    let row = <usize>load<u32>(addresses + ((<usize>i) << 2));
    let ab = f64x2.splat(0);
    let cd = ab;
    let st = ab;
    let uv = ab;
    let at = query;
    if (kind === PRODUCTS) {
      for (; at < groupsEnd; at += 16) {
        const q = v128.load(at);
        const x = v128.load(row);
        const low = f64x2.promote_low_f32x4(x);
        const high = f64x2.promote_low_f32x4(v128.shuffle<i32>(x, x, 2, 3, 2, 3));
        ab = f64x2.add(ab, f64x2.mul(f64x2.promote_low_f32x4(q), low));
        cd = f64x2.add(cd, f64x2.mul(f64x2.promote_low_f32x4(v128.shuffle<i32>(q, q, 2, 3, 2, 3)), high));
        st = f64x2.add(st, f64x2.mul(low, low));
        uv = f64x2.add(uv, f64x2.mul(high, high));
        row += 16;
      }
    } else {
      for (; at < groupsEnd; at += 16) {
        const q = v128.load(at);
        const x = v128.load(row);
        const low = f64x2.sub(f64x2.promote_low_f32x4(q), f64x2.promote_low_f32x4(x));
        const high = f64x2.sub(
          f64x2.promote_low_f32x4(v128.shuffle<i32>(q, q, 2, 3, 2, 3)),
          f64x2.promote_low_f32x4(v128.shuffle<i32>(x, x, 2, 3, 2, 3)),
        );
        ab = f64x2.add(ab, f64x2.mul(low, low));
        cd = f64x2.add(cd, f64x2.mul(high, high));
        row += 16;
      }
    }
    let a = f64x2.extract_lane(ab, 0);
    let s = f64x2.extract_lane(st, 0);
    for (; at < queryEnd; at += 4) {
      const q = <f64>load<f32>(at);
      const x = <f64>load<f32>(row);
      if (kind === PRODUCTS) {
        a += q * x;
        s += x * x;
      } else {
        a += (q - x) * (q - x);
      }
      row += 4;
    }
    store<f64>(out, a + f64x2.extract_lane(ab, 1) + (f64x2.extract_lane(cd, 0) + f64x2.extract_lane(cd, 1)));
    store<f64>(
      out,
      s + f64x2.extract_lane(st, 1) + (f64x2.extract_lane(uv, 0) + f64x2.extract_lane(uv, 1)),
      8,
    );
    out += 16;
  }
}
