// How does a cost grow, by least squares?

export type Line = { readonly constant: number; readonly slope: number; readonly r2: number };

/** The least-squares line through points, and the fraction of the variance that it explains. */
export function fit(xs: readonly number[], ys: readonly number[]): Line {
  const mean = (numbers: readonly number[]) =>
    numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
  const [mx, my] = [mean(xs), mean(ys)];
  const covariance = mean(xs.map((x, i) => (x - mx) * (ys[i] - my)));
  const slope = covariance / mean(xs.map((x) => (x - mx) ** 2));
  const constant = my - slope * mx;
  const left = mean(ys.map((y, i) => (y - constant - slope * xs[i]) ** 2));
  return { constant, slope, r2: 1 - left / mean(ys.map((y) => (y - my) ** 2)) };
}
