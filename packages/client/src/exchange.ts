// How does a request reach a server, and how does its whole answer come back?
//
// By the global `fetch`, wherever there is one. In Node.js, `fetch` costs 485 µs of processor time for a search, and V8 keeps all that belongs
// to a request until a full collection (each has entries in FinalizationRegistries, which a collection of the young generation takes for
// used): with 8 requests at a time, such collections took 23 ms, twice a second. Node's http takes 203 µs, and 0.5 ms for a collection
// (docs/decisions/rest-path.md).
//
// Streams in either direction go through `fetch` everywhere, and so do redirected requests.

/** A request whose body, if any, is in memory. */
export type Sent = {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Uint8Array<ArrayBuffer>;
  readonly signal: AbortSignal;
};

/** What is read of an answer; a `Response` has it, too. */
export type Answer = {
  readonly ok: boolean;
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  text(): Promise<string>;
};

/** @throws what `fetch` throws, or an error of the system */
export type Exchange<A extends Answer = Answer> = (url: URL, sent: Sent) => Promise<A>;

/** What is used of Node's http, and of Node's https, whose types a browser's program does not have. */
type Http = {
  request(url: URL, options: Omit<Sent, "body">, onResponse: (response: Incoming) => void): Outgoing;
};
type Outgoing = {
  on(event: "error", listener: (error: Error) => void): void;
  on(event: "close", listener: () => void): void;
  on(event: "socket", listener: (socket: Socket) => void): void;
  end(body?: Uint8Array): void;
  destroy(error: Error): void;
};
type Socket = {
  readonly connecting: boolean;
  once(event: "connect" | "secureConnect" | "close", listener: () => void): void;
};
type Incoming = {
  readonly statusCode?: number;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  setEncoding(encoding: "utf8"): void;
  on(event: "data", listener: (piece: string) => void): void;
  on(event: "error", listener: (error: Error) => void): void;
  on(event: "end", listener: () => void): void;
  destroy(): void;
};

/**
 * The exchange of this program: by Node's http, but where the program does not run in Node.js, or in one before 22.3, or has another `fetch`
 * than that of Node.js, as in tests.
 * @param byFetch by the global `fetch` that there is at each call
 */
export function systemExchange(byFetch: Exchange): Exchange {
  // Deno and Bun, and workers of some hosts, have parts of Node.js, and name themselves.
  if (globalThis.navigator?.userAgent?.startsWith("Node.js/") !== true) return byFetch;
  const nodesFetch = globalThis.fetch;
  // A function that loads undici.
  if (!/undici/i.test(String(nodesFetch))) return byFetch;
  const { process } = globalThis as { process?: { getBuiltinModule?: (name: string) => unknown } };
  const http = process?.getBuiltinModule?.("http") as Http | undefined;
  const https = process?.getBuiltinModule?.("https") as Http | undefined;
  if (http === undefined || https === undefined) return byFetch;
  return async (url, sent) => {
    if (globalThis.fetch !== nodesFetch) return byFetch(url, sent);
    const answer = await answerOf(url.protocol === "https:" ? https : http, url, sent);
    return isRepeated(answer, sent) ? byFetch(url, sent) : answer;
  };
}

/** Whether a redirect says that the request was not done, or doing it again changes nothing. */
const isRepeated = ({ status, headers }: Answer, { method }: Sent): boolean =>
  headers.get("location") !== null &&
  (status === 307 || status === 308 || (status >= 300 && status < 400 && /^(GET|HEAD)$/.test(method)));

/** As long as `fetch` waits for a connection. */
const connectMs = 10_000;

/** With a code as `fetch` and the system have it (answer.ts). */
const failure = (code: string, message: string): Error => Object.assign(new Error(message), { code });

/** The global agent of Node's http keeps connections for 5 idle seconds, the server for 72: it does not end one that is just used again. */
const answerOf = (http: Http, url: URL, sent: Sent): Promise<Answer> =>
  new Promise((answered, failed) => {
    const { method, body, signal } = sent;
    const length: Record<string, string> =
      body === undefined ? {} : { "content-length": String(body.byteLength) };
    const headers = { "user-agent": "node", ...sent.headers, "accept-encoding": "identity", ...length };
    let isAnswered = false;
    const request = http.request(url, { method, headers, signal }, (response) => {
      isAnswered = true;
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (piece) => {
        try {
          text += piece;
        } catch (error) {
          // No string can be so long.
          failed(error);
          response.destroy();
        }
      });
      response.on("error", failed);
      response.on("end", () => {
        const { statusCode: status = 0, headers: own } = response;
        answered({
          ok: status >= 200 && status < 300,
          status,
          headers: { get: (name) => own[name]?.toString() ?? null },
          text: async () => (text.startsWith("\ufeff") ? text.slice(1) : text),
        });
      });
    });
    request.on("socket", (socket) => {
      if (!socket.connecting) return;
      const giveUp = () =>
        request.destroy(failure("UND_ERR_CONNECT_TIMEOUT", `no connection within ${connectMs / 1_000} s`));
      const timer = setTimeout(giveUp, connectMs);
      const stop = () => clearTimeout(timer);
      socket.once(url.protocol === "https:" ? "secureConnect" : "connect", stop);
      socket.once("close", stop);
    });
    // A server that refuses a body without reading it has answered, although writing fails.
    request.on("error", (error) => {
      if (!isAnswered || signal.aborted) failed(error);
    });
    // Without an error, where the server switches protocols.
    request.on("close", () => {
      if (!isAnswered) failed(failure("ECONNRESET", "the connection was closed without an answer"));
    });
    request.end(body);
  });
