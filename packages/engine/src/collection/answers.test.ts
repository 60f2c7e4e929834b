// Is a write with a key done once, and a write with a condition only if that holds?

import { limits } from "@quiverdb/protocol/limits";
import { beforeEach, describe, expect, test } from "vitest";
import { definition, prepared, read } from "../../test/log/histories.ts";
import { text, u53Key } from "../base/bytes.ts";
import { LocalSequencer, type WriteOutcome } from "../log/sequencer.ts";
import { MemoryStore } from "../storage/memory.ts";
import { fingerprint, type LoggedRequest } from "./accept.ts";
import { answersKept } from "./answers.ts";
import { readHead } from "./head.ts";
import { readConditions, readOperations } from "./record.ts";
import { encodeDelete, encodeUpserts } from "./schema.ts";
import { collectionTables, metaKeys } from "./tables.ts";
import { listTransactions } from "./transaction.ts";

const dayMs = 86_400_000;
let store: MemoryStore;
let nowMs: number;
let sequencer: LocalSequencer;

beforeEach(() => {
  store = prepared(new MemoryStore(collectionTables));
  nowMs = 1_800_000_000_000;
  let opIds = 0;
  sequencer = new LocalSequencer(store, {
    maxVectors: null,
    versionsKept: 100,
    clock: () => nowMs,
    newOpId: () => (++opIds).toString(16).padStart(32, "0"),
  });
});

type Given = { id: string; n?: number; if_match?: number; if_absent?: boolean };
const batch = (...records: Given[]) =>
  encodeUpserts(
    definition,
    records.map(({ id, n = 0, ...condition }) => ({ id, dense_values: [n, 1], ...condition })),
    "vectors",
  );
const upsert = (...records: Given[]): LoggedRequest => ({ kind: "upsert", batch: batch(...records) });
const once = (key: string, request: LoggedRequest): LoggedRequest => ({
  ...request,
  once: { key, fingerprint: fingerprint(request) },
});
const write = (...requests: LoggedRequest[]): WriteOutcome[] => [...sequencer.write(requests)].flat();
const codes = (...requests: LoggedRequest[]): unknown[] =>
  write(...requests).map((outcome) =>
    outcome.ok ? outcome.version : (outcome.error as { code: string }).code,
  );
const version = () => read(store, (readTxn) => readHead(readTxn).version);
const kept = () =>
  read(store, (readTxn) => ({
    answers: [...readTxn.keys("answers")].map((key) => text(key)),
    times: [...readTxn.keys("answerTimes")].length,
    counted: answersKept(readTxn),
  }));

describe("[V14] a batch", () => {
  test("has its conditions before its operations, and those without are as ever", () => {
    const plain = batch({ id: "a" }, { id: "b" });
    expect([...readConditions(plain)]).toEqual([]);
    const conditional = batch({ id: "a", if_match: 7 }, { id: "b" }, { id: "c", if_absent: true });
    const found = Array.from(readConditions(conditional), ({ id, born }) => [text(id), born]);
    expect(found).toEqual([
      ["a", 7],
      ["c", 0],
    ]);
    expect(Array.from(readOperations(conditional), ({ id }) => text(id))).toEqual(["a", "b", "c"]);
    expect([...readOperations(conditional)].slice(0, 2).map(({ bytes }) => [...bytes])).toEqual(
      [...readOperations(plain)].map(({ bytes }) => [...bytes]),
    );
  });

  test("is refused for a condition that is none", () => {
    for (const wrong of [{ if_match: 0 }, { if_match: 1.5 }, { if_match: 1, if_absent: true }])
      expect(() => batch({ id: "a", ...wrong })).toThrow(/if_(match|absent)/);
    expect([...readConditions(batch({ id: "a", if_absent: false }))]).toEqual([]);
  });
});

