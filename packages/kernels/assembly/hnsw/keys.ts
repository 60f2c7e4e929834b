// How near are nodes to a query code?
//
// A *key* orders nodes for one query; smaller is nearer:
//
//   key = w bias - s f (q . 2u)        w, s of the query; bias, f of the node
//
// A vector less the centre of the data is the residual r. A node has its code u, times f nearly r, and bias = |r|^2 / 2. The
// query has its code q, times s nearly its own residual. With w = 1 the key is half the squared distance less half the
// query's squared length, which of a node is its bias; with w = 0 it is the product, negated.
//
// f is not the best fit of u to r but |r|^2 / (u . r): so the estimate of q . r errs to neither side (RaBitQ, Gao and
// Long, SIGMOD 2024). A node that asks takes the best fit, and the distance to its own code is zero.
//
// Codes by type of data, in whole registers of 16 bytes; the query's values stand in the order in which they unfold:
//
//   f32       r as it is. With w = 1 the key is half of the squared distance, summed over the differences: the difference of two
//             products has no digits left where vectors lie closer to each other than to the centre. Factor 1, bias 0.
//   f16       u as it is, in two bytes, and q . u in place of q . 2u
//   u8        u + 64 in [1, 127], a byte each; alone of them without padding, for a word less can be a unit less: what stands
//             behind the code fills the last register, where every query is zero
//   octal     2u + 7 = 2c, c in [0, 7]: of 128 values 2 registers with the low two bits, 1 with the high bit
//   quaternary 2u + 3 = 2c, c in [0, 3]: 64 values; bits 2j and 2j + 1 of byte i are value 16 j + i
//   binary    2u + 1 = 2c, c in [0, 1]: 128 values; bit j of byte i is value 16 j + i
//
// A query's values are i8, or f32 for floats. q . 2u = 2 (q . c) - offset, exact in 32 bits up to 65,535 dimensions; one
// relaxed dot instruction multiplies and sums 16 values, exactly and equally on every machine, for pairs stay within 16
// bits. Where there is none, the build without relaxed SIMD computes the same in four instructions.
//
//   a query code   | s f32 | offset i32 | w f32 | the query's constant f32, see keyOffset | values |

import { BUILD_MODE, CODE_BYTES, DATA_TYPE, NODES_AT, nodeAt, QUERY_BYTES, SLOT_BYTES } from "./layout";

export const F32: u32 = 0;
export const F16: u32 = 1;
export const U8: u32 = 2;
export const OCTAL: u32 = 3;
export const QUATERNAY: u32 = 4;
export const BINARY: u32 = 5;

/** Fields before a query's values. */
const Q_SCALE: usize = 0;
const Q_OFFSET: usize = 4;
const Q_WEIGHT: usize = 8;
const Q_CONSTANT: usize = 12;
const Q_VALUES: usize = 16;

/** What makes half of the squared distance of a key, with w = 1. */
export function keyOffset(query: usize): f32 {
  return load<u32>(DATA_TYPE) === F32 ? 0 : load<f32>(query, Q_CONSTANT);
}

/** Writes the f32 keys of `count` nodes, rounded up to whole fours: the ids after the last one are read, too, and must be nodes. */
export function keysOf(query: usize, ids: usize, count: u32, keys: usize): void {
  const codeBytes = <usize>load<u32>(CODE_BYTES);
  const type = load<u32>(DATA_TYPE);
  const scale = f32x4.splat(load<f32>(query, Q_SCALE));
  const weight = f32x4.splat(load<f32>(query, Q_WEIGHT));
  const offset = i32x4.splat(load<i32>(query, Q_OFFSET));
  const values = query + Q_VALUES;
  const nodesAt = <usize>load<u32>(NODES_AT);
  const slotBytes = <usize>load<u32>(SLOT_BYTES);
  const end = keys + ((<usize>count) << 2);
  if (type === F32 && load<f32>(query, Q_WEIGHT) !== 0) {
    halfDistances(values, ids, keys, end, codeBytes, nodesAt, slotBytes);
    return;
  }
  while (keys < end) {
    const a = nodesAt + <usize>load<u32>(ids) * slotBytes;
    const b = nodesAt + <usize>load<u32>(ids, 4) * slotBytes;
    const c = nodesAt + <usize>load<u32>(ids, 8) * slotBytes;
    const d = nodesAt + <usize>load<u32>(ids, 12) * slotBytes;
    let dots: v128;
    if (type === U8) dots = centred(dots4U8(values, codeBytes, a, b, c, d), offset);
    else if (type === F32) dots = dots4F32(values, codeBytes, a, b, c, d);
    else if (type === F16) dots = dots4F16(values, codeBytes, a, b, c, d);
    else if (type === BINARY) dots = centred(dots4Bits(values, 1, codeBytes, a, b, c, d), offset);
    else if (type === QUATERNAY) dots = centred(dots4Bits(values, 2, codeBytes, a, b, c, d), offset);
    else dots = centred(dots4Octal(values, codeBytes, a, b, c, d), offset);
    // Factor and bias are adjacent: those of two nodes fill a register.
    const ab = v128.load64_lane(b + codeBytes, v128.load64_zero(a + codeBytes), 1);
    const cd = v128.load64_lane(d + codeBytes, v128.load64_zero(c + codeBytes), 1);
    const factor = v128.shuffle<i32>(ab, cd, 0, 2, 4, 6);
    const bias = v128.shuffle<i32>(ab, cd, 1, 3, 5, 7);
    v128.store(keys, f32x4.sub(f32x4.mul(bias, weight), f32x4.mul(f32x4.mul(factor, scale), dots)));
    ids += 16;
    keys += 16;
  }
}

