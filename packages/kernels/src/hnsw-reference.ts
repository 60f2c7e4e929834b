// What are the correct keys of the HNSW graph, bit for bit?
//
// Computes the sums of assembly/hnsw/keys.ts in plain TypeScript, for the tests.

const f32 = Math.fround;

/** Types of codes by number, see assembly/hnsw/keys.ts. */
export const referenceTypes = ["f32", "f16", "u8", "octal", "quaternary", "binary"] as const;
export type ReferenceType = (typeof referenceTypes)[number];

/** Values in a block of a code, and its bytes; and twice the zero of integers. */
export const referenceBlocks: Readonly<
  Record<ReferenceType, { values: number; bytes: number; twiceZero: number }>
> = {
  f32: { values: 4, bytes: 16, twiceZero: 0 },
  f16: { values: 8, bytes: 16, twiceZero: 0 },
  u8: { values: 16, bytes: 16, twiceZero: 128 },
  octal: { values: 128, bytes: 48, twiceZero: 7 },
  quaternary: { values: 64, bytes: 16, twiceZero: 3 },
  binary: { values: 128, bytes: 16, twiceZero: 1 },
};

/** A node as the reference implementation sees it: its code, unfolded, and the numbers beside it. */
export type ReferenceNode = {
  readonly levels: readonly number[];
  readonly factor: number;
  readonly bias: number;
};

/** A query code: its fields and values. */
export type ReferenceQuery = {
  readonly scale: number;
  readonly offset: number;
  readonly weight: number;
  readonly values: ArrayLike<number>;
};

export function keyOfNode(
  type: ReferenceType,
  query: ReferenceQuery,
  { levels, factor, bias }: ReferenceNode,
): number {
  if (type === "f32" && query.weight !== 0) return f32(0.5 * squaredDistance(query.values, levels));
  const isFloat = referenceBlocks[type].twiceZero === 0;
  const dot = isFloat
    ? dotOfFloats(query.values, levels)
    : f32(2 * dotOfIntegers(query.values, levels) - query.offset);
  return f32(f32(bias * f32(query.weight)) - f32(f32(factor * query.scale) * dot));
}

/** A node as a query: floats as they are, integers c as 2c less twice the zero. */
export function queryOf(
  type: ReferenceType,
  weight: number,
  { levels, factor, bias }: ReferenceNode,
): ReferenceQuery {
  const { twiceZero } = referenceBlocks[type];
  if (twiceZero === 0) return { scale: factor, offset: 0, weight, values: levels };
  const values = levels.map((level) => (factor === 0 ? 0 : 2 * level - twiceZero));
  const offset = twiceZero * values.reduce((sum, value) => sum + value, 0);
  const squared = values.reduce((sum, value) => sum + value * value, 0);
  const scale = factor === 0 ? 0 : f32(f32(2 * bias) / f32(factor * f32(squared)));
  return { scale, offset, weight, values };
}

/** The values of a code, one after the other. */
export function unfold(type: ReferenceType, code: Uint8Array): number[] {
  const { values: blockValues, bytes: blockBytes } = referenceBlocks[type];
  const view = new DataView(code.buffer, code.byteOffset, code.byteLength);
  return Array.from({ length: (code.length / blockBytes) * blockValues }, (_, i) => {
    const block = Math.floor(i / blockValues) * blockBytes;
    const byte = block + (i % 16);
    const register = Math.floor((i % blockValues) / 16);
    switch (type) {
      case "f32":
        return view.getFloat32(4 * i, true);
      case "f16":
        return half(view.getUint16(2 * i, true));
      case "u8":
        return code[i];
      case "octal":
        return (
          ((code[byte + 16 * Math.floor(register / 4)] >> (2 * (register % 4))) & 3) +
          4 * ((code[byte + 32] >> register) & 1)
        );
      case "quaternary":
        return (code[byte] >> (2 * register)) & 3;
      default:
        return (code[byte] >> register) & 1;
    }
  });
}

/** The value of an f16 that is finite. */
function half(bits: number): number {
  const exponent = (bits >> 10) & 31;
  const fraction = (bits & 1023) / 1024;
  const size = exponent === 0 ? fraction * 2 ** -14 : (1 + fraction) * 2 ** (exponent - 15);
  return bits >= 0x8000 ? -size : size;
}

/** A sorted beam with these entries merged into it, of at most `ef`, and the place of the least of them. */
export function mergeOf(beam: readonly bigint[], entries: readonly bigint[], ef: number) {
  const ascending = (a: bigint, b: bigint) => (a < b ? -1 : Number(a > b));
  const all = [...beam, ...entries].sort(ascending);
  const least = [...entries].sort(ascending)[0];
  return { beam: all.slice(0, ef), place: all.indexOf(least) };
}

function dotOfFloats(query: ArrayLike<number>, levels: readonly number[]): number {
  return sumOf(levels.map((level, i) => f32(query[i] * level)));
}

function squaredDistance(query: ArrayLike<number>, levels: readonly number[]): number {
  return sumOf(
    levels.map((level, i) => {
      const difference = f32(query[i] - level);
      return f32(difference * difference);
    }),
  );
}

/** Four running sums, added as (0 + 2) + (1 + 3). */
function sumOf(terms: readonly number[]): number {
  const sums = new Float32Array(4);
  for (let i = 0; i < terms.length; i++) sums[i % 4] = sums[i % 4] + terms[i];
  return f32(f32(sums[0] + sums[2]) + f32(sums[1] + sums[3]));
}

function dotOfIntegers(query: ArrayLike<number>, levels: readonly number[]): number {
  let sum = 0;
  for (let i = 0; i < levels.length; i++) sum += query[i] * levels[i];
  return sum;
}
