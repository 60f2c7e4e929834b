// How does a request that only the owner of the database can answer get there, and its answer back?
//
// The owner listens on a socket without a name in the file system (an abstract one, of Linux) that nobody else is told of, and answers only
// requests that carry the secret of this start. A request is passed on as it is, its body and the answer as streams with back pressure;
// what belongs to a connection is left out (RFC 9110, 7.6.1). The address of the client is added.

import { randomBytes, randomUUID, timingSafeEqual } from "node:crypto";
import {
  Agent,
  type ClientRequest,
  request as httpRequest,
  type IncomingMessage,
  type RequestOptions,
  type ServerResponse,
} from "node:http";
import { request as httpsRequest, Agent as SecureAgent } from "node:https";
import { pipeline } from "node:stream";
import { allOperations } from "@quiverdb/engine/operations/operations";
import { QuiverError } from "@quiverdb/protocol/errors";
import type { Connections } from "../connections.ts";
import { errorAnswer } from "../error-answer.ts";
import { livePath } from "../operations/health.ts";
import { discardRest, inviteBody, isUninvited } from "../request/early-answer.ts";

/** Where the owner listens, and what it asks for. */
export type OwnerSocket = { readonly path: string; readonly secret: string };

const secretHeader = "x-quiver-thread";
const addressHeader = "x-forwarded-for";

export const newOwnerSocket = (): OwnerSocket => ({
  path: `\0quiver-${process.pid}-${randomBytes(8).toString("hex")}`,
  secret: randomBytes(32).toString("hex"),
});

/** The addresses of the clients of forwarded requests. */
const addresses = new WeakMap<IncomingMessage, string>();

/** The address of the other end of a client's connection. */
export const addressOf = (request: IncomingMessage): string =>
  addresses.get(request) ?? request.socket.remoteAddress ?? "unknown";

/** Whether a request comes from a thread of this server; takes what the thread has added out of the headers. */
export function isFromThread(request: IncomingMessage, { secret }: OwnerSocket): boolean {
  const { headers } = request;
  const { [secretHeader]: given, [addressHeader]: address } = headers;
  headers[secretHeader] = undefined;
  headers[addressHeader] = undefined;
  addresses.set(request, String(address));
  return (
    typeof given === "string" &&
    given.length === secret.length &&
    timingSafeEqual(Buffer.from(given), Buffer.from(secret))
  );
}

/** Headers that concern one connection, or that only a proxy in front of the owner may set. */
const ofConnection = new Set([
  "connection",
  "expect",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "forwarded",
  addressHeader,
  "x-forwarded-host",
  "x-forwarded-proto",
  "x-forwarded-port",
  secretHeader,
]);

/** Names and values in turn, without those of the connection. */
function endToEnd(rawHeaders: readonly string[]): string[] {
  const kept: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2)
    if (!ofConnection.has(rawHeaders[i].toLowerCase())) kept.push(rawHeaders[i], rawHeaders[i + 1]);
  return kept;
}

/** Passes a request on, and its answer back. */
export type Forward = (request: IncomingMessage, response: ServerResponse) => void;

const agentOptions = { keepAlive: true, maxSockets: Number.POSITIVE_INFINITY, maxFreeSockets: 64 };

/** Passes requests on to the owner. */
export class Forwarding {
  readonly forward: Forward;
  readonly #agent = new Agent(agentOptions);

