// How does a test start a real server on a real store, and send requests to it?

import { mkdtemp, rm } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Operation, type OperationName, operations } from "@quiverdb/engine/operations/operations";
import type { ErrorBody, ErrorCode } from "@quiverdb/protocol/errors";
import { pino } from "pino";
import { expect } from "vitest";
import type { ServerConfig } from "../src/config.ts";
import type { RunningServer } from "../src/running-server.ts";
import { startServer } from "../src/server.ts";
import { endNodes, inCluster, startNodes } from "./nodes.ts";

export const adminKey = "test-admin-key";

export type Answer = {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** Parsed body; undefined if there is none. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
  readonly json: any;
};

export type Ask = {
  method?: string;
  /** Sent as JSON. */
  body?: unknown;
  /** Sent unchanged. */
  raw?: string | Uint8Array<ArrayBuffer>;
  headers?: Record<string, string | undefined>;
  key?: string | null;
};

export type TestServer = RunningServer & {
  readonly dataDir: string;
  /** Log lines as objects. */
  readonly log: Record<string, unknown>[];
  /** The complete raw log. */
  logText(): string;
  ask(path: string, ask?: Ask): Promise<Answer>;
  /** Calls an endpoint of the list by its name. `query` starts with `?`. */
  call(name: OperationName, params?: Record<string, string>, body?: unknown, query?: string): Promise<Answer>;
  /** A collection of this name, with all three kinds and their indexes. Dimension 4 by default. */
  makeCollection(name: string, options?: CollectionOptions): Promise<void>;
  /** What a rejected request must not change: version, listing, records. */
  fingerprint(name: string): Promise<unknown>;
  connect(): Promise<Socket>;
  /** Closes and removes the data. */
  end(): Promise<void>;
};

export type CollectionOptions = {
  dimension?: number;
  indexes?: boolean;
  maxVectors?: number | null;
  storeRawText?: boolean;
};

