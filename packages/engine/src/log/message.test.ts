// Does decoding restore an encoded message, and are invalid bytes rejected?

import { crc32 } from "node:zlib";
import { isQuiverError } from "@quiverdb/protocol/errors";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { toHex, utf8 } from "../base/bytes.ts";
import type { LoggedRequest } from "../collection/accept.ts";
import { decodeMessage, encodeMessage, type Message } from "./message.ts";

const batch = fc.uint8Array({ maxLength: 300 });
const text = fc.string({ unit: "binary", maxLength: 40 });
const json = fc.jsonValue().map((value) => JSON.parse(JSON.stringify(value)));
const index = fc.constantFrom("dense" as const, "sparse" as const, "tf-idf" as const);
const plain = <K extends LoggedRequest["kind"]>(...kinds: K[]) => fc.constantFrom(...kinds);
const keyFilter = fc.record({ filter: json, times: fc.array(text), isSingle: fc.boolean() });
const matching = fc.record({
  filter: json,
  times: fc.array(text),
  version: fc.maxSafeNat(),
  live: fc.maxSafeNat(),
  end: fc.nat(),
});
// A definition is any JSON value; its shape is checked when it is read.
const definition = json as fc.Arbitrary<(LoggedRequest & { kind: "createIndex" })["definition"]>;
const request: fc.Arbitrary<LoggedRequest> = fc.oneof(
  fc.record({ kind: plain("upsert", "delete"), batch, keyFilter }),
  fc.record({ kind: plain("upsert", "delete"), batch }),
  fc.record({ kind: plain("deleteMatching"), matching, batch }),
  fc.record({ kind: plain("updateMatching"), matching, batch, patch: text }),
  fc.record({ kind: plain("patch"), id: fc.string({ unit: "grapheme" }).map(utf8), patch: text }),
  fc.record({
    kind: plain("patch"),
    id: fc.string({ unit: "grapheme" }).map(utf8),
    patch: text,
    born: fc.nat(),
  }),
  fc.record({ kind: plain("change"), batch, from: text, told: fc.constant({ added: 1 }) }),
  fc.record({ kind: plain("begin"), random: text, once: fc.record({ key: text, fingerprint: text }) }),
  fc.record({ kind: plain("stage"), transactionId: text, batch }),
  fc.record({ kind: plain("commit"), transactionId: text, keyFilter }),
  fc.record({ kind: plain("abort"), transactionId: text, idleSinceMs: fc.maxSafeNat() }),
  fc.record({ kind: plain("createIndex"), index, definition }),
  fc.record({ kind: plain("deleteIndex"), index }),
);
const messages: fc.Arbitrary<Message> = fc.record({
  epoch: fc.maxSafeNat(),
  timeMs: fc.maxSafeNat(),
  opId: fc.uint8Array({ minLength: 16, maxLength: 16 }).map((bytes) => toHex(bytes)),
  requests: fc.array(request, { maxLength: 8 }),
});

const isRefused = (bytes: Uint8Array): boolean => {
  try {
    decodeMessage(bytes);
    return false;
  } catch (error) {
    return isQuiverError(error, "data_corrupted");
  }
};

describe("[L1] messages as bytes", () => {
  it("are decoded unchanged, also in the middle of other bytes", () => {
    fc.assert(
      fc.property(messages, (message) => {
        const bytes = encodeMessage(message);
        const around = new Uint8Array(bytes.length + 7);
        around.set(bytes, 3);
        for (const each of [bytes, around.subarray(3, 3 + bytes.length)]) {
          const { crc32, ...decoded } = decodeMessage(each);
          expect(decoded).toEqual(message);
          expect(encodeMessage(decoded)).toEqual(bytes);
        }
      }),
      { numRuns: 200 },
    );
  });

  it("[Y14] of a form that only later programs know are told from damaged ones", () => {
    const bytes = encodeMessage({ epoch: 0, timeMs: 1, opId: "0".repeat(32), requests: [] });
    bytes[0] = 2;
    const end = bytes.length - 4;
    new DataView(bytes.buffer, bytes.byteOffset).setUint32(end, crc32(bytes.subarray(0, end)), true);
    expect(() => decodeMessage(bytes)).toThrow(expect.objectContaining({ code: "format_too_new" }));
  });

  it("are rejected if a bit has changed, if they are truncated or followed by more bytes", () => {
    fc.assert(
      fc.property(messages, fc.nat(), fc.nat(7), (message, at, bit) => {
        const bytes = encodeMessage(message);
        expect(isRefused(bytes.subarray(0, at % bytes.length))).toBe(true);
        expect(isRefused(Uint8Array.of(...bytes, 0))).toBe(true);
        bytes[at % bytes.length] ^= 1 << bit;
        expect(isRefused(bytes)).toBe(true);
      }),
      { numRuns: 1_000 },
    );
  });
});
