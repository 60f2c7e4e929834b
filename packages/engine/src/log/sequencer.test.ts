// Which queued requests become an entry, and what happens if something fails?

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createdMs, definition, prepared, read, seenOf, stateOf } from "../../test/log/histories.ts";
import { toHex, utf8 } from "../base/bytes.ts";
import { armFailpoints } from "../base/failpoint.ts";
import type { LoggedRequest, WriteRequest } from "../collection/accept.ts";
import { readHead } from "../collection/head.ts";
import { encodeDelete, encodeUpserts } from "../collection/schema.ts";
import { collectionTables, metaKeys } from "../collection/tables.ts";
import { indexedMs, readTransaction, type TransactionEntry } from "../collection/transaction.ts";
import { LmdbStore } from "../storage/lmdb.ts";
import { MemoryStore } from "../storage/memory.ts";
import { spoolFile } from "../storage/spool-files.ts";
import type { Store } from "../storage/store.ts";
import { applyOrdered, type OrderedMessage } from "./ordered.ts";
import { LocalSequencer, randomOpId, type WriteOutcome } from "./sequencer.ts";

const nowMs = createdMs + 5;
let path: string;
let store: LmdbStore;
/** The entries that were made, as messages that make the same ones; `sequence` of each. */
let entries: (OrderedMessage & { sequence: number })[];
let opId: string;
let sequencer: LocalSequencer;

beforeEach(() => {
  path = mkdtempSync(join(tmpdir(), "quiver-sequencer-"));
  store = prepared(new LmdbStore(path, collectionTables));
  entries = [];
  sequencer = new LocalSequencer(store, {
    versionsKept: 100,
    maxVectors: 5,
    clock: () => nowMs,
    newOpId: () => {
      opId = randomOpId();
      return opId;
    },
  });
});
afterEach(async () => {
  armFailpoints(() => undefined);
  await store.close();
  rmSync(path, { recursive: true, force: true });
});

const headOf = (of: Store) => read(of, readHead);

function write(...requests: WriteRequest[]): WriteOutcome[] {
  const outcomes: WriteOutcome[] = [];
  let { sequence } = headOf(store);
  for (const part of sequencer.write(requests)) {
    const accepted = requests
      .slice(outcomes.length, outcomes.length + part.length)
      .filter((request, i): request is LoggedRequest => part[i].ok && request.kind !== "noteIndexed");
    outcomes.push(...part);
    const head = headOf(store);
    if (head.sequence === sequence) continue;
    sequence = head.sequence;
    const { epoch } = head;
    entries.push({ sequence, position: sequence, epoch, opId, timeMs: nowMs, crc32: 0, requests: accepted });
  }
  return outcomes;
}
const codes = (outcomes: WriteOutcome[]) =>
  outcomes.map((outcome) => (outcome.ok ? "ok" : (outcome.error as QuiverError).code));
const batch = (...ids: string[]) =>
  encodeUpserts(
    definition,
    ids.map((id) => ({ id, dense_values: [1, 2] })),
    "vectors",
  );
const upsert = (...ids: string[]): WriteRequest => ({ kind: "upsert", batch: batch(...ids) });
const remove = (id: string): WriteRequest => ({ kind: "delete", batch: encodeDelete(id) });
const kinds = () => entries.map(({ requests }) => requests.map(({ kind }) => kind));
const begin = (): string => {
  const [outcome] = write({ kind: "begin", random: "ab".repeat(12) });
  if (!outcome.ok) throw outcome.error;
  return (outcome.value as TransactionEntry).id;
};

/** Replaces a stored value by bytes whose checksum is not theirs. */
function damage(table: string, key: Uint8Array): void {
  store.write((writer) => {
    const raw = writer as unknown as {
      table(name: string): { putSync(key: Uint8Array, value: Buffer): void };
    };
    raw.table(table).putSync(key, Buffer.from("damaged"));
  });
}

/** Throws at the next passages of a failpoint. */
function failAt(name: string, error: Error, times = 1): void {
  let left = times;
  armFailpoints((passed) => {
    if (passed === name && left-- > 0) throw error;
  });
}

