// Sets of ordinals as bits, against plain sets.

import assert from "node:assert/strict";
import { MessageChannel, receiveMessageOnPort } from "node:worker_threads";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { OrdinalBitmap } from "./ordinal-bitmap.ts";

const ordinals = fc
  .tuple(fc.integer({ min: 0, max: 0xffff_fe00 }), fc.uniqueArray(fc.integer({ min: 0, max: 300 })))
  .map(([from, distances]) =>
    Uint32Array.from(
      distances.sort((a, b) => a - b),
      (each) => from + each,
    ),
  );

describe("bitmaps", () => {
  test("contain exactly the given ordinals", () => {
    fc.assert(
      fc.property(ordinals, (list) => {
        const set = new Set(list);
        const bitmap = OrdinalBitmap.of(list);
        expect(bitmap.count).toBe(set.size);
        expect(bitmap.toOrdinals()).toEqual(list);
        const from = Math.max(0, (list[0] ?? 50) - 50);
        const end = Math.min(2 ** 32, (list.at(-1) ?? 50) + 50);
        for (let ordinal = from; ordinal < end; ordinal++)
          assert.equal(bitmap.has(ordinal), set.has(ordinal));
      }),
      { numRuns: 200 },
    );
  });

  test("are shared with another thread, not copied", () => {
    const bitmap = OrdinalBitmap.of(Uint32Array.of(7, 70, 700));
    const { port1, port2 } = new MessageChannel();
    port1.postMessage(bitmap.shared);
    const { message } = receiveMessageOnPort(port2) as { message: OrdinalBitmap["shared"] };
    port1.close();
    const attached = OrdinalBitmap.attach(message);
    expect(attached.toOrdinals()).toEqual(Uint32Array.of(7, 70, 700));
    bitmap.words[0] |= 1 << 8;
    expect(attached.has(8)).toBe(true);
  });

  test("one of none has none", () => {
    const bitmap = OrdinalBitmap.of(new Uint32Array(0));
    expect([bitmap.count, bitmap.has(0), bitmap.toOrdinals().length]).toEqual([0, false, 0]);
  });
});
