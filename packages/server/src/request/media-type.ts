// Is a body declared as JSON in UTF-8, without compression?

import { QuiverError } from "@quiver/protocol/errors";

/** The error, or undefined for `application/json` with no charset or UTF-8 and no content encoding. */
export function mediaTypeFault(
  contentType: string | undefined,
  contentEncoding: string | undefined,
): QuiverError | undefined {
  if (contentType === "application/json" && contentEncoding === undefined) return undefined;
  if (contentType === undefined) {
    return unsupported("The request has a body but no Content-Type. Send `Content-Type: application/json`.");
  }
  const [mediaType, ...parameters] = contentType.split(";").map((part) => part.trim().toLowerCase());
  if (mediaType !== "application/json") {
    return unsupported(
      "The Content-Type of the request body is not application/json. Send JSON with `Content-Type: application/json`.",
    );
  }
  const charset = parameters.find((parameter) => parameter.startsWith("charset="))?.slice("charset=".length);
  if (charset !== undefined && !/^"?(utf-?8|us-ascii)"?$/.test(charset)) {
    return unsupported("The declared charset of the request body is not UTF-8. Send UTF-8.");
  }
  if (contentEncoding !== undefined && contentEncoding.toLowerCase() !== "identity") {
    return unsupported("The request body is declared as compressed. Send it without a Content-Encoding.");
  }
  return undefined;
}

/** The error, or undefined for `application/octet-stream` without a content encoding. */
export function uploadFault(
  contentType: string | undefined,
  contentEncoding: string | undefined,
): QuiverError | undefined {
  const mediaType = contentType?.split(";")[0].trim().toLowerCase();
  if (mediaType !== "application/octet-stream") {
    return unsupported(
      "The Content-Type of the file is not application/octet-stream. Send its bytes with `Content-Type: application/octet-stream`.",
    );
  }
  if (contentEncoding !== undefined && contentEncoding.toLowerCase() !== "identity") {
    return unsupported("The file is declared as compressed in transit. Send it without a Content-Encoding.");
  }
  return undefined;
}

const unsupported = (message: string) => new QuiverError("unsupported_media_type", message);
