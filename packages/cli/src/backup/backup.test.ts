// Backup and restore from the user's view: real processes, a real server, real files.

import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient, type QuiverClient } from "@quiverdb/client";
import type { RunningServer } from "@quiverdb/server/running-server";
import { startServer } from "@quiverdb/server/server";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type BackupFile, backupFileName, newestChain, readBackupFile } from "./backup-files.ts";

const main = join(import.meta.dirname, "../../dist/main.js");
const adminKey = "backup-test-key";
let folder: string;
let server: RunningServer;
let client: QuiverClient;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "quiver-cli-backup-"));
  server = await startServer({ dataDir: join(folder, "data"), port: 0, adminKey, logLevel: "error" });
  client = createClient({ url: server.url, apiKey: adminKey });
  for (const name of ["docs", "Bücher & mehr"]) {
    const made = await client.createCollection({ name, dense_vector: { enabled: true, dimension: 2 } });
    await made.upsert([{ id: "a", dense_values: [1, 2] }]);
  }
});
afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true });
});

type Result = { code: number | null; out: string; err: string };

function quiver(...args: string[]): Promise<Result> {
  const env = { PATH: process.env.PATH, QUIVER_URL: server.url, QUIVER_API_KEY: adminKey };
  const child = spawn(process.execPath, [main, ...args], { cwd: folder, env });
  const result: Result = { code: null, out: "", err: "" };
  child.stdout.on("data", (text) => {
    result.out += text;
  });
  child.stderr.on("data", (text) => {
    result.err += text;
  });
  return new Promise((done) => child.once("close", (code) => done({ ...result, code })));
}

const succeed = async (...args: string[]) => {
  const result = await quiver(...args);
  expect(result, result.err).toMatchObject({ code: 0 });
  return result;
};

it("[B2] [B3] all collections, and then their changes, are restored from a directory; nothing is left on the server", async () => {
  const docs = client.collection("docs");
  const first = await succeed("backup", "--all", "--incremental", "--output", "all");
  expect(first.out).toMatch(/Backed up "docs", version \d+: 1 record,/);
  await docs.upsert([{ id: "b", dense_values: [3, 4] }]);
  const second = JSON.parse(
    (await succeed("backup", "--all", "--incremental", "--output", "all", "--json")).out,
  );
  expect(second).toMatchObject([
    { collection: "Bücher & mehr", file: null, records: 0, bytes: 0 },
    { collection: "docs", records: 1, since: 1 },
  ]);
  // No file for what has not changed.
  expect(readdirSync(join(folder, "all"))).toHaveLength(3);
  const third = await succeed("backup", "docs", "--incremental", "--output", "all");
  expect(third.out).toMatch(
    /^"docs" has not changed since its last backup, of version \d+; nothing was written\.\n$/,
  );
  expect(readdirSync(join(folder, "all"))).toHaveLength(3);
  expect((await client.listSnapshots()).snapshots).toEqual([]);
  const { hash } = await docs.currentVersion();
  await docs.drop();
  expect(await quiver("restore", "all", "--all")).toMatchObject({
    code: 1,
    err: expect.stringContaining("already exists"),
  });
  const restored = await succeed("restore", "all", "--all", "--overwrite", "--json");
  expect(JSON.parse(restored.out)).toMatchObject([
    { name: "Bücher & mehr", vector_count: 1 },
    { name: "docs", vector_count: 2, hash },
  ]);
  expect((await docs.get("b")).dense_values).toEqual([3, 4]);
  expect((await client.listSnapshots()).snapshots).toEqual([]);
}, 120_000);

it("[B4] one collection is backed up to a file and restored under another name; a damaged file is rejected", async () => {
  const file = join(folder, "docs.qbackup");
  await succeed("backup", "docs", "--output", file, "--quiet");
  const { heading, bytes } = readBackupFile(file);
  expect(heading).toMatchObject({ collection: { name: "docs" }, since: null });
  expect(await quiver("backup", "docs", "--output", file)).toMatchObject({
    code: 2,
    err: expect.stringContaining("exists. Name another file, or replace it with --overwrite"),
  });
  await succeed("backup", "docs", "--output", file, "--overwrite");
  await succeed("restore", file, "--as", "copy");
  expect((await client.getCollection("copy")).vectors_count).toBe(heading.live);
  const damaged = readFileSync(file);
  damaged[bytes - 200] ^= 1;
  writeFileSync(file, damaged);
  const refused = await quiver("restore", file, "--as", "other", "--json");
  expect(refused.code).toBe(1);
  expect(JSON.parse(refused.err.split("\n").at(-2) as string).error).toMatchObject({
    code: "invalid_snapshot",
  });
  expect((await client.listCollections()).map(({ name }) => name)).not.toContain("other");
  writeFileSync(join(folder, "no.qbackup"), "no backup");
  expect(await quiver("restore", "no.qbackup")).toMatchObject({
    code: 1,
    err: expect.stringContaining("not a Quiver backup"),
  });
}, 120_000);

