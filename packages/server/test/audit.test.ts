// The audit log: what is in it, when it is there, and what happens when it cannot be.

import { appendFileSync, chmodSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { limits } from "@quiver/protocol/limits";
import type { AuditEntry } from "@quiver/protocol/shapes/audit";
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

describe("over HTTP", () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startTestServer();
  });
  afterAll(() => server.end());

  const entries = async (query = "") =>
    (await server.call("readAudit", {}, undefined, query)).json.entries as AuditEntry[];
  const lines = () => readFileSync(join(server.dataDir, "audit.log"), "utf8").trimEnd().split("\n");
  /** The entries that a request made, in their order. */
  const of = async (requestId: string) =>
    (await entries("?limit=1000")).filter((entry) => entry.request_id === requestId).reverse();

  test("[A14] each change is there twice: before it began and with its outcome", async () => {
    const made = await server.ask("/vectordb/collections", {
      body: collectionBody("a"),
      headers: { "x-request-id": "make-a" },
    });
    expect(made.status).toBe(201);
    const common = {
      operation: "createCollection",
      who: "admin-key",
      what: { name: "a" },
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

  test("[A14] who is the key, the session or the admin key; what are the names", async () => {
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
    expect(done.slice(-6).map(({ who, operation, what }) => [who, operation, what])).toEqual([
      [bySession, "createKey", { name: "app", key_id }],
      [`key:${key_id}`, "createCollection", { name: "b" }],
      [`key:${key_id}`, "createTextIndex", { collection_id: "b", name: "text" }],
      [`key:${key_id}`, "deleteIndex", { collection_id: "b", index_type: "tf_idf" }],
      [`key:${key_id}`, "deleteCollection", { collection_id: "b" }],
      ["admin-key", "revokeKey", { key_id }],
    ]);
    for (const secret of [key, key.slice(-43), asSession.key, adminKey])
      expect(lines().join()).not.toContain(secret);
  });

  test("[A14] what is refused for want of a right, or by its shape, is no change and makes no line", async () => {
    const before = lines().length;
    const read = (await server.call("createKey", {}, { name: "r", role: "read" })).json.key as string;
    const two = lines().length;
    expect(two).toBe(before + 2);
    await server.ask("/vectordb/collections", { key: read, body: collectionBody("x") });
    await server.ask("/vectordb/collections", { key: "wrong", body: collectionBody("x") });
    await server.ask("/vectordb/collections", { body: { name: 7 } });
    await server.ask("/auth/create-session", { body: { username: "admin", password: "wrong" } });
    expect(lines().length).toBe(two);
    // A name that is refused is cut: nobody fills the log with it.
    await server.ask("/vectordb/collections", { body: collectionBody("n".repeat(1_000_000)) });
    expect(
      lines()
        .slice(two)
        .map((line) => line.length > 600),
    ).toEqual([false, false]);
  });

  test("[A14] it is paged by limit, for admins without limits", async () => {
    expect(await entries("?limit=1")).toEqual((await entries()).slice(0, 1));
    for (const limit of ["0", "1001", "x"])
      expectError(await server.call("readAudit", {}, undefined, `?limit=${limit}`), 400, "invalid_request");
    const write = (await server.call("createKey", {}, { name: "w", role: "write" })).json.key as string;
    expectError(await server.ask("/auth/audit", { key: write }), 403, "forbidden");
  });

  test("[A14] a log that cannot be written refuses the change, and reads go on", async () => {
    const dataDir = await mkdtemp(join(tmpdir(), "quiver-audit-"));
    const other = await startTestServer({ dataDir });
    try {
      // Every write of a full disk fails like this one.
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

  test("[A14] is its owner's alone, and goes on after a restart", async () => {
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

  test("[A14] a line that a crash has cut short is cut off; one that was damaged is counted", async () => {
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
    // Nothing but a torn line: an empty log.
    writeFileSync(path(), "x".repeat(200_000));
    const fourth = await open();
    expect(statSync(path()).size).toBe(0);
    await fourth.close();
  });

  test("[A14] grows to a bound: the oldest of its files goes", async () => {
    const log = await open(1_000);
    const written = Array.from({ length: 60 }, (_, n) => n);
    // All at once: they are written one after another all the same.
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

  test("[A14] may not be a link to somewhere else", async () => {
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
