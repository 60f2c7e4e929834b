// Where do the numbers of the generated data come from?

import { randomNumbers } from "@quiverdb/kernels/random";

/** A seeded sequence for all distributions that the data needs. */
export class Random {
  readonly #next: () => number;

  constructor(seed: number) {
    this.#next = randomNumbers(seed);
  }

  /** In [low, high). */
  uniform(low = 0, high = 1): number {
    return low + (high - low) * this.#next();
  }

  /** An integer in [0, end). */
  below(end: number): number {
    return Math.floor(end * this.#next());
  }

  /** Normally distributed with mean 0 and variance 1 (Box and Muller). */
  normal(): number {
    return Math.sqrt(-2 * Math.log(1 - this.#next())) * Math.cos(2 * Math.PI * this.#next());
  }

  pick<T>(values: readonly T[]): T {
    return values[this.below(values.length)];
  }

  /** A copy in random order (Fisher and Yates). */
  shuffled<T>(values: readonly T[]): T[] {
    const shuffled = [...values];
    for (let i = shuffled.length - 1; i > 0; i--) {
      const j = this.below(i + 1);
      [shuffled[i], shuffled[j]] = [shuffled[j], shuffled[i]];
    }
    return shuffled;
  }

  /** `count` different integers in [0, end). */
  distinct(count: number, end: number): number[] {
    const drawn = new Set<number>();
    while (drawn.size < Math.min(count, end)) drawn.add(this.below(end));
    return [...drawn];
  }

  /** A vector of independent normal values about `centre` (default zero). */
  gaussian(dimension: number, sigma = 1, centre?: ArrayLike<number>): Float32Array {
    return Float32Array.from({ length: dimension }, (_, i) => (centre?.[i] ?? 0) + sigma * this.normal());
  }

  /** A vector of length 1, evenly over all directions. */
  direction(dimension: number): Float32Array {
    const vector = this.gaussian(dimension);
    const length = Math.hypot(...vector);
    return vector.map((value) => value / length);
  }
}

/** `count` rows, one after the other. */
export const rowsOf = (count: number, row: (i: number) => Float32Array): Float32Array[] =>
  Array.from({ length: count }, (_, i) => row(i));

/** A row times a factor. */
export const scaled = (row: Float32Array, factor: number): Float32Array => row.map((value) => value * factor);

/**
 * Draws vectors like the embeddings of texts: of length 1, in 40 topics of different sizes, with directions of decreasing importance.
 * @param cone how much all have in common: 0 for texts that are mostly orthogonal, 1 for the narrow cone of many models
 */
export function textLike(random: Random, dimension: number, cone: number): () => Float32Array {
  const decay = cone > 0 ? 0.5 : 0.15;
  const spread = Array.from({ length: dimension }, (_, i) => (1 + i) ** -decay);
  const draw = (sigma: number) => spread.map((scale) => sigma * scale * random.normal());
  const common = draw(cone);
  const topics = Array.from({ length: 40 }, () => draw(0.8));
  return () => {
    // Small numbers are drawn more often: topics differ in size.
    const topic = topics[Math.floor(topics.length * random.uniform() ** 2)];
    const noise = draw(cone > 0 ? 0.6 : 1);
    const vector = Float32Array.from(common, (value, i) => value + topic[i] + noise[i]);
    return scaled(vector, 1 / Math.hypot(...vector));
  };
}
