// Which states does a transaction go through?
//
//            begin                   commit
//   (none) ---------> open --------------------> committed
//                      |  \  commit, staged data corrupted
//        abort, or idle |    \---------------> failed
//                      v
//                   aborted
//
// Each arrow is an operation of a log entry (apply.ts). Whether a committed transaction is indexed is local to each node (indexed.ts).
// The functions named `require...` run before an entry exists: they only read, and may refuse. The others change, and never refuse.
//
// Invariants:
//   - A collection has at most one open transaction; the head names it.
//   - A staged operation is durable when it is acknowledged. Each id has one position: the first operation on an id gets the next
//     position, and a later operation on it replaces the first. So repeating a batch changes nothing, not even the order of the commit.
//   - Commit applies all positions in order as one version. The same store write removes them.
//
// Staged operations are read and applied one at a time: a transaction may be far larger than memory.

import { QuiverError } from "@quiver/protocol/errors";
import { limits } from "@quiver/protocol/limits";
import { readU32Key, text, toHex, u32Key, u53Key, utf8 } from "../base/bytes.ts";
import { failpoint } from "../base/failpoint.ts";
import { invariant } from "../base/invariant.ts";
import type { Reader, Writer } from "../storage/store.ts";
import type { Change } from "./change.ts";
import type { Head } from "./head.ts";
import { type Encoded, type Operation, readOperations } from "./record.ts";

export type TransactionEntry = {
  id: string;
  sequence: number;
  state: "open" | "committed" | "aborted" | "failed";
  createdMs: number;
  updatedMs: number;
  committedMs?: number;
  endedMs?: number;
  message?: string;
  /** Positions staged; while open. */
  staged: number;
  /** Operations received, including those that later ones replaced. */
  upserts: number;
  deletes: number;
  /** How many live records the commit would add, judged at the time of staging each operation. */
  growth: number;
  /** Bytes of all staged operations, including those that later ones replaced. */
  stagedBytes?: number;
  /** The version that the commit made. */
  version?: number;
};

/** The operation on an id, and its position. `growth`: by how much it would change the number of live records, judged when staged. */
export type StagedId = { position: number; kind: "upsert" | "delete"; growth: -1 | 0 | 1 };

function encodeStagedId({ position, kind, growth }: StagedId): Uint8Array {
  const bytes = new Uint8Array(6);
  bytes.set(u32Key(position), 0);
  bytes[4] = kind === "upsert" ? 1 : 0;
  bytes[5] = growth + 1;
  return bytes;
}

/** The entry of an id among those that the open transaction has staged. */
export function decodeStagedId(bytes: Uint8Array): StagedId {
  return {
    position: readU32Key(bytes),
    kind: bytes[4] === 1 ? "upsert" : "delete",
    growth: (bytes[5] - 1) as StagedId["growth"],
  };
}

export function writeTransaction(writer: Writer, entry: TransactionEntry): void {
  writer.put("transactions", u53Key(entry.sequence), utf8(JSON.stringify(entry)));
}

function decode(bytes: Uint8Array): TransactionEntry {
  return JSON.parse(text(bytes)) as TransactionEntry;
}

/** The sequence number at the start of a transaction's id; NaN if Quiver did not make the id. */
export function transactionSequence(id: string): number {
  return /^[0-9a-z]{1,10}-[0-9a-f]{24}$/.test(id) ? Number.parseInt(id, 36) : Number.NaN;
}

/** The transaction with this id. @throws transaction_not_found */
export function readTransaction(reader: Reader, id: string): TransactionEntry {
  const sequence = transactionSequence(id);
  if (Number.isSafeInteger(sequence)) {
    const bytes = reader.get("transactions", u53Key(sequence));
    const entry = bytes && decode(bytes);
    if (entry?.id === id) return entry;
  }
  throw new QuiverError(
    "transaction_not_found",
    `The collection has no transaction '${id.slice(0, 80)}'. POST .../transactions begins one.`,
    { transaction_id: id.slice(0, 80) },
  );
}

