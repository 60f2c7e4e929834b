// How does the server of a test become a cluster of three nodes?
//
// With QUIVER_TEST_NODES the server that a test starts has two further nodes, and each request goes to the next node, with the position of
// the answer before. With QUIVER_TEST_SHARDS collections have so many shards. Little else in the tests knows. Three nats-server are started for each data directory, and end with the test process.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { findNatsServer } from "@quiverdb/cluster/dev/nats-server";
import { freePorts, NatsServers } from "@quiverdb/cluster/dev/servers";
import type { ServerConfig } from "../src/config.ts";
import type { RunningServer } from "../src/running-server.ts";
import { startServer } from "../src/server.ts";

export const inCluster = process.env.QUIVER_TEST_NODES !== undefined;
/** Of each collection, on two of the three nodes each, so that every node must ask another one. */
export const shards = Number(process.env.QUIVER_TEST_SHARDS ?? 1);

type TestCluster = {
  readonly nats: NatsServers;
  readonly directory: string;
  readonly ports: readonly number[];
};

/** By data directory, so that a server that starts again finds its cluster. */
const clusters = new Map<string, Promise<TestCluster>>();

async function startCluster(): Promise<TestCluster> {
  const found = findNatsServer(resolve(import.meta.dirname, "../../../.cache"));
  if ("missing" in found) throw new Error(found.missing);
  const directory = mkdtempSync(join(tmpdir(), "quiver-nodes-"));
  const nats = await NatsServers.start({ path: found.path, directory });
  process.once("exit", () => nats.kill());
  return { nats, directory, ports: await freePorts(3) };
}

/** Three nodes, of which the first is the server of the test. */
export async function startNodes(config: ServerConfig): Promise<RunningServer & { readonly urls: string[] }> {
  const { dataDir } = config;
  const starting = clusters.get(dataDir) ?? startCluster();
  clusters.set(dataDir, starting);
  const { nats, directory, ports } = await starting;
  const nodes = await Promise.all(
    ports.map((port, i) =>
      startServer({
        ...config,
        servingThreads: 0,
        port,
        dataDir: i === 0 ? dataDir : join(directory, `node-${i + 1}`),
        cluster: nats.urls,
        clusterMonitors: nats.servers.map(({ monitor }) => monitor),
        clusterLogs: 2,
        ...(shards > 1 && { clusterShards: shards, clusterReplicas: 2 }),
        node: `n${i + 1}`,
        advertise: `http://127.0.0.1:${port}`,
      }),
    ),
  );
  const close = async () => {
    await Promise.all(nodes.map((node) => node.close()));
  };
  return { ...nodes[0], urls: nodes.map(({ url }) => url), close };
}

/** Removes the cluster of a data directory. */
export async function endNodes(dataDir: string): Promise<void> {
  const cluster = await clusters.get(dataDir);
  clusters.delete(dataDir);
  if (cluster === undefined) return;
  await cluster.nats.stop();
  rmSync(cluster.directory, { recursive: true, force: true });
}
