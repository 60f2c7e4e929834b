import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DuplicateVectors, DuplicateVectorsReader } from "./duplicate-vectors.ts";

describe("rings of copies that change while they are walked", () => {
  test("a walk meets every record that its version sees, whatever is added and taken out in the middle of it", () => {
    const scenario = fc.record({
      copies: fc.integer({ min: 1, max: 8 }),
      changes: fc.array(fc.record({ at: fc.nat({ max: 9 }), add: fc.boolean(), which: fc.nat() }), {
        maxLength: 12,
      }),
      gone: fc.array(fc.nat({ max: 8 }), { maxLength: 6 }),
    });
    fc.assert(
      fc.property(scenario, ({ copies: count, changes, gone }) => {
        const retired: (() => void)[] = [];
        const copies = new DuplicateVectors((free) => retired.push(free));
        for (let i = 1; i <= count; i++) copies.add(100, 100 + i);
        const reader = DuplicateVectorsReader.attach(copies.shared);
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
            if (add) copies.add(100, next++);
            else if (leaving.length > 0) copies.remove(leaving.splice(which % leaving.length, 1)[0]);
          }
          step++;
          if (seen.includes(ordinal)) met.push(ordinal);
          return true;
        });
        expect(met).toEqual(seen);
        copies.check(() => true);
        for (const free of retired) free();
        copies.check(() => true);
      }),
      { numRuns: 500 },
    );
  });

  test("whoever attaches later does not meet the record of a name that is gone", () => {
    const copies = new DuplicateVectors(() => undefined);
    copies.add(7, 12);
    copies.add(7, 15);
    expect(copies.remove(7)).not.toBe(7);
    const reader = DuplicateVectorsReader.attach(copies.shared);
    const met: number[] = [];
    reader.each(7, (ordinal) => met.push(ordinal) > 0);
    expect(met).toEqual([12, 15]);
    expect(reader.isHeadless(7)).toBe(true);
    expect([reader.nameOf(7), reader.nameOf(12)]).toEqual([0xffff_ffff, 7]);
    expect(copies.extraCount).toBe(1);
    expect(copies.state(() => true, 20)).toEqual({
      pairs: Uint32Array.from([7, 12, 7, 15]),
      headless: Uint32Array.from([7]),
    });
  });

  test("a name that is gone stays without a record for those who have found it", () => {
    const retired: (() => void)[] = [];
    const copies = new DuplicateVectors((free) => retired.push(free));
    copies.add(7, 12);
    copies.remove(7);
    for (const free of retired.splice(0)) free();
    const reader = DuplicateVectorsReader.attach(copies.shared);
    expect(copies.remove(12)).toBe(7);
    // That 7 was closed is forgotten; that 12 was is not.
    expect(reader.seen(7, (ordinal) => ordinal !== 12)).toBe(0xffff_ffff);
    copies.check(() => true);
    for (const free of retired.splice(0)) free();
    copies.check(() => true);
    expect([copies.isEmpty, copies.extraCount]).toEqual([true, 0]);
  });
});
