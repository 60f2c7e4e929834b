import {
  closeSync,
  cpSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { QuiverError } from "@quiverdb/protocol/errors";
import type { VectorInput } from "@quiverdb/protocol/shapes/vector";
import { afterEach, beforeEach, expect, it } from "vitest";
import { u53Key, utf8 } from "../../base/bytes.ts";
import { recentBlockBytes, recentRowBytes } from "../../collection/recent-entries.ts";
import {
  collectionTables,
  declarationOf,
  metaKeys,
  ordinalKey,
  type Table,
} from "../../collection/tables.ts";
import { writeCheckpoint } from "../../process/checkpoint-file.ts";
import { LmdbStore } from "../../storage/lmdb.ts";
import { spoolFile } from "../../storage/spool-files.ts";
import type { Writer } from "../../storage/store.ts";
import type { Database } from "../contract.ts";
import { openDatabase } from "../database.ts";
import { checkpointPath } from "../updaters.ts";
import { checkDirectory } from "./directory.ts";
import { repairDirectory } from "./repair.ts";

let root: string;
let directory: string;
let databases: Database[] = [];

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "quiver-check-"));
  directory = join(root, "data");
});
afterEach(async () => {
  for (const database of databases) await database.close();
  databases = [];
  rmSync(root, { recursive: true, force: true });
});

async function open(dataDir = directory): Promise<Database> {
  const database = await openDatabase({ dataDir, builderThreads: 1 });
  databases.push(database);
  return database;
}

async function shut(): Promise<void> {
  for (const database of databases.splice(0)) await database.close();
}

function record(i: number, dimension = 4): VectorInput {
  return {
    id: `v${i}`,
    document_id: `d${i % 5}`,
    dense_values: Array.from({ length: dimension }, (_, k) => Math.sin(i * 7 + k)),
    sparse_values: [
      [i % 9, 1],
      [20 + (i % 7), 0.5],
    ],
    text: `the quick fox number ${i} and ${i % 3} dogs`,
    metadata: { i },
  };
}

/** A collection with all indexes, updates, deletes, an ended and an open transaction; closed again. */
async function fill(name = "c", records = 60): Promise<void> {
  const database = await open();
  await database.createCollection({
    name,
    dense_vector: { enabled: true, dimension: 4, auto_create_index: true },
    sparse_vector: { enabled: true, auto_create_index: true },
    tf_idf_options: { enabled: true },
    config: {},
  });
  const collection = database.collection(name);
  await collection.createIndex("tf-idf", {
    name: "t",
    sample_threshold: 1,
    k1: 1.2,
    b: 0.75,
    positions: true,
  });
  await collection.upsert(Array.from({ length: records }, (_, i) => record(i)));
  await collection.upsert([record(3), record(4)]);
  await collection.delete("v5");
  const committed = collection.transaction((await collection.beginTransaction()).transaction_id);
  await committed.upsert([record(6), record(1000)]);
  await committed.commit();
  const pending = collection.transaction((await collection.beginTransaction()).transaction_id);
  await pending.upsert([record(2000), record(2001)]);
  await pending.upsert([{ ...record(2000), text: "another" }]);
  await shut();
}

const storeDirectory = (): string => {
  const [name] = readdirSync(join(directory, "collections"));
  return join(directory, "collections", name);
};

/** Changes a closed store, with right checksums. */
async function change(act: (writer: Writer) => void): Promise<void> {
  const store = new LmdbStore(storeDirectory(), collectionTables);
  store.write(act);
  await store.close();
}

/** Flips a bit at every occurrence of some bytes, in used and unused pages. */
function flipAll(path: string, bytes: Uint8Array, offset = 0): void {
  const file = readFileSync(path);
  let found = 0;
  for (let at = file.indexOf(bytes); at >= 0; at = file.indexOf(bytes, at + bytes.length)) {
    file[at + offset] ^= 1;
    found++;
  }
  expect(found).toBeGreaterThan(0);
  // In place: a running server may have mapped the file.
  const handle = openSync(path, "r+");
  writeSync(handle, file, 0, file.length, 0);
  closeSync(handle);
}