export async function startTestServer(config: Partial<ServerConfig> = {}): Promise<TestServer> {
  const dataDir = config.dataDir ?? (await mkdtemp(join(tmpdir(), "quiver-server-")));
  const lines: string[] = [];
  const logger = pino({ level: "trace" }, { write: (line: string) => void lines.push(line) });
  // All tests of a file use one address; the tests of the limit set it.
  const authFailuresMax = 1_000_000;
  const servingThreads =
    config.clock === undefined ? Number(process.env.QUIVER_TEST_SERVING_THREADS ?? 0) : 0;
  const isNodes = inCluster && config.clock === undefined;
  const server = await (isNodes ? startNodes : startServer)({
    port: 0,
    dataDir,
    adminKey,
    authFailuresMax,
    servingThreads,
    logger,
    ...config,
  });

  const urls = "urls" in server ? (server.urls as string[]) : [server.url];
  let asked = 0;
  let position: string | undefined;
  const ask = async (path: string, { method, body, raw, headers = {}, key = adminKey }: Ask = {}) => {
    const sent = new Headers({ "content-type": "application/json" });
    if (key !== null) sent.set("authorization", `Bearer ${key}`);
    for (const [name, value] of Object.entries(headers)) {
      if (value === undefined) sent.delete(name);
      else sent.set(name, value);
    }
    const content = raw ?? (body === undefined ? undefined : JSON.stringify(body));
    // A cluster is read where it was not written.
    if (position !== undefined) sent.set("x-quiver-position", position);
    const response = await fetch(`${urls[asked++ % urls.length]}${path}`, {
      method: method ?? (content === undefined ? "GET" : "POST"),
      headers: sent,
      body: content,
      redirect: "manual",
    });
    position = later(position, response.headers.get("x-quiver-position"));
    const text = await response.text();
    const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
    return {
      status: response.status,
      headers: response.headers,
      text,
      json: isJson && text !== "" ? JSON.parse(text) : undefined,
    };
  };

  const call: TestServer["call"] = (name, params = {}, body, query = "") => {
    const route: Operation = operations[name];
    return ask(`${pathOf(name, params)}${query}`, { method: route.method, body });
  };

  return {
    ...server,
    dataDir,
    get log() {
      return lines.map((line) => JSON.parse(line));
    },
    logText: () => lines.join(""),
    ask,
    call,
    async makeCollection(
      name,
      { dimension = 4, indexes = true, maxVectors = null, storeRawText = true } = {},
    ) {
      const created = await call(
        "createCollection",
        {},
        {
          ...collectionBody(name, dimension),
          config: { max_vectors: maxVectors },
          store_raw_text: storeRawText,
        },
      );
      expect(created.status, created.text).toBe(201);
      if (!indexes) return;
      for (const [route, body] of Object.entries(indexBodies)) {
        const made = await call(route as OperationName, { collection_id: name }, body);
        expect(made.status, made.text).toBe(201);
      }
    },
    async fingerprint(name) {
      const collection_id = name;
      const version = (await call("currentVersion", { collection_id })).json;
      const detail = (await call("getCollection", { collection_id })).json;
      const listed = (await call("listTransactions", { collection_id })).text;
      // When each node had indexed a transaction is its own.
      const transactions = JSON.parse(
        inCluster
          ? listed.replaceAll(/"(completed_at|average_throughput|processing_time_seconds)":[^,}]+/g, '"$1":0')
          : listed,
      );
      const collections = (await call("listCollections")).json;
      // Their status changes in the background: building goes on, and recall is measured again.
      const found = Object.entries((await call("getIndexes", { collection_id })).json);
      const indexes = found.map(([kind, index]) => ({ kind, ...(index as object), status: undefined }));
      // Files differ from node to node.
      const local = { loaded: undefined, ...(inCluster && { disk_bytes: undefined }) };
      return { version, detail: { ...detail, ...local }, transactions, collections, indexes };
    },
    connect: () =>
      new Promise((resolve, reject) => {
        const socket = connect(server.port, "127.0.0.1", () => resolve(socket));
        socket.once("error", reject);
      }),
    async end() {
      await server.close();
      await endNodes(dataDir);
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

/** The later of two positions, part by part. */
function later(a: string | undefined, b: string | null): string | undefined {
  const parts = new Map<string, number>();
  for (const part of [a ?? "", b ?? ""].join(",").split(",").filter(Boolean)) {
    const [, name, at] = /^(c|\d+-)(\d+)$/.exec(part) ?? [];
    if (name !== undefined) parts.set(name, Math.max(parts.get(name) ?? 0, Number(at)));
  }
  return parts.size === 0 ? undefined : Array.from(parts, ([name, at]) => `${name}${at}`).join(",");
}

/** Path of an endpoint with its parameters percent-encoded. */
export function pathOf(name: OperationName, params: Record<string, string> = {}): string {
  return operations[name].path.replaceAll(/\{(\w+)\}/g, (_, parameter: string) => {
    return encodeURIComponent(params[parameter] ?? "missing");
  });
}

export const collectionBody = (name: string, dimension = 4) => ({
  name,
  dense_vector: { enabled: true, dimension },
  sparse_vector: { enabled: true },
  tf_idf_options: { enabled: true },
  config: {},
});

export const denseIndexBody = {
  name: "dense",
  distance_metric_type: "cosine",
  quantization: { type: "auto", properties: { sample_threshold: 100 } },
  index: { type: "hnsw", properties: {} },
};
export const sparseIndexBody = { name: "sparse", quantization: 64, sample_threshold: 100 };
export const textIndexBody = { name: "text", sample_threshold: 100, k1: 1.2, b: 0.75 };

const indexBodies = {
  createDenseIndex: denseIndexBody,
  createSparseIndex: sparseIndexBody,
  createTextIndex: textIndexBody,
};

/** A record with every field. */
export const record = (id: string, seed = 1) => ({
  id,
  document_id: `doc-${id}`,
  dense_values: [seed, 1, 0, 0.5],
  sparse_indices: [1, 5],
  sparse_values: [seed, 0.5],
  text: `the quick fox number ${seed}`,
  metadata: { seed },
});

/** Asserts an error response of the usual shape. */
export function expectError(answer: Answer, status: number, code?: ErrorCode): ErrorBody["error"] {
  expect(answer.status, answer.text).toBe(status);
  expect(answer.headers.get("content-type")).toBe("application/json; charset=utf-8");
  const { error } = answer.json as ErrorBody;
  expect(typeof error.message).toBe("string");
  expect(error.details).toBeTypeOf("object");
  if (code !== undefined) expect(error.code, answer.text).toBe(code);
  return error;
}

export type RawAnswer = { status: number; head: string; body: string };

/** Reads one HTTP answer from a socket; resolves with undefined when the socket ends without one. */
export function readAnswer(socket: Socket): Promise<RawAnswer | undefined> {
  return new Promise((resolve, reject) => {
    let received = "";
    const finish = (answer: RawAnswer | undefined) => {
      socket.off("data", onData).off("close", onClose).off("error", onError);
      resolve(answer);
    };
    const onData = (chunk: Buffer) => {
      received += chunk.toString("latin1");
      const headEnd = received.indexOf("\r\n\r\n");
      if (headEnd < 0) return;
      const head = received.slice(0, headEnd);
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
      const body = Buffer.from(received.slice(headEnd + 4), "latin1");
      if (body.length < length) return;
      const status = Number(head.slice(9, 12));
      finish({ status, head, body: body.subarray(0, length).toString("utf8") });
    };
    const onClose = () => finish(undefined);
    const onError = (error: Error & { code?: string }) =>
      error.code === "ECONNRESET" || error.code === "EPIPE" ? finish(undefined) : reject(error);
    socket.on("data", onData).on("close", onClose).on("error", onError);
  });
}

/** Head of a raw request with the key. */
export const rawHead = (method: string, path: string, headers: Record<string, string | number> = {}) =>
  [
    `${method} ${path} HTTP/1.1`,
    "Host: test",
    `Authorization: Bearer ${adminKey}`,
    "Content-Type: application/json",
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    "",
    "",
  ].join("\r\n");
