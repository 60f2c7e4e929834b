// Operations: health, metrics, request ids, the log, the API reference, a clean stop.

import { once } from "node:events";
import { readFileSync } from "node:fs";
import { type IncomingMessage, request } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { limits } from "@quiverdb/protocol/limits";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ConfigError } from "../src/config.ts";
import { keptMetrics } from "../src/operations/last-hour.ts";
import { startServer } from "../src/server.ts";
import {
  adminKey,
  expectError,
  pathOf,
  rawHead,
  readAnswer,
  record,
  startTestServer,
  type TestServer,
} from "./running.ts";

describe("a running server", () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startTestServer({ corsOrigins: ["https://app.example.org"] });
    await server.makeCollection("c");
  });
  afterAll(() => server.end());

  test("[H20] live at once, ready when every collection is recovered", async () => {
    const live = await server.ask("/health/live", { key: null });
    expect([live.status, live.json]).toEqual([200, { status: "live" }]);
    await server.database.recovered;
    const ready = await server.ask("/health/ready", { key: null });
    expect([ready.status, ready.json]).toEqual([200, { status: "ready" }]);
  });

  test("[H21] metrics show requests, latencies, records, commits, indexing, memory and event loop lag", async () => {
    await server.call("streamingUpsert", { collection_id: "c" }, { vectors: [record("a"), record("b")] });
    await server.call("getVector", { collection_id: "c", vector_id: "a" });
    await server.ask("/some/unknown/path");
    await server.database.collection("c").indexed();
    const { status, text, headers } = await server.ask("/metrics");
    expect(status).toBe(200);
    expect(headers.get("content-type")).toContain("text/plain");
    const value = (line: string) =>
      Number(
        text
          .split("\n")
          .find((found) => found.startsWith(`${line} `))
          ?.split(" ")
          .at(-1),
      );
    expect(
      value(
        'quiver_http_requests_total{route="/vectordb/collections/:collection_id/vectors/:vector_id",method="GET",status="200"}',
      ),
    ).toBe(1);
    expect(value('quiver_http_requests_total{route="unknown",method="GET",status="404"}')).toBe(1);
    expect(
      value(
        'quiver_http_request_duration_seconds_count{route="/vectordb/collections/:collection_id/streaming/upsert",method="POST"}',
      ),
    ).toBe(1);
    expect(value("quiver_http_requests_in_flight")).toBe(1);
    expect(value('quiver_collection_records{collection="c"}')).toBe(2);
    expect(value('quiver_collection_version{collection="c"}')).toBe(1);
    expect(value('quiver_collection_loaded{collection="c"}')).toBe(1);
    expect(value('quiver_collection_index_progress{collection="c"}')).toBe(1);
    expect(value('quiver_collection_memory_bytes{collection="c"}')).toBeGreaterThanOrEqual(0);
    expect(value('quiver_collection_open_transaction{collection="c"}')).toBe(0);
    expect(value("quiver_commits_total")).toBeGreaterThan(0);
    expect(value("quiver_commit_requests_total")).toBeGreaterThan(0);
    expect(value("quiver_commit_requests_average")).toBeGreaterThanOrEqual(1);
    expect(value("quiver_writer_queue_bytes")).toBe(0);
    expect(value("quiver_request_bodies_bytes")).toBe(0);
    expect(value("quiver_recovered")).toBe(1);
    expect(value('quiver_collection_disk_bytes{collection="c"}')).toBeGreaterThan(0);
    expect(value("quiver_disk_snapshot_bytes")).toBe(0);
    expect(value("quiver_disk_free_bytes")).toBeGreaterThan(0);
    expect(value("process_resident_memory_bytes")).toBeGreaterThan(0);
    expect(value("nodejs_eventloop_lag_seconds")).toBeGreaterThanOrEqual(0);
    expect(text).toContain("nodejs_gc_duration_seconds");
    expect(text).not.toContain("some/unknown");
    const dashboard = readFileSync(
      join(import.meta.dirname, "../../../deploy/grafana-dashboard.json"),
      "utf8",
    );
    for (const [name] of dashboard.matchAll(/\b(quiver|nodejs|process)_\w+/g)) expect(text).toContain(name);
    expect((await server.ask("/metrics")).text).toContain("quiver_commits_total");
  });

  test("[H21] the last hour is there, with what was searched since the start", async () => {
    await server.call("searchDense", { collection_id: "c" }, { query_vector: [1, 0, 0, 0] });
    const { status, json } = await server.ask("/metrics/last-hour");
    expect([status, json.times.length >= 2]).toEqual([200, true]);
    const route = "/vectordb/collections/:collection_id/search/dense";
    const ofSearches = json.series.find(
      (each: { name: string; labels: { route?: string } }) =>
        each.name === "quiver_http_request_duration_seconds_count" && each.labels.route === route,
    );
    expect([ofSearches.values[0], ofSearches.values.at(-1)]).toEqual([null, 1]);
    const names = new Set(json.series.map(({ name }: { name: string }) => name));
    for (const name of keptMetrics.filter((each) => !each.endsWith("duration_seconds")))
      expect(names).toContain(name);
    expectError(await server.ask("/metrics/last-hour", { key: null }), 401, "unauthorized");
    expectError(await server.ask("/metrics/last-hour", { method: "POST", body: {} }), 405);
  });

  test("[H21] [N13] metrics show the measured recall of dense indexes", async () => {
    await server.makeCollection("measured");
    const lines = async () =>
      (await server.ask("/metrics")).text
        .split("\n")
        .filter((line) => line.includes('{collection="measured"}'));
    expect((await lines()).join()).not.toContain("quiver_dense_recall");
    const vectors = Array.from({ length: 300 }, (_, i) => ({
      ...record(`v${i}`),
      dense_values: [i % 7, i % 11, i % 13, 1],
    }));
    await server.call("streamingUpsert", { collection_id: "measured" }, { vectors });
    await server.database.collection("measured").indexed();
    const value = async (name: string) =>
      Number(
        (await lines())
          .find((line) => line.startsWith(name))
          ?.split(" ")
          .at(-1),
      );
    await expect.poll(() => value("quiver_dense_recall")).toBeGreaterThan(0.99);
    expect(await value("quiver_dense_recall")).toBeLessThanOrEqual(1);
    expect(await value("quiver_dense_finds_itself")).toBe(1);
    expect(await value("quiver_dense_reads_all")).toBe(1);
  });

  test("[H17] a well-formed request id is returned; any other is replaced", async () => {
    const idFor = async (sent?: string) =>
      (await server.ask("/vectordb/collections", { headers: { "x-request-id": sent } })).headers.get(
        "x-request-id",
      );
    expect(await idFor("trace-1.A:b_2")).toBe("trace-1.A:b_2");
    const uuid = /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/;
    for (const sent of [undefined, "", "two words", "x".repeat(129), "<script>"])
      expect(await idFor(sent)).toMatch(uuid);
    for (const answer of [
      await server.ask("/nowhere"),
      await server.ask("/metrics", { key: null }),
      await server.ask("/vectordb/collections/%zz"),
      await server.ask("/docs/"),
    ]) {
      expect(answer.headers.get("x-request-id")).toMatch(uuid);
    }
  });

  test("[H33] no browser takes an answer for another type than it says", async () => {
    const asked: [string, Parameters<TestServer["ask"]>[1], number][] = [
      ["/vectordb/collections", {}, 200],
      ["/vectordb/collections", { method: "HEAD" }, 200],
      ["/vectordb/collections/c", { body: {} }, 405],
      ["/vectordb/collections/none", {}, 404],
      ["/vectordb/collections/%zz", {}, 400],
      ["/vectordb/collections", { key: null }, 401],
      ["/vectordb/collections", { raw: "{" }, 400],
      ["/vectordb/collections/c/export", {}, 200],
      ["/nowhere", {}, 404],
      ["/nowhere", { key: null, headers: { accept: "text/html" } }, 404],
      ["/", { key: null }, 200],
      ["/console/none.js", { key: null }, 404],
      ["/docs", { key: null }, 301],
      ["/docs/", { key: null }, 200],
      ["/docs/js/scalar.js", { key: null }, 200],
      ["/openapi.json", { key: null }, 200],
      ["/openapi.json", { key: null, headers: { "if-none-match": "*" } }, 304],
      ["/llms.txt", { key: null }, 200],
      ["/health/live", { key: null }, 200],
      ["/health/ready", { key: null }, 200],
      ["/metrics", {}, 200],
      [
        "/vectordb/collections",
        {
          method: "OPTIONS",
          key: null,
          headers: { origin: "https://app.example.org", "access-control-request-method": "GET" },
        },
        204,
      ],
    ];
    for (const [path, ask, status] of asked) {
      const answer = await server.ask(path, ask);
      expect([path, ask, answer.status]).toEqual([path, ask, status]);
      expect([path, answer.headers.get("x-content-type-options")]).toEqual([path, "nosniff"]);
    }
  });

  test("[H22] the log has method, route, status, time and request id, and nothing of the request's contents", async () => {
    const secrets = [
      "collection-secret",
      "vector-secret",
      "document-secret",
      "text secret",
      "metadata-secret",
      "query-secret",
      "0.123456",
    ];
    const headers = { "x-request-id": "logged-request" };
    const path = pathOf("streamingUpsert", { collection_id: "c" });
    const vector = {
      id: "vector-secret",
      document_id: "document-secret",
      text: "text secret",
      metadata: { a: "metadata-secret" },
      dense_values: [0.123456, 1, 1, 1],
    };
    expect((await server.ask(path, { body: { vectors: [vector] }, headers })).status).toBe(200);
    await server.call("vectorsByDocument", { collection_id: "c" }, undefined, "?document_id=document-secret");
    await server.call("getVector", { collection_id: "collection-secret", vector_id: "vector-secret" });
    await server.call("searchText", { collection_id: "c" }, { query: "text secret" });
    await server.call("searchText", { collection_id: "c" }, { query: 7, x: "text secret" });
    await server.ask(`${path}?x=query-secret`, { raw: '{"text secret"' });
    expectError(await server.ask(`${path}?query-secret=1`, { body: { vectors: [] } }), 400, "unknown_field");
    await server.ask("/collection-secret/%zz?query-secret=1");
    await expect.poll(() => server.log.some((line) => line.request_id === "logged-request")).toBe(true);
    const line = server.log.find((entry) => entry.request_id === "logged-request");
    expect(line).toMatchObject({
      method: "POST",
      route: "/vectordb/collections/:collection_id/streaming/upsert",
      status: 200,
    });
    expect(typeof line?.ms).toBe("number");
    for (const secret of secrets)
      expect([secret, server.logText().includes(secret)]).toEqual([secret, false]);
    expect(server.logText()).not.toContain(adminKey);
  });

  test("[H24] the API reference needs no other server", async () => {
    const page = await server.ask("/docs/", { key: null });
    expect(page.headers.get("content-type")).toContain("text/html");
    const policy = page.headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("connect-src 'self'");
    expect(policy).not.toMatch(/https?:|\*/);
    // The console keeps a key for this origin: nothing runs that is not a file of this server.
    expect(policy).toContain("; script-src 'self';");
    for (const [script] of page.text.matchAll(/<script[^>]*>/g))
      expect(script).toMatch(/ src="| type="application\/json"/);
    const sources = [...page.text.matchAll(/(?:src|href)="([^"]*)"/g)].map((match) => match[1]);
    expect(sources).toContain("js/scalar.js");
    for (const source of sources) expect(source).not.toMatch(/^(https?:)?\/\//);
    expect(page.text).toContain("/openapi.json");
    expect(page.text).toContain('"withDefaultFonts":false');
    expect(page.text).toContain('"telemetry":false');
    expect(page.text).not.toContain("proxyUrl");
    const script = await server.ask("/docs/js/scalar.js", { key: null });
    expect(script.text.length).toBeGreaterThan(1_000_000);
  });

  test("[H24] page, script and document are sent compressed, and not again to a browser that has them", async () => {
    const ask = async (path: string, headers: Record<string, string>) => {
      const sent = request(`${server.url}${path}`, { headers }).end();
      const [answer] = (await once(sent, "response")) as [IncomingMessage];
      return { status: answer.statusCode, headers: answer.headers, body: await buffer(answer) };
    };
    for (const path of ["/docs/", "/docs/js/scalar.js", "/openapi.json"]) {
      const plain = await ask(path, {});
      expect(plain.headers["content-encoding"]).toBeUndefined();
      const [brotli, again] = await Promise.all([
        ask(path, { "accept-encoding": "gzip, br" }),
        ask(path, { "accept-encoding": "gzip, br" }),
      ]);
      const packed = await ask(path, { "accept-encoding": "br;q=0, gzip" });
      expect([brotli.headers["content-encoding"], packed.headers["content-encoding"]]).toEqual([
        "br",
        "gzip",
      ]);
      expect(brotliDecompressSync(brotli.body).equals(plain.body)).toBe(true);
      expect(gunzipSync(packed.body).equals(plain.body)).toBe(true);
      expect(again.body.equals(brotli.body)).toBe(true);
      expect(brotli.body.length).toBeLessThan(0.6 * plain.body.length);
      const tags = [plain, brotli, packed].map(({ headers }) => headers.etag);
      expect(new Set(tags).size).toBe(3);
      for (const { headers } of [plain, brotli, packed])
        expect([headers["cache-control"], headers.vary]).toEqual(["no-cache", "accept-encoding"]);
      const known = await ask(path, {
        "accept-encoding": "gzip, br",
        "if-none-match": `"other", ${brotli.headers.etag}`,
      });
      expect([known.status, known.body.length, known.headers.etag]).toEqual([304, 0, brotli.headers.etag]);
      const other = await ask(path, { "if-none-match": `${brotli.headers.etag}` });
      expect(other.status).toBe(200);
      expect(other.body.equals(plain.body)).toBe(true);
    }
  });

  test("[H19] configured origins may call, others may not", async () => {
    const from = (origin: string, ask = {}) =>
      server.ask("/vectordb/collections", { headers: { origin }, ...ask });
    const good = await from("https://app.example.org");
    expect(good.headers.get("access-control-allow-origin")).toBe("https://app.example.org");
    expect(good.headers.get("access-control-expose-headers")).toContain("x-request-id");
    expect((await from("https://evil.example.org")).headers.get("access-control-allow-origin")).toBeNull();
    const refused = await from("https://app.example.org", { key: null });
    expect(refused.status).toBe(401);
    expect(refused.headers.get("access-control-allow-origin")).toBe("https://app.example.org");
    const preflight = await server.ask("/vectordb/collections/c/streaming/upsert", {
      method: "OPTIONS",
      key: null,
      headers: {
        origin: "https://app.example.org",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization",
      },
    });
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get("access-control-allow-methods")).toContain("DELETE");
    expect(preflight.headers.get("access-control-allow-headers")).toBe("authorization");
  });

  test("[H1] a second server on the same port reports it and leaves its data directory unlocked", async () => {
    const other = await startTestServer();
    await other.close();
    const again = { dataDir: other.dataDir, adminKey, logLevel: "silent" } as const;
    const started = startServer({ ...again, port: server.port });
    await expect(started).rejects.toThrow(ConfigError);
    await expect(started).rejects.toThrow(/is in use/);
    const third = await startServer({ ...again, port: 0 });
    await third.close();
    await other.end();
  });
});

