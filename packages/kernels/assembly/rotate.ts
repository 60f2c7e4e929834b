// How are values mixed by a random orthogonal map, in place?
//
// See index/hnsw/value-transforms.ts of the engine for what and why. Two f64 a register, and the same operations on the same values as the reference in
// JavaScript, so the same bits, at a sixth of the time. The values stay in the first cache (768 take 6 KB).

/** Multiplies `count` values, an even number, by as many others. */
function multiply(values: usize, factors: usize, count: u32): void {
  for (const end = values + ((<usize>count) << 3); values < end; values += 16, factors += 16)
    v128.store(values, f64x2.mul(v128.load(values), v128.load(factors)));
}

/** The orthogonal Hadamard transform of `count` values, a power of two, 2 at least. */
function transform(values: usize, count: u32, scale: f64): void {
  const end = values + ((<usize>count) << 3);
  const signs = f64x2(1, -1);
  for (let at = values; at < end; at += 16) {
    const x = v128.load(at);
    // a + b and a - b, which is a + b * -1 to the last bit.
    const sums = f64x2.add(v128.shuffle<f64>(x, x, 0, 0), f64x2.mul(v128.shuffle<f64>(x, x, 1, 1), signs));
    v128.store(at, count === 2 ? f64x2.mul(sums, f64x2.splat(scale)) : sums);
  }
  for (let half: usize = 16; half < end - values; half <<= 1) {
    const isLast = half << 1 === end - values;
    const factor = f64x2.splat(isLast ? scale : 1);
    for (let i = values; i < end; i += half << 1) {
      for (let at = i; at < i + half; at += 16) {
        const a = v128.load(at);
        const b = v128.load(at + half);
        // Times one changes nothing.
        v128.store(at, f64x2.mul(f64x2.add(a, b), factor));
        v128.store(at + half, f64x2.mul(f64x2.sub(a, b), factor));
      }
    }
  }
}

function joinHalves(values: usize, half: u32): void {
  const other = (<usize>half) << 3;
  const factor = f64x2.splat(Math.SQRT1_2);
  let at = values;
  for (const end = values + ((<usize>(half & ~1)) << 3); at < end; at += 16) {
    const a = v128.load(at);
    const b = v128.load(at + other);
    v128.store(at, f64x2.mul(f64x2.add(a, b), factor));
    v128.store(at + other, f64x2.mul(f64x2.sub(a, b), factor));
  }
  if ((half & 1) === 0) return;
  const a = load<f64>(at);
  const b = load<f64>(at + other);
  store<f64>(at, (a + b) * Math.SQRT1_2);
  store<f64>(at + other, (a - b) * Math.SQRT1_2);
}

/**
 * Rotates `dimension` f64 at `values`, an even number, in place. `block` is the greatest power of two that is not greater, `signs` has 1 or -1
 * for each value of each round, and `scale` is 1 / sqrt(block).
 */
export function rotate(
  values: usize,
  signs: usize,
  dimension: u32,
  block: u32,
  rounds: u32,
  scale: f64,
): void {
  assert(dimension % 2 === 0 && block >= 2 && block <= dimension && dimension < 2 * block);
  const rest = dimension - block;
  for (let round: u32 = 0; round < rounds; round++) {
    multiply(values, signs + ((<usize>(round * dimension)) << 3), dimension);
    transform(round % 2 === 0 ? values : values + ((<usize>rest) << 3), block, scale);
    if (rest > 0) joinHalves(values, dimension / 2);
  }
}
