// Mutable buffers, their lists and the log of retired records, as readers find them that were told of a moment.

import assert from "node:assert/strict";
import { randomNumbers } from "@quiverdb/kernels/random";
import { describe, expect, test } from "vitest";
import { posted } from "../../../test/index/inverted/versioned.ts";
import { BufferReader, bufferLists, MutableBuffer } from "./mutable-buffer.ts";
import { RetiredOrdinals } from "./posting-parts.ts";

type Entry = { readonly slot: number; readonly value: number };

describe.each([true, false])("postings have frequencies: %s", (isText) => {
  test.each([1, 2, 3])("a reader has the postings and records of its moment; seed %i", (seed) => {
    const next = randomNumbers(seed);
    const integer = (end: number) => Math.floor(next() * end);
    const buffer = new MutableBuffer<Float32Array | Uint32Array>(isText ? Uint32Array : Float32Array);
    const made = bufferLists(isText);
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
        const slot = ordinals.push(ordinal) - 1;
        const terms = [...new Set(Array.from({ length: integer(40) }, termOf))];
        const values = terms.map(() => 1 + integer(50));
        const isNew: number[] = [];
        buffer.add(ordinal, integer(100), terms, values, (term) => isNew.push(term));
        assert.deepEqual(
          isNew,
          terms.filter((term) => !lists.has(term)),
        );
        for (const [i, term] of terms.entries()) {
          const list = lists.get(term) ?? [];
          lists.set(term, list);
          list.push({ slot, value: values[i] });
        }
      }
      for (let i = integer(4); i > 0 && removed.size < ordinals.length; i--) {
        const slot = integer(ordinals.length);
        if (removed.has(slot)) continue;
        removed.add(slot);
        buffer.remove(ordinals[slot]);
      }
      moments.push({
        // Readers of several moments share what they make of the buffer, as those of a thread do.
        reader: BufferReader.attach(posted(buffer.shared), made),
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

test("lists are the same in one long run, in several, and behind them", () => {
  const next = randomNumbers(4);
  const buffer = new MutableBuffer<Float32Array | Uint32Array>(Float32Array);
  const expected: Entry[][] = Array.from({ length: 50 }, () => []);
  for (let slot = 0; slot < 6_000; slot++) {
    const terms = expected.map((_, term) => term).filter((term) => next() < 1 / (term + 1));
    const values = terms.map(() => Math.fround(next()));
    buffer.add(slot, 0, terms, values);
    for (const [i, term] of terms.entries()) expected[term].push({ slot, value: values[i] });
    // The first read is of many postings, the next ones of a few more each.
    if (slot < 3_000 || slot % 100 !== 0) continue;
    for (const [term, entries] of expected.entries()) {
      const { count, slots, values: found } = buffer.read(buffer.listOf(term));
      const read = Array.from({ length: count }, (_, i) => ({ slot: slots[i], value: found[i] }));
      assert.deepEqual(read, entries);
    }
  }
  buffer.check();
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
