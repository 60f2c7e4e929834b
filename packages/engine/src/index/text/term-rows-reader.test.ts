import assert from "node:assert/strict";
import { randomNumbers } from "@quiverdb/kernels/random";
import { expect, test } from "vitest";
import { posted } from "../../../test/index/inverted/versioned.ts";
import { Counters, CountsReader } from "./counters.ts";
import { TermRows } from "./term-rows.ts";
import { type Row, RowReader, TermRowsReader } from "./term-rows-reader.ts";

const numbersOf = (row: Row | undefined): number[] | undefined => {
  if (row === undefined) return undefined;
  const reader = new RowReader(row);
  const numbers: number[] = [];
  while (!reader.isAtEnd) numbers.push(reader.read());
  return numbers;
};

test("a reader has the rows of its moment, whatever is written, forgotten, frozen and joined", () => {
  const next = randomNumbers(4);
  const integer = (end: number) => Math.floor(next() * end);
  const rows = new TermRows();
  const held = new Map<number, number[]>();
  let end = 0;
  const moments: { reader: TermRowsReader; held: Map<number, number[]>; end: number }[] = [];
  for (let round = 0; round < 200; round++) {
    for (let i = integer(40); i > 0; i--) {
      end += 1 + integer(3);
      const numbers = Array.from({ length: integer(12) }, () => integer(2 ** integer(32)));
      rows.begin(end);
      rows.writeAll(Uint32Array.from(numbers), numbers.length);
      held.set(end, numbers);
    }
    for (let i = integer(50); i > 0 && held.size > 20; i--) {
      const [ordinal] = [...held.keys()].slice(integer(held.size));
      rows.delete(ordinal);
      held.delete(ordinal);
    }
    if (integer(4) === 0) rows.freeze(end - integer(20));
    rows.check(held.size);
    moments.push({ reader: new TermRowsReader(posted(rows.shared)), held: new Map(held), end });
    if (moments.length > 6) moments.splice(integer(6), 1);
    for (const moment of moments) {
      for (const [ordinal, numbers] of moment.held)
        assert.deepEqual(numbersOf(moment.reader.of(ordinal)), numbers);
      for (let later = moment.end + 1; later <= end; later++)
        assert.equal(moment.reader.of(later), undefined);
    }
  }
});

test("counts are those of the moment at which somebody asked; blocks that did not change are copied once", () => {
  const next = randomNumbers(5);
  const counters = new Counters();
  const moments: { shared: ReturnType<() => typeof counters.shared>; counts: number[] }[] = [];
  const counts: number[] = [];
  expect(counters.memoryBytes).toBeLessThan(100);
  for (let round = 0; round < 12; round++) {
    for (let i = 0; i < 5_000; i++) {
      counters.push();
      counts.push(0);
    }
    for (let i = 0; i < 2_000; i++) {
      const number = Math.floor(next() * counts.length);
      if (counts[number] > 0 && next() < 0.4) assert.equal(counters.decrease(number), --counts[number]);
      else assert.equal(counters.increase(number), counts[number]++);
    }
    moments.push({ shared: posted(counters.shared), counts: [...counts] });
  }
  for (const { shared, counts: then } of moments)
    expect(then.every((count, number) => new CountsReader(shared).of(number) === count)).toBe(true);
  const before = counters.shared;
  counters.increase(0);
  const after = counters.shared;
  expect(before.length).toBe(4);
  expect(after.map((block, i) => block === before[i])).toEqual([false, true, true, true]);
  expect(new CountsReader(after).of(counts.length)).toBe(0);
});
