// Are snapshots of one version, and restores all or nothing, with everything else that a database does at the same time?

import { execFileSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ErrorCode } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { Snapshot } from "@quiverdb/protocol/shapes/snapshot";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { runAndKill } from "../../../test/database/killed-process.ts";
import type { Collection, Database, DatabaseOptions } from "../contract.ts";
import { openDatabase } from "../database.ts";
import { SnapshotDirectory } from "./snapshot-directory.ts";

let directory: string;
let database: Database;

const open = async (options: Partial<DatabaseOptions> = {}) => {
  database = await openDatabase({ dataDir: directory, ...options });
};
const reopen = async () => {
  await database.close();
  await open();
};

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "quiver-snapshots-"));
  await open();
});
afterEach(async () => {
  await database.close();
  rmSync(directory, { recursive: true, force: true });
});

async function makeCollection(name = "c"): Promise<Collection> {
  await database.createCollection({
    name,
    dense_vector: { enabled: true, dimension: 2, auto_create_index: true },
    sparse_vector: { enabled: false },
    tf_idf_options: { enabled: true },
    config: {},
    store_raw_text: true,
  });
  const collection = database.collection(name);
  await collection.createIndex("tf-idf", {
    name: "t",
    sample_threshold: 1,
    k1: 1.2,
    b: 0.75,
    language: "none",
  });
  return collection;
}

const records = (round: number, count: number) =>
  Array.from({ length: count }, (_, i) => ({
    id: `v${i}`,
    document_id: `d${i % 3}`,
    dense_values: [round, i],
    text: `round${round}`,
    metadata: { round },
  }));

const lines = (collection: Collection): string[] =>
  Array.from(collection.exportVectors(), (each) => each.toJson());

const restore = (name: string, snapshots: readonly Snapshot[], overwrite = false) =>
  database.restoreCollection(name, { snapshots: snapshots.map(({ id }) => id), overwrite });

const rejects = (promise: Promise<unknown>, code: ErrorCode) =>
  expect(promise).rejects.toMatchObject({ code });

const filesIn = (what: "snapshots" | "collections") => readdirSync(join(directory, what));

