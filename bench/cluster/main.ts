// What does a cluster cost, and what happens when a part of it ends?
//
//   npm run bench cluster [-- --records 20000 --vectors 100000 --seconds 5]
//
// Three nats-server and one, two and three nodes on this machine, which they share with the client: what is durable here waits for three
// synced disks that are one. Processor time is that of all nodes and of all servers for each request, network bytes are those of the
// loopback device.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { Agent } from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { DevCluster } from "../../packages/cluster/src/dev/dev-cluster.ts";
import { findNatsServer } from "../../packages/cluster/src/dev/nats-server.ts";
import { shardOf } from "../../packages/engine/src/collection/shard.ts";
import { randomNumbers } from "../../packages/kernels/src/random.ts";
import { clientOf } from "../rest/measured-server.ts";
import { cpuMsOf } from "../servers/processes.ts";
import { quantile } from "../shared/figures.ts";
import { readOptions } from "../shared/options.ts";
import { publish } from "../shared/publish.ts";

const dimension = 128;
const root = resolve(import.meta.dirname, "../..");
const { values, isKept } = readOptions({}, { records: "20000", vectors: "100000", seconds: "5" });
const [records, vectors, seconds] = [values.records, values.vectors, values.seconds].map(Number);
const found = findNatsServer(join(root, ".cache"));
if ("missing" in found) throw new Error(found.missing);
const { path: nats, version } = found;

const random = randomNumbers(1);
const centers = Array.from({ length: 200 }, () => Array.from({ length: dimension }, () => random() - 0.5));
/** In one of two hundred clusters, as real embeddings are: among uniform numbers every vector is about as near as any other. */
const vector = () => {
  const center = centers[Math.floor(random() * centers.length)];
  return center.map((value) => Number((value + 0.3 * (random() - 0.5)).toFixed(4)));
};
const collection = "/vectordb/collections/bench";
let ids = 0;
const upsertOf = (count: number): Buffer =>
  Buffer.from(
    JSON.stringify({
      vectors: Array.from({ length: count }, () => ({ id: `record-${ids++}`, dense_values: vector() })),
    }),
  );
const upsertPath = `${collection}/streaming/upsert`;
const searchPath = `${collection}/search/dense`;
const searches = Array.from({ length: 100 }, () =>
  Buffer.from(JSON.stringify({ query_vector: vector(), top_k: 10 })),
);

type Send = (path: string, body: Buffer) => Promise<unknown>;

/** A client of all nodes, each request to the next. */
function clientOfAll(urls: readonly string[], sockets: number): { send: Send; end(): void } {
  const agent = new Agent({ keepAlive: true, maxSockets: sockets });
  const clients = urls.map((url) => clientOf(url, agent));
  let turn = 0;
  return {
    send: (path, body) => clients[turn++ % clients.length].send(path, body),
    end: () => agent.destroy(),
  };
}

/** Processor milliseconds of processes until now. */
const cpuMs = (pids: readonly (number | undefined)[]): number =>
  pids.reduce<number>((sum, pid) => sum + cpuMsOf(pid as number), 0);

/** Bytes that the loopback device has passed on until now. */
const loopbackBytes = (): number => Number(/lo:\s*(\d+)/.exec(readFileSync("/proc/net/dev", "utf8"))?.[1]);

/** Calls from several connections for some seconds. */
async function load(cluster: DevCluster, connections: number, path: string, body: () => Buffer) {
  const { send, end } = clientOfAll(cluster.urls, connections);
  const nodes = cluster.nodes.map(({ pid }) => pid);
  const servers = cluster.servers.servers.map(({ pid }) => pid);
  const timesMs: number[] = [];
  const before = { nodes: cpuMs(nodes), servers: cpuMs(servers), bytes: loopbackBytes() };
  const begun = performance.now();
  const until = begun + seconds * 1_000;
  const connection = async () => {
    while (performance.now() < until) {
      const startMs = performance.now();
      await send(path, body());
      timesMs.push(performance.now() - startMs);
    }
  };
  await Promise.all(Array.from({ length: connections }, connection));
  const count = timesMs.length;
  const sorted = Float64Array.from(timesMs);
  const row = {
    perSecond: (count * 1_000) / (performance.now() - begun),
    p50Ms: quantile(sorted, 0.5),
    p99Ms: quantile(sorted, 0.99),
    nodesUs: ((cpuMs(nodes) - before.nodes) * 1_000) / count,
    serversUs: ((cpuMs(servers) - before.servers) * 1_000) / count,
    networkBytes: (loopbackBytes() - before.bytes) / count,
  };
  end();
  return row;
}

type Placing = { readonly nodes: number; readonly shards?: number; readonly replication_factor?: number };