it("[Z1] a check of undamaged data finds nothing, offline and live, and lists the compared indexes", async () => {
  await fill();
  const offline = await checkDirectory(directory);
  expect(offline.findings).toEqual([]);
  const why = (reason: RegExp) => expect.stringMatching(reason);
  expect(offline.collections).toMatchObject([
    {
      name: "c",
      version: 4,
      records: 60,
      indexes: [],
      indexes_not_compared: ["dense", "sparse", "tf-idf"].map((index) => ({
        index,
        reason: why(/no checkpoint/),
      })),
    },
  ]);
  const database = await open();
  await database.recovered;
  const live = await database.collection("c").check();
  expect(live.findings).toEqual([]);
  expect(live.collections).toMatchObject([
    {
      name: "c",
      version: 4,
      records: 60,
      indexes: ["sparse", "tf-idf"],
      indexes_not_compared: [{ index: "dense", reason: why(/few vectors/) }],
    },
  ]);
  await database.collection("c").unload();
  expect((await database.collection("c").check()).collections).toMatchObject([
    {
      indexes: [],
      indexes_not_compared: ["dense", "sparse", "tf-idf"].map((index) => ({
        index,
        reason: why(/not loaded/),
      })),
    },
  ]);
});

it("[Z1] a checkpoint of another program's format is no damage", async () => {
  await fill();
  const path = checkpointPath(storeDirectory(), "dense");
  writeCheckpoint(path, {}, [{ bytes: Uint8Array.of(1) }]);
  const whole = readFileSync(path);
  const footerAt = whole.indexOf('{"format":3');
  whole.write('{"format":2', footerAt);
  writeFileSync(path, whole);
  // A footer that fails its checksum says nothing about the format.
  expect((await checkDirectory(directory)).findings).toMatchObject([{ kind: "checkpoint" }]);
  whole.writeUInt32LE(crc32(whole.subarray(footerAt, -16)), whole.length - 12);
  writeFileSync(path, whole);
  const { findings, collections } = await checkDirectory(directory);
  expect(findings).toEqual([]);
  expect(collections[0].indexes_not_compared).toContainEqual({
    index: "dense",
    reason: expect.stringMatching(/of another definition, version or program/),
  });
});

it("[Z1] a live check compares the dense graph, while other requests continue", async () => {
  const database = await open();
  await database.createCollection({
    name: "c",
    dense_vector: { enabled: true, dimension: 4 },
    sparse_vector: { enabled: true, auto_create_index: true },
    tf_idf_options: { enabled: false },
    config: {},
  });
  const collection = database.collection("c");
  const plain = (i: number) => ({ ...record(i), text: null });
  await collection.createIndex("dense", {
    name: "dense",
    distance_metric_type: "cosine",
    quantization: { type: "auto", properties: { sample_threshold: 50 } },
    index: { type: "hnsw", properties: {} },
  });
  await collection.upsert(Array.from({ length: 300 }, (_, i) => plain(i)));
  await collection.load();
  await expect.poll(() => collection.indexes().dense?.status?.records_in_tail, { timeout: 60_000 }).toBe(0);
  const checking = collection.check();
  await expect(collection.check()).rejects.toMatchObject({ code: "overloaded" });
  for (let i = 0; i < 40; i++) await collection.upsert([plain(i)]);
  await collection.delete("v50");
  const report = await checking;
  expect(report.findings).toEqual([]);
  expect(report.collections[0].indexes.sort()).toEqual(["dense", "sparse"]);
  expect(report.collections[0].indexes_not_compared).toEqual([]);
  expect((await collection.check()).findings).toEqual([]);
});

it("[Z1] [Z2] a live check names a record that was damaged while it is served, and compares the others", async () => {
  await fill();
  const database = await open();
  const collection = database.collection("c");
  await collection.load();
  flipAll(join(storeDirectory(), "data.mdb"), Buffer.from("fox number 17"), 5);
  const { findings, collections } = await collection.check();
  expect(findings).toMatchObject([{ kind: "checksum", table: "records", collection: "c" }]);
  expect(collections).toMatchObject([{ indexes: expect.arrayContaining(["sparse", "tf-idf"]) }]);
});

