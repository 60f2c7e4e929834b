// Do lines of JSON and MessagePack upsert what JSON upserts, and fail as it does?

import { encode } from "@msgpack/msgpack";
import type { OperationName } from "@quiverdb/engine/operations/operations";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { expectError, pathOf, startTestServer, type TestServer } from "./running.ts";

type Params = Record<string, string>;
const c: Params = { collection_id: "c" };
const large: Params = { collection_id: "large" };
const numbers = [0.1, -2, 1e-40, 3.25].map(Math.fround);
const bytesOf = (values: readonly number[]) => new Uint8Array(new Float32Array(values).buffer);
const base64 = (values: readonly number[]) => Buffer.from(bytesOf(values)).toString("base64");

const record = (id: string, more: object = {}) => ({
  id,
  document_id: `doc-${id}`,
  sparse_indices: [7, 4_294_967_295],
  sparse_values: [0.5, -2],
  text: `Füchse and foxes ${id}`,
  metadata: { n: 1, list: [1.5, null, "é"], deep: { a: true } },
  ...more,
});

/** Each format: how it writes records, and how it writes a vector as bytes. */
const formats = {
  "application/x-ndjson": {
    write: (records: readonly unknown[]) =>
      Buffer.from(records.map((each) => JSON.stringify(each)).join("\n")),
    vector: (values: readonly number[]): unknown => ({ f32: base64(values) }),
  },
  "application/msgpack": {
    write: (records: readonly unknown[]) => Buffer.concat(records.map((each) => encode(each))),
    vector: (values: readonly number[]): unknown => bytesOf(values),
  },
} as const;
type Format = keyof typeof formats;
const names = Object.keys(formats) as Format[];

let server: TestServer;
let transaction: Params;

const send = (route: OperationName, params: Params, type: string, body: Uint8Array) =>
  server.ask(pathOf(route, params), {
    raw: Uint8Array.from(body),
    headers: { "content-type": type },
  });
const get = async (vector_id: string, params = c) =>
  (await server.call("getVector", { ...params, vector_id })).json;

beforeAll(async () => {
  server = await startTestServer();
  await server.makeCollection("c");
  await server.makeCollection("large");
  await server.call("streamingUpsert", c, { vectors: [record("reference", { dense_values: numbers })] });
});
beforeEach(async () => {
  const { json } = await server.call("createTransaction", c);
  transaction = { ...c, transaction_id: json.transaction_id };
  return async () => {
    await server.call("abortTransaction", transaction);
  };
});
afterAll(() => server.end());

describe.each(names)("[H28] %s", (type) => {
  const { write, vector } = formats[type];

  test("records are stored as if they were sent as JSON, with vectors as numbers or bytes", async () => {
    const reference = await get("reference");
    const records = (prefix: string) => [
      record(`${prefix}-numbers`, { dense_values: numbers }),
      record(`${prefix}-bytes`, { dense_values: vector(numbers) }),
      { id: `${prefix}-text`, text: "only text", dense_values: null },
    ];
    expect((await send("streamingUpsert", c, type, write(records("s")))).status).toBe(200);
    expect((await send("upsertVectors", transaction, type, write(records("t")))).status).toBe(200);
    expect((await server.call("commitTransaction", transaction)).status).toBe(204);
    for (const prefix of ["s", "t"]) {
      for (const kind of ["numbers", "bytes"]) {
        const id = `${prefix}-${kind}`;
        const text = `Füchse and foxes ${id}`;
        expect(await get(id)).toEqual({ ...reference, id, document_id: `doc-${id}`, text });
      }
      expect(await get(`${prefix}-text`)).toMatchObject({ dense_values: null, text: "only text" });
    }
  });

  test("one invalid record rejects all, with its position, and nothing changes", async () => {
    const before = await server.fingerprint("c");
    for (const [bad, code, path] of [
      [{ id: "" }, "invalid_vector", "vectors[2].id"],
      [{ id: "x", dense_values: [1, 2, 3] }, "invalid_vector", "vectors[2].dense_values"],
      [{ id: "x", dense_values: vector([1, 2, 3]) }, "invalid_vector", "vectors[2].dense_values"],
      [
        { id: "x", dense_values: vector([1, Number.NaN, 3, 4]) },
        "invalid_vector",
        "vectors[2].dense_values[1]",
      ],
      [{ id: "x", dense_values: [1, 2, "3", 4] }, "invalid_request", "vectors[2].dense_values[2]"],
      [{ id: "x", dense_values: [1, 2, 1e39, 4] }, "invalid_vector", "vectors[2].dense_values[2]"],
      [
        { id: "x", sparse_values: [1], sparse_indices: [-1] },
        "invalid_request",
        "vectors[2].sparse_indices[0]",
      ],
      [{ id: 7, text: "a" }, "invalid_request", "vectors[2].id"],
      [{ text: "a" }, "invalid_request", "vectors[2].id"],
      [{ id: "x", txet: "a" }, "unknown_field", "vectors[2].txet"],
      [[1, 2], "invalid_request", "vectors[2]"],
      ["words", "invalid_request", "vectors[2]"],
      [null, "invalid_request", "vectors[2]"],
    ] as const) {
      const body = write([record("a"), record("b"), bad, record("c")]);
      for (const [route, params] of [
        ["streamingUpsert", c],
        ["upsertVectors", transaction],
      ] as const) {
        const error = expectError(await send(route, params, type, body), 400, code);
        expect(error.details.path, error.message).toBe(path);
        expect(error.message).toContain(path);
      }
    }
    expect(await server.fingerprint("c")).toEqual(before);
  });

  test("a large body is read in steps, with the same values and the same faults", async () => {
    const many = Array.from({ length: 4_000 }, (_, i) => ({
      id: `${type}-${i}`,
      dense_values: i % 2 === 0 ? vector([i, 1, 2, 3]) : [i, 1, 2, 3],
      text: i === 17 ? "long ".repeat(30_000) : `text ${i}`,
      metadata: { i },
    }));
    const body = write(many);
    expect(body.length).toBeGreaterThan(400_000);
    expect((await send("streamingUpsert", large, type, body)).status).toBe(200);
    for (const i of [0, 17, 3_999])
      expect(await get(`${type}-${i}`, large)).toMatchObject({ dense_values: [i, 1, 2, 3], metadata: { i } });
    const broken = write(many.with(3_998, { ...many[0], dense_values: [1, 2, 3, "4"] as never }));
    const error = expectError(await send("streamingUpsert", large, type, broken), 400, "invalid_request");
    expect(error.details.path).toBe("vectors[3998].dense_values[3]");
  });

  test("other endpoints do not take it", async () => {
    const body = write([{ query_vector: [1, 2, 3, 4] }]);
    for (const [route, params] of [
      ["searchDense", c],
      ["addVector", transaction],
      ["createCollection", {}],
    ] as const)
      expectError(await send(route, params, type, body), 415, "unsupported_media_type");
  });
});

