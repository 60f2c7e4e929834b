// Is a request acceptable, and which operation of the log does it become?
//
// Accepting decides everything that depends on the current state and time, before a log entry exists: whether to refuse the request, the
// id of a new transaction, whether a transaction was idle long enough to be aborted. It only reads, so a refused request leaves no
// trace. In the same state, applying the returned operation needs no further checks.

import { QuiverError } from "@quiverdb/protocol/errors";
import {
  type IndexDefinition,
  type IndexKind,
  isMetadataIndex,
  metadataPrefix,
} from "@quiverdb/protocol/shapes/index-definition";
import { text } from "../base/bytes.ts";
import type { Reader } from "../storage/store.ts";
import { fingerprintOf, type Once } from "./answers.ts";
import { type HistoryOperation, type LogOperation, readIndexDefinitions } from "./apply.ts";
import { type ChangeMatching, changeOf } from "./change-matching.ts";
import type { Head } from "./head.ts";
import { readTag, requireNoTag, requireReadable, tagNotFound } from "./history.ts";
import { KeyFilterRules, type WriterKeyFilter } from "./key-filter.ts";
import { type RecordCondition, readConditions, readOperations } from "./record.ts";
import { bornOf, exists as isThere } from "./shard.ts";
import { requireStageable, stagedConditions, tooManyVectors } from "./staging.ts";
import type { IndexedTransaction } from "./transaction.ts";
import * as transactions from "./transaction.ts";

/**
 * A request that becomes an operation of the log. `keyFilter`: the records that its caller sees; absent: all. `ifVersion`: it is refused where
 * another version is current.
 */
export type LoggedRequest = (
  | { kind: "upsert"; batch: Uint8Array; keyFilter?: WriterKeyFilter | undefined; ifVersion?: number }
  | { kind: "delete"; batch: Uint8Array; keyFilter?: WriterKeyFilter | undefined; ifVersion?: number }
  /**
   * The upserts and deletes of a merge, and of what several shards have found. `from`: what was asked for; `told`: its answer; `holdMs`: if
   * others' writes have overtaken it, they wait so long for the next attempt.
   */
  | {
      kind: "change";
      batch: Uint8Array;
      from: string;
      told?: object;
      ifVersion?: number;
      holdMs?: number;
    }
  | ChangeMatching
  /** Begins a transaction. @param random 24 hex characters that make its id unguessable */
  | { kind: "begin"; random: string }
  | { kind: "stage"; transactionId: string; batch: Uint8Array; keyFilter?: WriterKeyFilter | undefined }
  | { kind: "commit"; transactionId: string; keyFilter?: WriterKeyFilter | undefined; ifVersion?: number }
  /** Aborts a transaction. With `idleSinceMs`: only if its last operation is not newer than that. */
  | { kind: "abort"; transactionId: string; idleSinceMs?: number }
  /** Ends a transaction that cannot be committed. */
  | { kind: "fail"; transactionId: string; message: string }
  | { kind: "createIndex"; index: IndexKind; definition: IndexDefinition }
  | { kind: "deleteIndex"; index: IndexKind }
  | HistoryOperation
) & { readonly once?: Once };

/** Parts of a request that are the same whenever its caller sends it again, to tell it from others with the same key. */
export function fingerprint(request: LoggedRequest): string {
  const { batch, ...rest } = request as LoggedRequest & { batch?: Uint8Array };
  switch (rest.kind) {
    case "deleteMatching":
    case "updateMatching":
      // The batch has what matched when it was sent.
      return fingerprintOf({ ...rest, matching: rest.matching.filter });
    case "patch":
      return fingerprintOf({ ...rest, id: text(rest.id) });
    case "change":
      return fingerprintOf({ kind: rest.kind, from: rest.from });
    case "begin":
    case "putTag":
      return fingerprintOf({ ...rest, random: "", version: 0 });
    default:
      return fingerprintOf(rest, batch);
  }
}

/** State that is local to a node: durable like an operation, but not part of the log. */
export type LocalNote = { kind: "noteIndexed"; transactions: readonly IndexedTransaction[] };

/** A request to the writer of a collection. */
export type WriteRequest = LoggedRequest | LocalNote;

/**
 * Whether a request is an entry, and a message of a replicated log, of its own: a commit makes a version of its own, and what concerns earlier
 * versions must not meet a version that is being made.
 */
export const isAlone = (request: { readonly kind: string }): boolean =>
  aloneKinds.has(request.kind) || (request.kind === "change" && "ifVersion" in request);

const aloneKinds: ReadonlySet<string> = new Set<LoggedRequest["kind"]>([
  "commit",
  "setHistory",
  "putTag",
  "deleteTag",
  "vacuum",
  "restoreVersion",
]);

/**
 * The operation that a request becomes in this state; null if there is nothing left to do.
 * @param maxVectors the most live records that the collection may have; null for no limit
 * @throws the error that refuses the request (a status below 500), and data_corrupted
 */
