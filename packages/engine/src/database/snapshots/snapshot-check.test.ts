// Do check, repair and a start detect damaged and missing snapshot files?

import {
  copyFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Snapshot } from "@quiverdb/protocol/shapes/snapshot";
import { afterEach, beforeEach, expect, it } from "vitest";
import { checkDirectory } from "../check/directory.ts";
import { repairDirectory } from "../check/repair.ts";
import type { Database } from "../contract.ts";
import { openDatabase } from "../database.ts";
import { entryText } from "./snapshot-entry.ts";

let root: string;
let directory: string;
let database: Database | undefined;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "quiver-check-snapshots-"));
  directory = join(root, "data");
});
afterEach(async () => {
  await database?.close();
  rmSync(root, { recursive: true, force: true });
});

async function open(dataDir = directory): Promise<Database> {
  await database?.close();
  database = await openDatabase({ dataDir, builderThreads: 1 });
  return database;
}

async function shut(): Promise<void> {
  await database?.close();
  database = undefined;
}

const record = (i: number, round = 0) => ({
  id: `v${i}`,
  metadata: { i, round },
  sparse_values: [[i % 7, 1 + round]],
});

/** Two full snapshots and two incremental ones after the first of them, of two collections, one of which is deleted. */
async function fill(): Promise<Record<"full" | "changes" | "more" | "other", Snapshot>> {
  const { snapshots } = await open();
  const collectionOf = async (name: string) => {
    await (database as Database).createCollection({
      name,
      dense_vector: { enabled: false },
      sparse_vector: { enabled: true },
      tf_idf_options: { enabled: false },
      config: {},
    });
    const collection = (database as Database).collection(name);
    await collection.upsert(Array.from({ length: 50 }, (_, i) => record(i) as never));
    return collection;
  };
  const c = await collectionOf("c");
  const full = await snapshots.create("c");
  await c.upsert([record(1, 1) as never]);
  const changes = await snapshots.create("c", { since_version: full.version_number, since_hash: full.hash });
  await c.upsert([record(2, 2) as never]);
  const more = await snapshots.create("c", {
    since_version: changes.version_number,
    since_hash: changes.hash,
  });
  await collectionOf("gone");
  const other = await snapshots.create("gone");
  await (database as Database).deleteCollection("gone");
  await shut();
  return { full, changes, more, other };
}

const fileOf = ({ id }: Snapshot, dataDir = directory) => join(dataDir, "snapshots", `${id}.qbackup`);
const entryOf = ({ id }: Snapshot) => join(directory, "snapshots", `${id}.json`);

function flip(path: string, at = statSync(path).size >> 1): void {
  const bytes = readFileSync(path);
  bytes[at] ^= 1;
  writeFileSync(path, bytes);
}

const found = async (collection?: string) =>
  (await checkDirectory(directory, { collection })).findings
    .map(({ kind, snapshot_id, derived }) => `${kind} ${snapshot_id}${derived ? " derived" : ""}`)
    .sort();

it("[Z1] the files of snapshots are read to their end, offline and live, and undamaged ones have no findings", async () => {
  const { full } = await fill();
  // Leftovers of a kill belong to no snapshot.
  writeFileSync(join(directory, "snapshots", "ab.qbackup.new"), "begun");
  writeFileSync(join(directory, "snapshots", "ab.json"), entryText({ ...full, id: "ab" }));
  expect(await checkDirectory(directory)).toMatchObject({ findings: [], snapshots: 4 });
  expect(await checkDirectory(directory, { collection: "c" })).toMatchObject({ findings: [], snapshots: 3 });
  expect(await checkDirectory(directory, { collection: "gone" })).toMatchObject({
    snapshots: 1,
    collections: [],
  });
  await expect(checkDirectory(directory, { collection: "none" })).rejects.toMatchObject({
    code: "collection_not_found",
  });
  const { snapshots } = await open();
  expect(await snapshots.check()).toMatchObject({ findings: [], snapshots: 4 });
  expect(await snapshots.check("gone")).toMatchObject({ findings: [], snapshots: 1 });
  await expect(snapshots.check("none")).rejects.toMatchObject({ code: "collection_not_found" });
});

it("[Z1] snapshots that are created and deleted during a live check are not findings", async () => {
  await fill();
  const { snapshots } = await open();
  let isOver = false;
  const changing = (async () => {
    while (!isOver) snapshots.delete("c", (await snapshots.create("c")).id);
  })();
  for (let i = 0; i < 2; i++) expect((await snapshots.check()).findings).toEqual([]);
  isOver = true;
  await changing;
});

it("[Z1] [Z2] a changed bit, a missing file, an incremental one without its base and a stray are found, each by its kind", async () => {
  const { full, changes, more, other } = await fill();
  flip(fileOf(changes));
  expect(await found()).toEqual([`snapshot ${changes.id}`, `snapshot_chain ${more.id}`].sort());
  rmSync(fileOf(other));
  writeFileSync(join(directory, "snapshots", "notes.txt"), "");
  expect(await found()).toEqual(
    [
      `snapshot ${changes.id}`,
      `snapshot_chain ${more.id}`,
      `snapshot_missing ${other.id}`,
      "snapshot_stray undefined",
    ].sort(),
  );
  expect(await found("gone")).toEqual([`snapshot_missing ${other.id}`]);
  // An intact file of another snapshot.
  renameSync(fileOf(more), fileOf(full));
  expect(await found("c")).toEqual(
    [`snapshot ${full.id}`, `snapshot ${changes.id}`, `snapshot_missing ${more.id}`].sort(),
  );
});

