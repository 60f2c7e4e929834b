// How near are nodes to a query code?
//
// A *key* orders nodes for one query; smaller is nearer. It is the distance but for a constant of the query:
//
//   mode 0  key = -(q . x)                                         cosine (unit vectors), dot products at search
//   mode 1  key = aux - q . x            aux = |x|^2 / 2           euclidean
//   mode 2  key = bias - q . x - e(q) e(x)                         dot products while building
//
// In mode 2 every vector has one more coordinate e(x) = sqrt(max(0, R^2 - |x|^2)), which makes all of them equally long
// (Bachrach et al., RecSys 2014), so the nearest by distance are the greatest by dot product. aux = R^2 - |x|^2, and
// bias = max(R^2, R^2 - aux) / 2 is half the squared length, also of vectors that are longer than R.
//
// Codes are f32, or 7 bits a value: c = x / s + 64 in [0, 127]. A query's code is signed and of twice the resolution,
// q = 2 x / s in [-128, 127]; of a node it is 2 (c - 64). Then q . c is an integer below 2^24 up to 1,000 dimensions, twice
// the product in units of s^2 but for a constant of q, and aux is stored in the same unit, 2 / s^2 times. The products of 16 values
// are summed by one relaxed dot instruction, which is exact and the same on every machine for such operands, for pairs
// stay within 16 bits.

import { CODE_BYTES, IS_U8, NODES_AT, nodeAt, R2, UNIT_BYTES } from "./layout";

/**
 * Writes the f32 keys of `count` nodes, rounded up to whole fours: the ids behind the last are read and must be nodes.
 */
export function keysOf(query: usize, extra: f32, mode: u32, ids: usize, count: u32, keys: usize): void {
  const codeBytes = <usize>load<u32>(CODE_BYTES);
  const isU8 = load<u32>(IS_U8) !== 0;
  const r2 = f32x4.splat(load<f32>(R2));
  const nodesAt = <usize>load<u32>(NODES_AT);
  const unitBytes = <usize>load<u32>(UNIT_BYTES);
  const end = keys + ((<usize>count) << 2);
  while (keys < end) {
    const a = nodesAt + <usize>load<u32>(ids) * unitBytes;
    const b = nodesAt + <usize>load<u32>(ids, 4) * unitBytes;
    const c = nodesAt + <usize>load<u32>(ids, 8) * unitBytes;
    const d = nodesAt + <usize>load<u32>(ids, 12) * unitBytes;
    const dots = isU8 ? dots4U8(query, codeBytes, a, b, c, d) : dots4F32(query, codeBytes, a, b, c, d);
    if (mode === 0) {
      v128.store(keys, f32x4.neg(dots));
    } else {
      let aux = f32x4.splat(load<f32>(a + codeBytes));
      aux = f32x4.replace_lane(aux, 1, load<f32>(b + codeBytes));
      aux = f32x4.replace_lane(aux, 2, load<f32>(c + codeBytes));
      aux = f32x4.replace_lane(aux, 3, load<f32>(d + codeBytes));
      if (mode === 1) {
        v128.store(keys, f32x4.sub(aux, dots));
      } else {
        const own = f32x4.sqrt(f32x4.max(aux, f32x4.splat(0)));
        const bias = f32x4.mul(f32x4.max(r2, f32x4.sub(r2, aux)), f32x4.splat(0.5));
        v128.store(keys, f32x4.sub(f32x4.sub(bias, dots), f32x4.mul(own, f32x4.splat(extra))));
      }
    }
    ids += 16;
    keys += 16;
  }
}

/** Four dot products as f32. */
function dots4U8(query: usize, codeBytes: usize, a: usize, b: usize, c: usize, d: usize): v128 {
  let s = i32x4.splat(0);
  let t = s;
  let u = s;
  let v = s;
  for (let i: usize = 0; i < codeBytes; i += 16) {
    const q = v128.load(query + i);
    s = i32x4.relaxed_dot_i8x16_i7x16_add_s(q, v128.load(a + i), s);
    t = i32x4.relaxed_dot_i8x16_i7x16_add_s(q, v128.load(b + i), t);
    u = i32x4.relaxed_dot_i8x16_i7x16_add_s(q, v128.load(c + i), u);
    v = i32x4.relaxed_dot_i8x16_i7x16_add_s(q, v128.load(d + i), v);
  }
  const st = i32x4.add(v128.shuffle<i32>(s, t, 0, 4, 1, 5), v128.shuffle<i32>(s, t, 2, 6, 3, 7));
  const uv = i32x4.add(v128.shuffle<i32>(u, v, 0, 4, 1, 5), v128.shuffle<i32>(u, v, 2, 6, 3, 7));
  const sums = i32x4.add(v128.shuffle<i32>(st, uv, 0, 1, 4, 5), v128.shuffle<i32>(st, uv, 2, 3, 6, 7));
  return f32x4.convert_i32x4_s(sums);
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
  const st = f32x4.add(v128.shuffle<f32>(s, t, 0, 4, 1, 5), v128.shuffle<f32>(s, t, 2, 6, 3, 7));
  const uv = f32x4.add(v128.shuffle<f32>(u, v, 0, 4, 1, 5), v128.shuffle<f32>(u, v, 2, 6, 3, 7));
  return f32x4.add(v128.shuffle<f32>(st, uv, 0, 1, 4, 5), v128.shuffle<f32>(st, uv, 2, 3, 6, 7));
}

/** Writes a node's code as a query code. */
export function queryOfNode(node: u32, to: usize): void {
  const codeBytes = <usize>load<u32>(CODE_BYTES);
  const from = nodeAt(node);
  const flip = i8x16.splat(load<u32>(IS_U8) !== 0 ? -128 : 0);
  const shift = load<u32>(IS_U8) !== 0 ? 1 : 0;
  for (let i: usize = 0; i < codeBytes; i += 16) {
    v128.store(to + i, v128.xor(i8x16.shl(v128.load(from + i), shift), flip));
  }
}

/** The extra coordinate of a node in mode 2, else 0. */
export function extraOfNode(node: u32, mode: u32): f32 {
  if (mode !== 2) return 0;
  return sqrt<f32>(max<f32>(0, load<f32>(nodeAt(node) + load<u32>(CODE_BYTES))));
}

/** What makes a key of a node's query code a distance that is comparable between nodes. */
export function constantOfNode(node: u32, query: usize, mode: u32): f32 {
  const codeBytes = <usize>load<u32>(CODE_BYTES);
  let sum: f32 = 0;
  if (load<u32>(IS_U8) !== 0) {
    let s = i32x4.splat(0);
    const ones = i8x16.splat(64);
    for (let i: usize = 0; i < codeBytes; i += 16) {
      s = i32x4.relaxed_dot_i8x16_i7x16_add_s(v128.load(query + i), ones, s);
    }
    sum = <f32>(
      (i32x4.extract_lane(s, 0) +
        i32x4.extract_lane(s, 1) +
        i32x4.extract_lane(s, 2) +
        i32x4.extract_lane(s, 3))
    );
  }
  if (mode === 0) return sum;
  const aux = load<f32>(nodeAt(node) + codeBytes);
  if (mode === 1) return sum + aux;
  const r2 = load<f32>(R2);
  return sum + max<f32>(r2, r2 - aux) * 0.5;
}