describe("making", () => {
  it("[B1] a snapshot that is created under concurrent writes has exactly one version", async () => {
    const collection = await makeCollection();
    let isOver = false;
    let round = 0;
    const writing = (async () => {
      while (!isOver) {
        round++;
        await collection.upsert(records(round, 100));
      }
    })();
    const made: Snapshot[] = [];
    for (let i = 0; i < 4; i++) {
      const acknowledged = round - 1;
      const snapshot = await database.snapshots.create("c");
      // It contains everything that was acknowledged before the request.
      expect(snapshot.version_number).toBeGreaterThanOrEqual(acknowledged);
      made.push(snapshot);
    }
    isOver = true;
    await writing;
    for (const snapshot of made) {
      const restored = await restore("restored", [snapshot], true);
      expect(restored).toMatchObject({ version_number: snapshot.version_number, hash: snapshot.hash });
      const copy = database.collection("restored");
      expect(copy.currentVersion()).toMatchObject({
        hash: snapshot.hash,
        vector_count: snapshot.vector_count,
      });
      expect(collection.version(snapshot.hash).version_number).toBe(snapshot.version_number);
      // Every round is one version: the snapshot has all of one round and nothing of another.
      const of = snapshot.version_number;
      expect(lines(copy)).toEqual(
        of === 0 ? [] : records(of, 100).map((each) => JSON.stringify(toStored(each))),
      );
    }
  });

  const toStored = (record: ReturnType<typeof records>[number]) => ({
    id: record.id,
    document_id: record.document_id,
    dense_values: record.dense_values,
    sparse_values: null,
    sparse_indices: null,
    text: record.text,
    metadata: record.metadata,
  });

  it("[B9] snapshots of a collection, and jobs at a time, have a limit", async () => {
    const collection = await makeCollection();
    await collection.upsert(records(1, 2_000));
    const jobs = Array.from({ length: limits.snapshotJobsMax }, () => database.snapshots.create("c"));
    await rejects(database.snapshots.create("c"), "overloaded");
    await rejects(restoreFirstOf(jobs), "snapshot_not_found");
    expect(database.snapshots.list("c").running).toHaveLength(limits.snapshotJobsMax);
    const [first] = await Promise.all(jobs);
    expect(database.snapshots.list("c").running).toEqual([]);
    await database.close();
    for (let i = jobs.length; i < limits.snapshotsPerCollectionMax; i++) copySnapshot(first, `x${i}`);
    await open();
    await rejects(database.snapshots.create("c"), "invalid_request");
    database.snapshots.delete("c", "x50");
    await database.snapshots.create("c");
    await rejects(database.snapshots.create("nothing"), "collection_not_found");
  });

  /** Makes a copy of a snapshot under another id, while no database has the directory open. */
  const copySnapshot = (snapshot: Snapshot, id: string) => {
    const folder = new SnapshotDirectory(directory);
    copyFileSync(folder.pathOf(snapshot.id), folder.unfinishedPathOf(id));
    folder.publish({ ...snapshot, id });
  };

  /** Requests a restore while all slots are taken; the id does not belong to a snapshot yet. */
  const restoreFirstOf = (_: unknown) => database.restoreCollection("x", { snapshots: ["nothing"] });

  it("[B7] deleting the collection, and closing the database, end a snapshot that is being made", async () => {
    const collection = await makeCollection();
    for (let i = 0; i < 5; i++)
      await collection.upsert(records(i, 2_000).map((each) => ({ ...each, id: `${i}${each.id}` })));
    const made = database.snapshots.create("c");
    const refused = rejects(made, "collection_not_found");
    await database.deleteCollection("c");
    await refused;
    expect(filesIn("snapshots")).toEqual([]);
    expect(filesIn("collections")).toEqual([]);
    await (await makeCollection()).upsert(records(1, 5_000));
    const cut = rejects(database.snapshots.create("c"), "shutting_down");
    await database.close();
    await cut;
    expect(filesIn("snapshots")).toEqual([]);
    await open();
  });

  it("[B6] snapshots survive a restart and their collection; leftovers of an interrupted one are removed at start", async () => {
    const collection = await makeCollection();
    await collection.upsert(records(1, 50));
    const before = lines(collection);
    const snapshot = await database.snapshots.create("c");
    writeFileSync(join(directory, "snapshots", "0123.qbackup.new"), "begun, and never finished");
    writeFileSync(join(directory, "snapshots", "0124.json.new"), "{");
    await database.deleteCollection("c");
    await reopen();
    expect(database.snapshots.list("c").snapshots).toEqual([snapshot]);
    expect(filesIn("snapshots").sort()).toEqual([`${snapshot.id}.json`, `${snapshot.id}.qbackup`]);
    await restore("c", [snapshot]);
    expect(lines(database.collection("c"))).toEqual(before);
    database.snapshots.delete("c", snapshot.id);
    expect(filesIn("snapshots")).toEqual([]);
    expect(() => database.snapshots.get("c", snapshot.id)).toThrow(
      expect.objectContaining({ code: "snapshot_not_found" }),
    );
    await reopen();
    expect(database.snapshots.listAll()).toEqual({ snapshots: [], running: [] });
  });

  it("[B10] a snapshot that is deleted during its download is sent whole, and is not found if that did not begin", async () => {
    await (await makeCollection()).upsert(records(1, 500));
    const { id, size_bytes } = await database.snapshots.create("c");
    const [whole, part, late] = Array.from({ length: 3 }, () => database.snapshots.read("c", id));
    const streams = [whole.stream(0, size_bytes), part.stream(7, size_bytes)];
    database.snapshots.delete("c", id);
    const lengths = streams.map(async (stream) => Buffer.concat(await stream.toArray()).length);
    expect(await Promise.all(lengths)).toEqual([size_bytes, size_bytes - 7]);
    for (const start of [0, 7])
      expect(() => late.stream(start, size_bytes)).toThrow(
        expect.objectContaining({ code: "snapshot_not_found" }),
      );
  });

  it("[B6] on a full disk a snapshot, an upload and a restore fail and leave nothing behind", async (test) => {
    const small = join(directory, "small");
    mkdirSync(small);
    try {
      execFileSync("mount", ["-t", "tmpfs", "-o", "size=64m", "tmpfs", small], { stdio: "ignore" });
    } catch {
      test.skip("a small file system cannot be mounted here");
    }
    try {
      const tight = await openDatabase({ dataDir: small });
      try {
        const outer = database;
        database = tight;
        const collection = await makeCollection();
        database = outer;
        for (let i = 0; i < 6; i++)
          await collection.upsert([{ id: `big${i}`, text: noise(1_000_000), dense_values: [i, i] }]);
        // When the indexes are complete and their last checkpoints are written, the background takes none of the room measured below.
        await collection.load();
        await collection.unload();
        await collection.load();
        const before = lines(collection);
        const snapshot = await tight.snapshots.create("c");
        const file = tight.snapshots.read("c", snapshot.id);
        expect(snapshot.size_bytes).toBeGreaterThan(3_000_000);
        writeFileSync(join(small, "ballast"), Buffer.alloc(roomOn(small) - 2_000_000));
        await rejects(tight.snapshots.create("c"), "storage_full");
        await rejects(tight.snapshots.receive(file.stream(0, snapshot.size_bytes)), "storage_full");
        // LMDB takes a write that the disk cuts short for an I/O error.
        for (const [name, overwrite] of [
          ["d", false],
          ["c", true],
        ] as const)
          await expect(
            tight.restoreCollection(name, { snapshots: [snapshot.id], overwrite }),
          ).rejects.toMatchObject({ code: expect.stringMatching(/^storage_(full|failed)$/) });
        expect(readdirSync(join(small, "snapshots"))).toHaveLength(2);
        expect(readdirSync(join(small, "collections"))).toHaveLength(1);
        expect(lines(collection)).toEqual(before);
        rmSync(join(small, "ballast"));
        await tight.restoreCollection("d", { snapshots: [snapshot.id] });
        expect(lines(tight.collection("d"))).toEqual(before);
      } finally {
        await tight.close();
      }
    } finally {
      execFileSync("umount", [small]);
    }
  });

  /** Text that does not pack well. */
  const noise = (length: number) =>
    Array.from({ length }, () => String.fromCharCode(33 + Math.floor(Math.random() * 90))).join("");
  const roomOn = (path: string) =>
    1024 * Number(execFileSync("df", ["--output=avail", path], { encoding: "utf8" }).split("\n")[1]);
});

