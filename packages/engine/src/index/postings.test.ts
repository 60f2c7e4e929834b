import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Postings } from "./postings.ts";

function readAll(postings: Postings<Float32Array | Uint32Array>, list: number): [number, number][] {
  const { count, slots, values } = postings.read(list);
  return Array.from({ length: count }, (_, i) => [slots[i], values[i]]);
}

describe.each([
  ["weights", () => new Postings(Float32Array)],
  ["frequencies", () => new Postings(Uint32Array)],
] as const)("%s", (_name, make) => {
  test("lists hold what was appended and not swept", () => {
    const act = fc.oneof(
      {
        weight: 3,
        arbitrary: fc.record({
          list: fc.nat(3),
          append: fc.integer({ min: 1, max: 300 }),
          modulus: fc.constant(0),
        }),
      },
      {
        weight: 2,
        arbitrary: fc.record({
          list: fc.nat(3),
          append: fc.constant(0),
          modulus: fc.integer({ min: 1, max: 5 }),
        }),
      },
    );
    fc.assert(
      fc.property(fc.array(act, { maxLength: 60, size: "max" }), (acts) => {
        const postings = make();
        const twin: [number, number][][] = [[], [], [], []];
        const lists = twin.map(() => postings.create());
        let slot = 0;
        for (const { list, append, modulus } of acts) {
          for (let i = 0; i < append; i++) {
            twin[list].push([slot, i]);
            postings.append(lists[list], slot++, i);
          }
          if (modulus === 0) continue;
          const kept = twin[list].filter(([slot]) => slot % modulus !== 0);
          expect(postings.sweep(lists[list], (slot) => slot % modulus !== 0)).toBe(
            twin[list].length - kept.length,
          );
          twin[list] = kept;
        }
        postings.check();
        twin.forEach((expected, i) => {
          expect(readAll(postings, lists[i])).toEqual(expected);
        });
        expect(postings.total).toBe(twin.reduce((sum, list) => sum + list.length, 0));
      }),
    );
  });
});

test("long lists and many short ones cross chunks; what is swept is used again", () => {
  const postings = new Postings(Uint32Array);
  const long = postings.create();
  const fill = (first: number): number[] => {
    const short: number[] = [];
    for (let slot = first; slot < first + 200_000; slot++) {
      postings.append(long, slot, slot % 7);
      if (slot % 5 === 0) {
        short.push(postings.create());
        postings.append(short[short.length - 1], slot, 1);
      }
    }
    return short;
  };
  let short = fill(0);
  postings.check();
  expect(readAll(postings, long)).toEqual(Array.from({ length: 200_000 }, (_, i) => [i, i % 7]));
  const filled = postings.memoryBytes;
  // Eight bytes a posting, a third more in slices, and the lists' own numbers.
  expect(filled).toBeLessThan(240_000 * 8 * 1.5 + 40_000 * 60 + 2 * 262_144 * 8);
  for (let round = 1; round <= 3; round++) {
    for (const list of short) {
      postings.sweep(list, () => false);
      postings.destroy(list);
    }
    postings.sweep(long, () => false);
    short = fill(round * 200_000);
  }
  postings.check();
  expect(postings.memoryBytes).toBeLessThan(1.05 * filled);
});
