// How are the responses on a socket parsed, whatever was sent?
//
// A client of its own, because every HTTP client refuses to send what is interesting here, and repairs or hides what
// comes back.

import { connect, type Socket } from "node:net";

export type WireAnswer = {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Buffer;
};

/** Why reading ended without an answer. */
export type WireEnd = "closed" | "timeout";

/** One connection. Responses are read in order; the reader also detects unexpected ones. */
export class Wire {
  readonly #socket: Socket;
  #received: Buffer = Buffer.alloc(0);
  #isClosed = false;
  #wake: () => void = () => {};

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (chunk) => {
      this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk]);
      this.#wake();
    });
    // A reset counts as a normal end: the sent bytes may justify it.
    socket.on("error", () => {});
    socket.on("close", () => {
      this.#isClosed = true;
      this.#wake();
    });
  }

  static open(port: number): Promise<Wire> {
    return new Promise((resolve, reject) => {
      const socket = connect({ port, host: "127.0.0.1", noDelay: true, allowHalfOpen: true });
      socket.once("error", reject);
      socket.once("connect", () => {
        socket.off("error", reject);
        resolve(new Wire(socket));
      });
    });
  }

  get isClosed(): boolean {
    return this.#isClosed || this.#socket.readableEnded;
  }

  /** Received bytes that are not part of a response. */
  get leftover(): Buffer {
    return this.#received;
  }

  send(bytes: Uint8Array | string): void {
    if (this.#socket.writable) this.#socket.write(bytes);
  }

  /** Sends no more; the server may. */
  finish(): void {
    if (this.#socket.writable) this.#socket.end();
  }

  close(): void {
    this.#socket.destroy();
  }

  /**
   * The next response; interim ones (1xx) are skipped.
   * @param toHead whether it answers a HEAD, and so has no body
   * @throws Error if the bytes are not a response
   */
  async read(timeoutMs: number, toHead = false): Promise<WireAnswer | WireEnd> {
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      const taken = takeAnswer(this.#received, toHead);
      if (taken !== undefined) {
        this.#received = this.#received.subarray(taken.bytes);
        if (taken.answer.status >= 200) return taken.answer;
        continue;
      }
      if (this.isClosed) return "closed";
      const waitMs = deadline - performance.now();
      if (waitMs <= 0) return "timeout";
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, waitMs);
        const onEnd = () => this.#wake();
        this.#wake = () => {
          clearTimeout(timer);
          this.#socket.off("end", onEnd);
          resolve();
        };
        this.#socket.once("end", onEnd);
      });
      this.#wake = () => {};
    }
  }
}

function takeAnswer(received: Buffer, toHead: boolean): { answer: WireAnswer; bytes: number } | undefined {
  const headEnd = received.indexOf("\r\n\r\n");
  if (headEnd < 0) return undefined;
  const [statusLine, ...lines] = received.subarray(0, headEnd).toString("latin1").split("\r\n");
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(statusLine)?.[1]);
  if (Number.isNaN(status))
    throw new Error(`not an HTTP response: ${JSON.stringify(statusLine.slice(0, 200))}`);
  const headers = new Map(
    lines.map((line) => {
      const colon = line.indexOf(":");
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const;
    }),
  );
  const start = headEnd + 4;
  const content = bodyOf(received, start, status, headers, toHead);
  return content && { answer: { status, headers, body: content.body }, bytes: content.end };
}

function bodyOf(
  received: Buffer,
  start: number,
  status: number,
  headers: ReadonlyMap<string, string>,
  toHead: boolean,
): { body: Buffer; end: number } | undefined {
  if (toHead || status < 200 || status === 204 || status === 304)
    return { body: Buffer.alloc(0), end: start };
  if (headers.get("transfer-encoding") === "chunked") return chunkedBody(received, start);
  const length = headers.get("content-length");
  if (length === undefined)
    throw new Error(`a response with status ${status} has neither a length nor chunks`);
  const end = start + Number(length);
  return received.length < end ? undefined : { body: received.subarray(start, end), end };
}

function chunkedBody(received: Buffer, start: number): { body: Buffer; end: number } | undefined {
  const parts: Buffer[] = [];
  for (let at = start; ; ) {
    const lineEnd = received.indexOf("\r\n", at);
    if (lineEnd < 0) return undefined;
    const size = Number.parseInt(received.toString("latin1", at, lineEnd), 16);
    if (Number.isNaN(size)) throw new Error("a chunk of a response has no size");
    const end = lineEnd + 2 + size + 2;
    if (received.length < end) return undefined;
    if (size === 0) return { body: Buffer.concat(parts), end };
    parts.push(received.subarray(lineEnd + 2, lineEnd + 2 + size));
    at = end;
  }
}
