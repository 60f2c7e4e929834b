// How does a benchmark load a server over many connections at little cost of its own?
//
// On a machine with two cores, whatever the client takes is missing to the server. Requests are bytes that were put together before; of an
// answer only its status and its length are read. Each connection has one request in progress.

import { connect, type Socket } from "node:net";

/**
 * Counts what was answered, over `connections` connections, for so long.
 * @param thinkUs processor time that the client spends on each answer, as a program does that uses it
 */
export async function load(
  port: number,
  connections: number,
  ms: number,
  next: () => Buffer,
  thinkUs = 0,
): Promise<{ answers: number; seconds: number; latenciesMs: number[] }> {
  let answers = 0;
  const latenciesMs: number[] = [];
  const startMs = performance.now();
  const endMs = startMs + ms;
  await Promise.all(
    Array.from({ length: connections }, async () => {
      let connection = await Connection.open(port);
      while (performance.now() < endMs) {
        const sentMs = performance.now();
        await connection.ask(next());
        latenciesMs.push(performance.now() - sentMs);
        answers++;
        for (const untilMs = performance.now() + thinkUs / 1_000; performance.now() < untilMs; );
        if (!connection.isEnding) continue;
        connection.close();
        connection = await Connection.open(port);
      }
      connection.close();
    }),
  );
  return { answers, seconds: (performance.now() - startMs) / 1_000, latenciesMs };
}

/** A request as bytes. */
export function requestOf(method: string, path: string, key: string, body: unknown): Buffer {
  const text = Buffer.from(JSON.stringify(body));
  const head = [
    `${method} ${path} HTTP/1.1`,
    "Host: localhost",
    `Authorization: Bearer ${key}`,
    "Content-Type: application/json",
    `Content-Length: ${text.length}`,
  ];
  return Buffer.concat([Buffer.from(`${head.join("\r\n")}\r\n\r\n`), text]);
}

class Connection {
  readonly #socket: Socket;
  #chunks: Buffer[] = [];
  /** The server closes it after the answer that has arrived. */
  isEnding = false;
  #answered: { resolve(): void; reject(error: Error): void } | undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.on("data", (chunk: Buffer) => this.#receive(chunk));
    socket.on("error", (error) => this.#answered?.reject(error));
    socket.on("close", () => {
      if (!this.isEnding) this.#answered?.reject(new Error("the server has closed a connection"));
    });
  }

  static open(port: number): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const socket = connect(port, "127.0.0.1", () => resolve(new Connection(socket)));
      socket.once("error", reject);
    });
  }

  ask(request: Buffer): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#answered = { resolve, reject };
      this.#socket.write(request);
    });
  }

  close(): void {
    this.#answered = undefined;
    this.#socket.destroy();
  }

  #receive(chunk: Buffer): void {
    this.#chunks.push(chunk);
    const received = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks);
    this.#chunks = [received];
    const headEnd = received.indexOf("\r\n\r\n");
    if (headEnd < 0) return;
    const head = received.toString("latin1", 0, headEnd);
    const length = Number(/content-length: (\d+)/i.exec(head)?.[1]);
    if (received.length < headEnd + 4 + length) return;
    this.#chunks = [];
    this.isEnding = /\r\nconnection: close/i.test(head);
    if (head.startsWith("HTTP/1.1 200")) this.#answered?.resolve();
    else this.#answered?.reject(new Error(received.toString()));
  }
}
