// Does a cluster lose, split or half show anything, whatever fails?
//
// Concurrent clients write, commit transactions, read and search at all nodes, each request at the next one, with strict reads
// (histories/clients). Meanwhile nodes and NATS servers are killed, stopped, paused, cut off, replaced, all at once, and lose their disks;
// disks fail, are full, damaged or changed by a byte, and clocks wrong. The history must have a serial order (histories/checker), and in the end all replicas must have one state.
//
//   node tools/launch.mjs run tests/campaigns/cluster.ts [--faults 500] [--shards 3] [--only "disk failed"] [--minutes 60 --tally FILE]

import {
  cpSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { DevCluster } from "@quiverdb/cluster/dev/dev-cluster";
import { findNatsServer } from "@quiverdb/cluster/dev/nats-server";
import { randomNumbers } from "@quiverdb/kernels/random";
import { command, type Say, say, shardFlags, TemporaryFolder } from "./campaign.ts";
import { damage, dataFiles } from "./corruption/damage.ts";
import { compileShim, drawnFault, Faults, shimEnvironment, whyNoShim } from "./crash/disk-shim.ts";
import { SmallDisk, whyNoMount } from "./crash/small-disk.ts";
import type { Figures } from "./figures.ts";
import { check } from "./histories/checker.ts";
import { Client, collectionPath, indexBodies, keyCount, Recording } from "./histories/clients.ts";
import { Network } from "./histories/links.ts";
import { versionFault } from "./histories/versions.ts";

const root = resolve(import.meta.dirname, "../..");

export const missingNats = (): string | null => {
  const found = findNatsServer(join(root, ".cache"));
  return "missing" in found ? found.missing : null;
};

export type ClusterOptions = {
  readonly seed: number;
  /** In all, with those of earlier runs that are counted. */
  readonly faults: number;
  /** No fault begins later. Default: without end. */
  readonly minutes?: number;
  /** Words of the faults that are made; default: of all. */
  readonly only?: string;
  readonly writers: number;
  readonly readers: number;
  /** Of the collection, with 2 replicas of each; 1: all nodes have the whole collection. */
  readonly shards: number;
  readonly say: Say;
};

export type ClusterCounts = {
  clusters: number;
  /** How often each fault was made. */
  faults: Record<string, number>;
  operations: number;
  commits: number;
  aborts: number;
  unknown: number;
};

const nothing = (): ClusterCounts => ({
  clusters: 0,
  faults: {},
  operations: 0,
  commits: 0,
  aborts: 0,
  unknown: 0,
});

const sum = (counts: Iterable<number>): number => [...counts].reduce((total, each) => total + each, 0);

const faultsIn = ({ faults }: ClusterCounts): number => sum(Object.values(faults));

/** A fault: what it does, and how it ends. */
type Fault = {
  readonly what: string;
  /** Why it cannot be made here. */
  readonly missing?: () => string | null;
  run(cluster: DevCluster, pick: Draw, network: Network): Promise<void>;
};

/** A whole number from 0 up to, and without, `count`. */
type Draw = (count: number) => number;

const downMs = (pick: Draw): number => 200 + 400 * pick(10);

/** From 0 up to, and without, 1. */
const shareOf = (pick: Draw): number => pick(2 ** 30) / 2 ** 30;

/** Cuts members of the cluster from all others for a while. */
const cutOff =
  (...kinds: ("n" | "nats-")[]): Fault["run"] =>
  async ({ nodes }, pick, network) => {
    const number = 1 + pick(nodes.length);
    network.isolate(...kinds.map((kind) => `${kind}${number}`));
    await sleep(2 * downMs(pick));
    network.heal();
  };

/** A module that makes the clock wrong by some milliseconds. */
const wrongClock = (offMs: number): string =>
  `data:text/javascript,${encodeURIComponent(`const Right = Date;
globalThis.Date = class extends Right {
  constructor(...given) {
    if (given.length === 0) super(Right.now() + ${offMs});
    else super(...given);
  }
  static now() {
    return Right.now() + ${offMs};
  }
};`)}`;

const hourMs = 3_600_000;
/** Room on a disk that will be full. */
const roomMegabytes = 32;

const faults: readonly Fault[] = [
  {
    what: "nodes killed",
    async run({ nodes }, pick) {
      const node = nodes[pick(nodes.length)];
      await node.stop("SIGKILL");
      await sleep(downMs(pick));
      node.start();
    },
  },
  {
    what: "nodes stopped",
    async run({ nodes }, pick) {
      const node = nodes[pick(nodes.length)];
      await node.stop();
      await sleep(downMs(pick));
      node.start();
    },
  },
  {
    what: "nodes paused",
    async run({ nodes }, pick) {
      const node = nodes[pick(nodes.length)];
      node.pause();
      await sleep(2 * downMs(pick));
      node.resume();
    },
  },
  {
    what: "nodes that lost their disk",
    async run({ nodes }, pick) {
      const node = nodes[pick(nodes.length)];
      await node.stop("SIGKILL");
      rmSync(node.directory, { recursive: true, force: true });
      await sleep(downMs(pick));
      node.start();
    },
  },
  {
    what: "servers killed",
    async run({ servers: { servers } }, pick) {
      const server = servers[pick(servers.length)];
      await server.stop("SIGKILL");
      await sleep(downMs(pick));
      server.start();
    },
  },
  {
    what: "servers paused",
    async run({ servers: { servers } }, pick) {
      const server = servers[pick(servers.length)];
      server.pause();
      await sleep(2 * downMs(pick));
      server.resume();
    },
  },
  {
    what: "times that all servers were killed",
    async run({ servers }, pick) {
      await Promise.all(servers.servers.map((server) => server.stop("SIGKILL")));
      await sleep(downMs(pick));
      await servers.begin();
    },
  },
  {
    what: "times that all nodes were killed",
    async run({ nodes }, pick) {
      await Promise.all(nodes.map((node) => node.stop("SIGKILL")));
      await sleep(downMs(pick));
      for (const node of nodes) node.start();
    },
  },
  {
    what: "servers that lost their disk",
    async run({ servers: { servers } }, pick) {
      const server = servers[pick(servers.length)];
      await server.stop("SIGKILL");
      server.wipe();
      await sleep(downMs(pick));
      server.start();
    },
  },
  {
    what: "servers removed for good, and others added in their place",
    async run({ servers }, pick) {
      const server = servers.servers[pick(servers.servers.length)];
      const removed = server.name;
      await server.stop("SIGKILL");
      await servers.remove(removed);
      server.replace(`${removed.split("-", 2).join("-")}-${pick(2 ** 30)}`);
      server.start();
    },
  },
  { what: "machines cut off, each a node and a server", run: cutOff("n", "nats-") },
  { what: "servers cut off", run: cutOff("nats-") },
  { what: "nodes cut off", run: cutOff("n") },
  {
    what: "nodes whose clock is an hour wrong from then on",
    async run({ nodes }, pick) {
      const node = nodes[pick(nodes.length)];
      await node.stop();
      node.start(["--import", wrongClock(pick(2) === 0 ? hourMs : -hourMs)]);
    },
  },
  {
    what: "nodes with a damaged place in their collections",
    async run({ nodes }, pick) {
      // Of three shards, a node may hold none.
      const holding = nodes.filter(({ directory }) => dataFiles(join(directory, "collections")).length > 0);
      const node = holding[pick(holding.length)];
      await node.stop("SIGKILL");
      damage(join(node.directory, "collections"), () => shareOf(pick));
      node.start();
    },
  },
  {
    what: "servers with a flipped byte in a log",
    async run({ servers: { servers } }, pick) {
      const server = servers[pick(servers.length)];
      await server.stop("SIGKILL");
      flipByte(server.store, pick);
      await sleep(downMs(pick));
      server.start();
    },
  },
  {
    what: "nodes whose disk failed",
    missing: whyNoShim,
    async run({ nodes }, pick) {
      const node = nodes[pick(nodes.length)];
      const failing = new Faults(`${node.directory}.faults`);
      const shim = compileShim(dirname(node.directory));
      await node.stop();
      node.start([], shimEnvironment(shim, { directory: node.directory, faults: failing.path }));
      await node.ready();
      failing.set(drawnFault(() => shareOf(pick)));
      await sleep(2 * downMs(pick));
      failing.clear();
      await sleep(downMs(pick));
    },
  },
  {
    what: "nodes whose disk was full",
    missing: whyNoMount,
    async run({ nodes }, pick) {
      const node = nodes[pick(nodes.length)];
      const { directory } = node;
      await node.stop();
      const disk = new SmallDisk(directoryMegabytes(directory) + roomMegabytes);
      try {
        cpSync(directory, disk.path, { recursive: true });
        rmSync(directory, { recursive: true });
        symlinkSync(disk.path, directory);
        node.start();
        await node.ready();
        disk.fill();
        await sleep(2 * downMs(pick));
        disk.free();
        await sleep(downMs(pick));
        await node.stop();
        rmSync(directory);
        cpSync(disk.path, directory, { recursive: true });
      } finally {
        await node.stop();
        disk.remove();
      }
      node.start();
    },
  },
];

/** Of its files, with their holes: a copy has none. */
const directoryMegabytes = (directory: string): number =>
  Math.ceil(
    readdirSync(directory, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .reduce((bytes, { parentPath, name }) => bytes + statSync(join(parentPath, name)).size, 0) /
      2 ** 20,
  );

/** Changes a byte of a file in which a server keeps messages. */
function flipByte(store: string, pick: Draw): void {
  const files = readdirSync(store, { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith(".blk"),
  );
  const path = join(store, files[pick(files.length)]);
  const bytes = readFileSync(path);
  if (bytes.length === 0) return;
  bytes[pick(bytes.length)] ^= 1 << pick(8);
  writeFileSync(path, bytes);
}

/** A message that was being published when its node ended, or was paused, is in the log by then, or never will be. */
const settledMs = 1_500;

/** A longer history takes longer to explain. */
const faultsOfCluster = 100;

/** Runs clusters, each through some faults. @throws at the first violation */
export async function clusterCampaign(options: ClusterOptions, counts = nothing()): Promise<ClusterCounts> {
  const { faults, minutes = Number.POSITIVE_INFINITY } = options;
  const endsAt = performance.now() + minutes * 60_000;
  while (faultsIn(counts) < faults && performance.now() < endsAt) {
    const own = {
      ...options,
      seed: options.seed + counts.clusters,
      faults: Math.min(faultsOfCluster, faults - faultsIn(counts)),
    };
    const { faults: made, ...seen } = await clusterHistory(own, endsAt);
    for (const [what, count] of Object.entries(made))
      counts.faults[what] = (counts.faults[what] ?? 0) + count;
    counts.clusters++;
    counts.operations += seen.operations;
    counts.commits += seen.commits;
    counts.aborts += seen.aborts;
    counts.unknown += seen.unknown;
  }
  return counts;
}

type Seen = Omit<ClusterCounts, "clusters">;

async function clusterHistory(options: ClusterOptions, endsAt: number): Promise<Seen> {
  const { seed, say } = options;
  const found = findNatsServer(join(root, ".cache"));
  if ("missing" in found) throw new Error(found.missing);
  using folder = new TemporaryFolder("cluster");
  const random = randomNumbers(seed);
  const pick = (count: number) => Math.floor(random() * count);
  const possible = faults.filter(({ what, missing }) => {
    if (!what.includes(options.only ?? "")) return false;
    const why = missing?.() ?? null;
    if (why !== null) say(`left out: ${what}: ${why}`);
    return why === null;
  });
  const network = new Network();
  const cluster = await DevCluster.start({
    nats: found.path,
    directory: folder.path,
    quiver: [process.execPath, join(root, "packages/cli/dist/main.js")],
    args: ["--no-console", "--transaction-idle", "20s", ...shardFlags(options.shards)],
    servers: { portOf: network.portOf },
  });
  const recording = new Recording();
  let back: Promise<void> = Promise.resolve();
  let isOver = false;
  try {
    await prepare(cluster.urls[0]);
    const kinds = [
      ...new Array<"writes">(options.writers).fill("writes"),
      ...new Array<"reads">(options.readers).fill("reads"),
      "disturbs" as const,
    ];
    const clients = kinds.map((kind, i) => {
      let asked = i;
      const target = {
        url: () => cluster.urls[asked++ % cluster.urls.length],
        again: () => back,
        isCluster: true,
      };
      return new Client(i, target, recording, randomNumbers(seed * 1_000 + i)).run(kind, () => isOver);
    });
    const failed = Promise.all(clients).then(() => undefined);
    failed.catch(() => {
      isOver = true;
    });
    const made: Record<string, number> = {};
    for (let i = 0; i < options.faults && performance.now() < endsAt && !isOver; i++) {
      await sleep(500 + 200 * pick(10));
      // Each kind comes, in the same order, from a place that the seed determines.
      const fault = possible[(i + (seed % possible.length)) % possible.length];
      back = (async () => {
        await fault.run(cluster, pick, network);
        await healed(cluster);
        await sleep(settledMs);
      })();
      await back;
      await undiverged(cluster);
      made[fault.what] = (made[fault.what] ?? 0) + 1;
      say(`${i + 1} faults, ${recording.operations.length} operations: ${fault.what}`);
    }
    await sleep(1_000);
    isOver = true;
    await failed;
    await equal(cluster);
    return { faults: made, ...judged(options, recording) };
  } catch (error) {
    throw new Error(`${(error as Error).message}\n\nThe logs are kept in ${kept(folder.path, seed)}`, {
      cause: error,
    });
  } finally {
    // Clients go on until then, for ever where a cluster has ended.
    isOver = true;
    await back.catch(() => undefined);
    await cluster.stop();
    network.close();
  }
}

/** Keeps the logs and the configurations of all processes. @returns the folder */
function kept(directory: string, seed: number): string {
  const parent = join(tmpdir(), "quiver-failures");
  mkdirSync(parent, { recursive: true });
  const folder = mkdtempSync(join(parent, `cluster-${seed}-`));
  cpSync(directory, folder, {
    recursive: true,
    filter: (path) =>
      lstatSync(path).isDirectory() ? !/store$|n\d$/.test(path) : /\.(log|conf)$/.test(path),
  });
  return folder;
}

async function send(url: string, method: string, path: string, body?: unknown): Promise<string> {
  const answer = await fetch(url + path, {
    method,
    headers: { "content-type": "application/json" },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(30_000),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path} is answered ${answer.status}: ${text}`);
  return text;
}

async function prepare(url: string): Promise<void> {
  await send(url, "POST", "/vectordb/collections", {
    name: "history",
    dense_vector: { enabled: true, dimension: 2 },
    sparse_vector: { enabled: true },
    tf_idf_options: { enabled: true },
    config: {},
    store_raw_text: true,
  });
  for (const [kind, body] of Object.entries(indexBodies))
    await send(url, "POST", `${collectionPath}/indexes/${kind}`, body);
}

/** How long a cluster may take to be whole again after a fault. */
const healedMs = 120_000;

/** Resolves when all servers and nodes serve, and a strict read works at each node. */
async function healed(cluster: DevCluster): Promise<void> {
  const until = performance.now() + healedMs;
  let why = "";
  for (;;) {
    try {
      await cluster.servers.ready();
      // What supervises a node starts it again.
      for (const node of cluster.nodes) if (isOverrun(node)) node.start();
      await Promise.all(cluster.nodes.map((node) => node.ready()));
      for (const url of cluster.urls) {
        const answer = await fetch(`${url}${collectionPath}/versions/current`, {
          headers: { "x-quiver-consistency": "strict" },
          signal: AbortSignal.timeout(20_000),
        });
        if (!answer.ok) throw new Error(`${url} answers ${answer.status}: ${await answer.text()}`);
      }
      return;
    } catch (error) {
      why = (error as Error).message;
      if (performance.now() > until) throw new Error(`the cluster is not whole after two minutes: ${why}`);
      await sleep(250);
    }
  }
}

/**
 * Whether a node has ended because lmdb-js has written behind the end of its memory: its message of a write that failed is longer than the
 * memory that it takes for it (failing-disks.ts). That ends the process at once, or seconds later.
 */
const isOverrun = (node: DevCluster["nodes"][number]): boolean =>
  node.hasEnded && node.hasSaid("Write error: ");

/** @throws if a node has found that replicas, or the log, differ from what it has applied */
async function undiverged(cluster: DevCluster): Promise<void> {
  if (cluster.nodes.some(isOverrun)) await healed(cluster);
  for (const url of cluster.urls) {
    const { collections } = JSON.parse(await send(url, "GET", "/cluster/status")) as {
      collections: { diverged?: string }[];
    };
    for (const { diverged } of collections) if (diverged !== undefined) throw new Error(diverged);
  }
}

/** @throws unless all replicas have one state */
async function equal(cluster: DevCluster): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    const { collections } = JSON.parse(await send(cluster.urls[0], "POST", "/cluster/check")) as {
      collections: { name: string; outcome: string }[];
    };
    if (collections.every(({ outcome }) => outcome === "equal")) return;
    if (attempt === 20) throw new Error(`replicas differ: ${JSON.stringify(collections)}`);
    await sleep(500);
  }
}

/** @returns what was seen @throws unless a serial order explains it */
function judged({ say }: ClusterOptions, recording: Recording): Omit<Seen, "faults"> {
  const { operations, told, versionOfStamp, counts } = recording;
  const begun = performance.now();
  const found = check(operations, keyCount);
  if (!found.isExplained) throw new Error(`no serial order explains ${found.why}`);
  const fault = versionFault(told, operations, versionOfStamp);
  if (fault !== undefined) throw new Error(fault);
  say(`checked in ${((performance.now() - begun) / 1000).toFixed(1)} s`);
  const those = (pattern: RegExp) =>
    sum([...counts].filter(([what]) => pattern.test(what)).map(([, count]) => count));
  return {
    operations: operations.length,
    commits: those(/^commit$/),
    aborts: those(/^aborted/),
    unknown: operations.filter((each) => each.kind === "write" && !each.isKnown).length,
  };
}

const figuresOf = (
  { writers, readers, shards }: Pick<ClusterOptions, "writers" | "readers" | "shards">,
  counts: ClusterCounts,
): Figures => ({
  shards,
  "clients: writing, reading, disturbing": `${writers}, ${readers}, 1`,
  clusters: counts.clusters,
  faults: faultsIn(counts),
  ...counts.faults,
  "operations in the history": counts.operations,
  "transactions committed, aborted": `${counts.commits}, ${counts.aborts}`,
  "writes of unknown outcome": counts.unknown,
  "reads that no serial order explains": 0,
  "replicas with another state": 0,
});

if (import.meta.main)
  await command({
    name: "cluster",
    options: { faults: 500, minutes: Number.POSITIVE_INFINITY, only: "", writers: 4, readers: 4, shards: 3 },
    skip: missingNats,
    counts: nothing,
    run: async (options, counts) => figuresOf(options, await clusterCampaign({ ...options, say }, counts)),
    isWhole: ({ faults, only }, counts) => only === "" && faultsIn(counts) >= faults,
  });
