// The tools, called by the SDK's own client: over streamable HTTP with both ways to a database, and over stdio with the command.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { type IncomingMessage, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { connect, type Database, ensureTexts, withEmbeddings } from "@quiverdb/client";
import { open, startServer } from "@quiverdb/database";
import { describe, expect, it } from "vitest";
import { stubModel } from "../../../examples/test/stub-model.ts";
import { overBothDatabases } from "../../client/test/both-databases.ts";
import { embedWords, wordDimension, wordVector } from "../../client/test/word-embeddings.ts";
import { type QuiverMcpOptions, serveHttp } from "./index.ts";

const reading = ["describe_collection", "fetch", "list_collections", "search", "similar"];
const writing = ["delete", "upsert"];

let collections = 0;

async function fill(database: Database, name = `mcp-${collections++}`): Promise<string> {
  const texts = withEmbeddings(await ensureTexts(database, name, { dimension: wordDimension }), embedWords);
  await texts.upsert([
    { id: "bee", text: "bees dance in the hive", metadata: { legs: 6 } },
    { id: "whale", text: "whales sing in the ocean", metadata: { legs: 0 } },
    { id: "spider", text: "spiders weave in the attic", metadata: { legs: 8 } },
  ]);
  return name;
}

/** Calls a tool. @returns its answer, which the text and the structured content give alike; of an error, only the text */
async function call(client: Client, name: string, args: Record<string, unknown> = {}) {
  const answer = await client.callTool({ name, arguments: args });
  const [{ text }] = answer.content as [{ text: string }];
  if (answer.isError === true) return { failed: text };
  expect(JSON.parse(text)).toEqual(answer.structuredContent);
  // biome-ignore lint/suspicious/noExplicitAny: each tool answers something else.
  return answer.structuredContent as any;
}

const toolsOf = async (client: Client) => (await client.listTools()).tools.map(({ name }) => name).sort();
const idsOf = ({ results }: { results: { id: string }[] }) => results.map(({ id }) => id);

async function overHttp(options: QuiverMcpOptions, use: (client: Client, url: string) => Promise<void>) {
  const server = await serveHttp(options, { port: 0 });
  const client = new Client({ name: "test", version: "1" });
  try {
    await client.connect(new StreamableHTTPClientTransport(new URL(server.url)));
    await use(client, server.url);
  } finally {
    await client.close();
    await server.close();
  }
}

