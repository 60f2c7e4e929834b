// How does the MCP server talk over HTTP?
//
// Streamable HTTP at `/mcp`, without sessions: each POST has a server of its own, so any number of processes may answer. There are no streams
// of the server's own, so GET and DELETE are refused. A page of a browser cannot use it (the Host and Origin headers are checked against
// DNS rebinding), and with a token every request must carry it.

import { timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { QuiverError } from "@quiverdb/client";
import { createMcpServer, type QuiverMcpOptions } from "./server.ts";

/** Where the tools are served. */
export type HttpOptions = {
  /** 0: any that is free. */
  port: number;
  /** Default 127.0.0.1. Another one needs a token. */
  host?: string;
  /** What requests must carry as `Authorization: Bearer`. Default: none. */
  token?: string;
};

/** A server of the tools. */
export type HttpServer = {
  /** Its address, with the path of the protocol. */
  readonly url: string;
  /** Ends it, and the sessions of its clients. */
  close(): Promise<void>;
};

const path = "/mcp";
const loopback = new Set(["127.0.0.1", "localhost", "::1"]);

/**
 * Serves the tools over HTTP. Resolves when requests are accepted.
 * @throws QuiverError invalid_request for an open address without a token
 *
 * @example
 * ```ts no-run
 * import { connect } from "@quiverdb/client";
 * import { serveHttp } from "@quiverdb/mcp";
 * const database = connect("http://127.0.0.1:8443", { apiKey: process.env.QUIVER_API_KEY });
 * const server = await serveHttp({ database }, { port: 8444 });
 * console.log(server.url); // http://127.0.0.1:8444/mcp
 * await server.close();
 * ```
 */
export async function serveHttp(options: QuiverMcpOptions, http: HttpOptions): Promise<HttpServer> {
  const { port, host = "127.0.0.1", token } = http;
  if (!loopback.has(host) && token === undefined) {
    throw new QuiverError(
      "invalid_request",
      `${host} can be reached from other machines, so it needs a token; or listen on 127.0.0.1.`,
    );
  }
  const server = createServer((request, response) => {
    const refusal = refusalOf(request, loopback.has(host), token);
    if (refusal === undefined) {
      answer(options, request, response).catch((error: unknown) => fail(response, error));
    } else refuse(response, ...refusal);
  });
  server.listen(port, host);
  await once(server, "listening");
  const { address, family, port: actual } = server.address() as AddressInfo;
  return {
    url: `http://${family === "IPv6" ? `[${address}]` : address}:${actual}${path}`,
    async close() {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

async function answer(
  options: QuiverMcpOptions,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const server = createMcpServer(options);
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
  response.once("close", () => void server.close().catch((error: unknown) => fail(response, error)));
  await server.connect(transport);
  await transport.handleRequest(request, response);
}

type Refusal = [status: number, message: string];

function refusalOf(
  request: IncomingMessage,
  isLocal: boolean,
  token: string | undefined,
): Refusal | undefined {
  const { method, headers } = request;
  if (new URL(request.url ?? "/", "http://host").pathname !== path) return [404, `The endpoint is ${path}.`];
  if (isLocal && !loopback.has(hostName(headers.host)))
    return [403, "The Host header is not that of this machine."];
  if (headers.origin !== undefined && !loopback.has(hostName(headers.origin.replace(/^\w+:\/\//, ""))))
    return [403, "Pages of other hosts may not use this server."];
  if (token !== undefined && !isToken(headers.authorization, token))
    return [401, "Authorization: Bearer with the token of this server is missing or wrong."];
  if (method !== "POST") return [405, "Without sessions, only POST is supported."];
  return undefined;
}

/** The name in `name:port`, or of an IPv6 address in brackets. */
function hostName(host = ""): string {
  return host.replace(/:\d+$/, "").replace(/^\[|\]$/g, "");
}

function isToken(authorization: string | undefined, token: string): boolean {
  const given = Buffer.from(authorization ?? "");
  const wanted = Buffer.from(`Bearer ${token}`);
  return given.length === wanted.length && timingSafeEqual(given, wanted);
}

/** In the form of JSON-RPC, as clients expect it. */
function refuse(response: ServerResponse, status: number, message: string): void {
  const headers = { "content-type": "application/json", ...(status === 405 && { allow: "POST" }) };
  const error = { jsonrpc: "2.0", error: { code: -32000, message }, id: null };
  response.writeHead(status, headers).end(JSON.stringify(error));
}

function fail(response: ServerResponse, error: unknown): void {
  process.stderr.write(`${error instanceof Error ? error.stack : error}\n`);
  if (response.headersSent) response.end();
  else refuse(response, 500, "The request failed; the log says why.");
}
