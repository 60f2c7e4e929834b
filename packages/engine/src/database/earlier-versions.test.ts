// Is every readable version exactly what it was?
//
// The oracle keeps every version in memory. A version is compared with a collection that was made of its records alone: all searches, counts,
// facets, pages and exports must be equal, to the last digit.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { randomNumbers } from "@quiverdb/kernels/random";
import type { Filter } from "@quiverdb/protocol/shapes/filter";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { seed } from "../../../../tests/seed.ts";
import type { Collection, Database, VectorWrite } from "./contract.ts";
import { openDatabase } from "./database.ts";

let directory: string;
let database: Database;

const open = () => openDatabase({ dataDir: directory, versionsKept: 20 });

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "quiver-earlier-"));
  database = await open();
});
afterEach(async () => {
  await database.close();
  rmSync(directory, { recursive: true, force: true });
});

/** Whole numbers from 0. */
function integers(stream: number): (below: number) => number {
  const random = randomNumbers(seed + stream);
  return (below) => Math.floor(random() * below);
}

const body = {
  dense_vector: { enabled: true, dimension: 3, auto_create_index: true },
  sparse_vector: { enabled: true },
  tf_idf_options: { enabled: true },
  store_raw_text: true,
};

async function make(name: string, config: object = {}): Promise<Collection> {
  await database.createCollection({ name, ...body, config });
  const collection = database.collection(name);
  await collection.createIndex("sparse", {});
  await collection.createIndex("tf-idf", {});
  await collection.createMetadataIndex("n", { type: "number" });
  return collection;
}

const words = ["kappa", "zulu", "tango", "delta", "bravo", "sierra"];

/** Random changes of a collection, with what it has at each version. */
class History {
  readonly versions: ReadonlyMap<string, VectorWrite>[] = [new Map()];
  readonly #random: (below: number) => number;
  readonly #collection: () => Collection;

  constructor(random: (below: number) => number, collection: () => Collection) {
    this.#random = random;
    this.#collection = collection;
  }

  get now(): ReadonlyMap<string, VectorWrite> {
    return this.versions.at(-1) as ReadonlyMap<string, VectorWrite>;
  }

