// Hostile or broken clients: the server responds, reports what is wrong, and loses nothing.

import { once } from "node:events";
import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  adminKey,
  collectionBody,
  expectError,
  pathOf,
  rawHead,
  readAnswer,
  record,
  startTestServer,
  type TestServer,
} from "./running.ts";

let server: TestServer;
const c = { collection_id: "c" };
const upsertPath = pathOf("streamingUpsert", c);

beforeAll(async () => {
  // On a busy machine requests wait in queues; rejections because of that are not tested here.
  server = await startTestServer({ connectionsMax: 5_000, queueWaitMs: 120_000 });
  await server.makeCollection("c");
});
afterAll(() => server.end());

const count = async () => (await server.call("getCollection", c)).json.vectors_count as number;
const upsertRaw = (raw: string | Uint8Array<ArrayBuffer>) => server.ask(upsertPath, { method: "POST", raw });
/** What no system keeps in its buffers between a client and a server that does not read. */
const endlessBytes = 64 * 2 ** 20;
const Authorization = `Bearer ${adminKey}`;
/** Head of a raw request with these headers alone. */
const bareHead = (method: string, path: string, headers: Record<string, string | number | undefined>) => {
  const given = Object.entries(headers).filter(([, value]) => value !== undefined);
  return [`${method} ${path} HTTP/1.1`, ...given.map(([name, value]) => `${name}: ${value}`), "", ""].join(
    "\r\n",
  );
};
/** Sends bytes on a separate connection and reads one response. */
async function exchange(bytes: string | Buffer) {
  const socket = await server.connect();
  socket.on("error", () => {});
  socket.write(bytes);
  const answer = await readAnswer(socket);
  socket.destroy();
  return answer;
}

