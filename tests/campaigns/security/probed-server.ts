// How does a probe use a real server and inspect all its output?
//
// Every response and every log line is searched for forbidden contents as it arrives.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { type Operation, type OperationName, operations } from "@quiverdb/engine/operations/operations";
import type { ServerConfig } from "@quiverdb/server/config";
import type { RunningServer } from "@quiverdb/server/running-server";
import { startServer } from "@quiverdb/server/server";
import { pino } from "pino";

const adminKey = "campaign-admin-key-3f9c";
const project = resolve(import.meta.dirname, "../../..");

export type Answer = { readonly status: number; readonly text: string };

export type Ask = {
  readonly method?: string;
  /** A value, sent as JSON, or the text of a body. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly key?: string | null;
};

export type ProbedServer = {
  readonly server: RunningServer;
  /** Requests that were sent. */
  readonly asked: number;
  /** Adds a text that must not appear in any answer or log line from now on. */
  keepSecret(secret: string): void;
  ask(path: string, ask?: Ask): Promise<Answer>;
  /** @param query begins with `?` */
  call(
    name: OperationName,
    params?: Record<string, string>,
    body?: unknown,
    key?: string,
    query?: string,
  ): Promise<Answer>;
  end(): Promise<void>;
};

/** A line of a stack trace, a path of this machine, a source file. The patterns do not backtrack, because the searched text is hostile. */
const traces = [/\n[ \t]+at /, /\\n[ \t]+at /, /node_modules/, /\bnode:internal/, /\.(?:ts|mjs|js):\d/];

/** @throws Error if a response or a log line has forbidden contents */
export async function probeServer(config: Partial<ServerConfig> = {}): Promise<ProbedServer> {
  const folder = await mkdtemp(join(tmpdir(), "quiver-security-"));
  const dataDir = join(folder, "data");
  const secrets = [adminKey];
  let asked = 0;
  let broken: Error | undefined;
  const search = (where: string, text: string, isLog: boolean) => {
    const secret = secrets.find((each) => text.includes(each));
    // The log has the details of unexpected errors, and the data directory at startup; responses have neither.
    const path = isLog ? undefined : [dataDir, project].find((each) => text.includes(each));
    const trace = isLog ? undefined : traces.find((each) => each.test(text));
    const found = secret ?? path ?? trace;
    if (found !== undefined) broken ??= new Error(`${where} has ${found}: ${text.slice(0, 600)}`);
  };
  const logger = pino({ level: "trace" }, { write: (line: string) => search("a log line", line, true) });
  const server = await startServer({ dataDir, port: 0, adminKey, logger, authFailuresMax: 1e9, ...config });

  const ask: ProbedServer["ask"] = async (path, { method, body, headers = {}, key = adminKey } = {}) => {
    const content = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
    asked++;
    const response = await fetch(`${server.url}${path}`, {
      method: method ?? (content === undefined ? "GET" : "POST"),
      headers: {
        "content-type": "application/json",
        ...(key === null ? {} : { authorization: `Bearer ${key}` }),
        ...headers,
      },
      body: content,
      redirect: "manual",
    });
    const text = await response.text();
    if (!path.startsWith("/docs")) search(`the answer to ${method ?? ""} ${path.slice(0, 200)}`, text, false);
    if (broken) throw broken;
    return { status: response.status, text };
  };
  return {
    server,
    get asked() {
      return asked;
    },
    keepSecret: (secret) => void secrets.push(secret),
    ask,
    call(name, params = {}, body, key, query = "") {
      const { path, method }: Operation = operations[name];
      const filled = path.replaceAll(/\{(\w+)\}/g, (_, parameter: string) =>
        encodeURIComponent(params[parameter] ?? "x"),
      );
      return ask(`${filled}${query}`, { method, body, key });
    },
    async end() {
      await server.close();
      await rm(folder, { recursive: true, force: true });
      if (broken) throw broken;
    },
  };
}

export const collectionBody = (name: unknown) => ({
  name,
  dense_vector: { enabled: true, dimension: 2 },
  sparse_vector: { enabled: true },
  tf_idf_options: { enabled: true },
  config: {},
  store_raw_text: true,
});

/** A valid body for each route, for a collection that was created with `collectionBody`. */
export const bodies: Partial<Record<OperationName, unknown>> = {
  createCollection: collectionBody("made"),
  patchCollection: { config: { history: null } },
  copyCollection: { name: "copied" },
  mergeCollection: { from: "copied" },
  putAlias: { collection: "c" },
  putCurrentVersion: { version: 0 },
  putTag: { version: 0 },
  createDenseIndex: {
    name: "dense",
    distance_metric_type: "cosine",
    quantization: { type: "scalar", properties: { data_type: "u8", range: { min: -1, max: 1 } } },
    index: { type: "hnsw", properties: {} },
  },
  createSparseIndex: { name: "sparse", quantization: 64, sample_threshold: 100 },
  createTextIndex: { name: "text", sample_threshold: 100, k1: 1.2, b: 0.75, stop_words: ["the"] },
  analyzeText: { text: "some words" },
  searchDense: { query_vector: [1, 0] },
  searchBatchDense: { queries: [{ vector: [1, 0] }] },
  recommend: { positive: [[1, 0]] },
  searchSparse: { query_terms: [{ index: 1, value: 1 }] },
  searchBatchSparse: { query_terms_list: [[{ index: 1, value: 1 }]] },
  searchText: { query: "some words" },
  searchBatchText: { queries: ["some words"] },
  searchHybrid: { query_vector: [1, 0], query_text: "some words" },
  searchBatchHybrid: { queries: [{ query_vector: [1, 0], query_text: "some words" }] },
  addVector: { id: "v", dense_values: [1, 0], metadata: { a: { b: 1 } } },
  upsertVectors: { vectors: [{ id: "v", dense_values: [1, 0], metadata: { a: { b: 1 } } }] },
  streamingUpsert: { vectors: [{ id: "v", dense_values: [1, 0], text: "w", metadata: { a: { b: 1 } } }] },
  createMetadataIndex: { type: "keyword" },
  countVectors: { filter: { color: "red" } },
  facetVectors: { field: "color" },
  scrollVectors: { filter: { color: "red" } },
  fetchVectors: { ids: ["v"] },
  deleteMatching: { filter: { color: "red" } },
  updateMatching: { filter: { color: "red" }, metadata: { a: { b: 2 } } },
  patchVector: { metadata: { a: { b: 2 } } },
  createSnapshot: {},
  restoreCollection: { snapshots: ["none"] },
  createSession: { username: "admin", password: "not-it" },
  createKey: { name: "k", role: "read", collections: ["c"] },
};
