// What does a page of metrics say?
//
// The text format of Prometheus: https://prometheus.io/docs/instrumenting/exposition_formats/

export type Sample = {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
};

/** All samples, in their order. Lines that are not samples are skipped. */
export function parseMetrics(text: string): Sample[] {
  return text.split("\n").flatMap((line) => {
    const match = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (NaN|[-+]?Inf|[-+.\deE]+)(?: \d+)?$/.exec(line);
    if (match === null) return [];
    const labels: Record<string, string> = {};
    for (const [, label, value] of (match[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g))
      labels[label] = value.replaceAll(/\\(.)/g, (_, escaped: string) => (escaped === "n" ? "\n" : escaped));
    const value = Number(match[3].replace("Inf", "Infinity"));
    return [{ name: match[1], labels, value }];
  });
}

/** One reading of the metrics. */
export class Reading {
  readonly atMs: number;
  readonly #samples: ReadonlyMap<string, readonly Sample[]>;

  /** @param read a page, or what is known of one. @param atMs of a clock that never goes back */
  constructor(read: string | readonly Sample[], atMs: number) {
    this.atMs = atMs;
    this.#samples = Map.groupBy(typeof read === "string" ? parseMetrics(read) : read, ({ name }) => name);
  }

  of(name: string): readonly Sample[] {
    return this.#samples.get(name) ?? [];
  }

  sum(name: string, holds: Holds = any): number {
    return this.of(name).reduce((sum, { labels, value }) => sum + (holds(labels) ? value : 0), 0);
  }
}

/** Which samples of a name are meant. */
export type Holds = (labels: Sample["labels"]) => boolean;
const any: Holds = () => true;

/** How much a counter grew per second; 0 after a restart. */
export function rate(before: Reading, after: Reading, name: string, holds = any): number {
  const seconds = (after.atMs - before.atMs) / 1_000;
  return seconds <= 0 ? 0 : Math.max(0, after.sum(name, holds) - before.sum(name, holds)) / seconds;
}

/** The answer of /metrics/last-hour. */
export type LastHour = {
  readonly times: readonly number[];
  readonly series: readonly (Omit<Sample, "value"> & { readonly values: readonly (number | null)[] })[];
};

/** The readings of the last hour. @param nowMs when the answer was made, by the clock of the readings */
export const readingsOf = ({ times, series }: LastHour, nowMs: number): Reading[] =>
  times.map((time, i) => {
    const samples = series.flatMap(({ name, labels, values }) => {
      const value = values[i];
      return value === null ? [] : [{ name, labels, value }];
    });
    return new Reading(samples, nowMs + time - (times.at(-1) ?? time));
  });

/** The readings with a newer one: all of the last minutes, fewer of the last hour. */
export function withReading(before: readonly Reading[], last: Reading): Reading[] {
  const kept: Reading[] = [];
  for (const reading of before) {
    const age = last.atMs - reading.atMs;
    const gap = reading.atMs - (kept.at(-1)?.atMs ?? Number.NEGATIVE_INFINITY);
    if (age >= leastMs && age <= hourMs && (age <= recentMs || gap >= sparseMs)) kept.push(reading);
  }
  return [...kept, last];
}

const hourMs = 3_600_000;
const recentMs = 300_000;
const sparseMs = 25_000;
/** A rate of a shorter time would be that of the page's own requests. */
const leastMs = 1_000;

/**
 * A quantile of what a histogram counted between two readings, of the labels that are meant together, interpolated in its bucket.
 * @param q 0 to 1
 * @returns undefined if nothing was counted
 */
export function quantile(
  before: Reading,
  after: Reading,
  name: string,
  q: number,
  holds = any,
): number | undefined {
  const countsOf = (reading: Reading) => {
    const counts = new Map<number, number>();
    for (const { labels, value } of reading.of(`${name}_bucket`)) {
      if (!holds(labels)) continue;
      const bound = labels.le === "+Inf" ? Number.POSITIVE_INFINITY : Number(labels.le);
      counts.set(bound, (counts.get(bound) ?? 0) + value);
    }
    return counts;
  };
  const old = countsOf(before);
  const buckets = [...countsOf(after)]
    .map(([bound, value]) => ({ bound, below: value - (old.get(bound) ?? 0) }))
    .sort((a, b) => a.bound - b.bound);
  const total = buckets.at(-1)?.below ?? 0;
  if (total <= 0) return undefined;
  const wanted = q * total;
  const at = buckets.findIndex(({ below }) => below >= wanted);
  const { bound, below } = buckets[at];
  const lower = at === 0 ? { bound: 0, below: 0 } : buckets[at - 1];
  if (!Number.isFinite(bound)) return lower.bound;
  const share = below === lower.below ? 1 : (wanted - lower.below) / (below - lower.below);
  return lower.bound + share * (bound - lower.bound);
}
