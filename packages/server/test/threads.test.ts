// What is true of a server whose threads share a port, beyond what every server does (vitest.config.ts runs those tests with threads, too)?

import { once } from "node:events";
import type { Worker } from "node:worker_threads";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { startServer } from "../src/server.ts";
import {
  type Ask,
  adminKey,
  expectError,
  pathOf,
  readAnswer,
  record,
  startTestServer,
  type TestServer,
} from "./running.ts";

const threads = 2;
const workers: Worker[] = [];
process.on("worker", (worker: Worker) => workers.push(worker));

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer({ servingThreads: threads, keyRequestsMax: 40 });
  await server.makeCollection("c");
  await server.call("streamingUpsert", c, { vectors: [record("a"), record("b", 5)] });
});
afterAll(() => server.end());

const c = { collection_id: "c" };
const search = { query_vector: [1, 1, 0, 0.5] };
const searchPath = pathOf("searchDense", c);
/** So many connections, each a new one, meet both threads: all in one has a probability of 2^-23. */
const enough = 24;

/** Asks over a connection of its own, so that the system chooses a thread anew. */
const askAnew = (path: string, ask: Ask = {}) =>
  server.ask(path, { ...ask, headers: { ...ask.headers, connection: "close" } });

/** The serving threads that live; one that has ended has no name. */
const serving = () => workers.filter(({ threadName }) => threadName?.startsWith("quiver serving"));

test("[O13] connections are spread over the threads, and each answers every endpoint", async () => {
  const paths = ["listCollections", "getCollection", "currentVersion", "getIndexes"] as const;
  for (let i = 0; i < enough; i++) {
    expect((await askAnew(searchPath, { body: search })).json.results.length).toBe(2);
    expect((await askAnew(pathOf(paths[i % paths.length], c))).status).toBe(200);
    expect((await askAnew("/health/live")).json).toEqual({ status: "live" });
    expect((await askAnew("/health/ready")).status).toBe(200);
    expectError(await askAnew("/nothing"), 404, "route_not_found");
    expectError(await askAnew(searchPath, { method: "GET" }), 405, "method_not_allowed");
  }
});

test("[O13] a further thread starts when the load needs it, and takes over a share of the connections that there are", async () => {
  const before = new Set(serving());
  const grown = await startTestServer({
    servingThreads: 2,
    servingThreadsAtStart: 1,
    idleCores: () => 2,
    // Other tests may take the cores: then requests wait for longer than usual, and are not refused for it.
    queueWaitMs: 120_000,
    requestDeadlineMs: 120_000,
  });
  const own = () => serving().filter((worker) => !before.has(worker));
  let isOver = false;
  let answers = 0;
  let loading: Promise<unknown> | undefined;
  try {
    await grown.makeCollection("c");
    await grown.call("streamingUpsert", c, { vectors: [record("a"), record("b", 5)] });
    expect(own().length).toBe(1);
    // Work for the server rather than for this client, on connections that stay open: a failed request would reject.
    const body = JSON.stringify({ queries: Array.from({ length: 500 }, () => ({ vector: [1, 1, 0, 0.5] })) });
    const headers = { authorization: `Bearer ${adminKey}`, "content-type": "application/json" };
    const url = grown.url + pathOf("searchBatchDense", c);
    const loads = Array.from({ length: 16 }, async () => {
      while (!isOver) {
        const response = await fetch(url, { method: "POST", headers, body });
        const answer = await response.text();
        expect(response.status, answer).toBe(200);
        answers++;
      }
    });
    loading = Promise.all(loads);
    await vi.waitUntil(() => own().length === 2, { timeout: 60_000 });
    const worked = () => own()[1].performance.eventLoopUtilization().active;
    const began = worked();
    const then = answers;
    await vi.waitUntil(() => answers > then + 200 && worked() > began + 100, { timeout: 60_000 });
  } finally {
    isOver = true;
    await loading;
    await grown.end();
  }
}, 180_000);

test("[W5] a filter that is nested thousands of levels deep is refused, also where the owner searches", async () => {
  const filter = `${'{"a":'.repeat(3_000)}1${"}".repeat(3_000)}`;
  for (const rest of ['"top_k": 3', '"recall_target": 0.9', '"explain": true']) {
    const body = `{"query_vector": [1, 1, 0, 0.5], "filter": ${filter}, ${rest}}`;
    expectError(await askAnew(searchPath, { raw: body }), 400, "invalid_filter");
    const batch = `{"queries": [{"vector": [1, 1, 0, 0.5], "filter": ${filter}}], ${rest}}`;
    expectError(await askAnew(pathOf("searchBatchDense", c), { raw: batch }), 400, "invalid_filter");
  }
});

