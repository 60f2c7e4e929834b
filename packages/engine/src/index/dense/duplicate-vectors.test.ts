import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DuplicateVectors, DuplicateVectorsReader } from "./duplicate-vectors.ts";

describe("rings of copies that change while they are walked", () => {
  test("a walk meets every record that its version sees, whatever is added and taken out in the middle of it", () => {
    const scenario = fc.record({
      duplicates: fc.integer({ min: 1, max: 8 }),
      changes: fc.array(fc.record({ at: fc.nat({ max: 9 }), add: fc.boolean(), which: fc.nat() }), {
        maxLength: 12,
      }),
      gone: fc.array(fc.nat({ max: 8 }), { maxLength: 6 }),
    });
    fc.assert(
      fc.property(scenario, ({ duplicates: count, changes, gone }) => {
        const retired: (() => void)[] = [];
        const duplicates = new DuplicateVectors((free) => retired.push(free));
        for (let i = 1; i <= count; i++) duplicates.add(100, 100 + i);
        const reader = DuplicateVectorsReader.attach(duplicates.shared);
        // Those that the version does not see may go meanwhile.
        const unseen = new Set(gone.map((each) => 100 + (each % (count + 1))));
        const leaving = [...unseen];
        const seen = Array.from({ length: count + 1 }, (_, i) => 100 + i).filter((each) => !unseen.has(each));
        if (seen.length === 0) return;
        let next = 200;
        let step = 0;
        const met: number[] = [];
        reader.each(100, (ordinal) => {
          for (const { add, which } of changes.filter(({ at }) => at === step)) {
            if (add) duplicates.add(100, next++);
            else if (leaving.length > 0) duplicates.remove(leaving.splice(which % leaving.length, 1)[0]);
          }
          step++;
          if (seen.includes(ordinal)) met.push(ordinal);
          return true;
        });
        expect(met).toEqual(seen);
        duplicates.check(() => true);
        for (const free of retired) free();
        duplicates.check(() => true);
      }),
      { numRuns: 500 },
    );
  });

  test("whoever attaches later does not meet the record of a name that is gone", () => {
    const duplicates = new DuplicateVectors(() => undefined);
    duplicates.add(7, 12);
    duplicates.add(7, 15);
    expect(duplicates.remove(7)).not.toBe(7);
    const reader = DuplicateVectorsReader.attach(duplicates.shared);
    const met: number[] = [];
    reader.each(7, (ordinal) => met.push(ordinal) > 0);
    expect(met).toEqual([12, 15]);
    expect(reader.isHeadless(7)).toBe(true);
    expect([reader.vectorKeyOf(7), reader.vectorKeyOf(12)]).toEqual([0xffff_ffff, 7]);
    expect(duplicates.extraCount).toBe(1);
    expect(duplicates.state(() => true, 20)).toEqual({
      pairs: Uint32Array.from([7, 12, 7, 15]),
      headless: Uint32Array.from([7]),
    });
  });

  test("a name that is gone stays without a record for those who have found it", () => {
    const retired: (() => void)[] = [];
    const duplicates = new DuplicateVectors((free) => retired.push(free));
    duplicates.add(7, 12);
    duplicates.remove(7);
    for (const free of retired.splice(0)) free();
    const reader = DuplicateVectorsReader.attach(duplicates.shared);
    expect(duplicates.remove(12)).toBe(7);
    // That 7 was closed is forgotten; that 12 was is not.
    expect(reader.seen(7, (ordinal) => ordinal !== 12)).toBe(0xffff_ffff);
    duplicates.check(() => true);
    for (const free of retired.splice(0)) free();
    duplicates.check(() => true);
    expect([duplicates.isEmpty, duplicates.extraCount]).toEqual([true, 0]);
  });
});