export function accept(
  reader: Reader,
  head: Head,
  request: LoggedRequest,
  maxVectors: number | null,
): LogOperation | null {
  const exists = (id: Uint8Array): boolean => isThere(reader, id);
  const roomFor = maxVectors === null ? Number.POSITIVE_INFINITY : maxVectors - head.live;
  const rules =
    "keyFilter" in request && request.keyFilter ? new KeyFilterRules(reader, request.keyFilter) : null;
  const sees = rules === null ? exists : (id: Uint8Array): boolean => rules.sees(id);
  switch (request.kind) {
    case "upsert":
      rules?.requireWritable(request.batch);
      requireUnchanged(reader, readConditions(request.batch));
      if (maxVectors !== null) requireRoom(request.batch, exists, roomFor, maxVectors);
      return { kind: "upsert", batch: request.batch };
    case "delete":
      for (const { id } of readOperations(request.batch)) if (!sees(id)) throw vectorNotFound(id);
      requireUnchanged(reader, readConditions(request.batch));
      return { kind: "delete", batch: request.batch };
    case "change":
      requireUnchanged(reader, readConditions(request.batch));
      if (maxVectors !== null) requireRoom(request.batch, exists, roomFor, maxVectors);
      // Nothing was found to change; that is the answer for whoever sends it again.
      if (readOperations(request.batch).next().done === true) return null;
      return { kind: "change", batch: request.batch };
    case "deleteMatching":
    case "updateMatching":
      return changeOf(reader, head, request);
    case "patch": {
      const { id, born } = request;
      const operation = changeOf(reader, head, request);
      if (born !== undefined) requireUnchanged(reader, [{ id, born }]);
      return operation;
    }
    case "begin":
      transactions.requireNoneOpen(reader, head);
      return { kind: "begin", transactionId: transactions.nextTransactionId(head, request.random) };
    case "stage": {
      const { transactionId, batch } = request;
      const entry = openEntry(reader, transactionId);
      rules?.requireWritable(batch);
      requireStageable(reader, entry, batch, { exists, sees, roomFor, maxVectors });
      return { kind: "stage", transactionId, batch };
    }
    case "commit":
      openEntry(reader, request.transactionId);
      rules?.requireCommittable();
      requireUnchanged(reader, stagedConditions(reader));
      return { kind: "commit", transactionId: request.transactionId };
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
    case "setHistory":
    case "vacuum":
      return request;
    case "putTag":
      requireNoTag(reader, request.name);
      requireReadable(reader, head, request.version);
      return request;
    case "deleteTag":
      if (readTag(reader, request.name) === undefined) throw tagNotFound(reader, request.name);
      return request;
    case "restoreVersion":
      requireReadable(reader, head, request.version);
      return request;
  }
}

/** @throws record_changed if a record is not as a condition asks */
export function requireUnchanged(reader: Reader, conditions: Iterable<RecordCondition>): void {
  for (const { id, born } of conditions) {
    const key = id.slice();
    const current = bornOf(reader, key) || null;
    if ((current ?? 0) === born) continue;
    const name = text(key);
    const found = current === null ? "it does not exist" : `version ${current} wrote it`;
    throw new QuiverError(
      "record_changed",
      `The record '${name.slice(0, 80)}' is not as the write asks for: ${found}, and not ${born === 0 ? "absent" : `version ${born}`}; nothing was changed. Read it again, and decide anew.`,
      { vector_id: name, ...(born === 0 ? { if_absent: true } : { if_match: born }), version: current },
    );
  }
}

/** @param version that is current before the request @throws version_changed */
export function requireVersion(request: LoggedRequest, version: number): void {
  if (!("ifVersion" in request) || request.ifVersion === undefined || request.ifVersion === version) return;
  throw new QuiverError(
    "version_changed",
    `The current version is ${version}, not ${request.ifVersion}; nothing was changed. Read again, and decide anew.`,
    { if_version: request.ifVersion, current_version: version },
  );
}

/**
 * Checks the limits that are known only after applying a request.
 * @param head after the request
 * @throws max_vectors_exceeded
 */
export function requireWithinLimits(request: LoggedRequest, head: Head, maxVectors: number | null): void {
  if (request.kind === "commit" && maxVectors !== null && head.live > maxVectors)
    throw tooManyVectors(maxVectors, head.live - maxVectors);
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
  for (const { kind, id } of readOperations(batch)) if (kind === "upsert" && !exists(id)) fresh.add(text(id));
  if (fresh.size > room) throw tooManyVectors(maxVectors, fresh.size - room);
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
  const { what, path, details } = inWords(kind);
  throw new QuiverError(
    "index_already_exists",
    `The ${what} already exists for the collection. DELETE .../${path} removes it first.`,
    details,
  );
}

function requireIndex(reader: Reader, kind: IndexKind): void {
  if (readIndexDefinitions(reader)[kind] !== undefined) return;
  const { what, details } = inWords(kind);
  throw new QuiverError("index_not_found", `The collection has no ${what}; nothing was deleted.`, details);
}

/** What an index is called outside, where those of the metadata go by their fields. */
function inWords(kind: IndexKind): { what: string; path: string; details: Record<string, string> } {
  if (!isMetadataIndex(kind))
    return { what: `${kind} index`, path: `indexes/${kind}`, details: { index_type: kind } };
  const field = kind.slice(metadataPrefix.length);
  return {
    what: `metadata index of the field '${field.slice(0, 80)}'`,
    path: `metadata-indexes/${encodeURIComponent(field)}`,
    details: { field },
  };
}
