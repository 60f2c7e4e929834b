// Which metrics does the server export to Prometheus?
//
// Labels are routes (never paths), methods, statuses and collection names: few values each. The resources of the process are measured once,
// however many servers run in it.

import type { ClusterStatus } from "@quiverdb/cluster/status";
import {
  type Database,
  type DatabaseStatistics,
  type DiskUse,
  scheduler,
} from "@quiverdb/engine/database/contract";
import type { FastifyInstance } from "fastify";
import { AggregatorRegistry, Counter, collectDefaultMetrics, Gauge, Registry } from "prom-client";
import type { Admission, Queue } from "../admission.ts";
import { keptMetrics, LastHour, type Metric } from "./last-hour.ts";
import { RequestCounter, SecondsHistogram, separator } from "./request-metrics.ts";

/** Metrics as objects, to be added up. */
export type MetricsOfThread = object[];

/** The serving threads, as the owner asks them. */
export type ThreadMetrics = {
  counted(): Promise<MetricsOfThread[]>;
  lastHour(): Promise<Metric[]>;
};

const keptOf = (registry: Registry): Promise<Metric[]> =>
  Promise.all(
    keptMetrics.flatMap((name) => {
      // The declared type of `get` leaves out what all metrics give.
      const metric = registry.getSingleMetric(name) as unknown as { get(): Promise<Metric> } | undefined;
      return metric === undefined ? [] : [metric.get()];
    }),
  );

let processMetrics: Registry | undefined;

type ClusterNode = ClusterStatus["nodes"][number];

/** Memory, processor time, event loop lag and garbage collection of this process. */
function processRegistry(): Registry {
  if (processMetrics === undefined) {
    processMetrics = new Registry();
    collectDefaultMetrics({ register: processMetrics });
  }
  return processMetrics;
}

/** Methods with their own label value; all others share one, because a client can send any word. */
const methods = new Set(["GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS"]);