/** All stored transactions, newest first. */
export function listTransactions(reader: Reader): TransactionEntry[] {
  return [...reader.entries("transactions", { reverse: true })].map(([, bytes]) => decode(bytes));
}

export function openTransaction(reader: Reader, head: Head): TransactionEntry | undefined {
  if (head.openTransaction === 0) return undefined;
  const bytes = reader.get("transactions", u53Key(head.openTransaction));
  invariant(bytes !== undefined, "the head names an open transaction that does not exist");
  return decode(bytes);
}

/** @throws transaction_ongoing */
export function requireNoneOpen(reader: Reader, head: Head): void {
  if (head.openTransaction === 0) return;
  const open = openTransaction(reader, head);
  throw new QuiverError(
    "transaction_ongoing",
    "There is an on-going transaction! A collection has at most one; commit or abort it first.",
    { transaction_id: open?.id },
  );
}

/** The id of the next transaction. @param random 24 hex characters that make it unguessable */
export function nextTransactionId(head: Head, random: string): string {
  return `${head.nextTransaction.toString(36)}-${random}`;
}

/** Begins the collection's transaction, and forgets the oldest one. Changes `head`, which the caller writes. */
export function begin(writer: Writer, head: Head, timeMs: number, id: string): TransactionEntry {
  invariant(head.openTransaction === 0, "a transaction begins while another one is open");
  const sequence = head.nextTransaction++;
  invariant(id.startsWith(`${sequence.toString(36)}-`), `the transaction '${id}' is not number ${sequence}`);
  head.openTransaction = sequence;
  const entry: TransactionEntry = {
    id,
    sequence,
    state: "open",
    createdMs: timeMs,
    updatedMs: timeMs,
    staged: 0,
    upserts: 0,
    deletes: 0,
    growth: 0,
  };
  writeTransaction(writer, entry);
  failpoint("begin:written");
  const forgotten = [...writer.keys("transactions", { end: u53Key(oldestTransaction(head)) })];
  for (const key of forgotten) writer.delete("transactions", key);
  return entry;
}

/** The smallest number of a stored transaction. */
export function oldestTransaction(head: Head): number {
  return Math.max(0, head.nextTransaction - limits.transactionsKept);
}

/** @throws transaction_not_open */
export function requireOpen(entry: TransactionEntry): void {
  if (entry.state === "open") return;
  throw new QuiverError(
    "transaction_not_open",
    `The transaction '${entry.id}' is ${entry.state}; only an open one takes operations, a commit or an abort. Begin a new one.`,
    { transaction_id: entry.id, state: entry.state },
  );
}

/** The limits for staging a batch. */
export type StageLimits = {
  /** Whether a live record has the id. */
  exists(id: Uint8Array): boolean;
  /** How many records the collection may still take; Infinity without max_vectors. */
  roomFor: number;
  maxVectors: number | null;
};

/** @throws vector_not_found, max_vectors_exceeded */
export function requireStageable(
  reader: Reader,
  entry: TransactionEntry,
  batch: Uint8Array,
  { exists, roomFor, maxVectors }: StageLimits,
): void {
  for (const operation of readOperations(batch))
    if (operation.kind === "delete") requireDeletable(reader, operation.id, exists);
  if (Number.isFinite(roomFor)) {
    const growth = entry.growth + stagedGrowth(reader, batch, exists);
    if (growth > roomFor) throw tooManyVectors(maxVectors, growth - roomFor);
  }
}

/** Stages operations. @param exists whether a live record has the id */
export function stage(
  writer: Writer,
  entry: TransactionEntry,
  batch: Uint8Array,
  timeMs: number,
  exists: (id: Uint8Array) => boolean,
): void {
  for (const operation of readOperations(batch)) stageOne(writer, entry, operation, exists(operation.id));
  failpoint("stage:staged");
  entry.updatedMs = timeMs;
  entry.stagedBytes = (entry.stagedBytes ?? 0) + batch.length;
  writeTransaction(writer, entry);
}

