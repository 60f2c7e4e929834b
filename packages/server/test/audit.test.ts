// The audit log: its contents, its timing, and what happens if it cannot be written.

import {
  appendFileSync,
  chmodSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import files, { mkdtemp, rm } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { limits } from "@quiverdb/protocol/limits";
import type { AuditEntry } from "@quiverdb/protocol/shapes/audit";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type AuditedChange, AuditLog } from "../src/audit/audit-log.ts";
import {
  adminKey,
  collectionBody,
  expectError,
  startTestServer,
  type TestServer,
  textIndexBody,
} from "./running.ts";

/**
 * Makes file system calls fail as on a full disk, until `restore`.
 * @param fails called with the name of each call; returns whether it fails
 */
async function failingSteps(fails: (step: string) => boolean): Promise<{ restore(): void }> {
  const folder = await mkdtemp(join(tmpdir(), "quiver-audit-"));
  const probe = await files.open(join(folder, "probe"), "w");
  const handle = Object.getPrototypeOf(probe);
  await probe.close();
  await rm(folder, { recursive: true });
  const undo: (() => void)[] = [];
  // biome-ignore lint/suspicious/noExplicitAny: calls of every shape are passed on.
  const replace = (object: any, step: string) => {
    const real = object[step];
    // biome-ignore lint/suspicious/noExplicitAny: as above.
    object[step] = async function (this: unknown, ...given: any[]) {
      if (fails(step)) throw Object.assign(new Error("no space"), { code: "ENOSPC" });
      return real.apply(this, given);
    };
    undo.push(() => {
      object[step] = real;
    });
  };
  for (const step of ["open", "rename", "rm", "stat"]) replace(files, step);
  for (const step of ["stat", "sync", "datasync", "appendFile", "truncate"]) replace(handle, step);
  syncBuiltinESMExports();
  return {
    restore() {
      for (const each of undo) each();
      syncBuiltinESMExports();
    },
  };
}

