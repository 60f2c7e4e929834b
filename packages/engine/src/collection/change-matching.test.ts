// Does a change by filter change exactly the records that match when it is applied, in bounded steps and memory?

import { randomNumbers } from "@quiverdb/kernels/random";
import { limits } from "@quiverdb/protocol/limits";
import { describe, expect, test } from "vitest";
import { readU32Key, text } from "../base/bytes.ts";
import { finishAtOnce } from "../base/steps.ts";
import { LocalSequencer, randomOpId } from "../log/sequencer.ts";
import { MemoryStore } from "../storage/memory.ts";
import type { Reader } from "../storage/store.ts";
import type { WriteRequest } from "./accept.ts";
import { type ChangeMatching, changeOf, MatchingBatch, type RecordChange } from "./change-matching.ts";
import type { CollectionDefinition } from "./definition.ts";
import { prepareCollection } from "./format.ts";
import { readHead } from "./head.ts";
import { RecordReader } from "./record.ts";
import { encodeDelete, encodeUpserts } from "./schema.ts";
import { collectionTables, ordinalKey } from "./tables.ts";

const definition: CollectionDefinition = {
  name: "test",
  dense: true,
  dimension: 1,
  sparse: false,
  text: true,
  maxVectors: null,
  replicationFactor: null,
  storeRawText: true,
};

/** The number in each record's metadata, and whether it was patched; matched are those with n = 1. */
type Plain = Map<string, { n: number; seen: boolean }>;
const filter = { n: 1 };

class Tested {
  readonly store = new MemoryStore(collectionTables);
  readonly #sequencer: LocalSequencer;

  constructor() {
    prepareCollection(this.store, 1, definition);
    this.#sequencer = new LocalSequencer(this.store, {
      versionsKept: 1_000,
      maxVectors: null,
      clock: () => 1,
      newOpId: randomOpId,
    });
  }

  /** Writes requests as one log entry. @returns their values */
  write(...requests: WriteRequest[]): unknown[] {
    return [...this.#sequencer.write(requests)].flat().map((outcome) => {
      if (!outcome.ok) throw outcome.error;
      return outcome.value;
    });
  }

  read<T>(act: (reader: Reader) => T): T {
    const readTxn = this.store.beginRead();
    try {
      return act(readTxn);
    } finally {
      readTxn.release();
    }
  }

  /** What the request thread finds and encodes at the current version. */
  found(change: RecordChange): ChangeMatching {
    return this.read((reader) => {
      const { version, live, nextOrdinal: end } = readHead(reader);
      const ordinals = [...reader.entries("records")].flatMap(([key, stored]) =>
        JSON.parse(new RecordReader(stored).metadataJson as string).n === 1 ? [readU32Key(key)] : [],
      );
      const encoding = new MatchingBatch(reader, change, null).encode(ordinals, ordinals.length);
      const request = {
        matching: { filter, times: [], version, live, end },
        batch: finishAtOnce(encoding),
      };
      return change.kind === "delete"
        ? { kind: "deleteMatching", ...request }
        : { kind: "updateMatching", patch: change.patch, ...request };
    });
  }

  records(): Plain {
    return this.read((reader) => {
      const all: Plain = new Map();
      for (const [, stored] of reader.entries("records")) {
        const record = new RecordReader(stored);
        const { n, seen = false } = JSON.parse(record.metadataJson as string);
        all.set(record.id, { n, seen });
      }
      return all;
    });
  }
}

const upsert = (records: readonly (readonly [id: string, n: number])[], long = ""): WriteRequest => ({
  kind: "upsert",
  batch: encodeUpserts(
    definition,
    records.map(([id, n]) => ({ id, dense_values: [n], ...(long && { text: long }), metadata: { n } })),
    "vectors",
  ),
});

const patch: RecordChange = { kind: "patch", patch: '{"seen":true}' };

