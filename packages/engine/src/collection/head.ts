// What is the state of a collection right now, in one small record?
//
// Every log entry replaces the head in the store write that applies it. So the head in a read transaction of the store gives the version of
// everything in that read transaction (invariant 3), and the last log entry that it contains.

import { QuiverError } from "@quiverdb/protocol/errors";
import { readU32Key, readU53, toHex, u32Key, writeU53 } from "../base/bytes.ts";
import { invariant } from "../base/invariant.ts";
import type { Reader, Writer } from "../storage/store.ts";
import { metaKeys } from "./tables.ts";

export type Head = {
  /** Number of the current version. */
  version: number;
  /** SHA-256 of the current version, 32 bytes. */
  hash: Uint8Array;
  /** The next unused ordinal; all ordinals in use are smaller. */
  nextOrdinal: number;
  /** Live records, and how many of them carry each kind of content. */
  live: number;
  dense: number;
  sparse: number;
  text: number;
  /** The sequence number that the next transaction gets. */
  nextTransaction: number;
  /** Sequence number of the open transaction, 0 for none. */
  openTransaction: number;
  /** The last log entry that was applied, 0 for none, and its epoch. */
  sequence: number;
  epoch: number;
};

const headBytes = 108;

export function writeHead(writer: Writer, head: Head): void {
  assertHead(head);
  const bytes = new Uint8Array(headBytes);
  bytes.set(head.hash, 0);
  const counters = [
    head.version,
    head.live,
    head.dense,
    head.sparse,
    head.text,
    head.nextTransaction,
    head.openTransaction,
    head.sequence,
    head.epoch,
  ];
  for (const [i, counter] of counters.entries()) {
    invariant(Number.isSafeInteger(counter) && counter >= 0, `counter ${i} of the head is ${counter}`);
    writeU53(bytes, 32 + 8 * i, counter);
  }
  bytes.set(u32Key(head.nextOrdinal), headBytes - 4);
  writer.put("meta", metaKeys.head, bytes);
}

/** The head in a read transaction or inside a write. @throws data_corrupted */
export function readHead(reader: Reader): Head {
  const bytes = reader.get("meta", metaKeys.head);
  if (bytes === undefined)
    throw new QuiverError("data_corrupted", "The store has no head: the collection's version is not known.", {
      table: "meta",
      key: toHex(metaKeys.head),
    });
  const head = decodeHead(bytes);
  assertHead(head);
  return head;
}

/** Asserts what is true of every head, before it is written and after it is read. */
function assertHead({ hash, version, live, nextOrdinal, nextTransaction, openTransaction }: Head): void {
  invariant(hash.length === 32, () => `the hash of the current version ${version} has ${hash.length} bytes`);
  invariant(live <= nextOrdinal, () => `the head counts ${live} live records of ${nextOrdinal} ordinals`);
  invariant(
    openTransaction < nextTransaction,
    () => `transaction ${openTransaction} is open, and the next one is ${nextTransaction}`,
  );
}

/** The head, from its bytes. */
export function decodeHead(bytes: Uint8Array): Head {
  invariant(bytes.length === headBytes, `a collection's head has ${bytes.length} bytes`);
  const counter = (i: number) => readU53(bytes, 32 + 8 * i);
  return {
    hash: bytes.slice(0, 32),
    version: counter(0),
    live: counter(1),
    dense: counter(2),
    sparse: counter(3),
    text: counter(4),
    nextTransaction: counter(5),
    openTransaction: counter(6),
    sequence: counter(7),
    epoch: counter(8),
    nextOrdinal: readU32Key(bytes, headBytes - 4),
  };
}