it("[Z6] a collection that is unloaded while it is checked is checked as an unloaded one", async () => {
  const database = await open();
  await database.createCollection({
    name: "c",
    dense_vector: { enabled: true, dimension: 4, auto_create_index: true },
    sparse_vector: { enabled: true, auto_create_index: true },
    tf_idf_options: { enabled: true },
    config: {},
  });
  const collection = database.collection("c");
  await collection.createIndex("tf-idf", { name: "t", sample_threshold: 10, k1: 1.2, b: 0.75 });
  await collection.upsert(Array.from({ length: 2_000 }, (_, i) => record(i)));
  const compared = new Set<number>();
  // At many moments of a check: before its view, while it compares, after that.
  for (let turns = 0; turns < 10; turns++) {
    await collection.load();
    const checking = collection.check();
    for (let i = 0; i < 5 * turns; i++) await new Promise(setImmediate);
    const [report] = await Promise.all([checking, collection.unload()]);
    expect(report.findings).toEqual([]);
    expect(report.collections).toMatchObject([{ name: "c", records: 2_000 }]);
    compared.add(report.collections[0].indexes.filter((kind) => kind !== "dense").length);
  }
  // The race really happened: some unloads came in time; an undisturbed check compares both.
  expect(compared).toContain(0);
  await collection.load();
  expect((await collection.check()).collections[0].indexes).toEqual(
    expect.arrayContaining(["sparse", "tf-idf"]),
  );
});

it("[Z1] a directory in use is refused, and so is one that is not a data directory", async () => {
  await fill();
  await open();
  const inUse = { code: "data_directory_in_use", details: { pid: process.pid } };
  await expect(checkDirectory(directory)).rejects.toMatchObject(inUse);
  await expect(repairDirectory(directory, join(root, "new"))).rejects.toMatchObject(inUse);
  await expect(checkDirectory(root)).rejects.toMatchObject({ code: "storage_failed" });
});

type Case = [what: string, kind: string, act: (writer: Writer) => void];

const wrongs: Case[] = [
  ["an id without its record", "record", (w) => w.delete("records", ordinalKey(0))],
  ["a record that no id names", "id", (w) => w.delete("ids", utf8("v0"))],
  ["an id that names another's record", "id", (w) => w.put("ids", utf8("v0"), ordinalKey(1))],
  ["a record without its vector", "record", (w) => w.delete("dense", ordinalKey(2))],
  ["a vector of the wrong length", "record", (w) => w.put("dense", ordinalKey(2), new Uint8Array(12))],
  [
    "a record missing in its document",
    "document",
    (w) => {
      const [key] = [...w.keys("documents", { limit: 1 })];
      w.delete("documents", key);
    },
  ],
  [
    "a version missing in the log",
    "version",
    (w) => {
      const [, , key] = [...w.keys("versions")];
      w.delete("versions", key);
    },
  ],
  [
    "a changed hash",
    "version",
    (w) => {
      const [[key, value]] = [...w.entries("versions", { reverse: true, limit: 1 })];
      const changed = value.slice();
      changed[0] ^= 1;
      w.put("versions", key, changed);
    },
  ],
  [
    "closed ordinals that are forgotten",
    "version",
    (w) => {
      const [key] = [...w.keys("closed")];
      w.delete("closed", key);
    },
  ],
  ["a staged id that is missing", "transaction", (w) => w.clear("stagedIds")],
  [
    "a staged operation that is not the last one",
    "transaction",
    (w) => w.delete("staged", [...w.keys("staged")][0]),
  ],
  [
    "a staged operation with a wrong place",
    "checksum",
    (w) => {
      const [[key, value]] = [...w.entries("staged")];
      const changed = value.slice();
      changed[7] ^= 1;
      w.put("staged", key, changed);
    },
  ],
  [
    "a head that counts wrongly",
    "collection",
    (w) => {
      const head = (w.get("meta", metaKeys.head) as Uint8Array).slice();
      head[47]++;
      w.put("meta", metaKeys.head, head);
    },
  ],
  [
    "a log entry that is not remembered",
    "collection",
    (w) => {
      const rows = (w.get("meta", metaKeys.recent) as Uint8Array).slice();
      w.put("meta", metaKeys.recent, rows.subarray(0, rows.length - recentRowBytes));
    },
  ],
  [
    "log entries in another order",
    "collection",
    (w) => {
      const rows = (w.get("meta", metaKeys.recent) as Uint8Array).slice();
      rows[7] = 2;
      w.put("meta", metaKeys.recent, rows);
    },
  ],
  [
    "half a log entry",
    "collection",
    (w) => w.put("meta", metaKeys.recent, (w.get("meta", metaKeys.recent) as Uint8Array).slice(5)),
  ],
  [
    "a block of log entries under another key",
    "collection",
    (w) => w.put("recent", u53Key(3), new Uint8Array(recentBlockBytes)),
  ],
  ["an indexed transaction that never was", "transaction", (w) => w.put("indexed", u53Key(99), u53Key(1))],
  ["a key that does not exist", "collection", (w) => w.put("meta", utf8("other"), utf8("{}"))],
];

