// Does the same log produce the same collection on every replica, however often messages are repeated and wherever a replica stops?

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { limits } from "@quiverdb/protocol/limits";
import fc from "fast-check";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import {
  type History,
  historyArbitrary,
  messagesOf,
  positionOf,
  prepared,
  read,
  record,
  recordAlone,
  seenOf,
  stateOf,
} from "../../test/log/histories.ts";
import { armFailpoints } from "../base/failpoint.ts";
import { readHead } from "../collection/head.ts";
import { keptOf, readHistory } from "../collection/history.ts";
import { readPlace } from "../collection/place.ts";
import { collectionTables } from "../collection/tables.ts";
import { LmdbStore } from "../storage/lmdb.ts";
import { MemoryStore } from "../storage/memory.ts";
import type { Store } from "../storage/store.ts";
import { decodeMessage } from "./message.ts";
import { type Applied, applyOrdered, type OrderedMessage } from "./ordered.ts";
import type { TrialOptions } from "./sequencer.ts";

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
    [{ do: "commit" }],
    [{ do: "createIndex", index: "tf-idf" }, { do: "begin" }],
    [{ do: "stage", records: [{ id: 5, x: 1, what: 0 }] }],
    [{ do: "deleteIndex", index: "dense" }, { do: "abort" }],
    [{ do: "upsert", records: [{ id: 6, x: 1, what: 2 }] }],
    [{ do: "delete", id: 6 }],
    [{ do: "setHistory", policy: "all" }],
    [{ do: "delete", id: 3 }],
    [{ do: "putTag", version: 5 }],
    [{ do: "upsert", records: [{ id: 1, x: 2, what: 7 }] }],
    [{ do: "restoreVersion", version: 5 }],
    [{ do: "setHistory", policy: { versions: 1 } }, { do: "vacuum" }],
    [{ do: "deleteTag", version: 5 }, { do: "vacuum" }],
    [{ do: "change", records: [{ id: 7, x: 1, what: 7, born: 0 }], once: 1 }],
    [{ do: "patch", id: 7, once: 2 }],
    [{ do: "patch", id: 7, once: 2 }],
  ],
};

const apply = (store: Store, messages: readonly OrderedMessage[], options: TrialOptions): Applied[] =>
  [...applyOrdered(store, messages, options)].flat();

/** @returns whether each message was new */
const replay = (store: Store, log: readonly Uint8Array[], options: TrialOptions, from = 0): boolean[] =>
  apply(store, messagesOf(log, from), options).map(({ outcomes }) => outcomes !== undefined);

