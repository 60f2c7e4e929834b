import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isQuiverError } from "@quiverdb/protocol/errors";
import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import { compareBytes, u32Key, utf8 } from "../base/bytes.ts";
import { LmdbStore } from "./lmdb.ts";
import { MemoryStore } from "./memory.ts";
import { type Reader, type Store, verifiedPayload, type Writer, withChecksum } from "./store.ts";

const tables = ["a", "b"];
const cleanups: (() => Promise<void>)[] = [];

const kinds: [string, () => Store][] = [
  ["memory", () => new MemoryStore(tables)],
  [
    "lmdb",
    () => {
      const path = mkdtempSync(join(tmpdir(), "quiver-store-"));
      const store = new LmdbStore(path, tables);
      cleanups.push(async () => {
        await store.close();
        rmSync(path, { recursive: true, force: true });
      });
      return store;
    },
  ],
];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

const read = (reader: Reader, table: string, key: Uint8Array) => {
  const value = reader.get(table, key);
  return value && Buffer.from(value).toString();
};

describe.each(kinds)("store contract: %s", (_name, open) => {
  it("[S1] a write is seen whole by later read transactions", () => {
    const store = open();
    store.write((w) => {
      w.put("a", utf8("x"), utf8("1"));
      w.put("b", utf8("x"), utf8("2"));
      expect(read(w, "a", utf8("x"))).toBe("1");
    });
    const readTxn = store.beginRead();
    expect(read(readTxn, "a", utf8("x"))).toBe("1");
    expect(read(readTxn, "b", utf8("x"))).toBe("2");
    expect(readTxn.get("a", utf8("y"))).toBeUndefined();
    readTxn.release();
  });

  it("[S1] a write that throws leaves nothing", () => {
    const store = open();
    store.write((w) => w.put("a", utf8("x"), utf8("1")));
    const bug = new TypeError("stop");
    expect(() =>
      store.write((w) => {
        w.put("a", utf8("x"), utf8("2"));
        w.put("a", utf8("y"), utf8("2"));
        w.delete("a", utf8("x"));
        w.clear("a");
        throw bug;
      }),
    ).toThrow(bug);
    const readTxn = store.beginRead();
    expect(read(readTxn, "a", utf8("x"))).toBe("1");
    expect(readTxn.get("a", utf8("y"))).toBeUndefined();
    readTxn.release();
    store.write((w) => w.put("a", utf8("y"), utf8("3")));
  });

  it("[S2] a read transaction keeps its state", () => {
    const store = open();
    store.write((w) => w.put("a", utf8("x"), utf8("1")));
    const before = store.beginRead();
    for (let i = 0; i < 20; i++)
      store.write((w) => {
        w.put("a", utf8("x"), utf8(`later ${i}`));
        w.put("a", u32Key(i), new Uint8Array(5000));
      });
    const after = store.beginRead();
    expect(read(before, "a", utf8("x"))).toBe("1");
    expect([...before.keys("a")]).toHaveLength(1);
    expect(read(after, "a", utf8("x"))).toBe("later 19");
    expect([...after.keys("a")]).toHaveLength(21);
    before.release();
    expect(read(after, "a", utf8("x"))).toBe("later 19");
    after.release();
    expect(() => after.get("a", utf8("x"))).toThrow("released");
  });

  it("[S4] bytes given to the store may be reused at once", () => {
    const store = open();
    const key = utf8("k1");
    const value = new Uint8Array(100_000).fill(7);
    store.write((w) => {
      w.put("a", key, value);
      key[1] = "2".charCodeAt(0);
      value.fill(8);
      w.put("a", key, value);
    });
    const readTxn = store.beginRead();
    expect(readTxn.get("a", utf8("k1"))?.every((byte) => byte === 7)).toBe(true);
    expect(readTxn.get("a", utf8("k2"))?.every((byte) => byte === 8)).toBe(true);
    const kept = [...readTxn.entries("a")];
    expect(kept.map(([k, v]) => [Buffer.from(k).toString(), v[0], v.length])).toEqual([
      ["k1", 7, 100_000],
      ["k2", 8, 100_000],
    ]);
    const got = readTxn.get("a", utf8("k1")) as Uint8Array;
    for (const bytes of [got, ...kept.flat(), ...readTxn.keys("a")]) {
      const copy = bytes.slice();
      copy.fill(0);
      expect(bytes.some((byte) => byte !== 0)).toBe(true);
    }
    readTxn.release();
  });

  it("[S3] behaves as a sorted map, in ranges of both directions", () => {
    const key = fc.uint8Array({ minLength: 1, maxLength: 4 });
    const change = fc.oneof(
      { weight: 6, arbitrary: fc.record({ put: key, value: fc.uint8Array({ maxLength: 40 }) }) },
      { weight: 3, arbitrary: fc.record({ delete: key }) },
      { weight: 1, arbitrary: fc.constant({ clear: true }) },
    );
    const range = fc.record(
      { start: key, end: key, reverse: fc.boolean(), limit: fc.integer({ min: 0, max: 5 }) },
      { requiredKeys: [] },
    );
    const store = open();
    fc.assert(
      fc.property(
        fc.array(fc.array(change, { maxLength: 8 }), { maxLength: 6 }),
        range,
        (writes, interval) => {
          store.write((w) => w.clear("a"));
          let model: [Uint8Array, Uint8Array][] = [];
          for (const changes of writes)
            store.write((w) => {
              for (const c of changes) {
                if ("clear" in c) {
                  w.clear("a");
                  model = [];
                  continue;
                }
                const changed = "put" in c ? c.put : c.delete;
                const had = model.some(([k]) => compareBytes(k, changed) === 0);
                model = model.filter(([k]) => compareBytes(k, changed) !== 0);
                if ("put" in c) {
                  w.put("a", c.put, c.value);
                  model.push([c.put, c.value]);
                } else expect(w.delete("a", changed)).toBe(had);
              }
            });
          model.sort((x, y) => compareBytes(x[0], y[0]));
          let expected = model.filter(
            ([k]) =>
              (!interval.start || compareBytes(k, interval.start) >= 0) &&
              (!interval.end || compareBytes(k, interval.end) < 0),
          );
          if (interval.reverse) expected.reverse();
          expected = expected.slice(0, interval.limit ?? expected.length);
          const readTxn = store.beginRead();
          const plain = (entries: Iterable<[Uint8Array, Uint8Array]>) =>
            [...entries].map(([k, v]) => [[...k], [...v]]);
          expect(plain(readTxn.entries("a", interval))).toEqual(plain(expected));
          expect([...readTxn.keys("a", interval)].map((k) => [...k])).toEqual(expected.map(([k]) => [...k]));
          readTxn.release();
        },
      ),
      { numRuns: 150 },
    );
  });

  it("[S3] a key can be appended if it is the greatest of its table, and nothing is changed if not", () => {
    const store = open();
    store.write((w) => {
      for (const key of [0, 1, 5, 300]) w.append("a", u32Key(key), u32Key(key));
    });
    for (const key of [300, 299, 5])
      expect(() => store.write((w) => w.append("a", u32Key(key), utf8("other")))).toThrow("append");
    store.write((w) => w.delete("a", u32Key(300)));
    store.write((w) => w.append("a", u32Key(299), u32Key(299)));
    const readTxn = store.beginRead();
    expect([...readTxn.entries("a")].map(([k, v]) => [...k, ...v])).toEqual(
      [0, 1, 5, 299].map((key) => [...u32Key(key), ...u32Key(key)]),
    );
    readTxn.release();
  });

  const bytesOf = (writer: Writer, spool: number, at: number, length: number) => {
    const into = new Uint8Array(length);
    return writer.readSpool(spool, at, into) ? Buffer.from(into).toString() : undefined;
  };

  it("[S6] a spool has what each write put there, in one or many parts, and a write that throws leaves the bytes before", () => {
    const store = open();
    const reused = utf8("first ");
    store.write((w) => {
      w.writeSpool(7, 0, [reused]);
      reused.fill(0);
    });
    store.write((w) => w.writeSpool(7, 6, [utf8("sec"), utf8(""), utf8("ond")]));
    const bug = new TypeError("stop");
    expect(() =>
      store.write((w) => {
        w.writeSpool(7, 12, [utf8("lost")]);
        w.removeSpool(7);
        throw bug;
      }),
    ).toThrow(bug);
    store.write((w) => {
      expect(bytesOf(w, 7, 0, 12)).toBe("first second");
      w.writeSpool(7, 12, [utf8("!")]);
      expect(bytesOf(w, 7, 6, 7)).toBe("second!");
      expect(bytesOf(w, 7, 6, 8)).toBeUndefined();
      expect(bytesOf(w, 8, 0, 1)).toBeUndefined();
    });
  });

  it("[S6] a spool is gone after the write that removes it, and so are others that a crash has left", () => {
    const store = open();
    store.write((w) => {
      for (const spool of [1, 2, 3]) w.writeSpool(spool, 0, [utf8(`spool ${spool}`)]);
    });
    store.write((w) => {
      w.removeSpool(1);
      w.removeSpool(9);
      expect(bytesOf(w, 1, 0, 7)).toBe("spool 1");
    });
    store.removeSpoolsBut(3);
    store.write((w) => {
      expect([1, 2, 3].map((spool) => bytesOf(w, spool, 0, 7))).toEqual([undefined, undefined, "spool 3"]);
    });
    store.removeSpoolsBut(null);
    store.write((w) => expect(bytesOf(w, 3, 0, 7)).toBeUndefined());
  });
});

describe("checksum trailer", () => {
  it("[S5] any changed bit, and another key or table, is data_corrupted with the key", () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 60 }),
        fc.uint8Array({ minLength: 1, maxLength: 8 }),
        fc.nat(),
        (body, key, bit) => {
          const stored = withChecksum("a", key, body);
          expect([...verifiedPayload("a", key, stored, stored.length)]).toEqual([...body]);
          const damaged = stored.slice();
          const at = bit % (damaged.length * 8);
          damaged[at >> 3] ^= 1 << (at & 7);
          const otherKey = key.slice();
          otherKey[0] ^= 1;
          for (const attempt of [
            () => verifiedPayload("a", key, damaged, damaged.length),
            () => verifiedPayload("a", otherKey, stored, stored.length),
            () => verifiedPayload("b", key, stored, stored.length),
            () => verifiedPayload("a", key, stored, 3),
          ]) {
            let error: unknown;
            try {
              attempt();
            } catch (caught) {
              error = caught;
            }
            expect(isQuiverError(error, "data_corrupted")).toBe(true);
            expect((error as { details: { key: string } }).details.key).toMatch(/^[0-9a-f]+$/);
          }
        },
      ),
    );
  });
});
