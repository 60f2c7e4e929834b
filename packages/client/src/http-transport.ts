// How is a request sent, and how is its response received?
//
// The life of a request:
//
//   build url and headers -> attempt -> answer ----------------------------> decoded, returned
//                              ^           \-> failure -> may it be sent again? -> no: thrown
//                              |                               | yes
//                              +---------- wait <--------------+
//
// The wait is exponential with full jitter (a random time up to the step, so that many clients do not return at once), or Retry-After if
// that is longer. `timeoutMs` bounds all attempts and waits together.

import { type ErrorCode, QuiverError } from "@quiverdb/protocol/errors";
import { refuseUnknownOptions } from "@quiverdb/protocol/fields";
import { invariant } from "@quiverdb/protocol/invariant";
import {
  type Failure,
  failureOfAnswer,
  failureOfBody,
  failureOfFetch,
  failureOfHead,
  quiverError,
} from "./answer.ts";
import { endpoints } from "./endpoint-list.ts";
import type { AnswerOf, OperationName } from "./endpoints.ts";
import { type Answer, type Exchange, type Sent, systemExchange } from "./exchange.ts";
import { checkFilters, jsonText } from "./json.ts";
import { jsonForm } from "./json-form.ts";
import {
  type CallOptions,
  checkCallOptions,
  encodeSegment,
  type Form,
  invalidSegment,
  type RequestParts,
  type Runtime,
  retryDelayMs,
  systemRuntime,
  type Transport,
} from "./transport.ts";

const defaults = {
  url: "http://127.0.0.1:8443",
  timeoutMs: 60_000,
  retries: 4,
} as const;

/** The server's address, and the timeouts and retries of a client. */
export type ClientOptions = {
  /**
   * Address of the server, including the path prefix of a proxy. Default `http://127.0.0.1:8443`. Of a cluster, those of its nodes: a request
   * that fails is sent again to the next one.
   */
  url?: string | URL | readonly (string | URL)[];
  /** API key, admin key or session token, sent as bearer key. */
  apiKey?: string;
  /** A function like the global `fetch`, for proxies and the like. Default: the global `fetch`, and Node's http in Node.js. */
  fetch?: typeof globalThis.fetch;
  /** Milliseconds for one request including all retries. Default 60,000. */
  timeoutMs?: number;
  /** Maximum number of retries of a request, if retrying is safe. Default 4. */
  retries?: number;
  /**
   * Retries for this many milliseconds after a request's first failure, instead of `retries` times, such as to survive a restart of the
   * server. `timeoutMs` still applies.
   */
  retryForMs?: number;
  /** Headers to add to every request. */
  headers?: Readonly<Record<string, string>>;
  /** Called before each retry. */
  onRetry?: (event: RetryEvent) => void;
  /** Sources of time and randomness; tests replace them. */
  runtime?: Partial<Runtime>;
};

const clientOptions: readonly (keyof ClientOptions)[] = [
  "url",
  "apiKey",
  "fetch",
  "timeoutMs",
  "retries",
  "retryForMs",
  "headers",
  "onRetry",
  "runtime",
];

/** A request that is about to be sent again. */
export type RetryEvent = {
  /** Method and path, such as `GET /vectordb/collections`. */
  request: string;
  /** 1 before the first retry. */
  retry: number;
  /** Wait before it, in milliseconds. */
  delayMs: number;
  /** What the request failed with. */
  error: QuiverError;
};

type Outcome<T> = { readonly value: T } | { readonly failure: Failure };

/** Where a request goes, and whether it may be sent again. */
export type Endpoint = {
  readonly method: "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
  readonly repeat: "always" | "refused";
  readonly done?: ErrorCode;
};

/** Sends requests to a server, or to the nodes of a cluster. One per client. */
export class HttpTransport implements Transport {
  /** Addresses of the server, or of the nodes of a cluster. */
  readonly #urls: readonly URL[];
  /** The one that requests go to. */
  #current = 0;
  readonly #positions = new Positions();
  readonly runtime: Runtime;
  readonly form: Form = jsonForm;
  readonly #options: ClientOptions;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #fetch: typeof globalThis.fetch;
  readonly #exchange: Exchange;

