// Which connections are open, and what is the state of each?
//
// Node.js distinguishes idle and active connections. A stop, and an error of the HTTP parser, need more: whether a connection ever sent
// anything, and whether a complete request on it still waits for its response.

import type { Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { arrived } from "@quiverdb/engine/database/contract";
import type { Counts } from "./fair-share.ts";

export class Connections {
  /** The unfinished responses of each connection, oldest first; each has its request. */
  readonly #exchanges = new Map<Socket, ServerResponse[]>();
  /** Connections that are closed after their next response. */
  readonly #shed = new WeakSet<Socket>();
  /** Connections that have not finished their TLS handshake, by the remote address and port. */
  readonly #handshakes = new Map<string, Socket>();

  /**
   * @param count of the connections of all threads
   * @param max further ones are refused, as `Server.maxConnections` does for one thread
   */
  limit(server: Server, count: Counts, max: number): void {
    server.prependListener("connection", (socket: Socket) => {
      count.add(everyone, 1);
      socket.once("close", () => count.add(everyone, -1));
      if (count.taken > max) socket.destroy();
    });
  }

  watch(server: Server): void {
    server.on("connection", (socket: Socket) => {
      arrived();
      this.#watch(socket);
    });
  }

  /** With TLS a connection has two sockets, one after the other; requests arrive on the second. */
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
    this.#exchanges.set(socket, []);
    socket.once("close", () => this.#exchanges.delete(socket));
  }

  get count(): number {
    return this.#exchanges.size + this.#handshakes.size;
  }

  /** A request has begun: its headers have arrived. */
  begin(response: ServerResponse): void {
    const { socket } = response.req;
    this.#exchanges.get(socket)?.push(response);
    // The response says so, and a client opens another connection for its next request.
    if (this.#shed.has(socket)) response.shouldKeepAlive = false;
  }

  /** Closes a share of the connections, each after its next response. @param share 0 to 1 */
  shed(share: number): void {
    const sockets = [...this.#exchanges.keys()];
    for (const socket of sockets.slice(0, Math.round(share * sockets.length))) this.#shed.add(socket);
  }

  /** The response was sent, or its connection is closed. */
  end(response: ServerResponse): void {
    const exchanges = this.#exchanges.get(response.req.socket);
    const at = exchanges?.indexOf(response) ?? -1;
    if (at >= 0) exchanges?.splice(at, 1);
  }

  /** The unfinished responses of a connection, oldest first. */
  exchangesOf(socket: Socket): readonly ServerResponse[] {
    return [...(this.#exchanges.get(socket) ?? [])];
  }

  /** Closes connections on which nothing was ever sent; browsers open such connections in advance. */
  endSilent(): void {
    for (const socket of this.#handshakes.values()) socket.destroy();
    for (const socket of this.#exchanges.keys()) if (socket.bytesRead === 0) socket.destroy();
  }

  /**
   * Closes every connection except those with a complete request that is still being executed. A response that is already being sent, such
   * as a long export, is cut off, because its reader may never finish.
   */
  endAllButWorking(): void {
    for (const socket of this.#handshakes.values()) socket.destroy();
    for (const [socket, exchanges] of this.#exchanges) {
      const working = exchanges.some(({ req, headersSent }) => req.complete && !headersSent);
      if (!working) socket.destroy();
    }
  }
}

/** Connections are not counted by key. */
const everyone = "everyone";

const otherEnd = (socket: Socket) => `${socket.remoteAddress} ${socket.remotePort}`;
