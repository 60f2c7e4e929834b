// Transactions, versions and group commit on both stores, without threads.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isQuiverError, type QuiverError } from "@quiverdb/protocol/errors";
import type { VectorInput } from "@quiverdb/protocol/shapes/vector";
import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import { readU32Key, utf8 } from "../base/bytes.ts";
import { finishAtOnce } from "../base/steps.ts";
import { LocalSequencer, randomOpId, type WriteOutcome } from "../log/sequencer.ts";
import { LmdbStore } from "../storage/lmdb.ts";
import { MemoryStore } from "../storage/memory.ts";
import type { Store } from "../storage/store.ts";
import type { WriteRequest } from "./accept.ts";
import type { CollectionDefinition } from "./definition.ts";
import { prepareCollection } from "./format.ts";
import { readHead } from "./head.ts";
import { allVectors, eachOfDocument, vectorById } from "./reading.ts";
import { encodeDelete, encodeUpserts } from "./schema.ts";
import { collectionTables, metaKeys } from "./tables.ts";
import { listTransactions, readTransaction, type TransactionEntry } from "./transaction.ts";
import { listVersions, readClosed, readVersion } from "./versions.ts";

const definition: CollectionDefinition = {
  name: "test",
  dense: true,
  dimension: 2,
  sparse: true,
  text: true,
  maxVectors: null,
  replicationFactor: null,
  storeRawText: true,
};

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

const kinds: [string, () => Store][] = [
  ["memory", () => new MemoryStore(collectionTables)],
  [
    "lmdb",
    () => {
      const path = mkdtempSync(join(tmpdir(), "quiver-apply-"));
      const store = new LmdbStore(path, collectionTables);
      cleanups.push(async () => {
        await store.close();
        rmSync(path, { recursive: true, force: true });
      });
      return store;
    },
  ],
];