describe("[H28] lines of JSON", () => {
  const type = "application/x-ndjson";
  const sendText = (text: string) => send("streamingUpsert", c, type, Buffer.from(text));

  test("blank lines, both ends of line, and a last line without one are accepted", async () => {
    const text = '\r\n \t\n{"id":"l1","text":"a"}\r\n\n  {"id":"l2","text":"b"}  \n{"id":"l3","text":"c"}';
    expect((await sendText(text)).status).toBe(200);
    for (const id of ["l1", "l2", "l3"]) expect((await get(id)).id).toBe(id);
  });

  test("a line that is not JSON is reported with line, column, position and record; nothing is applied", async () => {
    const before = await server.fingerprint("c");
    const good = '{"id":"é","text":"a"}';
    for (const [text, line, column, index] of [
      [`${good}\n\n{"id":}\n${good}`, 3, 7, 1],
      [`${good}\n{"id":"x"`, 2, 10, 1],
      [`${good} ${good}`, 1, 23, 0],
      [`{"vectors":[\n${good}]}`, 1, 13, 0],
    ] as const) {
      const { details, message } = expectError(await sendText(text), 400, "invalid_json");
      const lines = text.split("\n");
      const position = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0) + column - 1;
      expect(details).toEqual({ line, column, position, path: `vectors[${index}]` });
      expect(message).toContain(`line ${line} (vectors[${index}]), column ${column}`);
    }
    expect(await server.fingerprint("c")).toEqual(before);
  });

  test("[H7] bytes that are not UTF-8 are reported with their offset", async () => {
    const body = Buffer.concat([Buffer.from('{"id":"a","text":"b"}\n{"id":"'), Buffer.from([0xff])]);
    const error = expectError(await send("streamingUpsert", c, type, body), 400, "invalid_json");
    expect(error.details.byte_offset).toBe(29);
  });

  test("[H9] numbers of metadata are returned as they were sent", async () => {
    const metadata = '{"a":12345678901234567890,"b":1e999,"c":-0,"d":5.0}';
    expect((await sendText(`{"id":"m","text":"a","metadata":${metadata}}`)).status).toBe(200);
    const { text } = await server.call("getVector", { ...c, vector_id: "m" });
    expect(text).toContain(metadata);
  });
});

describe("[H28] MessagePack over HTTP", () => {
  const type = "application/msgpack";

  test("one array of records is the same as the records", async () => {
    const body = encode([record("array-1"), record("array-2")]);
    expect((await send("streamingUpsert", c, type, body)).status).toBe(200);
    expect((await get("array-2")).id).toBe("array-2");
  });

  test("[H9] integers of 64 bits in metadata are returned as they were sent", async () => {
    const body = encode(
      { id: "big", text: "a", metadata: { n: 18446744073709551615n } },
      { useBigInt64: true },
    );
    expect((await send("streamingUpsert", c, type, body)).status).toBe(200);
    const { text } = await server.call("getVector", { ...c, vector_id: "big" });
    expect(text).toContain('"metadata":{"n":18446744073709551615}');
  });

  test("a body that is not MessagePack is reported with offset and record; nothing is applied", async () => {
    const before = await server.fingerprint("c");
    const whole = Buffer.concat([encode(record("a")), encode(record("b"))]);
    const error = expectError(
      await send("streamingUpsert", c, type, whole.subarray(0, whole.length - 1)),
      400,
      "invalid_msgpack",
    );
    expect(error.details.path).toBe("vectors[1]");
    expect(error.details.byte_offset).toBeGreaterThan(encode(record("a")).length);
    expect(await server.fingerprint("c")).toEqual(before);
  });
});
