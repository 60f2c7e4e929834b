// Are the shards of a collection deleted together, by its name alone, on all nodes alike?

import { existsSync, rmSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { QuiverError } from "@quiverdb/protocol/errors";
import { afterAll, beforeAll, expect, test } from "vitest";
import { logUnavailable } from "../../../cluster/src/errors.ts";
import { Reopening } from "../../src/database/reopening.ts";
import {
  type CatalogEntry,
  collectionIdOf,
  type Replica,
  type SharedChange,
} from "../../src/database/replication.ts";
import { collectionDirectory } from "../../src/process/data-directory.ts";
import { MemoryLog } from "./memory-log.ts";

let log: MemoryLog;
let replicas: Replica[];
beforeAll(async () => {
  log = await MemoryLog.open(2);
  replicas = log.nodes.map(({ replica }) => replica);
  for (const name of ["named", "moving", "elsewhere", "received", "dropped"])
    await log.databases[0].createCollection({
      name,
      dense_vector: { enabled: true, dimension: 2, auto_create_index: true },
      config: { shards: 2 },
    });
});
afterAll(() => log.close());

const entryOf = (name: string) =>
  replicas[0].entries().find(({ definition }) => definition.name === name) as CatalogEntry;
/** @param internalId of the collection or one of its shards */
const deletionOf = (name: string, internalId: string): SharedChange => ({
  kind: "deleteCollection",
  name,
  internalId: collectionIdOf(internalId),
});
let position = 1_000;
/** Makes a change on all nodes. @returns what each says */
async function change(change: SharedChange) {
  position++;
  const opId = String(position).padStart(32, "0");
  const made = [];
  for (const replica of replicas) made.push(await replica.applyChange(position, opId, 1, change));
  return made.map((applied) => (applied?.ok === false ? applied.error.code : "made"));
}

test("[Y15] nobody names a shard: it is not found, on any node", async () => {
  for (const database of log.databases)
    for (const name of ["named#0", "named#1"]) {
      const missing = { code: "collection_not_found", message: expect.stringContaining(`'${name}'`) };
      await expect(database.deleteCollection(name)).rejects.toMatchObject(missing);
      await expect(database.putAlias("alias", name)).rejects.toMatchObject(missing);
      expect(() => database.collection(name)).toThrow(expect.objectContaining(missing));
    }
  expect(await log.databases[1].collection("named").count()).toEqual({ count: 0 });
  // What an earlier program, or one that came late, has put into the log.
  const { internalId } = entryOf("named#0");
  expect(await change(deletionOf("named#0", internalId))).toEqual([
    "collection_not_found",
    "collection_not_found",
  ]);
  const replaced = { kind: "deleteCollection", name: "named", internalId: "c000" } as const;
  expect(await change(replaced)).toEqual(["collection_not_found", "collection_not_found"]);
  expect(await log.databases[1].collection("named").count()).toEqual({ count: 0 });
});

test("[Y13] a collection that is deleted while a node copies a shard of it is deleted there, too", async () => {
  const vectors = Array.from({ length: 50 }, (_, i) => ({ id: `r${i}`, dense_values: [i, 1] }));
  await log.databases[0].collection("moving").upsert(vectors);
  await log.settled();
  const [receiver, giver] = replicas;
  const first = structuredClone(entryOf("moving#0"));
  const entry = structuredClone(entryOf("moving#1"));
  expect(receiver.serves(entry.internalId)).toBe(false);
  await change({ kind: "setReplicas", internalId: entry.internalId, replicas: ["n0", "n1"] });
  const copy = await giver.copyOf(entry.internalId);
  const gate = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const slow = async function* () {
    for await (const piece of copy) {
      yield piece;
      begun.resolve();
      await gate.promise;
    }
  };
  const receiving = receiver.receive(entry.internalId, slow());
  await begun.promise;
  expect(await change(deletionOf("moving", entry.internalId))).toEqual(["made", "made"]);
  gate.resolve();
  await expect(receiving).rejects.toMatchObject({ code: "collection_not_found" });
  for (const replica of replicas) {
    expect(replica.serves(entry.internalId)).toBe(false);
    expect(replica.shardsOf("moving")).toBe(undefined);
  }
  // Another one of its name has nothing of it.
  const made = [first, entry].map((each) => ({
    ...each,
    internalId: each.internalId.replace(/^\w+/, "cfff"),
  }));
  const [one, two] = made;
  const created = { kind: "createCollection", entry: one, others: [two], indexes: {} } as const;
  expect(await change(created)).toEqual(["made", "made"]);
  for (const database of log.databases)
    expect(await database.collection("moving").count()).toEqual({ count: 0 });
});

test.each([
  ["elsewhere", "a first copy"],
  ["received", "another copy"],
])("[Y13] nor does one stay whose deletion comes while the store of %s, %s, is opened", async (name) => {
  const [receiver, giver] = replicas;
  const { internalId } = entryOf(`${name}#1`);
  await change({ kind: "setReplicas", internalId, replicas: ["n0", "n1"] });
  const directory = collectionDirectory(log.directories[0], internalId);
  const receive = async () => receiver.receive(internalId, await giver.copyOf(internalId));
  if (name === "received") {
    await receive();
    await receiver.leave(internalId, new QuiverError("not_ready", "It is to be received again."));
    rmSync(directory, { recursive: true });
  }
  expect(receiver.serves(internalId)).toBe(false);
  const received = Promise.allSettled([receive()]);
  // The directory gets its name, and the store is being opened.
  while (!existsSync(directory)) await setImmediate();
  expect(await change(deletionOf(name, internalId))).toEqual(["made", "made"]);
  await received;
  expect(receiver.serves(internalId)).toBe(false);
  expect(receiver.entryById(internalId)).toBe(undefined);
  expect(existsSync(directory)).toBe(false);
});

test("[Y13] a collection that is deleted while a node drops its shard of it, which has moved, is deleted there, too", async () => {
  const { internalId } = entryOf("dropped#0");
  await change({ kind: "setReplicas", internalId, replicas: ["n1"] });
  const dropped = replicas[0].drop(internalId);
  expect(await change(deletionOf("dropped", internalId))).toEqual(["made", "made"]);
  await dropped;
  expect(replicas[0].entryById(internalId)).toBe(undefined);
});

test("[Y13] a deletion does not wait for a copy to its name whose change comes behind it in the log", async () => {
  const [database] = log.databases;
  const made = log.change.bind(log);
  const gate = Promise.withResolvers<void>();
  const isReady = Promise.withResolvers<void>();
  log.change = async (held) => {
    isReady.resolve();
    await gate.promise;
    expect(await change(held)).toEqual(["made", "made"]);
  };
  const source = entryOf("named#0");
  expect(source).toBeDefined();
  const copying = database.copyCollection("named", {}, "copied");
  await isReady.promise;
  log.change = made;
  // Another node makes one of the name, and deletes it.
  const internalId = "ceeee";
  const entry = { ...source, internalId, definition: { ...source.definition, name: "copied" } };
  delete (entry.definition as { shard?: object }).shard;
  expect(await change({ kind: "createCollection", entry, indexes: {} })).toEqual(["made", "made"]);
  expect(await change({ kind: "deleteCollection", name: "copied", internalId })).toEqual(["made", "made"]);
  gate.resolve();
  expect(await copying).toMatchObject({ name: "copied", vector_count: 0 });
  expect(await database.collection("copied").count()).toEqual({ count: 0 });
});

test.each([
  ["late", false],
  ["later", true],
])(
  "[Y13] a copy of which it is unknown whether its change is in the log is there when the change comes: %s, after a restart %s",
  async (name, isRestarted) => {
    const changes: SharedChange[] = [];
    const made = log.change.bind(log);
    log.change = async (change) => {
      changes.push(change);
      throw logUnavailable("this node lags behind it", "unknown");
    };
    await expect(log.databases[0].copyCollection("named", {}, name)).rejects.toMatchObject({
      code: "log_unavailable",
    });
    log.change = made;
    expect(changes).toHaveLength(1);
    if (isRestarted) {
      const [node] = log.nodes;
      node.missed = (replica) => replica.applyChange(position + 1, "e".repeat(32), 1, changes[0]);
      await log.reopen(0);
      replicas[0] = node.replica;
    }
    expect(await change(changes[0])).toEqual(["made", "made"]);
    expect(await log.databases[0].collection(name).count()).toEqual({ count: 0 });
  },
);

test("[Y13] a node that opens its catalog again, after the disk failed, keeps in it what only other nodes hold", async () => {
  const [replica] = replicas;
  const served = new Map<string, object>();
  const elsewhere = new Map<string, CatalogEntry>();
  for (const entry of replica.entries()) {
    const { name } = entry.definition;
    if (replica.serves(entry.internalId)) served.set(name, { name, entry });
    else elsewhere.set(name, entry);
  }
  expect(elsewhere.size).toBeGreaterThan(0);
  const changed: object[] = [];
  let reopened: Promise<void> | undefined;
  const collections = { served, elsewhere, quarantined: new Map(), changing: new Map() };
  const reopening = new Reopening(collections as never, {
    dataDir: log.directories[0],
    writer: { changeCatalog: async (request: object) => void changed.push(request) } as never,
    background: {
      run: (_: string, open: () => Promise<void>) => {
        reopened = open();
      },
    } as never,
    log: { info: () => {}, warn: () => {}, error: () => {} },
    isClosing: () => false,
    reopenCatalog: async () => {},
  });
  reopening.reopen(null);
  await reopened;
  expect(changed).toEqual([]);
});