describe("[W12] a change by filter", () => {
  test("changes exactly the records that match when it is applied, whatever was written since they were found", () => {
    const random = randomNumbers(7);
    const below = (n: number) => Math.floor(random() * n);
    const tested = new Tested();
    const model: Plain = new Map();
    const randomWrite = (): WriteRequest => {
      const ids = [...model.keys()];
      if (ids.length > 0 && below(4) === 0) {
        const id = ids[below(ids.length)];
        model.delete(id);
        return { kind: "delete", batch: encodeDelete(id) };
      }
      const records = Array.from({ length: 1 + below(5) }, () => [`r${below(40)}`, below(3)] as const);
      for (const [id, n] of records) model.set(id, { n, seen: false });
      return upsert(records);
    };
    let changed = 0;
    for (let round = 0; round < 300; round++) {
      tested.write(randomWrite());
      const change = below(3) === 0 ? ({ kind: "delete" } as const) : patch;
      const request = tested.found(change);
      // Some are written before the change, others in the same log entry before it.
      for (let writes = below(4); writes > 0; writes--) tested.write(randomWrite());
      const together = Array.from({ length: below(3) }, randomWrite);
      const value = tested.write(...together, request).at(-1);
      const matching = [...model].filter(([, { n }]) => n === 1);
      for (const [id, record] of matching)
        if (change.kind === "delete") model.delete(id);
        else model.set(id, { ...record, seen: true });
      expect(value).toBe(matching.length);
      expect(tested.records()).toEqual(model);
      changed += matching.length;
    }
    expect(changed).toBeGreaterThan(500);
  });

  test("can be tried again in another state", () => {
    const tested = new Tested();
    tested.write(
      upsert([
        ["a", 1],
        ["b", 1],
        ["c", 2],
      ]),
    );
    const request = tested.found({ kind: "delete" });
    const sent = (request as { batch: Uint8Array }).batch.slice();
    tested.write(
      upsert([
        ["a", 2],
        ["c", 1],
      ]),
    );
    for (let attempt = 0; attempt < 2; attempt++)
      tested.read((reader) => {
        const operation = changeOf(reader, readHead(reader), request) as { batch: Uint8Array };
        expect(text(operation.batch)).toBe("\0\x01\0b\0\x01\0c");
        expect((request as { batch: Uint8Array }).batch).toEqual(sent);
      });
  });

  test("leaves nothing to do to the writer if nothing was written since", () => {
    const tested = new Tested();
    tested.write(upsert(Array.from({ length: 100 }, (_, i) => [`r${i}`, 1])));
    const request = tested.found(patch);
    const head = tested.read(readHead);
    const unread = {
      get: () => expect.unreachable(),
      entries: () => expect.unreachable(),
      keys: () => expect.unreachable(),
    };
    const operation = changeOf(unread, head, request);
    expect((operation as { batch: Uint8Array }).batch).toBe((request as { batch: Uint8Array }).batch);
  });

  test("is encoded in steps of a few records, in little more memory than its batch", () => {
    const tested = new Tested();
    const count = 20_000;
    tested.write(upsert(Array.from({ length: count }, (_, i) => [`r${i}`, 1])));
    for (const change of [{ kind: "delete" }, patch] as const)
      tested.read((reader) => {
        let reads = 0;
        const counting: Reader = {
          get(table, key) {
            if (table === "records") reads++;
            return reader.get(table, key);
          },
          entries: (...range) => reader.entries(...range),
          keys: (...range) => reader.keys(...range),
        };
        const batch = new MatchingBatch(counting, change, null);
        const steps = batch.encode(Array(count).keys(), count);
        let step = steps.next();
        let bytes = 0;
        for (; !step.done; step = steps.next()) {
          expect(reads).toBeLessThanOrEqual(32);
          reads = 0;
          bytes = Math.max(bytes, batch.bytes);
        }
        expect(step.value.length).toBe(bytes);
        expect(step.value.buffer.byteLength).toBeLessThanOrEqual(2 * bytes);
      });
  });

  test("[I6] of too many records is refused before one is read", () => {
    const tested = new Tested();
    const count = limits.changeRecordsMax + 1;
    const unread = {
      [Symbol.iterator]: () => expect.unreachable(),
    };
    tested.read((reader) => {
      const steps = new MatchingBatch(reader, { kind: "delete" }, null).encode(unread, count);
      expect(() => finishAtOnce(steps)).toThrow(
        expect.objectContaining({
          code: "invalid_request",
          details: { path: "filter", records: count, limit_records: limits.changeRecordsMax },
        }),
      );
    });
  });

  test("[I6] of too many bytes is refused as soon as they are too many", () => {
    const tested = new Tested();
    const textBytes = 4 * 1024 * 1024;
    tested.write(upsert([["a", 1]], "x".repeat(textBytes)));
    const ordinal = tested.read((reader) =>
      readU32Key(reader.get("ids", new TextEncoder().encode("a")) as Uint8Array),
    );
    expect(tested.read((reader) => reader.get("records", ordinalKey(ordinal))?.length)).toBeGreaterThan(
      textBytes,
    );
    const records = limits.changeBytesMax / textBytes;
    tested.read((reader) => {
      const steps = new MatchingBatch(reader, patch, null).encode(Array(1_000).fill(ordinal), 1_000);
      expect(() => finishAtOnce(steps)).toThrow(
        expect.objectContaining({
          code: "invalid_request",
          details: { path: "filter", records, limit_bytes: limits.changeBytesMax },
        }),
      );
    });
  });
});
