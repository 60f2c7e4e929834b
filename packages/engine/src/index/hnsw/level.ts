// What is the top level of a node?
//
// Level l or more with probability m^-l, by a hash of seed and ordinal: the same record has the same level in every build, independent of
// the order of the others.

/** The level of an ordinal, below `levelsMax`. */
export function levelOf(ordinal: number, seed: number, m: number, levelsMax: number): number {
  const uniform = hash(hash(seed ^ 0x9e37_79b9) ^ ordinal) / 2 ** 32;
  let level = 0;
  for (let bound = 1 / m; level < levelsMax - 1 && uniform < bound; bound /= m) level++;
  return level;
}

/** The finalizer of MurmurHash3, a u32: every bit of the value changes every bit of the hash. */
export function hash(value: number): number {
  let mixed = value | 0;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85eb_ca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2_ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}
