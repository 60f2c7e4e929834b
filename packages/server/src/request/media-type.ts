// Is a body declared to be what the server reads, JSON in UTF-8 as it is?

import { QuiverError } from "@quiver/protocol/errors";

/** Undefined for `application/json`, with or without a charset of UTF-8, and without a content encoding. */
export function mediaTypeFault(
  contentType: string | undefined,
  contentEncoding: string | undefined,
): QuiverError | undefined {
  if (contentType === undefined) {
    return unsupported("The request has a body but no Content-Type. Send `Content-Type: application/json`.");
  }
  const [mediaType, ...parameters] = contentType.split(";").map((part) => part.trim().toLowerCase());
  if (mediaType !== "application/json") {
    return unsupported("The request body is not declared as application/json. Send JSON, declared as such.");
  }
  const charset = parameters.find((parameter) => parameter.startsWith("charset="))?.slice("charset=".length);
  if (charset !== undefined && !/^"?(utf-?8|us-ascii)"?$/.test(charset)) {
    return unsupported("The request body is declared in another charset than UTF-8. Send UTF-8.");
  }
  if (contentEncoding !== undefined && contentEncoding.toLowerCase() !== "identity") {
    return unsupported("The request body is declared as compressed. Send it without a Content-Encoding.");
  }
  return undefined;
}

/** Undefined for `application/octet-stream` without a content encoding. */
export function uploadFault(
  contentType: string | undefined,
  contentEncoding: string | undefined,
): QuiverError | undefined {
  const mediaType = contentType?.split(";")[0].trim().toLowerCase();
  if (mediaType !== "application/octet-stream") {
    return unsupported(
      "The file is not declared as application/octet-stream. Send its bytes, declared as such.",
    );
  }
  if (contentEncoding !== undefined && contentEncoding.toLowerCase() !== "identity") {
    return unsupported("The file is declared as compressed on its way. Send it without a Content-Encoding.");
  }
  return undefined;
}

const unsupported = (message: string) => new QuiverError("unsupported_media_type", message);
