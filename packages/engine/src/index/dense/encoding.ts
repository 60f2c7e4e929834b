// How is a vector encoded as the code that the graph compares?
//
//   x  --cosine: / |x|-->  --  - centre -->  r  --  1 to 3 bits: rotate -->  --  round by the vector's own scale -->  u
//
// The centre is the mean of a sample; dot products use none, because subtracting it
// would change them. Everything is in units of the sample's usual length, a power of two, so that no key comes near the ends of f32.
//
// Each vector has its own scale: of a few that are tried, the one whose code has the greatest cosine with the vector. So no range
// goes stale, and short vectors are as precise as long ones. What is kept beside the code is drawn in
// kernels/assembly/hnsw/keys.ts: `factor`, which makes estimates of products that err to neither side, and `bias`, exact.
// 1 to 3 bits follow RaBitQ (Gao and Long, SIGMOD 2024; extended, SIGMOD 2025), except that only a few scales are tried, near
// the best one for normally distributed values. The query is
// rounded to 8 bits by its own scale, and not at random: its error is small beside that of the codes.
//
// The steps from a vector to its code share one set of buffers, so they are one class, and one file.

import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import { invariant } from "../../base/invariant.ts";
import { squaredNorm } from "../../vector/exact.ts";
import { type CodeKind, codeKinds, codeSizes, type HnswDataType, queryFieldsBytes } from "./code-types.ts";
import { greatestOf, halfOf, lengthOf, powerBelow, Rotation } from "./value-transforms.ts";

export type Range = { readonly min: number; readonly max: number };

export type EncodingOptions = {
  readonly metric: MetricName;
  readonly dataType: HnswDataType;
  /** 1 to 65,535. */
  readonly dimension: number;
  /** Values of vectors are clamped to it, those of queries are not. */
  readonly range?: Range | undefined;
  /** Decides the rotation; default 0. */
  readonly seed?: number | undefined;
};

/** The state of an encoding; can be posted to threads and stored. */
export type EncodingState = {
  readonly metric: MetricName;
  readonly dataType: HnswDataType;
  readonly dimension: number;
  readonly range: Range | null;
  readonly seed: number;
  /** Of `dimension` values. */
  readonly centre: Float32Array;
  readonly unit: number;
  /** Fraction of the sample's values that the requested range clamps; absent without a range. */
  readonly clampedShare?: number;
  /** Why this type was chosen, if `auto` chose it. */
  readonly reason?: string;
};

/** Longer residuals are treated as this long and shorter ones as zero, in units: no key overflows. */
const lengthMost = 2 ** 60;
const lengthLeast = 2 ** -60;

export class Encoding {
  readonly metric: MetricName;
  readonly dataType: HnswDataType;
  readonly dimension: number;
  /** Bytes of a code: whole SIMD registers, except u8, which ends with the last word that has a value. */
  readonly codeBytes: number;
  /** Bytes of a query's code with its fields. */
  readonly queryBytes: number;
  /** The factor and bias of the code that `encode` wrote last. */
  lastFactor = 0;
  lastBias = 0;
  readonly #state: EncodingState;
  readonly #kind: CodeKind;
  readonly #rotation: Rotation | undefined;
  /** The residual that is being encoded, padded with zeros to whole blocks. */
  readonly #values: Float64Array;
  /** The best levels so far, and those of the step that is tried. */
  #levels: Uint8Array;
  #tried: Uint8Array;
  readonly #code: Uint8Array;
  readonly #codeFloats: Float32Array;
  readonly #codeHalves: Uint16Array;
  readonly #query: Uint8Array;
  readonly #queryFloats: Float32Array;
  readonly #queryWords: Int32Array;
  readonly #queryBytes: Int8Array;

  /** Calibrates with a sample, which may be empty: then vectors are not centred, and lengths are assumed to be about 1. */
  constructor(options: EncodingOptions, sample: readonly Float32Array[], state?: EncodingState) {
    const { metric, dataType, dimension, range, seed } = options;
    this.metric = metric;
    this.dataType = dataType;
    this.dimension = dimension;
    this.#kind = codeKinds[dataType];
    const { blockValues, blockBytes, isRotated } = this.#kind;
    const blocks = Math.ceil(dimension / blockValues);
    const padded = blocks * blockValues;
    const { codeBytes, queryBytes } = codeSizes(dataType, dimension);
    this.codeBytes = codeBytes;
    this.queryBytes = queryBytes;
    this.#levels = new Uint8Array(padded);
    this.#tried = new Uint8Array(padded);
    this.#code = new Uint8Array(blocks * blockBytes);
    this.#codeFloats = new Float32Array(this.#code.buffer);
    this.#codeHalves = new Uint16Array(this.#code.buffer);
    this.#query = new Uint8Array(this.queryBytes);
    this.#queryFloats = new Float32Array(this.#query.buffer);
    this.#queryWords = new Int32Array(this.#query.buffer);
    this.#queryBytes = new Int8Array(this.#query.buffer);
    this.#rotation = isRotated ? new Rotation(padded, seed ?? 0) : undefined;
    this.#values = this.#rotation?.values ?? new Float64Array(padded);
    const blank = {
      metric,
      dataType,
      dimension,
      // Floats need none, and are not cut by one.
      range: this.#kind.queryValueBytes === 4 ? null : (range ?? null),
      seed: seed ?? 0,
      centre: new Float32Array(dimension),
      unit: 1,
    };
    this.#state = blank;
    this.#state = state ?? { ...blank, ...this.#calibrate(blank.centre, sample) };
  }

