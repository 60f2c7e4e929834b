// Clustered vectors for tests of graphs.

import { randomNumbers } from "@quiverdb/kernels/random";

/** Vectors around random centres, far from zero, of lengths that differ. */
export function clustered(count: number, dimension: number, seed: number): Float32Array[] {
  const next = randomNumbers(seed);
  const normal = () => next() + next() + next() + next() - 2;
  const centres = Array.from({ length: 30 }, () =>
    Float32Array.from({ length: dimension }, () => 0.5 + 2 * normal()),
  );
  return Array.from({ length: count }, () => {
    const centre = centres[Math.floor(next() * centres.length)];
    const scale = 0.5 + next();
    return centre.map((value) => scale * (value + normal()));
  });
}
