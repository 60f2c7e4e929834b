// API keys: how they are created, what is stored of them, and when they end.

import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { limits } from "@quiverdb/protocol/limits";
import type { KeyCreated, KeyInformation } from "@quiverdb/protocol/shapes/key";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  adminKey,
  collectionBody,
  expectError,
  pathOf,
  record,
  startTestServer,
  type TestServer,
} from "./running.ts";

let server: TestServer;
let now = Date.now();
beforeAll(async () => {
  server = await startTestServer({ clock: () => now });
  for (const name of ["a", "logs-1", "logs-2", "other"]) await server.makeCollection(name);
});
afterAll(() => server.end());

async function makeKey(body: object, on = server): Promise<KeyCreated> {
  const answer = await on.call("createKey", {}, { name: "test", ...body });
  expect(answer.status, answer.text).toBe(201);
  return answer.json;
}
const keysOf = async (on = server) => (await on.call("listKeys")).json.keys as KeyInformation[];
const seconds = (ms: number) => Math.floor(ms / 1000);
const names = (answer: { json: { collections: { name: string }[] } }) =>
  answer.json.collections.map(({ name }) => name);

/** Every byte of the data directory. */
async function stored(dataDir: string): Promise<string> {
  const files = (await readdir(dataDir, { recursive: true, withFileTypes: true })).filter((file) =>
    file.isFile(),
  );
  const texts = await Promise.all(files.map((file) => readFile(join(file.parentPath, file.name), "latin1")));
  return texts.join("\n");
}

describe("making a key", () => {
  test("[A11] only this response contains the key, and the stored data cannot be turned back into it", async () => {
    const { key, ...information } = await makeKey({ name: "shop", role: "read" });
    expect(information).toEqual({
      key_id: expect.stringMatching(/^[0-9a-f]{16}$/),
      name: "shop",
      role: "read",
      collections: null,
      created_at: seconds(now),
      expires_at: null,
      filter: null,
      weight: 1,
      last_used_at: null,
    });
    expect((await server.ask("/vectordb/collections", { key })).status).toBe(200);
    const listed = await server.call("listKeys");
    expect(listed.json.keys).toContainEqual({ ...information, last_used_at: seconds(now) });
    const secret = key.slice(`qk_${information.key_id}_`.length);
    expect(secret).toHaveLength(43);
    const audit = await server.call("readAudit");
    const places = [listed.text, audit.text, server.logText(), await stored(server.dataDir)];
    for (const text of places) expect(text).not.toContain(secret);
    expect(await stored(server.dataDir)).toContain(information.key_id);
  });

  test("[A11] two keys have nothing in common, not even with equal properties", async () => {
    const [one, other] = [await makeKey({ role: "read" }), await makeKey({ role: "read" })];
    expect(one.key_id).not.toBe(other.key_id);
    expect(one.key.slice(-43)).not.toBe(other.key.slice(-43));
    // The id of one with the secret of the other is not valid.
    const mixed = `qk_${one.key_id}_${other.key.slice(-43)}`;
    expectError(await server.ask("/vectordb/collections", { key: mixed }), 401, "unauthorized");
    for (const key of [one.key.slice(0, -1), `${one.key}x`, one.key.toUpperCase(), one.key_id])
      expectError(await server.ask("/vectordb/collections", { key }), 401, "unauthorized");
  });

  test.each([
    ["expires_in", { role: "read", expires_in: 3600 }],
    ["collection", { role: "read", collection: ["a"] }],
    ["scope", { role: "read", scope: { collections: ["a"] } }],
    ["role", { role: "owner" }],
    ["role", {}],
    ["name", { name: "", role: "read" }],
    ["name", { name: "x".repeat(limits.apiKeyNameBytesMax + 1), role: "read" }],
    ["name", { name: "two\nlines", role: "read" }],
    ["collections", { role: "read", collections: [] }],
    ["collections", { role: "read", collections: "a" }],
    ["collections[1]", { role: "read", collections: ["a", ""] }],
    ["collections[0]", { role: "read", collections: ["x".repeat(limits.collectionNameBytesMax + 2)] }],
    ["collections", { role: "read", collections: Array(limits.apiKeyCollectionsMax + 1).fill("a") }],
    ["expires_at", { role: "read", expires_at: 1 }],
    ["expires_at", { role: "read", expires_at: seconds(Date.now()) + 0.5 }],
    ["expires_at", { role: "read", expires_at: 9e15 }],
  ])("[A12] an invalid %s is rejected, and no key is created", async (path, body) => {
    const before = await keysOf();
    const error = expectError(await server.call("createKey", {}, { name: "k", ...body }), 400);
    const isUnknown = ["expires_in", "collection", "scope"].includes(path);
    expect(error.code).toBe(isUnknown ? "unknown_field" : "invalid_request");
    expect(error.details.path).toBe(path);
    expect(await keysOf()).toEqual(before);
  });

  test("[A11] null means: no limit", async () => {
    const created = await makeKey({ role: "read", collections: null, expires_at: null });
    expect(created).toMatchObject({ collections: null, expires_at: null });
  });
});