  static fromState(state: EncodingState): Encoding {
    return new Encoding({ ...state, range: state.range ?? undefined }, [], state);
  }

  /** Borrowed: not to be changed. */
  toState(): EncodingState {
    return this.#state;
  }

  /** Writes the code of a vector of finite values into `codeBytes` bytes; `lastFactor` and `lastBias` belong to it. */
  encode(vector: Float32Array, code: Uint8Array): void {
    const { dataType, codeBytes } = this;
    invariant(code.length === codeBytes, () => `a code of ${codeBytes} bytes goes into ${code.length}`);
    const length = this.#prepare(vector, true);
    this.lastBias = (length * length) / 2;
    this.lastFactor = length === 0 ? 0 : 1;
    if (dataType === "f32") this.#encodeExactly();
    else if (dataType === "f16") this.#encodeHalves();
    else this.#encodeLevels(length);
    this.lastBias = Math.fround(this.lastBias);
    this.lastFactor = Math.fround(this.lastFactor);
    code.set(this.#code.subarray(0, this.codeBytes));
  }

  /** A query's code: `queryBytes` bytes, which the next call overwrites. The query's values are finite. */
  encodeQuery(query: Float32Array): Uint8Array {
    const length = this.#prepare(query, false);
    const values = this.#values;
    const isDot = this.metric === "dot_product";
    // Only the direction of a query matters to the order of products.
    const unit = isDot && length > 0 ? 1 / length : 1;
    const most = greatestOf(values);
    const floats = this.#queryFloats;
    if (this.#kind.queryValueBytes === 4) {
      // What differences are taken from has to be in the units of the codes.
      const scale = this.dataType === "f32" && !isDot ? 1 : powerBelow(most);
      const inverse = 1 / scale;
      for (let i = 0; i < values.length; i++) floats[4 + i] = values[i] * inverse;
      floats[0] = scale * unit;
    } else {
      const bytes = this.#queryBytes;
      const scale = most / 127;
      // Lengths are bounded, so the inverse is finite where the scale is not zero.
      const inverse = scale === 0 ? 0 : 1 / scale;
      let sum = 0;
      for (let i = 0; i < values.length; i++) {
        // Rounds: the conversion truncates, and its input is positive.
        const value = ((values[i] * inverse + 128.5) | 0) - 128;
        bytes[queryFieldsBytes + i] = value;
        sum += value;
      }
      floats[0] = scale * unit;
      this.#queryWords[1] = 2 * this.#kind.zero * sum;
    }
    floats[2] = isDot ? 0 : 1;
    floats[3] = isDot ? 0 : (length * length) / 2;
    return this.#query;
  }

  /** Distances between f32 codes are sums over differences, so they need no factor and bias. */
  #encodeExactly(): void {
    this.#codeFloats.set(this.#values);
    this.lastFactor = 1;
    this.lastBias = 0;
  }

