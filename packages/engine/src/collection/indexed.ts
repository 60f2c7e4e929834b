// When did the records of a transaction reach their final places in all indexes of this node?
//
// Each node builds its own indexes. So this time is no operation of the log, and neither part of a version's hash nor of a backup. The
// collection's store keeps it, so that the status of a transaction survives a restart.

import { readU53, u53Key } from "../base/bytes.ts";
import { invariant } from "../base/invariant.ts";
import type { Reader, Writer } from "../storage/store.ts";
import { readHead } from "./head.ts";
import { oldestTransaction } from "./transaction.ts";

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
