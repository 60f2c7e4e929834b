// What does an HTTP answer, or the lack of one, mean?
//
// Every failure becomes the `QuiverError` that the server threw, with the status that the answer really had (the
// same code has different statuses on different endpoints). Beside the error stands its fate:
//
//   refused      the server surely did not carry the request out; sending it again is safe
//   unanswered   nobody knows: the connection broke, or something between client and server answered
//   answered     the server decided; sending it again would get the same answer

import type { ErrorCode, ErrorDetails } from "@quiver/protocol/errors";
import { errorKinds, QuiverError } from "@quiver/protocol/errors";

export type Fate = "refused" | "unanswered" | "answered";

export type Failure = {
  readonly error: QuiverError;
  readonly fate: Fate;
  /** Milliseconds that the server asks to wait, from Retry-After. */
  readonly retryAfterMs?: number;
};

const EXCERPT_CHARS_MAX = 200;

/** Codes of the operating system and of undici for a connection that was never made. */
const neverConnected = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/** Answers with which the server refuses a request before it touches any data. */
const refusals = new Set<ErrorCode>([
  "overloaded",
  "indexing_behind",
  "shutting_down",
  "not_ready",
  "rate_limited",
  "request_timeout",
]);

/** The code for a status whose body does not name one; where several share a status, the general one. */
const codeOfStatus: Readonly<Record<number, ErrorCode>> = {
  400: "invalid_request",
  401: "unauthorized",
  403: "forbidden",
  404: "route_not_found",
  405: "method_not_allowed",
  408: "request_timeout",
  413: "body_too_large",
  415: "unsupported_media_type",
  429: "rate_limited",
  431: "headers_too_large",
  // A gateway says that it got no answer from the server.
  502: "connection_failed",
  503: "overloaded",
  504: "connection_failed",
  507: "storage_full",
};

/**
 * A `QuiverError` whose `status` is the one of the answer instead of the code's usual one.
 * @param status HTTP status; 0 when there was no answer
 */
export function quiverError(
  code: ErrorCode,
  status: number,
  message: string,
  details: ErrorDetails = {},
  cause?: unknown,
): QuiverError {
  const error = new QuiverError(code, message, details, cause === undefined ? undefined : { cause });
  Object.defineProperty(error, "status", { value: status, enumerable: true });
  return error;
}

/** The failure that an answer outside 200 to 299 stands for. `body` is its text, empty for HEAD. */
export function failureOfAnswer(response: Response, body: string, request: string, now: number): Failure {
  const { status } = response;
  const retryAfterMs = parseRetryAfter(response.headers.get("retry-after"), now);
  const own = parseErrorBody(body);
  if (own) {
    const known = Object.hasOwn(errorKinds, own.code);
    const code = known ? (own.code as ErrorCode) : fallbackCode(status);
    // A newer server may have codes that this client does not know; the original stays readable.
    const details = known ? own.details : { ...own.details, code: own.code };
    const error = quiverError(code, status, own.message, details);
    return { error, fate: refusals.has(code) ? "refused" : "answered", retryAfterMs };
  }
  const code = fallbackCode(status);
  const type = response.headers.get("content-type") ?? "no content type";
  const said = body === "" ? "no body" : `${type}: ${excerpt(body)}`;
  const error = quiverError(
    code,
    status,
    `${request} was answered with status ${status} and ${said}. This is not an answer of a Quiver server; check the url and what is between it and this client.`,
    { status, content_type: type, body: excerpt(body) },
  );
  return { error, fate: errorKinds[code].retryable ? "unanswered" : "answered", retryAfterMs };
}

/** The failure of a HEAD request, whose answer has no body that could name a code. */
export function failureOfHead(response: Response, request: string, now: number): Failure {
  const { status } = response;
  const code = status === 404 ? "vector_not_found" : fallbackCode(status);
  const error = quiverError(code, status, `${request} was answered with status ${status}.`, { status });
  return {
    error,
    fate: errorKinds[code].retryable ? "unanswered" : "answered",
    retryAfterMs: parseRetryAfter(response.headers.get("retry-after"), now),
  };
}

