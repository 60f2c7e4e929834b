// quiver check and quiver repair from the user's view: real processes, real files.

import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "@quiverdb/client";
import { startServer } from "@quiverdb/server/server";
import { afterEach, beforeEach, expect, it } from "vitest";

const main = join(import.meta.dirname, "../../dist/main.js");
let folder: string;
let dataDir: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "quiver-cli-check-"));
  dataDir = join(folder, "data");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

type Result = { code: number | null; out: string; err: string };

function quiver(...args: string[]): Promise<Result> {
  const child = spawn(process.execPath, [main, ...args], { cwd: folder });
  let out = "";
  let err = "";
  child.stdout.setEncoding("utf8").on("data", (text) => {
    out += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text) => {
    err += text;
  });
  return new Promise((done) => child.once("close", (code) => done({ code, out, err })));
}

const serve = () => startServer({ dataDir, port: 0, noAuth: true, logLevel: "silent" });

async function fill(): Promise<void> {
  const server = await serve();
  try {
    const collection = await createClient({ url: server.url }).createCollection({
      name: "c",
      sparse_vector: { enabled: true, auto_create_index: true },
    });
    await collection.upsert([
      { id: "one", sparse_values: [[1, 1]], metadata: { word: "first" } },
      { id: "two", sparse_values: [[2, 1]], metadata: { word: "second" } },
    ]);
  } finally {
    await server.close();
  }
}

function damage(word: string): void {
  const [internalId] = readdirSync(join(dataDir, "collections"));
  const path = join(dataDir, "collections", internalId, "data.mdb");
  const file = readFileSync(path);
  for (let at = file.indexOf(word); at >= 0; at = file.indexOf(word, at + 1)) file[at] ^= 4;
  writeFileSync(path, file);
}

it("[Z1] check exits with 0 for undamaged data, 1 for damage, 2 if it cannot run", async () => {
  await fill();
  const clean = await quiver("check", dataDir);
  expect(clean).toMatchObject({ code: 0, err: "" });
  expect(clean.out).toMatch(/2 records at version 1/);
  damage("second");
  const found = await quiver("check", dataDir);
  expect(found.code).toBe(1);
  expect(found.out).toMatch(/DAMAGED {2}checksum in "c" records/);
  const json = await quiver("check", dataDir, "--json", "--collection", "c");
  expect(json.code).toBe(1);
  expect(JSON.parse(json.out)).toMatchObject({
    findings_total: 1,
    findings: [{ kind: "checksum", collection: "c", table: "records", ordinal: 1 }],
  });
  for (const args of [
    ["check"],
    ["check", folder],
    ["check", dataDir, "--collection", "none"],
    ["check", "--url", "http://127.0.0.1:9"],
  ])
    expect((await quiver(...args)).code).toBe(2);
});

it("[Z1] a directory in use is refused, and the server that uses it can check it instead", async () => {
  await fill();
  const server = await serve();
  try {
    // Another process is another user of the directory.
    const refused = await quiver("check", dataDir);
    expect(refused.code).toBe(2);
    expect(refused.err).toMatch(/in use/);
    const live = await quiver("check", "--url", server.url, "--json");
    expect(live.code).toBe(0);
    expect(JSON.parse(live.out)).toMatchObject({
      findings_total: 0,
      collections: [{ name: "c", records: 2, indexes: ["sparse"] }],
    });
  } finally {
    await server.close();
  }
});

it("[Z3] a running server names the collections that it does not serve", async () => {
  await fill();
  damage("two");
  const server = await serve();
  try {
    const ready = await fetch(`${server.url}/health/ready`);
    expect(ready.status).toBe(200);
    expect(await ready.json()).toMatchObject({ status: "degraded", collections_damaged: 1 });
    const live = await quiver("check", "--url", server.url);
    expect(live.code).toBe(1);
    expect(live.out).toMatch(/is damaged and not served/);
  } finally {
    await server.close();
  }
});