it("wrong usage changes nothing and names what is missing", async () => {
  mkdirSync(join(folder, "empty"), { recursive: true });
  const cases = [
    [2, "Name a collection", ["backup"]],
    [2, "needs a directory", ["backup", "docs", "--incremental", "--output", "file"]],
    [1, "no backup file", ["restore", "empty"]],
    [1, "There is no collection", ["backup", "nothing"]],
  ] as const;
  for (const [code, words, args] of cases)
    expect(await quiver(...args)).toMatchObject({ code, err: expect.stringContaining(words) });
}, 120_000);

it("an interrupted backup leaves no partial file, and no snapshot on the server", async () => {
  // A server that has sent a part of the file and no more.
  const asked: string[] = [];
  const slow = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    const snapshot = {
      id: "s1",
      version_number: 1,
      since_version: null,
      records_stored: 1,
      size_bytes: 9_999,
      sha256: "",
    };
    if (request.method === "DELETE") response.writeHead(204).end();
    else if (request.url?.includes("/s1")) {
      response.writeHead(200, { "content-length": "9999" });
      response.write("a part of it");
    } else if (request.method === "POST") response.writeHead(201).end(JSON.stringify(snapshot));
    else response.end(JSON.stringify({ snapshots: [], running: [] }));
  });
  await new Promise<void>((ready) => slow.listen(0, "127.0.0.1", ready));
  try {
    const url = `http://127.0.0.1:${(slow.address() as { port: number }).port}`;
    const path = join(folder, "interrupted.qbackup");
    const child = spawn(process.execPath, [main, "backup", "slow", "--output", path, "--url", url], {
      cwd: folder,
    });
    let err = "";
    child.stderr.on("data", (text) => {
      err += text;
    });
    const ended = new Promise((done) => child.once("close", done));
    const partial = () => statSync(`${path}.partial`, { throwIfNoEntry: false })?.size ?? 0;
    await expect.poll(partial, { timeout: 20_000 }).toBeGreaterThan(0);
    child.kill("SIGINT");
    expect(await ended, err).toBe(130);
    expect(err).toContain("Backups that are complete were kept");
    expect(readdirSync(folder).filter((name) => name.startsWith("interrupted"))).toEqual([]);
    expect(asked.filter((request) => request.startsWith("DELETE"))).toEqual([
      expect.stringContaining("/snapshots/s1"),
    ]);
  } finally {
    slow.closeAllConnections();
    slow.close();
  }
}, 60_000);

it("the newest chain is found among files in any order, and a missing link is named", () => {
  const file = (version: number, since: number | null, created_ms = version): BackupFile => ({
    path: `v${version}`,
    bytes: 1,
    heading: {
      collection: { name: "c" },
      version,
      hash: `h${version}`,
      since: since === null ? null : { version: since, hash: `h${since}` },
      live: 0,
      created_ms,
    },
  });
  const files = [file(9, 5), file(5, 2), file(2, null), file(1, null), file(7, 5)];
  expect(newestChain(files).map(({ path }) => path)).toEqual(["v2", "v5", "v9"]);
  expect(newestChain([...files, file(10, null)]).map(({ path }) => path)).toEqual(["v10"]);
  expect(() => newestChain(files.filter(({ path }) => path !== "v5"))).toThrow("version 5");
  // Nothing has changed: the file's base version is its own version.
  expect(newestChain([file(2, null), file(2, 2, 3)])).toHaveLength(2);
  expect(backupFileName("docs", 3, null)).toBe("docs-v3.qbackup");
  expect(backupFileName("a/../ü", 3, 1)).toMatch(/^a_____-[0-9a-f]{8}-v3-since-v1\.qbackup$/);
});
