// In which few directions do vectors differ most?
//
// The principal components, by subspace iteration (Halko, Martinsson and Tropp 2011, algorithm 4.4) over the vectors themselves: no matrix of
// dimension x dimension is made, so a pass costs count x dimension x components, and few passes are enough for a picture. It differs from the
// paper in that the subspace is orthonormalized by modified Gram-Schmidt after each pass, and begins from seeded numbers, so that the same
// vectors make the same picture.
//
// Of many vectors, every n-th gives the directions: they differ from those of all by less than a picture shows. Of 20,000 vectors of 768
// numbers, 2 components take 0.3 s of a processor, and 16 take 1.4 s.
//
// Written in slices: a generator that yields the share that is done, so that whoever runs it can tell how far it is, or stop.

/** Vectors one after the other, as 32-bit floats. */
export type Vectors = { readonly values: Float32Array; readonly count: number; readonly dimension: number };

const passes = 6;
/** So many vectors for each direction are enough to compute them from; there are at most twice as many. */
const vectorsPerDirection = 100;
/** Values that are read in one slice: some ten milliseconds. */
const sliceValues = 400_000;

/**
 * The coordinates of each vector in its `components` first principal components, one after the other, the largest first.
 * @param components at most `dimension`
 */
export function* principalCoordinates(vectors: Vectors, components: number): Generator<number, Float32Array> {
  const { count, dimension } = vectors;
  // A few more directions than wanted make the wanted ones converge in few passes.
  const width = Math.min(dimension, components + 6);
  const sample = everyNth(vectors, vectorsPerDirection * width);
  const mean = yield* meanOf(sample);
  let basis = orthonormal(seededNumbers(width * dimension), width, dimension);
  const rows = Math.max(1, Math.floor(sliceValues / dimension / 4));
  for (let pass = 0; pass < passes; pass++) {
    const next = new Float64Array(width * dimension);
    const shift = shifts(mean, basis, width);
    for (let from = 0; from < sample.count; from += rows) {
      multiply(sample, mean, basis, shift, from, Math.min(sample.count, from + rows), next);
      yield (pass + Math.min(sample.count, from + rows) / sample.count) / (passes + 1);
    }
    basis = orthonormal(next, width, dimension);
  }
  const axes = turned(basis, covarianceOf(sample, mean, basis, width), dimension).subarray(
    0,
    components * dimension,
  );
  const coordinates = new Float64Array(count * components);
  const shift = shifts(mean, axes, components);
  for (let from = 0; from < count; from += rows) {
    const to = Math.min(count, from + rows);
    for (let i = from; i < to; i++) project(vectors, shift, axes, i, coordinates, i * components);
    yield (passes + to / count) / (passes + 1);
  }
  return pointingToTheFarthest(coordinates, components);
}

/** All vectors, or so many of them as give the directions. */
function everyNth({ values, count, dimension }: Vectors, wanted: number): Vectors {
  const step = Math.max(1, Math.floor(count / wanted));
  if (step === 1) return { values, count, dimension };
  const kept = Math.ceil(count / step);
  const sample = new Float32Array(kept * dimension);
  for (let i = 0; i < kept; i++)
    sample.set(values.subarray(i * step * dimension, (i * step + 1) * dimension), i * dimension);
  return { values: sample, count: kept, dimension };
}

function* meanOf({ values, count, dimension }: Vectors): Generator<number, Float64Array> {
  const mean = new Float64Array(dimension);
  const rows = Math.max(1, Math.floor(sliceValues / dimension));
  for (let from = 0; from < count; from += rows) {
    const to = Math.min(count, from + rows);
    for (let i = from; i < to; i++) for (let d = 0; d < dimension; d++) mean[d] += values[i * dimension + d];
    yield 0;
  }
  for (let d = 0; d < dimension; d++) mean[d] /= Math.max(1, count);
  return mean;
}

/** The inner product of the mean with each direction. */
function shifts(mean: Float64Array, basis: Float64Array, width: number): Float64Array {
  const products = new Float64Array(width);
  for (let k = 0; k < width; k++)
    for (let d = 0; d < mean.length; d++) products[k] += mean[d] * basis[k * mean.length + d];
  return products;
}

/**
 * The inner products of a centred vector with each direction: those of the vector, less those of the mean. Four directions at a time read
 * the vector once and keep four sums apart, which is twice as fast as one after the other.
 */
function project(
  { values, dimension }: Vectors,
  shift: Float64Array,
  basis: Float64Array,
  i: number,
  out: Float64Array,
  at: number,
): void {
  const width = shift.length;
  const from = i * dimension;
  let k = 0;
  for (; k + 4 <= width; k += 4) {
    const b0 = k * dimension;
    const b1 = b0 + dimension;
    const b2 = b1 + dimension;
    const b3 = b2 + dimension;
    let [s0, s1, s2, s3] = [0, 0, 0, 0];
    for (let d = 0; d < dimension; d++) {
      const value = values[from + d];
      s0 += value * basis[b0 + d];
      s1 += value * basis[b1 + d];
      s2 += value * basis[b2 + d];
      s3 += value * basis[b3 + d];
    }
    out[at + k] = s0 - shift[k];
    out[at + k + 1] = s1 - shift[k + 1];
    out[at + k + 2] = s2 - shift[k + 2];
    out[at + k + 3] = s3 - shift[k + 3];
  }
  for (; k < width; k++) {
    let sum = 0;
    for (let d = 0; d < dimension; d++) sum += values[from + d] * basis[k * dimension + d];
    out[at + k] = sum - shift[k];
  }
}

