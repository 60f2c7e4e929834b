// What do the f32 kernels share?

/** Sum of the four lanes, as (0 + 2) + (1 + 3): the reference implementations add in the same order. */
export function sumLanes(v: v128): f32 {
  const pairs = f32x4.add(v, v128.shuffle<f32>(v, v, 2, 3, 0, 1));
  return f32x4.extract_lane(pairs, 0) + f32x4.extract_lane(pairs, 1);
}

/** Sum of four accumulators, as (a + b) + (c + d), and of their lanes. */
export function sumAccumulators(a: v128, b: v128, c: v128, d: v128): f32 {
  return sumLanes(f32x4.add(f32x4.add(a, b), f32x4.add(c, d)));
}

/**
 * Asserts what every row kernel requires: 16-byte alignment of query and rows, 4-byte alignment of `out`, whole
 * vectors of four floats, and that query, rows and results lie in the memory.
 */
export function assertRows(query: usize, rows: usize, count: u32, dimensionPadded: u32, out: usize): void {
  const rowBytes = (<u64>dimensionPadded) << 2;
  const memoryBytes = (<u64>memory.size()) << 16;
  assert(dimensionPadded > 0 && (dimensionPadded & 3) === 0);
  assert((query & 15) === 0 && (rows & 15) === 0 && (out & 3) === 0);
  assert(<u64>query + rowBytes <= memoryBytes);
  assert(<u64>rows + rowBytes * <u64>count <= memoryBytes);
  assert(<u64>out + ((<u64>count) << 2) <= memoryBytes);
}