describe("bodies", () => {
  test("[H6] malformed JSON is 400 with a position and changes nothing", async () => {
    const before = await server.fingerprint("c");
    for (const raw of [
      "{",
      '{"vectors": [}',
      '{"vectors": [{"id": "a", "dense_values": [1, NaN, 0, 0]}]}',
      "{'vectors': []}",
      "\ufeff{}",
      "{}{}",
    ]) {
      const error = expectError(await upsertRaw(raw), 400, "invalid_json");
      expect(error.message).toMatch(/line 1, column \d+/);
    }
    expect(await server.fingerprint("c")).toEqual(before);
  });

  test("[H5] another content type is 415, if there is a body", async () => {
    const raw = JSON.stringify({ vectors: [record("a")] });
    for (const type of [
      "text/plain",
      "application/x-www-form-urlencoded",
      "multipart/form-data; boundary=x",
      "application/json; charset=utf-16",
      "nonsense",
      "",
    ]) {
      const answer = await server.ask(upsertPath, { raw, headers: { "content-type": type } });
      expectError(answer, 415, "unsupported_media_type");
    }
    expectError(
      await server.ask(upsertPath, { raw, headers: { "content-encoding": "gzip" } }),
      415,
      "unsupported_media_type",
    );
    for (const type of ["application/json; charset=utf-8", "Application/JSON;charset=UTF-8"]) {
      expect((await server.ask(upsertPath, { raw, headers: { "content-type": type } })).status).toBe(200);
    }
    const untyped = rawHead("POST", upsertPath, { "Content-Length": 2 }).replace(/Content-Type.*\r\n/, "");
    expect((await exchange(`${untyped}{}`))?.status).toBe(415);
  });

  test("[H4] a body beyond the limit is 413, whether its length is declared or not", async () => {
    const small = await startTestServer({ bodyLimitBytes: 100_000 });
    await small.makeCollection("c");
    const body = JSON.stringify({ vectors: [{ ...record("a"), text: "x".repeat(200_000) }] });
    const declared = await small.ask(upsertPath, { raw: body });
    expect(expectError(declared, 413, "body_too_large").details.limit_bytes).toBe(100_000);
    const socket = await small.connect();
    socket.write(rawHead("POST", upsertPath, { "Transfer-Encoding": "chunked" }));
    for (let at = 0; at < body.length; at += 50_000) {
      const part = body.slice(at, at + 50_000);
      socket.write(`${part.length.toString(16)}\r\n${part}\r\n`);
    }
    socket.write("0\r\n\r\n");
    expect((await readAnswer(socket))?.status).toBe(413);
    // The connection is still good.
    socket.write(rawHead("GET", "/vectordb/collections"));
    expect((await readAnswer(socket))?.status).toBe(200);
    socket.destroy();
    const fits = JSON.stringify({ vectors: [{ ...record("a"), text: "x".repeat(99_000) }] });
    expect((await small.ask(upsertPath, { raw: fits })).status).toBe(200);
    expect((await small.call("getCollection", c)).json.vectors_count).toBe(1);
    await small.end();
  });

  test("[H4] bodies that together take too much memory are rejected with 503, and release it", async () => {
    const small = await startTestServer({ bodiesInMemoryBytesMax: 100_000 });
    await small.makeCollection("c");
    const body = JSON.stringify({ vectors: [{ ...record("a"), text: "x".repeat(80_000) }] });
    const holder = await small.connect();
    holder.write(rawHead("POST", upsertPath, { "Content-Length": body.length }) + body.slice(0, 60_000));
    await expect
      .poll(async () => (await small.ask("/metrics")).text)
      .toMatch(/quiver_request_bodies_bytes [56]\d{4}/);
    const refused = await small.ask(upsertPath, { raw: body });
    expectError(refused, 503, "overloaded");
    expect(refused.headers.get("retry-after")).toBe("1");
    holder.destroy();
    await expect.poll(async () => (await small.ask(upsertPath, { raw: body })).status).toBe(200);
    await small.end();
  });

  test("[H8] 100,000 levels of nesting crash nothing, wherever they are", async () => {
    const deep = (open: string, close: string) => open.repeat(100_000) + close.repeat(100_000);
    const arrays = deep("[", "]");
    const objects = `${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}`;
    const paths: [string, string | undefined][] = [
      [arrays, "body"],
      [`{"vectors":${arrays}}`, "vectors[0]"],
      [`{"vectors":[{"id":${arrays}}]}`, "vectors[0].id"],
      [`{"vectors":[{"id":"a","text":"x","metadata":${objects}}]}`, "vectors[0].metadata"],
      [`{"vectors":[{"id":"a","text":"x","metadata":{"a":${arrays}}}]}`, "vectors[0].metadata"],
      [`{"vectors":[{"id":"a","text":"x","sparse_values":${arrays}}]}`, "vectors[0].sparse_values[0]"],
    ];
    for (const [raw, path] of paths) {
      expect(expectError(await upsertRaw(raw), 400, "invalid_request").details.path).toBe(path);
    }
    const unknown = `{"junk":${objects},"vectors":[{"id":"deep","text":"x","metadata":{"n":1.0}}]}`;
    expect(expectError(await upsertRaw(unknown), 400, "unknown_field").details.path).toBe("junk");
    expectError(await upsertRaw(arrays.slice(1)), 400, "invalid_json");
  });

  test("[E3] invalid numbers, or numbers beyond 32-bit floats, are 400 with their position", async () => {
    const withNumber = (number: string) => `{"vectors":[{"id":"a","dense_values":[1,${number},0,0]}]}`;
    expectError(await upsertRaw(withNumber("NaN")), 400, "invalid_json");
    expectError(await upsertRaw(withNumber("Infinity")), 400, "invalid_json");
    for (const number of ["1e999", "-1e999", "1e39", "-1e39"]) {
      const error = expectError(await upsertRaw(withNumber(number)), 400);
      expect(error.details.path).toBe("vectors[0].dense_values[1]");
    }
    expect((await upsertRaw(withNumber("3.4e38"))).status).toBe(200);
    expect((await upsertRaw(withNumber("1e-999"))).status).toBe(200);
  });

  test("[H9] metadata is returned unchanged: long numbers, 1e999, -0, __proto__, constructor, lone surrogates", async () => {
    const metadata =
      '{"big":12345678901234567890,"huge":1e999,"minus":-0,"float":5.0,"digits":0.1000000000000000055511151231257827,' +
      '"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}},"toString":null,"":"","half":"\\ud800",' +
      '"nested":[[{"n":-0.0}],[]],"text":"\\"\\\\/\\n😀"}';
    for (const [name, params, wrap] of [
      ["streamingUpsert", c, (record: string) => `{"vectors":[${record}]}`],
      [
        "addVector",
        { ...c, transaction_id: (await server.call("createTransaction", c)).json.transaction_id },
        (record: string) => record,
      ],
    ] as const) {
      const sent = await server.ask(pathOf(name, params), {
        raw: wrap(`{"id":"m-${name}","document_id":"m","text":"x","metadata":${metadata}}`),
      });
      expect(sent.status, sent.text).toBe(200);
      if (name === "addVector") expect((await server.call("commitTransaction", params)).status).toBe(204);
      const read = await server.call("getVector", { ...c, vector_id: `m-${name}` });
      expect(read.text.slice(read.text.indexOf('"metadata":') + '"metadata":'.length, -1)).toBe(metadata);
    }
    const both = await server.call("vectorsByDocument", c, undefined, "?document_id=m");
    expect(both.text.split(metadata)).toHaveLength(3);
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });

  test("[H8] if a key occurs twice, the last one counts", async () => {
    const raw =
      '{"vectors":[{"id":"no","text":"x"}],"vectors":[{"id":"no","id":"twice","text":"a","text":"b","metadata":{"a":1,"a":2.0}}]}';
    expect((await upsertRaw(raw)).status).toBe(200);
    const { text, json } = await server.call("getVector", { ...c, vector_id: "twice" });
    expect(json.text).toBe("b");
    expect(text).toContain('"metadata":{"a":2.0}');
    expect((await server.call("getVector", { ...c, vector_id: "no" })).status).toBe(404);
  });

  test("[H8] __proto__ and constructor as keys of a body are unknown fields", async () => {
    const raw = '{"__proto__":{"vectors":[{"id":"x","text":"x"}]},"constructor":1}';
    expect(expectError(await upsertRaw(raw), 400, "unknown_field").details.path).toBe("__proto__");
    const named = '{"constructor":1,"vectors":[{"id":"x","text":"x"}]}';
    expect(expectError(await upsertRaw(named), 400, "unknown_field").details.path).toBe("constructor");
    const inside = '{"vectors":[{"__proto__":{"id":"x"},"text":"x"}]}';
    expect(expectError(await upsertRaw(inside), 400, "unknown_field").details.path).toBe(
      "vectors[0].__proto__",
    );
  });

  test("[H7] bytes that are not UTF-8 are 400 with their offset", async () => {
    const raw = Buffer.from('{"vectors":[{"id":"\xff","text":"x"}]}', "latin1");
    const error = expectError(await upsertRaw(new Uint8Array(raw)), 400, "invalid_json");
    expect(error.details.byte_offset).toBe(19);
  });

  test("[E3] half a surrogate pair cannot be an id, a document id, a text or a name", async () => {
    const half = '"\\ud800"';
    expect(expectError(await upsertRaw(`{"vectors":[{"id":${half},"text":"x"}]}`), 400).details.path).toBe(
      "vectors[0].id",
    );
    expect(
      expectError(await upsertRaw(`{"vectors":[{"id":"a","document_id":${half},"text":"x"}]}`), 400).details
        .path,
    ).toBe("vectors[0].document_id");
    expect(expectError(await upsertRaw(`{"vectors":[{"id":"a","text":${half}}]}`), 400).details.path).toBe(
      "vectors[0].text",
    );
    const named = JSON.stringify(collectionBody("x")).replace('"x"', half);
    expectError(await server.ask("/vectordb/collections", { raw: named }), 400, "invalid_name");
  });
});

