// Checkpoints of the sparse and the text index of a collection: used if they are intact, and never otherwise.

import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { sparseOf, textOf } from "../../test/database/kept-words.ts";
import { runAndKill } from "../../test/database/killed-process.ts";
import type { Collection, Database, DatabaseOptions } from "./contract.ts";
import { openDatabase } from "./database.ts";
import { checkpointPath } from "./updaters.ts";

/** More than a mutable buffer holds, so that there are segments to write. */
const count = 12_000;
const kills = 4;
const program = new URL("../../test/database/keeping-inverted-process.ts", import.meta.url);
const kinds = ["sparse", "tf-idf"] as const;

let directory: string;
let database: Database | null = null;
let warnings: string[] = [];

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "quiver-keeping-"));
  warnings = [];
});
afterEach(async () => {
  await shut();
  rmSync(directory, { recursive: true, force: true });
});

async function shut(): Promise<void> {
  await database?.close();
  database = null;
}

async function open(options: Partial<DatabaseOptions> = {}): Promise<Collection> {
  await shut();
  const warn = (_: unknown, message: string) => void warnings.push(message);
  database = await openDatabase({
    dataDir: directory,
    log: { info: () => {}, warn, error: warn },
    ...options,
  });
  return database.collection("c");
}

/** A collection of records of round 0, closed. */
async function prepare(options: Partial<DatabaseOptions> = {}): Promise<void> {
  database = await openDatabase({ dataDir: directory, ...options });
  await database.createCollection({
    name: "c",
    dense_vector: { enabled: false },
    sparse_vector: { enabled: true },
    tf_idf_options: { enabled: true },
    config: {},
  });
  const collection = database.collection("c");
  await createIndexes(collection);
  await upsert(collection, 0, count, 0);
  await collection.indexed();
  await shut();
  for (const kind of kinds) expect(existsSync(fileOf(kind))).toBe(true);
}

async function createIndexes(collection: Collection): Promise<void> {
  await collection.createIndex("sparse", { name: "s", quantization: 64, sample_threshold: 100 });
  await collection.createIndex("tf-idf", {
    name: "t",
    sample_threshold: 1,
    k1: 1.2,
    b: 0.75,
    positions: true,
  });
}

function fileOf(kind: (typeof kinds)[number]): string {
  const [internal] = readdirSync(join(directory, "collections"));
  return checkpointPath(join(directory, "collections", internal), kind);
}

async function upsert(collection: Collection, from: number, records: number, round: number): Promise<void> {
  for (let first = from; first < from + records; first += 4_000)
    await collection.upsert(
      Array.from({ length: Math.min(4_000, from + records - first) }, (_, i) => ({
        id: `v${first + i}`,
        text: textOf(first + i, round),
        sparse_values: sparseOf(first + i, round),
      })),
    );
}

const ids = ({ results }: { results: readonly { id: string }[] }) => results.map(({ id }) => id).sort();

/** Records are found by their current content, not by earlier content; a shared term counts the live records. */
async function expectRight(
  collection: Collection,
  roundOf: (record: number) => number | null,
  end = count,
): Promise<void> {
  const living = Array.from({ length: end }, (_, record) => record).filter(
    (record) => roundOf(record) !== null,
  );
  for (let record = 0; record < end; record += 631) {
    const round = roundOf(record);
    const wanted = round === null ? [] : [`v${record}`];
    expect(ids(await collection.search("text", { query: `record${record}` }))).toEqual(wanted);
    const bySparse = await collection.search("sparse", { query_terms: [[1 + record, 2]] });
    expect(bySparse.results.map(({ id, score }) => [id, score])).toEqual(
      round === null ? [] : [[`v${record}`, 2 * (1 + round)]],
    );
    if (round === null) continue;
    const phrase = await collection.search("text", {
      query: `"record${record} round${round}"`,
      syntax: "operators",
    });
    expect(ids(phrase)).toEqual(wanted);
    const before = await collection.search("text", {
      query: `+record${record} +round${round - 1}`,
      syntax: "operators",
    });
    expect(ids(before)).toEqual([]);
  }
  // Every df, count and average is that of the version: the scores are those of the definition.
  const [first] = living;
  const query = `record${first} amber`;
  const { results } = await collection.search("text", { query, top_k: 1, explain: true });
  const having = (word: string) =>
    living.filter((record) =>
      textOf(record, roundOf(record) as number)
        .split(" ")
        .includes(word),
    );
  const lengths = living.map(
    (record) =>
      textOf(record, roundOf(record) as number)
        .trim()
        .split(" ").length,
  );
  const average = lengths.reduce((sum, length) => sum + length, 0) / living.length;
  const words = textOf(first, roundOf(first) as number)
    .trim()
    .split(" ");
  let score = 0;
  for (const word of query.split(" ")) {
    if (!words.includes(word)) continue;
    const df = having(word).length;
    const idf = Math.log(1 + (living.length - df + 0.5) / (df + 0.5));
    score += idf / (1 + 1.2 * 0.25 + ((1.2 * 0.75) / average) * words.length);
  }
  expect(results[0].id).toBe(`v${first}`);
  expect(results[0].score).toBeCloseTo(score, 10);
}

