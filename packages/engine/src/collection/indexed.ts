// Since when are a transaction's records in their final places in every index of this node?
//
// Indexes are built by each node for itself, so this is no operation of the log, in no version's hash and in no backup. It is
// kept in the collection's store, so that a transaction's status is the same after a restart.

import { readU53, u53Key } from "../base/bytes.ts";
import type { Reader, Writer } from "../storage/store.ts";
import { readHead } from "./head.ts";
import { oldestTransaction } from "./transaction.ts";

/** Sequence number of a transaction, and when it was found to be indexed. */
export type IndexedTransaction = readonly [sequence: number, indexedMs: number];

/** Notes transactions, and forgets those that the collection has forgotten. */
export function noteIndexed(writer: Writer, transactions: readonly IndexedTransaction[]): void {
  const oldest = oldestTransaction(readHead(writer));
  const forgotten = [...writer.keys("indexed", { end: u53Key(oldest) })];
  for (const key of forgotten) writer.delete("indexed", key);
  for (const [sequence, indexedMs] of transactions)
    if (sequence >= oldest) writer.put("indexed", u53Key(sequence), u53Key(indexedMs));
}

/** When a transaction was found to be indexed; undefined where it was not, or this is not noted yet. */
export function indexedMs(reader: Reader, sequence: number): number | undefined {
  const bytes = reader.get("indexed", u53Key(sequence));
  return bytes && readU53(bytes);
}