describe("sizes", () => {
  test("[H4] a million sparse entries are accepted, more than the limit are not", async () => {
    const sparse = (entries: number) => {
      const indices = Array.from({ length: entries }, (_, i) => i);
      return `{"vectors":[{"id":"wide","sparse_indices":[${indices}],"sparse_values":[${indices.map(() => 1)}]}]}`;
    };
    expect((await upsertRaw(sparse(1_000_000))).status).toBe(200);
    const read = await server.call("getVector", { ...c, vector_id: "wide" });
    expect(read.json.sparse_indices).toHaveLength(1_000_000);
    const error = expectError(await upsertRaw(sparse(1_048_577)), 400, "invalid_vector");
    expect(error.details.path).toBe("vectors[0].sparse_values");
    expect((await server.call("streamingDelete", { ...c, vector_id: "wide" })).status).toBe(204);
  });

  test("[H4] 65,535 dimensions are accepted, 65,536 are not", async () => {
    const refused = await server.call("createCollection", {}, collectionBody("too wide", 65_536));
    expect(expectError(refused, 400, "invalid_request").details.path).toBe("dense_vector.dimension");
    await server.makeCollection("wide", { dimension: 65_535 });
    const wide = { collection_id: "wide" };
    const values = Array.from({ length: 65_535 }, (_, i) => i % 7);
    const sent = await server.call("streamingUpsert", wide, { vectors: [{ id: "a", dense_values: values }] });
    expect(sent.status, sent.text).toBe(200);
    const found = await server.call("searchDense", wide, { query_vector: values });
    expect(found.json.results[0].score).toBeCloseTo(1, 5);
    const longer = await server.call("streamingUpsert", wide, {
      vectors: [{ id: "b", dense_values: [...values, 1] }],
    });
    expect(expectError(longer, 400, "invalid_vector").details.path).toBe("vectors[0].dense_values");
  });
});