describe("a log on other replicas", () => {
  it("[L1] makes the same collection, byte for byte, after each of its messages, one by one and many in one write", async () => {
    await fc.assert(
      fc.asyncProperty(historyArbitrary, fc.nat(), async (history, cut) => {
        const { log, states, seen } = record(history);
        await withMachines(2, (one, another) => {
          const middle = cut % (log.length + 1);
          replay(another.store, log.slice(0, middle), history);
          expect(stateOf(another.store)).toEqual(states[middle]);
          replay(another.store, log, history, middle);
          for (const i of log.keys()) {
            expect(replay(one.store, log.slice(0, i + 1), history, i)).toEqual([true]);
            expect(stateOf(one.store)).toEqual(states[i + 1]);
          }
          expect(stateOf(another.store)).toEqual(states[log.length]);
          for (const { store } of [one, another]) expect(seenOf(store)).toEqual(seen);
        });
      }),
      { numRuns: runs },
    );
  });

  it("[L1] makes the same versions on a replica that keeps fewer of them", () => {
    fc.assert(
      fc.property(historyArbitrary, fc.constantFrom(1, 4, all), (history, versionsKept) => {
        const { log, seen } = record(history);
        const store = prepared(new MemoryStore(collectionTables));
        replay(store, log, { ...history, versionsKept });
        expect(seenOf(store)).toEqual(seen);
        const needed = read(store, (s) => keptOf(readHistory(s), readHead(s).version, versionsKept));
        expect(read(store, (s) => [...s.keys("versions")].length)).toBeLessThanOrEqual(needed);
      }),
      { numRuns: 4 * runs },
    );
  });

  it("[L1] a node alone and replicas answer alike", () => {
    fc.assert(
      fc.property(historyArbitrary, (history) => {
        expect(recordAlone(history).outcomes).toEqual(record(history).outcomes);
      }),
      { numRuns: 4 * runs },
    );
  });

  it("[L1] [L4] random histories have all kinds of requests, accepted and rejected, and dropped versions", () => {
    const seen = new Set<string>();
    for (const history of fc.sample(historyArbitrary, { seed: 1, numRuns: 300 })) {
      const { log, outcomes, states } = record(history);
      for (const outcome of outcomes) seen.add(outcome);
      for (const bytes of log) for (const { kind } of decodeMessage(bytes).requests) seen.add(kind);
      const hasFirst = states[log.length].some((line) => line.startsWith("versions 0000000000000000 "));
      seen.add(hasFirst ? "kept" : "forgotten");
    }
    expect([...seen].sort()).toEqual(
      [
        ...["upsert", "delete", "begin", "stage", "commit", "abort", "createIndex", "deleteIndex"],
        ...["ok", "vector_not_found", "max_vectors_exceeded", "transaction_ongoing", "transaction_not_found"],
        ...["transaction_not_open", "index_already_exists", "index_not_found", "kept", "forgotten"],
        ...["setHistory", "putTag", "deleteTag", "vacuum", "restoreVersion"],
        ...["version_gone", "version_not_found", "tag_not_found", "tag_already_exists"],
        ...["change", "patch", "record_changed", "idempotency_key_reused"],
      ].sort(),
    );
  });

  it("[L1] every kind of request is in the history that the other tests replay", () => {
    const { outcomes, log } = record(everything);
    expect(outcomes.filter((outcome) => outcome !== "ok")).toEqual(["vector_not_found"]);
    const kinds = log.flatMap((bytes) => decodeMessage(bytes).requests.map(({ kind }) => kind));
    expect(new Set(kinds)).toEqual(
      new Set([
        ...["upsert", "delete", "begin", "stage", "commit", "abort", "createIndex", "deleteIndex"],
        ...["setHistory", "putTag", "deleteTag", "vacuum", "restoreVersion", "change", "patch"],
      ]),
    );
  });
});

