// Is every readable version what it was, after any requests, and is nothing kept that no readable version needs?

import fc from "fast-check";
import { expect, it } from "vitest";
import { historyArbitrary, messagesOf, prepared, read, record } from "../../test/log/histories.ts";
import { toHex } from "../base/bytes.ts";
import { readHead } from "../collection/head.ts";
import {
  denseAt,
  isVacuumable,
  pastRecords,
  readHistory,
  readTags,
  recordsAt,
  requireReadable,
} from "../collection/history.ts";
import { RecordReader } from "../collection/record.ts";
import { collectionTables } from "../collection/tables.ts";
import { MemoryStore } from "../storage/memory.ts";
import type { Reader, Store } from "../storage/store.ts";
import { applyOrdered } from "./ordered.ts";

/** Every record of the current version, as bytes. */
const liveOf = (reader: Reader): string[] =>
  Array.from(reader.entries("records"), ([key, record]) =>
    [toHex(key), toHex(record), toHex(reader.get("dense", key) ?? new Uint8Array())].join(" "),
  );

/** The same of a readable version. */
function pastOf(reader: Reader, version: number): string[] {
  const entry = requireReadable(reader, readHead(reader), version);
  return Array.from(recordsAt(reader, entry), (at) => {
    const { dense } = new RecordReader(at.record).contents;
    const vector = dense ? denseAt(reader, at).slice() : new Uint8Array();
    return [at.ordinal.toString(16).padStart(8, "0"), toHex(at.record), toHex(vector)].join(" ");
  });
}

const isReadable = (reader: Reader, version: number): boolean => {
  try {
    requireReadable(reader, readHead(reader), version);
    return true;
  } catch {
    return false;
  }
};

function vacuumed(store: Store, position: number): void {
  const isNeeded = () => read(store, (reader) => isVacuumable(reader, 0));
  for (let i = 1; isNeeded(); i++) {
    const message = {
      position: position + i,
      epoch: 0,
      opId: `f${i}`.padStart(32, "0"),
      timeMs: 0,
      crc32: i,
    };
    for (const _ of applyOrdered(store, [{ ...message, requests: [{ kind: "vacuum" }] }], {
      versionsKept: 1_000,
      maxVectors: null,
    }));
  }
}

it("[V5] [V6] [V9] readable versions are what they were, and past records are those that they need", () => {
  let compared = 0;
  fc.assert(
    fc.property(historyArbitrary, (history) => {
      const { log } = record(history);
      const store = prepared(new MemoryStore(collectionTables));
      const versions = new Map([[0, read(store, liveOf)]]);
      const messages = messagesOf(log);
      for (const message of messages) {
        for (const _ of applyOrdered(store, [message], history));
        read(store, (reader) => {
          const { version } = readHead(reader);
          if (!versions.has(version)) versions.set(version, liveOf(reader));
          for (const [each, records] of versions)
            if (isReadable(reader, each)) {
              expect(pastOf(reader, each)).toEqual(records);
              compared++;
            }
        });
      }
      vacuumed(store, messages.at(-1)?.position ?? 0);
      read(store, (reader) => {
        const history = readHistory(reader);
        const kept = new Set(readTags(reader).map(({ version }) => version));
        if (history !== undefined && history.policy !== null)
          for (let version = history.oldest; version < readHead(reader).version; version++) kept.add(version);
        for (const { died, record } of pastRecords(reader)) {
          const { born } = new RecordReader(record);
          expect([...kept].some((version) => born <= version && version < died)).toBe(true);
        }
        for (const version of kept) expect(pastOf(reader, version)).toEqual(versions.get(version));
      });
    }),
    { numRuns: 200 },
  );
  expect(compared).toBeGreaterThan(1_000);
});
