#!/usr/bin/env node
// npx @quiverdb/mcp: what is the command, and which database does it serve?
//
// Over stdio, standard output is the protocol; messages go to standard error.

import { parseArgs } from "node:util";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { connect, type Database, isQuiverError, openAiEmbeddings, QuiverError } from "@quiverdb/client";
import { serveHttp } from "./http.ts";
import { createMcpServer } from "./server.ts";
import { version } from "./version.ts";

const help = `npx @quiverdb/mcp [options]: the tools of a Quiver database for language models, by the Model Context Protocol

  --url URL               address of a server; default QUIVER_URL, or http://127.0.0.1:8443
  --api-key KEY           its API key; default QUIVER_API_KEY
  --data-dir DIR          instead of a server: a directory, opened in this process (Node.js 24 or newer)
  --force                 uses the directory also if it has other files, and none of Quiver
  --write                 adds the tools upsert and delete; without it, nothing can be changed
  --http PORT             streamable HTTP at http://127.0.0.1:PORT/mcp instead of stdio; 0 for any free port
  --host HOST             listens there; another host than 127.0.0.1 needs a token
  --token TOKEN           what requests over HTTP must carry; default QUIVER_MCP_TOKEN
  --embeddings-url URL    an OpenAI-compatible endpoint that embeds texts, such as http://127.0.0.1:11434/v1
  --embeddings-model NAME its model: the one that the collections were filled with
  --embeddings-key KEY    its key; default QUIVER_EMBEDDINGS_KEY
  --version, --help
`;

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      url: { type: "string" },
      "api-key": { type: "string" },
      "data-dir": { type: "string" },
      force: { type: "boolean" },
      write: { type: "boolean" },
      http: { type: "string" },
      host: { type: "string" },
      token: { type: "string" },
      "embeddings-url": { type: "string" },
      "embeddings-model": { type: "string" },
      "embeddings-key": { type: "string" },
      version: { type: "boolean" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help === true) return void process.stdout.write(help);
  if (values.version === true) return void process.stdout.write(`${version}\n`);
  const embed = embeddingsOf(values);
  const port = values.http === undefined ? undefined : portOf(values.http);
  if (port === undefined && (values.host !== undefined || values.token !== undefined))
    throw new QuiverError("invalid_request", "--host and --token are for HTTP, which --http begins.");
  const database = await databaseOf(values);
  const options = { database, write: values.write ?? false, embed };
  let closeServer: () => Promise<void>;
  if (port === undefined) {
    const server = createMcpServer(options);
    const transport = new StdioServerTransport();
    await server.connect(transport);
    closeServer = () => server.close();
    // The client has gone when it closes standard input.
    process.stdin.once("end", () => void end());
    process.stdin.once("close", () => void end());
  } else {
    const { host, token = process.env.QUIVER_MCP_TOKEN } = values;
    const server = await serveHttp(options, { port, host, token });
    process.stderr.write(`quiver-mcp: ${server.url}\n`);
    closeServer = () => server.close();
  }
  let ending: Promise<void> | undefined;
  const end = () => {
    ending ??= closeServer()
      .then(() => database.close())
      .then(() => process.exit(0), fail);
    return ending;
  };
  process.once("SIGTERM", () => void end());
  process.once("SIGINT", () => void end());
}

type Values = { readonly [name in string]?: string | boolean };

async function databaseOf(values: Values): Promise<Database> {
  const directory = values["data-dir"] as string | undefined;
  if (directory === undefined) {
    const url = (values.url ?? process.env.QUIVER_URL ?? "http://127.0.0.1:8443") as string;
    return connect(url, { apiKey: (values["api-key"] ?? process.env.QUIVER_API_KEY) as string | undefined });
  }
  if (values.url !== undefined || values["api-key"] !== undefined)
    throw new QuiverError(
      "invalid_request",
      "--data-dir does without a server: leave out --url and --api-key.",
    );
  const { node } = process.versions;
  if (Number.parseInt(node, 10) < 24)
    throw new QuiverError(
      "invalid_request",
      `--data-dir opens a directory in this process, which needs Node.js 24 or newer; this is ${node}. Use a newer one, or name a server with --url.`,
    );
  const { open } = await import("@quiverdb/database").catch((error) => {
    if (error?.code !== "ERR_MODULE_NOT_FOUND" || !error.message.includes("'@quiverdb/database")) throw error;
    throw new QuiverError(
      "invalid_request",
      "--data-dir opens a directory in this process with the package @quiverdb/database, which is not installed: installations with an older Node.js, or without optional dependencies, leave it out. Install it beside @quiverdb/mcp, or name a server with --url.",
    );
  });
  return open(directory, { force: values.force === true });
}

function embeddingsOf(values: Values) {
  const { "embeddings-url": url, "embeddings-model": model, "embeddings-key": key } = values;
  if (url === undefined && model === undefined && key === undefined) return undefined;
  if (url === undefined || model === undefined)
    throw new QuiverError("invalid_request", "--embeddings-url and --embeddings-model belong together.");
  const apiKey = (key ?? process.env.QUIVER_EMBEDDINGS_KEY) as string | undefined;
  return openAiEmbeddings({ url: url as string, model: model as string, apiKey });
}

function portOf(text: string): number {
  const port = Number(text);
  if (/^\d+$/.test(text) && port <= 65_535) return port;
  throw new QuiverError("invalid_request", `--http is ${text}, expected a port from 0 to 65535.`);
}

function fail(error: unknown): void {
  const isUsage =
    (error as { code?: unknown } | null)?.code?.toString().startsWith("ERR_PARSE_ARGS") === true;
  const text =
    isQuiverError(error) || isUsage ? (error as Error).message : ((error as Error)?.stack ?? error);
  process.stderr.write(`quiver-mcp: ${text}\n`);
  // A database in this process has threads, which would keep it alive.
  process.exit(isUsage ? 2 : 1);
}

await main().catch(fail);