describe("over HTTP", () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startTestServer();
  });
  afterAll(() => server.end());

  const entries = async (query = "") =>
    (await server.call("readAudit", {}, undefined, query)).json.entries as AuditEntry[];
  const lines = () => readFileSync(join(server.dataDir, "audit.log"), "utf8").trimEnd().split("\n");
  /** The entries of a request, in order. */
  const of = async (requestId: string) =>
    (await entries("?limit=1000")).filter((entry) => entry.request_id === requestId).reverse();

  test("[A14] each change has two entries: before it begins and with its outcome", async () => {
    const made = await server.ask("/vectordb/collections", {
      body: collectionBody("a"),
      headers: { "x-request-id": "make-a" },
    });
    expect(made.status).toBe(201);
    const common = {
      operation: "createCollection",
      who: "admin-key",
      what: {
        name: "a",
        "dense_vector.enabled": "true",
        "dense_vector.dimension": "4",
        "sparse_vector.enabled": "true",
        "tf_idf_options.enabled": "true",
      },
      request_id: "make-a",
      address: "127.0.0.1",
      at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    };
    expect(await of("make-a")).toEqual([
      { ...common, phase: "begun" },
      { ...common, phase: "done" },
    ]);
    await server.ask("/vectordb/collections", {
      body: collectionBody("a"),
      headers: { "x-request-id": "again" },
    });
    expect((await of("again")).map(({ phase, error }) => [phase, error])).toEqual([
      ["begun", undefined],
      ["failed", "collection_already_exists"],
    ]);
  });

  test("[A14] the caller is the key, the session or the admin key; the names are recorded", async () => {
    const session = await server.ask("/auth/create-session", {
      body: { username: "admin", password: adminKey },
    });
    const asSession = { key: session.json.access_token as string };
    const made = await server.ask("/auth/keys", { ...asSession, body: { name: "app", role: "admin" } });
    const { key, key_id } = made.json;
    await server.ask("/vectordb/collections", { key, body: collectionBody("b") });
    await server.ask("/vectordb/collections/b/indexes/tf-idf", { key, body: textIndexBody });
    await server.ask("/vectordb/collections/b/indexes/tf_idf", { key, method: "DELETE" });
    await server.ask("/vectordb/collections/b", { key, method: "DELETE" });
    await server.ask(`/auth/keys/${key_id}`, { method: "DELETE" });
    const done = (await entries()).filter(({ phase }) => phase === "done").reverse();
    const bySession = expect.stringMatching(/^session:[0-9a-f]{16}$/);
    const named = expect.objectContaining({ name: "b" });
    expect(done.slice(-6).map(({ who, operation, what }) => [who, operation, what])).toEqual([
      [bySession, "createKey", { name: "app", role: "admin", key_id }],
      [`key:${key_id}`, "createCollection", named],
      [`key:${key_id}`, "createTextIndex", { collection_id: "b", name: "text" }],
      [`key:${key_id}`, "deleteIndex", { collection_id: "b", index_type: "tf_idf" }],
      [`key:${key_id}`, "deleteCollection", { collection_id: "b" }],
      ["admin-key", "revokeKey", { key_id }],
    ]);
    for (const secret of [key, key.slice(-43), asSession.key, adminKey])
      expect(lines().join()).not.toContain(secret);
  });

  test("[A14] the permissions of a key are recorded before the key exists", async () => {
    const collections = Array.from({ length: 100 }, (_, i) => `${"n".repeat(240)}, "${i}*`);
    const expires_at = Math.floor(Date.now() / 1000) + 3_600;
    const body = { name: "much", role: "write", collections, expires_at };
    const made = await server.ask("/auth/keys", { body, headers: { "x-request-id": "much" } });
    expect(made.status).toBe(201);
    const [begun, done] = await of("much");
    // All of them, because a truncated part could hide what the key was misused for.
    expect(JSON.parse(begun.what.collections)).toEqual(collections);
    const given = {
      name: "much",
      role: "write",
      collections: begun.what.collections,
      expires_at: `${expires_at}`,
    };
    expect(begun.what).toEqual(given);
    expect(done.what).toEqual({ ...given, key_id: made.json.key_id });
    expect(lines().join()).not.toContain(made.json.key);
  });

  test("[A14] which snapshot was created, uploaded, deleted, and restored over which collection", async () => {
    await server.ask("/vectordb/collections", { body: collectionBody("s") });
    const ask = async (id: string, path: string, asked: Parameters<TestServer["ask"]>[1]) => {
      const headers = { ...asked?.headers, "x-request-id": id };
      const answer = await server.ask(path, { ...asked, headers });
      return { json: answer.json, what: (await of(id)).map(({ phase, what }) => [phase, what]) };
    };
    const at = "/vectordb/collections/s";
    const full = await ask("full", `${at}/snapshots`, { body: {} });
    const { id, version_number, hash } = full.json;
    const version = { version_number: `${version_number}`, hash };
    expect(full.what).toEqual([
      ["begun", { collection_id: "s" }],
      ["done", { collection_id: "s", snapshot_id: id, ...version }],
    ]);
    const since = await ask("since", `${at}/snapshots`, { body: { since_version: 0 } });
    const chain = [id, since.json.id];
    expect(since.what).toEqual([
      ["begun", { collection_id: "s", since_version: "0" }],
      ["done", { collection_id: "s", since_version: "0", snapshot_id: chain[1], ...version }],
    ]);
    const asked = { collection_id: "s", snapshots: JSON.stringify(chain), overwrite: "true" };
    expect(
      (await ask("over", `${at}/restore`, { body: { snapshots: chain, overwrite: true } })).what,
    ).toEqual([
      ["begun", asked],
      ["done", { ...asked, ...version }],
    ]);
    expect((await ask("refused", `${at}/restore`, { body: { snapshots: [id] } })).what).toEqual([
      ["begun", { collection_id: "s", snapshots: JSON.stringify([id]) }],
      ["failed", { collection_id: "s", snapshots: JSON.stringify([id]) }],
    ]);
    const file = await fetch(`${server.url}${at}/snapshots/${id}/download`, {
      headers: { authorization: `Bearer ${adminKey}` },
    });
    const raw = new Uint8Array(await file.arrayBuffer());
    expect((await ask("gone", `${at}/snapshots/${id}`, { method: "DELETE" })).what).toEqual([
      ["begun", { collection_id: "s", snapshot_id: id }],
      ["done", { collection_id: "s", snapshot_id: id }],
    ]);
    const headers = { "content-type": "application/octet-stream" };
    const back = await ask("back", "/vectordb/snapshots", { method: "POST", raw, headers });
    expect(back.what).toEqual([
      ["begun", {}],
      ["done", { collection_id: "s", snapshot_id: back.json.id, ...version }],
    ]);
  });

  test("[A14] requests that are rejected for missing permissions, or by their shape, make no entries", async () => {
    const before = lines().length;
    const read = (await server.call("createKey", {}, { name: "r", role: "read" })).json.key as string;
    const two = lines().length;
    expect(two).toBe(before + 2);
    await server.ask("/vectordb/collections", { key: read, body: collectionBody("x") });
    await server.ask("/vectordb/collections", { key: "wrong", body: collectionBody("x") });
    await server.ask("/vectordb/collections", { body: { name: 7 } });
    await server.ask("/auth/create-session", { body: { username: "admin", password: "wrong" } });
    expect(lines().length).toBe(two);
    // A rejected name is truncated, so that it cannot fill the log.
    await server.ask("/vectordb/collections", { body: collectionBody("n".repeat(1_000_000)) });
    expect(
      lines()
        .slice(two)
        .map((line) => line.length > 1_000),
    ).toEqual([false, false]);
  });

  test("[A14] it is limited by `limit`, and only for admins without limits", async () => {
    expect(await entries("?limit=1")).toEqual((await entries()).slice(0, 1));
    for (const limit of ["0", "1001", "x"])
      expectError(await server.call("readAudit", {}, undefined, `?limit=${limit}`), 400, "invalid_request");
    const write = (await server.call("createKey", {}, { name: "w", role: "write" })).json.key as string;
    expectError(await server.ask("/auth/audit", { key: write }), 403, "forbidden");
  });

  test("[A14] if the log cannot be written, changes are rejected, and reads continue", async () => {
    const dataDir = await mkdtemp(join(tmpdir(), "quiver-audit-"));
    const other = await startTestServer({ dataDir });
    try {
      // Every write to a full disk fails like this one.
      const handles = await import("node:fs/promises");
      const file = await handles.open(join(dataDir, "probe"), "w");
      const prototype = Object.getPrototypeOf(file) as { datasync(): Promise<void> };
      await file.close();
      const datasync = prototype.datasync;
      prototype.datasync = () => Promise.reject(Object.assign(new Error("no space"), { code: "ENOSPC" }));
      try {
        expectError(await other.call("createCollection", {}, collectionBody("c")), 507, "storage_full");
        expect((await other.call("listCollections")).json.collections).toEqual([]);
        expect((await other.call("readAudit")).status).toBe(200);
      } finally {
        prototype.datasync = datasync;
      }
      expect((await other.call("createCollection", {}, collectionBody("c"))).status).toBe(201);
      const { entries, damaged_lines } = (await other.call("readAudit")).json;
      expect(entries.map((entry: AuditEntry) => entry.phase)).toEqual(["done", "begun"]);
      expect(damaged_lines).toBe(0);
    } finally {
      await other.end();
    }
  });

  test("[A14] an outcome that could not be written is pending: no change begins before it is written", async () => {
    const other = await startTestServer();
    const phases = async () =>
      ((await other.call("readAudit")).json.entries as AuditEntry[])
        .reverse()
        .map(({ phase, what }) => `${phase} ${what.name}`);
    let syncs = 0;
    // The first sync is that of `begun`, the one after it that of the outcome.
    const steps = await failingSteps((step) => step === "datasync" && ++syncs > 1);
    try {
      // The change has happened, and the response says so; the server's log has what the audit log lacks.
      expect((await other.call("createCollection", {}, collectionBody("a"))).status).toBe(201);
      expect(other.logText()).toContain("The audit log cannot be written (ENOSPC)");
      expectError(await other.call("createCollection", {}, collectionBody("b")), 507, "storage_full");
      expect((await other.call("listCollections")).json.collections).toHaveLength(1);
    } finally {
      steps.restore();
    }
    try {
      expect((await other.call("createCollection", {}, collectionBody("c"))).status).toBe(201);
      expect(await phases()).toEqual(["begun a", "done a", "begun c", "done c"]);
    } finally {
      await other.end();
    }
  });
});