it("[I5] after a restart, inverted indexes are read from disk, and later writes are replayed", async () => {
  await prepare();
  const inodes = kinds.map((kind) => statSync(fileOf(kind)).ino);
  let collection = await open();
  await collection.indexed();
  await expectRight(collection, () => 0);
  // If they had been built from the records, new checkpoints would exist.
  await collection.unload();
  await collection.load();
  await expectRight(collection, () => 0);
  await shut();
  expect(kinds.map((kind) => statSync(fileOf(kind)).ino)).toEqual(inodes);

  // Some are deleted, some replaced, some new; then the files are those of before, as after a kill.
  for (const kind of kinds) copyFileSync(fileOf(kind), join(directory, kind));
  collection = await open();
  for (let i = 0; i < 300; i++) await collection.delete(`v${i}`);
  await upsert(collection, 300, 2_000, 1);
  await upsert(collection, count, 500, 2);
  const roundOf = (record: number) => (record < 300 ? null : record < 2_300 ? 1 : record < count ? 0 : 2);
  await expectRight(collection, roundOf, count + 500);
  await shut();
  for (const kind of kinds) copyFileSync(join(directory, kind), fileOf(kind));
  collection = await open();
  await expectRight(collection, roundOf, count + 500);
  await shut();
  collection = await open();
  await expectRight(collection, roundOf, count + 500);
  expect(warnings).toEqual([]);
});

it("[I5] if the log no longer reaches back, inverted indexes from checkpoints are reconciled with the records", async () => {
  const options = { versionsKept: 3 };
  await prepare(options);
  for (const kind of kinds) copyFileSync(fileOf(kind), join(directory, kind));
  let collection = await open(options);
  for (let i = 0; i < 20; i++) await collection.delete(`v${i * 3}`);
  await upsert(collection, 5_000, 1_000, 1);
  await collection.indexed();
  await shut();
  for (const kind of kinds) copyFileSync(join(directory, kind), fileOf(kind));
  collection = await open(options);
  await expectRight(collection, (record) =>
    record < 60 && record % 3 === 0 ? null : record >= 5_000 && record < 6_000 ? 1 : 0,
  );
  expect(warnings).toEqual([]);
});

it("[I5] a damaged file of an inverted index, and one of another configuration, are not used", async () => {
  await prepare();
  const files = kinds.map((kind) => readFileSync(fileOf(kind)));
  for (const [i, kind] of kinds.entries()) {
    const damaged = Buffer.from(files[i]);
    damaged[Math.floor(damaged.length / 2)] ^= 1;
    writeFileSync(fileOf(kind), damaged);
  }
  let collection = await open();
  await expectRight(collection, () => 0);
  expect(warnings.sort()).toEqual(
    kinds.map((kind) => `the checkpoint of the ${kind} index could not be written or read`),
  );
  warnings = [];
  // With the indexes their files go. Other ones do not take up what these have left.
  for (const kind of kinds) await collection.deleteIndex(kind);
  await expect.poll(() => kinds.some((kind) => existsSync(fileOf(kind)))).toBe(false);
  await collection.createIndex("sparse", { name: "s", quantization: 32, sample_threshold: 100 });
  await collection.createIndex("tf-idf", {
    name: "t",
    sample_threshold: 1,
    k1: 1.2,
    b: 0.75,
    positions: false,
  });
  await shut();
  for (const [i, kind] of kinds.entries()) writeFileSync(fileOf(kind), files[i]);
  collection = await open();
  await collection.indexed();
  expect(ids(await collection.search("text", { query: "record7" }))).toEqual(["v7"]);
  const phrase = collection.search("text", { query: '"record7 round0"', syntax: "operators" });
  await expect(phrase).rejects.toMatchObject({ code: "invalid_request" });
  expect(warnings).toEqual([]);
});

it(`[I5] inverted indexes that are written at the moment of a kill are intact or rebuilt: ${kills} kills`, async () => {
  await prepare();
  let acknowledged = 0;
  for (let kill = 0; kill < kills; kill++) {
    acknowledged = await runAndKill(program, directory, acknowledged + 1, 300 + 170 * kill);
    const collection = await open();
    const first = 2; // Two indexes and three batches made the versions before the rounds.
    const round = Math.max(acknowledged, collection.currentVersion().version_number - first - 1);
    // The response to the last round may have been cut off.
    expect(round - acknowledged).toBeLessThanOrEqual(1);
    acknowledged = round;
    await expectRight(collection, (record) => {
      const part = Math.floor(record / 1_200);
      const last = round - ((round - part + 10) % 10);
      return last > 0 ? last : 0;
    });
    await shut();
    expect(warnings).toEqual([]);
  }
}, 200_000);