describe("paths", () => {
  test("[H2] names never become paths, however they are written", async () => {
    for (const name of ["..", ".", "%2e%2e", "..%2f..%2fetc", "%00", "a%00b", "..%5c", "%c0%ae%c0%ae"]) {
      const answer = await exchange(rawHead("GET", `/vectordb/collections/${name}`));
      expect([name, answer?.status]).toEqual([name, name === "%c0%ae%c0%ae" ? 400 : 404]);
      expect(JSON.parse(answer?.body ?? "").error.code).toMatch(/^(collection_not_found|invalid_request)$/);
    }
    for (const path of [
      "/../../etc/passwd",
      "/vectordb/../docs",
      "/vectordb/collections/../../metrics",
      "//",
      "/vectordb//collections",
      "/vectordb/collections/",
      "/vectordb/collections//load",
      "/vectordb/collections/c/vectors/",
    ]) {
      const answer = await exchange(rawHead("GET", path));
      expect([path, answer?.status, JSON.parse(answer?.body ?? "").error.code]).toEqual([
        path,
        404,
        "route_not_found",
      ]);
    }
  });

  test("[H2] a broken percent-encoding is 400", async () => {
    for (const path of [
      "/vectordb/collections/%",
      "/vectordb/collections/%z1",
      "/vectordb/collections/%ff",
      "/vectordb/collections/c/vectors/%ed%a0%80",
      "/%",
    ]) {
      const answer = await exchange(rawHead("GET", path));
      expect([path, answer?.status, JSON.parse(answer?.body ?? "").error.code]).toEqual([
        path,
        400,
        "invalid_request",
      ]);
    }
  });

  test("[H13] an unknown path is 404, a known one with another method 405 with Allow", async () => {
    for (const path of [
      "/nowhere",
      "/vectordb",
      "/vectordb/collection",
      "/vectordb/collections/c/nothing",
      "/VECTORDB/collections",
      "/health",
      "/vectordb/collections/c/search/dense/x",
    ]) {
      for (const method of ["GET", "POST", "DELETE", "PUT"]) {
        expectError(await server.ask(path, { method }), 404, "route_not_found");
      }
    }
    const wrong: [string, string, string][] = [
      ["PUT", "/vectordb/collections", "GET, HEAD, POST"],
      ["PUT", "/vectordb/collections/c", "DELETE, GET, HEAD, PATCH"],
      ["GET", upsertPath, "POST"],
      ["POST", "/vectordb/collections/c/vectors/a", "DELETE, GET, HEAD, PATCH"],
      ["POST", "/vectordb/collections/loaded", "DELETE, GET, HEAD, PATCH"],
      ["OPTIONS", "/vectordb/collections", "GET, HEAD, POST"],
      ["POST", "/health/live", "GET, HEAD"],
      ["DELETE", "/metrics", "GET, HEAD"],
      ["POST", "/", "GET, HEAD"],
      ["GET", "/auth/create-session", "POST"],
    ];
    for (const [method, path, allow] of wrong) {
      const answer = await server.ask(path, { method });
      const error = expectError(answer, 405, "method_not_allowed");
      expect([path, answer.headers.get("allow"), error.details.allowed]).toEqual([
        path,
        allow,
        allow.split(", "),
      ]);
    }
    // The body of a rejected request is not parsed.
    expectError(await server.ask("/nowhere", { raw: "{" }), 404, "route_not_found");
    expectError(
      await server.ask("/vectordb/collections/c", { method: "PUT", raw: "{" }),
      405,
      "method_not_allowed",
    );
    expect((await exchange(rawHead("PROPFIND", "/vectordb/collections")))?.status).toBe(405);
  });

  test("[H14] HEAD answers as GET does, without a body", async () => {
    await server.call("streamingUpsert", c, { vectors: [record("headed")] });
    const socket = await server.connect();
    const paths = [
      "/vectordb/collections",
      pathOf("getVector", { ...c, vector_id: "headed" }),
      "/health/live",
      "/nowhere",
      pathOf("vectorExists", { ...c, vector_id: "none" }),
    ];
    // Had any answer a body, the next one could not be read.
    for (const path of paths) {
      socket.write(rawHead("HEAD", path));
      let head = "";
      while (!head.includes("\r\n\r\n")) head += (await once(socket, "data"))[0].toString();
      expect(head.endsWith("\r\n\r\n"), path).toBe(true);
      expect(head.slice(9, 12)).toBe(["/nowhere", paths[4]].includes(path) ? "404" : "200");
    }
    socket.destroy();
  });
});