it("[Z1] [B10] an entry that is damaged or gone is found, and drawn again from the file at the next start", async () => {
  const { full, changes, more, other } = await fill();
  const text = readFileSync(entryOf(full), "utf8");
  writeFileSync(entryOf(full), text.replace(/"version_number":\d+/, '"version_number":77'));
  flip(entryOf(changes));
  rmSync(entryOf(other));
  const ids = [full, changes, other].map(({ id }) => `snapshot ${id} derived`);
  expect(await found()).toEqual(ids.sort());
  const { snapshots } = await open();
  const byId = (list: readonly Snapshot[]) => [...list].sort((a, b) => (a.id < b.id ? -1 : 1));
  expect(byId(snapshots.listAll().snapshots)).toEqual(byId([full, changes, more, other]));
  await shut();
  expect(await found()).toEqual([]);
  expect(readFileSync(entryOf(full), "utf8")).toBe(text);
});

it("[B10] a missing or replaced file is reported as damaged by the next start, and neither downloaded nor restored", async () => {
  const { full, changes, more, other } = await fill();
  rmSync(fileOf(full));
  copyFileSync(fileOf(more), fileOf(changes));
  const { snapshots } = await open();
  for (const { id } of [full, changes]) {
    expect(snapshots.get("c", id)).toMatchObject({ damaged: expect.any(String) });
    expect(() => snapshots.read("c", id)).toThrow(expect.objectContaining({ code: "data_corrupted" }));
    await expect((database as Database).restoreCollection("d", { snapshots: [id] })).rejects.toMatchObject({
      code: "data_corrupted",
    });
  }
  expect(snapshots.get("c", more.id)).toEqual(more);
  // Gone while the database is open.
  rmSync(fileOf(other));
  expect(() => snapshots.read("gone", other.id)).toThrow(expect.objectContaining({ code: "data_corrupted" }));
  expect(snapshots.get("gone", other.id).damaged).toBe("Its file is missing.");
  for (const { id } of [full, changes]) snapshots.delete("c", id);
  snapshots.delete("gone", other.id);
  await shut();
  expect(await found()).toEqual([]);
  expect(readdirSync(join(directory, "snapshots"))).toHaveLength(2);
});

it("[B10] damage in the middle of a file cuts off a download, and a check reports it before a download begins", async () => {
  const { full, other } = await fill();
  flip(fileOf(full));
  flip(fileOf(other));
  const { snapshots } = await open();
  const file = snapshots.read("c", full.id);
  let bytes = 0;
  const read = async () => {
    for await (const chunk of file.stream(0, full.size_bytes)) bytes += (chunk as Buffer).length;
  };
  await expect(read()).rejects.toMatchObject({ code: "data_corrupted" });
  expect(bytes).toBeLessThan(full.size_bytes);
  expect(() => snapshots.read("c", full.id)).toThrow(expect.objectContaining({ code: "data_corrupted" }));
  expect(snapshots.get("gone", other.id)).toEqual(other);
  expect((await snapshots.check()).findings_total).toBe(3);
  expect(() => snapshots.read("gone", other.id)).toThrow(expect.objectContaining({ code: "data_corrupted" }));
  // Once the original file is put back, it is intact again.
  flip(fileOf(other));
  await snapshots.check("gone");
  expect(snapshots.get("gone", other.id)).toEqual(other);
});

it("[Z4] repair copies the intact snapshots and the audit log, and names the others", async () => {
  const { full, changes, more, other } = await fill();
  flip(fileOf(changes));
  flip(entryOf(more));
  rmSync(fileOf(other));
  writeFileSync(join(directory, "audit.log"), "{}\n");
  writeFileSync(join(directory, "audit.log.1"), '{"older":1}\n');
  const into = join(root, "repaired");
  const losses: string[] = [];
  const repaired = await repairDirectory(directory, into, {
    onLoss: ({ collection, message }) => losses.push(`${collection} ${message}`),
  });
  expect(repaired.snapshots).toBe(2);
  expect(losses.sort()).toEqual([
    expect.stringMatching(`^c The snapshot ${changes.id} is lost.`),
    expect.stringMatching(`^gone The snapshot ${other.id} is lost. Its file is missing.`),
  ]);
  expect((await checkDirectory(into)).findings).toEqual([]);
  for (const each of [full, more])
    expect(readFileSync(fileOf(each, into)).equals(readFileSync(fileOf(each)))).toBe(true);
  for (const name of ["audit.log", "audit.log.1"])
    expect(readFileSync(join(into, name))).toEqual(readFileSync(join(directory, name)));
  const { snapshots } = await open(into);
  expect(snapshots.listAll().snapshots).toEqual([full, more]);
  await (database as Database).restoreCollection("again", { snapshots: [full.id] });
  expect((database as Database).collection("again").currentVersion().hash).toBe(full.hash);
});
