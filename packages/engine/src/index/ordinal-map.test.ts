import fc from "fast-check";
import { expect, test } from "vitest";
import { absent, OrdinalMap } from "./ordinal-map.ts";

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
