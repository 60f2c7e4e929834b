import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Postings } from "./lists.ts";

function readAll(postings: Postings<Float32Array | Uint32Array>, list: number): [number, number][] {
  const { count, slots, values } = postings.read(list, 0xffff_ffff);
  return Array.from({ length: count }, (_, i) => [slots[i], values[i]]);
}

describe.each([
  ["weights", () => new Postings(Float32Array)],
  ["frequencies", () => new Postings(Uint32Array)],
] as const)("%s", (_name, make) => {
  test("lists hold what was appended", () => {
    const append = fc.record({ list: fc.nat(3), count: fc.integer({ min: 1, max: 300 }) });
    fc.assert(
      fc.property(fc.array(append, { maxLength: 60, size: "max" }), (appends) => {
        const postings = make();
        const reference: [number, number][][] = [[], [], [], []];
        const lists = reference.map(() => postings.create());
        let slot = 0;
        for (const { list, count } of appends) {
          for (let i = 0; i < count; i++) {
            reference[list].push([slot, i]);
            postings.append(lists[list], slot++, i);
          }
        }
        postings.check();
        reference.forEach((expected, i) => {
          expect(readAll(postings, lists[i])).toEqual(expected);
        });
        expect(postings.total).toBe(reference.reduce((sum, list) => sum + list.length, 0));
      }),
    );
  });
});

test("long lists and many short ones cross chunks", () => {
  const postings = new Postings(Uint32Array);
  const long = postings.create();
  for (let slot = 0; slot < 200_000; slot++) {
    postings.append(long, slot, slot % 7);
    if (slot % 5 === 0) postings.append(postings.create(), slot, 1);
  }
  postings.check();
  expect(readAll(postings, long)).toEqual(Array.from({ length: 200_000 }, (_, i) => [i, i % 7]));
  // Eight bytes a posting, a third more in slices, and the lists' own numbers.
  expect(postings.memoryBytes).toBeLessThan(240_000 * 8 * 1.5 + 40_000 * 60 + 2 * 262_144 * 8);
});
