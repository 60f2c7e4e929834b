// What does a server do on a disk that is really full, or really read-only?

import { mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type QuiverClient, QuiverError } from "@quiverdb/client";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { calls, compileShim, errors, Faults, shimEnvironment, whyNoShim } from "./crash/disk-shim.ts";
import { SmallDisk, whyNoMount } from "./crash/small-disk.ts";
import { adminKey, ServerProcess } from "./server-process.ts";

const noMount = whyNoMount();
const noShim = whyNoShim();
const skipped = (reason: string | null) => (reason === null ? "" : ` (skipped: ${reason})`);
const noRetries = { retries: 0 };

let server: ServerProcess | undefined;
let stamp = 0;

beforeEach(() => {
  stamp = 0;
});
afterEach(async () => {
  await server?.kill();
  server = undefined;
});

async function start(dataDir: string, env: Record<string, string> = {}): Promise<QuiverClient> {
  server = new ServerProcess(dataDir, { env });
  return server.client();
}

async function makeCollection(client: QuiverClient, name: string) {
  return client.createCollection(
    {
      name,
      dense_vector: { enabled: true, dimension: 4, auto_create_index: true },
      sparse_vector: { enabled: true },
      tf_idf_options: { enabled: true },
      config: {},
      store_raw_text: true,
    },
    noRetries,
  );
}

/** Incompressible records. */
const records = (count: number, characters: number) =>
  Array.from({ length: count }, () => ({
    id: `r${++stamp}`,
    dense_values: [stamp, 1, 2, 3],
    text: Array.from({ length: characters / 8 }, () => Math.random().toString(36).slice(2, 9)).join(" "),
  }));

/** The ids that a collection has. */
async function idsIn(client: QuiverClient, name: string): Promise<Set<string>> {
  const ids = new Set<string>();
  for await (const record of client.collection(name).export().records()) ids.add(record.id);
  return ids;
}

/** Error code of the rejection; undefined if the request succeeded. */
async function refusal(act: () => Promise<unknown>): Promise<string | undefined> {
  try {
    await act();
    return undefined;
  } catch (error) {
    if (error instanceof QuiverError) return error.code;
    throw error;
  }
}

const nearest = (client: QuiverClient, name: string) =>
  client.collection(name).search.dense({ query_vector: [1, 0, 0, 0], top_k: 3 }, noRetries);

