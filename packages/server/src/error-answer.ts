// Which HTTP answer does an error become?
//
// This is the one place where errors are translated. What the engine or a route threw on purpose (`QuiverError`) is
// told as it is; what the transport found (Fastify, the HTTP parser) gets a code of our table; everything else is
// `internal`, and only the log says what it was.

import { type ErrorBody, type ErrorDetails, isQuiverError, QuiverError } from "@quiver/protocol/errors";
import type { Route } from "@quiver/protocol/routes";

export type ErrorAnswer = {
  readonly status: number;
  readonly body: ErrorBody;
  /** True when the log needs the whole error: something is wrong on this side. */
  readonly serverFault: boolean;
};

/**
 * @param route the endpoint that was asked, which may give a code another status; undefined for an unknown path
 * @param requestId goes into every answer of 500 and above, as the thread that leads into the log
 * @param privateTexts what must not leave the server, such as the data directory
 */
export function errorAnswer(
  error: unknown,
  route: Route | undefined,
  requestId: string,
  privateTexts: readonly string[] = [],
): ErrorAnswer {
  const known = isQuiverError(error) ? error : fromTransport(error);
  const status = known === undefined ? 500 : (route?.statusOf?.[known.code] ?? known.status);
  // A queue or a budget that is full, or a server that stops, is no fault that anybody must look into.
  const isFull = known?.code === "memory_budget_exceeded";
  const serverFault = status >= 500 && known?.retryable !== true && !isFull;
  if (known === undefined || mentions(known, privateTexts)) {
    const code = known?.code ?? "internal";
    const message = `The operation failed on the server. The log has the details under request id ${requestId}.`;
    return { status, serverFault, body: errorBody(code, message, { request_id: requestId }) };
  }
  const details = status >= 500 ? { ...known.details, request_id: requestId } : known.details;
  return { status, serverFault, body: errorBody(known.code, known.message, details) };
}

const errorBody = (code: ErrorBody["error"]["code"], message: string, details: ErrorDetails): ErrorBody => ({
  error: { code, message, details },
});

/** True when an error of the server repeats a private text. What a client sent itself may come back to it. */
function mentions(error: QuiverError, privateTexts: readonly string[]): boolean {
  if (error.status < 500) return false;
  const told = `${error.message} ${JSON.stringify(error.details)}`;
  return privateTexts.some((text) => told.includes(text)) || /\n[ \t]+at /.test(error.message);
}

/** Codes of Fastify and of Node.js' HTTP server. */
function fromTransport(error: unknown): QuiverError | undefined {
  const code = (error as { code?: unknown } | null | undefined)?.code;
  switch (code) {
    case "FST_ERR_BAD_URL":
      return new QuiverError(
        "invalid_request",
        "The path has a percent sign without two hex digits behind it, or bytes that are not UTF-8. " +
          "Percent-encode every part of the path.",
        { path: "path", expected: "percent-encoded UTF-8", received: "a broken percent-encoding" },
      );
    case "FST_ERR_CTP_INVALID_MEDIA_TYPE":
      return new QuiverError("unsupported_media_type", "The Content-Type header cannot be read.");
    case "HPE_HEADER_OVERFLOW":
      return new QuiverError(
        "headers_too_large",
        "The request line and headers are larger than the server takes. Shorten the path or leave out headers.",
      );
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new QuiverError(
        "request_timeout",
        "The request did not arrive completely in time, and nothing of it was applied. Send it again.",
      );
    default:
      break;
  }
  // The HTTP parser: HPE_INVALID_METHOD, HPE_INVALID_CONTENT_LENGTH, ...
  if (typeof code === "string" && code.startsWith("HPE_")) {
    return new QuiverError("invalid_request", `The request is not valid HTTP/1.1 (${code}).`, {
      path: "request",
      expected: "HTTP/1.1",
      received: code,
    });
  }
  return undefined;
}
