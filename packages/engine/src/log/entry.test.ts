// Does decoding restore an encoded entry, and are invalid bytes rejected?

import { isQuiverError } from "@quiverdb/protocol/errors";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { toHex } from "../base/bytes.ts";
import type { LogEntry, LogOperation } from "../collection/apply.ts";
import { decodeEntry, encodeEntry } from "./entry.ts";

const batch = fc.uint8Array({ maxLength: 300 });
const transactionId = fc.string({ unit: "binary", maxLength: 40 });
const index = fc.constantFrom("dense" as const, "sparse" as const, "tf-idf" as const);
const plain = <K extends LogOperation["kind"]>(kind: K) => fc.constant(kind);
// A definition is any JSON value; its shape is checked when it is read.
const definition = fc.dictionary(fc.string({ minLength: 1 }), fc.jsonValue()).map(
  (value) =>
    JSON.parse(JSON.stringify(value)) as (LogOperation & {
      kind: "createIndex";
    })["definition"],
);
const operation: fc.Arbitrary<LogOperation> = fc.oneof(
  fc.record({ kind: fc.constantFrom("upsert" as const, "delete" as const), batch }),
  fc.record({
    kind: fc.constantFrom("begin" as const, "commit" as const, "abort" as const),
    transactionId,
  }),
  fc.record({ kind: plain("stage"), transactionId, batch }),
  fc.record({ kind: plain("fail"), transactionId, message: fc.string({ unit: "binary" }) }),
  fc.record({ kind: plain("createIndex"), index, definition }),
  fc.record({ kind: plain("deleteIndex"), index }),
);
const entries: fc.Arbitrary<LogEntry> = fc.record({
  sequence: fc.maxSafeNat(),
  epoch: fc.maxSafeNat(),
  timeMs: fc.maxSafeNat(),
  opId: fc.uint8Array({ minLength: 16, maxLength: 16 }).map((bytes) => toHex(bytes)),
  operations: fc.array(operation, { maxLength: 8 }),
});

const refusal = (bytes: Uint8Array): unknown => {
  try {
    return decodeEntry(bytes);
  } catch (error) {
    return isQuiverError(error, "data_corrupted");
  }
};

describe("[L1] entries as bytes", () => {
  it("are decoded unchanged", () => {
    fc.assert(
      fc.property(entries, (entry) => {
        const bytes = encodeEntry(entry);
        expect(decodeEntry(bytes)).toEqual(entry);
        expect(encodeEntry(decodeEntry(bytes))).toEqual(bytes);
        // In the middle of other bytes, as in a stream.
        const around = new Uint8Array(bytes.length + 7);
        around.set(bytes, 3);
        expect(decodeEntry(around.subarray(3, 3 + bytes.length))).toEqual(entry);
      }),
      { numRuns: 200 },
    );
  });

  it("are rejected if they are truncated or followed by more bytes", () => {
    fc.assert(
      fc.property(entries, fc.nat(), (entry, cut) => {
        const bytes = encodeEntry(entry);
        expect(refusal(bytes.subarray(0, cut % bytes.length))).toBe(true);
        expect(refusal(Uint8Array.of(...bytes, 0))).toBe(true);
      }),
      { numRuns: 200 },
    );
  });

  it("are decoded completely or rejected, for any bytes", () => {
    fc.assert(
      fc.property(entries, fc.nat(), fc.nat(255), (entry, at, value) => {
        const bytes = encodeEntry(entry);
        bytes[at % bytes.length] = value;
        const read = refusal(bytes);
        if (read === true) return;
        const again = encodeEntry(read as LogEntry);
        expect(encodeEntry(decodeEntry(again))).toEqual(again);
      }),
      { numRuns: 1_000 },
    );
  });
});