  /** @throws unknown_field for an unknown option */
  constructor(options: ClientOptions) {
    refuseUnknownOptions(options, clientOptions);
    const { url = defaults.url } = options;
    this.#urls = (Array.isArray(url) ? (url as readonly (string | URL)[]) : [url as string | URL]).map(
      parseUrl,
    );
    if (this.#urls.length === 0)
      throw new QuiverError("invalid_request", "url is an empty list; give at least one address.", {
        path: "url",
      });
    this.runtime = { ...systemRuntime, ...options.runtime };
    this.#options = options;
    this.#headers = requestHeaders(options);
    // Looked up on each call, so that a global fetch that is replaced later is used.
    this.#fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
    this.#exchange = options.fetch ?? systemExchange(this.#fetch);
  }

  /** The address that requests go to. */
  get url(): URL {
    return this.#urls[this.#current];
  }

  get retries(): number {
    return this.#options.retries ?? defaults.retries;
  }

  request<R extends OperationName>(route: R, parts: RequestParts = {}): Promise<AnswerOf<R>> {
    return this.#send(endpoints[route], parts, this.#answering(parts), decodeJson) as Promise<AnswerOf<R>>;
  }

  text(route: OperationName, parts: RequestParts = {}): Promise<string> {
    const decode = async (answer: Answer) => ({ value: await answer.text() });
    return this.#send(endpoints[route], parts, this.#answering(parts), decode);
  }

  open(route: OperationName, parts: RequestParts = {}): Promise<Response> {
    return this.openEndpoint(endpoints[route], parts);
  }

  /** The same for an endpoint that is no operation. */
  openEndpoint(endpoint: Endpoint, parts: RequestParts = {}): Promise<Response> {
    return this.#send(endpoint, parts, this.#fetch, async (response) => ({ value: response }));
  }

  /** How a request is sent whose answer is read at once. */
  #answering({ upload }: RequestParts): Exchange {
    return upload === undefined ? this.#exchange : this.#fetch;
  }

  async close(): Promise<void> {}

  async #send<A extends Answer, T>(
    endpoint: Endpoint,
    parts: RequestParts,
    exchange: Exchange<A>,
    decode: (answer: A, request: string) => Promise<Outcome<T>>,
  ): Promise<T> {
    checkCallOptions(parts.call);
    let url = this.#address(endpoint.path, parts);
    const request = `${endpoint.method} ${url.pathname}${url.search}`;
    const patience = new Patience(this.#options, parts.call, this.runtime);
    let inDoubt = parts.inDoubt ?? false;
    try {
      for (;;) {
        const used = this.#current;
        const sent = this.#sent(endpoint, parts, patience.signal);
        const outcome = await this.#attempt(url, request, sent, exchange, decode);
        if (!("failure" in outcome)) return outcome.value;
        patience.check(request);
        const { error, fate } = outcome.failure;
        if (fate === "answered") {
          if (inDoubt && endpoint.done === error.code) return undefined as T;
          if (inDoubt && parts.settle) {
            await parts.settle(error);
            return undefined as T;
          }
          throw error;
        }
        // Another node may answer. Other requests may have moved on already.
        if (this.#current === used) this.#current = (used + 1) % this.#urls.length;
        url = this.#address(endpoint.path, parts);
        if (fate === "unanswered") inDoubt = true;
        const isOnce = parts.call?.idempotencyKey !== undefined;
        if (fate === "unanswered" && !isOnce && (parts.repeat ?? endpoint.repeat) === "refused") throw error;
        if (!(await patience.wait(request, outcome.failure))) throw error;
      }
    } finally {
      patience.end();
    }
  }

  async #attempt<A extends Answer, T>(
    url: URL,
    request: string,
    sent: Sent,
    exchange: Exchange<A>,
    decode: (answer: A, request: string) => Promise<Outcome<T>>,
  ): Promise<Outcome<T>> {
    try {
      const response = await exchange(url, sent);
      this.#positions.note(response.headers.get(positionHeader));
      if (response.ok) return await decode(response, request);
      const now = this.runtime.now();
      if (sent.method === "HEAD") return { failure: failureOfHead(response, request, now) };
      return { failure: failureOfAnswer(response, await response.text(), request, now) };
    } catch (thrown) {
      return { failure: failureOfFetch(thrown, request, url) };
    }
  }

  #address(path: string, { params = {}, query = {} }: RequestParts): URL {
    const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => segmentOf(name, params[name]));
    invariant(!filled.includes("{"), `the path ${filled} has a parameter without a value`);
    const url = new URL(this.url);
    url.pathname = url.pathname.replace(/\/$/, "") + filled;
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) url.searchParams.set(name, value);
    }
    return url;
  }

  #sent(
    { method }: Endpoint,
    { body, contentType, upload, headers, call }: RequestParts,
    signal: AbortSignal,
  ): Sent {
    const { idempotencyKey: key } = call ?? {};
    const once: Record<string, string> = key === undefined ? {} : { "idempotency-key": key };
    const own = { ...this.#headers, ...this.#positions.header, ...once, ...headers };
    if (upload !== undefined) {
      const init = { method, signal, headers: { ...own, "content-type": "application/octet-stream" } };
      // Only `fetch` gets it (#answering). A streamed body needs `duplex: "half"`, which the types do not declare.
      return { ...init, body: upload(), duplex: "half" } as unknown as Sent;
    }
    if (body === undefined) return { method, signal, headers: own };
    if (!(body instanceof Uint8Array)) checkFilters(body);
    const bytes = body instanceof Uint8Array ? body : new TextEncoder().encode(jsonText(body));
    return {
      method,
      signal,
      headers: { ...own, "content-type": contentType ?? "application/json" },
      body: bytes as Uint8Array<ArrayBuffer>,
    };
  }
}