describe("defaults", () => {
  test("[H19] without configured origins there are no CORS headers", async () => {
    const server = await startTestServer();
    const headers = { origin: "https://app.example.org", "access-control-request-method": "POST" };
    const answer = await server.ask("/vectordb/collections", { headers });
    expect(answer.headers.get("access-control-allow-origin")).toBeNull();
    expectError(
      await server.ask("/vectordb/collections", { method: "OPTIONS", headers }),
      405,
      "method_not_allowed",
    );
    await server.end();
  });
});

describe("starting", () => {
  test("[H20] while indexes catch up after a start, the server responds, but is not ready", async () => {
    const first = await startTestServer();
    await first.makeCollection("c");
    const vectors = Array.from({ length: 20_000 }, (_, i) => record(`v${i}`, i));
    expect((await first.call("streamingUpsert", { collection_id: "c" }, { vectors })).status).toBe(200);
    await first.close();

    const second = await startTestServer({ dataDir: first.dataDir });
    // At any time it returns one of two results, and in the end that it is ready.
    const ready = await second.ask("/health/ready", { key: null });
    if (ready.status === 503) {
      expect(expectError(ready, 503, "not_ready").details.collections_recovering).toBeTypeOf("number");
      expect(ready.headers.get("retry-after")).toBe("1");
    }
    expect((await second.ask("/health/live", { key: null })).status).toBe(200);
    expect((await second.call("getVector", { collection_id: "c", vector_id: "v7" })).status).toBe(200);
    const found = await second.call(
      "searchDense",
      { collection_id: "c" },
      { query_vector: [7, 1, 0, 0.5], top_k: 1 },
    );
    expect(found.json.results).toHaveLength(1);
    await expect
      .poll(async () => (await second.ask("/health/ready", { key: null })).status, { timeout: 30_000 })
      .toBe(200);
    await second.end();
  });

  test("[H20] an index that lags for long after a start does not keep the server from being ready", async () => {
    const first = await startTestServer();
    await first.makeCollection("c");
    const collection_id = "c";
    let words = 0;
    const text = () => Array.from({ length: 200 }, () => `word${words++}`).join(" ");
    const vectors = Array.from({ length: 1_000 }, (_, i) => ({ id: `t${i}`, text: text() }));
    await first.call("deleteIndex", { collection_id, index_type: "tf-idf" });
    expect((await first.call("streamingUpsert", { collection_id }, { vectors })).status).toBe(200);
    await first.call("createTextIndex", { collection_id }, {});
    await first.close();

    let nowMs = Date.now();
    const second = await startTestServer({ dataDir: first.dataDir, clock: () => nowMs });
    const before = await second.ask("/health/ready", { key: null });
    expect(expectError(before, 503, "not_ready").details.collections_recovering).toBe(1);
    nowMs += limits.recoveryWaitMs;
    const ready = await second.ask("/health/ready", { key: null });
    expect([ready.status, ready.json]).toEqual([200, { status: "ready", collections_recovering: 1 }]);
    expect((await second.call("getVector", { collection_id, vector_id: "t7" })).status).toBe(200);
    await second.database.recovered;
    const after = await second.ask("/health/ready", { key: null });
    expect(after.json).toEqual({ status: "ready" });
    await second.end();
  });

  test("[H1] the address of a running server is one that a client can use", async () => {
    for (const host of ["localhost", "127.0.0.1", "0.0.0.0"]) {
      const server = await startTestServer({ host });
      expect(server.url).toBe(`http://127.0.0.1:${server.port}`);
      expect((await server.ask("/health/live")).status).toBe(200);
      await server.end();
    }
  });
});