describe.skipIf(noMount !== null)(`a full disk${skipped(noMount)}`, () => {
  let disk: SmallDisk;
  let dataDir: string;

  beforeEach(() => {
    disk = new SmallDisk(8);
    dataDir = join(disk.path, "data");
  });
  afterEach(async () => {
    await server?.kill();
    disk.remove();
  });

  it("[I9] rejects streaming writes, keeps what it acknowledged and accepts writes again when there is space", async () => {
    const client = await start(dataDir);
    const collection = await makeCollection(client, "c");
    const acknowledged = new Set<string>();
    const upsert = async (count: number, characters: number) => {
      const batch = records(count, characters);
      const code = await refusal(() => collection.upsert(batch, noRetries));
      if (code === undefined) for (const { id } of batch) acknowledged.add(id);
      return code;
    };
    // Smaller and smaller ones, until nothing fits.
    for (const [count, characters] of [
      [20, 10_000],
      [4, 2_000],
      [1, 80],
    ]) {
      let code: string | undefined;
      while (code === undefined) code = await upsert(count, characters);
      expect(code).toBe("storage_full");
    }
    const error = await collection.upsert(records(1, 8), noRetries).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "storage_full", status: 507 });
    expect(acknowledged.size).toBeGreaterThan(100);
    expect(await idsIn(client, "c")).toEqual(acknowledged);
    disk.fill();
    expect(await upsert(1, 8)).toBe("storage_full");
    // A deletion is executed or rejected, as its response says.
    for (const id of ["r1", "r2"]) {
      const code = await refusal(() => collection.delete(id, noRetries));
      expect([undefined, "storage_full"]).toContain(code);
      if (code === undefined) acknowledged.delete(id);
      expect(await collection.has(id)).toBe(acknowledged.has(id));
    }
    expect(await idsIn(client, "c")).toEqual(acknowledged);
    expect((await nearest(client, "c")).results).toHaveLength(3);
    expect((await collection.describe()).vectors_count).toBe(acknowledged.size);

    disk.resize(16);
    expect(await upsert(20, 10_000)).toBeUndefined();
    expect(await refusal(() => collection.delete("r3", noRetries))).toBeUndefined();
    acknowledged.delete("r3");
    expect(await idsIn(client, "c")).toEqual(acknowledged);
    await server?.kill();
    const again = await start(dataDir);
    expect(await idsIn(again, "c")).toEqual(acknowledged);
    expect((await nearest(again, "c")).results).toHaveLength(3);
  });

  it("[I9] rejects staged operations, commits, collections and indexes, and leaves nothing half done", async () => {
    const client = await start(dataDir);
    const collection = await makeCollection(client, "c");
    const staged = records(50, 10_000);
    const transaction = await collection.transaction(noRetries);
    await transaction.upsert(staged, noRetries);
    const { hash: before } = await collection.currentVersion();
    const made = () => readdirSync(join(dataDir, "collections"));
    const directories = made();
    disk.fill();
    const late = records(5, 10_000);
    expect(await refusal(() => transaction.upsert(late, noRetries))).toBe("storage_full");
    expect(await refusal(() => transaction.commit(noRetries))).toBe("storage_full");
    expect(await refusal(() => makeCollection(client, "d"))).toBe("storage_full");
    expect(await refusal(() => collection.createTextIndex({}, noRetries))).toBe("storage_full");
    expect(await refusal(() => collection.deleteIndex("dense", noRetries))).toBe("storage_full");

    expect(Object.keys(await collection.indexes())).toEqual(["dense"]);
    expect((await client.listCollections()).map(({ name }) => name)).toEqual(["c"]);
    expect(made()).toEqual(directories);
    expect((await collection.currentVersion()).hash).toBe(before);
    expect(await idsIn(client, "c")).toEqual(new Set());

    disk.resize(24);
    await transaction.commit(noRetries);
    const all = new Set(staged.map(({ id }) => id));
    expect(await idsIn(client, "c")).toEqual(all);
    await collection.createTextIndex({}, noRetries);
    await makeCollection(client, "d");
    await server?.kill();
    const again = await start(dataDir);
    expect(await idsIn(again, "c")).toEqual(all);
    expect(Object.keys(await again.collection("c").indexes()).sort()).toEqual(["dense", "tf-idf"]);
    expect((await again.listCollections()).map(({ name }) => name)).toEqual(["c", "d"]);
  });

  it("[I9] rejects keys, sessions and changes that the audit log cannot record, and leaves none of them half done", async () => {
    const client = await start(dataDir);
    await makeCollection(client, "c");
    const reader = await client.createKey({ name: "reader", role: "read" });
    disk.fill();
    const login = { username: "admin", password: adminKey };
    expect(await refusal(() => client.createSession(login, noRetries))).toBe("storage_full");
    expect(await refusal(() => client.createKey({ name: "k", role: "write" }, noRetries))).toBe(
      "storage_full",
    );
    expect(await refusal(() => client.revokeKey(reader.key_id, noRetries))).toBe("storage_full");
    // The last page of the log has room for some more lines.
    let code: string | undefined;
    for (let i = 0; i < 40; i++) {
      code = await refusal(() => makeCollection(client, "d".repeat(200)));
      expect(code).toBe("storage_full");
    }
    expect((await client.listKeys()).map(({ name }) => name)).toEqual(["reader"]);
    expect((await client.audit()).damaged_lines).toBe(0);
    expect((await nearest(client, "c")).results).toEqual([]);

    disk.free();
    await client.createSession(login, noRetries);
    await client.createKey({ name: "k", role: "write" }, noRetries);
    await client.revokeKey(reader.key_id, noRetries);
    await server?.kill();
    const again = await start(dataDir);
    expect((await again.listKeys()).map(({ name }) => name)).toEqual(["k"]);
    expect((await again.audit()).damaged_lines).toBe(0);
  });

  it("[I9] a first start on it reports it, and succeeds when there is space", async () => {
    // Once the server has responded, it also handles signals.
    await (await start(dataDir)).health();
    await server?.kill("SIGTERM");
    disk.fill();
    await expectNoStart(join(disk.path, "new"), "Its disk is full");
    disk.free();
    // The first start on a directory generates an admin key, of which nothing may be left if it does not fit.
    server = new ServerProcess(join(disk.path, "new"), { makesKey: true });
    await server.client();
    expect(readdirSync(join(disk.path, "new")).filter((name) => name.startsWith("admin-key"))).toEqual([
      "admin-key",
    ]);
  });

  it.each([
    ["killed", "SIGKILL"],
    ["stopped", "SIGTERM"],
  ] as const)("[I9] a server that was %s on it starts again and serves reads", async (_how, signal) => {
    const client = await start(dataDir);
    await (await makeCollection(client, "c")).upsert(records(3, 80));
    disk.fill();
    await server?.kill(signal);
    const again = await start(dataDir);
    expect((await idsIn(again, "c")).size).toBe(3);
    expect((await nearest(again, "c")).results).toHaveLength(3);
    expect(await refusal(() => again.collection("c").upsert(records(1, 80), noRetries))).toBe("storage_full");
    disk.free();
    await again.collection("c").upsert(records(1, 80), noRetries);
  });
});