  #record(id: string): VectorWrite {
    const random = this.#random;
    return {
      id,
      document_id: `d${random(3)}`,
      dense_values: [random(9) - 4, random(9) - 4, 1 + random(4)],
      sparse_values: [[random(5), 1 + random(5)] as [number, number]],
      text: Array.from({ length: 1 + random(5) }, () => words[random(words.length)]).join(" "),
      metadata: { n: random(4) },
    } as VectorWrite;
  }

  /** One more version. */
  async step(): Promise<void> {
    const next = new Map(this.now);
    const ids = [...next.keys()];
    const how = this.#random(10);
    const collection = this.#collection();
    if (how < 2 && ids.length > 3) {
      const id = ids[this.#random(ids.length)];
      await collection.delete(id);
      next.delete(id);
    } else if (how < 3 && ids.length > 3) {
      const transaction = collection.transaction((await collection.beginTransaction()).transaction_id);
      const [gone, ...rest] = ids;
      const written = [rest[0], "in-transaction"].map((id) => this.#record(id));
      await transaction.upsert(written);
      await transaction.delete(gone);
      await transaction.commit();
      next.delete(gone);
      for (const record of written) next.set(record.id, record);
    } else {
      const written = Array.from({ length: 1 + this.#random(4) }, () => this.#record(`v${this.#random(25)}`));
      await collection.upsert(written);
      for (const record of written) next.set(record.id, record);
    }
    this.versions.push(next);
  }
}

const plain = (value: unknown) => JSON.parse(JSON.stringify(value));
const filter: Filter = { n: { gte: 2 } };

/** What can be asked of a collection, or of one as it was. */
async function answersOf(asked: ReturnType<Collection["at"]>): Promise<unknown> {
  const all = await asked.scroll({ limit: 100 });
  const exported = await asked.exportMatching({});
  const ids = all.vectors.map((vector) => vector.toRecord().id);
  const documents: string[] = [];
  await asked.eachOfDocument("d1", (vector) => documents.push(vector.toJson()));
  return plain({
    count: await asked.count({}),
    matching: await asked.count({ filter }),
    facets: await asked.facet({ field: "n" }),
    page: all.vectors.map((vector) => vector.toJson()),
    exported: [...exported].map((vector) => vector.toJson()).sort(),
    fetched: (await asked.fetch({ ids: ["v1", "nowhere"] })).map((vector) => vector?.toJson() ?? null),
    has: [await asked.has("v1"), await asked.has("nowhere")],
    one: ids.length > 0 ? (await asked.get(ids[0])).toJson() : null,
    documents,
    dense: await asked.search("dense", { query_vector: [1, 2, 3], top_k: 9, exact: true }),
    filtered: await asked.search("dense", { query_vector: [1, 2, 3], top_k: 9, exact: true, filter }),
    sparse: await asked.search("sparse", {
      query_terms: [
        [1, 2],
        [3, 1],
      ],
      top_k: 9,
    }),
    text: await asked.search("text", { query: "kappa zulu bravo", top_k: 9 }),
    hybrid: await asked.search("hybrid", {
      query_vector: [1, 2, 3],
      query_text: "tango delta",
      top_k: 9,
      exact: true,
    }),
  } as never);
}

let references = 0;

/** Compares a version with a collection that has its records alone. */
async function compare(collection: Collection, version: number, records: ReadonlyMap<string, VectorWrite>) {
  const reference = await make(`reference ${++references}`);
  if (records.size > 0) await reference.upsert([...records.values()]);
  const expected = await answersOf(reference as never);
  expect(await answersOf(collection.at({ version })), `seed ${seed}, version ${version}`).toEqual(expected);
  await database.deleteCollection(reference.name);
}

describe("a random history", () => {
  test("[V4] any version equals a collection of its records, through restarts, vacuuming, snapshots and restores", async () => {
    const random = integers(1);
    let collection = await make("c", { history: "all" });
    const history = new History(random, () => collection);
    for (let i = 0; i < 60; i++) await history.step();
    for (let i = 0; i < 6; i++) {
      const version = random(61);
      await compare(collection, version, history.versions[version]);
    }
    await database.close();
    database = await open();
    collection = database.collection("c");
    for (let i = 0; i < 60; i++) await history.step();
    await collection.putTag("kept", { version: 5 });
    const snapshot = await database.snapshots.create("c");
    for (const version of [5, 30, 60, 61, 119, 120])
      await compare(collection, version, history.versions[version]);

    await collection.setHistory({ versions: 40 });
    expect((await collection.describe()).config.history).toEqual({ versions: 40 });
    expect(collection.versions().oldest_readable).toBe(81);
    await vacuumed();
    await expect(collection.at({ version: 80 }).count({})).rejects.toMatchObject({
      code: "version_gone",
      status: 410,
      details: { oldest_version: 81, current_version: 120, tags: [{ name: "kept", version: 5 }] },
    });
    for (const version of [5, 81, 100]) await compare(collection, version, history.versions[version]);
    expect((await collection.check()).findings).toEqual([]);

    await database.restoreCollection("restored", { snapshots: [snapshot.id] });
    const restored = database.collection("restored");
    for (const version of [5, 30, 100, 120]) await compare(restored, version, history.versions[version]);
    expect((await restored.check()).findings).toEqual([]);
  }, 120_000);

  test("[V4] an incremental snapshot has the records that earlier versions need", async () => {
    const random = integers(2);
    const collection = await make("c", { history: "all" });
    const history = new History(random, () => collection);
    for (let i = 0; i < 12; i++) await history.step();
    const full = await database.snapshots.create("c");
    for (let i = 0; i < 12; i++) await history.step();
    const changes = await database.snapshots.create("c", { since_version: 12 });
    await database.restoreCollection("restored", { snapshots: [full.id, changes.id] });
    const restored = database.collection("restored");
    for (const version of [3, 12, 17, 24]) await compare(restored, version, history.versions[version]);
    expect((await restored.check()).findings).toEqual([]);
  }, 60_000);

  test("[V7] restoring a version makes one with the same records; those in between stay readable", async () => {
    const collection = await make("c", { history: "all" });
    const history = new History(integers(3), () => collection);
    for (let i = 0; i < 15; i++) await history.step();
    const made = await collection.restoreVersion({ version: 6 });
    expect(made).toMatchObject({ version_number: 16, vector_count: history.versions[6].size });
    await compare(collection, 16, history.versions[6]);
    await compare(collection, 15, history.versions[15]);
    expect(collection.currentVersion().version_number).toBe(16);
    // Nothing differs: no version is made.
    expect((await collection.restoreVersion({ version: 6 })).version_number).toBe(16);
    expect((await collection.check()).findings).toEqual([]);
  }, 60_000);
});

/** Resolves when vacuuming has nothing left to do. */
async function vacuumed(): Promise<void> {
  await (database as unknown as { collections: { vacuum(): Promise<void> } }).collections.vacuum();
}

const one = (n: number): VectorWrite[] => [
  { id: "a", dense_values: [n, 1, 1], metadata: { n } } as VectorWrite,
];

/** Bytes of past records are gone where nobody needs them: their number, by reading the history of all ids. */
const states = (collection: Collection, id = "a") =>
  collection.history(id).states.map(({ version }) => version);

describe("which versions are readable", () => {
  test("[V5] without history only the current version is; from the day on that it is kept, later ones", async () => {
    const collection = await make("c");
    for (const n of [1, 2]) await collection.upsert(one(n));
    await expect(collection.at({ version: 1 }).count()).rejects.toMatchObject({ code: "version_gone" });
    expect(await collection.at({ version: 2 }).count()).toEqual({ count: 1 });
    expect(states(collection)).toEqual([2]);
    await collection.setHistory("all");
    for (const n of [3, 4]) await collection.upsert(one(n));
    await expect(collection.at({ version: 1 }).count()).rejects.toMatchObject({
      details: { oldest_version: 2 },
    });
    for (const version of [2, 3, 4])
      expect((await collection.at({ version }).get("a")).toRecord().metadata).toEqual({ n: version });
    expect(states(collection)).toEqual([4, 3, 2]);
    await collection.setHistory(null);
    await vacuumed();
    expect(states(collection)).toEqual([4]);
    await expect(collection.at({ version: 3 }).count()).rejects.toMatchObject({ code: "version_gone" });
  });

  test("[V5] a version is readable for so many seconds after it was replaced", async () => {
    const collection = await make("c", { history: { seconds: 2 } });
    for (const n of [1, 2]) await collection.upsert(one(n));
    expect((await collection.at({ version: 1 }).get("a")).toRecord().metadata).toEqual({ n: 1 });
    await vacuumed();
    expect(states(collection)).toEqual([2, 1]);
    await delay(2_100);
    await expect(collection.at({ version: 1 }).count()).rejects.toMatchObject({ code: "version_gone" });
    expect(await collection.at({ version: 2 }).count()).toEqual({ count: 1 });
    await vacuumed();
    expect(states(collection)).toEqual([2]);
  });

  test("[V6] a tag keeps a version with any history, and none of the versions beside it", async () => {
    const collection = await make("c");
    await collection.upsert(one(1));
    expect(await collection.putTag("first", { version: 1 })).toMatchObject({ name: "first", version: 1 });
    for (const n of [2, 3, 4]) await collection.upsert(one(n));
    await vacuumed();
    expect((await collection.at({ version: "first" }).get("a")).toRecord().metadata).toEqual({ n: 1 });
    expect(collection.versions().tags).toMatchObject([{ name: "first", version: 1 }]);
    expect(states(collection)).toEqual([4, 1]);
    await expect(collection.putTag("first", { version: 4 })).rejects.toMatchObject({
      code: "tag_already_exists",
      details: { version: 1 },
    });
    for (const name of ["", "17", "a".repeat(64)])
      await expect(collection.putTag(name, { version: 4 })).rejects.toMatchObject({
        code: "invalid_request",
      });
    await collection.deleteTag("first");
    await vacuumed();
    expect(states(collection)).toEqual([4]);
    await expect(collection.deleteTag("first")).rejects.toMatchObject({ code: "tag_not_found" });
    expect((await collection.check()).findings).toEqual([]);
  });

  test("[V5] a time names the version that was current then; what cannot be is refused", async () => {
    const collection = await make("c", { history: "all" });
    const times: number[] = [];
    for (const n of [1, 2, 3]) {
      times.push(Date.now());
      await delay(20);
      if (n < 3) await collection.upsert(one(n));
      await delay(20);
    }
    const at = (ms: number) => collection.at({ as_of: new Date(ms).toISOString() });
    expect(await at(times[0]).count()).toEqual({ count: 0 });
    expect((await at(times[1]).get("a")).toRecord().metadata).toEqual({ n: 1 });
    expect((await at(times[2]).get("a")).toRecord().metadata).toEqual({ n: 2 });
    const { hash } = collection.versions().versions[1];
    expect((await collection.at({ version: hash }).get("a")).toRecord().metadata).toEqual({ n: 1 });
    const refused: [Parameters<Collection["at"]>[0], string][] = [
      [{ version: 3 }, "version_not_found"],
      [{ as_of: new Date(Date.now() + 60_000).toISOString() }, "version_not_found"],
      [{ as_of: new Date(times[0] - 60_000).toISOString() }, "version_not_found"],
      [{ version: "f".repeat(64) }, "version_not_found"],
      [{ version: "no tag" }, "tag_not_found"],
      [{ version: 1, as_of: "2026-01-01T00:00:00Z" }, "invalid_request"],
      [{ as_of: "yesterday" }, "invalid_request"],
      [{ version: 1.5 }, "invalid_request"],
      [{ version: -1 }, "invalid_request"],
    ];
    for (const [when, code] of refused)
      await expect(collection.at(when).count(), JSON.stringify(when)).rejects.toMatchObject({ code });
  });

  test.each([[{ versions: 0 }], [{ seconds: -1 }], [{ versions: 1, seconds: 1 }], ["none"]])(
    "[V5] the history %j is refused",
    async (history) => {
      await expect(
        database.createCollection({ name: "x", ...body, config: { history } } as never),
      ).rejects.toMatchObject({ code: "invalid_request", details: { path: "config.history" } });
    },
  );
});

test("[V8] a difference lists what was added, changed and removed, in order of id", async () => {
  const collection = await make("c", { history: "all" });
  const write = (...ids: string[]) => collection.upsert(ids.map((id) => ({ ...one(1)[0], id })));
  await write("b", "c", "d");
  await write("c", "a");
  await collection.delete("b");
  const lines = async (from: number, to: number) =>
    [...(await collection.diff({ version: from }, { version: to }))].map((line) => JSON.parse(line.toJson()));
  const [counts, ...changes] = await lines(1, 3);
  expect(counts).toEqual({ added: 1, changed: 1, removed: 1 });
  expect(changes).toMatchObject([
    { op: "added", id: "a", vector: { id: "a" } },
    { op: "removed", id: "b" },
    { op: "changed", id: "c", vector: { id: "c" } },
  ]);
  expect((await lines(3, 1)).slice(1)).toMatchObject([
    { op: "removed", id: "a" },
    { op: "added", id: "b" },
    { op: "changed", id: "c" },
  ]);
  expect(await lines(2, 2)).toEqual([{ added: 0, changed: 0, removed: 0 }]);
});

test("[V4] more versions than can be open at a time are read side by side", async () => {
  const collection = await make("c", { history: "all" });
  for (let n = 1; n <= 20; n++) await collection.upsert(one(n));
  const found = await Promise.all(
    Array.from({ length: 20 }, async (_, i) => {
      const { results } = await collection
        .at({ version: i + 1 })
        .search("dense", { query_vector: [1, 1, 1], top_k: 1, include: ["metadata"] });
      return results[0].metadata;
    }),
  );
  expect(plain(found)).toEqual(Array.from({ length: 20 }, (_, i) => ({ n: i + 1 })));
  await database.deleteCollection("c");
});