describe("the collections of a key", () => {
  test("[A10] names match exactly, a star at the end makes a prefix, and lists show the accessible collections", async () => {
    const { key } = await makeKey({ role: "read", collections: ["a", "logs-*"] });
    expect(names(await server.ask("/vectordb/collections", { key }))).toEqual(["a", "logs-1", "logs-2"]);
    const loaded = await server.ask("/vectordb/collections/loaded", { key });
    expect(loaded.json).toEqual(["a", "logs-1", "logs-2"]);
    for (const collection_id of ["a", "logs-1"])
      expect((await server.ask(pathOf("getCollection", { collection_id }), { key })).status).toBe(200);
    // A name that the key may access and that does not exist gets 404. A name that it may not access gets the same response, existing or not.
    const missing = pathOf("getCollection", { collection_id: "logs-9" });
    expectError(await server.ask(missing, { key }), 404, "collection_not_found");
    for (const collection_id of ["other", "nowhere", "A", "a-1", "logs", "*", "a*"])
      expectError(await server.ask(pathOf("getCollection", { collection_id }), { key }), 403, "forbidden");
    for (const collection_id of ["%6fther", "othe%72"])
      expectError(await server.ask(`/vectordb/collections/${collection_id}`, { key }), 403, "forbidden");
  });

  test("[A10] a key creates collections only within its prefix", async () => {
    const { key } = await makeKey({ role: "write", collections: ["logs-*"] });
    const make = (name: string) => server.ask("/vectordb/collections", { body: collectionBody(name), key });
    expect((await make("logs-3")).status).toBe(201);
    const error = expectError(await make("mine"), 403, "forbidden");
    expect(error.message).toContain("'mine'");
    expectError(await make("other"), 403, "forbidden");
    expect(names(await server.call("listCollections"))).toEqual(["a", "logs-1", "logs-2", "logs-3", "other"]);
    // It may not delete the collection that it created; an admin key with the same prefix may, but no other collection.
    const drop = (name: string, key: string) =>
      server.ask(pathOf("deleteCollection", { collection_id: name }), { method: "DELETE", key });
    expectError(await drop("logs-3", key), 403, "forbidden");
    const admin = await makeKey({ role: "admin", collections: ["logs-*"] });
    expectError(await drop("other", admin.key), 403, "forbidden");
    expect((await drop("logs-3", admin.key)).status).toBe(204);
  });

  test("[A10] an admin key with collections manages no keys, and sees neither audit log nor metrics", async () => {
    const { key } = await makeKey({ role: "admin", collections: ["*", "a"] });
    const all = await makeKey({ role: "admin" });
    for (const path of ["/auth/keys", "/auth/audit", "/metrics"]) {
      expectError(await server.ask(path, { key }), 403, "forbidden");
      expect((await server.ask(path, { key: all.key })).status).toBe(200);
    }
    const body = { name: "k", role: "admin" };
    expectError(await server.ask("/auth/keys", { key, body }), 403, "forbidden");
    expect((await server.ask("/auth/keys", { key: all.key, body })).status).toBe(201);
  });

  test("[A10] a rejected request changes nothing", async () => {
    const read = await makeKey({ role: "read" });
    const elsewhere = await makeKey({ role: "admin", collections: ["logs-*"] });
    const before = await server.fingerprint("a");
    for (const { key } of [read, elsewhere]) {
      const upsert = pathOf("streamingUpsert", { collection_id: "a" });
      const error = expectError(
        await server.ask(upsert, { key, body: { vectors: [record("x")] } }),
        403,
        "forbidden",
      );
      expect(error.message).toMatch(key === read.key ? /role write/ : /'a'/);
      const drop = pathOf("deleteCollection", { collection_id: "a" });
      expectError(await server.ask(drop, { method: "DELETE", key }), 403, "forbidden");
    }
    expect(await server.fingerprint("a")).toEqual(before);
  });
});

