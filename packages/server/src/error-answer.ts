// How is an error translated into an HTTP response?
//
// This is the only place where errors are translated. Errors that the engine or a route threw on purpose (`QuiverError`) are passed on
// unchanged; errors of the transport (Fastify, the HTTP parser) get a code of our table; everything else is `internal`, and only the log
// has its details.

import type { Operation } from "@quiverdb/engine/operations/operations";
import { type ErrorBody, type ErrorDetails, isQuiverError, QuiverError } from "@quiverdb/protocol/errors";

export type ErrorAnswer = {
  readonly status: number;
  readonly body: ErrorBody;
  /** True if the log needs the whole error, because the fault is in the server. */
  readonly serverFault: boolean;
};

/**
 * @param route the endpoint, which may override the status of a code; undefined for an unknown path
 * @param requestId is part of every response with status 500 and above, to find the error in the log
 * @param privateTexts texts that must not leave the server, such as the path of the data directory
 */
export function errorAnswer(
  error: unknown,
  route: Operation | undefined,
  requestId: string,
  privateTexts: readonly string[] = [],
): ErrorAnswer {
  const known = isQuiverError(error) ? error : fromTransport(error);
  const status = known === undefined ? 500 : (route?.statusOf?.[known.code] ?? known.status);
  // A full queue or budget, or a stopping server, is not a fault to investigate.
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

/** True if an error of the server contains a private text. Text that the client itself sent may be returned to it. */
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
        "The request line and headers are larger than the server accepts. Shorten the path or leave out headers.",
      );
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new QuiverError(
        "request_timeout",
        "The request did not arrive completely in time, and nothing was applied. Send it again.",
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