describe("the file", () => {
  let folder: string;
  const path = () => join(folder, "audit.log");
  const change = (n: number): AuditedChange => ({
    operation: "createCollection",
    who: "admin-key",
    what: { name: `c${n}` },
    request_id: `r${n}`,
    address: "::1",
  });
  const open = (bytesMax?: number) => AuditLog.open(folder, () => 0, bytesMax);
  const numbers = async (log: AuditLog, limit = 1_000) =>
    (await log.read(limit)).entries.map(({ request_id }) => Number(request_id.slice(1)));

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "quiver-audit-"));
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  test("[A14] is readable only by its owner, and continues after a restart", async () => {
    const umask = process.umask(0);
    try {
      const first = await open();
      await first.record(change(1), "done");
      await first.close();
      expect(statSync(path()).mode & 0o777).toBe(0o600);
      chmodSync(path(), 0o666);
      const second = await open();
      await second.record(change(2), "done");
      expect(await numbers(second)).toEqual([2, 1]);
      expect(statSync(path()).mode & 0o777).toBe(0o600);
      await second.close();
    } finally {
      process.umask(umask);
    }
  });

  test("[A14] a line that a crash has truncated is removed; a damaged one is counted", async () => {
    const first = await open();
    for (let n = 1; n <= 3; n++) await first.record(change(n), "done");
    await first.close();
    const whole = readFileSync(path(), "utf8");
    appendFileSync(path(), '{"at":"2026-01-01T00:00:00.000Z","operation":"cre');
    const second = await open();
    expect(readFileSync(path(), "utf8")).toBe(whole);
    await second.record(change(4), "done");
    expect(await numbers(second)).toEqual([4, 3, 2, 1]);
    await second.close();
    writeFileSync(path(), readFileSync(path(), "utf8").replace('"request_id":"r2"', '"request_id:"r2"'));
    const third = await open();
    expect(await numbers(third)).toEqual([4, 3, 1]);
    expect((await third.read(10)).damaged_lines).toBe(1);
    await third.close();
    // Only an incomplete line: an empty log.
    writeFileSync(path(), "x".repeat(200_000));
    const fourth = await open();
    expect(statSync(path()).size).toBe(0);
    await fourth.close();
  });

  test("[A14] has a bounded size: its oldest file is deleted", async () => {
    const log = await open(1_000);
    const written = Array.from({ length: 60 }, (_, n) => n);
    // All at once; they are still written one after another.
    await Promise.all(written.map((n) => log.record(change(n), "done")));
    const kept = await numbers(log);
    expect(kept).toEqual(written.slice(-kept.length).reverse());
    expect(kept.length).toBeGreaterThan(20);
    expect(kept.length).toBeLessThan(40);
    for (let number = 1; number <= limits.auditOldFilesMax; number++) {
      const { size, mode } = statSync(`${path()}.${number}`);
      expect(size).toBeLessThanOrEqual(1_000);
      expect(mode & 0o777).toBe(0o600);
    }
    expect(() => statSync(`${path()}.${limits.auditOldFilesMax + 1}`)).toThrow("ENOENT");
    expect(await numbers(log, 7)).toEqual(kept.slice(0, 7));
    await log.close();
    const again = await open(1_000);
    expect(await numbers(again)).toEqual(kept);
    await again.close();
  });

  test.each([
    { how: "once", failures: 1 },
    { how: "six times", failures: 6 },
    { how: "six times, with the process ending in between", failures: 6, restarts: true },
  ])("[A14] no step of a rotation that fails $how loses an entry", async ({ failures, restarts }) => {
    // Two lines per file; then two more rotations, the first of them with none or all of the older files.
    const bytesMax = 320;
    for (const before of [2, 16]) {
      const last = before + 3;
      const made = join(folder, "..", `${basename(folder)}-${before}`);
      const kept = await keptOf(before, last, bytesMax, made);
      const failed = new Set<string>();
      // At each step in turn.
      for (let at = 1; ; at++) {
        await rm(folder, { recursive: true });
        cpSync(made, folder, { recursive: true });
        let log = await open(bytesMax);
        let passed = 0;
        let left = failures;
        let name = "";
        const steps = await failingSteps((step) => {
          if (step === "appendFile" || step === "datasync" || step === "truncate") return false;
          if (++passed < at || left === 0 || (name !== "" && step !== name)) return false;
          name = step;
          left--;
          return true;
        });
        try {
          for (let n = before; n < last; ) {
            try {
              await log.record(change(n), "begun");
              n++;
            } catch (error) {
              expect(error).toMatchObject({ code: "storage_full" });
              if (!restarts) continue;
              await log.close().catch(ignoreFull);
              log = await opened(bytesMax);
            }
          }
        } finally {
          steps.restore();
        }
        const found = await numbers(log);
        await log.close();
        const all = Array.from({ length: last }, (_, i) => last - 1 - i);
        expect(found, `step ${at}, ${name}`).toEqual(all.slice(0, found.length));
        expect(found.length, `step ${at}, ${name}`).toBeGreaterThanOrEqual(kept);
        // The bound still holds: at most one more file, until the next rotation.
        expect(readdirSync(folder).length).toBeLessThanOrEqual(limits.auditOldFilesMax + 2);
        if (name === "") break;
        failed.add(name);
      }
      await rm(made, { recursive: true });
      expect([...failed].sort()).toEqual(["open", "rename", "rm", "stat", "sync"]);
    }
  });

  /** @returns the number of entries after the last one if no step fails; `made` gets the files before that */
  async function keptOf(before: number, last: number, bytesMax: number, made: string): Promise<number> {
    const log = await open(bytesMax);
    for (let n = 0; n < last; n++) {
      if (n === before) cpSync(folder, made, { recursive: true });
      await log.record(change(n), "begun");
    }
    const kept = await numbers(log);
    await log.close();
    await rm(folder, { recursive: true });
    mkdirSync(folder);
    return kept.length;
  }

  /** Like an operator who restarts a server until it succeeds. */
  async function opened(bytesMax: number): Promise<AuditLog> {
    for (;;) {
      const log = await open(bytesMax).catch(ignoreFull);
      if (log !== undefined) return log;
    }
  }

  function ignoreFull(error: { code?: string }): undefined {
    if (error.code !== "storage_full" && error.code !== "ENOSPC") throw error;
  }

  test("[A14] may not be a symbolic link", async () => {
    const outside = join(folder, "outside");
    writeFileSync(outside, "precious\nno line end");
    symlinkSync(outside, path());
    await expect(open()).rejects.toMatchObject({
      code: "storage_failed",
      message: expect.stringContaining("symbolic link"),
    });
    expect(readFileSync(outside, "utf8")).toBe("precious\nno line end");
  });
});
