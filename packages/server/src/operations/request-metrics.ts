// What is counted of every request, at the least cost?
//
// prom-client builds and hashes an object of labels for each observation: 10 µs for the four of a request. Here each route has its numbers
// in arrays, which one look-up finds, and which become the lines of a metric when Prometheus asks. The registry of prom-client calls `get`
// of what is registered there, and needs nothing else.

import { Counter, type Registry } from "prom-client";

/** Upper bounds of the buckets, in seconds. */
const secondsBuckets = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
];

/** Number of observations by size, and their sum; the last bucket has no bound. */
class Buckets {
  readonly counts = new Float64Array(secondsBuckets.length + 1);
  sum = 0;

  observe(seconds: number): void {
    let bucket = 0;
    while (bucket < secondsBuckets.length && seconds > secondsBuckets[bucket]) bucket++;
    this.counts[bucket]++;
    this.sum += seconds;
  }
}

type Value = {
  readonly metricName: string;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
};

/** Stands between the values of several labels. */
export const separator = "\n";

/** A histogram of seconds. */
export class SecondsHistogram {
  readonly name: string;
  readonly help: string;
  readonly type = "histogram";
  readonly aggregator = "sum";
  readonly #labels: readonly string[];
  readonly #buckets = new Map<string, Buckets>();

  constructor(name: string, help: string, labels: readonly string[], registry: Registry) {
    this.name = name;
    this.help = help;
    this.#labels = labels;
    // Its declared type is that of prom-client's own classes, of which it uses the fields and the method below.
    registry.registerMetric(this as never);
  }

  /** @param label values of the labels, with `separator` between them: one text costs less than a list */
  observe(label: string, seconds: number): void {
    let buckets = this.#buckets.get(label);
    if (buckets === undefined) {
      buckets = new Buckets();
      this.#buckets.set(label, buckets);
    }
    buckets.observe(seconds);
  }

  /** Called by the registry for each scrape. */
  async get(): Promise<{ name: string; help: string; type: string; aggregator: string; values: Value[] }> {
    const { name, help, type, aggregator } = this;
    const values: Value[] = [];
    for (const [label, { counts, sum }] of this.#buckets) {
      const labels = Object.fromEntries(label.split(separator).map((value, i) => [this.#labels[i], value]));
      let total = 0;
      for (const [i, count] of counts.entries()) {
        total += count;
        const le = secondsBuckets[i] ?? "+Inf";
        values.push({ metricName: `${name}_bucket`, labels: { le, ...labels }, value: total });
      }
      values.push({ metricName: `${name}_sum`, labels, value: sum });
      values.push({ metricName: `${name}_count`, labels, value: total });
    }
    return { name, help, type, aggregator, values };
  }
}

/** Answered requests by route, method and status. */
export class RequestCounter {
  /** Route -> method -> status. */
  readonly #counts = new Map<string, Map<string, Map<number, number>>>();

  constructor(registry: Registry) {
    const counts = this.#counts;
    new Counter({
      name: "quiver_http_requests_total",
      help: "Requests that were answered, by route, method and status.",
      labelNames: ["route", "method", "status"] as const,
      registers: [registry],
      collect() {
        this.reset();
        for (const [route, methods] of counts)
          for (const [method, statuses] of methods)
            for (const [status, count] of statuses) this.inc({ route, method, status }, count);
      },
    });
  }

  add(route: string, method: string, status: number): void {
    const statuses = innerOf(innerOf(this.#counts, route), method);
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
  }
}

function innerOf<Key, InnerKey, Inner>(
  outer: Map<Key, Map<InnerKey, Inner>>,
  key: Key,
): Map<InnerKey, Inner> {
  let inner = outer.get(key);
  if (inner === undefined) {
    inner = new Map();
    outer.set(key, inner);
  }
  return inner;
}
