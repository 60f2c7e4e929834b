// Does the log of the catalog stay short, and does a node that misses its beginning have the same catalog?

import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import type { Database } from "@quiverdb/engine/database/contract";
import { openDatabase } from "@quiverdb/engine/database/database";
import {
  type CatalogEntry,
  type CatalogState,
  encodeMessage,
  type Replica,
} from "@quiverdb/engine/database/replication";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Cluster } from "../src/cluster.ts";
import { NatsServers } from "../src/dev/servers.ts";
import { catalogStream, logStream, logSubject } from "../src/names.ts";
import { missing, natsServer, remark } from "./nats.ts";

const quiet = { info() {}, warn() {}, error() {}, debug() {} };
const kept = { messages: 5, everyMs: 0 };

describe.skipIf(missing !== undefined)(`the log of the catalog (${remark})`, () => {
  let directory: string;
  let nats: NatsServers;
  const replicas = new Map<string, Replica>();
  let cluster: Cluster;

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), "quiver-catalog-"));
    nats = await NatsServers.start({ path: natsServer, directory });
  });
  afterAll(async () => {
    await nats?.stop();
    if (directory !== undefined) rmSync(directory, { recursive: true, force: true });
  });

  const open = async (node: string): Promise<Database> => {
    const opened = await Cluster.open({
      servers: nats.urls,
      monitors: nats.servers.map(({ monitor }) => monitor),
      node,
      url: "http://127.0.0.1:9",
      logs: 1,
      versionsKept: 100,
      allowUnverifiedSync: false,
      // A node that is away does not hold anything up.
      keepMs: 100,
      replaceMs: 3_600_000,
      version: "0.0.0",
      log: quiet,
      keptOfCatalog: kept,
    });
    cluster = opened;
    const start = opened.start.bind(opened);
    opened.start = (replica) => {
      replicas.set(node, replica);
      return start(replica);
    };
    return openDatabase({ dataDir: join(directory, node), replication: opened });
  };
  const make = (database: Database, name: string) =>
    database.createCollection({ name, dense_vector: { enabled: true, dimension: 2 } });
  const stateOf = (node: string) => replicas.get(node)?.catalogState() as CatalogState;
  const sorted = ({ entries, credentials, ...place }: CatalogState) => ({
    ...place,
    entries: entries.toSorted((a, b) => (a.internalId < b.internalId ? -1 : 1)),
    credentials: credentials.toSorted(([a], [b]) => (a < b ? -1 : 1)),
  });
  const firstInLog = async () => {
    const connection = await connect({ servers: nats.urls });
    try {
      return (await (await jetstreamManager(connection)).streams.info(catalogStream)).state.first_seq;
    } finally {
      await connection.close();
    }
  };
  /** Makes changes until the log no longer has those up to a position. */
  const shortenBehind = async (database: Database, position: number) => {
    for (let i = 0; (await firstInLog()) <= position; i++) {
      await database.credentials.put(`key-${i % 7}`, { i });
      expect(i).toBeLessThan(2_000);
    }
  };

  test("[Y6] a new node, and one that was away for long, take a state of the catalog and go on from it", async () => {
    const one = await open("n1");
    for (const name of ["a", "b"]) await make(one, name);
    await one.putAlias("name", "a");
    await shortenBehind(one, stateOf("n1").position);
    let two = await open("n2");
    await make(one, "later");
    const isSame = () =>
      expect.poll(() => sorted(stateOf("n2")), { timeout: 20_000 }).toEqual(sorted(stateOf("n1")));
    await isSame();
    expect(two.aliases()).toEqual([{ alias: "name", collection: "a" }]);
    expect(two.listCollections().map(({ name }) => name)).toEqual(["a", "b", "later"]);

    const { position } = stateOf("n2");
    await two.close();
    await one.putAlias("name", "b");
    await one.deleteCollection("a");
    await make(one, "a");
    await one.credentials.delete("key-1");
    await one.credentials.put("key-2", "another");
    await shortenBehind(one, position + 10);
    two = await open("n2");
    await one.putAlias("other", "a");
    await isSame();
    expect(two.aliases()).toEqual(one.aliases());
    // What it had of the deleted collection is gone.
    const ids = new Set(stateOf("n1").entries.map(({ internalId }) => internalId));
    for (const file of readdirSync(join(directory, "n2", "collections"))) expect(ids).toContain(file);
    await two.close();
    await one.close();
  }, 120_000);

  test("[Y14] a message of a later program stops a node, which goes on where it can read on", async () => {
    const database = await open("n3");
    await make(database, "form");
    const { internalId } = (replicas.get("n3") as Replica).entryOf("form") as CatalogEntry;
    const collection = database.collection("form");
    await collection.upsert([{ id: "a", dense_values: [1, 2] }]);
    const bytes = encodeMessage({ epoch: 0, timeMs: 1, opId: "7".repeat(32), requests: [] });
    bytes[0]++;
    const end = bytes.length - 4;
    new DataView(bytes.buffer, bytes.byteOffset).setUint32(end, crc32(bytes.subarray(0, end)), true);
    const connection = await connect({ servers: nats.urls });
    try {
      const { seq } = await jetstream(connection).publish(logSubject(0, internalId), bytes);
      await expect.poll(() => cluster.degraded(), { timeout: 20_000 }).toMatchObject({ logs_not_read: 1 });
      const write = () => collection.upsert([{ id: "b", dense_values: [1, 2] }]);
      await expect(write()).rejects.toMatchObject({
        code: "not_ready",
        message: expect.stringContaining("Update this node"),
      });
      // Nothing is lost meanwhile: it goes on when the message can be read, here because it is gone.
      await (await jetstreamManager(connection)).streams.deleteMessage(logStream(0), seq);
      await expect
        .poll(() => cluster.degraded() ?? {}, { timeout: 20_000 })
        .not.toHaveProperty("logs_not_read");
      await write();
      expect([collection.has("a"), collection.has("b")]).toEqual([true, true]);
    } finally {
      await connection.close();
      await database.close();
    }
  }, 60_000);
});
