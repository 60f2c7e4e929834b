// Which figures follow from what was measured?

/** The middle one; of an even count, the upper of the two in the middle. */
export const median = (numbers: readonly number[]): number =>
  numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? Number.NaN;

/** A figure of several rounds: its median, and under the name with Min and Max the least and the greatest. */
export const overRounds = <Name extends string>(name: Name, values: readonly number[]) =>
  ({
    [name]: median(values),
    [`${name}Min`]: Math.min(...values),
    [`${name}Max`]: Math.max(...values),
  }) as Record<Name | `${Name}Min` | `${Name}Max`, number>;

/** The given quantile of the numbers. */
export const quantile = (numbers: Float64Array, share: number): number =>
  numbers.toSorted()[Math.min(numbers.length - 1, Math.floor(share * numbers.length))];

/** Fraction of the first `count` ids of the ground truth, or of all if it has fewer, that were found. `found` has `count` ids per query, -1 for none. */
export function recallOf(found: Int32Array, truth: readonly Int32Array[], count: number): number {
  let [met, wanted] = [0, 0];
  for (const [i, row] of truth.entries()) {
    const ids = new Set(found.subarray(i * count, (i + 1) * count));
    const right = row.subarray(0, count);
    wanted += right.length;
    for (const id of right) if (ids.has(id)) met++;
  }
  return wanted === 0 ? 1 : met / wanted;
}

/** Results of an engine at one effort: medians over the rounds. */
export type Point = {
  readonly effort: number;
  readonly recall: number;
  readonly cpuMs: number;
  readonly cpuMsMin: number;
  readonly cpuMsMax: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
};

/** A cost at a recall. `isBound`: even the lowest effort exceeds this recall, so the cost is an upper bound. */
export type At = { readonly value: number; readonly isBound: boolean };

/** Interpolated between the efforts around the recall; undefined where it is not reached. @param points by ascending recall */
export function at<P extends { readonly recall: number }>(
  recall: number,
  points: readonly P[],
  cost: (point: P) => number,
): At | undefined {
  const above = points.findIndex((point) => point.recall >= recall);
  if (above < 0) return undefined;
  const high = points[above];
  const low = points[above - 1];
  if (low === undefined) return { value: cost(high), isBound: high.recall > recall };
  const share = (recall - low.recall) / (high.recall - low.recall);
  return { value: cost(low) + share * (cost(high) - cost(low)), isBound: false };
}

/** The numbers of a row for the recalls that are compared, and those of an effort of 0, which is exact. */
export function rowOf(
  points: readonly Point[],
  recalls: readonly number[],
): Record<string, number | boolean> {
  const row: Record<string, number | boolean> = {};
  const exact = points.find(({ effort }) => effort === 0);
  if (exact !== undefined) {
    const { effort, ...figures } = exact;
    Object.assign(row, figures);
  }
  for (const recall of recalls) {
    const found = at(recall, points, ({ cpuMs }) => cpuMs);
    if (found === undefined) continue;
    const isExactCheaper = exact !== undefined && exact.cpuMs < found.value;
    const interpolated = (name: keyof Point) =>
      at(recall, points, (point) => point[name])?.value ?? Number.NaN;
    for (const name of ["cpuMs", "cpuMsMin", "cpuMsMax"] as const)
      row[`${name}@${recall}`] = isExactCheaper ? exact[name] : interpolated(name);
    if (isExactCheaper || found.isBound) row[`atMost@${recall}`] = true;
    for (const name of ["effort", "p50Ms", "p99Ms"] as const) row[`${name}@${recall}`] = interpolated(name);
  }
  const seen = points.map(({ recall }) => recall);
  return seen.length > 1 ? { ...row, recallMin: Math.min(...seen), recallMax: Math.max(...seen) } : row;
}