  constructor(socket: OwnerSocket, connections: Connections) {
    const to = { socketPath: socket.path, agent: this.#agent, setHost: false };
    this.forward = forwarding({
      open: (options) => httpRequest({ ...options, ...to }),
      added: (request) => [
        addressHeader,
        request.socket.remoteAddress ?? "unknown",
        secretHeader,
        socket.secret,
      ],
      connections,
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}

/**
 * Passes requests on to another server.
 * @param added names and values of headers, in turn
 * @param onUnreachable called when a request could not be passed on
 */
export function forwardingTo(
  url: string,
  added: readonly string[],
  connections: Connections,
  onUnreachable: () => void,
): Forward {
  const { protocol, hostname, port } = new URL(url);
  const isSecure = protocol === "https:";
  const agent = isSecure ? new SecureAgent(agentOptions) : new Agent(agentOptions);
  const to = { hostname, port, agent };
  return forwarding({
    open: (options) => (isSecure ? httpsRequest : httpRequest)({ ...options, ...to }),
    added: () => added,
    connections,
    onUnreachable,
  });
}

type ForwardingParts = {
  open(options: Pick<RequestOptions, "method" | "path" | "headers">): ClientRequest;
  added(request: IncomingMessage): readonly string[];
  readonly connections: Connections;
  onUnreachable?(): void;
};

function forwarding({ open, added, connections, onUnreachable }: ForwardingParts): Forward {
  return (request, response) => {
    connections.begin(response);
    const headers = endToEnd(request.rawHeaders);
    headers.push(...added(request));
    const hasLength = request.headers["content-length"] !== undefined;
    if (!hasLength && request.headers["transfer-encoding"] !== undefined)
      headers.push("transfer-encoding", "chunked");
    const mustAsk = isUninvited(request);
    if (mustAsk) headers.push("expect", "100-continue");
    const onward = open({ method: request.method, path: request.url, headers });
    response.once("close", () => {
      connections.end(response);
      // The client is gone before its answer: the owner stops the work for it.
      if (!response.writableFinished) onward.destroy();
    });
    const onAnswered = () => {
      request.unpipe(onward);
      if (request.complete) request.resume();
      else discardRest(request, response);
    };
    onward.on("error", (error) => {
      // If the answer had begun, its own stream fails.
      if (response.headersSent || response.destroyed) return;
      onUnreachable?.();
      onAnswered();
      refuse(response, error);
    });
    onward.on("response", (answer) => {
      onAnswered();
      response.writeHead(answer.statusCode as number, answer.statusMessage, endToEnd(answer.rawHeaders));
      pipeline(answer, response, (error) => {
        if (error) response.destroy();
        // The owner waits for the rest of the request, which it does not get.
        if (!onward.writableFinished) onward.destroy();
      });
    });
    request.once("error", () => onward.destroy());
    if (mustAsk) {
      onward.once("continue", () => {
        inviteBody(request);
        request.pipe(onward);
      });
      return;
    }
    request.pipe(onward);
    // The headers go with what has arrived of the body. Without it they go alone, because they may be enough for an answer.
    setImmediate(() => {
      if (!request.readableDidRead && !request.complete) onward.flushHeaders();
    });
  };
}

/** The owner could not be reached, or has ended before its answer. */
function refuse(response: ServerResponse, cause: Error): void {
  const error = new QuiverError(
    "not_ready",
    "The server could not execute the request at this moment; whether it has changed anything is not known. Look, or send it again.",
    {},
    { cause },
  );
  const { status, body } = errorAnswer(error, undefined, randomUUID());
  const text = JSON.stringify(body);
  response.writeHead(status, {
    "content-type": "application/json; charset=utf-8",
    "content-length": Buffer.byteLength(text),
    "retry-after": "1",
    "x-content-type-options": "nosniff",
  });
  response.end(text);
}

/** The requests that a serving thread answers itself, by method. */
const own = new Map<string, RegExp>();
const served = allOperations.map(([, operation]) => operation).filter(({ threads }) => threads);
for (const method of new Set(served.map((operation) => operation.method))) {
  const paths = served
    .filter((operation) => operation.method === method)
    .map(({ path }) => path.replaceAll(/\{\w+\}/g, "[^/?#]+"));
  own.set(method, new RegExp(`^(?:${paths.join("|")})(?:\\?|$)`));
}

export function isForThread({ method, url }: IncomingMessage): boolean {
  if (method === "GET") return url === livePath;
  return own.get(method ?? "")?.test(url ?? "") ?? false;
}
