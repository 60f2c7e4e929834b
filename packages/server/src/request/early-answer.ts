// What becomes of a body whose request is answered before it has arrived?
//
//   Expect: 100-continue   The client waits for leave to send its body. It gets `100 Continue` when the body is about to be read, so a request
//                          that its headers refuse gets the answer alone. Node.js then closes the connection: whether the body will still
//                          come cannot be known, and the next request must not be taken for it.
//   any other body         What still comes is read and thrown away, because many clients send all before they read: with the connection closed
//                          at once they would get an error instead of the answer (RFC 9112, 9.6). There are two limits, of bytes and of time.
//
// At the limit of bytes our side of the connection is closed first, and all of it a second later, unread bytes and all. A client that sends
// meanwhile then fails with EPIPE, after which the answer can still be read, and HTTP libraries do read it.

import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";
import { limits } from "@quiverdb/protocol/limits";

/** How long a client may continue to send a body after it was answered. */
const lingerMs = 10_000;

/** Time for a client to read a response that was sent before its request was complete, if nothing more of the request is read. */
export const farewellMs = 1_000;

/** A smaller piece of a body counts as this many bytes, because handing it over takes as long. */
const pieceBytesMin = 1024;

/** Requests whose clients wait for `100 Continue`, with their responses. */
const uninvited = new WeakMap<IncomingMessage, ServerResponse>();

/** Leaves it to the listener of requests whether a client that waits for `100 Continue` gets it; Node.js would always send it. */
export function awaitInvitation(server: Server, listener: RequestListener): void {
  server.on("checkContinue", (request: IncomingMessage, response: ServerResponse) => {
    uninvited.set(request, response);
    listener(request, response);
  });
}

/** Whether the client waits for `100 Continue` before it sends the body. */
export const isUninvited = (request: IncomingMessage): boolean => uninvited.has(request);

/** The body is about to be read. */
export function inviteBody(request: IncomingMessage): void {
  uninvited.get(request)?.writeContinue();
  uninvited.delete(request);
}

/** Throws away what still comes of a request, within limits. Call it before the response is sent. */
export function discardRest(request: IncomingMessage, response: ServerResponse): void {
  const { socket } = request;
  let left: number = limits.lateBodyBytesMax;
  let timer: NodeJS.Timeout | undefined;
  const cutIn = (ms: number) => {
    clearTimeout(timer);
    timer = setTimeout(() => socket.destroy(), ms);
    timer.unref();
  };
  const farewell = () => {
    socket.end();
    cutIn(farewellMs);
  };
  request
    .on("error", () => undefined)
    .on("data", (piece: Buffer) => {
      left -= Math.max(piece.length, pieceBytesMin);
      if (left > 0) return;
      request.pause();
      if (response.writableFinished) farewell();
    });
  // Whoever read it before may have paused it.
  request.resume();
  response.once("finish", () => {
    if (left <= 0) farewell();
    else if (!request.complete) cutIn(lingerMs);
  });
  request.once("close", () => clearTimeout(timer));
}