test("[I7] what one thread acknowledges, all see", async () => {
  for (let i = 0; i < enough; i++) {
    const own = { ...record(`own ${i}`), dense_values: [0, 0, 1, i] };
    await askAnew(pathOf("streamingUpsert", c), { body: { vectors: [own] } });
    const found = await askAnew(searchPath, {
      body: { query_vector: own.dense_values, exact: true, top_k: 1 },
    });
    expect(found.json.results[0].id).toBe(own.id);
    expect((await askAnew(pathOf("getVector", { ...c, vector_id: own.id }))).status).toBe(200);
    await askAnew(pathOf("streamingDelete", { ...c, vector_id: own.id }), { method: "DELETE" });
    const after = await askAnew(searchPath, { body: { query_vector: own.dense_values, top_k: 100 } });
    expect(after.json.results.map(({ id }: { id: string }) => id)).not.toContain(own.id);
  }
});

test("[A20] a key that is revoked is refused by every thread from the answer on, also one that it knows", async () => {
  const { key, key_id } = (
    await server.call("createKey", {}, { name: "k", role: "write", collections: ["c"] })
  ).json;
  for (let i = 0; i < enough; i++)
    expect((await askAnew(searchPath, { body: search, key })).status).toBe(200);
  expectError(
    await askAnew(pathOf("searchDense", { collection_id: "d" }), { body: search, key }),
    403,
    "forbidden",
  );
  // Its body arrives when the key is revoked.
  const socket = await server.connect();
  const body = JSON.stringify({ vectors: [record("late")] });
  const head = [
    `POST ${pathOf("streamingUpsert", c)} HTTP/1.1`,
    "Host: localhost",
    `Authorization: Bearer ${key}`,
    "Content-Type: application/json",
    `Content-Length: ${body.length}`,
  ].join("\r\n");
  socket.write(`${head}\r\n\r\n${body.slice(0, 10)}`);
  await expect.poll(() => metric("quiver_http_requests_in_flight")).toBeGreaterThan(1);
  expect((await server.call("revokeKey", { key_id })).status).toBe(204);
  for (let i = 0; i < enough; i++)
    expectError(await askAnew(searchPath, { body: search, key }), 401, "unauthorized");
  socket.write(body.slice(10));
  expect((await readAnswer(socket))?.status).toBe(401);
  socket.destroy();
  expectError(await server.call("getVector", { ...c, vector_id: "late" }), 404);
});

test("[A20] [A13] a session of one thread is one of all; wrong keys are counted together, by the address of the client", async () => {
  const strict = await startTestServer({ servingThreads: threads, authFailuresMax: 20 });
  const login = { username: "admin", password: adminKey };
  const { access_token: key } = (await strict.call("createSession", {}, login)).json;
  const ask = (path: string, given: Ask) =>
    strict.ask(path, { ...given, headers: { ...given.headers, connection: "close" } });
  for (let i = 0; i < enough; i++) expect((await ask(searchPath, { body: search, key })).status).toBe(404);
  const statuses: number[] = [];
  for (let i = 0; i < enough; i++) {
    // Whoever names another address is not believed.
    const headers = { "x-forwarded-for": `10.0.0.${i}`, forwarded: `for=10.0.0.${i}` };
    const wrong = { key: "wrong", headers };
    const answer = await (i % 2
      ? ask(searchPath, { ...wrong, body: search })
      : ask("/vectordb/collections", wrong));
    statuses.push(answer.status);
  }
  expect(statuses).toEqual([...Array(20).fill(401), ...Array(enough - 20).fill(429)]);
  // What the server has generated goes on.
  for (let i = 0; i < 4; i++) expect((await ask(searchPath, { body: search, key })).status).toBe(404);
  await strict.end();
});

async function metric(name: string): Promise<number> {
  const { text } = await server.ask("/metrics", { key: sessionKey ?? adminKey });
  return Number(
    text
      .split("\n")
      .find((line) => line.startsWith(`${name} `))
      ?.split(" ")
      .at(-1),
  );
}
let sessionKey: string | undefined;
beforeAll(async () => {
  sessionKey = (await server.call("createKey", {}, { name: "metrics", role: "read" })).json.key;
});

test("[O13] the limit of requests of a key counts those of all threads", async () => {
  const { key } = (await server.call("createKey", {}, { name: "many", role: "write" })).json;
  const head = [
    `POST ${pathOf("streamingUpsert", c)} HTTP/1.1`,
    "Host: localhost",
    `Authorization: Bearer ${key}`,
    "Content-Type: application/json",
    "Content-Length: 1000",
  ].join("\r\n");
  const sockets = await Promise.all(Array.from({ length: 60 }, () => server.connect()));
  const refused = sockets.map((socket) =>
    Promise.race([
      readAnswer(socket).then((answer) => answer?.status),
      once(socket, "close").then(() => undefined),
    ]),
  );
  for (const socket of sockets) socket.write(`${head}\r\n\r\n{"vectors":`);
  const statuses: number[] = [];
  for (const each of refused) void each.then((status) => status !== undefined && statuses.push(status));
  await expect.poll(() => statuses).toEqual(Array(20).fill(503));
  expectError(await askAnew(searchPath, { body: search, key }), 503, "overloaded");
  expect((await askAnew(searchPath, { body: search, key: sessionKey })).status).toBe(200);
  for (const socket of sockets) socket.destroy();
  await expect.poll(async () => (await askAnew(searchPath, { body: search, key })).status).toBe(200);
});