export class Metrics {
  readonly #registry = new Registry();
  readonly #requests = new RequestCounter(this.#registry);
  readonly #seconds = new SecondsHistogram(
    "quiver_http_request_duration_seconds",
    "Seconds from the arrival of a request's headers to the end of its answer, by route and method.",
    ["route", "method"],
    this.#registry,
  );
  #inFlight = 0;

  /** @param database absent in a serving thread: its owner tells of it */
  constructor(
    database: Database | undefined,
    bodyBytes: () => number,
    answerBytes: () => number,
    admission: Admission,
  ) {
    for (const [name, help, read] of queueGauges) {
      new Gauge({
        name,
        help,
        labelNames: ["queue"] as const,
        registers: [this.#registry],
        collect() {
          for (const queue of Object.values(admission.queues)) this.set({ queue: queue.name }, read(queue));
        },
      });
    }
    const waits = new SecondsHistogram(
      "quiver_queue_wait_seconds",
      "Seconds that requests waited in a queue until they started or were rejected, by queue.",
      ["queue"],
      this.#registry,
    );
    for (const queue of Object.values(admission.queues))
      queue.onWaited = (ms) => waits.observe(queue.name, ms / 1_000);
    this.#gauge(
      "quiver_http_requests_in_flight",
      "Requests that have started and are not answered yet.",
      () => this.#inFlight,
    );
    this.#gauge(
      "quiver_slice_longest_seconds",
      "The longest time slice of the request thread since the last scrape.",
      () => scheduler.takeLongestMs() / 1_000,
    );
    this.#gauge("quiver_slices_waiting", "Tasks that wait for a time slice.", () => scheduler.waiting);
    new Counter({
      name: "quiver_requests_refused_total",
      help: "Requests that were rejected, either on arrival because their key had too many, or because the wait was too long.",
      labelNames: ["queue"] as const,
      registers: [this.#registry],
      collect() {
        this.reset();
        this.inc({ queue: "arrival" }, admission.refused);
        for (const queue of Object.values(admission.queues)) this.inc({ queue: queue.name }, queue.refused);
      },
    });
    if (database === undefined) return;
    this.#gauge("quiver_answers_bytes", "Bytes of responses that clients have not read yet.", answerBytes);
    this.#gauge("quiver_request_bodies_bytes", "Bytes of request bodies in memory.", bodyBytes);
    this.#describe(database);
  }

  /** The gauges of a node of a cluster. @param currentStatus of the cluster as this node sees it */
  describeCluster(currentStatus: () => ClusterStatus): void {
    // All gauges are collected in one turn; a status looks at all shards.
    let known: ClusterStatus | undefined;
    const status = (): ClusterStatus => {
      if (known === undefined) {
        known = currentStatus();
        setImmediate(() => {
          known = undefined;
        });
      }
      return known;
    };
    const nodeGauge = (name: string, help: string, read: (node: ClusterNode) => number | undefined) =>
      new Gauge({
        name,
        help,
        labelNames: ["node"] as const,
        registers: [this.#registry],
        collect() {
          this.reset();
          for (const node of status().nodes) {
            const value = read(node);
            if (value !== undefined) this.set({ node: node.node }, value);
          }
        },
      });
    nodeGauge("quiver_cluster_node_alive", "1 if the node has told of itself lately.", ({ alive }) => +alive);
    nodeGauge(
      "quiver_cluster_catalog_position",
      "The catalog's position at the node.",
      ({ catalog }) => catalog,
    );
    nodeGauge(
      "quiver_cluster_log_position",
      "The sum of the positions of all logs up to which the node has applied everything.",
      ({ logs }) => logs?.reduce((sum, position) => sum + position, 0),
    );
    nodeGauge(
      "quiver_cluster_collections_copied",
      "Collections that the node should serve and copies from another one.",
      (node) => node.not_served?.length,
    );
    nodeGauge(
      "quiver_cluster_shards",
      "Collections, or shards of them, that the catalog gives the node.",
      ({ holds }) => holds,
    );
    const copyGauge = (
      name: string,
      help: string,
      read: (copy: { bytes: number; bytes_expected: number }) => number,
    ) =>
      new Gauge({
        name,
        help,
        labelNames: ["node", "collection"] as const,
        registers: [this.#registry],
        collect() {
          this.reset();
          for (const { node, not_served: some = [] } of status().nodes)
            for (const { collection, copying } of some)
              if (copying !== undefined) this.set({ node, collection }, read(copying));
        },
      });
    copyGauge(
      "quiver_cluster_copied_bytes",
      "Bytes of a copy that the node has so far.",
      ({ bytes }) => bytes,
    );
    copyGauge(
      "quiver_cluster_copy_size_bytes",
      "About the bytes that the whole copy has.",
      ({ bytes_expected: expected }) => expected,
    );
    this.#gauge(
      "quiver_cluster_publish_seconds",
      "Seconds until the log has acknowledged a message, median of the latest.",
      () => (status().publish_ms.p50 ?? 0) / 1_000,
    );
    this.#gauge(
      "quiver_cluster_collections_diverged",
      "Collections that take no writes because their replicas differ.",
      () => status().collections.filter(({ diverged }) => diverged !== undefined).length,
    );
  }

  #describe(database: Database): void {
    this.#describeDisk(database);
    this.#gauge("quiver_memory_index_bytes", "Bytes of indexes that are loaded or being built.", () => {
      return database.statistics().memory.indexBytes;
    });
    this.#gauge(
      "quiver_memory_process_bytes",
      "Peak memory of the process in bytes since the start, without mapped files.",
      () => database.statistics().memory.processBytes,
    );
    this.#gauge("quiver_memory_budget_bytes", "The memory budget; 0 for none.", () => {
      return database.statistics().memory.budgetBytes ?? 0;
    });
    for (const [name, help, read] of collectionGauges) {
      new Gauge({
        name,
        help,
        labelNames: ["collection"] as const,
        registers: [this.#registry],
        collect() {
          // Deleted collections disappear from the output.
          this.reset();
          for (const collection of database.statistics().collections) {
            const value = read(collection);
            if (value !== undefined) this.set({ collection: collection.name }, value);
          }
        },
      });
    }
    for (const [name, help, read] of databaseCounters) {
      new Counter({
        name,
        help,
        registers: [this.#registry],
        collect() {
          this.reset();
          this.inc(read(database.statistics()));
        },
      });
    }
    this.#gauge("quiver_commit_requests_average", "Average number of requests in a durable commit.", () => {
      const { commits, commitRequests } = database.statistics();
      return commits === 0 ? 0 : commitRequests / commits;
    });
    this.#gauge("quiver_writer_queue_bytes", "Bytes of requests that wait for the writer.", () => {
      return database.statistics().writerQueueBytes;
    });
    this.#gauge(
      "quiver_failing_tasks",
      "Background tasks that fail and are retried, except those of collections.",
      () => database.statistics().failing.length,
    );
    this.#gauge("quiver_recovered", "1 once every index has caught up after the start.", () => {
      return database.isRecovered ? 1 : 0;
    });
  }

  #describeDisk(database: Database): void {
    // The gauges of a scrape are read at the same time, so the files are looked at once.
    let reading: Promise<DiskUse> | undefined;
    const use = () => {
      reading ??= database.diskUse().finally(() => {
        reading = undefined;
      });
      return reading;
    };
    const registers = [this.#registry];
    new Gauge({
      name: "quiver_collection_disk_bytes",
      help: "Bytes that the collection's records, indexes and change log take on the disk.",
      labelNames: ["collection"] as const,
      registers,
      async collect() {
        const { collections } = await use();
        this.reset();
        for (const { name, bytes } of collections) this.set({ collection: name }, bytes);
      },
    });
    new Gauge({
      name: "quiver_disk_snapshot_bytes",
      help: "Bytes that snapshots take on the disk.",
      registers,
      async collect() {
        this.set((await use()).snapshotBytes);
      },
    });
    new Gauge({
      name: "quiver_disk_free_bytes",
      help: "Bytes that can still be written to the disk of the data directory.",
      registers,
      async collect() {
        this.set((await use()).freeBytes);
      },
    });
  }

  requestBegins(): void {
    this.#inFlight++;
  }

  /** @param status 499 for a client that disconnected before the response */
  requestEnds(route: string, method: string, status: number, seconds: number): void {
    this.#inFlight--;
    const known = methods.has(method) ? method : "other";
    this.#requests.add(route, known, status);
    this.#seconds.observe(`${route}${separator}${known}`, seconds);
  }

  /** What this thread has counted, for the owner's page. */
  counted(): Promise<MetricsOfThread> {
    return this.#registry.getMetricsAsJSON() as Promise<MetricsOfThread>;
  }

  /** What this thread knows of the metrics of the last hour. No other metric is read: some begin anew with each reading. */
  lastHour(): Promise<Metric[]> {
    return keptOf(this.#registry);
  }

  /** @param others the other threads. @param clock Unix milliseconds. @param onFault the metrics of the last hour could not be read */
  register(
    app: FastifyInstance,
    others: ThreadMetrics,
    clock: () => number,
    onFault: (error: unknown) => void,
  ): void {
    const own = Registry.merge([this.#registry, processRegistry()]);
    // The labels contain the names of all collections.
    const config = { need: { role: "read", collections: "nowhere", takesFilter: false } as const };
    const page = shared(async () => {
      const counted = await others.counted();
      const all =
        counted.length === 0 ? own : AggregatorRegistry.aggregate([await own.getMetricsAsJSON(), ...counted]);
      return all.metrics();
    });
    app.get("/metrics", { config, schema: { hide: true } as object }, async (_request, reply) =>
      reply.type(own.contentType).send(await page()),
    );
    const hour = new LastHour(async () => {
      const kept = await Promise.all([this.lastHour(), keptOf(processRegistry()), others.lastHour()]);
      return kept.flat();
    }, clock);
    const answer = shared(() => hour.answer());
    app.get("/metrics/last-hour", { config, schema: { hide: true } as object }, () => answer());
    app.addHook("onReady", async () => hour.start(onFault));
    app.addHook("onClose", async () => hour.stop());
  }

  #gauge(name: string, help: string, read: () => number): void {
    new Gauge({
      name,
      help,
      registers: [this.#registry],
      collect() {
        this.set(read());
      },
    });
  }
}

/**
 * Makes one at a time. Those who ask meanwhile share the next one, which begins after they have asked: 64 connections that each got a page of
 * their own, of two milliseconds, stopped the thread for 140 at a time.
 */
export function shared<T>(make: () => Promise<T>): () => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  let next: Promise<T> | undefined;
  return () => {
    next ??= last.then(() => {
      next = undefined;
      const made = make();
      // Those who share it get the error.
      last = made.catch(() => undefined);
      return made;
    });
    return next;
  };
}

const queueGauges: readonly [string, string, (queue: Queue) => number][] = [
  ["quiver_requests_running", "Requests that have a place, by queue.", (queue) => queue.running],
  ["quiver_requests_waiting", "Requests that wait for a place, by queue.", (queue) => queue.waiting],
];

type CollectionStatistics = DatabaseStatistics["collections"][number];

/** A collection without a value has no line. */
const collectionGauges: readonly [
  string,
  string,
  (collection: CollectionStatistics) => number | undefined,
][] = [
  ["quiver_collection_records", "Live records of the current version.", (c) => c.records],
  ["quiver_collection_version", "Number of the current version.", (c) => c.version],
  ["quiver_collection_memory_bytes", "Bytes that the collection's indexes take.", (c) => c.memoryBytes],
  ["quiver_collection_loaded", "1 when the collection's indexes are in memory.", (c) => Number(c.loaded)],
  [
    "quiver_collection_index_progress",
    "Fraction of the records that the indexes have applied.",
    (c) => c.indexProgress,
  ],
  ["quiver_collection_waiting_writes", "Writes that wait for the indexes.", (c) => c.waitingWrites],
  ["quiver_collection_failing_tasks", "Background tasks that fail and are retried.", (c) => c.failing.length],
  [
    "quiver_dense_recall",
    "Fraction of the ten nearest vectors that the dense index found in its latest measurement.",
    (c) => c.recall?.at10,
  ],
  [
    "quiver_dense_finds_itself",
    "Fraction of vectors that a search for the same vector found, in the latest measurement.",
    (c) => c.recall?.itself,
  ],
  [
    "quiver_dense_reads_all",
    "1 if searches that set no beam width scan all vectors, because there are few or the graph finds too little.",
    (c) => c.recall && Number(c.recall.readsAll),
  ],
  ["quiver_collection_open_transaction", "1 while a transaction is open.", (c) => Number(c.openTransaction)],
];

const databaseCounters: readonly [string, string, (statistics: DatabaseStatistics) => number][] = [
  ["quiver_commits_total", "Durable commits since the start.", (s) => s.commits],
  ["quiver_commit_requests_total", "Requests in durable commits since the start.", (s) => s.commitRequests],
];