const positionHeader = "x-quiver-position";

/** How far the nodes of a cluster were in their logs that have answered: each request sees at least that, whichever node answers it. */
class Positions {
  /** Part of the header (`c` of the catalog, `3-` of a log) -> position. */
  readonly #parts = new Map<string, number>();
  header: Readonly<Record<string, string>> = {};

  note(header: string | null): void {
    if (header === null) return;
    let isLater = false;
    for (const part of header.split(",")) {
      const [, name, at] = /^(c|\d+-)(\d+)$/.exec(part) ?? [];
      if (name === undefined || Number(at) <= (this.#parts.get(name) ?? -1)) continue;
      this.#parts.set(name, Number(at));
      isLater = true;
    }
    if (isLater)
      this.header = { [positionHeader]: Array.from(this.#parts, ([name, at]) => `${name}${at}`).join(",") };
  }
}

/** When a call ends: its deadline, the caller's signal and its retries. */
class Patience {
  readonly #controller = new AbortController();
  readonly #runtime: Runtime;
  readonly #options: ClientOptions;
  readonly #callerSignal: AbortSignal | undefined;
  readonly #timeoutMs: number;
  readonly #deadline: number;
  readonly #retriesMax: number;
  readonly #retryForMs: number | undefined;
  readonly #timer: ReturnType<typeof setTimeout>;
  readonly #onCallerAbort = () => this.#controller.abort(this.#callerSignal?.reason);
  #retries = 0;
  #firstFailureAt: number | undefined;
  #lastError: QuiverError | undefined;
  #timedOut = false;

  constructor(options: ClientOptions, call: CallOptions = {}, runtime: Runtime) {
    call.signal?.throwIfAborted();
    this.#runtime = runtime;
    this.#options = options;
    this.#callerSignal = call.signal;
    this.#timeoutMs = call.timeoutMs ?? options.timeoutMs ?? defaults.timeoutMs;
    this.#retriesMax = call.retries ?? options.retries ?? defaults.retries;
    // Options of the call override those of the client.
    this.#retryForMs = call.retries === undefined ? options.retryForMs : undefined;
    this.#deadline = runtime.now() + this.#timeoutMs;
    // A timer takes at most 2^31 - 1 milliseconds.
    this.#timer = setTimeout(() => this.#timeOut(), Math.min(this.#timeoutMs, 0x7fff_ffff));
    call.signal?.addEventListener("abort", this.#onCallerAbort, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#callerSignal?.removeEventListener("abort", this.#onCallerAbort);
  }

  /** After a failure: throws if the caller's signal or the deadline ended the call. */
  check(request: string): void {
    if (this.#timedOut) throw this.#timeoutError(request);
    this.#callerSignal?.throwIfAborted();
  }

  /** Waits before a retry. Returns false at once if there must be none. */
  async wait(request: string, { error, retryAfterMs = 0 }: Failure): Promise<boolean> {
    const now = this.#runtime.now();
    this.#firstFailureAt ??= now;
    this.#lastError = error;
    const delayMs = Math.max(retryAfterMs, retryDelayMs(this.#retries, this.#runtime));
    const enough =
      this.#retryForMs === undefined
        ? this.#retries >= this.#retriesMax
        : now + delayMs > this.#firstFailureAt + this.#retryForMs;
    if (enough || now + delayMs > this.#deadline) return false;
    this.#retries++;
    this.#options.onRetry?.({ request, retry: this.#retries, delayMs, error });
    try {
      await this.#runtime.sleep(delayMs, this.signal);
    } catch (thrown) {
      this.check(request);
      throw thrown;
    }
    return true;
  }

  #timeOut(): void {
    this.#timedOut = true;
    this.#controller.abort(new DOMException("The request took too long.", "TimeoutError"));
  }

  #timeoutError(request: string): QuiverError {
    const last = this.#lastError;
    const before = last ? ` Before that: ${last.message}` : "";
    return quiverError(
      "connection_failed",
      0,
      `${request} had no response within ${this.#timeoutMs} ms. Give the call more time (timeoutMs), or make it smaller.${before}`,
      { reason: "timeout", timeout_ms: this.#timeoutMs },
      last,
    );
  }
}

async function decodeJson(response: Answer, request: string): Promise<Outcome<unknown>> {
  if (response.status === 204 || request.startsWith("HEAD ")) return { value: undefined };
  const text = await response.text();
  // The export is a stream of JSON lines; to read them one by one, use `Collection.export`.
  if (response.headers.get("content-type")?.startsWith("application/x-ndjson")) return { value: text };
  try {
    return { value: JSON.parse(text) };
  } catch {
    return { failure: failureOfBody(response, text, request) };
  }
}

function parseUrl(given: string | URL): URL {
  const invalid = (why: string) =>
    new QuiverError(
      "invalid_request",
      `The url ${JSON.stringify(String(given))} ${why}; expected something like ${defaults.url}.`,
      { url: String(given) },
    );
  let url: URL;
  try {
    url = new URL(given);
  } catch {
    throw invalid("is not a URL");
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") throw invalid("is not http or https");
  if (url.username !== "" || url.password !== "") {
    throw new QuiverError(
      "invalid_request",
      "The url carries a user name or password, which fetch does not allow; give the key as apiKey instead.",
    );
  }
  url.search = "";
  url.hash = "";
  return url;
}

function requestHeaders({ apiKey, headers }: ClientOptions): Record<string, string> {
  const all: Record<string, string> = { accept: "application/json" };
  for (const [name, value] of Object.entries(headers ?? {})) all[name.toLowerCase()] = String(value).trim();
  // A key that was read from a file often ends with a line break.
  const key = apiKey?.trim();
  if (key === undefined || key === "") return all;
  if (!/^[\x21-\x7e]+$/.test(key)) {
    throw new QuiverError(
      "invalid_request",
      "The apiKey has a character that is not allowed in an HTTP header; expected printable ASCII without spaces.",
    );
  }
  all.authorization = `Bearer ${key}`;
  return all;
}

/**
 * A path parameter as one segment of the path.
 *
 * URLs treat the segments `.` and `..` as relative paths, even when they are percent-encoded (WHATWG URL, "single-dot URL path segment"),
 * so a client based on fetch cannot address a record with such an id.
 */
function segmentOf(name: string, value: string | undefined): string {
  if (value !== "." && value !== "..") return encodeSegment(name, value);
  throw invalidSegment(
    name,
    value,
    "cannot be part of a URL's path: fetch treats it as a relative path. The record can still be found by a search or by its document_id, and replaced by an upsert.",
  );
}
