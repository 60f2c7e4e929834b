// Is everything of the log applied, when a node restarts while it copies a collection?

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Database } from "@quiverdb/engine/database/contract";
import { openDatabase } from "@quiverdb/engine/database/database";
import type { Replica } from "@quiverdb/engine/database/replication";
import { QuiverError } from "@quiverdb/protocol/errors";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Cluster } from "../src/cluster.ts";
import { NatsServers } from "../src/dev/servers.ts";
import { missing, natsServer, remark } from "./nats.ts";

const quiet = { info() {}, warn() {}, error() {}, debug() {} };

describe.skipIf(missing !== undefined)(`a node alone in its cluster (${remark})`, () => {
  let directory: string;
  let nats: NatsServers;
  /** Whether the node's disk fails. */
  let isFailing = false;

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), "quiver-restart-"));
    nats = await NatsServers.start({ path: natsServer, directory });
  });
  afterAll(async () => {
    await nats?.stop();
    if (directory !== undefined) rmSync(directory, { recursive: true, force: true });
  });

  const open = async (): Promise<Database> => {
    const cluster = await Cluster.open({
      servers: nats.urls,
      monitors: nats.servers.map(({ monitor }) => monitor),
      node: "n1",
      url: "http://127.0.0.1:9",
      logs: 1,
      versionsKept: 100,
      allowUnverifiedSync: false,
      keepMs: 60_000,
      replaceMs: 3_600_000,
      version: "0.0.0",
      log: quiet,
    });
    const start = cluster.start.bind(cluster);
    cluster.start = (replica) => start(failing(replica));
    return openDatabase({ dataDir: join(directory, "n1"), replication: cluster });
  };
  const failing = (replica: Replica): Replica =>
    new Proxy(replica, {
      get(target, name) {
        if (name === "apply" && isFailing)
          return () => Promise.reject(new QuiverError("storage_failed", "The disk fails."));
        const value = Reflect.get(target, name);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });

  test("[Y6] what a node could not apply is applied after a restart", async () => {
    let database = await open();
    await database.createCollection({ name: "c", dense_vector: { enabled: true, dimension: 2 } });
    const upsert = (id: string) => database.collection("c").upsert([{ id, dense_values: [1, 2] }]);
    await upsert("first");
    isFailing = true;
    await expect(upsert("second")).rejects.toMatchObject({ details: { applied: "unknown" } });
    isFailing = false;
    // The node notes every second how far it is.
    await delay(2_500);
    await database.close();
    database = await open();
    await expect.poll(async () => (await database.collection("c").count()).count).toBe(2);
    await database.close();
  });
});