const tooLong = ({ bytes = 0 }: { bytes?: number }) => new Uint8Array(bytes + 1);

it.each(collectionTables.filter((table) => table !== "meta"))(
  "[Z2] an entry of '%s' that has not the declared shape is found",
  async (table) => {
    await fill();
    const { key, value, kind } = declarationOf(table) as Table;
    const hasShape = key.fits(tooLong(key));
    await change((writer) =>
      writer.put(table, hasShape ? utf8("v0") : tooLong(key), hasShape ? tooLong(value) : utf8("{}")),
    );
    const { findings } = await checkDirectory(directory);
    expect(findings).toContainEqual(
      expect.objectContaining({
        kind,
        table,
        collection: "c",
        message: expect.stringMatching(/^An? |^The /),
      }),
    );
  },
);

it.each(wrongs)("[Z2] %s is found", async (_what, kind, act) => {
  await fill();
  await change(act);
  const { findings } = await checkDirectory(directory);
  expect(findings.map((finding) => finding.kind)).toContain(kind);
  for (const { collection, message } of findings) {
    expect(collection).toBe("c");
    expect(message.length).toBeGreaterThan(20);
  }
});

const spoolDamages: [what: string, act: (spool: string) => void][] = [
  ["changed", (spool) => flipAll(spool, Buffer.from("fox number 2001"), 5)],
  ["changed in what was replaced", (spool) => flipAll(spool, Buffer.from("fox number 2000"), 5)],
  ["changed in what replaced it", (spool) => flipAll(spool, Buffer.from("another"), 5)],
  ["cut off", (spool) => truncateSync(spool, readFileSync(spool).length - 1)],
  ["missing", (spool) => rmSync(spool)],
];

it.each(spoolDamages)(
  "[Z2] [C1] staged operations that are %s are found, the collection is served, and the commit fails",
  async (_what, act) => {
    await fill();
    act(spoolFile(storeDirectory(), 2));
    const { findings } = await checkDirectory(directory);
    expect(findings).toMatchObject([{ kind: "checksum", collection: "c", table: "staged" }]);
    const collection = (await open()).collection("c");
    const [{ transaction_id }] = collection.transactions().transactions;
    await expect(collection.transaction(transaction_id).commit()).rejects.toMatchObject({
      code: "data_corrupted",
    });
    expect(collection.transaction(transaction_id).flatStatus()).toMatchObject({ status: "failed" });
    await collection.upsert([record(3000)]);
    expect((await collection.check()).findings).toEqual([]);
  },
);

it("[Z2] a record that differs from the one in its version's hash is found", async () => {
  await fill();
  const database = await open();
  await database.collection("c").upsert([{ id: "last", sparse_values: [[1, 1]], metadata: { secret: 1 } }]);
  await shut();
  expect((await checkDirectory(directory)).collections[0].hashes_derived).toBeGreaterThan(0);
  await change((writer) => {
    const [key, stored] = [...writer.entries("records", { reverse: true, limit: 1 })][0];
    const value = stored.slice();
    value[Buffer.from(value).indexOf("secret")] ^= 1;
    writer.put("records", key, value);
  });
  const { findings } = await checkDirectory(directory);
  expect(findings).toMatchObject([{ kind: "version", collection: "c", version: 5 }]);
});

