// How far can a kernel's f32 sum be from the true one?
//
// Higham, Accuracy and Stability of Numerical Algorithms (2nd ed., 2002), sections 2.2, 3.1 and 4.2: a result that
// went through at most m roundings, each of relative size at most u, is off by at most gamma(m) = m u / (1 - m u)
// times the sum of the terms' magnitudes, in whatever order they were added. For f32, u = 2^-24.
//
// A term of a kernel's sum goes through
//   at most 3 roundings of its own: difference, and square (which doubles the difference's) or product;
//   floor(d / 16) + 3 additions to its accumulator, the first of which, to zero, is exact;
//   4 additions across accumulators and lanes.
// Products below the normal range lose up to 2^-150 absolutely instead; sums and differences there are exact.

const u = 2 ** -24;

/** What a product can lose absolutely when it is below f32's normal range: half of the smallest f32. */
export const underflowPerTerm = 2 ** -150;

/** The largest finite f32. */
export const f32Max = 3.4028234663852886e38;

/**
 * Bound of the relative error of a kernel's sum over `dimensionPadded` terms, relative to the sum of the terms'
 * magnitudes, where nothing overflows. Two roundings more than counted above, 1.2e-7, are reserved for comparing
 * with the same sum in f64, whose own error is below 65,535 * 2^-53 = 7.3e-12.
 */
export function relativeError(dimensionPadded: number): number {
  const roundings = 3 + Math.floor(dimensionPadded / 16) + 3 + 4 + 2;
  return (roundings * u) / (1 - roundings * u);
}
