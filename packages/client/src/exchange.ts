// How does a request reach a server, and how does its whole answer come back?
//
// By the global `fetch`, wherever there is one. In Node.js, `fetch` costs 485 µs of processor time for a search, and V8 keeps all that belongs
// to a request until a full collection (each has entries in FinalizationRegistries, which a collection of the young generation takes for
// used): with 8 requests at a time, such collections took 23 ms, twice a second. node:http takes 203 µs, and 0.5 ms for a collection
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
export type Exchange = (url: URL, sent: Sent) => Promise<Answer>;

/** What the program had as `fetch` when it loaded this module. One that replaces it, as tests do, is used. */
const firstFetch = globalThis.fetch;

/** The exchange of this program. */
export function systemExchange(): Exchange {
  const byFetch: Exchange = (url, sent) => globalThis.fetch(url, sent);
  const byNode = nodeExchange(byFetch);
  return byNode === undefined
    ? byFetch
    : (url, sent) => (globalThis.fetch === firstFetch ? byNode : byFetch)(url, sent);
}

type Http = typeof import("node:http");

/** Undefined where the program does not run in Node.js, or in one before 22.3. */
function nodeExchange(byFetch: Exchange): Exchange | undefined {
  // Deno and Bun, and workers of some hosts, have parts of Node.js, and name themselves.
  if (globalThis.navigator?.userAgent?.startsWith("Node.js/") !== true) return undefined;
  const { process } = globalThis as { process?: { getBuiltinModule?: (name: string) => unknown } };
  const http = process?.getBuiltinModule?.("node:http") as Http | undefined;
  const https = process?.getBuiltinModule?.("node:https") as Http | undefined;
  if (http === undefined || https === undefined) return undefined;
  return async (url, sent) => {
    const answer = await answerOf(url.protocol === "https:" ? https : http, url, sent);
    return isRedirect(answer) ? byFetch(url, sent) : answer;
  };
}

const isRedirect = ({ status, headers }: Answer): boolean =>
  status >= 300 && status < 400 && headers.get("location") !== null;

/** The global agent of node:http keeps connections for 5 idle seconds, the server for 72: it does not end one that is just used again. */
const answerOf = (http: Http, url: URL, { body, ...options }: Sent): Promise<Answer> =>
  new Promise((answered, failed) => {
    const request = http.request(url, options, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (piece: string) => {
        text += piece;
      });
      response.on("error", failed);
      response.on("end", () => {
        const { statusCode: status = 0, headers } = response;
        answered({
          ok: status >= 200 && status < 300,
          status,
          headers: { get: (name) => headers[name]?.toString() ?? null },
          text: async () => text,
        });
      });
    });
    request.on("error", failed);
    request.end(body);
  });
