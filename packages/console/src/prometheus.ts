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

  /** @param atMs of a clock that never goes back */
  constructor(text: string, atMs: number) {
    this.atMs = atMs;
    this.#samples = Map.groupBy(parseMetrics(text), ({ name }) => name);
  }

  of(name: string): readonly Sample[] {
    return this.#samples.get(name) ?? [];
  }

  sum(name: string): number {
    return this.of(name).reduce((sum, { value }) => sum + value, 0);
  }
}

/** How much a counter grew per second; 0 after a restart. */
export function rate(before: Reading, after: Reading, name: string): number {
  const seconds = (after.atMs - before.atMs) / 1_000;
  return seconds <= 0 ? 0 : Math.max(0, after.sum(name) - before.sum(name)) / seconds;
}

/**
 * A quantile of what a histogram counted between two readings, of all its labels together, interpolated in its bucket.
 * @param q 0 to 1
 * @returns undefined if nothing was counted
 */
export function quantile(before: Reading, after: Reading, name: string, q: number): number | undefined {
  const countsOf = (reading: Reading) => {
    const counts = new Map<number, number>();
    for (const { labels, value } of reading.of(`${name}_bucket`)) {
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