function requireDeletable(reader: Reader, id: Uint8Array, exists: (id: Uint8Array) => boolean): void {
  const staged = reader.get("stagedIds", id);
  if ((staged && decodeStagedId(staged).kind === "upsert") || exists(id)) return;
  const name = text(id);
  throw new QuiverError(
    "vector_not_found",
    `The vector '${name.slice(0, 80)}' is neither in the collection nor in the transaction, so it cannot be deleted.`,
    { vector_id: name },
  );
}

function growthOf(operation: Operation, present: boolean): StagedId["growth"] {
  if (operation.kind === "upsert") return present ? 0 : 1;
  return present ? -1 : 0;
}

/** By how much a batch would change the transaction's growth. */
function stagedGrowth(reader: Reader, batch: Uint8Array, exists: (id: Uint8Array) => boolean): number {
  const growths = new Map<string, number>();
  let before = 0;
  for (const operation of readOperations(batch)) {
    const name = text(operation.id);
    if (!growths.has(name)) {
      const staged = reader.get("stagedIds", operation.id);
      if (staged) before += decodeStagedId(staged).growth;
    }
    growths.set(name, growthOf(operation, exists(operation.id)));
  }
  let after = 0;
  for (const growth of growths.values()) after += growth;
  return after - before;
}

function stageOne(writer: Writer, entry: TransactionEntry, operation: Encoded, present: boolean): void {
  const earlierBytes = writer.get("stagedIds", operation.id);
  const earlier = earlierBytes && decodeStagedId(earlierBytes);
  if (earlier) entry.growth -= earlier.growth;
  if (entry.staged > limits.ordinalMax) throw new QuiverError("storage_full", "The transaction is full.");
  const position = earlier ? earlier.position : entry.staged++;
  const growth = growthOf(operation, present);
  entry.growth += growth;
  if (operation.kind === "upsert") entry.upserts++;
  else entry.deletes++;
  writer.put("staged", u32Key(position), operation.bytes);
  failpoint("stage:operation");
  writer.put("stagedIds", operation.id, encodeStagedId({ position, kind: operation.kind, growth }));
}

export function tooManyVectors(maxVectors: number | null, excess: number): QuiverError {
  return new QuiverError(
    "max_vectors_exceeded",
    `The operation would exceed the collection's max_vectors of ${maxVectors} by ${excess}. Nothing was changed; delete vectors first.`,
    { max_vectors: maxVectors, excess },
  );
}

/**
 * Applies all staged operations to a change. The caller publishes it and ends the transaction in the same
 * write. A delete of an id that is gone by now does nothing.
 */
export function applyStaged(writer: Writer, entry: TransactionEntry, change: Change): void {
  for (let position = 0; position < entry.staged; position++) {
    const bytes = writer.get("staged", u32Key(position));
    if (bytes === undefined)
      throw new QuiverError(
        "data_corrupted",
        `Position ${position} of ${entry.staged} of the transaction's operations is missing. Send the operations again in a new one.`,
        { table: "staged", key: toHex(u32Key(position)) },
      );
    // Copy the bytes: they are valid only until the next call on the store, and applying an operation makes many calls.
    for (const operation of readOperations(bytes.slice())) {
      if (operation.kind === "upsert") change.upsert(operation);
      else change.delete(operation.id);
    }
  }
}

/** Ends an open transaction: removes its staged operations, so that the next one can begin. Changes `head`. */
export function end(
  writer: Writer,
  head: Head,
  entry: TransactionEntry,
  ended: Partial<TransactionEntry> & Pick<TransactionEntry, "state">,
): void {
  invariant(head.openTransaction === entry.sequence, "the ended transaction is not the open one");
  head.openTransaction = 0;
  Object.assign(entry, ended, { staged: 0 });
  writer.clear("staged");
  failpoint("end:unstaged");
  writer.clear("stagedIds");
  writeTransaction(writer, entry);
}
