// Which vectors are searched, and which are asked for?

import { randomNumbers } from "../../packages/kernels/src/random.ts";

const dimension = 768;
export const queries = 200;
export const topK = 10;
const clusters = 50;

const next = randomNumbers(dimension);
const centers = Array.from({ length: clusters }, () =>
  Float32Array.from({ length: dimension }, () => next() - 0.5),
);

/** A point near one of the centers. */
function point(): Float32Array {
  const center = centers[Math.floor(next() * clusters)];
  return center.map((value) => value + 0.3 * (next() - 0.5));
}

export const questions: readonly Float32Array[] = Array.from({ length: queries }, point);

/** The same for each call with one size. */
export function recordsOf(size: number): { id: string; vector: Float32Array }[] {
  while (points.length < size) points.push(point());
  return points.slice(0, size).map((vector, i) => ({ id: `record-${i}`, vector }));
}
const points: Float32Array[] = [];

/** The collection of this many records. */
export const definitionOf = (size: number) => ({
  name: `bench-${size}`,
  dense_vector: { enabled: true, dimension, auto_create_index: true },
  sparse_vector: { enabled: false },
  tf_idf_options: { enabled: false },
  config: {},
});

/** A vector in a body, as base64. */
export const base64 = ({ buffer, byteOffset, byteLength }: Float32Array) => ({
  f32: Buffer.from(buffer, byteOffset, byteLength).toString("base64"),
});