describe("connections", () => {
  test("[H15] [H33] malformed HTTP gets an error response of the usual shape, and the connection is closed", async () => {
    const cases: [string, number, string][] = [
      ["GARBAGE\r\n\r\n", 400, "invalid_request"],
      ["GET / HTTP/9.9\r\n\r\n", 400, "invalid_request"],
      [`${rawHead("POST", upsertPath, { "Content-Length": "many" })}`, 400, "invalid_request"],
      [`${rawHead("POST", upsertPath, { "Transfer-Encoding": "chunked" })}zz\r\n`, 400, "invalid_request"],
      [`GET /${"x".repeat(20_000)} HTTP/1.1\r\n\r\n`, 431, "headers_too_large"],
      [`GET / HTTP/1.1\r\nX: ${"x".repeat(20_000)}\r\n\r\n`, 431, "headers_too_large"],
      [
        `GET / HTTP/1.1\r\n${Array.from({ length: 3_000 }, (_, i) => `X-${i}: yyyy`).join("\r\n")}\r\n\r\n`,
        431,
        "headers_too_large",
      ],
    ];
    for (const [bytes, status, code] of cases) {
      const answer = await exchange(bytes);
      expect([bytes.slice(0, 30), answer?.status]).toEqual([bytes.slice(0, 30), status]);
      expect(answer?.head.toLowerCase()).toContain("connection: close");
      expect(answer?.head.toLowerCase()).toContain("content-type: application/json");
      expect(answer?.head.toLowerCase()).toContain("x-content-type-options: nosniff");
      expect(JSON.parse(answer?.body ?? "").error.code).toBe(code);
    }
  });

  test("[H15] a request without Host, or with an unknown expectation, is answered as usual", async () => {
    const head = rawHead("GET", "/vectordb/collections");
    expect((await exchange(head.replace("Host: test\r\n", "")))?.status).toBe(200);
    expect((await exchange(rawHead("GET", "/vectordb/collections", { Expect: "miracles" })))?.status).toBe(
      200,
    );
  });

  test("[H32] what its headers refuse is answered without any of the body, and without 100 Continue", async () => {
    const collections = "/vectordb/collections";
    // With serving threads some of these are answered in a thread, and others by the owner of the database.
    const paths = [upsertPath, pathOf("searchDense", c), pathOf("countVectors", c), collections, "/nowhere"];
    const keyless = { Authorization: undefined };
    const json = { "Content-Type": "application/json" };
    for (const path of paths) {
      const cases: [string, Record<string, string | number | undefined>, number][] = [
        ["POST", { ...json, ...keyless }, 401],
        ["POST", { ...json, Authorization: "Bearer wrong" }, 401],
        ["POST", { "Content-Type": "text/plain" }, path === "/nowhere" ? 404 : 415],
        ["POST", { ...json, "Content-Encoding": "gzip" }, path === "/nowhere" ? 404 : 415],
        ["PUT", json, path === "/nowhere" ? 404 : 405],
        ["POST", { ...json, "Content-Length": 2 ** 30 }, path === "/nowhere" ? 404 : 413],
      ];
      for (const [method, headers, status] of cases) {
        for (const framing of [{ "Content-Length": 9 }, { "Transfer-Encoding": "chunked" }]) {
          for (const Expect of [undefined, "100-continue"]) {
            const length = "Content-Length" in headers ? {} : framing;
            const text = bareHead(method, path, { Authorization, ...length, ...headers, Expect });
            const answer = await exchange(text);
            expect([text, answer?.status]).toEqual([text, status]);
            // Nobody can know whether the body comes all the same.
            expect([text, /^connection: close/im.test(answer?.head ?? "")]).toEqual([
              text,
              Expect !== undefined,
            ]);
          }
        }
      }
    }
    // An untyped body in chunks may be empty, and then no type is missing; one that is announced is not.
    const untyped = bareHead("POST", pathOf("countVectors", c), {
      Authorization,
      "Transfer-Encoding": "chunked",
    });
    expect((await exchange(`${untyped}0\r\n\r\n`))?.status).toBe(200);
    const announced = untyped.replace("\r\n", "\r\nExpect: 100-continue\r\n");
    expect((await exchange(announced))?.status).toBe(415);
  });

  test("[H32] a request that its headers do not refuse gets 100 Continue, and then its answer", async () => {
    const snapshot = pathOf("uploadSnapshot");
    const cases: [string, string, string, number][] = [
      [upsertPath, "application/json", JSON.stringify({ vectors: [record("invited")] }), 200],
      [pathOf("countVectors", c), "application/json", "{}", 200],
      [snapshot, "application/octet-stream", "no snapshot", 400],
    ];
    for (const [path, type, body, status] of cases) {
      const socket = await server.connect();
      const headers = { Authorization, "Content-Type": type, "Content-Length": body.length };
      socket.write(bareHead("POST", path, { ...headers, Expect: "100-continue" }));
      expect((await once(socket, "data"))[0].toString()).toBe("HTTP/1.1 100 Continue\r\n\r\n");
      socket.write(body);
      expect([path, (await readAnswer(socket))?.status]).toEqual([path, status]);
      // The connection goes on.
      socket.write(rawHead("GET", "/vectordb/collections"));
      expect((await readAnswer(socket))?.status).toBe(200);
      socket.destroy();
    }
    // A client need not wait for it.
    const body = JSON.stringify({ vectors: [record("eager")] });
    const head = rawHead("POST", upsertPath, { "Content-Length": body.length, Expect: "100-continue" });
    const eager = await server.connect();
    eager.write(head + body);
    let text = "";
    while (!text.includes("\r\n\r\n{}")) text += (await once(eager, "data"))[0];
    expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 100", "HTTP/1.1 200"]);
    eager.destroy();
  });

  test("[H32] a body that comes after its answer is read up to a limit, and the answer can be read", async () => {
    const piece = Buffer.alloc(64 * 1024, "x");
    const chunk = Buffer.concat([
      Buffer.from(`${piece.length.toString(16)}\r\n`),
      piece,
      Buffer.from("\r\n"),
    ]);
    const chunked = { "Content-Type": "application/json", "Transfer-Encoding": "chunked" };
    // Refused on their headers, and by a body that is larger than the server accepts.
    const heads = [pathOf("searchDense", c), pathOf("countVectors", c), "/nowhere"].map((path) =>
      bareHead("POST", path, chunked),
    );
    const small = await startTestServer({ bodyLimitBytes: 100_000 });
    await small.makeCollection("c");
    for (const path of [upsertPath, pathOf("countVectors", c)])
      heads.push(bareHead("POST", path, { Authorization, ...chunked }));
    for (const head of heads) {
      const socket = await small.connect();
      const answer = readAnswer(socket);
      const closed = once(socket, "close");
      socket.write(head);
      // As many clients do, it sends without a look at the answer.
      while (!socket.destroyed && socket.bytesWritten < endlessBytes)
        if (!socket.write(chunk)) await Promise.race([once(socket, "drain"), closed]).catch(() => {});
      expect([401, 413]).toContain((await answer)?.status);
      await closed.catch(() => {});
      expect(socket.bytesWritten).toBeLessThan(endlessBytes);
    }
    await small.end();
  });

  test("[H16] an upload that is too slow is 408 and changes nothing", async () => {
    const hasty = await startTestServer({ requestTimeoutMs: 400, headersTimeoutMs: 300 });
    await hasty.makeCollection("c");
    const before = await hasty.fingerprint("c");
    const body = JSON.stringify({ vectors: [record("slow")] });
    const slow = await hasty.connect();
    slow.write(rawHead("POST", upsertPath, { "Content-Length": body.length }) + body.slice(0, -1));
    const answer = await readAnswer(slow);
    expect(answer?.status).toBe(408);
    expect(JSON.parse(answer?.body ?? "").error.code).toBe("request_timeout");
    const drip = await hasty.connect();
    drip.write("GET /vectordb/collections HTTP/1.1\r\n");
    expect((await readAnswer(drip))?.status).toBe(408);
    for (const socket of [slow, drip]) socket.destroy();
    expect(await hasty.fingerprint("c")).toEqual(before);
    await hasty.end();
  });

  test("[H16] an aborted upload changes nothing, at any byte", async () => {
    const before = await server.fingerprint("c");
    const body = JSON.stringify({ vectors: [record("aborted-1"), record("aborted-2")] });
    for (let sent = 0; sent < body.length; sent += 17) {
      const socket = await server.connect();
      socket.write(rawHead("POST", upsertPath, { "Content-Length": body.length }) + body.slice(0, sent));
      if (sent % 2 === 0) await sleep(1);
      socket.destroy();
    }
    const half = await server.connect();
    half.end(rawHead("POST", upsertPath, { "Content-Length": body.length }) + body.slice(0, 40));
    const answer = await readAnswer(half);
    expect([undefined, 400]).toContain(answer?.status);
    await sleep(50);
    expect(await server.fingerprint("c")).toEqual(before);
    expect(server.log.filter((line) => (line.level as number) >= 50)).toEqual([]);
  });

  test("[H25] pipelined requests are answered in order", async () => {
    // Each starts when it is read; only acknowledged changes are certainly visible to the next.
    await server.call("streamingUpsert", c, { vectors: [record("before")] });
    const socket = await server.connect();
    const body = JSON.stringify({ vectors: [record("piped")] });
    const requests = [
      rawHead("GET", "/vectordb/collections"),
      rawHead("POST", upsertPath, { "Content-Length": body.length }) + body,
      rawHead("GET", pathOf("getVector", { ...c, vector_id: "before" })),
      rawHead("GET", "/nowhere"),
      rawHead("POST", pathOf("loadCollection", c), { "Content-Length": 0 }),
      rawHead("GET", "/vectordb/collections", { Connection: "close" }),
    ];
    socket.write(requests.join(""));
    let text = "";
    for await (const chunk of socket) text += chunk;
    expect([...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map((match) => match[1])).toEqual([
      "200",
      "200",
      "200",
      "404",
      "200",
      "200",
    ]);
  });

  test("[H15] garbage after an accepted request on its connection does not suppress its response", async () => {
    const socket = await server.connect();
    const body = JSON.stringify({ vectors: [record("followed")] });
    socket.write(`${rawHead("POST", upsertPath, { "Content-Length": body.length })}${body}GARBAGE\r\n\r\n`);
    let text = "";
    for await (const chunk of socket) text += chunk;
    expect([...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map((match) => match[1])).toEqual(["200", "400"]);
    expect((await server.call("vectorExists", { ...c, vector_id: "followed" })).status).toBe(200);
  });

  test("[H25] 1,000 parallel connections are all answered, reads and writes", async () => {
    const before = await count();
    const sockets = await Promise.all(Array.from({ length: 1_000 }, () => server.connect()));
    const answers = await Promise.all(
      sockets.map((socket: Socket, i) => {
        const body = JSON.stringify({ vectors: [record(`parallel-${i}`)] });
        const search = JSON.stringify({ query_vector: [1, 1, 0, 0] });
        socket.write(
          i % 2 === 0
            ? rawHead("POST", upsertPath, { "Content-Length": body.length }) + body
            : rawHead("POST", pathOf("searchDense", c), { "Content-Length": search.length }) + search,
        );
        return readAnswer(socket);
      }),
    );
    expect(answers.filter((answer) => answer?.status === 200)).toHaveLength(1_000);
    for (const socket of sockets) socket.destroy();
    expect(await count()).toBe(before + 500);
  });

  test("[H4] connections beyond the limit are refused, and slots are released", async () => {
    const small = await startTestServer({ connectionsMax: 2 });
    const one = await small.connect();
    const two = await small.connect();
    for (const socket of [one, two]) {
      socket.write(rawHead("GET", "/health/live"));
      expect((await readAnswer(socket))?.status).toBe(200);
    }
    const three = await small.connect();
    three.on("error", () => {});
    await once(three, "close");
    one.destroy();
    await expect.poll(async () => (await small.ask("/health/live").catch(() => undefined))?.status).toBe(200);
    two.destroy();
    await small.end();
  });

  test("the admin key is nowhere in the log after all this", () => {
    expect(server.logText()).not.toContain(adminKey);
    expect(server.log.filter((line) => (line.level as number) >= 50)).toEqual([]);
  });
});
