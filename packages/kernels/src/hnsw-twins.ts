// What must the HNSW graph's keys be, bit for bit?
//
// The sums of assembly/hnsw/keys.ts in plain TypeScript, for the tests.

const f32 = Math.fround;

/** A node as the twin sees it: its code, its aux. */
export type TwinNode = { readonly code: Float32Array | Uint8Array; readonly aux: number };

/** The key of one node for a query code with this extra coordinate. */
export function keyOfNode(
  query: Float32Array | Int8Array,
  extra: number,
  mode: number,
  { code, aux }: TwinNode,
  r2: number,
): number {
  const dot = code instanceof Float32Array ? dotOfFloats(query, code) : dotOfBytes(query, code);
  if (mode === 0) return -dot;
  if (mode === 1) return f32(aux - dot);
  const own = f32(Math.sqrt(Math.max(0, aux)));
  const bias = f32(Math.max(r2, f32(r2 - aux)) * 0.5);
  return f32(f32(bias - dot) - f32(own * extra));
}

/** A node's code as a query: floats as they are; bytes c as 2 (c - 64). */
export function queryOf(code: Float32Array | Uint8Array): Float32Array | Int8Array {
  return code instanceof Float32Array ? code : Int8Array.from(code, (value) => 2 * (value - 64));
}

/** A sorted beam with these entries merged into it, of at most `ef`, and the place of the least of them. */
export function mergeOf(beam: readonly bigint[], entries: readonly bigint[], ef: number) {
  const ascending = (a: bigint, b: bigint) => (a < b ? -1 : Number(a > b));
  const all = [...beam, ...entries].sort(ascending);
  const least = [...entries].sort(ascending)[0];
  return { beam: all.slice(0, ef), place: all.indexOf(least) };
}

/** Four running sums, added as (0 + 2) + (1 + 3). */
function dotOfFloats(query: Float32Array | Int8Array, code: Float32Array): number {
  const sums = new Float32Array(4);
  for (let i = 0; i < code.length; i++) sums[i % 4] = sums[i % 4] + f32(query[i] * code[i]);
  return f32(f32(sums[0] + sums[2]) + f32(sums[1] + sums[3]));
}

function dotOfBytes(query: Float32Array | Int8Array, code: Uint8Array): number {
  let sum = 0;
  for (let i = 0; i < code.length; i++) sum += query[i] * code[i];
  return f32(sum);
}