it("[Z3] a collection whose pages are damaged is quarantined and named; the others are served", async () => {
  await fill();
  const database = await open();
  await database.createCollection({
    name: "other",
    dense_vector: { enabled: false },
    sparse_vector: { enabled: true },
    tf_idf_options: { enabled: false },
    config: {},
  });
  await database.collection("other").upsert([{ id: "a", sparse_values: [[1, 1]] }]);
  await shut();
  const damaged = readdirSync(join(directory, "collections")).find((name) =>
    readFileSync(join(directory, "collections", name, "data.mdb")).includes("quick fox"),
  ) as string;
  const path = join(directory, "collections", damaged, "data.mdb");
  // A key of the id table changes: LMDB would no longer find the id and report that there is no such record.
  flipAll(path, Buffer.from("v17"), 2);
  for (let start = 0; start < 2; start++) {
    const again = await open();
    expect(again.listCollections()).toEqual([{ name: "c", damaged: true }, { name: "other" }]);
    expect(() => again.collection("c")).toThrow(QuiverError);
    expect(again.statistics().damaged).toMatchObject([{ name: "c" }]);
    expect(again.collection("other").get("a").toRecord().id).toBe("a");
    await expect(
      again.createCollection({
        name: "c",
        dense_vector: { enabled: false },
        sparse_vector: { enabled: true },
        tf_idf_options: { enabled: false },
        config: {},
      }),
    ).rejects.toMatchObject({ code: "collection_already_exists" });
    await shut();
  }
  const last = await open();
  await last.deleteCollection("c");
  expect(last.listCollections()).toEqual([{ name: "other" }]);
  expect(readdirSync(join(directory, "collections"))).toHaveLength(1);
});

it("[Z3] a collection whose file is missing is not created again", async () => {
  await fill();
  rmSync(join(storeDirectory(), "data.mdb"));
  const database = await open();
  expect(() => database.collection("c")).toThrow(/damaged/);
});

it("[Z3] a damaged catalog keeps the database from opening, and no directory is taken for left over", async () => {
  await fill();
  const path = join(directory, "catalog", "data.mdb");
  const whole = readFileSync(path);
  const before = readdirSync(join(directory, "collections"));
  cpSync(join(directory, "catalog"), join(directory, "catalog.whole"), { recursive: true });
  // The number of the newest transaction: LMDB would go back to the state before, in silence.
  for (const page of [0, 4096]) {
    const file = Buffer.from(whole);
    file[page + 152] ^= 8;
    writeFileSync(path, file);
    await expect(openDatabase({ dataDir: directory })).rejects.toMatchObject({ code: "data_corrupted" });
  }
  // Numbers that LMDB has no means to doubt: the page of the tables, and the transaction.
  for (const place of [136, 152, 4_096 + 136, 4_096 + 152])
    for (const bits of [1, 2, 4]) {
      const file = Buffer.from(whole);
      file[place] ^= bits;
      writeFileSync(path, file);
      const opened = await openDatabase({ dataDir: directory }).catch((error: QuiverError) => error);
      if (opened instanceof Error) expect(opened).toMatchObject({ code: "data_corrupted" });
      else {
        expect(opened.listCollections()).toEqual([{ name: "c" }]);
        await opened.close();
      }
      expect(readdirSync(join(directory, "collections"))).toEqual(before);
      rmSync(join(directory, "catalog", "data.tip"));
      cpSync(join(directory, "catalog.whole"), join(directory, "catalog"), { recursive: true });
    }
  rmSync(path);
  await expect(openDatabase({ dataDir: directory })).rejects.toMatchObject({ code: "data_corrupted" });
  expect(readdirSync(join(directory, "collections"))).toEqual(before);
  writeFileSync(path, whole);
  const database = await open();
  expect(database.collection("c").has("v0")).toBe(true);
});

it("[Z3] an entry of the catalog that fails its checksum is quarantined, and its directory stays", async () => {
  await fill();
  flipAll(join(directory, "catalog", "data.mdb"), Buffer.from('"storeRawText"'), 3);
  const database = await open();
  expect(database.listCollections()).toEqual([{ name: "c", damaged: true }]);
  await expect(database.deleteCollection("c")).rejects.toMatchObject({ code: "data_corrupted" });
  expect(readdirSync(join(directory, "collections"))).toHaveLength(1);
  await shut();
  const repaired = await repairDirectory(directory, join(root, "new"));
  expect(repaired.collections).toMatchObject([{ name: "c", records: 60, lost: 0 }]);
});

it("[Z4] repair takes everything over from undamaged data but the open transaction, which it names", async () => {
  await fill();
  const losses: string[] = [];
  const into = join(root, "new");
  const repaired = await repairDirectory(directory, into, { onLoss: ({ message }) => losses.push(message) });
  expect(repaired.collections).toEqual([
    { name: "c", records: 60, lost: 0, indexes: expect.arrayContaining(["dense", "sparse", "tf-idf"]) },
  ]);
  expect(losses).toHaveLength(1);
  expect(losses[0]).toMatch(/open transaction/);
  expect((await checkDirectory(into)).findings).toEqual([]);
  const [before, after] = [await open(), await open(into)].map((database) => database.collection("c"));
  for (let i = 0; i < 60; i++)
    if (i !== 5) expect(after.get(`v${i}`).toJson()).toBe(before.get(`v${i}`).toJson());
  expect(after.has("v5")).toBe(false);
  expect((await after.search("text", { query_text: "quick dogs" })).results).toEqual(
    (await before.search("text", { query_text: "quick dogs" })).results,
  );
});

