// Which connections are open, and what is each of them in the middle of?
//
// Node.js knows idle connections and active ones. A stop, and an error of the HTTP parser, need to know more: whether
// a connection ever sent anything, and whether a request on it has arrived completely and still waits for its answer.

import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { arrived } from "@quiver/engine/database/contract";

type Exchange = { readonly request: IncomingMessage; readonly response: ServerResponse };

export class Connections {
  readonly #exchanges = new Map<Socket, Set<Exchange>>();
  /** Connections that have not agreed on their encryption yet, by the other end's address and port. */
  readonly #handshakes = new Map<string, Socket>();

  watch(server: Server): void {
    server.on("connection", (socket: Socket) => {
      arrived();
      this.#watch(socket);
    });
  }

  /** With TLS a connection is two sockets, one after the other: requests come on the second. */
  watchSecure(server: Server): void {
    server.on("connection", (socket: Socket) => {
      arrived();
      const end = otherEnd(socket);
      this.#handshakes.set(end, socket);
      socket.once("close", () => {
        if (this.#handshakes.get(end) === socket) this.#handshakes.delete(end);
      });
    });
    server.on("secureConnection", (socket: TLSSocket) => {
      this.#handshakes.delete(otherEnd(socket));
      this.#watch(socket);
    });
  }

  #watch(socket: Socket): void {
    this.#exchanges.set(socket, new Set());
    socket.once("close", () => this.#exchanges.delete(socket));
  }

  get count(): number {
    return this.#exchanges.size + this.#handshakes.size;
  }

  /** A request has begun: its headers are there. */
  begin(request: IncomingMessage, response: ServerResponse): void {
    const exchanges = this.#exchanges.get(request.socket);
    if (exchanges === undefined) return;
    const exchange = { request, response };
    exchanges.add(exchange);
    response.once("close", () => exchanges.delete(exchange));
  }

  /** The exchanges of a connection that are not over, oldest first. */
  exchangesOf(socket: Socket): readonly Exchange[] {
    return [...(this.#exchanges.get(socket) ?? [])];
  }

  /** Ends connections on which nothing was ever sent: browsers open such ones in advance. */
  endSilent(): void {
    for (const socket of this.#handshakes.values()) socket.destroy();
    for (const socket of this.#exchanges.keys()) if (socket.bytesRead === 0) socket.destroy();
  }

  /**
   * Ends every connection but those with a request that has arrived completely and is still being worked on. An
   * answer that is already on its way, such as a long export, is cut off: its reader may never come to the end.
   */
  endAllButWorking(): void {
    for (const socket of this.#handshakes.values()) socket.destroy();
    for (const [socket, exchanges] of this.#exchanges) {
      const working = [...exchanges].some(
        ({ request, response }) => request.complete && !response.headersSent,
      );
      if (!working) socket.destroy();
    }
  }
}

const otherEnd = (socket: Socket) => `${socket.remoteAddress} ${socket.remotePort}`;
