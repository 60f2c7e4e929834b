// Which states does a transaction go through?
//
//            begin                   commit
//   (none) ---------> open --------------------> committed
//                      |  \  commit, staged data corrupted
//        abort, or idle |    \---------------> failed
//                      v
//                   aborted
//
// Each arrow is an operation of a log entry (apply.ts). Whether a committed transaction is indexed is local to each node.
// The functions named `require...` run before an entry exists: they only read, and may refuse. The others change, and never refuse.
//
// Invariants:
//   - A collection has at most one open transaction; the head names it.
//   - A staged operation is durable when it is acknowledged (staging.ts).
//   - Commit applies all staged operations in order as one version. The same store write removes them.

import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import { readU53, text, u53Key, utf8 } from "../base/bytes.ts";
import { failpoint } from "../base/failpoint.ts";
import { invariant } from "../base/invariant.ts";
import type { Reader, Writer } from "../storage/store.ts";
import { type Head, readHead } from "./head.ts";

export type TransactionEntry = {
  id: string;
  sequence: number;
  state: "open" | "committed" | "aborted" | "failed";
  createdMs: number;
  updatedMs: number;
  committedMs?: number;
  endedMs?: number;
  message?: string;
  /** Ids with a staged operation; while open. */
  staged: number;
  /** Operations received, including those that later ones replaced. */
  upserts: number;
  deletes: number;
  /** How many live records the commit would add, judged at the time of staging each operation. */
  growth: number;
  /** Bytes of all staged operations, including those that later ones replaced. */
  stagedBytes?: number;
  /** Length of the spool, which has the staged operations; while open. */
  spoolBytes?: number;
  /** The version that the commit made. */
  version?: number;
};

export function writeTransaction(writer: Writer, entry: TransactionEntry): void {
  const { id, sequence, staged, upserts, deletes } = entry;
  invariant(transactionSequence(id) === sequence, `the transaction '${id}' has number ${sequence}`);
  invariant(staged <= upserts + deletes, `${upserts + deletes} operations of '${id}' have ${staged} ids`);
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
  throw transactionNotFound(id);
}

export const transactionNotFound = (id: string): QuiverError =>
  new QuiverError(
    "transaction_not_found",
    `The collection has no transaction '${id.slice(0, 80)}'. POST .../transactions begins one.`,
    { transaction_id: id.slice(0, 80) },
  );

/** All stored transactions, newest first. */
export function listTransactions(reader: Reader): TransactionEntry[] {
  return [...reader.entries("transactions", { reverse: true })].map(([, bytes]) => decode(bytes));
}

export function openTransaction(reader: Reader, head: Head): TransactionEntry | undefined {
  if (head.openTransaction === 0) return undefined;
  const bytes = reader.get("transactions", u53Key(head.openTransaction));
  invariant(bytes !== undefined, "the head names an open transaction that does not exist");
  const entry = decode(bytes);
  invariant(entry.state === "open", `the head names '${entry.id}' as open, which is ${entry.state}`);
  return entry;
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

/** Ends an open transaction: removes its staged operations, so that the next one can begin. Changes `head`. */
export function end(
  writer: Writer,
  head: Head,
  entry: TransactionEntry,
  ended: Partial<TransactionEntry> & Pick<TransactionEntry, "state">,
): void {
  invariant(
    head.openTransaction === entry.sequence,
    `transaction ${entry.sequence} ends, and ${head.openTransaction} is open`,
  );
  invariant(ended.state !== "open", `the transaction '${entry.id}' ends and stays open`);
  head.openTransaction = 0;
  Object.assign(entry, ended, { staged: 0, spoolBytes: 0 });
  writer.clear("staged");
  failpoint("end:unstaged");
  writer.clear("stagedIds");
  writer.clear("conditions");
  writer.removeSpool(entry.sequence);
  writeTransaction(writer, entry);
}

// ---- When did the records of a transaction reach their final places in all indexes of this node?
//
// Each node builds its own indexes. So this time is no operation of the log, and neither part of a version's hash nor of a backup. The
// collection's store keeps it, so that the status of a transaction survives a restart.

/** Sequence number of a transaction, and the time at which its indexing was found complete. */
export type IndexedTransaction = readonly [sequence: number, indexedMs: number];

/** Stores the times of transactions, and removes those of transactions that the collection no longer keeps. */
export function noteIndexed(writer: Writer, transactions: readonly IndexedTransaction[]): void {
  const oldest = oldestTransaction(readHead(writer));
  const forgotten = [...writer.keys("indexed", { end: u53Key(oldest) })];
  for (const key of forgotten) writer.delete("indexed", key);
  for (const [sequence, indexedMs] of transactions) {
    invariant(
      Number.isSafeInteger(indexedMs) && indexedMs >= 0,
      `transaction ${sequence} was indexed at ${indexedMs} ms`,
    );
    if (sequence >= oldest) writer.put("indexed", u53Key(sequence), u53Key(indexedMs));
  }
}

/** The time at which the indexing of a transaction was found complete; undefined if it is not complete or not stored yet. */
export function indexedMs(reader: Reader, sequence: number): number | undefined {
  const bytes = reader.get("indexed", u53Key(sequence));
  if (bytes === undefined) return undefined;
  invariant(bytes.length === 8, `the time of transaction ${sequence} has ${bytes.length} bytes`);
  return readU53(bytes);
}
