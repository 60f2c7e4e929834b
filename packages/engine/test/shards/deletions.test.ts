// Are the shards of a collection deleted together, by its name alone, on all nodes alike?

import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type CatalogEntry,
  collectionIdOf,
  type Replica,
  type SharedChange,
} from "../../src/database/replication.ts";
import { MemoryLog } from "./memory-log.ts";

let log: MemoryLog;
let replicas: Replica[];
beforeAll(async () => {
  log = await MemoryLog.open(2);
  replicas = log.nodes.map(({ replica }) => replica);
  for (const name of ["named", "moving"])
    await log.databases[0].createCollection({
      name,
      dense_vector: { enabled: true, dimension: 2, auto_create_index: true },
      config: { shards: 2 },
    });
});
afterAll(() => log.close());

const entryOf = (name: string) =>
  replicas[0].entries().find(({ definition }) => definition.name === name) as CatalogEntry;
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
  const stale = {
    kind: "deleteCollection",
    name: "named#0",
    internalId: collectionIdOf(internalId),
  } as const;
  expect(await change(stale)).toEqual(["collection_not_found", "collection_not_found"]);
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
  const internalId = collectionIdOf(entry.internalId);
  expect(await change({ kind: "deleteCollection", name: "moving", internalId })).toEqual(["made", "made"]);
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
