// Does shuffling lose nothing?

import fc from "fast-check";
import { expect, test } from "vitest";
import { shuffled, unshuffle } from "./shuffle.ts";

test("the bytes of a column lie together, and what is behind the last row at the end", () => {
  const rows = Uint8Array.of(1, 2, 3, 4, 11, 12, 13, 14, 21, 22);
  expect(shuffled(rows, 4)).toEqual(Uint8Array.of(1, 11, 2, 12, 3, 13, 4, 14, 21, 22));
});

test("rows of any number, of any bytes, in shared memory, are as before", () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 3_000 }),
      fc.integer({ min: 1, max: 96 }),
      fc.nat(3),
      (bytes, rowWords, offsetWords) => {
        const memory = new SharedArrayBuffer(4 * offsetWords + bytes.length);
        const from = new Uint8Array(memory, 4 * offsetWords);
        from.set(bytes);
        const order = shuffled(from, 4 * rowWords);
        from.fill(0xa5);
        unshuffle(order, 4 * rowWords, from);
        expect(Buffer.compare(from, bytes)).toBe(0);
      },
    ),
  );
});

test("rows of another width, or of another length than the result, are refused", () => {
  expect(() => shuffled(new Uint8Array(8), 6)).toThrow("rows of 6 bytes");
  expect(() => shuffled(new Uint8Array(9).subarray(1), 4)).toThrow("begin at byte 1");
  expect(() => unshuffle(new Uint8Array(8), 4, new Uint8Array(4))).toThrow("8 shuffled bytes");
});
