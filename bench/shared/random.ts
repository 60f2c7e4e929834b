// Where do the generated sets' numbers come from?

import { randomNumbers } from "../../packages/kernels/src/random.ts";

/** Normally distributed with mean 0 and variance 1, by Marsaglia's polar method. */
export function normal(seed: number): () => number {
  const next = randomNumbers(seed);
  let spare: number | undefined;
  return () => {
    if (spare !== undefined) {
      const kept = spare;
      spare = undefined;
      return kept;
    }
    for (;;) {
      const [u, v] = [2 * next() - 1, 2 * next() - 1];
      const s = u * u + v * v;
      if (s >= 1 || s === 0) continue;
      const scale = Math.sqrt((-2 * Math.log(s)) / s);
      spare = v * scale;
      return u * scale;
    }
  };
}
