// Do collections move between real nodes under load, without a failed request?

import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { connect } from "@quiverdb/client";
import type { RunningServer } from "@quiverdb/server/running-server";
import { startServer } from "@quiverdb/server/server";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePorts, NatsServers } from "../src/dev/servers.ts";
import type { CheckedCollection } from "../src/state-check.ts";
import type { ClusterStatus } from "../src/status.ts";
import { missing, natsServer, remark } from "./nats.ts";

describe.skipIf(missing !== undefined)(`a cluster of four nodes (${remark})`, () => {
  let directory: string;
  let nats: NatsServers;
  let ports: number[];
  const nodes: (RunningServer | undefined)[] = [];
  const names = ["c0", "c1", "c2", "c3"];
  const longCount = 160;

  const start = async (i: number) => {
    nodes[i] = await startServer({
      dataDir: join(directory, `n${i + 1}`),
      port: ports[i],
      noAuth: true,
      logLevel: "silent",
      cluster: nats.urls,
      clusterMonitors: nats.servers.map(({ monitor }) => monitor),
      clusterLogs: 2,
      clusterReplaceMs: 4_000,
      node: `n${i + 1}`,
      advertise: `http://127.0.0.1:${ports[i]}`,
    });
  };
  const stop = async (i: number) => {
    await nodes[i]?.close();
    nodes[i] = undefined;
  };
  const urlOf = (i: number) => `http://127.0.0.1:${ports[i]}`;
  const client = connect;
  const database = () =>
    client(
      ports.map((_, i) => urlOf(i)),
      { retryForMs: 30_000, timeoutMs: 60_000 },
    );
  const ask = async <T>(i: number, method: string, path: string): Promise<T> => {
    const answer = await fetch(urlOf(i) + path, { method });
    return (await answer.json()) as T;
  };
  const replicas = async (i: number) => {
    const { collections } = await ask<ClusterStatus>(i, "GET", "/cluster/status");
    return Object.fromEntries(collections.map((each) => [each.name, each.replicas]));
  };
  const outcomes = async (i: number) => {
    const { collections } = await ask<{ collections: CheckedCollection[] }>(i, "POST", "/cluster/check");
    return collections.map(({ outcome }) => outcome);
  };

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), "quiver-moves-"));
    nats = await NatsServers.start({ path: natsServer, directory });
    ports = await freePorts(5);
    for (const i of [0, 1, 2, 3]) await start(i);
  });
  afterAll(async () => {
    await Promise.all([0, 1, 2, 3, 4].map(stop));
    await nats?.stop();
    if (directory !== undefined) rmSync(directory, { recursive: true, force: true });
  });

  test("[Y13] nodes are removed, stay away and come under load; every request is answered, nothing is lost", async () => {
    const all = database();
    for (const name of names) {
      const made = await all.createCollection({
        name,
        tf_idf_options: { enabled: true },
        store_raw_text: true,
        ...(name === "c3" && { config: { shards: 3 } }),
      });
      await made.createTextIndex();
    }
    let isOver = false;
    const written = new Map(names.map((name) => [name, 0]));
    const load = names.map(async (name) => {
      const collection = database().collection(name);
      for (let i = 0; !isOver; i++) {
        await collection.upsert({ id: `v${i}`, text: `word${i}` });
        written.set(name, i + 1);
        expect((await collection.get(`v${i}`)).text).toBe(`word${i}`);
        expect((await collection.search.text({ query: `word${i}`, top_k: 1 })).results[0]?.id).toBe(`v${i}`);
      }
    });
    const failing = Promise.all(load);
    const poll = (act: () => Promise<unknown>) => expect.poll(act, { timeout: 60_000, interval: 300 });
    const without = (i: number, at: number) =>
      poll(async () => Object.values(await replicas(at)).every((each) => !each.includes(`n${i + 1}`)));
    try {
      const before = await replicas(0);
      expect(Object.values(before).every((each) => each.length === 3)).toBe(true);

      // A node that stays away is replaced by the one that did not have the collection.
      await stop(1);
      await Promise.race([without(1, 0).toBe(true), failing]);
      await start(1);

      // What is being exported stays until it is read: so much that it is not all on its way at once.
      const long = Array.from({ length: longCount }, (_, i) => ({
        id: `long${i}`,
        text: "pad ".repeat(25_000),
      }));
      for (let i = 0; i < longCount; i += 20) await all.collection("c3").upsert(long.slice(i, i + 20));
      const lines = connect(urlOf(1)).collection("c3").export()[Symbol.asyncIterator]();
      expect((await lines.next()).done).toBe(false);
      await ask(0, "POST", "/cluster/remove/n1");
      await Promise.race([without(0, 1).toBe(true), failing]);
      // Of three collections, and three shards of another.
      await poll(async () => Object.values(await replicas(1)).map((each) => each.length)).toEqual([
        3, 3, 3, 3, 3, 3,
      ]);
      await delay(6_000);
      let read = 1;
      while (!(await lines.next()).done) read++;
      expect(read).toBeGreaterThan(longCount);
      const collections = join(directory, "n1", "collections");
      await poll(async () => readdirSync(collections)).toEqual([]);
      await stop(0);
      // Its name is not used again; another node takes its place.
      await expect(start(0)).rejects.toThrow("was removed from the cluster");
      await start(4);
      const { nodes: known } = await ask<ClusterStatus>(1, "GET", "/cluster/status");
      expect(known.map(({ node }) => node).sort()).toEqual(["n2", "n3", "n4", "n5"]);
      // Of some collections one node has the only copy: it must come back to give it away.
      const solos: string[] = [];
      while (!(await replicas(1))[solos.at(-1) ?? ""]?.includes("n3")) {
        const name = `solo${solos.length}`;
        const config = { replication_factor: 1 };
        await all.createCollection({ name, tf_idf_options: { enabled: true }, config });
        solos.push(name);
      }
      const solo = solos.at(-1) as string;
      await all.collection(solo).upsert({ id: "only", text: "x" });
      await ask(1, "POST", "/cluster/remove/n3");
      await stop(2);
      await start(2);
      await Promise.race([without(2, 1).toBe(true), failing]);
      await stop(2);
      expect(await all.collection(solo).has("only")).toBe(true);
      for (const name of solos) await all.deleteCollection(name);

      // A node comes back at another address, and then without its directory.
      const served = (i: number) =>
        poll(async () => {
          const { nodes: told } = await ask<ClusterStatus>(1, "GET", "/cluster/status");
          const found = told.find(({ node }) => node === `n${i + 1}`);
          return [found?.alive, found?.url, found?.not_served];
        }).toEqual([true, urlOf(i), []]);
      await stop(3);
      [ports[3]] = await freePorts(1);
      await start(3);
      await Promise.race([served(3), failing]);
      await stop(3);
      rmSync(join(directory, "n4"), { recursive: true });
      await start(3);
      await Promise.race([served(3), failing]);
      expect(readdirSync(join(directory, "n4", "collections")).length).toBeGreaterThan(3);
    } finally {
      isOver = true;
    }
    await failing;
    await poll(() => outcomes(1)).toEqual(Array(6).fill("equal"));
    for (const name of names) {
      const count = written.get(name) as number;
      expect(count).toBeGreaterThan(5);
      expect(await all.collection(name).count()).toBe(name === "c3" ? count + longCount : count);
    }
    const refused = await ask<{ error: { code: string } }>(1, "POST", "/cluster/remove/n9");
    expect(refused.error.code).toBe("invalid_request");
  }, 300_000);
});