describe("stopping", () => {
  const upsertPath = pathOf("streamingUpsert", { collection_id: "c" });
  const bodyOf = (id: string) => JSON.stringify({ vectors: [record(id)] });

  test("[H18] accepted requests are answered, including an upload in progress; nothing acknowledged is lost", async () => {
    const server = await startTestServer();
    await server.makeCollection("c");
    // A half-finished upload.
    const upload = await server.connect();
    const text = bodyOf("uploaded");
    upload.write(
      rawHead("POST", upsertPath, { "Content-Length": Buffer.byteLength(text) }) + text.slice(0, 20),
    );
    // Streams of requests on their own connections, until they are rejected.
    const acknowledged: string[] = [];
    const streams = Array.from({ length: 8 }, async (_, stream) => {
      for (let i = 0; ; i++) {
        const id = `s${stream}-${i}`;
        const answer = await server
          .ask(upsertPath, { body: { vectors: [record(id)] } })
          .catch(() => undefined);
        if (answer?.status !== 200) return answer?.status ?? "no connection";
        acknowledged.push(id);
      }
    });
    await expect.poll(() => acknowledged.length).toBeGreaterThan(20);
    const closed = server.close();
    await sleep(50);
    upload.write(text.slice(20));
    const answer = await readAnswer(upload);
    expect(answer?.status).toBe(200);
    expect(answer?.head.toLowerCase()).toContain("connection: close");
    await closed;
    for (const end of await Promise.all(streams)) expect([503, "no connection"]).toContain(end);

    const again = await startTestServer({ dataDir: server.dataDir });
    for (const id of [...acknowledged, "uploaded"]) {
      expect([id, (await again.call("vectorExists", { collection_id: "c", vector_id: id })).status]).toEqual([
        id,
        200,
      ]);
    }
    await again.end();
  });

  test("[H18] new requests on old connections get 503, new connections are refused, silent ones are closed", async () => {
    const server = await startTestServer();
    await server.makeCollection("c");
    const silent = await server.connect();
    const silentClosed = once(silent, "close");
    const idle = await server.connect();
    idle.write(rawHead("GET", "/vectordb/collections"));
    expect((await readAnswer(idle))?.status).toBe(200);
    const idleClosed = once(idle, "close");
    // Delays the stop, and its connection gets another request at the same time.
    const busy = await server.connect();
    const text = bodyOf("busy");
    busy.write(rawHead("POST", upsertPath, { "Content-Length": Buffer.byteLength(text) }) + text.slice(0, 5));
    await sleep(50);
    const closed = server.close();
    await Promise.all([silentClosed, idleClosed]);
    const refused = await new Promise((resolve) => {
      connect(server.port, "127.0.0.1").once("error", (error: Error & { code?: string }) =>
        resolve(error.code),
      );
    });
    // Where several threads listened, one of them may have had the connection in its queue.
    expect(["ECONNREFUSED", "ECONNRESET"]).toContain(refused);
    busy.write(text.slice(5));
    expect((await readAnswer(busy))?.status).toBe(200);
    await closed;
    await server.end();
  });

  test("[H18] an upload that does not finish in time is cut off, and nothing of it is stored", async () => {
    const server = await startTestServer({ closeTimeoutMs: 300 });
    await server.makeCollection("c");
    const socket = await server.connect();
    const text = bodyOf("late");
    socket.write(
      rawHead("POST", upsertPath, { "Content-Length": Buffer.byteLength(text) }) + text.slice(0, 20),
    );
    await sleep(50);
    const gone = once(socket, "close");
    socket.on("error", () => {});
    await server.close();
    await gone;
    const again = await startTestServer({ dataDir: server.dataDir });
    expect((await again.call("getCollection", { collection_id: "c" })).json.vectors_count).toBe(0);
    await again.end();
  });

  test("[H18] an export without a reader does not delay the stop", async () => {
    const server = await startTestServer({ closeTimeoutMs: 300 });
    await server.makeCollection("c", { indexes: false });
    const text = "x".repeat(500_000);
    for (let i = 0; i < 20; i++) {
      await server.call("streamingUpsert", { collection_id: "c" }, { vectors: [{ id: `v${i}`, text }] });
    }
    const reader = await server.connect();
    reader.on("error", () => {});
    reader.pause();
    reader.write(rawHead("GET", pathOf("exportVectors", { collection_id: "c" })));
    await sleep(100);
    await server.close();
    reader.destroy();
    await server.end();
  });

  test("[H18] a connection that becomes idle after the stop began is closed, and does not delay it", async () => {
    const server = await startTestServer({ closeTimeoutMs: 60_000 });
    await server.makeCollection("c", { indexes: false });
    const text = "x".repeat(500_000);
    for (let i = 0; i < 20; i++) {
      await server.call("streamingUpsert", { collection_id: "c" }, { vectors: [{ id: `v${i}`, text }] });
    }
    // The headers of the response, with keep-alive, are sent before the stop; its end is read afterwards.
    const reader = await server.connect();
    reader.write(rawHead("GET", pathOf("exportVectors", { collection_id: "c" })));
    await once(reader, "data");
    reader.pause();
    const gone = once(reader, "close");
    const closed = server.close();
    await sleep(50);
    const readMs = performance.now();
    reader.resume();
    await Promise.all([gone, closed]);
    expect(performance.now() - readMs).toBeLessThan(10_000);
    await server.end();
  });

  test("[H18] closing twice closes once", async () => {
    const server = await startTestServer();
    await Promise.all([server.close(), server.close()]);
    await server.end();
  });
});
