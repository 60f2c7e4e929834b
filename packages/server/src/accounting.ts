// What is begun, counted, logged and given back for each request?
//
//   headers are there --begin--> in flight --(the answer is out, or the client is gone)--> end
//
// Invariant: whatever a request takes (a place, bytes of its body and its answer, its entry among the connection's requests) is given back
// in `end`, which runs exactly once, when the response is closed. One listener does it all: each further one costs a microsecond.

import type { ServerResponse } from "node:http";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Connections } from "./connections.ts";
import type { FairShare } from "./fair-share.ts";
import type { ServerLog } from "./operations/log.ts";
import type { Metrics } from "./operations/metrics.ts";
import { discardRest } from "./request/early-answer.ts";

/** Smaller responses are not counted, because socket buffers hold them. */
const countedAnswerBytes = 16 * 1024;

/** Status in log and metrics for a request whose client disconnected before the response. */
const clientGone = 499;

export class Accounting {
  readonly #log: ServerLog;
  readonly #metrics: Metrics;
  readonly #connections: Connections;
  readonly #answers: FairShare;
  readonly #answerStallMs: number;

  /**
   * @param answers bytes of responses that clients have not read yet, by key
   * @param answerStallMs a response is aborted when the client reads nothing of it for this long
   */
  constructor(
    log: ServerLog,
    metrics: Metrics,
    connections: Connections,
    answers: FairShare,
    answerStallMs: number,
  ) {
    this.#log = log;
    this.#metrics = metrics;
    this.#connections = connections;
    this.#answers = answers;
    this.#answerStallMs = answerStallMs;
  }

  begin(request: FastifyRequest, reply: FastifyReply): void {
    const begunMs = performance.now();
    const response = reply.raw;
    request.endpoint = request.routeOptions.config;
    // No browser may take an answer for another type than it says, such as stored text for a page.
    reply.header("x-request-id", request.id).header("x-content-type-options", "nosniff");
    this.#metrics.requestBegins();
    this.#connections.begin(response);
    response.once("close", () => this.#end(request, response, begunMs));
  }

  /** Counts a response until the client has read it. Call it before the response is sent. */
  holds(request: FastifyRequest, { raw }: FastifyReply, key: string, bytes: number): void {
    if (!request.raw.complete) discardRest(request.raw, raw);
    // The listener below would never be called for a client that is gone.
    if (bytes < countedAnswerBytes || raw.destroyed || raw.closed) return;
    this.#answers.force(key, bytes);
    raw.once("close", () => this.#answers.giveBack(key, bytes));
  }

  /** Aborts a response if the client reads nothing of it for too long. Call it after it was sent: most of them are out by then. */
  readonly watch = ({ raw }: FastifyReply): void => {
    if (!raw.writableFinished) raw.setTimeout(this.#answerStallMs, () => raw.socket?.destroy());
  };

  /** A request that could not be read. */
  unreadable(requestId: string, status: number): void {
    this.#metrics.requestBegins();
    this.#metrics.requestEnds("unreadable", "other", status, 0);
    this.#log.request({ request_id: requestId, route: "unreadable", status });
  }

  /** A response that ends in the middle: its collection was deleted, say. */
  cut(request: FastifyRequest, error: unknown, isServerFault: boolean): void {
    if (isServerFault) this.fault(request, error);
    else this.#log.logger.warn(logged(request, error), "response cut");
  }

  /** A request that failed through a fault of the server. */
  readonly fault = (request: FastifyRequest, error: unknown): void => {
    this.#log.logger.error(logged(request, error), "request failed");
  };

  #end(request: FastifyRequest, response: ServerResponse, begunMs: number): void {
    const isOut = response.writableFinished;
    this.#connections.end(response);
    if (!isOut) request.waits?.leave();
    request.work?.left();
    request.bodyShare?.end();
    const ms = performance.now() - begunMs;
    const status = isOut ? response.statusCode : clientGone;
    const route = request.endpoint.url ?? "unknown";
    const { method } = request;
    this.#metrics.requestEnds(route, method, status, ms / 1000);
    request.trace?.finish(status);
    this.#log.request({ request_id: request.id, method, route, status, ms: Math.round(ms * 100) / 100 });
  }
}

const logged = (request: FastifyRequest, error: unknown) => ({
  request_id: request.id,
  method: request.method,
  route: request.endpoint.url ?? "unknown",
  err: error,
});
