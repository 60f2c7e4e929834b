// How does a vector become the code that the graph compares?
//
// cosine: divided by its length. euclidean: minus the sample's mean, so that f32 sums keep their precision however far
// from zero the data lie. dot product: as it is. Then f32 as they are, or 7 bits a value, c = round(x / step) + 64 in
// [0, 127]. The step is that of the sample's 0.999 quantile of |x|, not of its maximum: a few clamped values cost less than
// a coarser step for all.
//
// `aux` is the number kept beside a code, see kernels/assembly/hnsw/keys.ts. For 7 bits it is of the *decoded* vector and in
// units of step^2 / 2, so that sums agree with the codes' own products.

import type { MetricName } from "@quiver/protocol/shapes/index-definition";
import { squaredNorm } from "../../vector/exact.ts";

export const hnswDataTypes = ["f32", "u8"] as const;
export type HnswDataType = (typeof hnswDataTypes)[number];

/** How keys compare while searching and while building. */
export const modes: Readonly<Record<MetricName, { readonly search: number; readonly build: number }>> = {
  cosine: { search: 0, build: 0 },
  euclidean: { search: 1, build: 1 },
  dot_product: { search: 0, build: 2 },
};

/** Values of a sample from which the step's quantile is taken. */
const quantile = 0.999;

/** Everything that an encoding has learnt. Can be posted and stored. */
export type EncodingState = {
  readonly metric: MetricName;
  readonly dataType: HnswDataType;
  readonly dimension: number;
  readonly centre: Float32Array;
  readonly step: number;
  readonly r2: number;
  readonly reason?: string;
};

/** How many of the best by code are scored exactly, so that k come out right. */
export function rescoreDepth(_dataType: HnswDataType, k: number): number {
  return Math.max(24, k);
}

export class Encoding {
  readonly metric: MetricName;
  readonly dataType: HnswDataType;
  readonly dimension: number;
  /** Bytes of a code: whole SIMD registers. */
  readonly codeBytes: number;
  readonly centre: Float32Array;
  step: number;
  /** The greatest squared length of the sample, in units of the codes; for dot products. */
  r2: number;
  readonly #values: Float64Array;

  /** Calibrates by a sample, which may be empty where nothing is to be learnt (see `needsSample`). */
  constructor(
    metric: MetricName,
    dataType: HnswDataType,
    dimension: number,
    sample: readonly Float32Array[],
  ) {
    this.metric = metric;
    this.dataType = dataType;
    this.dimension = dimension;
    this.codeBytes = codeBytesOf(dataType, dimension);
    this.#values = new Float64Array(dimension);
    this.centre = new Float32Array(dimension);
    if (metric === "euclidean" && sample.length > 0) {
      for (let i = 0; i < dimension; i++) {
        this.centre[i] = sample.reduce((sum, row) => sum + row[i], 0) / sample.length;
      }
    }
    this.step = dataType === "f32" ? 1 : this.#calibrate(sample);
    const unit = this.#unit;
    const greatest = sample.reduce((most, row) => Math.max(most, squaredNorm(row, 0, dimension)), 0);
    this.r2 = Math.fround(metric === "dot_product" ? greatest * unit : 0);
  }

  toState(): EncodingState {
    const { metric, dataType, dimension, centre, step, r2 } = this;
    return { metric, dataType, dimension, centre, step, r2 };
  }

  static fromState(state: EncodingState): Encoding {
    const encoding = new Encoding(state.metric, state.dataType, state.dimension, []);
    encoding.centre.set(state.centre);
    encoding.step = state.step;
    encoding.r2 = state.r2;
    return encoding;
  }

  /** Writes the code of a vector and returns its aux. `code` has `codeBytes` bytes. */
  encode(vector: Float32Array, code: Uint8Array | Float32Array): number {
    const values = this.#prepare(vector);
    let squared = 0;
    if (this.dataType === "f32") {
      code.fill(0);
      for (let i = 0; i < values.length; i++) {
        const value = Math.fround(values[i]);
        code[i] = value;
        squared += value * value;
      }
    } else {
      code.fill(64);
      for (let i = 0; i < values.length; i++) {
        const value = Math.min(63, Math.max(-64, Math.round(values[i] / this.step)));
        code[i] = value + 64;
        squared += value * value;
      }
      squared *= 2;
    }
    if (this.metric === "cosine") return 0;
    return Math.fround(this.metric === "euclidean" ? squared / 2 : this.r2 - squared);
  }

  /** Writes a query's code: f32 values, or signed bytes of twice the resolution. */
  encodeQuery(query: Float32Array, code: Int8Array | Float32Array): void {
    const values = this.#prepare(query);
    code.fill(0);
    if (this.dataType === "f32") {
      code.set(values);
      return;
    }
    // A query longer than the data would be clamped to its direction's corners; only its direction matters in mode 0.
    let scale = 2 / this.step;
    if (this.metric === "dot_product") {
      let most = 0;
      for (let i = 0; i < values.length; i++) most = Math.max(most, Math.abs(values[i]));
      scale = most === 0 ? 0 : 127 / most;
    }
    for (let i = 0; i < values.length; i++) {
      code[i] = Math.min(127, Math.max(-128, Math.round(values[i] * scale)));
    }
  }

  /** Codes' squared lengths for each squared unit of the vectors. */
  get #unit(): number {
    return this.dataType === "f32" ? 1 : 2 / this.step ** 2;
  }

  #prepare(vector: Float32Array): Float64Array {
    const values = this.#values;
    if (this.metric === "cosine") {
      const squared = squaredNorm(vector, 0, this.dimension);
      const factor = squared === 0 ? 0 : 1 / Math.sqrt(squared);
      for (let i = 0; i < values.length; i++) values[i] = vector[i] * factor;
    } else {
      for (let i = 0; i < values.length; i++) values[i] = vector[i] - this.centre[i];
    }
    return values;
  }

  #calibrate(sample: readonly Float32Array[]): number {
    const all = new Float64Array(sample.length * this.dimension);
    sample.forEach((row, i) => {
      all.set(this.#prepare(row).map(Math.abs), i * this.dimension);
    });
    all.sort();
    const bound = all[Math.floor(quantile * (all.length - 1))];
    return bound > 0 ? bound / 63 : (all.at(-1) || 1) / 63;
  }
}

export function codeBytesOf(dataType: HnswDataType, dimension: number): number {
  return 16 * Math.ceil((dimension * (dataType === "f32" ? 4 : 1)) / 16);
}

/** Whether codes depend on a sample. */
export function needsSample(metric: MetricName, dataType: HnswDataType): boolean {
  return dataType !== "f32" || metric !== "cosine";
}
