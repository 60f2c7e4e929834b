// How is the HTTP server below Fastify configured, and how does it answer malformed requests?

import { createServer, type RequestListener, type Server, STATUS_CODES } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { Socket } from "node:net";
import type { Logger } from "pino";
import { type CertificateFiles, followCertificate, readCertificate } from "./certificate.ts";
import type { CompleteServerConfig } from "./config.ts";
import type { Connections } from "./connections.ts";
import { errorAnswer } from "./error-answer.ts";
import { awaitInvitation, farewellMs } from "./request/early-answer.ts";
import { isFromThread, type OwnerSocket } from "./threads/forwarding.ts";

/** The default of Node.js, set explicitly because `maxParamLength` must not be smaller. */
export const headersBytesMax = 16 * 1024;

export function createHttpServer(
  config: CompleteServerConfig,
  connections: Connections,
  listener: RequestListener,
  logger: Logger,
): Server {
  const shortestMs = Math.min(config.requestTimeoutMs, config.headersTimeoutMs);
  const options = {
    requestTimeout: config.requestTimeoutMs,
    headersTimeout: config.headersTimeoutMs,
    keepAliveTimeout: config.keepAliveTimeoutMs,
    // Timeouts are checked at this interval, so they are late by at most a quarter of the shortest one.
    connectionsCheckingInterval: Math.min(30_000, Math.max(50, Math.floor(shortestMs / 4))),
    maxHeaderSize: headersBytesMax,
    // Otherwise Node.js answers 400 without a body; nothing here depends on the Host header.
    requireHostHeader: false,
  };
  const server = create();
  server.maxConnections = config.connectionsMax;
  // Unknown expectations are ignored; `100-continue` is the only one that is defined.
  server.on("checkExpectation", listener);
  awaitInvitation(server, listener);
  return server;

  function create(): Server {
    const { tlsCert, tlsKey } = config;
    if (tlsCert === undefined || tlsKey === undefined) {
      const plain = createServer(options, listener);
      connections.watch(plain);
      return plain;
    }
    const files: CertificateFiles = { cert: tlsCert, key: tlsKey };
    const certificate = readCertificate(files);
    const secure = createSecureServer(
      { ...options, ...certificate, handshakeTimeout: config.headersTimeoutMs },
      listener,
    );
    followCertificate(secure, files, certificate, logger, config.clock);
    connections.watchSecure(secure);
    return secure;
  }
}

/** Room for the headers that a serving thread adds. */
const addedHeaderBytes = 1024;

/** The server that serving threads forward to (threads/forwarding.ts). They have timed and limited what arrives. */
export function createOwnerServer(
  config: CompleteServerConfig,
  connections: Connections,
  listener: RequestListener,
  socket: OwnerSocket,
): Server {
  const options = {
    requestTimeout: config.requestTimeoutMs,
    headersTimeout: config.headersTimeoutMs,
    // The threads decide when a connection is closed.
    keepAliveTimeout: 0,
    maxHeaderSize: headersBytesMax + addedHeaderBytes,
    requireHostHeader: false,
  };
  const onRequest: RequestListener = (request, response) => {
    if (!isFromThread(request, socket)) {
      request.socket.destroy();
      return;
    }
    // What a slow reader of this answer was given (accounting.ts) ends with it: Node.js would close the connection when it has been idle for
    // as long, and a request that is on its way then fails.
    response.once("finish", () => request.socket.setTimeout(0));
    listener(request, response);
  };
  const server = createServer(options, onRequest);
  awaitInvitation(server, onRequest);
  connections.watch(server);
  return server;
}

/**
 * Answers a request that could not be parsed: malformed HTTP, oversized headers, not arrived in time. The response to an earlier request on
 * the connection is sent first; then the connection is closed.
 * @param onAnswered called with the status, for log and metrics
 */
export function refuseUnreadable(
  error: Error & { code?: string },
  socket: Socket,
  connections: Connections,
  requestId: string,
  onAnswered: (status: number) => void,
): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  const exchanges = connections.exchangesOf(socket);
  const earlier = exchanges.filter(({ req }) => req.complete).at(-1);
  if (earlier !== undefined) {
    earlier.once("close", () => {
      if (socket.writable) refuseUnreadable(error, socket, connections, requestId, onAnswered);
    });
    return;
  }
  // The response to this request has already begun, such as a 413; a second one would garble it.
  if (exchanges.some(({ headersSent }) => headersSent)) {
    socket.destroy();
    return;
  }
  const { status, body } = errorAnswer(error, undefined, requestId);
  const text = JSON.stringify(body);
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    "Content-Type: application/json; charset=utf-8",
    `Content-Length: ${Buffer.byteLength(text)}`,
    "Connection: close",
    "X-Content-Type-Options: nosniff",
    `x-request-id: ${requestId}`,
  ];
  socket.end(`${head.join("\r\n")}\r\n\r\n${text}`);
  setTimeout(() => socket.destroy(), farewellMs).unref();
  onAnswered(status);
}
