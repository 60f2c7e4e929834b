// What happens to a request whose key or session ends before it is executed, and to one with two keys?

import { mkdtemp, rm } from "node:fs/promises";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { limits } from "@quiverdb/protocol/limits";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Sessions } from "../src/auth/sessions.ts";
import {
  adminKey,
  expectError,
  pathOf,
  type RawAnswer,
  readAnswer,
  record,
  startTestServer,
  type TestServer,
} from "./running.ts";

let server: TestServer;
let now = Date.now();
const c = { collection_id: "c" };
const hourMs = 3_600_000;

beforeAll(async () => {
  server = await startTestServer({ clock: () => now });
  await server.makeCollection("c", { indexes: false });
  await server.makeCollection("other", { indexes: false });
});
afterAll(() => server.end());

async function makeKey(body: object): Promise<{ key: string; key_id: string }> {
  const answer = await server.call("createKey", {}, { name: "test", role: "write", ...body });
  expect(answer.status, answer.text).toBe(201);
  return answer.json;
}

/** A request that has arrived except for the last byte of its body. */
async function slowRequest(key: string, path: string, body: string, type = "application/json") {
  const socket = await server.connect();
  const head = [
    `POST ${path} HTTP/1.1`,
    "Host: test",
    `Authorization: Bearer ${key}`,
    `Content-Type: ${type}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  socket.write(`${head.join("\r\n")}\r\n\r\n${body.slice(0, -1)}`);
  // When the server has counted the request, it has read the headers and accepted the key.
  await expect.poll(async () => inFlight()).toBeGreaterThan(1);
  return { finish: () => finish(socket, body.slice(-1)) };
}

/** Requests in progress in the server, including this one. */
async function inFlight(): Promise<number> {
  const { text } = await server.ask("/metrics");
  return Number(/^quiver_http_requests_in_flight (\d+)/m.exec(text)?.[1]);
}

async function finish(socket: Socket, rest: string): Promise<RawAnswer | undefined> {
  const answer = readAnswer(socket);
  socket.write(rest);
  const read = await answer;
  socket.destroy();
  return read;
}

const upsertBody = (id: string) => JSON.stringify({ vectors: [record(id)] });
const codeOf = (answer: RawAnswer | undefined) => [
  answer?.status,
  JSON.parse(answer?.body ?? "{}").error?.code,
];
const exists = async (vector_id: string) =>
  (await server.call("vectorExists", { ...c, vector_id })).status === 200;

test("[A16] a write whose key is revoked while its body arrives is rejected, and nothing is applied", async () => {
  const { key, key_id } = await makeKey({});
  const slow = await slowRequest(key, pathOf("streamingUpsert", c), upsertBody("revoked"));
  expect((await server.call("revokeKey", { key_id })).status).toBe(204);
  expect(codeOf(await slow.finish())).toEqual([401, "unauthorized"]);
  expect(await exists("revoked")).toBe(false);
});

test("[A16] so is every other kind of change, and a search", async () => {
  const open = (await server.call("createTransaction", c)).json.transaction_id as string;
  const t = { ...c, transaction_id: open };
  const before = await server.fingerprint("c");
  const requests: [string, string][] = [
    [pathOf("upsertVectors", t), upsertBody("staged")],
    [pathOf("addVector", t), JSON.stringify(record("added"))],
    [pathOf("createSparseIndex", c), JSON.stringify({ name: "s", quantization: 64, sample_threshold: 10 })],
    [pathOf("createSnapshot", c), "{}"],
    [pathOf("searchDense", c), JSON.stringify({ query_vector: [1, 2, 3, 4] })],
    [pathOf("restoreCollection", { collection_id: "made" }), JSON.stringify({ snapshots: ["x"] })],
    [pathOf("createKey"), JSON.stringify({ name: "by a revoked one", role: "read" })],
    [
      pathOf("createCollection"),
      JSON.stringify({
        name: "made",
        dense_vector: { enabled: true, dimension: 2 },
        sparse_vector: { enabled: false },
        tf_idf_options: { enabled: false },
        config: {},
      }),
    ],
  ];
  for (const [path, body] of requests) {
    const { key, key_id } = await makeKey({ role: "admin" });
    const slow = await slowRequest(key, path, body);
    await server.call("revokeKey", { key_id });
    expect([path, ...codeOf(await slow.finish())]).toEqual([path, 401, "unauthorized"]);
  }
  const { key, key_id } = await makeKey({ role: "admin" });
  const upload = await slowRequest(key, pathOf("uploadSnapshot"), "QUIVER", "application/octet-stream");
  await server.call("revokeKey", { key_id });
  expect(codeOf(await upload.finish())).toEqual([401, "unauthorized"]);
  expect(await server.fingerprint("c")).toEqual(before);
  const names = (await server.call("listKeys")).json.keys.map(({ name }: { name: string }) => name);
  expect(names).not.toContain("by a revoked one");
  expect((await server.call("abortTransaction", t)).status).toBe(204);
});

test("[A16] and one whose key expires, or whose session ends, meanwhile", async () => {
  const { key } = await makeKey({ expires_at: Math.floor(now / 1000) + 60 });
  const expiring = await slowRequest(key, pathOf("streamingUpsert", c), upsertBody("expired"));
  now += 61_000;
  expect(codeOf(await expiring.finish())).toEqual([401, "unauthorized"]);
  const { access_token } = (await server.call("createSession", {}, { username: "admin", password: adminKey }))
    .json;
  const ending = await slowRequest(access_token, pathOf("streamingUpsert", c), upsertBody("ended"));
  now += 25 * hourMs;
  expect(codeOf(await ending.finish())).toEqual([401, "unauthorized"]);
  expect([await exists("expired"), await exists("ended")]).toEqual([false, false]);
});

test("[A16] a key that remains valid can write, however slowly", async () => {
  const { key } = await makeKey({});
  const slow = await slowRequest(key, pathOf("streamingUpsert", c), upsertBody("slow"));
  expect((await slow.finish())?.status).toBe(200);
  expect(await exists("slow")).toBe(true);
});

test("[A17] two different Authorization headers are 400, in any order; the same one twice counts as one", async () => {
  const { key } = await makeKey({ role: "read" });
  const twice = async (first: string, second: string) => {
    const socket = await server.connect();
    const head = [
      "GET /vectordb/collections HTTP/1.1",
      "Host: test",
      `authorization: ${first}`,
      `Authorization: ${second}`,
    ];
    const answer = readAnswer(socket);
    socket.write(`${head.join("\r\n")}\r\n\r\n`);
    const read = await answer;
    socket.destroy();
    return codeOf(read);
  };
  const [admin, reader] = [`Bearer ${adminKey}`, `Bearer ${key}`];
  for (const [first, second] of [
    [admin, reader],
    [reader, admin],
    [admin, "Bearer wrong"],
    ["Bearer wrong", admin],
    [admin, "Basic YTpi"],
    [admin, ""],
  ]) {
    expect([first, second, ...(await twice(first, second))]).toEqual([first, second, 400, "invalid_request"]);
  }
  expect(await twice(admin, admin)).toEqual([200, undefined]);
});

test("[A18] for a limited key, a restore of another collection's snapshot fails like that of a missing one", async () => {
  const foreign = (await server.call("createSnapshot", { collection_id: "other" }, {})).json.id as string;
  const own = (await server.call("createSnapshot", c, {})).json.id as string;
  const limited = await makeKey({ role: "admin", collections: ["c", "c-copy"] });
  const owner = await makeKey({ role: "admin", collections: ["other", "other-copy"] });
  const restore = (key: string, name: string, snapshots: string[]) =>
    server.ask(pathOf("restoreCollection", { collection_id: name }), { body: { snapshots }, key });
  const missing = "0123456789abcdef01234567";
  for (const chain of [[missing], [own, missing]]) {
    const none = await restore(limited.key, "c-copy", chain);
    expectError(none, 404, "snapshot_not_found");
    const hidden = await restore(
      limited.key,
      "c-copy",
      chain.map((id) => (id === missing ? foreign : id)),
    );
    expectError(hidden, 404, "snapshot_not_found");
    expect(hidden.text.replaceAll(foreign, missing)).toBe(none.text);
    expect(hidden.text).not.toContain("other");
  }
  expect((await restore(owner.key, "other-copy", [foreign])).status).toBe(201);
  expect((await restore(limited.key, "c-copy", [own])).status).toBe(201);
});

test("[A12] no key is created for an invalid collection name", async () => {
  const code = async (...collections: string[]) => {
    const answer = await server.call("createKey", {}, { name: "k", role: "read", collections });
    return answer.status === 201 ? "made" : [answer.json.error.code, answer.json.error.details.path];
  };
  const refused = ["invalid_request", "collections[1]"];
  for (const name of [
    "a/b",
    "a\\b",
    "a?",
    "a#",
    "50%",
    "a\u0085",
    ".",
    "..",
    "loaded",
    "ä".repeat(128),
    "a/*",
    "%*",
    "\ud800",
  ])
    expect([name, await code("c", name)]).toEqual([name, refused]);
  for (const name of [
    "not there yet",
    "*",
    ".*",
    "loaded*",
    "..*",
    "a*b",
    `${"n".repeat(255)}*`,
    "n".repeat(255),
  ])
    expect([name, await code("c", name)]).toEqual([name, "made"]);
});

test("[A19] a session beyond the limit is rejected, and no session is ended", async () => {
  const limit = 3;
  const sessions = new Sessions(server.database.credentials, "key of the test", () => now, fail, limit);
  const asked = await Promise.allSettled(Array.from({ length: limit + 2 }, () => sessions.create()));
  const made = asked.flatMap((each) => (each.status === "fulfilled" ? [each.value.access_token] : []));
  const refused = asked.flatMap((each) => (each.status === "rejected" ? [each.reason] : []));
  expect([made.length, refused.length]).toEqual([limit, 2]);
  for (const error of refused) expect(error).toMatchObject({ code: "too_many_sessions", status: 429 });
  now += hourMs;
  await expect(sessions.create()).rejects.toMatchObject({
    details: { limit, retry_after_seconds: 23 * 3_600 },
  });
  for (const token of made) expect(sessions.use(token)).toBeDefined();
  now += 25 * hourMs;
  expect((await sessions.create()).access_token).toMatch(/^qs_/);
  await sessions.close();
});

test("[A19] over HTTP the 10,001st session is 429 with Retry-After, and the others go on", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "quiver-sessions-"));
  const credentials = { username: "admin", password: adminKey };
  try {
    let full = await startTestServer({ dataDir });
    const { access_token } = (await full.call("createSession", {}, credentials)).json;
    const [[, stored]] = full.database.credentials.entries("session:");
    const others = Array.from({ length: limits.sessionsMax - 1 }, (_, i) => i.toString(16).padStart(64, "0"));
    await Promise.all(others.map((digest) => full.database.credentials.put(`session:${digest}`, stored)));
    await full.close();
    full = await startTestServer({ dataDir });
    try {
      const answer = await full.call("createSession", {}, credentials);
      const error = expectError(answer, 429, "too_many_sessions");
      expect(error.details.limit).toBe(limits.sessionsMax);
      const seconds = Number(answer.headers.get("retry-after"));
      expect(seconds > 23 * 3_600 && seconds <= 24 * 3_600).toBe(true);
      expect((await full.ask("/vectordb/collections", { key: access_token })).status).toBe(200);
      expect((await full.ask("/vectordb/collections")).status).toBe(200);
    } finally {
      await full.close();
    }
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
});

function fail(error: unknown): void {
  throw error;
}
