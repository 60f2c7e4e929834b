// What number is a posting, where postings are compared by sums?
//
// A hash over 32 bits: two sums that are wrong by chance alike are as likely as one in 2^32.

const float = new Float32Array(1);
const floatBits = new Uint32Array(float.buffer);

/** Scatters a pair of numbers over 32 bits (the end of MurmurHash3). */
export function mix(a: number, b: number): number {
  let h = Math.imul(a ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(b, 0xc2b2ae35);
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/** Of a dimension and its weight. */
export function weightHash(dimension: number, weight: number): number {
  float[0] = weight;
  return mix(dimension, floatBits[0]);
}