overBothDatabases((database) => {
  it("[J3] there are only tools that read, and they find what is stored", async () => {
    const collection = await fill(database());
    await overHttp({ database: database() }, async (client) => {
      expect(await toolsOf(client)).toEqual(reading);
      expect(client.getInstructions()).toContain("Read-only");
      expect(await call(client, "list_collections")).toMatchObject({
        collections: expect.arrayContaining([expect.objectContaining({ name: collection })]),
      });
      const described = await call(client, "describe_collection", { collection });
      expect(described).toMatchObject({ name: collection, vectors_count: 3 });
      expect(Object.keys(described.indexes).sort()).toEqual(["dense", "tf-idf"]);
      expect(described.sample_records).toHaveLength(3);

      const byWords = await call(client, "search", { collection, query_text: "dance", top_k: 1 });
      expect(byWords.results).toMatchObject([
        { id: "bee", text: "bees dance in the hive", metadata: { legs: 6 } },
      ]);
      const query_vector = wordVector("ocean");
      expect(idsOf(await call(client, "search", { collection, query_vector, top_k: 1 }))).toEqual(["whale"]);
      const hybrid = { collection, query_vector, query_text: "weave", top_k: 2, include: [] };
      const both = await call(client, "search", hybrid);
      expect(idsOf(both).sort()).toEqual(["spider", "whale"]);
      expect(both.results[0].text).toBeNull();
      expect(both.results[0].metadata).toBeUndefined();
      const filtered = { collection, query_text: "in the attic hive ocean", filter: { legs: { gt: 6 } } };
      expect(idsOf(await call(client, "search", filtered))).toEqual(["spider"]);
      const like = await call(client, "similar", { collection, positive: ["bee"], top_k: 2 });
      expect(idsOf(like).sort()).toEqual(["spider", "whale"]);
      const { records } = await call(client, "fetch", { collection, ids: ["bee", "unicorn"] });
      expect(records).toMatchObject([{ id: "bee", text: "bees dance in the hive" }, null]);
    });
  });

  it("sparse vectors are searched, too", async () => {
    const name = `mcp-${collections++}`;
    const sparse = await database().createCollection({ name, sparse_vector: { enabled: true } });
    await sparse.createSparseIndex();
    await sparse.upsert([{ id: "a", sparse_values: [[7, 1]] }]);
    await overHttp({ database: database() }, async (client) => {
      const query_terms = [{ index: 7, value: 2 }];
      const { results } = await call(client, "search", { collection: name, query_terms });
      expect(results).toMatchObject([{ id: "a", score: 2 }]);
    });
  });

  it("with an embedding, a text is searched by meaning", async () => {
    const collection = await fill(database());
    await overHttp({ database: database(), embed: embedWords }, async (client) => {
      for (const kind of ["dense", "hybrid"]) {
        const found = await call(client, "search", { collection, kind, query_text: "sing", top_k: 1 });
        expect(idsOf(found)).toEqual(["whale"]);
      }
      const { failed } = await call(client, "search", { collection, kind: "sparse", query_text: "sing" });
      expect(failed).toContain("needs query_terms");
    });
  });

  it("[J3] only with `write` records are written and deleted", async () => {
    const collection = await fill(database());
    await overHttp({ database: database() }, async (client) => {
      const { failed } = await call(client, "upsert", { collection, records: [{ id: "x", text: "x" }] });
      expect(failed).toContain("upsert");
      expect(await database().collection(collection).count()).toBe(3);
    });
    await overHttp({ database: database(), write: true, embed: embedWords }, async (client) => {
      expect(await toolsOf(client)).toEqual([...reading, ...writing].sort());
      const records = [{ id: "ant", text: "ants walk", metadata: { legs: 6 } }];
      expect(await call(client, "upsert", { collection, records })).toEqual({ upserted: 1 });
      const stored = await database().collection(collection).get("ant");
      expect(stored.dense_values).toHaveLength(wordDimension);
      expect(await call(client, "delete", { collection, ids: ["ant", "unicorn"] })).toEqual({ deleted: 1 });
      expect(await call(client, "delete", { collection, filter: { legs: 0 } })).toEqual({ deleted: 1 });
      for (const args of [{}, { ids: ["bee"], filter: { legs: 6 } }])
        expect((await call(client, "delete", { collection, ...args })).failed).toContain("invalid_request");
      expect(await database().collection(collection).count()).toBe(2);
    });
  });

  it("[J3] unknown arguments are refused, and nothing is done", async () => {
    const collection = await fill(database());
    const record = { id: "ant", text: "ants walk" };
    await overHttp({ database: database(), write: true }, async (client) => {
      for (const [tool, args] of [
        ["search", { query_text: "hive", filters: { legs: 8 } }],
        ["similar", { positive: ["bee"], filters: { legs: 8 } }],
        ["fetch", { ids: ["bee"], filters: { legs: 8 } }],
        ["describe_collection", { filters: {} }],
        ["upsert", { records: [record], filters: {} }],
        ["upsert", { records: [{ ...record, filters: {} }] }],
        ["delete", { ids: ["bee"], filters: { legs: 8 } }],
      ] as const)
        expect((await call(client, tool, { collection, ...args })).failed).toContain('"filters"');
      expect((await call(client, "search", { collection })).failed).toContain("query_text, query_vector or");
      expect(await database().collection(collection).count()).toBe(3);
      expect(await call(client, "fetch", { collection, ids: ["bee", "ant"] })).toMatchObject({
        records: [{ id: "bee" }, null],
      });
    });
  });

  it("an error of the database is a result that the model can read", async () => {
    await overHttp({ database: database() }, async (client) => {
      const { failed } = await call(client, "search", { collection: "none", query_text: "x" });
      expect(JSON.parse(failed).error).toMatchObject({ code: "collection_not_found" });
      expect((await call(client, "search", { collection: "none", kind: "dense" })).failed).toContain(
        "query_vector",
      );
      expect((await call(client, "search", { collection: "none", top_k: 1_000 })).failed).toContain("top_k");
    });
  });
});