describe("repeated messages", () => {
  it("[L2] change nothing: the log twice, in halves, and from any message on, with restarts between", async () => {
    await fc.assert(
      fc.asyncProperty(historyArbitrary, fc.array(fc.nat(), { maxLength: 4 }), async (history, cuts) => {
        const { log, states } = record(history);
        await withMachines(2, async (twice, parts) => {
          replay(twice.store, log, history);
          expect(replay(twice.store, log, history)).toEqual(log.map(() => false));
          expect(stateOf(twice.store)).toEqual(states[log.length]);
          let applied = 0;
          for (const cut of cuts) {
            // Ends anywhere, and begins again anywhere before that.
            const end = cut % (log.length + 1);
            const from = Math.min(applied, cut % 7);
            if (end < from) continue;
            const isNew = replay(parts.store, log.slice(0, end), history, from);
            expect(isNew).toEqual(log.slice(from, end).map((_, i) => from + i >= applied));
            applied = Math.max(applied, end);
            expect(stateOf(parts.store)).toEqual(states[applied]);
            await parts.restart();
          }
          replay(parts.store, log, history);
          expect(stateOf(parts.store)).toEqual(states[log.length]);
        });
      }),
      { numRuns: runs },
    );
  });

  it("[L2] complete the state of a replica that stopped at any step of any message", async () => {
    const { log, states } = record(everything);
    const oneByOne = (store: Store) => {
      for (const i of log.keys()) replay(store, log.slice(0, i + 1), everything, i);
    };
    let passages = 0;
    armFailpoints(() => passages++);
    oneByOne(prepared(new MemoryStore(collectionTables)));
    disarm();
    expect(passages).toBeGreaterThan(20);
    await withMachines(1, async (machine) => {
      for (let stop = 0; stop < passages; stop++) {
        let left = stop;
        armFailpoints(() => {
          if (left-- === 0) throw new TypeError("the replica stops");
        });
        expect(() => oneByOne(machine.store)).toThrow("the replica stops");
        disarm();
        const sequence = read(machine.store, (s) => readHead(s).sequence);
        expect(stateOf(machine.store)).toEqual(states[sequence]);
        await machine.restart();
        replay(machine.store, log, everything);
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
              if (left-- === 0) throw new TypeError("the replica stops");
            });
            try {
              replay(machine.store, log, history);
            } catch (error) {
              expect(String(error)).toContain("the replica stops");
            }
            disarm();
            expect(stateOf(machine.store)).toEqual(states[read(machine.store, (s) => readHead(s).sequence)]);
            await machine.restart();
          }
          replay(machine.store, log, history);
          expect(stateOf(machine.store)).toEqual(states[log.length]);
        });
      }),
      { numRuns: runs },
    );
  });

  it("[L2] at a second position are counted and not applied, for as long as they are remembered", () => {
    const store = prepared(new MemoryStore(collectionTables));
    const message = (position: number, opId: number): OrderedMessage => ({
      position,
      epoch: 0,
      opId: opId.toString(16).padStart(32, "0"),
      timeMs: position,
      crc32: 0,
      requests: [],
    });
    const options = { versionsKept: all, maxVectors: null };
    const isNew = (position: number, opId: number) =>
      apply(store, [message(position, opId)], options)[0].outcomes !== undefined;
    const remembered = limits.entriesRemembered;
    let last = 0;
    for (; last < remembered; last++) expect(isNew(last + 1, last + 1)).toBe(true);
    // Each of these is counted, so that the oldest one is forgotten.
    for (const opId of [1, remembered, remembered - 1, remembered / 2, 5, 6])
      expect(isNew(++last, opId), `opId ${opId} at ${last}`).toBe(false);
    // The messages up to 6 are forgotten by now; 5 and 6 were seen once more, as 1 was.
    for (const opId of [2, 3, 4]) expect(isNew(++last, opId), `opId ${opId} at ${last}`).toBe(true);
    for (const opId of [1, 5, 6, 13]) expect(isNew(++last, opId), `opId ${opId} at ${last}`).toBe(false);
    expect(isNew(++last, 12)).toBe(true);
    expect(read(store, readHead).sequence).toBe(last);
    expect(isNew(last - 3, 5)).toBe(false);
    expect(read(store, readHead).sequence).toBe(last);
  });
});

describe("the place of a replica", () => {
  it("[L3] is stored with what it stands for, and its hash differs where the logs differ", () => {
    const { log } = record(everything);
    const placeAfter = (messages: readonly OrderedMessage[]) => {
      const store = prepared(new MemoryStore(collectionTables));
      expect(read(store, readPlace).position).toBe(0);
      apply(store, messages, everything);
      return read(store, readPlace);
    };
    const messages = messagesOf(log.slice(0, 1));
    expect(placeAfter(messages).position).toBe(positionOf(0));
    const [first] = messages;
    const others = [
      { ...first, crc32: first.crc32 ^ 1 },
      { ...first, opId: "f".repeat(32) },
    ];
    for (const other of others) expect(placeAfter([other]).hash).not.toEqual(placeAfter(messages).hash);
    expect(placeAfter(messages).hash).toEqual(placeAfter(messages).hash);
  });

  it("[L3] a message of an older epoch, or a commit beside other requests, is refused and changes nothing", () => {
    const { log } = record(everything);
    const store = prepared(new MemoryStore(collectionTables));
    const messages = messagesOf(log);
    apply(store, [...messages.slice(0, 2), { ...messages[2], epoch: 2 }], everything);
    const before = stateOf(store);
    expect(() => apply(store, [{ ...messages[3], epoch: 1 }], everything)).toThrow("Invariant broken");
    const commit = { kind: "commit", transactionId: `1-${"0".repeat(24)}` } as const;
    const mixed = { ...messages[3], epoch: 2, requests: [commit, ...messages[3].requests] };
    expect(() => apply(store, [mixed], everything)).toThrow("Invariant broken");
    expect(stateOf(store)).toEqual(before);
    apply(store, [{ ...messages[3], epoch: 2 }], everything);
    expect(read(store, readHead).epoch).toBe(2);
  });
});