async function started({ nodes, ...config }: Placing, directory: string): Promise<DevCluster> {
  const cluster = await DevCluster.start({
    nats,
    directory,
    quiver: [process.execPath, join(root, "packages/cli/dist/main.js")],
    nodes,
    // What a node would refuse as too much is measured, too.
    args: ["--no-console", "--log-level", "error", "--queue-wait", "2m"],
  });
  await json(cluster.urls[0], "/vectordb/collections", {
    name: "bench",
    dense_vector: { enabled: true, dimension, auto_create_index: true },
    sparse_vector: { enabled: false },
    tf_idf_options: { enabled: false },
    config,
  });
  return cluster;
}

async function json(
  url: string,
  path: string,
  body?: unknown,
  headers = {},
): Promise<Record<string, unknown>> {
  const answer = await fetch(url + path, {
    method: body === undefined ? "GET" : "POST",
    headers: { "content-type": "application/json", ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${text}`);
  return JSON.parse(text);
}

const fill = async (urls: readonly string[], count: number) => {
  const { send, end } = clientOfAll(urls, 4);
  const parts = Array.from({ length: Math.ceil(count / 500) }, () => 500);
  const lane = async () => {
    while (parts.length > 0) {
      const body = upsertOf(parts.pop() as number);
      for (;;) {
        const error = await send(upsertPath, body).then(
          () => undefined,
          (thrown: Error) => thrown,
        );
        if (error === undefined) break;
        // Written faster than it is indexed.
        if (!error.message.includes(": 429 ")) throw error;
        await sleep(1_000);
      }
    }
  };
  await Promise.all(Array.from({ length: 4 }, lane));
  end();
};

/** Resolves when the indexes of all nodes have all records in their final places. */
async function indexed({ urls }: DevCluster, { replication_factor }: Placing): Promise<void> {
  const own = { ...(replication_factor === undefined && { "x-quiver-hop": "1" }) };
  for (const url of urls)
    for (;;) {
      const { version_number } = await json(url, `${collection}/versions/current`, undefined, own);
      const { dense } = (await json(url, `${collection}/indexes`, undefined, own)) as {
        dense: { status: { state: string; complete_version: number } };
      };
      if (dense.status.state === "ready" && dense.status.complete_version >= Number(version_number)) break;
      await sleep(200);
    }
}

/** Milliseconds of reads by id at one node. */
async function reads(url: string, headers: Record<string, string>): Promise<number> {
  const timesMs: number[] = [];
  for (let i = 0; i < 200; i++) {
    const startMs = performance.now();
    await json(url, `${collection}/vectors/record-${i}`, undefined, headers);
    timesMs.push(performance.now() - startMs);
  }
  return quantile(Float64Array.from(timesMs), 0.5);
}

/** The longest time between two calls that succeed, of several clients, while something is done. */
async function longestGapMs(
  urls: readonly string[],
  path: string,
  body: () => Buffer,
  act: () => Promise<unknown>,
): Promise<number> {
  let [last, longest, isOver] = [performance.now(), 0, false];
  const client = async (first: number) => {
    for (let i = first; !isOver; i++) {
      const answer = await fetch(urls[i % urls.length] + path, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: body(),
        signal: AbortSignal.timeout(15_000),
      }).catch(() => null);
      await answer?.arrayBuffer().catch(() => null);
      if (answer?.ok !== true) continue;
      longest = Math.max(longest, performance.now() - last);
      last = performance.now();
    }
  };
  const clients = [0, 1, 2, 3].map(client);
  await sleep(1_000);
  await act();
  await sleep(8_000);
  isOver = true;
  await Promise.all(clients);
  return Math.max(longest, performance.now() - last);
}

/** Seconds until a node that starts has what the first one has. */
async function caughtUpSeconds(cluster: DevCluster, i: number): Promise<number> {
  // The first node may be behind what another one has acknowledged.
  const strict = { "x-quiver-consistency": "strict" };
  const wanted = await json(cluster.urls[0], `${collection}/versions/current`, undefined, strict);
  const startMs = performance.now();
  cluster.nodes[i].start();
  for (;;) {
    // It answers for itself alone: what it does not have, it would ask another node for.
    const own = await json(cluster.urls[i], `${collection}/versions/current`, undefined, {
      "x-quiver-hop": "1",
    }).catch(() => undefined);
    if (own !== undefined && own.hash === wanted.hash) return (performance.now() - startMs) / 1_000;
    await sleep(50);
  }
}

/** Seconds until the shards of a node that is removed are served elsewhere. */
async function movedSeconds({ urls }: DevCluster): Promise<number> {
  type Held = { collections: { replicas: string[] }[] };
  const held = async () => (await json(urls[0], "/cluster/status")) as unknown as Held;
  const node = (await held()).collections
    .map(({ replicas }) => replicas[0])
    .sort()
    .at(-1) as string;
  const startMs = performance.now();
  await json(urls[0], `/cluster/remove/${node}`, {});
  while ((await held()).collections.some(({ replicas }) => replicas.includes(node))) await sleep(100);
  return (performance.now() - startMs) / 1_000;
}

/** How much more than its share the fullest of some shards has, in percent. */
function imbalance(of: number, count: number): number {
  const counts = new Uint32Array(of);
  for (let i = 0; i < count; i++) counts[shardOf(Buffer.from(`record-${i}`), of)]++;
  return (Math.max(...counts) / (count / of) - 1) * 100;
}

const directory = mkdtempSync(join(tmpdir(), "quiver-bench-cluster-"));
const work: Record<string, string | number>[] = [];
const events: Record<string, string | number>[] = [];
try {
  const placings: Placing[] = [
    { nodes: 1 },
    { nodes: 2 },
    { nodes: 3, shards: 1, replication_factor: 1 },
    { nodes: 3, shards: 3, replication_factor: 1 },
    { nodes: 3, shards: 3 },
    { nodes: 3 },
  ];
  for (const [i, placing] of placings.entries()) {
    const { nodes, shards, replication_factor: replicas } = placing;
    const of = { nodes, ...(shards && { shards }), ...(replicas && { replicas }) };
    const cluster = await started(placing, join(directory, `of-${i}`));
    ids = 0;
    try {
      await fill(cluster.urls, records);
      await indexed(cluster, placing);
      const cases = [
        ["upserts of 1 record, one client", 1, upsertPath, () => upsertOf(1)],
        ["upserts of 1 record, 64 clients", 64, upsertPath, () => upsertOf(1)],
        ["upserts of 100 records, 8 clients", 8, upsertPath, () => upsertOf(100)],
        ["searches, one client", 1, searchPath, () => searches[ids++ % searches.length]],
        ["searches, 8 clients", 8, searchPath, () => searches[ids++ % searches.length]],
      ] as const;
      for (const [what, connections, path, body] of cases) {
        if (path === searchPath) await indexed(cluster, placing);
        work.push({ ...of, work: what, ...(await load(cluster, connections, path, body)) });
      }
      const [url] = cluster.urls;
      const eventualMs = await reads(url, {});
      const strictMs = await reads(url, { "x-quiver-consistency": "strict" });
      work.push({ ...of, work: "reads by id, one client", p50Ms: eventualMs });
      work.push({ ...of, work: "strict reads by id, one client", p50Ms: strictMs });
      if (shards === 3 && replicas === 1) {
        await fill(cluster.urls, Math.max(0, vectors - 2 * records));
        events.push({ event: `a shard of ${vectors} vectors moves`, seconds: await movedSeconds(cluster) });
      }
      if (nodes < 3 || shards !== undefined) continue;
      const { servers } = cluster.servers;
      const gaps = async (
        what: string,
        victim: { stop(signal: "SIGKILL"): Promise<void>; start(): void },
      ) => {
        const kill = () => victim.stop("SIGKILL");
        events.push({
          event: `${what} is killed`,
          longestWriteGapMs: await longestGapMs(cluster.urls, upsertPath, () => upsertOf(1), kill),
        });
        victim.start();
        await cluster.servers.ready();
        await Promise.all(cluster.nodes.map((node) => node.ready()));
        events.push({
          event: `${what} is killed`,
          longestSearchGapMs: await longestGapMs(cluster.urls, searchPath, () => searches[0], kill),
        });
        victim.start();
        await cluster.servers.ready();
        await Promise.all(cluster.nodes.map((node) => node.ready()));
      };
      for (const server of servers) await gaps(`server ${server.name}`, server);
      await gaps("a node", cluster.nodes[1]);
      await cluster.nodes[2].stop("SIGKILL");
      // A killed node would refuse the connection.
      await fill(cluster.urls.slice(0, 2), records);
      events.push({
        event: `a node that missed ${records} records`,
        seconds: await caughtUpSeconds(cluster, 2),
      });
      await fill(cluster.urls, Math.max(0, vectors - 2 * records));
      await cluster.nodes[2].stop("SIGKILL");
      rmSync(cluster.nodes[2].directory, { recursive: true, force: true });
      events.push({ event: `a new disk, ${vectors} vectors`, seconds: await caughtUpSeconds(cluster, 2) });
    } finally {
      await cluster.stop();
    }
  }
} finally {
  rmSync(directory, { recursive: true, force: true });
}

const options = { records, dimension, seconds, servers: 3, natsServer: version };
const balance = [3, 16, 100, 1_024].map((shards) => ({
  shards,
  ids: 1_000_000,
  fullestPercent: imbalance(shards, 1_000_000),
}));
publish(
  "cluster",
  { key: "balance", title: "How much the fullest shard has beyond its share", options: {}, rows: balance },
  isKept,
);
publish("cluster", { key: "work", title: "Work of a cluster, by nodes", options, rows: work }, isKept);
publish(
  "cluster",
  { key: "events", title: "What ends and begins", options: { ...options, vectors }, rows: events },
  isKept,
);