/** q . 2u of sums q . c. */
function centred(sums: v128, offset: v128): v128 {
  return f32x4.convert_i32x4_s(i32x4.sub(i32x4.shl(sums, 1), offset));
}

/** Adds the products of 16 signed values and 16 of 7 bits, summed to four. */
function addDots(q: v128, c: v128, sums: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return i32x4.relaxed_dot_i8x16_i7x16_add_s(q, c, sums);
  const low = i16x8.extmul_low_i8x16_s(q, c);
  const high = i16x8.extmul_high_i8x16_s(q, c);
  return i32x4.add(sums, i32x4.add(i32x4.extadd_pairwise_i16x8_s(low), i32x4.extadd_pairwise_i16x8_s(high)));
}

/** The sums of four registers' lanes. */
function sums4(s: v128, t: v128, u: v128, v: v128): v128 {
  const st = i32x4.add(v128.shuffle<i32>(s, t, 0, 4, 1, 5), v128.shuffle<i32>(s, t, 2, 6, 3, 7));
  const uv = i32x4.add(v128.shuffle<i32>(u, v, 0, 4, 1, 5), v128.shuffle<i32>(u, v, 2, 6, 3, 7));
  return i32x4.add(v128.shuffle<i32>(st, uv, 0, 1, 4, 5), v128.shuffle<i32>(st, uv, 2, 3, 6, 7));
}

function floatSums4(s: v128, t: v128, u: v128, v: v128): v128 {
  const st = f32x4.add(v128.shuffle<f32>(s, t, 0, 4, 1, 5), v128.shuffle<f32>(s, t, 2, 6, 3, 7));
  const uv = f32x4.add(v128.shuffle<f32>(u, v, 0, 4, 1, 5), v128.shuffle<f32>(u, v, 2, 6, 3, 7));
  return f32x4.add(v128.shuffle<f32>(st, uv, 0, 1, 4, 5), v128.shuffle<f32>(st, uv, 2, 3, 6, 7));
}

function dots4U8(query: usize, codeBytes: usize, a: usize, b: usize, c: usize, d: usize): v128 {
  let s = i32x4.splat(0);
  let t = s;
  let u = s;
  let v = s;
  for (let i: usize = 0; i < codeBytes; i += 16) {
    const q = v128.load(query + i);
    s = addDots(q, v128.load(a + i), s);
    t = addDots(q, v128.load(b + i), t);
    u = addDots(q, v128.load(c + i), u);
    v = addDots(q, v128.load(d + i), v);
  }
  return sums4(s, t, u, v);
}

function dots4F32(query: usize, codeBytes: usize, a: usize, b: usize, c: usize, d: usize): v128 {
  let s = f32x4.splat(0);
  let t = s;
  let u = s;
  let v = s;
  for (let i: usize = 0; i < codeBytes; i += 16) {
    const q = v128.load(query + i);
    s = f32x4.add(s, f32x4.mul(q, v128.load(a + i)));
    t = f32x4.add(t, f32x4.mul(q, v128.load(b + i)));
    u = f32x4.add(u, f32x4.mul(q, v128.load(c + i)));
    v = f32x4.add(v, f32x4.mul(q, v128.load(d + i)));
  }
  return floatSums4(s, t, u, v);
}