describe("over HTTP", () => {
  it("[J4] other hosts, pages, methods and wrong tokens are refused", async () => {
    const directory = mkdtempSync(join(tmpdir(), "quiver-mcp-"));
    const database = await open(directory);
    const server = await serveHttp({ database }, { port: 0, token: "secret" });
    const authorization = "Bearer secret";
    const statusOf = async (
      headers: Record<string, string>,
      init: RequestInit = { method: "POST" },
      path = "",
    ) => {
      const accept = "application/json, text/event-stream";
      const all = { "content-type": "application/json", accept, ...headers };
      const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" });
      const sent = init.method === "POST" ? { ...init, body } : init;
      const response = await fetch(server.url + path, { ...sent, headers: all });
      await response.text();
      return response.status;
    };
    expect(await statusOf({ authorization })).toBe(200);
    expect(await statusOf({ authorization, origin: "http://localhost:3000" })).toBe(200);
    expect(await statusOf({})).toBe(401);
    expect(await statusOf({ authorization: "Bearer secreT" })).toBe(401);
    expect(await statusOf({ authorization, origin: "https://evil.example" })).toBe(403);
    // fetch does not let a program choose this header.
    const rebound = request(server.url, { method: "POST", headers: { authorization, host: "evil.example" } });
    const [response] = (await once(rebound.end(), "response")) as [IncomingMessage];
    expect(response.resume().statusCode).toBe(403);
    expect(await statusOf({ authorization }, { method: "GET" })).toBe(405);
    expect(await statusOf({ authorization }, { method: "POST" }, "/other")).toBe(404);
    await expect(serveHttp({ database }, { port: 0, host: "0.0.0.0" })).rejects.toThrow("needs a token");
    await server.close();
    await database.close();
    rmSync(directory, { recursive: true });
  });
});

const main = join(import.meta.dirname, "main.ts");

it("the command serves HTTP with --http, and ends on SIGTERM; --embeddings-url embeds queries", async () => {
  const directory = mkdtempSync(join(tmpdir(), "quiver-mcp-"));
  const database = await open(directory);
  const collection = await fill(database);
  await database.close();
  await using model = await stubModel();
  const embeddings = ["--embeddings-url", model.url, "--embeddings-model", "words"];
  const args = [main, "--data-dir", directory, "--http", "0", ...embeddings];
  const env = { ...process.env, QUIVER_MCP_TOKEN: "secret" };
  const command = spawn(process.execPath, args, { env, stdio: ["ignore", "ignore", "pipe"] });
  const ended = once(command, "close");
  const [line] = (await once(createInterface({ input: command.stderr }), "line")) as [string];
  const url = new URL(/http\S+/.exec(line)?.[0] ?? "");
  const client = new Client({ name: "test", version: "1" });
  const requestInit = { headers: { authorization: "Bearer secret" } };
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit }));
  const found = await call(client, "search", { collection, kind: "dense", query_text: "ocean", top_k: 1 });
  expect(idsOf(found)).toEqual(["whale"]);
  expect(model.embedded).toEqual(["ocean"]);
  await client.close();
  command.kill("SIGTERM");
  expect((await ended)[0]).toBe(0);
  const again = await open(directory, { lockWaitMs: 0 });
  await again.close();
  rmSync(directory, { recursive: true });
});

