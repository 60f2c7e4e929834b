// Do equal vectors meet under one vector key, and part again?

import { randomNumbers } from "@quiverdb/kernels/random";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { absent } from "../ordinal-map.ts";
import { DuplicateVectors } from "./duplicate-vectors.ts";
import { Fingerprints } from "./fingerprints.ts";
import { VectorKeys } from "./vector-keys.ts";

/** The records of each vector key, as a map would keep them. */
class Model {
  readonly groups = new Map<number, Set<number>>();

  vectorKeyOf(ordinal: number): number | undefined {
    for (const [vectorKey, members] of this.groups) if (members.has(ordinal)) return vectorKey;
    return undefined;
  }
}

const membersOf = (duplicates: DuplicateVectors, vectorKey: number): Set<number> => {
  const members = new Set<number>();
  duplicates.each(vectorKey, (ordinal) => {
    members.add(ordinal);
    return true;
  });
  return members;
};

function expectSame(duplicates: DuplicateVectors, model: Model): void {
  duplicates.check((vectorKey) => model.groups.has(vectorKey));
  let extra = 0;
  for (const [vectorKey, members] of model.groups) {
    expect(membersOf(duplicates, vectorKey)).toEqual(members);
    extra += members.size - 1;
  }
  expect(duplicates.extraCount).toBe(extra);
}

test("copies are added and removed as in a map of sets, also across a restart", () => {
  const act = fc.record({ isAdding: fc.boolean(), pick: fc.nat(1_000), vector: fc.nat(6) });
  fc.assert(
    fc.property(fc.array(act, { maxLength: 120, size: "max" }), fc.nat(120), (acts, restartAt) => {
      let duplicates = new DuplicateVectors();
      const model = new Model();
      const nameOfVector = new Map<number, number>();
      acts.forEach(({ isAdding, pick, vector }, ordinal) => {
        const vectorKey = nameOfVector.get(vector);
        if (isAdding) {
          if (vectorKey !== undefined && model.groups.has(vectorKey)) {
            duplicates.add(vectorKey, ordinal);
            model.groups.get(vectorKey)?.add(ordinal);
          } else {
            nameOfVector.set(vector, ordinal);
            model.groups.set(ordinal, new Set([ordinal]));
          }
        } else {
          const held = [...model.groups.values()].flatMap((members) => [...members]);
          if (held.length === 0) return;
          const removed = held[pick % held.length];
          const of = model.vectorKeyOf(removed) as number;
          const members = model.groups.get(of) as Set<number>;
          members.delete(removed);
          expect(duplicates.remove(removed)).toBe(members.size === 0 ? of : absent);
          if (members.size === 0) model.groups.delete(of);
        }
        if (ordinal === restartAt) {
          const state = duplicates.state((each) => model.groups.has(each), ordinal + 1);
          duplicates = new DuplicateVectors();
          expect(duplicates.restore(state)).toEqual([]);
        }
        expectSame(duplicates, model);
      });
    }),
    { numRuns: 60 },
  );
});

test("nothing is left of a name whose records are all newer than the checkpoint", () => {
  const duplicates = new DuplicateVectors();
  duplicates.add(3, 50);
  expect(duplicates.remove(3)).toBe(absent);
  const restored = new DuplicateVectors();
  expect(restored.restore(duplicates.state(() => true, 40))).toEqual([3]);
});

describe("fingerprints", () => {
  test("each of many vectors is found under its own name, before and after the table grows and is stored", () => {
    const next = randomNumbers(7);
    const rows = Array.from({ length: 5_000 }, () =>
      Uint32Array.from({ length: 3 }, () => Math.floor(next() * 2 ** 32)),
    );
    let table = new Fingerprints([1, 2]);
    const isSame = (row: Uint32Array) => (vectorKey: number) =>
      rows[vectorKey].every((word, i) => word === row[i]);
    rows.forEach((row, vectorKey) => {
      expect(table.find(row, isSame(row))).toBe(absent);
      table.add(vectorKey, () => true);
    });
    const entries = table.entries((vectorKey) => vectorKey % 2 === 0);
    for (const [vectorKey, row] of rows.entries()) expect(table.find(row, isSame(row))).toBe(vectorKey);
    table = new Fingerprints([1, 2]);
    table.restore(entries);
    for (const [vectorKey, row] of rows.entries())
      expect(table.find(row, isSame(row))).toBe(vectorKey % 2 === 0 ? vectorKey : absent);
  });

  test("names that are gone are dropped when the table grows", () => {
    const table = new Fingerprints([3, 4]);
    const living = (vectorKey: number) => vectorKey >= 9_000;
    for (let vectorKey = 0; vectorKey < 10_000; vectorKey++) {
      table.find(Uint32Array.of(vectorKey), () => false);
      table.add(vectorKey, living);
    }
    expect(table.memoryBytes).toBeLessThan(12 * 4_096);
    expect(table.find(Uint32Array.of(9_500), (vectorKey) => vectorKey === 9_500)).toBe(9_500);
  });
});

test("0 and -0 are one value, at any offset", () => {
  const vectorKeys = new VectorKeys(3, [5, 6]);
  const bytes = new Uint8Array(17);
  bytes.set(new Uint8Array(Float32Array.of(1, -0, 2).buffer), 5);
  vectorKeys.read(bytes.subarray(5, 17));
  expect(vectorKeys.find(() => true)).toBe(absent);
  vectorKeys.add(8, () => true);
  vectorKeys.read(new Uint8Array(Float32Array.of(1, 0, 2).buffer));
  expect(vectorKeys.find((_, vector) => vector[1] === 0)).toBe(8);
  expect(vectorKeys.isZero).toBe(false);
});