/** Writes half of the squared distances between f32 values and those of nodes, four at a time. */
function halfDistances(
  query: usize,
  ids: usize,
  keys: usize,
  end: usize,
  codeBytes: usize,
  nodesAt: usize,
  slotBytes: usize,
): void {
  const half = f32x4.splat(0.5);
  for (; keys < end; keys += 16, ids += 16) {
    const a = nodesAt + <usize>load<u32>(ids) * slotBytes;
    const b = nodesAt + <usize>load<u32>(ids, 4) * slotBytes;
    const c = nodesAt + <usize>load<u32>(ids, 8) * slotBytes;
    const d = nodesAt + <usize>load<u32>(ids, 12) * slotBytes;
    let s = f32x4.splat(0);
    let t = s;
    let u = s;
    let v = s;
    for (let i: usize = 0; i < codeBytes; i += 16) {
      const q = v128.load(query + i);
      const toA = f32x4.sub(q, v128.load(a + i));
      const toB = f32x4.sub(q, v128.load(b + i));
      const toC = f32x4.sub(q, v128.load(c + i));
      const toD = f32x4.sub(q, v128.load(d + i));
      s = f32x4.add(s, f32x4.mul(toA, toA));
      t = f32x4.add(t, f32x4.mul(toB, toB));
      u = f32x4.add(u, f32x4.mul(toC, toC));
      v = f32x4.add(v, f32x4.mul(toD, toD));
    }
    v128.store(keys, f32x4.mul(half, floatSums4(s, t, u, v)));
  }
}

function dots4F16(query: usize, codeBytes: usize, a: usize, b: usize, c: usize, d: usize): v128 {
  let s = f32x4.splat(0);
  let t = s;
  let u = s;
  let v = s;
  for (let i: usize = 0; i < codeBytes; i += 8) {
    const q = v128.load(query + (i << 1));
    s = f32x4.add(s, f32x4.mul(q, halves(a + i)));
    t = f32x4.add(t, f32x4.mul(q, halves(b + i)));
    u = f32x4.add(u, f32x4.mul(q, halves(c + i)));
    v = f32x4.add(v, f32x4.mul(q, halves(d + i)));
  }
  return floatSums4(s, t, u, v);
}

/** Four f16 as f32: the bits moved to their places make the value times 2^-112. There are no infinities and no NaN. */
function halves(at: usize): v128 {
  const bits = i32x4.shl(v128.load16x4_s(at), 13);
  return f32x4.mul(v128.and(bits, i32x4.splat(0x8fff_e000)), f32x4.splat(reinterpret<f32>(0x7780_0000)));
}

/** Values of 1 or 2 bits: 8 or 4 registers out of one, four nodes. */
function dots4Bits(query: usize, bits: i32, codeBytes: usize, a: usize, b: usize, c: usize, d: usize): v128 {
  let s = i32x4.splat(0);
  let t = s;
  let u = s;
  let v = s;
  const most: i32 = (1 << bits) - 1;
  const mask = i8x16.splat(<i8>most);
  for (let i: usize = 0; i < codeBytes; i += 16) {
    const codeA = v128.load(a + i);
    const codeB = v128.load(b + i);
    const codeC = v128.load(c + i);
    const codeD = v128.load(d + i);
    for (let j = 0; j < 8; j += bits) {
      const q = v128.load(query);
      s = addDots(q, v128.and(i16x8.shr_u(codeA, j), mask), s);
      t = addDots(q, v128.and(i16x8.shr_u(codeB, j), mask), t);
      u = addDots(q, v128.and(i16x8.shr_u(codeC, j), mask), u);
      v = addDots(q, v128.and(i16x8.shr_u(codeD, j), mask), v);
      query += 16;
    }
  }
  return sums4(s, t, u, v);
}

function dots4Octal(query: usize, codeBytes: usize, a: usize, b: usize, c: usize, d: usize): v128 {
  let s = i32x4.splat(0);
  let t = s;
  let u = s;
  let v = s;
  for (let i: usize = 0; i < codeBytes; i += 48) {
    for (let j = 0; j < 8; j++) {
      const q = v128.load(query);
      s = addDots(q, octal(a + i, j), s);
      t = addDots(q, octal(b + i, j), t);
      u = addDots(q, octal(c + i, j), u);
      v = addDots(q, octal(d + i, j), v);
      query += 16;
    }
  }
  return sums4(s, t, u, v);
}

