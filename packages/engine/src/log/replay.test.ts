// Does the same log produce the same collection on every machine, however often entries are repeated and wherever the machine stops?

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { limits } from "@quiverdb/protocol/limits";
import fc from "fast-check";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import {
  type History,
  historyArbitrary,
  prepared,
  read,
  record,
  seenOf,
  stateOf,
} from "../../test/log/histories.ts";
import { armFailpoints } from "../base/failpoint.ts";
import { applyEntry, type LogEntry } from "../collection/apply.ts";
import { readHead } from "../collection/head.ts";
import { collectionTables } from "../collection/tables.ts";
import { LmdbStore } from "../storage/lmdb.ts";
import { MemoryStore } from "../storage/memory.ts";
import type { Store } from "../storage/store.ts";
import { decodeEntry } from "./entry.ts";

const root = mkdtempSync(join(tmpdir(), "quiver-replay-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const disarm = () => armFailpoints(() => undefined);
afterEach(disarm);

const runs = 25;
const all = 1_000;
let machines = 0;

/** A separate directory that can be closed and opened again. */
class Machine {
  readonly #path = join(root, `m${machines++}`);
  #store: LmdbStore = this.#open();

  #open(): LmdbStore {
    return prepared(new LmdbStore(this.#path, collectionTables));
  }

  get store(): LmdbStore {
    return this.#store;
  }

  async restart(): Promise<void> {
    await this.#store.close();
    this.#store = this.#open();
  }

  /** Begins anew. */
  async empty(): Promise<void> {
    await this.end();
    this.#store = this.#open();
  }

  async end(): Promise<void> {
    await this.#store.close();
    rmSync(this.#path, { recursive: true, force: true });
  }
}

async function withMachines<T>(count: number, act: (...machines: Machine[]) => T | Promise<T>): Promise<T> {
  const made = Array.from({ length: count }, () => new Machine());
  try {
    return await act(...made);
  } finally {
    for (const machine of made) await machine.end();
  }
}

/** A history that passes every kind of operation. */
const everything: History = {
  maxVectors: null,
  versionsKept: 2,
  groups: [
    [{ do: "createIndex", index: "dense" }],
    [
      { do: "upsert", records: [0, 1, 2, 3].map((id) => ({ id, x: 1, what: 7 })) },
      { do: "begin" },
      { do: "upsert", records: [{ id: 1, x: 2, what: 1 }] },
    ],
    [
      { do: "stage", records: [{ id: 4, x: 1, what: 7 }] },
      { do: "stageDelete", id: 0 },
    ],
    [
      { do: "delete", id: 2 },
      { do: "stageDelete", id: 9 },
    ],
    [{ do: "commit" }, { do: "noteIndexed" }],
    [{ do: "createIndex", index: "tf-idf" }, { do: "begin" }],
    [{ do: "stage", records: [{ id: 5, x: 1, what: 0 }] }],
    [{ do: "deleteIndex", index: "dense" }, { do: "abort" }],
    [{ do: "upsert", records: [{ id: 6, x: 1, what: 2 }] }],
    [{ do: "delete", id: 6 }],
  ],
};

const replay = (store: Store, log: readonly Uint8Array[], versionsKept: number): boolean[] =>
  log.map((bytes) => applyEntry(store, decodeEntry(bytes), versionsKept));

describe("a log on other machines", () => {
  it("[L1] makes the same collection, byte for byte, after each of its entries", async () => {
    await fc.assert(
      fc.asyncProperty(historyArbitrary, async (history) => {
        const { log, states, seen } = record(history);
        await withMachines(2, (one, another) => {
          for (const [i, bytes] of log.entries()) {
            for (const { store } of [one, another]) {
              expect(applyEntry(store, decodeEntry(bytes), history.versionsKept)).toBe(true);
              expect(stateOf(store)).toEqual(states[i + 1]);
            }
          }
          for (const { store } of [one, another]) expect(seenOf(store)).toEqual(seen);
        });
      }),
      { numRuns: runs },
    );
  });

  it("[L1] makes the same versions on a machine that keeps fewer of them", () => {
    fc.assert(
      fc.property(historyArbitrary, fc.constantFrom(1, 4, all), (history, versionsKept) => {
        const { log, seen } = record(history);
        const store = prepared(new MemoryStore(collectionTables));
        replay(store, log, versionsKept);
        expect(seenOf(store)).toEqual(seen);
        expect(read(store, (s) => [...s.keys("versions")].length)).toBeLessThanOrEqual(versionsKept);
      }),
      { numRuns: 4 * runs },
    );
  });

  it("[L1] [L4] random histories have all kinds of requests, accepted and rejected, and dropped versions", () => {
    const seen = new Set<string>();
    for (const history of fc.sample(historyArbitrary, { seed: 1, numRuns: 300 })) {
      const { log, outcomes, states } = record(history);
      for (const outcome of outcomes) seen.add(outcome);
      for (const bytes of log) for (const { kind } of decodeEntry(bytes).operations) seen.add(kind);
      const hasFirst = states[log.length].some((line) => line.startsWith("versions 0000000000000000 "));
      seen.add(hasFirst ? "kept" : "forgotten");
    }
    expect([...seen].sort()).toEqual(
      [
        ...["upsert", "delete", "begin", "stage", "commit", "abort", "createIndex", "deleteIndex"],
        ...["ok", "vector_not_found", "max_vectors_exceeded", "transaction_ongoing", "transaction_not_found"],
        ...["transaction_not_open", "index_already_exists", "index_not_found", "kept", "forgotten"],
      ].sort(),
    );
  });

  it("[L1] every kind of request is in the history that the other tests replay", () => {
    const { outcomes, log } = record(everything);
    expect(outcomes.filter((outcome) => outcome !== "ok")).toEqual(["vector_not_found"]);
    const kinds = log.flatMap((bytes) => decodeEntry(bytes).operations.map(({ kind }) => kind));
    expect(new Set(kinds)).toEqual(
      new Set(["upsert", "delete", "begin", "stage", "commit", "abort", "createIndex", "deleteIndex"]),
    );
  });
});

describe("repeated entries", () => {
  it("[L2] change nothing: the log twice, in halves, and from any entry on, with restarts between", async () => {
    await fc.assert(
      fc.asyncProperty(historyArbitrary, fc.array(fc.nat(), { maxLength: 4 }), async (history, cuts) => {
        const { log, states } = record(history);
        await withMachines(2, async (twice, parts) => {
          replay(twice.store, log, history.versionsKept);
          expect(replay(twice.store, log, history.versionsKept)).toEqual(log.map(() => false));
          expect(stateOf(twice.store)).toEqual(states[log.length]);
          let applied = 0;
          for (const cut of cuts) {
            // Ends anywhere, and begins again anywhere before that.
            const end = cut % (log.length + 1);
            const from = Math.min(applied, cut % 7);
            const isNew = replay(parts.store, log.slice(from, end), history.versionsKept);
            if (end < from) continue;
            expect(isNew).toEqual(log.slice(from, end).map((_, i) => from + i >= applied));
            applied = Math.max(applied, end);
            expect(stateOf(parts.store)).toEqual(states[applied]);
            await parts.restart();
          }
          replay(parts.store, log, history.versionsKept);
          expect(stateOf(parts.store)).toEqual(states[log.length]);
        });
      }),
      { numRuns: runs },
    );
  });

  it("[L2] complete the state of a machine that stopped at any step of any entry", async () => {
    const { log, states } = record(everything);
    let passages = 0;
    armFailpoints(() => passages++);
    replay(prepared(new MemoryStore(collectionTables)), log, everything.versionsKept);
    disarm();
    expect(passages).toBeGreaterThan(40);
    await withMachines(1, async (machine) => {
      for (let stop = 0; stop < passages; stop++) {
        let left = stop;
        armFailpoints(() => {
          if (left-- === 0) throw new TypeError("the machine stops");
        });
        expect(() => replay(machine.store, log, everything.versionsKept)).toThrow("the machine stops");
        disarm();
        const sequence = read(machine.store, (s) => readHead(s).sequence);
        expect(stateOf(machine.store)).toEqual(states[sequence]);
        await machine.restart();
        replay(machine.store, log, everything.versionsKept);
        expect(stateOf(machine.store)).toEqual(states[log.length]);
        await machine.empty();
      }
    });
  });

  it("[L2] complete a random log after a stop at a random step, on the same directory", async () => {
    await fc.assert(
      fc.asyncProperty(historyArbitrary, fc.array(fc.nat(200), { maxLength: 5 }), async (history, stops) => {
        const { log, states } = record(history);
        await withMachines(1, async (machine) => {
          for (const stop of stops) {
            let left = stop;
            armFailpoints(() => {
              if (left-- === 0) throw new TypeError("the machine stops");
            });
            try {
              replay(machine.store, log, history.versionsKept);
            } catch (error) {
              expect(String(error)).toContain("the machine stops");
            }
            disarm();
            expect(stateOf(machine.store)).toEqual(states[read(machine.store, (s) => readHead(s).sequence)]);
            await machine.restart();
          }
          replay(machine.store, log, history.versionsKept);
          expect(stateOf(machine.store)).toEqual(states[log.length]);
        });
      }),
      { numRuns: runs },
    );
  });

  it("[L2] under a second number are counted and not applied, for as long as they are remembered", () => {
    const store = prepared(new MemoryStore(collectionTables));
    const entry = (sequence: number, opId: number): LogEntry => ({
      sequence,
      epoch: 0,
      opId: opId.toString(16).padStart(32, "0"),
      timeMs: sequence,
      operations: [],
    });
    const apply = (sequence: number, opId: number) => applyEntry(store, entry(sequence, opId), all);
    const remembered = limits.entriesRemembered;
    let last = 0;
    for (; last < remembered; last++) expect(apply(last + 1, last + 1)).toBe(true);
    // Each of these is counted, so that the oldest one is forgotten.
    for (const opId of [1, remembered, remembered - 1, remembered / 2, 5, 6])
      expect(apply(++last, opId), `opId ${opId} as entry ${last}`).toBe(false);
    // The entries up to 6 are forgotten by now; 5 and 6 were seen once more, as 1 was.
    for (const opId of [2, 3, 4]) expect(apply(++last, opId), `opId ${opId} as entry ${last}`).toBe(true);
    for (const opId of [1, 5, 6, 13])
      expect(apply(++last, opId), `opId ${opId} as entry ${last}`).toBe(false);
    expect(apply(++last, 12)).toBe(true);
    expect(read(store, readHead).sequence).toBe(last);
    expect(apply(last - 3, 5)).toBe(false);
    expect(read(store, readHead).sequence).toBe(last);
  });
});

describe("entries that do not follow", () => {
  it("[L3] are rejected and change nothing: a gap, another entry under the number, an older epoch, another state", () => {
    const { log } = record(everything);
    const store = prepared(new MemoryStore(collectionTables));
    replay(store, log.slice(0, 3), all);
    const before = stateOf(store);
    const next = decodeEntry(log[3]);
    const refused = (entry: LogEntry) => {
      expect(() => applyEntry(store, entry, all)).toThrow();
      expect(stateOf(store)).toEqual(before);
    };
    refused(decodeEntry(log[4]));
    refused({ ...decodeEntry(log[1]), opId: next.opId });
    refused({ ...next, operations: [{ kind: "commit", transactionId: `1-${"0".repeat(23)}9` }] });
    refused({ ...next, operations: [...next.operations, { kind: "deleteIndex", index: "sparse" }] });
    expect(applyEntry(store, { ...next, epoch: 2 }, all)).toBe(true);
    const later = stateOf(store);
    const older = { ...decodeEntry(log[4]), epoch: 1 };
    expect(() => applyEntry(store, older, all)).toThrow("Invariant broken");
    expect(stateOf(store)).toEqual(later);
  });
});
