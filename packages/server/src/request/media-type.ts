// In which format is a body declared, in UTF-8 and without compression?
//
// Every route with a body takes JSON. Those that take many records also take them as lines of JSON, and as MessagePack.

import { QuiverError } from "@quiverdb/protocol/errors";

export type BodyFormat = "json" | "ndjson" | "msgpack";

/** The formats by their media types. */
const formats: Readonly<Record<string, BodyFormat>> = {
  "application/json": "json",
  "application/x-ndjson": "ndjson",
  "application/msgpack": "msgpack",
};

/**
 * The format of a body with these headers, or the error that rejects it.
 * @param isBulk whether the route takes many records
 */
export function bodyFormatOf(
  contentType: string | undefined,
  contentEncoding: string | undefined,
  isBulk: boolean,
): BodyFormat | QuiverError {
  if (contentType === "application/json" && contentEncoding === undefined) return "json";
  const accepted = isBulk ? Object.keys(formats).join(", ") : "application/json";
  if (contentType === undefined) {
    return unsupported(`The request has a body but no Content-Type. Send one of: ${accepted}.`);
  }
  const [mediaType, ...parameters] = contentType.split(";").map((part) => part.trim().toLowerCase());
  const format = Object.hasOwn(formats, mediaType) ? formats[mediaType] : undefined;
  if (format === undefined || (format !== "json" && !isBulk)) {
    return unsupported(
      `The Content-Type of the request body is not one that the endpoint takes. Send one of: ${accepted}.`,
    );
  }
  const charset = parameters.find((parameter) => parameter.startsWith("charset="))?.slice("charset=".length);
  if (charset !== undefined && !/^"?(utf-?8|us-ascii)"?$/.test(charset)) {
    return unsupported("The declared charset of the request body is not UTF-8. Send UTF-8.");
  }
  if (contentEncoding !== undefined && contentEncoding.toLowerCase() !== "identity") {
    return unsupported("The request body is declared as compressed. Send it without a Content-Encoding.");
  }
  return format;
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