it("[Z4] repair leaves the source as it is, and refuses a directory that is not empty", async () => {
  await fill();
  const copy = join(root, "copy");
  cpSync(directory, copy, { recursive: true });
  await repairDirectory(directory, join(root, "new"));
  const files = readdirSync(directory, { recursive: true, encoding: "utf8" }).sort();
  expect(files).toEqual(readdirSync(copy, { recursive: true, encoding: "utf8" }).sort());
  for (const file of files.filter((name) => /\.mdb$|dense$/.test(name)))
    expect(readFileSync(join(directory, file)).equals(readFileSync(join(copy, file)))).toBe(true);
  await expect(repairDirectory(directory, copy)).rejects.toMatchObject({ code: "storage_failed" });
});

it("[Z4] a damaged record is named with its intact parts, and all others are saved", async () => {
  await fill();
  const vector = new Uint8Array(Float32Array.from(record(17).dense_values as number[]).buffer);
  flipAll(join(storeDirectory(), "data.mdb"), vector, 5);
  const losses: unknown[] = [];
  const repaired = await repairDirectory(directory, join(root, "new"), {
    onLoss: (loss) => losses.push(loss),
  });
  expect(repaired.collections).toMatchObject([{ records: 59, lost: 1 }]);
  expect(losses).toContainEqual(
    expect.objectContaining({
      collection: "c",
      record_id: "v17",
      remains: expect.objectContaining({
        id: "v17",
        dense_values: null,
        document_id: "d2",
        metadata: { i: 17 },
      }),
    }),
  );
  const database = await open();
  expect(() => database.collection("c").get("v17")).toThrow(/checksum/);
  expect(database.collection("c").get("v18").toRecord().id).toBe("v18");
});

it("[Z4] records below a damaged page are found without it", async () => {
  await fill("c", 2_000);
  const path = join(storeDirectory(), "data.mdb");
  const whole = readFileSync(path);
  let pages = 0;
  for (let page = 2; page * 4096 < whole.length; page++) {
    // All branch pages: their flags are at byte 18.
    if (whole.readUInt16LE(page * 4096 + 18) !== 1) continue;
    const file = Buffer.from(whole);
    file.fill(0, page * 4096, page * 4096 + 4096);
    writeFileSync(path, file);
    const { findings_total } = await checkDirectory(directory);
    const into = join(root, `new-${page}`);
    const repaired = await repairDirectory(directory, into);
    expect(repaired.collections).toMatchObject([{ records: 1_999, lost: 0 }]);
    if (findings_total > 0) pages++;
    rmSync(into, { recursive: true });
  }
  expect(pages).toBeGreaterThan(2);
});

it("[Z5] a collection's own definition is used where the catalog is lost", async () => {
  await fill();
  rmSync(join(directory, "catalog", "data.mdb"));
  const losses: string[] = [];
  const into = join(root, "new");
  const repaired = await repairDirectory(directory, into, { onLoss: ({ message }) => losses.push(message) });
  expect(repaired.collections).toMatchObject([{ name: "c", records: 60, lost: 0 }]);
  expect(losses.some((message) => /catalog/.test(message))).toBe(true);
  const database = await open(into);
  expect((await database.collection("c").describe()).dense_vector).toEqual({ enabled: true, dimension: 4 });
});

it("[C1] replacing a record whose stored form is damaged repairs the collection", async () => {
  await fill();
  flipAll(join(storeDirectory(), "data.mdb"), Buffer.from("fox number 17"), 5);
  const database = await open();
  const collection = database.collection("c");
  expect(() => collection.get("v17")).toThrow(/checksum/);
  await collection.upsert([record(17)]);
  expect(collection.get("v17").toRecord().metadata).toEqual({ i: 17 });
  await collection.indexed();
  expect((await collection.search("text", { query_text: "17", top_k: 5 })).results[0].id).toBe("v17");
  await shut();
  expect((await checkDirectory(directory)).findings).toEqual([]);
});
