import { randomNumbers } from "@quiverdb/kernels/random";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { utf8 } from "../../base/bytes.ts";
import { finishAtOnce } from "../../base/steps.ts";
import type { FieldType } from "../../filter/condition.ts";
import { type Field, fieldNamed } from "../../metadata/field.ts";
import type { StoredContent } from "../kind.ts";
import { BitmapBuilder } from "../ordinal-bitmap.ts";
import { KeywordValues } from "./keyword-values.ts";
import { type MetadataState, metadataKind } from "./kind.ts";
import { MetadataIndex } from "./metadata-index.ts";
import { NumberValues } from "./number-values.ts";
import { GrowingBitmap } from "./value-sets.ts";

const field = fieldNamed("f") as Field;
const kind = (type: FieldType) =>
  metadataKind("metadata:f").blueprint(
    { dimension: null, dense: false, sparse: false, text: false },
    { field: "f", type },
    {} as never,
  );

/** The set that a lookup makes. */
function found(end: number, look: (into: BitmapBuilder, empty: () => BitmapBuilder) => void): number[] {
  const into = new BitmapBuilder(end);
  look(into, () => new BitmapBuilder(end));
  return [...into.finish().toOrdinals()];
}

describe("[W8] numbers are found in their buckets as by reading all of them", () => {
  type Added = { readonly ordinal: number; readonly values: readonly number[] };
  const distributions: Readonly<Record<string, (i: number, next: () => number) => number[]>> = {
    ascending: (i) => [i],
    descending: (i) => [-i],
    random: (_, next) => [next()],
    "few values": (_, next) => [Math.floor(next() * 3)],
    "one value of many": (i, next) => [next() < 0.9 ? 5 : i],
    "several values": (_, next) =>
      Array.from({ length: 1 + Math.floor(next() * 3) }, () => Math.floor(next() * 5_000)),
    "few values, several of them": (_, next) =>
      Array.from({ length: 1 + Math.floor(next() * 1.2) }, () => Math.floor(next() * 4)),
    "odd values": (i, next) => [
      [Number.NEGATIVE_INFINITY, -0, 0, Number.POSITIVE_INFINITY, 5e-324, next()][i % 6],
    ],
    "most beyond 64-bit floats": (i) => [i % 3 === 0 ? i : Number.POSITIVE_INFINITY],
  };
  for (const [name, draw] of Object.entries(distributions))
    test(name, () => {
      const next = randomNumbers(3);
      let values = new NumberValues();
      const added: Added[] = [];
      const check = () => {
        values.check();
        const end = (added.at(-1)?.ordinal ?? 0) + 40;
        const bounds = [-1, 0, 2.5, 5, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
        for (let i = 0; i < 4; i++) bounds.push(added[Math.floor(next() * added.length)].values[0]);
        for (const bound of bounds) {
          const expected = (holds: (value: number) => boolean) =>
            added.filter(({ values: own }) => own.some(holds)).map(({ ordinal }) => ordinal);
          expect(found(end, (into) => values.addLess(into, bound, false))).toEqual(
            expected((v) => v < bound),
          );
          expect(found(end, (into) => values.addLess(into, bound, true))).toEqual(
            expected((v) => v <= bound),
          );
          expect(found(end, (into, empty) => values.addGreater(into, bound, false, empty))).toEqual(
            expected((v) => v > bound),
          );
          expect(found(end, (into, empty) => values.addGreater(into, bound, true, empty))).toEqual(
            expected((v) => v >= bound),
          );
          for (const wanted of [new Set([bound]), new Set([bound, 1, bounds[6]])])
            expect(found(end, (into, empty) => finishAtOnce(values.addEqual(into, wanted, empty)))).toEqual(
              expected((v) => wanted.has(v)),
            );
        }
      };
      for (let i = 0; i < 15_000; i++) {
        const record = { ordinal: 1_000 + 3 * i + (i % 3), values: draw(i, next) };
        values.add(record.ordinal, record.values);
        added.push(record);
        if (i === 300 || i === 2_500) check();
      }
      check();
      const { state, columns } = values.save();
      values = NumberValues.restored(structuredClone(state), columns);
      check();
      const kept = added.filter(() => next() < 0.3);
      const isKept = new Set(kept.map(({ ordinal }) => ordinal));
      values = finishAtOnce(values.without((ordinal) => isKept.has(ordinal)));
      added.splice(0, added.length, ...kept);
      check();
    });
});

test("[W8] numbers that very many records have are found without reading their pairs, or in steps", () => {
  const count = 300_000;
  const values = new NumberValues();
  for (let ordinal = 0; ordinal < count; ordinal++) values.add(ordinal, [7]);
  const stepsOf = (wanted: ReadonlySet<number>): number => {
    const into = new BitmapBuilder(count + 1);
    let steps = 0;
    for (const _ of values.addEqual(into, wanted, () => new BitmapBuilder(count + 1))) steps++;
    expect(into.finish().count).toBe(values.pairs - (values.pairs > count ? 1 : 0));
    return steps;
  };
  for (const wanted of [new Set([7]), new Set([7, 8])]) expect(stepsOf(wanted)).toBe(0);
  // A bitmap does not tell in which of its buckets a record with several values is.
  values.add(count, [7, 9]);
  for (const wanted of [new Set([7]), new Set([7, 8])]) expect(stepsOf(wanted)).toBeGreaterThan(3);
});

test("[W8] strings are found by their chains and bitmaps as by reading all of them", () => {
  const next = randomNumbers(8);
  const strings = [
    "",
    "a",
    "é",
    "\ud800",
    "x".repeat(300),
    ...Array.from({ length: 500 }, (_, i) => `rare ${i}`),
  ];
  const draw = () => strings[next() < 0.7 ? Math.floor(next() * 3) : Math.floor(next() * strings.length)];
  let values = new KeywordValues();
  const added: { ordinal: number; own: string[] }[] = [];
  const check = () => {
    values.check();
    const end = (added.at(-1)?.ordinal ?? 0) + 1;
    for (const wanted of [[""], ["a", "é"], ["\ud800", "nothing"], strings.slice(3, 60)]) {
      const expected = added
        .filter(({ own }) => own.some((s) => wanted.includes(s)))
        .map(({ ordinal }) => ordinal);
      expect(found(end, (into) => finishAtOnce(values.addEqual(into, wanted)))).toEqual(expected);
      const passes = (s: string) => wanted.includes(s);
      expect(found(end, (into) => finishAtOnce(values.addThat(into, passes)))).toEqual(expected);
    }
  };
  for (let i = 0; i < 30_000; i++) {
    const own = Array.from({ length: 1 + (i % 3) }, draw);
    values.add(500 + i, own);
    added.push({ ordinal: 500 + i, own });
    if (i === 100) check();
  }
  check();
  const { state, images } = values.save();
  values = KeywordValues.restored(state, images, added.length);
  check();
  const kept = added.filter(({ ordinal }) => ordinal % 5 === 0);
  values = finishAtOnce(values.without((ordinal) => ordinal % 5 === 0));
  added.splice(0, added.length, ...kept);
  check();
});

test("a bitmap grows at both ends", () => {
  fc.assert(
    fc.property(fc.array(fc.nat(3_000)), fc.array(fc.nat(3_000)), (add, remove) => {
      const bitmap = new GrowingBitmap();
      const set = new Set<number>();
      for (const ordinal of add) {
        expect(bitmap.add(ordinal)).toBe(!set.has(ordinal));
        set.add(ordinal);
      }
      for (const ordinal of remove) expect(bitmap.remove(ordinal)).toBe(set.delete(ordinal));
      for (const one of [bitmap, bitmap.copy()]) {
        expect([...one.ordinals()]).toEqual([...set].sort((a, b) => a - b));
        expect(one.count).toBe(set.size);
        expect(add.every((ordinal) => one.has(ordinal) === set.has(ordinal))).toBe(true);
      }
    }),
  );
});

test("sets are combined as sets are", () => {
  const ordinals = fc.uniqueArray(fc.nat(299));
  fc.assert(
    fc.property(ordinals, ordinals, fc.integer({ min: 1, max: 300 }), (a, b, end) => {
      const make = (of: readonly number[]) => {
        const builder = new BitmapBuilder(end);
        for (const ordinal of of) if (ordinal < end) builder.add(ordinal);
        return builder;
      };
      const all = Array.from({ length: end }, (_, ordinal) => ordinal);
      const check = (builder: BitmapBuilder, holds: (ordinal: number) => boolean) => {
        expect([...builder.ordinals()]).toEqual(all.filter(holds));
        expect([...builder.finish().toOrdinals()]).toEqual(all.filter(holds));
      };
      check(make(a).or(make(b)), (o) => a.includes(o) || b.includes(o));
      check(make(a).and(make(b)), (o) => a.includes(o) && b.includes(o));
      check(make(a).andNot(make(b)), (o) => a.includes(o) && !b.includes(o));
      check(make(a).complement(), (o) => !a.includes(o));
      make(a).discard();
      const words = new GrowingBitmap();
      for (const ordinal of b) words.add(ordinal);
      const first = Math.max(0, words.firstWord);
      check(make(a).addWords(words.words, first), (o) => a.includes(o) || b.includes(o));
      check(make(a).keepWords(words.words, first), (o) => a.includes(o) && b.includes(o));
      check(make(a).removeWords(words.words, first), (o) => a.includes(o) && !b.includes(o));
    }),
  );
});

describe("[I5] an index, its checkpoint and its compaction have the same values", () => {
  const metadataOf = (i: number): Record<string, unknown> | null => {
    const values = [i, `s${i % 9}`, i % 2 === 0, "2024-05-01", [i, "x", null], { y: 1 }, null];
    return i % 11 === 0 ? null : { other: i, f: values[i % values.length] };
  };
  const contentOf = (i: number): StoredContent => {
    const metadata = metadataOf(i);
    return { sparse: null, text: null, metadataBytes: metadata && utf8(JSON.stringify(metadata)) };
  };
  for (const type of ["keyword", "number", "boolean", "datetime"] as const)
    test(type, async () => {
      const { checkpoint } = kind(type);
      let index = new MetadataIndex(field, type);
      const live = new Set<number>();
      const add = (from: number, to: number) => {
        for (let i = from; i < to; i++) {
          index.add(i, contentOf(i).metadataBytes);
          live.add(i);
        }
      };
      const remove = (keeps: (i: number) => boolean) => {
        for (const i of [...live])
          if (!keeps(i)) {
            index.retire(i);
            index.remove(i);
            live.delete(i);
          }
      };
      const check = () => {
        index.check();
        expect(index.count).toBe(live.size);
        const hashes = (): PostingSums => new Map();
        type PostingSums = Map<number, number>;
        const [inIndex, inRecords] = [hashes(), hashes()];
        const note = (sums: PostingSums) => (ordinal: number, hash: number) =>
          sums.set(ordinal, ((sums.get(ordinal) ?? 0) + hash) >>> 0);
        const postings = metadataKind("metadata:f").postings?.(index);
        if (postings === undefined) throw new Error("not compared");
        finishAtOnce(postings.walk(note(inIndex)));
        for (const i of live) for (const hash of postings.hashesOf(contentOf(i))) note(inRecords)(i, hash);
        expect(inIndex).toEqual(inRecords);
        expect(inIndex.size).toBeGreaterThan(0);
      };
      add(0, 24_000);
      check();
      remove((i) => i % 10 === 0);
      check();
      index.retire(10);
      live.delete(10);
      let images: readonly Uint8Array[] = [];
      let state: MetadataState | undefined;
      await checkpoint.save(
        index,
        async (saved, of) => {
          state = structuredClone(saved) as MetadataState;
          images = of.map((image) => Uint8Array.from(image));
          return true;
        },
        false,
      );
      expect(index.changes).toBe(0);
      index = (await checkpoint.restored(state as MetadataState, async (empty) => {
        expect(empty.map(({ length }) => length)).toEqual(images.map(({ length }) => length));
        for (const [i, image] of empty.entries()) image.set(images[i]);
      })) as MetadataIndex;
      check();
      const before = index.memoryBytes;
      remove((i) => i % 3 === 1);
      expect(index.tidy()).toBe(type !== "boolean");
      add(24_000, 24_100);
      remove((i) => i % 4 !== 1);
      while (index.tidy()) check();
      check();
      expect(index.leftOver).toBeLessThan(1_000);
      expect(index.memoryBytes).toBeLessThan(before);
    });
});

test.each([
  ["ascending, as times are", (i: number) => i],
  ["random, later all in one range", (i: number) => (i < 20_000 ? (i * 7_919) % 20_000 : 10_000 + (i % 100))],
])("[I5] values that are added while others are compacted or read are there once: %s", (_name, numberOf) => {
  const index = new MetadataIndex(field, "number");
  const live = new Set<number>();
  let end = 0;
  const add = (count: number) => {
    for (const until = end + count; end < until; end++) {
      index.add(end, utf8(JSON.stringify({ f: numberOf(end) })));
      live.add(end);
    }
  };
  const counted = (
    entries: Iterable<readonly [unknown, number]>,
    among: ReadonlySet<number>,
    meanwhile = () => {},
  ) => {
    const times = new Map<number, number>();
    let read = 0;
    for (const [, ordinal] of entries) {
      if (among.has(ordinal)) times.set(ordinal, (times.get(ordinal) ?? 0) + 1);
      if (++read % 1_000 === 0) meanwhile();
    }
    return [times.size, Math.max(...times.values())];
  };
  add(20_000);
  const before = new Set(live);
  expect(counted(index.typed.values.entries(), before, () => add(300))).toEqual([before.size, 1]);
  for (const ordinal of [...live].filter((each) => each % 5 < 3)) {
    index.retire(ordinal);
    index.remove(ordinal);
    live.delete(ordinal);
  }
  for (let steps = 0; index.tidy(); steps++) if (steps < 60) add(300);
  index.check();
  expect(counted(index.typed.values.entries(), live)).toEqual([live.size, 1]);
});