async function expectNoStart(dataDir: string, reason: string): Promise<void> {
  server = new ServerProcess(dataDir);
  expect(await server.listening).toBeNull();
  expect(await server.ended).toEqual({ code: 1, signal: null });
  expect(server.output()).toContain(dataDir);
  expect(server.output()).toContain(reason);
  expect(server.output()).not.toMatch(/\n\s+at /);
}

describe.skipIf(noMount !== null)(`a read-only disk${skipped(noMount)}`, () => {
  it("[I9] a start on it reports it, names the directory and changes nothing", async () => {
    const disk = new SmallDisk(8);
    const dataDir = join(disk.path, "data");
    try {
      const client = await start(dataDir);
      await makeCollection(client, "c");
      await client.collection("c").upsert(records(3, 80));
      await server?.kill();
      disk.makeReadOnly();
      await expectNoStart(dataDir, "Its disk is read-only");
      await expectNoStart(join(disk.path, "new"), "Its disk is read-only");
      disk.makeWritable();
      expect((await idsIn(await start(dataDir), "c")).size).toBe(3);
    } finally {
      await server?.kill();
      disk.remove();
    }
  });
});

describe.skipIf(noShim !== null)(`a disk that becomes read-only${skipped(noShim)}`, () => {
  it("[I9] rejects changes, serves reads, and accepts writes when it is writable again", async () => {
    // Simulates what the system does after an error; the system refuses to remount a disk with files that are open for writing.
    const folder = realpathSync(mkdtempSync(join(tmpdir(), "quiver-read-only-")));
    const faults = new Faults(join(folder, "faults"));
    const dataDir = join(folder, "disk", "data");
    mkdirSync(join(folder, "disk"));
    try {
      const shim = { directory: join(folder, "disk"), faults: faults.path };
      const client = await start(dataDir, shimEnvironment(compileShim(folder), shim));
      const collection = await makeCollection(client, "c");
      await collection.upsert(records(3, 80));
      const transaction = await collection.transaction(noRetries);
      const everything = Object.values(calls).reduce((sum, call) => sum + call, 0);
      faults.set({ calls: everything, files: 7, pass: 0, fail: -1, error: errors.EROFS });
      const error = await collection.upsert(records(1, 80), noRetries).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: "storage_failed", message: /^The disk is read-only/ });
      for (const act of [
        () => collection.delete("r1", noRetries),
        () => transaction.upsert(records(1, 80), noRetries),
        () => transaction.commit(noRetries),
        () => makeCollection(client, "d"),
        () => collection.createTextIndex({}, noRetries),
        () => client.createKey({ name: "k", role: "read" }, noRetries),
        () => client.createSession({ username: "admin", password: adminKey }, noRetries),
      ])
        expect(await refusal(act)).toBe("storage_failed");
      expect((await nearest(client, "c")).results).toHaveLength(3);
      expect(await idsIn(client, "c")).toEqual(new Set(["r1", "r2", "r3"]));
      expect(await client.listKeys()).toEqual([]);
      faults.clear();
      await collection.delete("r1", noRetries);
      await transaction.commit(noRetries);
      await makeCollection(client, "d");
      await client.createKey({ name: "k", role: "read" }, noRetries);
      await client.createSession({ username: "admin", password: adminKey }, noRetries);
      await server?.kill();
      const again = await start(dataDir);
      expect(await idsIn(again, "c")).toEqual(new Set(["r2", "r3"]));
      expect((await again.listKeys()).map(({ name }) => name)).toEqual(["k"]);
    } finally {
      await server?.kill();
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

describe.skipIf(process.platform !== "linux")("a truncated file", () => {
  it("[I9] ends a server that reads the missing part, and the next start reports it", async () => {
    const folder = realpathSync(mkdtempSync(join(tmpdir(), "quiver-short-")));
    const dataDir = join(folder, "data");
    try {
      const client = await start(dataDir);
      const collection = await makeCollection(client, "c");
      await collection.upsert(records(200, 2_000));
      const [internalId] = readdirSync(join(dataDir, "collections"));
      truncateSync(join(dataDir, "collections", internalId, "data.mdb"), 8192);
      expect(await refusal(() => idsIn(client, "c"))).toBe("connection_failed");
      expect(await server?.ended).toEqual({ code: null, signal: "SIGBUS" });
      const again = await start(dataDir);
      expect(server?.output()).toContain(internalId);
      expect(server?.output()).toContain("is not in the file");
      expect(await refusal(() => idsIn(again, "c"))).toBe("data_corrupted");
    } finally {
      await server?.kill();
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