/** Adds the covariance of some vectors times each direction to `next`. */
function multiply(
  vectors: Vectors,
  mean: Float64Array,
  basis: Float64Array,
  shift: Float64Array,
  from: number,
  to: number,
  next: Float64Array,
): void {
  const { values, dimension } = vectors;
  const width = shift.length;
  const products = new Float64Array(width);
  const centred = new Float64Array(dimension);
  for (let i = from; i < to; i++) {
    project(vectors, shift, basis, i, products, 0);
    for (let d = 0; d < dimension; d++) centred[d] = values[i * dimension + d] - mean[d];
    for (let k = 0; k < width; k++) {
      const product = products[k];
      const at = k * dimension;
      for (let d = 0; d < dimension; d++) next[at + d] += product * centred[d];
    }
  }
}

/** Modified Gram-Schmidt. A direction that the others span already becomes zero. */
function orthonormal(rows: Float64Array, width: number, dimension: number): Float64Array {
  const dot = (a: number, b: number) => {
    let sum = 0;
    for (let d = 0; d < dimension; d++) sum += rows[a * dimension + d] * rows[b * dimension + d];
    return sum;
  };
  for (let k = 0; k < width; k++) {
    const before = Math.sqrt(dot(k, k));
    for (let other = 0; other < k; other++) {
      const share = dot(k, other);
      for (let d = 0; d < dimension; d++) rows[k * dimension + d] -= share * rows[other * dimension + d];
    }
    const length = Math.sqrt(dot(k, k));
    // What is left of a dependent direction is rounding.
    const scale = length > 1e-9 * before ? 1 / length : 0;
    for (let d = 0; d < dimension; d++) rows[k * dimension + d] *= scale;
  }
  return rows;
}

/** The covariance of vectors in the directions, not divided by their number. */
function covarianceOf(
  vectors: Vectors,
  mean: Float64Array,
  basis: Float64Array,
  width: number,
): Float64Array {
  const covariance = new Float64Array(width * width);
  const products = new Float64Array(width);
  const shift = shifts(mean, basis, width);
  for (let i = 0; i < vectors.count; i++) {
    project(vectors, shift, basis, i, products, 0);
    for (let a = 0; a < width; a++)
      for (let b = 0; b < width; b++) covariance[a * width + b] += products[a] * products[b];
  }
  return covariance;
}

/** The directions, turned within the space that they span to its principal axes. */
function turned(basis: Float64Array, covariance: Float64Array, dimension: number): Float64Array {
  const axes = principalAxes(covariance, basis.length / dimension);
  const out = new Float64Array(basis.length);
  axes.forEach((axis, k) => {
    axis.forEach((share, a) => {
      for (let d = 0; d < dimension; d++) out[k * dimension + d] += share * basis[a * dimension + d];
    });
  });
  return out;
}

/** Each axis points to the vector that is farthest along it, so that a picture does not turn over when more of them are computed. */
function pointingToTheFarthest(coordinates: Float64Array, components: number): Float32Array {
  const signs = new Float64Array(components);
  for (let k = 0; k < components; k++) {
    let farthest = 0;
    for (let at = k; at < coordinates.length; at += components)
      if (Math.abs(coordinates[at]) > Math.abs(farthest)) farthest = coordinates[at];
    signs[k] = farthest < 0 ? -1 : 1;
  }
  return Float32Array.from(coordinates, (value, at) => value * signs[at % components]);
}

/** Eigenvectors of a symmetric matrix by Jacobi's rotations, the one of the largest eigenvalue first. Changes the matrix. */
function principalAxes(matrix: Float64Array, n: number): Float64Array[] {
  const vectors = Array.from({ length: n }, (_, i) =>
    Float64Array.from({ length: n }, (_, j) => Number(i === j)),
  );
  for (let sweep = 0; sweep < 30; sweep++) {
    let rest = 0;
    let all = 0;
    for (let p = 0; p < n; p++)
      for (let q = 0; q < n; q++) {
        all += matrix[p * n + q] ** 2;
        if (p !== q) rest += matrix[p * n + q] ** 2;
      }
    if (rest <= 1e-20 * all) break;
    for (let p = 0; p < n; p++) for (let q = p + 1; q < n; q++) rotate(matrix, vectors, n, p, q);
  }
  const order = Array.from({ length: n }, (_, i) => i).sort((a, b) => matrix[b * n + b] - matrix[a * n + a]);
  return order.map((i) => Float64Array.from({ length: n }, (_, a) => vectors[a][i]));
}

/** One rotation that makes the element (p, q) zero. */
function rotate(matrix: Float64Array, vectors: Float64Array[], n: number, p: number, q: number): void {
  const off = matrix[p * n + q];
  if (off === 0) return;
  const theta = (matrix[q * n + q] - matrix[p * n + p]) / (2 * off);
  const t = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1));
  const c = 1 / Math.sqrt(t * t + 1);
  const s = t * c;
  for (let k = 0; k < n; k++) {
    const kp = matrix[k * n + p];
    const kq = matrix[k * n + q];
    matrix[k * n + p] = c * kp - s * kq;
    matrix[k * n + q] = s * kp + c * kq;
  }
  for (let k = 0; k < n; k++) {
    const pk = matrix[p * n + k];
    const qk = matrix[q * n + k];
    matrix[p * n + k] = c * pk - s * qk;
    matrix[q * n + k] = s * pk + c * qk;
    const vp = vectors[k][p];
    const vq = vectors[k][q];
    vectors[k][p] = c * vp - s * vq;
    vectors[k][q] = s * vp + c * vq;
  }
}

function seededNumbers(count: number): Float64Array {
  const next = randomFrom(1);
  return Float64Array.from({ length: count }, () => next() - 0.5);
}

/** Numbers from 0 to 1 by the generator mulberry32. */
export function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}
