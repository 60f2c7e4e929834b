// Which messages do threads send to the writer thread, and how does it reply?
//
// Every message has a number and gets exactly one reply, in any order. Batches travel as transferred buffers. Errors travel as plain
// objects, from which the receiver rebuilds the error.

import { type ErrorCode, type ErrorDetails, QuiverError } from "@quiverdb/protocol/errors";
import type { WriteRequest } from "../collection/accept.ts";
import type { CatalogRequest } from "../collection/catalog.ts";
import type { CollectionDefinition } from "../collection/definition.ts";

export type WriterStart = { dataDir: string; versionsKept: number };

/** Opens a collection's store, and creates it if it is missing. */
export type OpenStoreCommand = {
  to: "store";
  kind: "open";
  internalId: string;
  createdMs: number;
  definition: CollectionDefinition;
};

export type WriterCommand =
  | OpenStoreCommand
  | { to: "store"; kind: "close"; internalId: string }
  | { to: "catalogStore"; kind: "open" | "close" }
  | { to: "collection"; internalId: string; request: WriteRequest }
  | { to: "catalog"; request: CatalogRequest }
  | { to: "writer"; kind: "stop" };

export type WriterMessage = { number: number; command: WriterCommand };

export type WriterReply =
  | { number: number; ok: true; version: number; value: unknown }
  | { number: number; ok: false; error: WireError };

/**
 * `ready`: sent once. `committed`: sent after each log entry, with the number of its requests. `broken`: every thread must close and reopen
 * this store before it is usable again (null means the catalog).
 */
export type WriterNotice =
  | { notice: "ready" }
  | { notice: "committed"; requests: number }
  | { notice: "broken"; internalId: string | null };

export type WireError = { code: ErrorCode; message: string; details: ErrorDetails; cause?: string };

export function toWire(error: unknown): WireError {
  if (error instanceof QuiverError) {
    const { code, message, details, cause } = error;
    return { code, message, details, ...(cause instanceof Error && { cause: cause.stack ?? cause.message }) };
  }
  return {
    code: "internal",
    message: "The writer failed; nothing of the request was applied.",
    details: {},
    cause: error instanceof Error ? (error.stack ?? error.message) : String(error),
  };
}

export function fromWire({ code, message, details, cause }: WireError): QuiverError {
  return new QuiverError(
    code,
    message,
    details,
    cause === undefined ? undefined : { cause: new Error(cause) },
  );
}