/** The state that a log of the accepted requests produces on a replica. */
function elsewhere(): MemoryStore {
  const other = prepared(new MemoryStore(collectionTables));
  for (const _ of applyOrdered(other, entries, { versionsKept: 100, maxVectors: 5 }));
  return other;
}

/** A node alone has no place in a log. */
const withoutPlace = (state: string[]) =>
  state.filter((line) => !line.startsWith(`meta ${toHex(metaKeys.place)}`));

it("[L4] queued requests are one entry, without the rejected ones; a commit is a separate entry", () => {
  const transactionId = begin();
  entries.length = 0;
  const outcomes = write(
    upsert("a"),
    remove("missing"),
    { kind: "begin", random: "cd".repeat(12) },
    upsert("b", "c", "d", "e", "f"),
    { kind: "stage", transactionId, batch: batch("s") },
    { kind: "commit", transactionId },
    upsert("z"),
    { kind: "deleteIndex", index: "dense" },
  );
  expect(codes(outcomes)).toEqual([
    "ok",
    "vector_not_found",
    "transaction_ongoing",
    "max_vectors_exceeded",
    "ok",
    "ok",
    "ok",
    "index_not_found",
  ]);
  expect(kinds()).toEqual([["upsert", "stage"], ["commit"], ["upsert"]]);
  expect(entries.map(({ sequence, epoch, timeMs }) => [sequence, epoch, timeMs])).toEqual([
    [2, 0, nowMs],
    [3, 0, nowMs],
    [4, 0, nowMs],
  ]);
});

it("[L4] a group with only rejected or empty requests makes no entry and leaves the store as it is", () => {
  const transactionId = begin();
  const before = stateOf(store);
  const idle: WriteRequest = { kind: "abort", transactionId, idleSinceMs: nowMs - 1 };
  expect(codes(write(remove("missing"), idle))).toEqual(["vector_not_found", "ok"]);
  expect(kinds()).toEqual([["begin"]]);
  expect(stateOf(store)).toEqual(before);
});

it("[L4] a request that fails half-way is in no entry, and its group becomes entries without it", () => {
  write(upsert("a", "b"));
  damage("ids", utf8("a"));
  const outcomes = write(upsert("c"), upsert("d", "a"), upsert("e"), upsert("a"), remove("b"));
  expect(codes(outcomes)).toEqual(["ok", "data_corrupted", "ok", "data_corrupted", "ok"]);
  expect(kinds()).toEqual([["upsert"], ["upsert"], ["upsert"], ["delete"]]);
  // A machine whose data is not damaged makes the same of the log.
  expect(headOf(elsewhere()).hash).toEqual(headOf(store).hash);
});

it("[L4] a commit that fails leaves its transaction open, or ends it as failed where its data is damaged", () => {
  write(upsert("1", "2", "3"));
  const first = begin();
  write({ kind: "stage", transactionId: first, batch: batch("4", "5") });
  write(upsert("6"));
  const before = stateOf(store);
  expect(codes(write({ kind: "commit", transactionId: first }))).toEqual(["max_vectors_exceeded"]);
  expect(stateOf(store)).toEqual(before);
  const spool = spoolFile(path, read(store, (s) => readTransaction(s, first)).sequence);
  const bytes = readFileSync(spool);
  bytes[bytes.length - 1] ^= 1;
  writeFileSync(spool, bytes);
  write(remove("6"));
  const { sequence } = headOf(store);
  expect(codes(write({ kind: "commit", transactionId: first }))).toEqual(["data_corrupted"]);
  expect(headOf(store).sequence).toBe(sequence + 1);
  expect(read(store, (s) => readTransaction(s, first))).toMatchObject({ state: "failed", endedMs: nowMs });
  expect(codes(write({ kind: "commit", transactionId: first }))).toEqual(["transaction_not_open"]);
  expect(existsSync(spool)).toBe(false);
});

