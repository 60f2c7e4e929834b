// How is the HTTP server below Fastify set up, and what does it answer to what is not HTTP?

import { createServer, type RequestListener, type Server, STATUS_CODES } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { Socket } from "node:net";
import type { Logger } from "pino";
import { type CertificateFiles, followCertificate, readCertificate } from "./certificate.ts";
import type { CompleteServerConfig } from "./config.ts";
import type { Connections } from "./connections.ts";
import { errorAnswer } from "./error-answer.ts";

/** Node.js' default, written down because `maxParamLength` must not be smaller. */
export const headersBytesMax = 16 * 1024;

/** Time in which a client may read an answer that was sent while it was still sending. */
const farewellMs = 1_000;

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
    // Timeouts are noticed by a check at this interval, a quarter of the shortest of them late at most.
    connectionsCheckingInterval: Math.min(30_000, Math.max(50, Math.floor(shortestMs / 4))),
    maxHeaderSize: headersBytesMax,
    // Otherwise Node.js itself answers 400 without a body; nothing here depends on the host that a client names.
    requireHostHeader: false,
  };
  const server = create();
  server.maxConnections = config.connectionsMax;
  // An expectation that nobody knows is no reason to refuse: `100-continue` is the only one there is.
  server.on("checkExpectation", listener);
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

/**
 * Answers a request that could not be read: broken HTTP, too large headers, not arrived in time. An answer to an
 * earlier request on the connection goes first; the connection ends in any case.
 * @param onAnswered told with the status, for log and metrics
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
  const earlier = exchanges.filter(({ request }) => request.complete).at(-1);
  if (earlier !== undefined) {
    earlier.response.once("close", () => {
      if (socket.writable) refuseUnreadable(error, socket, connections, requestId, onAnswered);
    });
    return;
  }
  // The answer to this very request has begun already, 413 for example; a second one would garble it.
  if (exchanges.some(({ response }) => response.headersSent)) {
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
    `x-request-id: ${requestId}`,
  ];
  socket.end(`${head.join("\r\n")}\r\n\r\n${text}`);
  setTimeout(() => socket.destroy(), farewellMs).unref();
  onAnswered(status);
}