describe("the end of a key", () => {
  test("[A11] a revoked key is rejected at once", async () => {
    const { key, key_id } = await makeKey({ role: "read" });
    const use = () => server.ask("/vectordb/collections", { key });
    expect((await use()).status).toBe(200);
    const answer = await server.call("revokeKey", { key_id });
    expect([answer.status, answer.text]).toEqual([204, ""]);
    expectError(await use(), 401, "unauthorized");
    expect((await keysOf()).map((each) => each.key_id)).not.toContain(key_id);
    expectError(await server.call("revokeKey", { key_id }), 404, "key_not_found");
    expectError(await server.call("revokeKey", { key_id: "none" }), 404, "key_not_found");
  });

  test("[A11] from its expiry on a key is rejected, and its holder is told the reason", async () => {
    const { key, key_id } = await makeKey({ role: "read", expires_at: seconds(now) + 60 });
    const use = () => server.ask("/vectordb/collections", { key });
    expect((await use()).status).toBe(200);
    now += 60_000;
    const error = expectError(await use(), 401, "unauthorized");
    expect(error.message).toContain("expired");
    expect((await keysOf()).map((each) => each.key_id)).toContain(key_id);
    const guess = `${key.slice(0, -1)}${key.endsWith("A") ? "B" : "A"}`;
    expect((await server.ask("/vectordb/collections", { key: guess })).text).not.toContain("expired");
    expect((await server.call("revokeKey", { key_id })).status).toBe(204);
  });

  test("[A11] keys, their last use and their revocation survive restarts, and the admin key's change", async () => {
    const dataDir = await mkdtemp(join(tmpdir(), "quiver-keys-"));
    const clock = () => now;
    try {
      const first = await startTestServer({ dataDir, clock });
      const kept = await makeKey({ role: "read", collections: ["a"] }, first);
      const revoked = await makeKey({ role: "write" }, first);
      expect((await first.ask("/vectordb/collections", { key: kept.key })).status).toBe(200);
      expect((await first.ask("/vectordb/collections", { key: revoked.key })).status).toBe(200);
      // The time of a key's last use is stored at most once a minute, and when the server stops.
      now += 30_000;
      for (const { key } of [kept, revoked]) await first.ask("/vectordb/collections", { key });
      expect((await first.call("revokeKey", { key_id: revoked.key_id })).status).toBe(204);
      await first.close();

      const second = await startTestServer({ dataDir, clock, adminKey: "another" });
      const listed = await second.ask("/auth/keys", { key: "another" });
      const { key, ...information } = kept;
      expect(listed.json.keys).toEqual([{ ...information, last_used_at: seconds(now) }]);
      expect((await second.ask("/vectordb/collections", { key })).status).toBe(200);
      expectError(await second.ask("/vectordb/collections", { key: revoked.key }), 401, "unauthorized");
      await second.close();
    } finally {
      await rm(dataDir, { recursive: true, force: true });
    }
  });

  test("[A11] the last use is stored at most once a minute", async () => {
    const { key, key_id } = await makeKey({ role: "read" });
    const written = () =>
      (server.database.credentials.get(`api-key:${key_id}`) as { lastUsedMs: number | null }).lastUsedMs;
    const use = async () => expect((await server.ask("/vectordb/collections", { key })).status).toBe(200);
    await use();
    const first = now;
    await expect.poll(written).toBe(first);
    now += 59_000;
    await use();
    expect(written()).toBe(first);
    expect((await keysOf()).find((each) => each.key_id === key_id)?.last_used_at).toBe(seconds(now));
    now += 1_000;
    await use();
    await expect.poll(written).toBe(now);
  });
});