describe("restoring", () => {
  it("[B2] records, version, hash, versions and indexes are those of the snapshot; there are no transactions", async () => {
    const collection = await makeCollection();
    await collection.upsert(records(1, 100));
    await collection.delete("v7");
    const done = await collection.beginTransaction();
    await collection.transaction(done.transaction_id).upsert(records(2, 10));
    await collection.transaction(done.transaction_id).commit();
    await collection.beginTransaction();
    const expected = {
      lines: lines(collection),
      versions: collection.versions(),
      detail: { ...(await collection.describe()), name: "copy", disk_bytes: expect.any(Number) },
      found: await collection.search("text", { query: "round2", top_k: 20 }),
      indexes: Object.keys(collection.indexes()),
    };
    const document = (await collection.byDocument("d1")).map((each) => each.toRecord().id);
    const snapshot = await database.snapshots.create("c");
    await restore("copy", [snapshot]);
    for (let i = 0; i < 2; i++) {
      const copy = database.collection("copy");
      await copy.indexed();
      expect({
        lines: lines(copy),
        versions: copy.versions(),
        detail: await copy.describe(),
        found: await copy.search("text", { query: "round2", top_k: 20 }),
        indexes: Object.keys(copy.indexes()),
      }).toEqual(expected);
      expect(copy.transactions().transactions).toEqual([]);
      expect((await copy.byDocument("d1")).map((each) => each.toRecord().id)).toEqual(document);
      await reopen();
    }
    const copy = database.collection("copy");
    await copy.upsert(records(3, 1));
    await collectionAgain().upsert(records(3, 1));
    expect(copy.currentVersion().hash).toBe(collectionAgain().currentVersion().hash);
    expect((await copy.beginTransaction()).transaction_id).toBeTruthy();
  });

  const collectionAgain = () => database.collection("c");

  it("[B5] an existing name is rejected without overwrite; with it the collection is replaced in one step", async () => {
    const collection = await makeCollection();
    await collection.upsert(records(1, 20));
    const snapshot = await database.snapshots.create("c");
    const before = lines(collection);
    await collection.upsert(records(2, 30));
    await rejects(restore("c", [snapshot]), "collection_already_exists");
    expect(collection.currentVersion().vector_count).toBe(30);
    const exported = collection.exportVectors();
    await restore("c", [snapshot], true);
    expect(() => [...exported]).toThrow(expect.objectContaining({ code: "collection_not_found" }));
    expect(lines(database.collection("c"))).toEqual(before);
    await rejects(collection.upsert(records(3, 1)), "collection_not_found");
    expect(filesIn("collections")).toHaveLength(1);
    await database.collection("c").upsert(records(4, 1));
    await reopen();
    expect(database.collection("c").currentVersion().version_number).toBe(snapshot.version_number + 1);
  });

  it("[B7] creating, deleting and restoring one name at once leaves one of them to be done", async () => {
    const collection = await makeCollection();
    await collection.upsert(records(1, 1_500));
    const snapshot = await database.snapshots.create("c");
    const restored = restore("new", [snapshot]);
    await rejects(makeCollection("new"), "collection_already_exists");
    await rejects(restore("new", [snapshot]), "collection_already_exists");
    await rejects(database.deleteCollection("new"), "collection_not_found");
    await restored;
    const replaced = rejects(restore("new", [snapshot], true), "collection_not_found");
    await database.deleteCollection("new");
    await replaced;
    expect(database.listCollections().map(({ name }) => name)).toEqual(["c"]);
    expect(filesIn("collections")).toHaveLength(1);
    const cut = rejects(restore("new", [snapshot]), "shutting_down");
    await database.close();
    await cut;
    await open();
    expect(database.listCollections().map(({ name }) => name)).toEqual(["c"]);
    expect(filesIn("collections")).toHaveLength(1);
  });

  it("[B4] a file that was damaged on the disk is rejected, and nothing is changed", async () => {
    const collection = await makeCollection();
    await collection.upsert(records(1, 20));
    const snapshot = await database.snapshots.create("c");
    const version = snapshot.version_number;
    await collection.upsert(records(2, 20));
    const changes = await database.snapshots.create("c", { since_version: version });
    const before = lines(collection);
    const path = join(directory, "snapshots", `${changes.id}.qbackup`);
    expect(existsSync(path)).toBe(true);
    writeFileSync(path, "QUIVERBK, or not");
    await rejects(restore("c", [snapshot, changes], true), "data_corrupted");
    await rejects(restore("d", [snapshot, changes]), "data_corrupted");
    expect(lines(collection)).toEqual(before);
    expect(filesIn("collections")).toHaveLength(1);
  });

  it("[B4] a damaged record in the store fails the snapshot, which then does not exist", async () => {
    const collection = await makeCollection();
    const secret = "a text that is found again in the file";
    await collection.upsert([{ id: "a", text: secret }]);
    await database.close();
    const [id] = filesIn("collections");
    const store = join(directory, "collections", id, "data.mdb");
    const { readFileSync } = await import("node:fs");
    const bytes = readFileSync(store);
    for (let at = bytes.indexOf(secret); at >= 0; at = bytes.indexOf(secret, at + 1)) bytes[at] ^= 1;
    writeFileSync(store, bytes);
    await open();
    await rejects(database.snapshots.create("c"), "data_corrupted");
    expect(filesIn("snapshots")).toEqual([]);
  });

  const kills = 4;
  it(`[B5] [R7] ${kills} kills in the middle of a restore leave the old collection or the new one, and nothing else`, async () => {
    const collection = await makeCollection();
    await collection.upsert(records(1, 1_500));
    const even = await database.snapshots.create("c");
    await collection.upsert(records(2, 1_000));
    const odd = await database.snapshots.create("c");
    await database.close();
    const program = new URL("../../../test/database/restoring-process.ts", import.meta.url);
    let last = 0;
    for (let kill = 0; kill < kills; kill++) {
      last = await runAndKill(program, directory, last + 1, 10 + 100 * kill);
      await open();
      const after = database.collection("c");
      const candidates = [last, last + 1].map((round) => (round % 2 === 0 ? even : odd).hash);
      expect(candidates).toContain(after.currentVersion().hash);
      const isEven = after.currentVersion().hash === even.hash;
      expect(lines(after)).toHaveLength(1_500);
      expect(after.get("v0").toRecord().dense_values).toEqual([isEven ? 1 : 2, 0]);
      expect(filesIn("collections")).toHaveLength(1);
      expect(database.snapshots.list("c").snapshots).toEqual([even, odd]);
      await database.close();
      if (isEven !== (last % 2 === 0)) last++;
    }
    await open();
  });
});

it("[B5] a snapshot that is deleted just before its restore is reported as missing", async () => {
  const collection = await makeCollection();
  await collection.upsert(records(1, 10));
  const snapshot = await database.snapshots.create("c");
  const restored = restore("copy", [snapshot]);
  database.snapshots.delete("c", snapshot.id);
  await rejects(restored, "snapshot_not_found");
  expect(database.listCollections().map(({ name }) => name)).toEqual(["c"]);
});