  #encodeHalves(): void {
    const values = this.#values;
    const scale = powerBelow(greatestOf(values));
    this.lastFactor *= scale;
    for (let i = 0; i < values.length; i++) this.#codeHalves[i] = halfOf(values[i] / scale);
  }

  /** By the best of the steps, see the top. */
  #encodeLevels(length: number): void {
    const { zero, steps } = this.#kind;
    let product = 0;
    if (length > 0) {
      const values = this.#values;
      const base = this.dataType === "u8" ? greatestOf(values) : length / Math.sqrt(values.length);
      let bestCosine = Number.NEGATIVE_INFINITY;
      for (const step of steps) {
        const met = this.#round(step * base);
        if (met.cosine <= bestCosine) continue;
        bestCosine = met.cosine;
        product = met.product;
        [this.#levels, this.#tried] = [this.#tried, this.#levels];
      }
    } else {
      this.#levels.fill(Math.floor(zero));
    }
    // The kernel multiplies with 2u.
    this.lastFactor = product > 0 ? (length * length) / product / 2 : 0;
    this.#pack();
  }

  /** Rounds the values by this step into `#tried`; returns how well that fits, but for a factor that is the same for all steps. */
  #round(step: number): { cosine: number; product: number } {
    const values = this.#values;
    const levels = this.#tried;
    const { zero } = this.#kind;
    const [low, high] = [this.#kind.least | 0, this.#kind.most | 0];
    const inverse = 1 / step;
    let product = 0;
    let squared = 0;
    for (let i = 0; i < values.length; i++) {
      const value = values[i];
      // The conversion truncates, and what is negative becomes the least level. To clamp integers takes less time than `Math.min` of floats.
      const place = (value * inverse + zero + 0.5) | 0;
      const level = place < low ? low : place > high ? high : place;
      levels[i] = level;
      const u = level - zero;
      product += u * value;
      squared += u * u;
    }
    return { cosine: squared === 0 ? -1 : product / Math.sqrt(squared), product };
  }

  /** Folds the levels as kernels/assembly/hnsw/keys.ts draws it. */
  #pack(): void {
    const levels = this.#levels;
    const code = this.#code;
    if (this.dataType === "u8") {
      code.set(levels);
      return;
    }
    const { blockValues, blockBytes } = this.#kind;
    const [bits, ofByte] = this.dataType === "binary" ? [1, 8] : [2, 4];
    for (let from = 0, at = 0; from < levels.length; from += blockValues, at += blockBytes) {
      // The low two bits of an octal level are like a quaternary one, the third like a binary one.
      const lowBytes = this.dataType === "octal" ? 32 : 16;
      foldBits(levels, from, code, at, lowBytes, bits, ofByte, 0);
      if (this.dataType === "octal") foldBits(levels, from, code, at + 32, 16, 1, 8, 2);
    }
  }

  /** Makes the residual of a vector in units, padded and rotated; returns its length. */
  #prepare(vector: Float32Array, isClamped: boolean): number {
    const values = this.#values;
    const { dimension, metric } = this;
    const { centre, range, unit } = this.#state;
    const taken = isClamped && range !== null ? clamped(vector, range) : vector;
    const scale = metric === "cosine" ? directionScale(taken) : 1;
    // A unit is a power of two: its inverse is exact. Adding zero makes 0 of -0: equal vectors have equal codes.
    const inverse = 1 / unit;
    for (let i = 0; i < dimension; i++) values[i] = (taken[i] * scale - centre[i]) * inverse + 0;
    values.fill(0, dimension);
    let length = lengthOf(values);
    if (metric === "dot_product" && !isClamped ? length === 0 : length < lengthLeast) {
      values.fill(0);
      return 0;
    }
    if (length > lengthMost) {
      for (let i = 0; i < dimension; i++) values[i] *= lengthMost / length;
      length = lengthMost;
    }
    this.#rotation?.apply();
    return length;
  }

  /** Finds the centre and the unit of a sample: twice through it, in f64, so that no magnitude is too large or too small. */
  #calibrate(centre: Float32Array, sample: readonly Float32Array[]): { centre: Float32Array; unit: number } {
    const { dimension, metric } = this;
    if (sample.length === 0) return { centre, unit: 1 };
    const sums = new Float64Array(dimension);
    // Products have no centre.
    if (metric !== "dot_product")
      for (const row of sample) this.#eachValue(row, (value, i) => (sums[i] += value));
    for (let i = 0; i < dimension; i++) centre[i] = sums[i] / sample.length;
    let squared = 0;
    let mean = 0;
    for (const row of sample) this.#eachValue(row, (value, i) => (squared += (value - centre[i]) ** 2));
    for (const value of centre) mean += value * value;
    return { centre, unit: powerBelow(Math.sqrt(squared > 0 ? squared / sample.length : mean)) };
  }

  /** The values that a vector is compared by: in the range, and of length 1 where only directions count. */
  #eachValue(row: Float32Array, take: (value: number, i: number) => void): void {
    const { range } = this.#state;
    const taken = range === null ? row : clamped(row, range);
    const scale = this.metric === "cosine" ? directionScale(taken) : 1;
    for (let i = 0; i < taken.length; i++) take(taken[i] * scale, i);
  }
}

/** Writes `bits` bits of each level, from bit `shift` on, into `bytes` bytes: a byte has those of `ofByte` levels, which are 16 apart. */
function foldBits(
  levels: Uint8Array,
  from: number,
  code: Uint8Array,
  at: number,
  bytes: number,
  bits: number,
  ofByte: number,
  shift: number,
): void {
  const mask = (1 << bits) - 1;
  for (let byte = 0; byte < bytes; byte++) {
    let level = from + (byte >> 4) * 16 * ofByte + (byte & 15);
    let folded = 0;
    for (let register = 0; register < ofByte; register++, level += 16)
      folded |= ((levels[level] >> shift) & mask) << (bits * register);
    code[at + byte] = folded;
  }
}

/** The factor that makes a vector's length 1; 0 if it has no direction. */
function directionScale(vector: Float32Array): number {
  const squared = squaredNorm(vector, 0, vector.length);
  return squared === 0 ? 0 : 1 / Math.sqrt(squared);
}

/** A loop: `map` with a function takes twenty times as long. */
function clamped(vector: Float32Array, { min, max }: Range): Float32Array {
  const taken = new Float32Array(vector.length);
  for (let i = 0; i < taken.length; i++) taken[i] = Math.min(max, Math.max(min, vector[i]));
  return taken;
}
