import assert from "node:assert/strict";
import { randomNumbers } from "@quiverdb/kernels/random";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ByteWriter } from "../base/bytes.ts";
import { MemoryStore } from "../storage/memory.ts";
import type { ReadTransaction } from "../storage/store.ts";
import { readOperations, storedRecord, writeUpsert } from "./record.ts";
import { RecordIdCache } from "./record-id-cache.ts";
import { ordinalKey } from "./tables.ts";

const records = 20_000;
const idOf = (ordinal: number) => (ordinal % 100 === 7 ? `${ordinal} `.padEnd(600, "x") : `id ${ordinal} é`);
const documentOf = (ordinal: number) => (ordinal % 3 === 0 ? null : `document ${ordinal % 11}`);

/** Some records have none, and some a very long one. */
const metadataOf = (ordinal: number): string | null =>
  ordinal % 7 === 0 ? null : `{"n":${ordinal},"é":"${"x".repeat(ordinal % 500 === 1 ? 20_000 : 1_000)}"}`;

let store: MemoryStore;
let reads = 0;
let reader: ReadTransaction;

function stored(ordinal: number): Uint8Array {
  const out = new ByteWriter();
  const content = { dense: null, sparse: null, text: null, metadataJson: metadataOf(ordinal) };
  writeUpsert(out, { id: idOf(ordinal), documentId: documentOf(ordinal), ...content });
  const [operation] = readOperations(out.take());
  if (operation?.kind !== "upsert") throw new Error("an upsert was written");
  return storedRecord(operation, 1);
}

beforeEach(() => {
  store = new MemoryStore(["records"]);
  store.write((writer) => {
    for (let ordinal = 0; ordinal < records; ordinal++)
      writer.put("records", ordinalKey(ordinal), stored(ordinal));
  });
  const read = store.beginRead();
  reads = 0;
  reader = {
    get(table, key) {
      reads++;
      return read.get(table, key);
    },
    entries: (table, range) => read.entries(table, range),
    keys: (table, range) => read.keys(table, range),
    release: () => read.release(),
  };
});
afterEach(async () => {
  reader.release();
  await store.close();
});

describe("recordIds", () => {
  test("are those of the records, in any order, as often as they are asked for", () => {
    const recordIds = new RecordIdCache();
    const random = randomNumbers(1);
    for (let asked = 0; asked < 50_000; asked++) {
      const ordinal = Math.floor(random() ** 2 * records);
      assert.deepEqual(recordIds.of(reader, ordinal), {
        ordinal,
        id: idOf(ordinal),
        documentId: documentOf(ordinal),
      });
    }
  });

  test("are read once where they are few, and again where they are long or forgotten", () => {
    const recordIds = new RecordIdCache();
    const askAll = () => {
      for (let ordinal = 0; ordinal < 1_000; ordinal++) recordIds.of(reader, ordinal);
    };
    askAll();
    expect(reads).toBe(1_000);
    askAll();
    expect(reads).toBe(1_010);
    const { memoryBytes } = recordIds;
    expect(memoryBytes).toBeGreaterThan(990 * 100);
    expect(memoryBytes).toBeLessThan(990 * 200);
    recordIds.clear();
    expect(recordIds.memoryBytes).toBe(0);
    askAll();
    expect(reads).toBe(2_010);
  });

  test("of all records fit when they are asked for again and again", () => {
    const recordIds = new RecordIdCache();
    for (let round = 0; round < 6; round++)
      for (let ordinal = 0; ordinal < records; ordinal++) recordIds.of(reader, ordinal);
    reads = 0;
    for (let ordinal = 0; ordinal < records; ordinal++) recordIds.of(reader, ordinal);
    expect(reads).toBe(records / 100);
  });

  test("take no memory where none may be taken", () => {
    const recordIds = new RecordIdCache(() => false);
    for (let asked = 0; asked < 3; asked++)
      for (let ordinal = 0; ordinal < 100; ordinal++)
        expect(recordIds.of(reader, ordinal).id).toBe(idOf(ordinal));
    expect(recordIds.memoryBytes).toBe(0);
    expect(reads).toBe(300);
  });

  test("of a record that the version does not have are an error", () => {
    expect(() => new RecordIdCache().of(reader, records)).toThrow(
      /ordinal 20000, which the version does not have/,
    );
  });

  test("metadata is that of the records, whatever room there is, and what was read last is not read again", () => {
    for (const bytesMax of [Number.POSITIVE_INFINITY, 0, 3e6]) {
      const recordIds: RecordIdCache = new RecordIdCache(
        (bytes) => recordIds.memoryBytes + bytes <= bytesMax,
      );
      const random = randomNumbers(2);
      for (let asked = 0; asked < 30_000; asked++) {
        const ordinal = Math.floor(random() * records);
        assert.equal(recordIds.metadataOf(reader, ordinal), metadataOf(ordinal));
      }
      expect(recordIds.memoryBytes).toBeLessThanOrEqual(Math.min(16 * 2 ** 20, bytesMax));
      recordIds.clear();
      expect(recordIds.memoryBytes).toBe(0);
    }
    const recordIds = new RecordIdCache();
    recordIds.metadataOf(reader, 2);
    reads = 0;
    for (let ordinal = 2; ordinal < 7; ordinal++) recordIds.metadataOf(reader, ordinal);
    expect(reads).toBe(4);
    for (let ordinal = 2; ordinal < 7; ordinal++) recordIds.metadataOf(reader, ordinal);
    expect(reads).toBe(4);
  });
});
