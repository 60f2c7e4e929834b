// How are values mixed so that all carry equal information?
//
// A random orthogonal map, in time n log n: rounds of random signs and a fast Hadamard transform, which spread any vector evenly over all
// coordinates. If the dimension is not a power of two, the transforms alternate between the first and the last power-of-two values, and a
// step that adds and subtracts both halves joins them (as the fast rotation of the RaBitQ library does). All is IEEE arithmetic on f64:
// equal seeds make equal bits on every machine.

import { randomNumbers } from "@quiver/kernels/random";

export class Rotation {
  readonly dimension: number;
  readonly #block: number;
  /** 1 or -1, of all rounds. */
  readonly #signs: Float64Array;
  readonly #rounds: number;

  /** @param dimension even */
  constructor(dimension: number, seed: number) {
    this.dimension = dimension;
    this.#block = 2 ** Math.floor(Math.log2(dimension));
    this.#rounds = this.#block === dimension ? 3 : 4;
    this.#signs = new Float64Array(this.#rounds * dimension);
    const next = randomNumbers(seed ^ 0x9e37_79b9);
    for (let i = 0; i < this.#signs.length; i++) this.#signs[i] = next() < 0.5 ? 1 : -1;
  }

  /** Rotates `dimension` values in place. */
  apply(values: Float64Array): void {
    const { dimension } = this;
    const rest = dimension - this.#block;
    for (let round = 0; round < this.#rounds; round++) {
      const signs = round * dimension;
      for (let i = 0; i < dimension; i++) values[i] *= this.#signs[signs + i];
      transform(values, round % 2 === 0 ? 0 : rest, this.#block);
      if (rest > 0) joinHalves(values, dimension / 2);
    }
  }
}

/** The orthogonal Hadamard transform of `count` values, a power of two, from `begin` on. */
function transform(values: Float64Array, begin: number, count: number): void {
  const end = begin + count;
  for (let half = 1; half < count; half *= 2) {
    for (let i = begin; i < end; i += 2 * half) {
      for (let j = i; j < i + half; j++) {
        const a = values[j];
        const b = values[j + half];
        values[j] = a + b;
        values[j + half] = a - b;
      }
    }
  }
  const scale = 1 / Math.sqrt(count);
  for (let i = begin; i < end; i++) values[i] *= scale;
}

function joinHalves(values: Float64Array, half: number): void {
  for (let i = 0; i < half; i++) {
    const a = values[i];
    const b = values[i + half];
    values[i] = (a + b) * Math.SQRT1_2;
    values[i + half] = (a - b) * Math.SQRT1_2;
  }
}