describe("over stdio", () => {
  const connectTo = async (...args: string[]) => {
    const client = new Client({ name: "test", version: "1" });
    await client.connect(new StdioClientTransport({ command: process.execPath, args: [main, ...args] }));
    return client;
  };

  it("the command serves the database of a server, and with --write changes it", async () => {
    const dataDir = mkdtempSync(join(tmpdir(), "quiver-mcp-"));
    const server = await startServer({ dataDir, port: 0, adminKey: "the-admin-key", logLevel: "silent" });
    const collection = await fill(connect(server.url, { apiKey: "the-admin-key" }));
    const client = await connectTo("--url", server.url, "--api-key", "the-admin-key");
    expect(await toolsOf(client)).toEqual(reading);
    expect(idsOf(await call(client, "search", { collection, query_text: "dance", top_k: 1 }))).toEqual([
      "bee",
    ]);
    await client.close();
    const writer = await connectTo("--url", server.url, "--api-key", "the-admin-key", "--write");
    expect(await call(writer, "delete", { collection, ids: ["bee"] })).toEqual({ deleted: 1 });
    await writer.close();
    const unauthorized = await connectTo("--url", server.url, "--api-key", "wrong");
    expect((await call(unauthorized, "list_collections")).failed).toContain("unauthorized");
    await unauthorized.close();
    await server.close();
    rmSync(dataDir, { recursive: true });
  });

  it("the command serves a directory, and releases it when the client has gone", async () => {
    const directory = mkdtempSync(join(tmpdir(), "quiver-mcp-"));
    const database = await open(directory);
    const collection = await fill(database);
    await database.close();
    const client = await connectTo("--data-dir", directory);
    expect(idsOf(await call(client, "search", { collection, query_text: "sing", top_k: 1 }))).toEqual([
      "whale",
    ]);
    await client.close();
    const again = await open(directory);
    expect(await again.collection(collection).count()).toBe(3);
    await again.close();
    rmSync(directory, { recursive: true });
  });

  it("--data-dir says what it needs where @quiverdb/database is not installed, or Node.js is too old for it", () => {
    const runAfter = (setUp: string) =>
      spawnSync(
        process.execPath,
        ["--import", `data:text/javascript,${encodeURIComponent(setUp)}`, main, "--data-dir", "d"],
        { encoding: "utf8" },
      );
    const absent = runAfter(`
      import { registerHooks } from "node:module";
      registerHooks({
        resolve: (specifier, context, next) =>
          next(specifier === "@quiverdb/database" ? "@quiverdb/database-that-is-absent" : specifier, context),
      });`);
    expect(absent).toMatchObject({ status: 1, stdout: "" });
    expect(absent.stderr).toMatch(/^quiver-mcp: --data-dir .* is not installed.* --url\.\n$/);
    const old = runAfter('Object.defineProperty(process.versions, "node", { value: "20.19.0" });');
    expect(old).toMatchObject({ status: 1, stdout: "" });
    expect(old.stderr).toMatch(/^quiver-mcp: --data-dir .* needs Node\.js 24 or newer; this is 20\.19\.0\./);
  });

  it("wrong options end the command with what is wrong", async () => {
    const run = (...args: string[]) => spawnSync(process.execPath, [main, ...args], { encoding: "utf8" });
    expect(run("--unknown")).toMatchObject({ status: 2, stdout: "" });
    expect(run("--http", "x").stderr).toContain("expected a port");
    expect(run("--data-dir", "d", "--url", "http://127.0.0.1:1").stderr).toContain("leave out --url");
    expect(run("--embeddings-model", "m").stderr).toContain("belong together");
    expect(run("--embeddings-key", "k").stderr).toContain("belong together");
    expect(run("--token", "t").stderr).toContain("--http");
    expect(run("--http", "0", "--host", "0.0.0.0")).toMatchObject({ status: 1 });
    expect(run("--version").stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
    expect(run("--help").stdout).toContain("--write");
  });
});
