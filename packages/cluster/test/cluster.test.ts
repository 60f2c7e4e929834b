// Do three nodes act as one database, whatever happens to them?

import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { Kvm } from "@nats-io/kv";
import { connect as connectNats } from "@nats-io/transport-node";
import { connect, type QuiverClient } from "@quiverdb/client";
import { openDatabase } from "@quiverdb/engine/database/database";
import type { RunningServer } from "@quiverdb/server/running-server";
import { startServer } from "@quiverdb/server/server";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { compareVersions } from "../src/dev/nats-server.ts";
import { freePorts, NatsServers } from "../src/dev/servers.ts";
import type { Member } from "../src/members.ts";
import type { CheckedCollection } from "../src/state-check.ts";
import type { ClusterStatus } from "../src/status.ts";
import { missing, natsServer, remark } from "./nats.ts";

test("[Y12] versions are compared by number", () => {
  expect(compareVersions("2.10.27", "2.9.10")).toBeGreaterThan(0);
  expect(compareVersions("2.10.27", "2.12.5")).toBeLessThan(0);
  expect(compareVersions("2.10.27", "2.10.27")).toBe(0);
});

describe.skipIf(missing !== undefined)(`a cluster of three nodes (${remark})`, () => {
  let directory: string;
  let nats: NatsServers;
  let ports: number[];
  const nodes: (RunningServer | undefined)[] = [];

  const start = async (i: number) => {
    nodes[i] = await startServer({
      dataDir: join(directory, `n${i + 1}`),
      port: ports[i],
      noAuth: true,
      logLevel: "silent",
      cluster: nats.urls,
      clusterMonitors: nats.servers.map(({ monitor }) => monitor),
      clusterLogs: 2,
      node: `n${i + 1}`,
      advertise: `http://127.0.0.1:${ports[i]}`,
    });
  };
  const stop = async (i: number) => {
    await nodes[i]?.close();
    nodes[i] = undefined;
  };
  const at = (i: number): QuiverClient => connect(`http://127.0.0.1:${ports[i]}`, { retryForMs: 20_000 });
  const everywhere = () =>
    connect(
      ports.map((port) => `http://127.0.0.1:${port}`),
      { retryForMs: 20_000 },
    );
  const compared = async (): Promise<CheckedCollection[]> => {
    const answer = await fetch(`http://127.0.0.1:${ports[0]}/cluster/check`, { method: "POST" });
    return ((await answer.json()) as { collections: CheckedCollection[] }).collections;
  };
  /** Resolves when all replicas of a collection have one state. */
  const equal = (name: string) =>
    expect
      .poll(async () => (await compared()).find((each) => each.name === name)?.outcome, { timeout: 30_000 })
      .toBe("equal");

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), "quiver-cluster-"));
    nats = await NatsServers.start({ path: natsServer, directory });
    ports = await freePorts(3);
    await Promise.all([0, 1, 2].map(start));
  });
  afterAll(async () => {
    await Promise.all([0, 1, 2].map(stop));
    await nats?.stop();
    if (directory !== undefined) rmSync(directory, { recursive: true, force: true });
  });

  const health = async () =>
    (await (await fetch(`http://127.0.0.1:${ports[0]}/health/ready`)).json()) as object;

  const natsUrls = () => nats.urls;
  /** What a node tells the others. */
  const told = async (i: number): Promise<Member> => {
    const connection = await connectNats({ servers: natsUrls() });
    try {
      const bucket = await new Kvm(connection).open("quiver-nodes");
      await delay(1_500);
      return (await bucket.get(`n${i + 1}`))?.json<Member>() as Member;
    } finally {
      await connection.close();
    }
  };

  const make = (name: string, config = {}) =>
    at(0).createCollection({
      name,
      dense_vector: { enabled: true, dimension: 3, auto_create_index: true },
      tf_idf_options: { enabled: true },
      store_raw_text: true,
      config,
    });
  const records = (from: number, count: number) =>
    Array.from({ length: count }, (_, i) => ({
      id: `v${from + i}`,
      dense_values: [from + i, 1, 0],
      text: `word${from + i}`,
    }));

  test("[Y1] [Y4] a client reads its own writes at any node, and all replicas have one state", async () => {
    const database = everywhere();
    const collection = await make("own").then(() => database.collection("own"));
    for (let i = 0; i < 12; i++) {
      await collection.upsert(records(i, 1));
      const port = ports[i % 3];
      const other = database.collection("own");
      expect((await other.get(`v${i}`)).id, String(port)).toBe(`v${i}`);
    }
    // A client of its own has no position: the node may be behind.
    const search = async () => {
      const request = { query_vector: [3, 1, 0], top_k: 1 };
      return (await at(1).collection("own").search.dense(request)).results[0]?.id;
    };
    await expect.poll(search).toBe("v3");
    await equal("own");
  });

  test("[Y4] what another node acknowledged is seen by a request with its position, and by a strict one", async () => {
    await make("positions");
    const url = (i: number, path: string) =>
      `http://127.0.0.1:${ports[i]}/vectordb/collections/positions${path}`;
    for (let i = 0; i < 6; i++) {
      const written = await fetch(url(i % 3, "/streaming/upsert"), {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ vectors: records(i, 1) }),
      });
      const position = written.headers.get("x-quiver-position") as string;
      expect(position).toMatch(/^c\d+,\d-\d+$/);
      const asked: Record<string, string>[] = [
        { "x-quiver-position": position },
        { "x-quiver-consistency": "strict" },
      ];
      for (const headers of asked) {
        const read = await fetch(url((i + 1) % 3, `/vectors/v${i}`), {
          headers: headers as Record<string, string>,
        });
        expect(read.status, await read.text()).toBe(200);
      }
    }
    const odd = await fetch(url(0, "/vectors/v0"), { headers: { "x-quiver-consistency": "serial" } });
    expect(odd.status).toBe(400);
  });

  test("[Y1] all nodes refuse alike: one of two creations, one of two transactions, what max_vectors forbids", async () => {
    const settled = await Promise.allSettled(
      [0, 1, 2].map((i) =>
        at(i).createCollection({
          name: "once",
          dense_vector: { enabled: true, dimension: 3 },
          config: { max_vectors: 3 },
        }),
      ),
    );
    expect(settled.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    for (const each of settled)
      if (each.status === "rejected")
        expect(each.reason).toMatchObject({ code: "collection_already_exists" });
    const [a, b] = [at(0).collection("once"), at(1).collection("once")];
    const begun = await Promise.allSettled([a.transaction(), b.transaction()]);
    expect(begun.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    await expect(
      at(2)
        .collection("once")
        .upsert(records(0, 4).map(({ text: _, ...rest }) => rest)),
    ).rejects.toMatchObject({
      code: "max_vectors_exceeded",
    });
    await equal("once");
  });

  test("[Y1] a transaction goes on at other nodes; an index made at one is built at all", async () => {
    await make("moving");
    const database = everywhere();
    const collection = database.collection("moving");
    const transaction = await collection.transaction();
    await transaction.upsert(records(0, 50));
    await at(1).collection("moving").resumeTransaction(transaction.id).upsert(records(50, 50));
    await collection.createTextIndex({ name: "t" });
    await at(2).collection("moving").resumeTransaction(transaction.id).commit();
    for (const i of [0, 1, 2]) {
      await expect
        .poll(async () => (await at(i).collection("moving").search.text({ query: "word77" })).results[0]?.id)
        .toBe("v77");
    }
    await equal("moving");
  });

  test("[Y6] a node that was away catches up, and one that has lost its disk copies what it had", async () => {
    await make("away");
    const collection = at(0).collection("away");
    await collection.upsert(records(0, 10));
    await stop(2);
    await collection.upsert(records(10, 10));
    const transaction = await collection.transaction();
    await transaction.upsert(records(20, 5));
    await start(2);
    await expect.poll(() => at(2).collection("away").count()).toBe(20);
    await stop(2);
    rmSync(join(directory, "n3"), { recursive: true });
    await start(2);
    await transaction.commit();
    await expect.poll(async () => await at(2).collection("away").count()).toBe(25);
    await equal("away");
    await equal("own");
  });

  test("[Y6] a node that finds a damaged record serves the collection no longer, and copies it from another one", async () => {
    await make("damaged");
    await at(0).collection("damaged").upsert(records(0, 5));
    const { collections } = (await (
      await fetch(`http://127.0.0.1:${ports[0]}/cluster/status`)
    ).json()) as ClusterStatus;
    expect(collections.find(({ name }) => name === "damaged")?.replicas).toEqual(["n1", "n2", "n3"]);
    const places = Object.keys((await told(1)).places);
    await stop(1);
    const stores = join(directory, "n2", "collections");
    const [internalId] = readdirSync(stores).filter((name) => places.at(-1) === name);
    const file = join(stores, internalId, "data.mdb");
    const bytes = readFileSync(file);
    for (let at = bytes.indexOf("word0"); at >= 0; at = bytes.indexOf("word0", at + 1)) bytes[at] ^= 1;
    writeFileSync(file, bytes);
    await start(1);
    const read = () =>
      fetch(`http://127.0.0.1:${ports[1]}/vectordb/collections/damaged/vectors/v0`, {
        headers: { "x-quiver-hop": "1" },
      });
    const first = await read();
    expect(first.status, await first.text()).toBe(503);
    await expect.poll(async () => (await read()).status).toBe(200);
    await equal("damaged");
  });

  test("[Y7] a message larger than the log takes goes by the object store", async () => {
    await make("large");
    const text = "x".repeat(1_000);
    const many = records(0, 8_000).map((record) => ({ ...record, text: `${text} ${record.id}` }));
    const written = await fetch(`http://127.0.0.1:${ports[1]}/vectordb/collections/large/streaming/upsert`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ vectors: many }),
    });
    expect(written.status, await written.text()).toBe(200);
    await expect.poll(() => at(2).collection("large").count()).toBe(8_000);
    await equal("large");
  });

  test("[Y2] [Y5] without a quorum of servers writes and strict reads are 503, reads go on, and it recovers by itself", async () => {
    await make("quorum");
    await at(0).collection("quorum").upsert(records(0, 5));
    await Promise.all([nats.servers[0].stop("SIGKILL"), nats.servers[1].stop("SIGKILL")]);
    const impatient = connect(`http://127.0.0.1:${ports[0]}`, { retries: 0 });
    await expect(impatient.collection("quorum").upsert(records(5, 1))).rejects.toMatchObject({
      code: "log_unavailable",
    });
    expect(
      (await impatient.collection("quorum").search.dense({ query_vector: [1, 1, 0] })).results,
    ).toHaveLength(5);
    const strict = await fetch(`http://127.0.0.1:${ports[0]}/vectordb/collections/quorum/vectors/v0`, {
      headers: { "x-quiver-consistency": "strict" },
    });
    expect(strict.status).toBe(503);
    expect(strict.headers.get("retry-after")).not.toBeNull();
    await nats.begin(nats.servers.slice(0, 2));
    await nats.ready();
    await at(1).collection("quorum").upsert(records(6, 3));
    await equal("quorum");
  });

  test("[Y3] a directory that was alone, or is another node's, is refused and unchanged", async () => {
    const alone = join(directory, "alone");
    const database = await openDatabase({ dataDir: alone });
    await database.createCollection({ name: "c", dense_vector: { enabled: true, dimension: 3 } } as never);
    await database.close();
    const [port] = await freePorts(1);
    const config = {
      port,
      noAuth: true,
      logLevel: "silent" as const,
      cluster: nats.urls,
      clusterMonitors: nats.servers.map(({ monitor }) => monitor),
      advertise: `http://127.0.0.1:${port}`,
    };
    await expect(startServer({ ...config, dataDir: alone, node: "n9" })).rejects.toThrow(/alone/);
    await stop(1);
    await expect(startServer({ ...config, dataDir: join(directory, "n2"), node: "n9" })).rejects.toThrow(
      /node 'n2'/,
    );
    await start(1);
    await delay(0);
  });

  test("[Y8] [Y11] health is degraded while a node is away, and the status names it", async () => {
    await stop(1);
    await expect.poll(health).toMatchObject({ status: "degraded", cluster: { nodes_missing: 1 } });
    const status = (await (await fetch(`http://127.0.0.1:${ports[0]}/cluster/status`)).json()) as {
      nodes: { node: string; alive: boolean }[];
    };
    expect(status.nodes.find(({ node }) => node === "n2")).toMatchObject({ alive: false });
    const metrics = await (await fetch(`http://127.0.0.1:${ports[0]}/metrics`)).text();
    expect(metrics).toMatch(/quiver_cluster_node_alive\{node="n2"\} 0/);
    expect(metrics).toMatch(/quiver_cluster_publish_seconds 0\.\d+/);
    await start(1);
    await expect.poll(health).toEqual({ status: "ready" });
  });

  test("[Y8] a message of the catalog that nobody can read is told by health, and stops the catalog until it is removed", async () => {
    const nats = await connectNats({ servers: natsUrls() });
    try {
      const { seq } = await jetstream(nats).publish("quiver.catalog", "no change");
      await expect.poll(health).toMatchObject({ status: "degraded", cluster: { logs_not_read: 1 } });
      const making = make("after");
      await (await jetstreamManager(nats)).streams.deleteMessage("quiver-catalog", seq);
      await making;
      await expect.poll(health).toEqual({ status: "ready" });
      await equal("after");
    } finally {
      await nats.close();
    }
  });

  test("[Y9] a node that tells another hash for a position stops the writes of the collection, and nothing else, until a node's is adopted", async () => {
    await make("split");
    await at(0).collection("split").upsert(records(0, 3));
    const { places } = await told(0);
    const [internalId, [position, hash]] = Object.entries(places).at(-1) as [string, [number, string]];
    const other = {
      ...(await told(1)),
      node: "n9",
      places: { [internalId]: [position, hash.replace(/^./, (c) => (c === "0" ? "1" : "0"))] },
    };
    const nats = await connectNats({ servers: natsUrls() });
    try {
      const bucket = await new Kvm(nats).open("quiver-nodes");
      await bucket.put("n9", JSON.stringify(other));
      const write = () =>
        at(0)
          .collection("split")
          .upsert(records(3, 1))
          .then(
            () => "written",
            (error) => error.code,
          );
      await expect.poll(write).toBe("log_diverged");
      expect(await at(0).collection("split").count()).toBeGreaterThanOrEqual(3);
      await at(0).collection("own").upsert(records(100, 1));
      const status = (await (
        await fetch(`http://127.0.0.1:${ports[0]}/cluster/status`)
      ).json()) as ClusterStatus;
      expect(status.collections.find(({ name }) => name === "split")?.diverged).toMatch(/differ at position/);
      await bucket.delete("n9");
      await stop(0);
      await start(0);
      expect(await write()).toBe("log_diverged");
      const adopted = await fetch(`http://127.0.0.1:${ports[1]}/cluster/adopt/split`, { method: "POST" });
      expect(adopted.status, await adopted.text()).toBe(200);
      await at(0).collection("split").upsert(records(4, 2));
      await expect.poll(() => at(2).collection("split").has("v5")).toBe(true);
      await equal("split");
      await expect.poll(health).toEqual({ status: "ready" });
    } finally {
      await nats.close();
    }
  });

  test("[Y10] nodes give copies for the secret of the cluster only", async () => {
    for (const path of ["/cluster/copies/x", "/cluster/states/x"]) {
      expect((await fetch(`http://127.0.0.1:${ports[0]}${path}`)).status).toBe(403);
      const guessed = await fetch(`http://127.0.0.1:${ports[0]}${path}`, {
        headers: { "x-quiver-cluster-secret": "x".repeat(43) },
      });
      expect(guessed.status).toBe(403);
    }
  });
});

describe.skipIf(missing !== undefined)("servers that are not what a cluster needs", () => {
  test.each([
    ["too few", { count: 1 }, /3 replicas/],
    ["without sync", { sync: "2m" }, /sync_interval: always/],
    ["small messages", { extra: "max_payload: 1MB" }, /max_payload: 8MB/],
    ["without monitoring", { isSilent: true }, /--allow-unverified-sync/],
  ])("[Y12] %s: a start is refused with the remedy", async (_, options, reason) => {
    const directory = mkdtempSync(join(tmpdir(), "quiver-preflight-"));
    const servers = await NatsServers.start({ path: natsServer, directory, ...options });
    try {
      const [port] = await freePorts(1);
      const starting = startServer({
        dataDir: join(directory, "n1"),
        port,
        noAuth: true,
        logLevel: "silent",
        cluster: servers.urls,
        clusterMonitors: servers.servers.map(({ monitor }) =>
          "isSilent" in options ? "http://127.0.0.1:9" : monitor,
        ),
        node: "n1",
        advertise: `http://127.0.0.1:${port}`,
      });
      await expect(starting).rejects.toThrow(reason);
    } finally {
      await servers.stop();
      rmSync(directory, { recursive: true, force: true });
    }
  });
});
