import fc from "fast-check";
import { expect, test } from "vitest";
import { absent, OrdinalMap, OrdinalMapReader } from "./ordinal-map.ts";

const someOrdinal = fc.oneof(
  fc.integer({ min: 0, max: 3_000 }),
  fc.integer({ min: 0x7fff_fff0, max: 0x8000_0010 }),
  fc.integer({ min: 0xffff_fff0, max: 0xffff_fffe }),
);

test("the map behaves like a JavaScript Map", () => {
  const act = fc.record({ set: fc.boolean(), ordinal: someOrdinal, value: fc.integer({ min: 0, max: 99 }) });
  fc.assert(
    fc.property(fc.array(act), (acts) => {
      const map = new OrdinalMap();
      const reference = new Map<number, number>();
      for (const { set, ordinal, value } of acts) {
        if (set) map.set(ordinal, value);
        else map.delete(ordinal);
        if (set) reference.set(ordinal, value);
        else reference.delete(ordinal);
        expect(map.get(ordinal)).toBe(reference.get(ordinal) ?? absent);
      }
      expect([...map.entries()]).toEqual([...reference].sort(([a], [b]) => a - b));
      expect(map.size).toBe(reference.size);
      map.check();
    }),
  );
});

test("pages are given back", () => {
  const map = new OrdinalMap();
  const empty = map.memoryBytes;
  for (let ordinal = 0; ordinal < 100_000; ordinal++) map.set(ordinal, ordinal);
  expect(map.memoryBytes - empty).toBeLessThan(5 * 100_000);
  for (let ordinal = 0; ordinal < 100_000; ordinal++) map.delete(ordinal);
  expect(map.memoryBytes - empty).toBeLessThan(20_000);
});

test("who has attached gets the values of that time, or none, and never those of other ordinals", () => {
  const step = fc.record({
    kind: fc.constantFrom("set", "delete", "attach", "free"),
    page: fc.integer({ min: 0, max: 40 }),
    low: fc.integer({ min: 0, max: 3 }),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 400 }), (steps) => {
      // The epochs of a collection, with one reader in each that has not ended.
      const retired: { at: number; free: () => void }[] = [];
      const readers: { at: number; reader: OrdinalMapReader; known: Map<number, number> }[] = [];
      let now = 0;
      const map = new OrdinalMap((free) => retired.push({ at: now, free }));
      const values = new Map<number, number>();
      const given = new Map<number, Set<number>>();
      for (const { kind, page, low } of steps) {
        const ordinal = page * 1_024 + low;
        now++;
        if (kind === "set") {
          map.set(ordinal, now);
          values.set(ordinal, now);
          given.set(ordinal, (given.get(ordinal) ?? new Set()).add(now));
        } else if (kind === "delete") {
          map.delete(ordinal);
          values.delete(ordinal);
        } else if (kind === "attach") {
          readers.push({ at: now, reader: new OrdinalMapReader(map.shared), known: new Map(values) });
        } else {
          // The oldest reader ends, and with it what only it may have found.
          readers.shift();
          const oldest = readers[0]?.at ?? now;
          while (retired.length > 0 && retired[0].at < oldest) retired.shift()?.free();
        }
        for (const { reader, known } of readers) {
          for (const [each, value] of known)
            if (values.get(each) === value) expect(reader.get(each)).toBe(value);
          const found = reader.get(ordinal);
          expect(found === absent || given.get(ordinal)?.has(found)).toBe(true);
        }
      }
      map.check();
      for (const [each, value] of values) expect(map.get(each)).toBe(value);
    }),
    { numRuns: 60 },
  );
});

test("a page that loses its last ordinal between a reader's two looks holds no other ordinal's value for it", () => {
  const retired: (() => void)[] = [];
  const map = new OrdinalMap((free) => retired.push(free));
  const other = 8 * 1_024 + 5;
  map.set(5, 50);
  // The chunk of the page stays.
  map.set(20 * 1_024, 1);
  const { directories, chunks } = map.shared;
  let between = () => {};
  // The first look is at the directory, the second at the chunk.
  const watched = chunks.map(
    (chunk) =>
      chunk &&
      new Proxy(chunk, {
        get(words, place) {
          between();
          return words[Number(place)];
        },
      }),
  );
  const reader = new OrdinalMapReader({ directories, chunks: watched });
  between = () => {
    between = () => {};
    map.delete(5);
    map.set(other, 77);
  };
  expect(reader.get(5)).toBe(absent);
  expect(map.get(other)).toBe(77);
  for (const free of retired) free();
  map.check();
});
