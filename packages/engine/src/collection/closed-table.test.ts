import assert from "node:assert/strict";
import fc from "fast-check";
import { expect, test } from "vitest";
import { ClosedTable, Visibility, visibleAt } from "./visibility.ts";

const bigVersion = fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 2 ** 53 - 1 }));
const anyOrdinal = fc.oneof(fc.integer({ min: 0, max: 60 }), fc.integer({ min: 0, max: 0xffff_fffe }));

test("a table answers like a map, also through what another thread would attach to", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(anyOrdinal, bigVersion), { maxLength: 300 }), (entries) => {
      let table = ClosedTable.for(2);
      const map = new Map<number, number>();
      for (const [ordinal, version] of entries) {
        const lowest = Math.min(version, map.get(ordinal) ?? version);
        map.set(ordinal, lowest);
        if (table.isFull) {
          const larger = ClosedTable.for(map.size);
          for (const entry of table.entries()) larger.set(...entry);
          table = larger;
        }
        table.set(ordinal, lowest);
      }
      const reader = new ClosedTable(table.shared);
      for (const [ordinal, version] of map) expect(reader.versionOf(ordinal)).toBe(version);
      expect(reader.versionOf(61)).toBe(map.get(61) ?? Number.POSITIVE_INFINITY);
      expect(new Map(reader.entries())).toEqual(map);
    }),
  );
});

test("while a version is lowered, no reader meets one that is greater than before", () => {
  // A reader loads the low word and then the high one; each load may come between any two stores of the writer.
  const versions = [5, 2 ** 32 - 1, 2 ** 32, 2 ** 32 + 7, 2 ** 33 + 1, 2 ** 53 - 1];
  for (const before of versions)
    for (const after of versions.filter((version) => version < before)) {
      const table = new ClosedTable();
      table.set(9, before);
      const stores = storesOf(() => table.set(9, after));
      const words = (count: number) => {
        const state = [0, before % 2 ** 32, Math.floor(before / 2 ** 32)];
        for (const [at, value] of stores.slice(0, count)) state[at % 3] = value;
        return state;
      };
      for (let first = 0; first <= stores.length; first++)
        for (let second = first; second <= stores.length; second++)
          expect(words(second)[2] * 2 ** 32 + words(first)[1]).toBeLessThanOrEqual(before);
      expect(table.versionOf(9)).toBe(after);
    }
});

/** The atomic stores of a call, in order. */
function storesOf(act: () => void): [at: number, value: number][] {
  const { store } = Atomics;
  const stores: [number, number][] = [];
  Atomics.store = ((words: Uint32Array, at: number, value: number) => {
    stores.push([at, value]);
    return store(words, at, value);
  }) as typeof Atomics.store;
  try {
    act();
  } finally {
    Atomics.store = store;
  }
  expect(stores).toHaveLength(3);
  return stores;
}

test("what was reclaimed stays hidden from searches that have begun before, in every thread", () => {
  const retired: (() => void)[] = [];
  const visibility = new Visibility((free) => retired.push(free));
  visibility.indexedUpTo(10);
  visibility.close(3, 5);
  const other = visibleAt(visibility.shared, 5, 10);
  const before = visibleAt(visibility.shared, 4, 10);
  expect([other(3), before(3), other(10)]).toEqual([false, true, false]);
  expect(visibility.reclaim(5)).toEqual([3]);
  expect(visibility.closedCount).toBe(0);
  // No index has it any more, but who has found it before has to know.
  expect(other(3)).toBe(false);
  expect(visibility.at(5, 10)?.(3)).toBe(false);
  for (const free of retired.splice(0)) free();
  expect(visibility.at(5, 10)).toBeNull();
  expect(other(3)).toBe(false);
});

test("a record that is noted again after it was reclaimed is returned again, and hidden all the time", () => {
  const retired: (() => void)[] = [];
  const visibility = new Visibility((free) => retired.push(free));
  visibility.close(3, 5);
  expect(visibility.reclaim(5)).toEqual([3]);
  visibility.close(3, 9);
  retired.shift()?.();
  expect(visibility.at(9, 10)?.(3)).toBe(false);
  expect(visibility.reclaim(9)).toEqual([3]);
  expect(visibility.at(9, 10)?.(3)).toBe(false);
  retired.shift()?.();
  visibility.close(3, 12);
  expect(visibility.at(12, 10)?.(3)).toBe(false);
  expect(visibility.reclaim(12)).toEqual([3]);
  expect(retired).toHaveLength(1);
  retired.shift()?.();
  expect(visibility.at(12, 10)).toBeNull();
});

test("a visibility answers like a plain map through growth, removals and replacements of its table", () => {
  const retired: (() => void)[] = [];
  const visibility = new Visibility((free) => retired.push(free));
  const died = new Map<number, number>();
  const leaving: number[][] = [];
  const gone = new Set<number>();
  let version = 0;
  for (let round = 0; round < 60; round++) {
    version++;
    for (let i = 0; i < 40; i++) {
      const ordinal = 40 * round + i;
      if (i % 3 === 0) continue;
      visibility.close(ordinal, version);
      died.set(ordinal, version);
    }
    visibility.indexedUpTo(40 * (round + 1));
    const shared = visibleAt(visibility.shared, version - 2, 40 * (round - 1));
    if (round % 4 === 3) leaving.push(visibility.reclaim(version - 3));
    if (round % 8 === 7) {
      retired.shift()?.();
      for (const ordinal of leaving.shift() ?? []) gone.add(ordinal);
    }
    for (let ordinal = 0; ordinal < 40 * (round + 1); ordinal++) {
      // No index has it any more, and nobody has found it before.
      if (gone.has(ordinal)) continue;
      const isVisible =
        ordinal < 40 * (round - 1) && version - 2 < (died.get(ordinal) ?? Number.POSITIVE_INFINITY);
      assert.equal(shared(ordinal), isVisible);
      assert.equal(visibility.at(version - 2, 40 * (round - 1))?.(ordinal), isVisible);
    }
  }
});
