// Do equal vectors meet under one name, and part again?

import { randomNumbers } from "@quiverdb/kernels/random";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { absent } from "../ordinal-map.ts";
import { DuplicateVectors } from "./duplicate-vectors.ts";
import { Fingerprints } from "./fingerprints.ts";
import { Names } from "./names.ts";

/** The records of each name, as a map would keep them. */
class Model {
  readonly groups = new Map<number, Set<number>>();

  nameOf(ordinal: number): number | undefined {
    for (const [name, members] of this.groups) if (members.has(ordinal)) return name;
    return undefined;
  }
}

const membersOf = (copies: DuplicateVectors, name: number): Set<number> => {
  const members = new Set<number>();
  copies.each(name, (ordinal) => {
    members.add(ordinal);
    return true;
  });
  return members;
};

function expectSame(copies: DuplicateVectors, model: Model): void {
  copies.check((name) => model.groups.has(name));
  let extra = 0;
  for (const [name, members] of model.groups) {
    expect(membersOf(copies, name)).toEqual(members);
    extra += members.size - 1;
  }
  expect(copies.extraCount).toBe(extra);
}

test("copies are added and removed as in a map of sets, also across a restart", () => {
  const act = fc.record({ isAdding: fc.boolean(), pick: fc.nat(1_000), vector: fc.nat(6) });
  fc.assert(
    fc.property(fc.array(act, { maxLength: 120, size: "max" }), fc.nat(120), (acts, restartAt) => {
      let copies = new DuplicateVectors();
      const model = new Model();
      const nameOfVector = new Map<number, number>();
      acts.forEach(({ isAdding, pick, vector }, ordinal) => {
        const name = nameOfVector.get(vector);
        if (isAdding) {
          if (name !== undefined && model.groups.has(name)) {
            copies.add(name, ordinal);
            model.groups.get(name)?.add(ordinal);
          } else {
            nameOfVector.set(vector, ordinal);
            model.groups.set(ordinal, new Set([ordinal]));
          }
        } else {
          const held = [...model.groups.values()].flatMap((members) => [...members]);
          if (held.length === 0) return;
          const removed = held[pick % held.length];
          const of = model.nameOf(removed) as number;
          const members = model.groups.get(of) as Set<number>;
          members.delete(removed);
          expect(copies.remove(removed)).toBe(members.size === 0 ? of : absent);
          if (members.size === 0) model.groups.delete(of);
        }
        if (ordinal === restartAt) {
          const state = copies.state((each) => model.groups.has(each), ordinal + 1);
          copies = new DuplicateVectors();
          expect(copies.restore(state)).toEqual([]);
        }
        expectSame(copies, model);
      });
    }),
    { numRuns: 60 },
  );
});

test("nothing is left of a name whose records are all newer than the checkpoint", () => {
  const copies = new DuplicateVectors();
  copies.add(3, 50);
  expect(copies.remove(3)).toBe(absent);
  const restored = new DuplicateVectors();
  expect(restored.restore(copies.state(() => true, 40))).toEqual([3]);
});

describe("fingerprints", () => {
  test("each of many vectors is found under its own name, before and after the table grows and is stored", () => {
    const next = randomNumbers(7);
    const rows = Array.from({ length: 5_000 }, () =>
      Uint32Array.from({ length: 3 }, () => Math.floor(next() * 2 ** 32)),
    );
    let table = new Fingerprints([1, 2]);
    const isSame = (row: Uint32Array) => (name: number) => rows[name].every((word, i) => word === row[i]);
    rows.forEach((row, name) => {
      expect(table.find(row, isSame(row))).toBe(absent);
      table.add(name, () => true);
    });
    const entries = table.entries((name) => name % 2 === 0);
    for (const [name, row] of rows.entries()) expect(table.find(row, isSame(row))).toBe(name);
    table = new Fingerprints([1, 2]);
    table.restore(entries);
    for (const [name, row] of rows.entries())
      expect(table.find(row, isSame(row))).toBe(name % 2 === 0 ? name : absent);
  });

  test("names that are gone are dropped when the table grows", () => {
    const table = new Fingerprints([3, 4]);
    const living = (name: number) => name >= 9_000;
    for (let name = 0; name < 10_000; name++) {
      table.find(Uint32Array.of(name), () => false);
      table.add(name, living);
    }
    expect(table.memoryBytes).toBeLessThan(12 * 4_096);
    expect(table.find(Uint32Array.of(9_500), (name) => name === 9_500)).toBe(9_500);
  });
});

test("0 and -0 are one value, at any offset", () => {
  const names = new Names(3, [5, 6]);
  const bytes = new Uint8Array(17);
  bytes.set(new Uint8Array(Float32Array.of(1, -0, 2).buffer), 5);
  names.read(bytes.subarray(5, 17));
  expect(names.find(() => true)).toBe(absent);
  names.add(8, () => true);
  names.read(new Uint8Array(Float32Array.of(1, 0, 2).buffer));
  expect(names.find((_, vector) => vector[1] === 0)).toBe(8);
  expect(names.isZero).toBe(false);
});
