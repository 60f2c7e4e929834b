// How large are values, in powers of two, and which f16 is nearest to one?

/** The length of a multiple of four values: four running sums, because one alone waits for each addition. */
export function lengthOf(values: Float64Array): number {
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  for (let i = 0; i < values.length; i += 4) {
    a += values[i] * values[i];
    b += values[i + 1] * values[i + 1];
    c += values[i + 2] * values[i + 2];
    d += values[i + 3] * values[i + 3];
  }
  return Math.sqrt(a + b + (c + d));
}

/** The greatest absolute value. */
export function greatestOf(values: Float64Array): number {
  let most = 0;
  for (let i = 0; i < values.length; i++) {
    const size = Math.abs(values[i]);
    if (size > most) most = size;
  }
  return most;
}

/** The greatest power of two not above a positive value; 1 for zero. */
export function powerBelow(value: number): number {
  if (value < Number.MIN_VALUE * 2 ** 52) return value > 0 ? Number.MIN_VALUE * 2 ** 52 : 1;
  // The bits without the fraction, because log2 may be wrong near a power of two.
  double[0] = value;
  doubleWords[0] = 0;
  doubleWords[1] &= 0x7ff0_0000;
  return double[0];
}

const double = new Float64Array(1);
const doubleWords = new Uint32Array(double.buffer);

/** The bits of the nearest f16 to a value below 65,520; denormal values become zero or the smallest normal. */
export function halfOf(value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const size = Math.abs(value);
  if (size < 2 ** -14) return size < 2 ** -15 ? 0 : sign | 0x400;
  // The exponent and fraction of the f32, moved. A fraction that rounds up to 1 raises the exponent, as it must.
  single[0] = size;
  return sign | ((singleWords[0] - (112 << 23) + 0x1000) >> 13);
}

const single = new Float32Array(1);
const singleWords = new Uint32Array(single.buffer);