it("[L4] an entry that does not become durable fails for all of its requests, and the next takes its number", () => {
  write(upsert("a"));
  const before = stateOf(store);
  for (const step of ["write:applied", "write:finished"]) {
    failAt(step, new Error("MDB_BAD: the disk fails"), 1);
    expect(codes(write(upsert("b"), remove("missing"), upsert("c")))).toEqual([
      "storage_failed",
      "storage_failed",
      "storage_failed",
    ]);
    expect(stateOf(store)).toEqual(before);
  }
  expect(kinds()).toEqual([["upsert"]]);
  write(upsert("d"));
  expect(entries.map(({ sequence }) => sequence)).toEqual([1, 2]);
  expect(seenOf(elsewhere())).toEqual(seenOf(store));
});

it("[L4] requests that together do not fit on the disk are tried alone", () => {
  failAt("write:finished", new QuiverError("storage_full", "The disk is full."), 2);
  expect(codes(write(upsert("a"), upsert("b"), upsert("c")))).toEqual(["storage_full", "ok", "ok"]);
  expect(entries.map(({ sequence, requests }) => [sequence, requests.length])).toEqual([
    [1, 1],
    [2, 1],
  ]);
  expect(seenOf(elsewhere())).toEqual(seenOf(store));
});

it("[L3] a collection that was part of a replicated log continues in its epoch", () => {
  write(upsert("a"));
  const message = { ...entries[0], position: 2, epoch: 7, opId: randomOpId() };
  for (const _ of applyOrdered(store, [message], { versionsKept: 100, maxVectors: 5 }));
  expect(codes(write(upsert("b")))).toEqual(["ok"]);
  expect(entries.map(({ sequence, epoch }) => [sequence, epoch])).toEqual([
    [1, 0],
    [3, 7],
  ]);
});

it("[L4] an entry has a limited number of requests and of bytes", () => {
  const many = Array.from({ length: limits.groupCommitRequestsMax + 1 }, () => upsert("a"));
  write(...many);
  expect(kinds().map(({ length }) => length)).toEqual([limits.groupCommitRequestsMax, 1]);
  entries.length = 0;
  const text = "x".repeat(limits.groupCommitBytesMax / 8);
  const large = (id: string): WriteRequest => ({
    kind: "upsert",
    batch: encodeUpserts(definition, [{ id, text }], "vectors"),
  });
  write(...["1", "2", "3", "1", "2", "3", "1", "2", "3"].map(large));
  expect(kinds().map(({ length }) => length)).toEqual([7, 2]);
});

it("[L5] the local state of a node is in no entry, and does not change the state that follows from the log", () => {
  const transactionId = begin();
  write({ kind: "commit", transactionId });
  const before = stateOf(store);
  const alone: WriteRequest = { kind: "noteIndexed", transactions: [[1, 77]] };
  expect(codes(write(alone))).toEqual(["ok"]);
  expect(stateOf(store)).toEqual(before);
  expect(read(store, (s) => indexedMs(s, 1))).toBe(77);
  // With a write, and of a transaction that was never there any more.
  write(upsert("a"), { kind: "noteIndexed", transactions: [[1, 78]] });
  expect(kinds()).toEqual([["begin"], ["commit"], ["upsert"]]);
  expect(read(store, (s) => indexedMs(s, 1))).toBe(78);
  expect(withoutPlace(stateOf(elsewhere()))).toEqual(stateOf(store));
});

it("[L5] the note of a transaction goes with the transaction", () => {
  for (let i = 0; i < limits.transactionsKept; i++) {
    const transactionId = begin();
    write({ kind: "abort", transactionId }, { kind: "noteIndexed", transactions: [[i + 1, 100 + i]] });
  }
  const noted = () => read(store, (s) => [...s.keys("indexed")].length);
  expect(noted()).toBe(limits.transactionsKept);
  begin();
  write({ kind: "noteIndexed", transactions: [[1, 5]] });
  expect(noted()).toBe(limits.transactionsKept - 1);
  expect(read(store, (s) => [indexedMs(s, 1), indexedMs(s, 2)])).toEqual([undefined, 101]);
}, 120_000);