it("[Z4] repair exits with 0 if everything was saved and with 1 if something is lost, which it names", async () => {
  await fill();
  const whole = await quiver("repair", dataDir, "--into", join(folder, "whole"));
  expect(whole).toMatchObject({ code: 0, err: "" });
  expect(whole.out).toMatch(/2 records saved, 0 lost; indexes: sparse/);
  damage("second");
  const part = await quiver("repair", dataDir, "--into", join(folder, "part"), "--json");
  expect(part.code).toBe(1);
  const lines = part.out
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(lines).toMatchObject([
    { lost: { collection: "c", record_id: "two", ordinal: 1 } },
    { repaired: { losses: 1, collections: [{ name: "c", records: 1, lost: 1 }] } },
  ]);
  expect((await quiver("check", join(folder, "part"))).code).toBe(0);
  expect((await quiver("repair", dataDir, "--into", join(folder, "part"))).code).toBe(2);
});

it("[Z1] [Z4] check compares the checkpoints of all indexes, and repair keeps all records of such a collection", async () => {
  const server = await serve();
  const records = Array.from({ length: 1_200 }, (_, n) => ({
    id: `r${n}`,
    dense_values: [n % 7, n % 11, n % 13, 1],
    sparse_values: [[n % 50, 1]] as [number, number][],
    text: `word${n % 100} common`,
  }));
  try {
    const collection = await createClient({ url: server.url }).createCollection({
      name: "c",
      dense_vector: { enabled: true, dimension: 4, auto_create_index: true },
      sparse_vector: { enabled: true, auto_create_index: true },
      tf_idf_options: { enabled: true },
      store_raw_text: true,
    });
    await collection.createTextIndex({});
    await collection.upsert(records);
    await collection.waitForIndex();
    await collection.unload();
  } finally {
    await server.close();
  }
  const json = await quiver("check", dataDir, "--json");
  expect(JSON.parse(json.out)).toMatchObject({ findings: [], collections: [{ records: 1_200 }] });
  expect(JSON.parse(json.out).collections[0].indexes.sort()).toEqual(["dense", "sparse", "tf-idf"]);
  const repaired = await quiver("repair", dataDir, "--into", join(folder, "repaired"));
  expect(repaired).toMatchObject({ code: 0, err: "" });
}, 60_000);

it("[Z1] [Z4] check and repair handle snapshots: damaged ones are named, intact ones are copied", async () => {
  await fill();
  const server = await serve();
  const collection = createClient({ url: server.url }).collection("c");
  const damaged = await collection.createSnapshot();
  const whole = await collection.createSnapshot();
  const clean = await quiver("check", "--url", server.url);
  await server.close();
  expect(clean).toMatchObject({ code: 0, err: "" });
  expect(clean.out).toMatch(/No damage found in 1 collection and 2 snapshots/);
  const path = join(dataDir, "snapshots", `${damaged.id}.qbackup`);
  const bytes = readFileSync(path);
  bytes[bytes.length >> 1] ^= 1;
  writeFileSync(path, bytes);
  const found = await quiver("check", dataDir);
  expect(found.code).toBe(1);
  expect(found.out).toMatch(new RegExp(`DAMAGED  snapshot in "c": The snapshot ${damaged.id} is damaged`));
  const again = await serve();
  const live = await quiver("check", "--url", again.url, "--collection", "c", "--json");
  await again.close();
  expect(live.code).toBe(1);
  expect(JSON.parse(live.out)).toMatchObject({ findings: [{ kind: "snapshot", snapshot_id: damaged.id }] });
  const into = join(folder, "repaired");
  const repaired = await quiver("repair", dataDir, "--into", into);
  expect(repaired.code).toBe(1);
  expect(repaired.out).toMatch(new RegExp(`LOST  "c": The snapshot ${damaged.id} is lost`));
  expect(repaired.out).toMatch(/1 snapshot copied/);
  expect(readdirSync(join(into, "snapshots")).sort()).toEqual([`${whole.id}.json`, `${whole.id}.qbackup`]);
  expect(readdirSync(into)).toContain("audit.log");
});
