import fc from "fast-check";
import { expect, test } from "vitest";
import { GrowableTable, missing } from "./growable-table.ts";

test("the table behaves like a JavaScript Map", () => {
  const key = fc.oneof(fc.integer({ min: 0, max: 60 }), fc.constantFrom(0xffff_ffff, 0x8000_0000));
  const act = fc.record({ set: fc.boolean(), key, value: fc.integer({ min: 0, max: missing - 1 }) });
  fc.assert(
    fc.property(fc.array(act, { maxLength: 300, size: "max" }), (acts) => {
      const table = new GrowableTable();
      const reference = new Map<number, number>();
      for (const { set, key, value } of acts) {
        if (set) table.set(key, value);
        else table.delete(key);
        if (set) reference.set(key, value);
        else reference.delete(key);
        expect(table.size).toBe(reference.size);
      }
      for (let key = 0; key <= 60; key++) expect(table.get(key)).toBe(reference.get(key) ?? missing);
      const byKey = ([a]: [number, number], [b]: [number, number]) => a - b;
      expect([...table.entries()].sort(byKey)).toEqual([...reference].sort(byKey));
    }),
  );
});

test("memory follows the number of entries", () => {
  const table = new GrowableTable();
  for (let key = 0; key < 100_000; key++) table.set(key * 40_503, key);
  expect(table.memoryBytes).toBeLessThan(23 * 100_000);
  for (let key = 0; key < 100_000; key++) expect(table.get((key * 40_503) >>> 0)).toBe(key);
  for (let key = 0; key < 100_000; key++) table.delete((key * 40_503) >>> 0);
  expect(table.size).toBe(0);
  expect(table.memoryBytes).toBe(128);
});