test("[O13] [H21] [H22] the page of metrics has the requests of all threads, and the log has their lines", async () => {
  const count = () =>
    metric(`quiver_http_requests_total{route="${routePattern}",method="POST",status="200"}`);
  const routePattern = "/vectordb/collections/:collection_id/search/dense";
  const before = await count();
  const ids = Array.from({ length: enough }, (_, i) => `seen-${i}`);
  for (const id of ids)
    await askAnew(searchPath, { body: search, key: sessionKey, headers: { "x-request-id": id } });
  expect(await count()).toBe(before + enough);
  const { series } = (await server.ask("/metrics/last-hour")).json;
  const kept = (series as { name: string; labels: object; values: number[] }[]).find(
    ({ name, labels }) =>
      name === "quiver_http_request_duration_seconds_count" &&
      "route" in labels &&
      labels.route === routePattern,
  );
  expect(kept?.values.at(-1)).toBeGreaterThanOrEqual(before + enough);
  expect(await metric("quiver_http_requests_in_flight")).toBeLessThanOrEqual(2);
  await expect
    .poll(() => server.log.filter(({ request_id }) => ids.includes(String(request_id))).length)
    .toBe(enough);
});

test("[O13] [O3] a deadline holds in a thread, and for what the owner does for it", async () => {
  for (const extra of [{}, { explain: true }]) {
    const headers = { "x-quiver-timeout-ms": "1" };
    const queries = Array.from({ length: 1_000 }, () => ({ vector: search.query_vector }));
    const body = { queries, top_k: 100, exact: true, ...extra };
    const answer = await askAnew(pathOf("searchBatchDense", c), { body, headers, key: sessionKey });
    expectError(answer, 504, "deadline_exceeded");
  }
});

test("[O13] a thread that dies is replaced, and nobody else loses a request", async () => {
  const first = serving();
  const answers: number[] = [];
  let isOver = false;
  // Connections that stay; those of the thread that dies are lost.
  const clients = Array.from({ length: enough }, async () => {
    const socket = await server.connect();
    const text = JSON.stringify(search);
    const request = `POST ${searchPath} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${sessionKey}\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`;
    let lost = false;
    socket.on("error", () => {});
    socket.once("close", () => {
      lost = true;
    });
    while (!isOver && !lost) {
      socket.write(request);
      const status = (await readAnswer(socket).catch(() => undefined))?.status;
      if (status !== undefined) answers.push(status);
    }
    socket.destroy();
    return lost;
  });
  await expect.poll(() => answers.length).toBeGreaterThan(100);
  // It is no message between threads: an error that nobody catches.
  first[0].postMessage("die");
  const before = answers.length;
  await expect.poll(() => answers.length).toBeGreaterThan(before + 100);
  const isLogged = () => server.log.some(({ msg }) => String(msg).includes("serving thread has died"));
  await expect.poll(isLogged).toBe(true);
  await expect.poll(() => serving().filter((worker) => !first.includes(worker)).length).toBe(1);
  isOver = true;
  const lost = (await Promise.all(clients)).filter(Boolean).length;
  expect(lost).toBeLessThan(enough);
  expect(new Set(answers)).toEqual(new Set([200]));
  // All that it had taken is given back: the key reaches its limit no sooner than before.
  const many = Array.from({ length: 30 }, () => askAnew(searchPath, { body: search, key: sessionKey }));
  for (const answer of await Promise.all(many)) expect(answer.status).toBe(200);
  expect((await server.call("checkCollection", c)).json.findings).toEqual([]);
});

test("a port that another server shares is refused", async () => {
  const again = {
    dataDir: `${server.dataDir}-2`,
    noAuth: true,
    servingThreads: threads,
    logLevel: "silent",
  } as const;
  await expect(startServer({ ...again, port: server.port })).rejects.toThrow(/is in use/);
  await expect(startServer({ ...again, port: 0, clock: () => 0 })).rejects.toThrow(/clock/);
});

test("nobody but the threads reaches the owner", async () => {
  // A client that knows the name of the header.
  for (let i = 0; i < 4; i++) {
    const headers = { "x-quiver-thread": "0".repeat(64), "x-forwarded-host": "evil" };
    expect((await askAnew("/vectordb/collections", { headers, key: sessionKey })).status).toBe(200);
  }
});
