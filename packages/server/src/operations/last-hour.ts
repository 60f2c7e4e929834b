// What did the server do in the last hour?
//
// A ring of samples of a few metrics, so that the console has a past when it is opened, also without Prometheus. Counters and buckets are kept
// as they are; what reads two samples computes rates and quantiles. Requests that are no searches are one route, and of the collections only
// the largest are kept, so that the number of series does not grow with the database. A sample is taken twice a minute.

import { operations } from "@quiverdb/engine/operations/operations";

/** What prom-client and our own metrics give of one metric. */
export type Metric = {
  readonly name: string;
  readonly values: readonly {
    readonly metricName?: string;
    readonly labels: Readonly<Record<string, string | number | undefined>>;
    readonly value: number;
  }[];
};

const requests = "quiver_http_request_duration_seconds";
/** Of these only the collections with the most records are kept. */
const ofCollections = ["quiver_collection_records", "quiver_collection_index_progress"] as const;

/** The metrics that are kept; each is the sum of its labels, but for routes and collections. */
export const keptMetrics: readonly string[] = [
  requests,
  ...ofCollections,
  "quiver_requests_refused_total",
  "quiver_requests_running",
  "quiver_requests_waiting",
  "quiver_commits_total",
  "quiver_commit_requests_total",
  "quiver_memory_index_bytes",
  "quiver_answers_bytes",
  "quiver_request_bodies_bytes",
  "process_resident_memory_bytes",
  "nodejs_heap_size_used_bytes",
  "nodejs_external_memory_bytes",
];

/** Seconds between two samples. */
const pauseSeconds = 30;
const samplesMax = 3_600 / pauseSeconds;
const collectionsMax = 6;
/** Beyond, the ring begins anew: so many collections have been among the largest. */
const seriesMax = 1_000;

const searchRoutes = new Set(
  Object.values(operations)
    .filter(({ work }) => work === "search")
    .map(({ path }) => path.replaceAll(/\{(\w+)\}/g, ":$1")),
);

/** `values` has one number for each of `times`; null where there was none. */
export type LastHourAnswer = {
  /** Unix milliseconds, ascending; the last one is the time of the answer. */
  readonly times: readonly number[];
  readonly series: readonly {
    readonly name: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly values: readonly (number | null)[];
  }[];
};

/** One number for each series that was known when it was taken; NaN for none. */
type Sample = { readonly atMs: number; readonly values: Float64Array };

export class LastHour {
  readonly #read: () => Promise<readonly Metric[]>;
  readonly #clock: () => number;
  /** The places of the series in the samples. */
  readonly #places = new Map<string, number>();
  #samples: Sample[] = [];
  #timer: ReturnType<typeof setInterval> | undefined;

  /** @param read the metrics of all threads. @param clock Unix milliseconds */
  constructor(read: () => Promise<readonly Metric[]>, clock: () => number) {
    this.#read = read;
    this.#clock = clock;
  }

  /** Takes a sample now, and then one after each pause. @param onFault a sample could not be taken */
  start(onFault: (error: unknown) => void): void {
    const sample = () => void this.keep().catch(onFault);
    sample();
    this.#timer = setInterval(sample, 1_000 * pauseSeconds).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Adds a sample, and forgets the one that is an hour old. */
  async keep(): Promise<void> {
    const sample = await this.#take();
    this.#samples = [...this.#samples, sample].slice(-samplesMax);
  }

  /** The samples that are kept, and one of this moment. */
  async answer(): Promise<LastHourAnswer> {
    const now = await this.#take();
    const samples = [...this.#samples, now];
    const series = [...this.#places].map(([key, place]) => {
      const [name, labels] = JSON.parse(key) as [string, Record<string, string>];
      const values = samples.map(({ values: each }) => {
        const value = each[place] ?? Number.NaN;
        return Number.isNaN(value) ? null : value;
      });
      return { name, labels, values };
    });
    return { times: samples.map(({ atMs }) => atMs), series };
  }

  async #take(): Promise<Sample> {
    const found = summed(await this.#read());
    if (this.#places.size + found.size > seriesMax) {
      this.#places.clear();
      this.#samples = [];
    }
    for (const key of found.keys()) if (!this.#places.has(key)) this.#places.set(key, this.#places.size);
    const values = new Float64Array(this.#places.size).fill(Number.NaN);
    for (const [key, value] of found) values[this.#places.get(key) as number] = value;
    return { atMs: this.#clock(), values };
  }
}

/** What is kept of the metrics of all threads, by name and labels. */
function summed(metrics: readonly Metric[]): Map<string, number> {
  const sums = new Map<string, number>();
  const largest = new Set(
    metrics
      .filter(({ name }) => name === ofCollections[0])
      .flatMap(({ values }) => values)
      .toSorted((a, b) => b.value - a.value)
      .slice(0, collectionsMax)
      .map(({ labels }) => labels.collection),
  );
  for (const { name, values } of metrics)
    for (const { metricName = name, labels, value } of values) {
      if (labels.collection !== undefined && !largest.has(labels.collection)) continue;
      const key = JSON.stringify([metricName, keptLabels(name, labels)]);
      sums.set(key, (sums.get(key) ?? 0) + value);
    }
  return sums;
}

function keptLabels(name: string, { collection, route, le }: Metric["values"][number]["labels"]): object {
  if (collection !== undefined) return { collection };
  if (name !== requests) return {};
  return {
    route: searchRoutes.has(String(route)) ? route : "other",
    ...(le !== undefined && { le: String(le) }),
  };
}
