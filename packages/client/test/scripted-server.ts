// How does a test get a server that misbehaves on purpose?
//
// It answers the n-th request with the n-th step of its script, over real HTTP, and records what it received. After the end of the script
// it answers 500, which no test expects.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export type Received = { method: string; url: string; headers: IncomingMessage["headers"]; body: string };

export type Step = (request: Received, response: ServerResponse) => void;

/** Answers with JSON. */
export const answer =
  (status: number, body?: unknown, headers: Record<string, string> = {}): Step =>
  (_, response) => {
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(body === undefined ? undefined : JSON.stringify(body));
  };

/** Answers with an error in the interface's shape. */
export const fail = (
  status: number,
  code: string,
  message = code,
  headers: Record<string, string> = {},
): Step => answer(status, { error: { code, message, details: {} } }, headers);

/** Receives the complete request and closes the connection without a response. */
export const hangUp: Step = (_, response) => {
  response.socket?.destroy();
};

/** Never answers. */
export const silence: Step = () => undefined;

export type ScriptedServer = AsyncDisposable & { url: string; port: number; received: Received[] };

export async function scriptedServer(...script: Step[]): Promise<ScriptedServer> {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const one = {
        method: request.method ?? "",
        url: request.url ?? "",
        headers: request.headers,
        body: Buffer.concat(chunks).toString(),
      };
      received.push(one);
      const step = script[received.length - 1] ?? fail(500, "internal", "the script has ended");
      step(one, response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    received,
    [Symbol.asyncDispose]: () => {
      server.closeAllConnections();
      return new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
