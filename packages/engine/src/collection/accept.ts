// May a request be applied, and as which operation of the log?
//
// Everything that depends on the moment is decided here, before a log entry exists: whether the request is refused, the id of
// a new transaction, whether a transaction has been idle for long enough to be aborted. This reads and changes nothing, so a refused
// request leaves no trace. What it returns can be applied in the same state without asking again.

import { QuiverError } from "@quiver/protocol/errors";
import type { DenseIndex, IndexKind, SparseIndex, TextIndex } from "@quiver/protocol/shapes/index-definition";
import { text } from "../base/bytes.ts";
import type { Reader } from "../storage/store.ts";
import { type LogOperation, readIndexDefinitions } from "./apply.ts";
import type { Head } from "./head.ts";
import type { IndexedTransaction } from "./indexed.ts";
import { readOperations } from "./record.ts";
import * as transactions from "./transaction.ts";

/** A request that becomes an operation of the log. */
export type LoggedRequest =
  | { kind: "upsert"; batch: Uint8Array }
  | { kind: "delete"; batch: Uint8Array }
  /** Begins a transaction. @param random 24 hex characters that make its id unguessable */
  | { kind: "begin"; random: string }
  | { kind: "stage"; transactionId: string; batch: Uint8Array }
  | { kind: "commit"; transactionId: string }
  /** Aborts; with `idleSinceMs` only when the last operation is not newer than that. */
  | { kind: "abort"; transactionId: string; idleSinceMs?: number }
  /** Ends a transaction that cannot be committed. */
  | { kind: "fail"; transactionId: string; message: string }
  | { kind: "createIndex"; index: IndexKind; definition: DenseIndex | SparseIndex | TextIndex }
  | { kind: "deleteIndex"; index: IndexKind };

/** What a node notes for itself: durable like an operation, and no part of the log. */
export type LocalNote = { kind: "noteIndexed"; transactions: readonly IndexedTransaction[] };

/** What a collection's writer can be asked for. */
export type WriteRequest = LoggedRequest | LocalNote;

/**
 * The operation that a request becomes in this state; null where nothing is left to do.
 * @param maxVectors how many live records the collection may have; null: no limit
 * @throws what the request is refused with (a status below 500), and data_corrupted
 */
export function accept(
  reader: Reader,
  head: Head,
  request: LoggedRequest,
  maxVectors: number | null,
): LogOperation | null {
  const exists = (id: Uint8Array): boolean => reader.get("ids", id) !== undefined;
  const roomFor = maxVectors === null ? Number.POSITIVE_INFINITY : maxVectors - head.live;
  switch (request.kind) {
    case "upsert":
      if (maxVectors !== null) requireRoom(request.batch, exists, roomFor, maxVectors);
      return request;
    case "delete":
      for (const { id } of readOperations(request.batch)) if (!exists(id)) throw vectorNotFound(id);
      return request;
    case "begin":
      transactions.requireNoneOpen(reader, head);
      return { kind: "begin", transactionId: transactions.nextTransactionId(head, request.random) };
    case "stage": {
      const entry = openEntry(reader, request.transactionId);
      transactions.requireStageable(reader, entry, request.batch, { exists, roomFor, maxVectors });
      return request;
    }
    case "commit":
    case "fail":
      openEntry(reader, request.transactionId);
      return request;
    case "abort": {
      const { transactionId, idleSinceMs } = request;
      const { updatedMs } = openEntry(reader, transactionId);
      const isBusy = idleSinceMs !== undefined && updatedMs > idleSinceMs;
      return isBusy ? null : { kind: "abort", transactionId };
    }
    case "createIndex":
      requireNoIndex(reader, request.index);
      return request;
    case "deleteIndex":
      requireIndex(reader, request.index);
      return request;
  }
}

/**
 * Whether what a request has made is within the limits that only its application shows.
 * @param head after the request
 * @throws max_vectors_exceeded
 */
export function requireWithinLimits(request: LoggedRequest, head: Head, maxVectors: number | null): void {
  if (request.kind === "commit" && maxVectors !== null && head.live > maxVectors)
    throw transactions.tooManyVectors(maxVectors, head.live - maxVectors);
}

function openEntry(reader: Reader, transactionId: string): transactions.TransactionEntry {
  const entry = transactions.readTransaction(reader, transactionId);
  transactions.requireOpen(entry);
  return entry;
}

function requireRoom(
  batch: Uint8Array,
  exists: (id: Uint8Array) => boolean,
  room: number,
  maxVectors: number,
): void {
  const fresh = new Set<string>();
  for (const { id } of readOperations(batch)) if (!exists(id)) fresh.add(text(id));
  if (fresh.size > room) throw transactions.tooManyVectors(maxVectors, fresh.size - room);
}

function vectorNotFound(id: Uint8Array): QuiverError {
  const name = text(id);
  return new QuiverError(
    "vector_not_found",
    `The collection has no vector '${name.slice(0, 80)}'; nothing was deleted.`,
    { vector_id: name },
  );
}

function requireNoIndex(reader: Reader, kind: IndexKind): void {
  if (readIndexDefinitions(reader)[kind] === undefined) return;
  throw new QuiverError(
    "index_already_exists",
    `The ${kind} index already exists for the collection. DELETE .../indexes/${kind} removes it first.`,
    { index_type: kind },
  );
}

function requireIndex(reader: Reader, kind: IndexKind): void {
  if (readIndexDefinitions(reader)[kind] !== undefined) return;
  throw new QuiverError("index_not_found", `The collection has no ${kind} index; nothing was deleted.`, {
    index_type: kind,
  });
}