/** The j-th 16 of 128 values of 3 bits. */
function octal(at: usize, j: i32): v128 {
  const low = i16x8.shr_u(v128.load(at + ((<usize>j >> 2) << 4)), (j & 3) << 1);
  const high = i16x8.shr_u(v128.load(at, 32), j);
  return v128.or(v128.and(low, i8x16.splat(3)), i16x8.shl(v128.and(high, i8x16.splat(1)), 2));
}

/** Writes a node's code as a query code, for building. */
export function queryOfNode(node: u32, to: usize): void {
  const type = load<u32>(DATA_TYPE);
  const codeBytes = <usize>load<u32>(CODE_BYTES);
  const from = nodeAt(node);
  const values = to + Q_VALUES;
  const factor = load<f32>(from + codeBytes);
  store<i32>(to, 0, Q_OFFSET);
  store<f32>(to, weightOf(load<u32>(BUILD_MODE)), Q_WEIGHT);
  store<f32>(to, factor, Q_SCALE);
  if (type === F32) {
    memory.copy(values, from, codeBytes);
    return;
  }
  if (type === F16) {
    for (let i: usize = 0; i < codeBytes; i += 8) v128.store(values + (i << 1), halves(from + i));
    return;
  }
  const end = to + <usize>load<u32>(QUERY_BYTES);
  if (factor === 0) {
    memory.fill(values, 0, end - values);
    return;
  }
  unfold(type, from, codeBytes, values);
  let zero = i8x16.splat(1);
  let twice: i32 = 1;
  if (type === U8) {
    zero = i8x16.splat(-128);
    twice = 128;
  } else if (type === QUATERNAY) {
    zero = i8x16.splat(3);
    twice = 3;
  } else if (type === OCTAL) {
    zero = i8x16.splat(7);
    twice = 7;
  }
  let sum = i32x4.splat(0);
  let squared = sum;
  for (let at = values; at < end; at += 16) {
    const q = i8x16.sub(i8x16.shl(v128.load(at), 1), zero);
    v128.store(at, q);
    sum = i32x4.add(sum, i32x4.extadd_pairwise_i16x8_s(i16x8.extadd_pairwise_i8x16_s(q)));
    const low = i16x8.extend_low_i8x16_s(q);
    const high = i16x8.extend_high_i8x16_s(q);
    squared = i32x4.add(squared, i32x4.add(i32x4.dot_i16x8_s(low, low), i32x4.dot_i16x8_s(high, high)));
  }
  store<i32>(to, twice * laneSum(sum), Q_OFFSET);
  // The best fit of the code to the residual, by |r|^2 = f (q . r) and |r|^2 = 2 bias.
  const bias = load<f32>(from + codeBytes, 4);
  store<f32>(to, (2 * bias) / (factor * <f32>laneSum(squared)), Q_SCALE);
}

function laneSum(v: v128): i32 {
  return (
    i32x4.extract_lane(v, 0) + i32x4.extract_lane(v, 1) + i32x4.extract_lane(v, 2) + i32x4.extract_lane(v, 3)
  );
}

/** Writes a code's unsigned values as bytes, in the order of the query's. */
function unfold(type: u32, from: usize, codeBytes: usize, to: usize): void {
  if (type === U8) {
    memory.copy(to, from, codeBytes);
    memory.fill(to + codeBytes, 64, (16 - (codeBytes & 15)) & 15);
    return;
  }
  const step: usize = type === OCTAL ? 48 : 16;
  const bits = type === QUATERNAY ? 2 : 1;
  const mask = i8x16.splat(type === QUATERNAY ? 3 : 1);
  for (let i: usize = 0; i < codeBytes; i += step) {
    for (let j = 0; j < 8; j += bits) {
      const value = type === OCTAL ? octal(from + i, j) : v128.and(i16x8.shr_u(v128.load(from + i), j), mask);
      v128.store(to, value);
      to += 16;
    }
  }
}

/** The weight of the bias in a mode: 0 products, 1 distances. */
function weightOf(mode: u32): f32 {
  return mode === 0 ? 0 : 1;
}

/** Makes keys of a node's query code distances in any mode, less its own bias. */
export function compareDistances(query: usize): void {
  store<f32>(query, 1, Q_WEIGHT);
}

/** Half of a node's squared length. */
export function biasOfNode(node: u32): f32 {
  return load<f32>(nodeAt(node) + load<u32>(CODE_BYTES), 4);
}
