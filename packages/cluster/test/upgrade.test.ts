// Are nodes upgraded one by one under load, without a failed request, and does one that cannot read what a later program writes lose nothing?

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { connect } from "@quiverdb/client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DevCluster } from "../src/dev/dev-cluster.ts";
import type { ClusterStatus } from "../src/status.ts";
import { missing, natsServer, remark } from "./nats.ts";

const cli = resolve(import.meta.dirname, "../../cli/src/main.ts");
const earlier = resolve(import.meta.dirname, "earlier-program.mjs");

describe.skipIf(missing !== undefined)(`a cluster of an earlier program (${remark})`, () => {
  let directory: string;
  let cluster: DevCluster;
  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), "quiver-upgrade-"));
    cluster = await DevCluster.start({
      nats: natsServer,
      directory,
      quiver: [process.execPath, "--import", earlier, cli],
      args: ["--no-console", "--log-level", "warn"],
      env: { QUIVER_TEST_EARLIER: "1" },
    });
  });
  afterAll(async () => {
    await cluster?.stop();
    if (directory !== undefined) rmSync(directory, { recursive: true, force: true });
  });

  test("[Y14] is upgraded node by node under load; with shards before the last one, that one waits and loses nothing", async () => {
    const database = () => connect(cluster.urls, { retryForMs: 30_000, timeoutMs: 60_000 });
    const make = async (name: string, config: object) => {
      const made = await connect(cluster.urls[0], { timeoutMs: 60_000 }).createCollection({
        name,
        tf_idf_options: { enabled: true },
        store_raw_text: true,
        config,
      });
      await made.createTextIndex();
    };
    await make("whole", {});
    let isOver = false;
    const written = new Map<string, number>();
    const load = async (name: string) => {
      const collection = database().collection(name);
      for (let i = 0; !isOver; i++) {
        await collection.upsert({ id: `v${i}`, text: `word${i}` });
        written.set(name, i + 1);
        expect((await collection.get(`v${i}`)).text).toBe(`word${i}`);
        expect((await collection.search.text({ query: `word${i}`, top_k: 1 })).results[0]?.id).toBe(`v${i}`);
      }
    };
    const upgrade = async (i: number) => {
      await cluster.nodes[i].stop();
      cluster.nodes[i].start([], { QUIVER_TEST_EARLIER: "" });
      await cluster.nodes[i].ready();
    };
    const status = async (i: number) =>
      (await (await fetch(`${cluster.urls[i]}/cluster/status`)).json()) as ClusterStatus;
    const loads = [load("whole")];
    try {
      await Promise.race([upgrade(0), ...loads]);

      await Promise.race([upgrade(1), ...loads]);

      await make("sharded", { shards: 3, replication_factor: 2 });
      loads.push(load("sharded"));
      const [, , last] = cluster.nodes;
      const health = async () => (await fetch(`${last.url}/health/ready`)).json();

      await expect
        .poll(health, { timeout: 20_000 })
        .toMatchObject({ status: "degraded", cluster: { logs_not_read: expect.any(Number) } });
      expect(last.hasSaid("this program knows forms up to 1. Update this node")).toBe(true);
      const before = new Map(written);
      const isGoingOn = () => [...written].every(([name, count]) => count > (before.get(name) ?? 0));
      await Promise.race([expect.poll(isGoingOn, { timeout: 30_000 }).toBe(true), ...loads]);
      // What it does not know, another node is asked for.

      await expect
        .poll(async () => (await fetch(`${last.url}/vectordb/collections/sharded`)).status)
        .toBe(200);

      await Promise.race([upgrade(2), ...loads]);

      await expect
        .poll(async () => new Set((await status(2)).nodes.map(({ catalog }) => catalog)).size)
        .toBe(1);
      await expect.poll(health).toMatchObject({ status: "ready" });
    } finally {
      isOver = true;
    }

    await Promise.all(loads);

    for (const [name, count] of written)
      for (const url of cluster.urls) {
        const answer = await fetch(`${url}/vectordb/collections/${name}/vectors/count`, {
          method: "POST",
          headers: { "content-type": "application/json", "x-quiver-consistency": "strict" },
          body: "{}",
        });
        expect(await answer.json()).toEqual({ count });
      }
    await expect
      .poll(async () => {
        const answer = await fetch(`${cluster.urls[2]}/cluster/check`, { method: "POST" });
        const { collections } = (await answer.json()) as { collections: { outcome: string }[] };
        return collections.map(({ outcome }) => outcome);
      })
      .toEqual(Array(4).fill("equal"));
  }, 180_000);
});
