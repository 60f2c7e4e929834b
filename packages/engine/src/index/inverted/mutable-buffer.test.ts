// Mutable buffers, their lists and the log of retired records, as readers find them that were told of a moment.

import assert from "node:assert/strict";
import { randomNumbers } from "@quiverdb/kernels/random";
import { describe, expect, test } from "vitest";
import { posted } from "../../../test/index/inverted/versioned.ts";
import { BufferReader, MutableBuffer } from "./mutable-buffer.ts";
import { RetiredOrdinals } from "./posting-parts.ts";

type Entry = { readonly slot: number; readonly value: number };

describe.each([true, false])("postings have frequencies: %s", (isText) => {
  test.each([1, 2, 3])("a reader has the postings and records of its moment; seed %i", (seed) => {
    const next = randomNumbers(seed);
    const integer = (end: number) => Math.floor(next() * end);
    const buffer = new MutableBuffer<Float32Array | Uint32Array>(isText ? Uint32Array : Float32Array);
    const lists = new Map<number, Entry[]>();
    const ordinals: number[] = [];
    const removed = new Set<number>();
    // Terms of the array, which grows, and dimensions of the table, which does, too.
    const termOf = () => (integer(3) === 0 ? 2 ** 31 + integer(20) * 4_096 + integer(40) : integer(60) ** 2);
    const moments: {
      reader: BufferReader;
      lists: Map<number, Entry[]>;
      removed: Set<number>;
      end: number;
    }[] = [];
    for (let round = 0; round < 120; round++) {
      for (let i = integer(30); i > 0; i--) {
        const ordinal = (ordinals.at(-1) ?? 0) + 1 + integer(3);
        const slot = buffer.add(ordinal, integer(100));
        ordinals.push(ordinal);
        for (const term of new Set(Array.from({ length: integer(40) }, termOf))) {
          const value = 1 + integer(50);
          const list = lists.get(term) ?? [];
          lists.set(term, list);
          assert.equal(buffer.append(term, slot, value), list.length === 0);
          list.push({ slot, value });
        }
      }
      for (let i = integer(4); i > 0 && removed.size < ordinals.length; i--) {
        const slot = integer(ordinals.length);
        if (removed.has(slot)) continue;
        removed.add(slot);
        buffer.remove(ordinals[slot]);
      }
      moments.push({
        reader: BufferReader.attach(posted(buffer.shared), isText),
        lists: new Map(Array.from(lists, ([term, list]) => [term, [...list]])),
        removed: new Set(removed),
        end: ordinals.length,
      });
      if (moments.length > 6) moments.splice(integer(6), 1);
      for (const moment of moments) {
        const { reader } = moment;
        expect([reader.slotsEnd, reader.count]).toEqual([moment.end, moment.end - moment.removed.size]);
        for (const [slot, ordinal] of ordinals.entries()) {
          const isThere = slot < moment.end && !moment.removed.has(slot);
          if (reader.slotOf(ordinal) !== (isThere ? slot : -1)) throw new Error(`slot ${slot} of ${ordinal}`);
        }
        for (const term of lists.keys()) {
          const expected = moment.lists.get(term) ?? [];
          const list = reader.listOf(term);
          // Lists of later may be found already, and are empty.
          const { count, slots, values } = list < 0 ? { count: 0, slots: [], values: [] } : reader.read(list);
          const isSame =
            count === expected.length &&
            expected.every(({ slot, value }, i) => slots[i] === slot && values[i] === value);
          if (!isSame) throw new Error(`term ${term} has ${count} postings instead of ${expected.length}`);
        }
      }
    }
    buffer.check();
  });
});

test("a list that is only half seen ends where the reader's moment does", () => {
  // What a reader on another processor can meet: the count, or a link, before what it leads to.
  const buffer = new MutableBuffer<Float32Array | Uint32Array>(Uint32Array);
  const add = (ordinal: number) => {
    const slot = buffer.add(ordinal, 1);
    buffer.append(7, slot, 100 + ordinal);
    if (ordinal % 2 === 0) buffer.append(8, slot, 200 + ordinal);
  };
  for (let ordinal = 0; ordinal < 20; ordinal++) add(ordinal);
  const shared = posted(buffer.shared);
  const reader = BufferReader.attach(shared, true);
  const { slots, counts, heads } = shared.postings;
  counts[0] = 1_000;
  counts[1] = 1_000;
  // A list without a first slice yet, and one whose number is not written at all.
  counts[2] = 5;
  heads[2] = 0;
  const read = (list: number) => {
    const { count, slots: found, values } = reader.read(list);
    return Array.from({ length: count }, (_, i) => [found[i], values[i]]);
  };
  const expected = (list: number) =>
    Array.from({ length: 20 }, (_, i) => [i, (list === 0 ? 100 : 200) + i]).filter(
      ([slot]) => list === 0 || slot % 2 === 0,
    );
  expect([read(0), read(1), read(2), read(1_000)]).toEqual([expected(0), expected(1), [], []]);
  // Later slots, in the places that were not written yet.
  for (let ordinal = 20; ordinal < 60; ordinal++) add(ordinal);
  expect([read(0), read(1)]).toEqual([expected(0), expected(1)]);
  expect(slots.length).toBe(1);
});

test("the log of retired records has all that are held, at each moment, and not many more", () => {
  const next = randomNumbers(9);
  const retired = new RetiredOrdinals();
  const held = new Set<number>();
  const moments: { log: readonly number[]; shared: typeof retired.shared }[] = [];
  for (let ordinal = 0; ordinal < 3_000; ordinal++) {
    retired.add(ordinal);
    retired.add(ordinal);
    held.add(ordinal);
    while (held.size > 0 && next() < (ordinal < 2_000 ? 0.4 : 0.7)) {
      const [some] = held;
      assert(retired.delete(some));
      assert(!retired.delete(some));
      held.delete(some);
    }
    const { values, length } = retired.log;
    const log = new Set(values.subarray(0, length));
    expect(log.size).toBe(length);
    if ([...held].some((each) => !log.has(each))) throw new Error("a retired record is not in the log");
    expect(length).toBeLessThanOrEqual(Math.max(65, 2 * held.size + 1));
    if (ordinal % 100 === 0) moments.push({ log: [...log], shared: posted(retired.shared) });
  }
  for (const { log, shared } of moments) expect([...shared.values.subarray(0, shared.length)]).toEqual(log);
  expect([...retired].sort((a, b) => a - b)).toEqual([...held]);
});