/** The failure of a request for which fetch, or the reading of the answer, threw. */
export function failureOfFetch(thrown: unknown, request: string): Failure {
  const reason = systemCode(thrown);
  const words = [reason, innermostMessage(thrown)].filter((word) => word !== undefined).join(": ");
  const error = quiverError(
    "connection_failed",
    0,
    `${request} got no answer (${words}). ${adviceFor(reason)}`,
    { reason: reason ?? innermostMessage(thrown) },
    thrown,
  );
  // A certificate that is not trusted will not be so the next time.
  if (isAboutCertificate(reason)) return { error, fate: "answered" };
  return { error, fate: reason !== undefined && neverConnected.has(reason) ? "refused" : "unanswered" };
}

/** OpenSSL's codes (`DEPTH_ZERO_SELF_SIGNED_CERT`, `CERT_HAS_EXPIRED`) and Node.js' own (`ERR_TLS_CERT_ALTNAME_INVALID`). */
function isAboutCertificate(reason: string | undefined): boolean {
  return reason !== undefined && /CERT|LEAF_SIGNATURE|ERR_TLS/.test(reason);
}

/** What to do about a connection that was not made. */
function adviceFor(reason: string | undefined): string {
  if (isAboutCertificate(reason)) {
    return (
      "The server's certificate is not trusted. Where an authority of your own has signed it, or it has signed itself, " +
      "name the authority's PEM file in the variable NODE_EXTRA_CA_CERTS; otherwise check the host name and its date."
    );
  }
  if (reason !== undefined && /^(ERR_SSL|EPROTO)/.test(reason)) {
    return "The server does not speak HTTPS at this address; check whether the url should begin with http://.";
  }
  return "Check that the server is running and that the url is right: https:// where it has a certificate.";
}

/** The failure of a successful answer whose body is not what it should be. */
export function failureOfBody(response: Response, body: string, request: string): Failure {
  const type = response.headers.get("content-type") ?? "no content type";
  const error = quiverError(
    "internal",
    response.status,
    `${request} was answered with status ${response.status}, but the body is not JSON (${type}: ${excerpt(body)}). This is not an answer of a Quiver server; check the url.`,
    { status: response.status, content_type: type, body: excerpt(body) },
  );
  return { error, fate: "answered" };
}

/**
 * Milliseconds to wait from a Retry-After header: seconds or an HTTP date (RFC 9110, 10.2.3).
 * @param now milliseconds since 1970
 */
export function parseRetryAfter(header: string | null, now: number): number | undefined {
  if (header === null) return undefined;
  const value = header.trim();
  if (/^\d+$/.test(value)) return Number(value) * 1000;
  const date = Date.parse(value);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

function fallbackCode(status: number): ErrorCode {
  return codeOfStatus[status] ?? (status >= 400 && status < 500 ? "invalid_request" : "internal");
}

function parseErrorBody(body: string): { code: string; message: string; details: ErrorDetails } | undefined {
  let parsed: unknown;
  try {
    parsed = JSON.parse(body);
  } catch {
    return undefined;
  }
  const error = (parsed as { error?: { code?: unknown; message?: unknown; details?: unknown } } | null)
    ?.error;
  if (typeof error?.code !== "string" || typeof error.message !== "string") return undefined;
  const details = typeof error.details === "object" && error.details !== null ? error.details : {};
  return { code: error.code, message: error.message, details: details as ErrorDetails };
}

/** The `code` of the innermost cause that has one: fetch wraps what the system said. */
function systemCode(thrown: unknown): string | undefined {
  let code: string | undefined;
  for (let at = thrown; at instanceof Error; at = at.cause) {
    const own = (at as Error & { code?: unknown }).code;
    if (typeof own === "string") code = own;
  }
  return code;
}

function innermostMessage(thrown: unknown): string {
  let message = String(thrown);
  for (let at = thrown; at instanceof Error; at = at.cause) if (at.message !== "") message = at.message;
  return message;
}

function excerpt(body: string): string {
  const line = body.replace(/\s+/g, " ").trim();
  return line.length <= EXCERPT_CHARS_MAX ? line : `${line.slice(0, EXCERPT_CHARS_MAX)}...`;
}
