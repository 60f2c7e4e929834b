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

/** Another server that requests are passed on to. */
export type Target = Pick<ForwardingParts, "open"> & {
  /** Whether it may be paused, or dead. */
  isSilent(): boolean;
  /** Whether it is waited for. */
  isLiving(): boolean;
  /** A request could not be passed on, or was not answered in silence. */
  onUnreachable(): void;
};

export function targetAt(url: string, rest: Omit<Target, "open">): Target {
  const { protocol, hostname, port } = new URL(url);
  const isSecure = protocol === "https:";
  const agent = isSecure ? new SecureAgent(agentOptions) : new Agent(agentOptions);
  const to = { hostname, port, agent };
  return { open: (options) => (isSecure ? httpsRequest : httpRequest)({ ...options, ...to }), ...rest };
}

/** Requests with longer bodies are passed on while they arrive, to one server. */
const heldBytesMax = 2 ** 20;
/** How often it is looked whether a server that was asked is silent, or no longer lives. */
const lookMs = 500;

/**
 * Passes a request on to the first of some servers that answers: one that cannot be reached is followed by the next, and if the request only
 * reads, so is one that is silent. A server that no longer lives is not waited for.
 * @param added names and values of headers, in turn
 */
export function passOn(
  request: IncomingMessage,
  response: ServerResponse,
  targets: readonly Target[],
  added: readonly string[],
  connections: Connections,
): void {
  const { "content-length": length, "transfer-encoding": coding } = request.headers;
  const isHeld = Number(length ?? 0) <= heldBytesMax && coding === undefined && !isUninvited(request);
  if (!isHeld) {
    forwarding({ ...targets[0], added: () => added, connections })(request, response);
    return;
  }
  connections.begin(response);
  const pieces: Buffer[] = [];
  const left = [...targets];
  const running = new Map<ClientRequest, Target>();
  const isReading = reads(request);
  let timer: NodeJS.Timeout | undefined;
  let isAnswered = false;
  const ask = (): void => {
    const target = left.shift() as Target;
    const headers = [...endToEnd(request.rawHeaders), ...added];
    const onward = target.open({ method: request.method, path: request.url, headers });
    running.set(onward, target);
    onward.on("response", (answer) => {
      if (isAnswered) return;
      isAnswered = true;
      clearInterval(timer);
      for (const [other, silent] of running) {
        if (other === onward) continue;
        silent.onUnreachable();
        other.destroy();
      }
      passBack(answer, response, onward);
    });
    onward.on("error", (error: NodeJS.ErrnoException) => {
      running.delete(onward);
      if (isAnswered || response.destroyed) return;
      target.onUnreachable();
      const isUnsent = error.code === "ECONNREFUSED";
      if (left.length > 0 && (isReading || isUnsent)) ask();
      else if (running.size === 0) {
        clearInterval(timer);
        refuse(response, error);
      }
    });
    onward.end(pieces.length > 0 ? Buffer.concat(pieces) : undefined);
  };
  response.once("close", () => {
    connections.end(response);
    clearInterval(timer);
    if (!response.writableFinished) for (const onward of running.keys()) onward.destroy();
  });
  request.on("data", (piece: Buffer) => pieces.push(piece));
  request.once("end", () => {
    if (response.destroyed) return;
    ask();
    timer = setInterval(() => {
      const asked = [...running];
      // A busy server is waited for: asking more of them would make all busier.
      if (isReading && left.length > 0 && asked.every(([, target]) => target.isSilent())) ask();
      for (const [onward, target] of asked) if (!target.isLiving()) onward.destroy(gone());
    }, lookMs);
  });
}

const gone = (): Error => new Error("the server that the request was passed on to is gone");

type ForwardingParts = {
  open(options: Pick<RequestOptions, "method" | "path" | "headers">): ClientRequest;
  added(request: IncomingMessage): readonly string[];
  readonly connections: Connections;
  onUnreachable?(): void;
  isLiving?(): boolean;
};

function forwarding({ open, added, connections, onUnreachable, isLiving }: ForwardingParts): Forward {
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
    const timer =
      isLiving &&
      setInterval(() => {
        if (!isLiving()) onward.destroy(gone());
      }, lookMs);
    response.once("close", () => {
      clearInterval(timer);
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
      clearInterval(timer);
      onAnswered();
      passBack(answer, response, onward);
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

function passBack(answer: IncomingMessage, response: ServerResponse, onward: ClientRequest): void {
  response.writeHead(answer.statusCode as number, answer.statusMessage, endToEnd(answer.rawHeaders));
  pipeline(answer, response, (error) => {
    if (error) response.destroy();
    // The other server waits for the rest of the request, which it does not get.
    if (!onward.writableFinished) onward.destroy();
  });
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

/** Whether a request is one of some operations. */
function requestsOf(wanted: (operation: (typeof allOperations)[number][1]) => boolean) {
  const byMethod = new Map<string, RegExp>();
  const all = allOperations.map(([, operation]) => operation).filter(wanted);
  for (const method of new Set(all.map((operation) => operation.method))) {
    const paths = all
      .filter((operation) => operation.method === method)
      .map(({ path }) => path.replaceAll(/\{\w+\}/g, "[^/?#]+"));
    byMethod.set(method, new RegExp(`^(?:${paths.join("|")})(?:\\?|$)`));
  }
  return ({ method, url }: IncomingMessage): boolean => byMethod.get(method ?? "")?.test(url ?? "") ?? false;
}

/** The requests that a serving thread answers itself. */
const served = requestsOf(({ threads }) => threads === true);

export const isForThread = (request: IncomingMessage): boolean =>
  request.method === "GET" ? request.url === livePath : served(request);

/** The requests that change nothing, and can be asked of several servers. */
const reads = requestsOf(({ role }) => role === "read");