describe.each(kinds)("writes to a collection: %s", (_name, makeStore) => {
  let now = 1_000_000;
  const open = (): Store => {
    const store = makeStore();
    prepareCollection(store, now, definition);
    return store;
  };
  const apply = (
    store: Store,
    requests: WriteRequest[],
    maxVectors: number | null = null,
    versionsKept = 1000,
  ) => {
    const timeMs = now++;
    const sequencer = new LocalSequencer(store, {
      versionsKept,
      maxVectors,
      clock: () => timeMs,
      newOpId: randomOpId,
    });
    return [...sequencer.write(requests)].flat();
  };
  const upsert = (...vectors: VectorInput[]): WriteRequest => ({
    kind: "upsert",
    batch: encodeUpserts(definition, vectors, "vectors"),
  });
  const remove = (id: string): WriteRequest => ({ kind: "delete", batch: encodeDelete(id) });
  const v = (id: string, x = 1, rest: Partial<VectorInput> = {}): VectorInput => ({
    id,
    dense_values: [x, 0],
    ...rest,
  });
  const value = <T>(outcome: WriteOutcome): T => {
    if (!outcome.ok) throw outcome.error;
    return outcome.value as T;
  };
  const codes = (outcomes: WriteOutcome[]) =>
    outcomes.map((outcome) => (outcome.ok ? "ok" : (outcome.error as QuiverError).code));
  const begin = (store: Store) =>
    value<TransactionEntry>(apply(store, [{ kind: "begin", random: "ab".repeat(12) }])[0]);
  const stage = (transactionId: string, ...vectors: VectorInput[]): WriteRequest => ({
    kind: "stage",
    transactionId,
    batch: encodeUpserts(definition, vectors, "vectors"),
  });
  const read = <T>(store: Store, act: (readTxn: ReturnType<Store["beginRead"]>) => T): T => {
    const readTxn = store.beginRead();
    try {
      return act(readTxn);
    } finally {
      readTxn.release();
    }
  };
  const ids = (store: Store) => read(store, (s) => [...allVectors(s)].map((vector) => vector.id));
  const head = (store: Store) => read(store, readHead);

  it("[V1] one write is one version, however many requests share it", () => {
    const store = open();
    expect(head(store).version).toBe(0);
    const outcomes = apply(store, [upsert(v("a")), upsert(v("b")), remove("a"), upsert(v("c"), v("b", 2))]);
    expect(codes(outcomes)).toEqual(["ok", "ok", "ok", "ok"]);
    expect(head(store)).toMatchObject({ version: 1, live: 2, dense: 2, sparse: 0, text: 0 });
    expect(ids(store)).toEqual(["c", "b"]);
    const { versions } = read(store, (s) => listVersions(s));
    expect(versions.map((entry) => [entry.version_number, entry.vector_count])).toEqual([
      [1, 2],
      [0, 0],
    ]);
  });

  it("[V2] the hash depends on the parent and the changes in order, and on nothing else", () => {
    const hash = (requests: WriteRequest[][]) => {
      const store = open();
      for (const group of requests) apply(store, group);
      return Buffer.from(head(store).hash).toString("hex");
    };
    const history = () => [[upsert(v("a")), upsert(v("b", 2))], [remove("a")]];
    expect(hash(history())).toBe(hash(history()));
    expect(hash([[upsert(v("a"), v("b", 2))], [remove("a")]])).toBe(hash(history()));
    expect(hash([[upsert(v("b", 2)), upsert(v("a"))], [remove("a")]])).not.toBe(hash(history()));
    expect(hash([[upsert(v("a")), upsert(v("b", 3))], [remove("a")]])).not.toBe(hash(history()));
    const store = open();
    const { id } = begin(store);
    apply(store, [stage(id, v("a"), v("b", 2))]);
    apply(store, [{ kind: "commit", transactionId: id }]);
    apply(store, [remove("a")]);
    expect(Buffer.from(head(store).hash).toString("hex")).toBe(hash(history()));
  });

  it("[G1] a rejected request leaves no trace, and its group continues", () => {
    const store = open();
    apply(store, [upsert(v("a"))]);
    const outcomes = apply(
      store,
      [upsert(v("b")), remove("missing"), upsert(v("c"), v("d"), v("e")), upsert(v("f"))],
      3,
    );
    expect(codes(outcomes)).toEqual(["ok", "vector_not_found", "max_vectors_exceeded", "ok"]);
    expect(ids(store)).toEqual(["a", "b", "f"]);
    expect(head(store).version).toBe(2);
  });

  it("[G2] a request that fails half-way takes nothing with it", () => {
    const store = open();
    apply(store, [upsert(v("a"), v("b"))]);
    // The ordinal of "a" is replaced by bytes whose checksum is that of another key.
    store.write((writer) => {
      const raw = writer as unknown as {
        table?: (name: string) => { putSync(key: Uint8Array, value: Buffer): void };
      };
      if (raw.table && "putSync" in (raw.table("ids") as object))
        raw.table("ids").putSync(Buffer.from("a"), Buffer.from("damaged"));
      else {
        const tables = (writer as unknown as { tables: Map<string, [Uint8Array, Uint8Array][]> }).tables;
        const ids = (tables.get("ids") ?? []).slice();
        ids[0] = [ids[0][0], Buffer.from("damaged")];
        tables.set("ids", ids);
      }
    });
    const outcomes = apply(store, [upsert(v("c")), upsert(v("d"), v("a", 9)), upsert(v("e"))]);
    expect(codes(outcomes)).toEqual(["ok", "data_corrupted", "ok"]);
    expect(isQuiverError(outcomes[1].ok ? null : outcomes[1].error, "data_corrupted")).toBe(true);
    const stored = read(store, (s) => ["b", "c", "d", "e"].map((id) => s.get("ids", utf8(id)) !== undefined));
    expect(stored).toEqual([true, true, false, true]);
  });

  it("[I1] an ordinal names one content and is never given twice", () => {
    const store = open();
    apply(store, [upsert(v("a"))]);
    apply(store, [upsert(v("a", 2))]);
    apply(store, [remove("a")]);
    apply(store, [upsert(v("a", 3))]);
    expect(read(store, (s) => readU32Key(s.get("ids", utf8("a")) as Uint8Array))).toBe(2);
    expect(head(store).nextOrdinal).toBe(3);
    const closed = read(store, (s) =>
      [1, 2, 3, 4].map((n) => [...readClosed(s, n)].flatMap((part) => [...part])),
    );
    expect(closed).toEqual([[], [0], [1], []]);
    expect(read(store, (s) => readVersion(s, 4))).toMatchObject({ firstOrdinal: 2, opened: 1, live: 1 });
  });

  it("[T1] a transaction is invisible until its commit, then there as a whole", () => {
    const store = open();
    apply(store, [upsert(v("old"), v("both"))]);
    const { id } = begin(store);
    apply(store, [stage(id, v("a"), v("both", 5))]);
    apply(store, [{ kind: "stage", transactionId: id, batch: encodeDelete("old") }]);
    expect(ids(store)).toEqual(["old", "both"]);
    expect(head(store).version).toBe(1);
    const entry = value<TransactionEntry>(apply(store, [{ kind: "commit", transactionId: id }])[0]);
    expect(entry).toMatchObject({ upserts: 2, deletes: 1, version: 2, state: "committed" });
    expect(ids(store)).toEqual(["a", "both"]);
    expect(read(store, (s) => [...s.keys("staged")].length + [...s.keys("stagedIds")].length)).toBe(0);
  });

  it("[T3] an aborted transaction leaves no trace", () => {
    const store = open();
    apply(store, [upsert(v("old"))]);
    const before = head(store);
    const { id } = begin(store);
    apply(store, [stage(id, v("a"), v("old", 5))]);
    apply(store, [{ kind: "abort", transactionId: id }]);
    expect(ids(store)).toEqual(["old"]);
    expect(head(store)).toEqual({ ...before, nextTransaction: 2, sequence: before.sequence + 3 });
    expect(read(store, (s) => [...s.keys("staged")].length)).toBe(0);
    expect(codes(apply(store, [{ kind: "commit", transactionId: id }, stage(id, v("x"))]))).toEqual([
      "transaction_not_open",
      "transaction_not_open",
    ]);
  });

  it("[T4] a collection has one open transaction at most", () => {
    const store = open();
    const { id } = begin(store);
    const [outcome] = apply(store, [{ kind: "begin", random: "cd".repeat(12) }]);
    expect(codes([outcome])).toEqual(["transaction_ongoing"]);
    expect((outcome as { error: QuiverError }).error.message).toContain("There is an on-going transaction!");
    apply(store, [{ kind: "commit", transactionId: id }]);
    expect(codes(apply(store, [{ kind: "begin", random: "cd".repeat(12) }]))).toEqual(["ok"]);
  });

  it("[T5] repeating a batch changes nothing; the last write of an id wins", () => {
    const commit = (batches: (id: string) => WriteRequest[]) => {
      const store = open();
      const { id } = begin(store);
      for (const request of batches(id)) apply(store, [request]);
      apply(store, [{ kind: "commit", transactionId: id }]);
      return {
        hash: Buffer.from(head(store).hash).toString("hex"),
        ids: ids(store),
        a: read(store, (s) => vectorById(s, "a").toRecord().dense_values),
      };
    };
    const once = commit((id) => [stage(id, v("a"), v("b")), stage(id, v("c"), v("a", 7))]);
    expect(once.a).toEqual([7, 0]);
    expect(once.ids).toEqual(["a", "b", "c"]);
    const repeated = commit((id) => [
      stage(id, v("a"), v("b")),
      stage(id, v("c"), v("a", 7)),
      stage(id, v("c"), v("a", 7)),
    ]);
    expect(repeated).toEqual(once);
  });

  it("[T5] a commit applies the last operation of each id, in the order of the first ones", () => {
    const batches = fc.array(
      fc.array(
        fc.record({
          id: fc.constantFrom(..."abcdefgh"),
          x: fc.integer({ min: 1, max: 9 }),
          isDeleted: fc.boolean(),
        }),
        { minLength: 1, maxLength: 6 },
      ),
      { maxLength: 8 },
    );
    fc.assert(
      fc.property(batches, fc.constantFrom(1, 200_000), (staged, textBytes) => {
        const [store, expected] = [open(), open()];
        const { id } = begin(store);
        const last = new Map<string, WriteRequest[]>();
        const there = new Set<string>();
        for (const batch of staged) {
          const upserts: VectorInput[] = [];
          for (const { id: name, x, isDeleted } of batch) {
            if (isDeleted && there.delete(name)) {
              apply(store, [
                stage(id, ...upserts.splice(0)),
                { kind: "stage", transactionId: id, batch: encodeDelete(name) },
              ]);
              last.set(name, []);
            } else {
              // Long texts make several frames of a batch.
              const vector = v(name, x, { text: String(x).repeat(textBytes) });
              upserts.push(vector);
              there.add(name);
              last.set(name, [upsert(vector)]);
            }
          }
          apply(store, [stage(id, ...upserts)]);
        }
        const [outcome] = apply(store, [{ kind: "commit", transactionId: id }]);
        expect(codes([outcome])).toEqual(["ok"]);
        const operations = [...last.values()].flat();
        if (operations.length > 0) apply(expected, operations);
        const all = (of: Store) => read(of, (s) => [...allVectors(s)].map((vector) => vector.toRecord()));
        expect(all(store)).toEqual(all(expected));
        if (operations.length > 0) expect(head(store).hash).toEqual(head(expected).hash);
      }),
      { numRuns: 40 },
    );
  });

  it("[T6] a delete in a transaction needs the id in the collection or in the transaction", () => {
    const store = open();
    apply(store, [upsert(v("there"))]);
    const { id } = begin(store);
    const drop = (vectorId: string): WriteRequest => ({
      kind: "stage",
      transactionId: id,
      batch: encodeDelete(vectorId),
    });
    expect(codes(apply(store, [drop("missing")]))).toEqual(["vector_not_found"]);
    apply(store, [stage(id, v("new"))]);
    expect(codes(apply(store, [drop("new"), drop("new"), drop("there")]))).toEqual([
      "ok",
      "vector_not_found",
      "ok",
    ]);
    const entry = value<TransactionEntry>(apply(store, [{ kind: "commit", transactionId: id }])[0]);
    expect(entry.state).toBe("committed");
    expect(ids(store)).toEqual([]);
  });

  it("[T12] a transaction counts all operations, including repeated and replaced ones", () => {
    const store = open();
    apply(store, [upsert(v("there"))]);
    const { id } = begin(store);
    const drop = (vectorId: string): WriteRequest => ({
      kind: "stage",
      transactionId: id,
      batch: encodeDelete(vectorId),
    });
    const counts = () => {
      const { upserts, deletes, staged } = read(store, (s) => readTransaction(s, id));
      return [upserts, deletes, staged];
    };
    apply(store, [stage(id, v("a"), v("b"), v("a", 2))]);
    expect(counts()).toEqual([3, 0, 2]);
    apply(store, [stage(id, v("a"), v("b"), v("a", 2))]);
    expect(counts()).toEqual([6, 0, 2]);
    apply(store, [drop("a"), drop("there")]);
    expect(counts()).toEqual([6, 2, 3]);
    // Rejected operations do not count.
    apply(store, [drop("a"), drop("missing"), stage(id, v("c"), v("d"))], 2);
    expect(counts()).toEqual([6, 2, 3]);
    apply(store, [{ kind: "delete", batch: encodeDelete("there") }]);
    const entry = value<TransactionEntry>(apply(store, [{ kind: "commit", transactionId: id }])[0]);
    expect(entry).toMatchObject({ state: "committed", upserts: 6, deletes: 2 });
    expect(ids(store)).toEqual(["b"]);
    const aborted = begin(store);
    apply(store, [stage(aborted.id, v("x"))]);
    apply(store, [{ kind: "abort", transactionId: aborted.id }]);
    expect(read(store, (s) => readTransaction(s, aborted.id))).toMatchObject({
      state: "aborted",
      upserts: 1,
    });
  });

  it("[T7] streaming writes continue while a transaction is open; the commit wins for its ids", () => {
    const store = open();
    const { id } = begin(store);
    apply(store, [stage(id, v("a", 1))]);
    apply(store, [upsert(v("a", 2), v("b", 2))]);
    apply(store, [{ kind: "commit", transactionId: id }]);
    expect(read(store, (s) => vectorById(s, "a").toRecord().dense_values)).toEqual([1, 0]);
    expect(read(store, (s) => vectorById(s, "b").toRecord().dense_values)).toEqual([2, 0]);
  });

  it("[T8] max_vectors holds when operations are staged and when they are committed", () => {
    const store = open();
    apply(store, [upsert(v("a"), v("b"))], 3);
    const { id } = begin(store);
    expect(codes(apply(store, [stage(id, v("c"), v("d"))], 3))).toEqual(["max_vectors_exceeded"]);
    expect(codes(apply(store, [stage(id, v("c"), v("a", 2)), stage(id, v("c", 2))], 3))).toEqual([
      "ok",
      "ok",
    ]);
    apply(store, [upsert(v("x"))], 3);
    expect(codes(apply(store, [{ kind: "commit", transactionId: id }], 3))).toEqual(["max_vectors_exceeded"]);
    expect(ids(store)).toEqual(["a", "b", "x"]);
    apply(store, [remove("x")], 3);
    expect(codes(apply(store, [{ kind: "commit", transactionId: id }], 3))).toEqual(["ok"]);
    expect(head(store).live).toBe(3);
  });

  it("[T8] what makes room is staged even if others have taken the room meanwhile", () => {
    const store = open();
    apply(store, [upsert(v("a"), v("b"))], 4);
    const { id } = begin(store);
    const commit = (): WriteRequest => ({ kind: "commit", transactionId: id });
    const stageDelete = (vector: string): WriteRequest => ({
      kind: "stage",
      transactionId: id,
      batch: encodeDelete(vector),
    });
    apply(store, [stage(id, v("c"), v("d"))], 4);
    apply(store, [upsert(v("x"), v("y"))], 4);
    expect(codes(apply(store, [stage(id, v("e"))], 4))).toEqual(["max_vectors_exceeded"]);
    expect(codes(apply(store, [stageDelete("a"), commit()], 4))).toEqual(["ok", "max_vectors_exceeded"]);
    expect(codes(apply(store, [stageDelete("b"), commit()], 4))).toEqual(["ok", "ok"]);
    expect(ids(store)).toEqual(["x", "y", "c", "d"]);
  });

  it("[T9] an idle transaction is aborted, a busy one is not", () => {
    const store = open();
    const { id } = begin(store);
    const since = now;
    apply(store, [stage(id, v("a"))]);
    apply(store, [{ kind: "abort", transactionId: id, idleSinceMs: since - 1 }]);
    expect(read(store, (s) => readTransaction(s, id)).state).toBe("open");
    apply(store, [{ kind: "abort", transactionId: id, idleSinceMs: now }]);
    expect(read(store, (s) => readTransaction(s, id)).state).toBe("aborted");
  });

  it("[T10] the last 1,000 transactions are kept", () => {
    const store = open();
    for (let i = 0; i < 1_010; i++) {
      const { id } = begin(store);
      apply(store, [{ kind: "abort", transactionId: id }]);
    }
    const kept = read(store, listTransactions);
    expect(kept).toHaveLength(1_000);
    expect(kept[0].sequence).toBe(1_010);
  }, 120_000);

  it("[V3] versions beyond the limit are forgotten with their log, the current one never", () => {
    const store = open();
    for (let i = 0; i < 12; i++) apply(store, [upsert(v("a", i))], null, 5);
    const { versions, current_version } = read(store, (s) => listVersions(s));
    expect(versions.map((entry) => entry.version_number)).toEqual([12, 11, 10, 9, 8]);
    expect(current_version).toBe(12);
    expect(read(store, (s) => [...s.keys("closed")].length)).toBe(5);
    expect(
      read(store, (s) => listVersions(s, { limit: 2, before: 11 })).versions.map((x) => x.version_number),
    ).toEqual([10, 9]);
  });

  it("[D1] a document has exactly its live vectors", () => {
    const store = open();
    const of = (document: string) =>
      read(store, (s) => {
        const ids: string[] = [];
        finishAtOnce(eachOfDocument(s, document, ({ id }) => ids.push(id)));
        return ids;
      });
    apply(store, [
      upsert(
        v("b", 1, { document_id: "d" }),
        v("a", 1, { document_id: "d" }),
        v("c", 1, { document_id: "dd" }),
        v("e"),
      ),
    ]);
    expect([of("d"), of("dd"), of("nothing")]).toEqual([["a", "b"], ["c"], []]);
    apply(store, [upsert(v("a", 2, { document_id: "dd" })), remove("b")]);
    expect([of("d"), of("dd")]).toEqual([[], ["a", "c"]]);
    expect(read(store, (s) => [...s.keys("documents")].length)).toBe(2);
  });

  it("[F1] a newer format is refused", () => {
    const store = open();
    store.write((writer) => writer.put("meta", metaKeys.format, utf8('{"format":99,"what":"collection"}')));
    expect(() => prepareCollection(store, now, definition)).toThrow(/format 99/);
  });
});
