// How is a network partitioned on one machine?
//
// Every connection that shall be cut goes through a link: a port whose connections are passed on to another. A link that is cut says nothing
// to either side and takes connections without an answer, as a network does that loses everything.

import { connect, createServer, type Server, type Socket } from "node:net";

export class Link {
  readonly #target: number;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isCut = false;

  private constructor(target: number) {
    this.#target = target;
    this.#server = createServer((socket) => this.#accept(socket));
  }

  /** @param target port of 127.0.0.1 */
  static async to(target: number): Promise<Link> {
    const link = new Link(target);
    await new Promise<void>((resolve, reject) => {
      link.#server.once("error", reject);
      link.#server.listen(0, "127.0.0.1", resolve);
    });
    return link;
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port;
  }

  #accept(near: Socket): void {
    this.#keep(near);
    if (this.#isCut) {
      near.pause();
      return;
    }
    const far = connect(this.#target, "127.0.0.1");
    this.#keep(far);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ]) {
      from.pipe(to);
      from.once("close", () => {
        if (!this.#isCut) to.destroy();
      });
    }
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    // Either side may be killed at any time.
    socket.on("error", () => socket.destroy());
    socket.once("close", () => this.#sockets.delete(socket));
  }

  cut(): void {
    this.#isCut = true;
    for (const socket of this.#sockets) {
      socket.unpipe();
      socket.pause();
    }
  }

  /** What was said meanwhile is lost: both sides must connect again. */
  heal(): void {
    this.#isCut = false;
    for (const socket of this.#sockets) socket.destroy();
  }

  close(): void {
    this.#server.close();
    this.heal();
  }
}

/** The links between the members of two groups: from each one to each other. */
export class Network {
  readonly #links = new Map<string, Link>();

  /** A port that leads to `port`, by which `from` reaches `to`. */
  readonly portOf = async (from: string, to: string, port: number): Promise<number> => {
    const link = await Link.to(port);
    this.#links.set(`${from} ${to}`, link);
    return link.port;
  };

  /** Cuts what is between some and all others, in both directions. */
  isolate(...some: readonly string[]): void {
    for (const [ends, link] of this.#links) {
      const [from, to] = ends.split(" ");
      if (some.includes(from) !== some.includes(to)) link.cut();
    }
  }

  heal(): void {
    for (const link of this.#links.values()) link.heal();
  }

  close(): void {
    for (const link of this.#links.values()) link.close();
  }
}
