// What does an HTTP response, or a missing one, mean?
//
// Every failure becomes the `QuiverError` that the server threw, with the actual status of the response (the same code has different
// statuses on different endpoints). Each error also has an outcome:
//
//   refused      the server certainly did not execute the request; sending it again is safe
//   unanswered   unknown: the connection broke, or something between client and server responded
//   answered     the server decided; sending it again would get the same response

import { type ErrorCode, type ErrorDetails, errorKinds, QuiverError } from "@quiverdb/protocol/errors";
import type { Answer } from "./exchange.ts";

export type Fate = "refused" | "unanswered" | "answered";

export type Failure = {
  readonly error: QuiverError;
  readonly fate: Fate;
  /** Milliseconds to wait, from Retry-After. */
  readonly retryAfterMs?: number;
};

const excerptCharsMax = 200;

/** Codes of the operating system and of undici for a connection that was never established. */
const neverConnected = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/** Statuses with which the server rejects a request before it touches any data. */
const refusals = new Set<ErrorCode>([
  "overloaded",
  "indexing_behind",
  "shutting_down",
  "not_ready",
  "rate_limited",
  "request_timeout",
]);

/** The code for a response without a code in its body, by status; if several codes share a status, the most general one. */
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
  // A gateway reports that the server did not respond.
  502: "connection_failed",
  503: "overloaded",
  504: "connection_failed",
  507: "storage_full",
};

/**
 * A `QuiverError` with the status of the response instead of the code's default status.
 * @param status HTTP status; 0 if there was no response
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

/** The failure for a response with a status outside 200 to 299. `body` is its text, empty for HEAD. */
export function failureOfAnswer(response: Answer, body: string, request: string, now: number): Failure {
  const { status } = response;
  const retryAfterMs = parseRetryAfter(response.headers.get("retry-after"), now);
  const own = parseErrorBody(body);
  if (own) {
    const known = Object.hasOwn(errorKinds, own.code);
    const code = known ? (own.code as ErrorCode) : fallbackCode(status);
    // A newer server may have codes that this client does not know; the message keeps the original code.
    const details = known ? own.details : { ...own.details, code: own.code };
    const error = quiverError(code, status, own.message, details);
    return { error, fate: fateOf(code, details), retryAfterMs };
  }
  const code = fallbackCode(status);
  const type = response.headers.get("content-type") ?? "no content type";
  const said = body === "" ? "no body" : `${type}: ${excerpt(body)}`;
  const error = quiverError(
    code,
    status,
    `${request} was answered with status ${status} and ${said}. This is not a response of a Quiver server; check the url and any proxy in between.`,
    { status, content_type: type, body: excerpt(body) },
  );
  return { error, fate: errorKinds[code].retryable ? "unanswered" : "answered", retryAfterMs };
}

function fateOf(code: ErrorCode, details: ErrorDetails): Failure["fate"] {
  // A node says so when the cluster's log did not answer it. Another one may reach the log.
  if (code === "log_unavailable") return details.applied === "no" ? "refused" : "unanswered";
  return refusals.has(code) ? "refused" : "answered";
}

/** The failure of a HEAD request, whose response has no body and therefore no code. */
export function failureOfHead(response: Answer, request: string, now: number): Failure {
  const { status } = response;
  const code = status === 404 ? "vector_not_found" : fallbackCode(status);
  const error = quiverError(code, status, `${request} was answered with status ${status}.`, { status });
  return {
    error,
    fate: errorKinds[code].retryable ? "unanswered" : "answered",
    retryAfterMs: parseRetryAfter(response.headers.get("retry-after"), now),
  };
}

/** The failure of a request for which fetch, or reading the response, threw an error. */
export function failureOfFetch(thrown: unknown, request: string, url?: URL): Failure {
  const reason = systemCode(thrown);
  const words = [reason, innermostMessage(thrown)].filter((word) => word !== undefined).join(": ");
  const error = quiverError(
    "connection_failed",
    0,
    `${request} got no response (${words}). ${adviceFor(reason)}`,
    { reason: reason ?? innermostMessage(thrown), ...(url !== undefined && { url: url.origin }) },
    thrown,
  );
  // An untrusted certificate will still be untrusted on the next attempt.
  if (isAboutCertificate(reason)) return { error, fate: "answered" };
  return { error, fate: reason !== undefined && neverConnected.has(reason) ? "refused" : "unanswered" };
}

/** OpenSSL's codes (`DEPTH_ZERO_SELF_SIGNED_CERT`, `CERT_HAS_EXPIRED`) and Node.js' own (`ERR_TLS_CERT_ALTNAME_INVALID`). */
function isAboutCertificate(reason: string | undefined): boolean {
  return reason !== undefined && /CERT|LEAF_SIGNATURE|ERR_TLS/.test(reason);
}

/** Advice for a connection that could not be established. */
function adviceFor(reason: string | undefined): string {
  if (isAboutCertificate(reason)) {
    return (
      "The server's certificate is not trusted. If it is self-signed or signed by a private authority, " +
      "set the environment variable NODE_EXTRA_CA_CERTS to the authority's PEM file; otherwise check the host name and the expiry date."
    );
  }
  if (reason !== undefined && /^(ERR_SSL|EPROTO)/.test(reason)) {
    return "The server does not speak HTTPS at this address; check whether the url should begin with http://.";
  }
  return "Check that the server is running and that the url is right: https:// if it has a certificate.";
}

/** The failure of a successful response with an unexpected body. */
export function failureOfBody(response: Answer, body: string, request: string): Failure {
  const type = response.headers.get("content-type") ?? "no content type";
  const error = quiverError(
    "internal",
    response.status,
    `${request} was answered with status ${response.status}, but the body is not JSON (${type}: ${excerpt(body)}). This is not a response of a Quiver server; check the url.`,
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

/** The `code` of the innermost cause that has one: fetch wraps the errors of the system. */
export function systemCode(thrown: unknown): string | undefined {
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

/** The beginning of a body, on one line. */
export function excerpt(body: string): string {
  const line = body.replace(/\s+/g, " ").trim();
  return line.length <= excerptCharsMax ? line : `${line.slice(0, excerptCharsMax)}...`;
}