test("[A7] without authentication there are no keys to manage, because such a key would remain valid later", async () => {
  const open = await startTestServer({ adminKey: undefined, noAuth: true });
  try {
    for (const name of ["listKeys", "createKey", "revokeKey"] as const) {
      const body = name === "createKey" ? { name: "k", role: "admin" } : undefined;
      expectError(await open.call(name, { key_id: "k" }, body), 403, "forbidden");
    }
    expect(open.database.credentials.entries("").map(([name]) => name)).toEqual(["cursor-secret"]);
  } finally {
    await open.end();
  }
});

describe("failed attempts", () => {
  let time = Date.now();
  const attempt = (on: TestServer, key = "wrong") => on.ask("/vectordb/collections", { key });
  const logIn = (on: TestServer, password: string) =>
    on.ask("/auth/create-session", { body: { username: "admin", password }, key: null });

  test("[A13] after too many failures a configured admin key is not even compared; keys and tokens pass", async () => {
    const limited = await startTestServer({ authFailuresMax: 5, clock: () => time });
    try {
      const { key } = await makeKey({ role: "read" }, limited);
      const { access_token } = (await logIn(limited, adminKey)).json;
      // A missing, expired or malformed key does not count as a guess.
      for (let i = 0; i < 10; i++) {
        expectError(await limited.ask("/vectordb/collections", { key: null }), 401);
        expectError(await limited.ask("/nowhere", { headers: { authorization: "Basic abc" } }), 401);
      }
      expect((await attempt(limited, adminKey)).status).toBe(200);
      for (let i = 0; i < 4; i++) expectError(await attempt(limited, `wrong-${i}`), 401, "unauthorized");
      expectError(await logIn(limited, "wrong"), 400, "invalid_credentials");
      time += 20_000;
      for (const refused of [
        await attempt(limited),
        await attempt(limited, adminKey),
        await logIn(limited, adminKey),
        await limited.ask("/vectordb/collections/%zz"),
      ]) {
        const error = expectError(refused, 429, "rate_limited");
        expect(refused.headers.get("retry-after")).toBe("40");
        expect(error.details.retry_after_seconds).toBe(40);
      }
      expect((await attempt(limited, key)).status).toBe(200);
      expect((await attempt(limited, access_token)).status).toBe(200);
      expect((await limited.ask("/health/live", { key: "wrong" })).status).toBe(200);
      time += 40_000;
      expect((await attempt(limited, adminKey)).status).toBe(200);
      expectError(await attempt(limited), 401, "unauthorized");
    } finally {
      await limited.end();
    }
  });

  test("[A13] a generated admin key cannot be guessed, and passes", async () => {
    const limited = await startTestServer({ authFailuresMax: 1, adminKey: undefined });
    try {
      const made = (await readFile(join(limited.dataDir, "admin-key"), "utf8")).trim();
      expectError(await attempt(limited), 401, "unauthorized");
      expectError(await attempt(limited), 429, "rate_limited");
      expect((await attempt(limited, made)).status).toBe(200);
      expect((await logIn(limited, made)).status).toBe(200);
      expectError(await logIn(limited, "wrong"), 429, "rate_limited");
    } finally {
      await limited.end();
    }
  });
});