describe("[V14] a condition", () => {
  test("of one record refuses the whole write, and changes nothing", () => {
    expect(codes(upsert({ id: "a" }))).toEqual([1]);
    expect(codes(upsert({ id: "b", if_absent: true }, { id: "a", if_absent: true }))).toEqual([
      "record_changed",
    ]);
    expect(codes(upsert({ id: "b", if_match: 1 }))).toEqual(["record_changed"]);
    expect(version()).toBe(1);
    expect(codes(upsert({ id: "b", if_absent: true }, { id: "a", if_match: 1 }))).toEqual([2]);
    expect(codes({ kind: "delete", batch: encodeDelete("a", { if_match: 1 }) })).toEqual(["record_changed"]);
    expect(codes({ kind: "delete", batch: encodeDelete("a", { if_match: 2 }) })).toEqual([3]);
  });

  test("does not hold any more after another request of the same entry", () => {
    write(upsert({ id: "a" }));
    expect(codes(upsert({ id: "a", n: 1, if_match: 1 }), upsert({ id: "a", n: 2, if_match: 1 }))).toEqual([
      2,
      "record_changed",
    ]);
  });

  test("does not change the hash of a version", () => {
    const hash = () => read(store, (readTxn) => [...readHead(readTxn).hash]);
    write(upsert({ id: "a" }));
    const other = prepared(new MemoryStore(collectionTables));
    const twin = new LocalSequencer(other, {
      maxVectors: null,
      versionsKept: 100,
      clock: () => nowMs,
      newOpId: () => "1".repeat(32),
    });
    for (const _ of twin.write([upsert({ id: "a", if_absent: true })]));
    expect(read(other, (readTxn) => [...readHead(readTxn).hash])).toEqual(hash());
  });

  test("of a transaction is judged by its commit, which can be made again", () => {
    write(upsert({ id: "a" }), { kind: "begin", random: "0".repeat(24) });
    const { id: transactionId } = read(store, (readTxn) => listTransactions(readTxn)[0]);
    const stage = (bytes: Uint8Array): LoggedRequest => ({ kind: "stage", transactionId, batch: bytes });
    write(stage(batch({ id: "a", n: 1, if_match: 1 }, { id: "b", if_absent: true })));
    write(upsert({ id: "b" }));
    expect(codes({ kind: "commit", transactionId })).toEqual(["record_changed"]);
    write({ kind: "delete", batch: encodeDelete("b") });
    expect(codes({ kind: "commit", transactionId })).toEqual([4]);
    expect(read(store, (readTxn) => [...readTxn.keys("conditions")])).toEqual([]);
  });

  test("of a patch is judged with it", () => {
    const patch = (born?: number): LoggedRequest => ({
      kind: "patch",
      id: new TextEncoder().encode("a"),
      patch: '{"n":1}',
      ...(born !== undefined && { born }),
    });
    write(upsert({ id: "a" }));
    expect(codes(patch(2), patch(1), patch(1), patch())).toEqual(["record_changed", 2, "record_changed", 2]);
  });
});

describe("[V15] a write with a key", () => {
  test("is answered alike when it comes again, also in the same entry, and done once", () => {
    const first = once("k", upsert({ id: "a" }));
    expect(codes(first, first)).toEqual([1, 1]);
    write(upsert({ id: "a", n: 5 }));
    expect(codes(first)).toEqual([1]);
    expect(version()).toBe(2);
    const begin: LoggedRequest = once("t", { kind: "begin", random: "0".repeat(24) });
    const [began] = write(begin);
    expect(write(once("t", { kind: "begin", random: "1".repeat(24) }))).toEqual([began]);
  });

  test("is refused if its key was that of another request", () => {
    write(once("k", upsert({ id: "a" })));
    expect(codes(once("k", upsert({ id: "b" })))).toEqual(["idempotency_key_reused"]);
    expect(version()).toBe(1);
  });

  test("that was refused is judged anew", () => {
    const conditional = once("k", upsert({ id: "a", if_absent: true }));
    write(upsert({ id: "a" }));
    expect(codes(conditional)).toEqual(["record_changed"]);
    write({ kind: "delete", batch: encodeDelete("a") });
    expect(codes(conditional, conditional)).toEqual([3, 3]);
  });

  test("that changed nothing is answered alike, too", () => {
    const matching = { filter: { x: 1 }, times: [], version: 0, live: 0, end: 0 };
    const nothing = once("k", { kind: "deleteMatching", matching, batch: new Uint8Array() });
    expect(write(nothing)).toEqual([{ ok: true, version: 0, value: 0 }]);
    write(upsert({ id: "a" }));
    expect(write(nothing)).toEqual([{ ok: true, version: 0, value: 0 }]);
  });

  test("is forgotten after a day, with its traces", () => {
    write(once("old", upsert({ id: "a" })), once("older", upsert({ id: "b" })));
    nowMs += dayMs;
    expect(codes(once("old", upsert({ id: "a" })))).toEqual([1]);
    nowMs += 1;
    expect(codes(once("old", upsert({ id: "a" })))).toEqual([2]);
    expect(kept()).toEqual({ answers: ["old"], times: 1, counted: 1 });
    nowMs += dayMs + 1;
    write(once("new", upsert({ id: "a" })));
    expect(kept()).toEqual({ answers: ["new"], times: 1, counted: 1 });
  });

  test("is refused when the limit is reached, until the oldest one is a day old", () => {
    write(once("first", upsert({ id: "a" })));
    store.write((writer) => writer.put("meta", metaKeys.answers, u53Key(limits.answersMax)));
    expect(codes(once("second", upsert({ id: "a" })))).toEqual(["too_many_idempotency_keys"]);
    expect(codes(once("first", upsert({ id: "a" })))).toEqual([1]);
    nowMs += dayMs + 1;
    expect(codes(once("second", upsert({ id: "a" })))).toEqual([2]);
  });
});
