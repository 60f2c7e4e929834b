import { randomNumbers } from "@quiverdb/kernels/random";
import fc from "fast-check";
import { expect, test } from "vitest";
import { posted } from "../../../test/index/inverted/versioned.ts";
import { finishAtOnce } from "../../base/steps.ts";
import { Dictionary } from "./dictionary.ts";
import { DictionaryReader } from "./dictionary-reader.ts";

/** Words of few letters, so that they repeat, including letters with two code units. */
const words = fc.string({ unit: fc.constantFrom("a", "b", "é", "\u{20000}"), minLength: 1, maxLength: 4 });

test("a dictionary has the terms that were added and not removed, also after it was stored and restored", () => {
  const steps = fc.array(fc.record({ word: words, isKept: fc.integer({ min: 0, max: 40 }) }), {
    maxLength: 400,
  });
  fc.assert(
    fc.property(steps, (sequence) => {
      // Few slots, so that they are doubled often, and terms are added and removed while the old ones are moved; and short blocks.
      let dictionary = new Dictionary(4, 5);
      const reference = new Map<string, number>();
      const free: number[] = [];
      for (const { word, isKept } of sequence) {
        const number = reference.get(word);
        expect(dictionary.get(word)).toBe(number);
        if (number === undefined) {
          const taken = free.pop() ?? reference.size;
          dictionary.add(word, taken);
          reference.set(word, taken);
        } else {
          dictionary.remove(number);
          reference.delete(word);
          free.push(number);
        }
        if (isKept === 0) dictionary = restored(dictionary);
      }
      dictionary.check();
      expect(new Map(dictionary.entries())).toEqual(reference);
      expect(finishAtOnce(dictionary.freeNumbers()).every((number) => free.includes(number))).toBe(true);
      const startsWithA = finishAtOnce(dictionary.termsThat((units, begin) => units[begin] === 0x61));
      expect(startsWithA.sort()).toEqual([...reference.keys()].filter((word) => word[0] === "a").sort());
    }),
    { numRuns: 200 },
  );
});

test("many terms are added and removed, and the units of removed ones are reused", () => {
  const dictionary = new Dictionary();
  const wordOf = (i: number) => `term ${i.toString(36)}`;
  for (let i = 0; i < 20_000; i++) dictionary.add(wordOf(i), i);
  dictionary.check();
  const { memoryBytes } = dictionary;
  for (let round = 1; round < 6; round++)
    for (let i = 0; i < 20_000; i++) {
      dictionary.remove(i);
      dictionary.add(wordOf(20_000 * round + i), i);
    }
  dictionary.check();
  expect(dictionary.size).toBe(20_000);
  expect(dictionary.memoryBytes).toBeLessThan(3 * memoryBytes);
  expect(restored(dictionary).get(wordOf(100_007))).toBe(7);
  expect(dictionary.get(wordOf(7))).toBe(undefined);
});

test("a reader finds the terms of its moment that were not removed, whatever is added, removed and closed up", () => {
  const next = randomNumbers(3);
  const integer = (end: number) => Math.floor(next() * end);
  // Few slots, short blocks and long terms, so that slots are made anew and units are closed up all the time.
  const dictionary = new Dictionary(4, 8);
  const numbers = new Map<string, number>();
  const free: number[] = [];
  let [fresh, end] = [0, 0];
  type Moment = { readonly reader: DictionaryReader; readonly terms: Map<string, number> };
  const moments: Moment[] = [];
  const check = ({ reader, terms }: Moment) => {
    const wrong = [...terms].filter(
      ([term, number]) => reader.get(term) !== number || reader.termOf(number) !== term,
    );
    expect(wrong).toEqual([]);
    expect(reader.get(`never ${fresh}`)).toBe(undefined);
    const found = new Set(finishAtOnce(reader.termsThat(() => true)));
    expect([...terms.keys()].filter((term) => !found.has(term))).toEqual([]);
  };
  for (let round = 0; round < 200; round++) {
    const wanted = integer(400);
    for (let i = integer(60); i > 0 && numbers.size > wanted; i--) {
      const [term, number] = [...numbers][integer(numbers.size)];
      dictionary.remove(number);
      numbers.delete(term);
      free.push(number);
      for (const { terms } of moments) terms.delete(term);
    }
    for (let i = integer(60); i > 0; i--) {
      const term = `${"x".repeat(integer(60))} ${fresh++}`;
      const number = free.pop() ?? end++;
      dictionary.add(term, number);
      numbers.set(term, number);
    }
    moments.push({ reader: new DictionaryReader(posted(dictionary.shared)), terms: new Map(numbers) });
    if (moments.length > 8) moments.splice(integer(8), 1);
    for (const moment of moments) check(moment);
  }
  dictionary.check();
});

test("what a checkpoint is given stays as it is while it is written, whatever is added, removed and closed up", () => {
  const next = randomNumbers(5);
  const integer = (end: number) => Math.floor(next() * end);
  let dictionary = new Dictionary(4, 8);
  const numbers = new Map<string, number>();
  const free: number[] = [];
  let [fresh, end] = [0, 0];
  const change = (count: number) => {
    for (let i = 0; i < count; i++) {
      if (integer(2) === 0 && numbers.size > 0) {
        const [term, number] = [...numbers][integer(numbers.size)];
        dictionary.remove(number);
        numbers.delete(term);
        free.push(number);
      } else {
        const term = `${"x".repeat(integer(60))} ${fresh++}`;
        const number = free.pop() ?? end++;
        dictionary.add(term, number);
        numbers.set(term, number);
      }
    }
  };
  for (let round = 0; round < 30; round++) {
    change(integer(300));
    const { state, images, done } = dictionary.save();
    const before = images.map((image) => image.slice());
    const expected = new Map(numbers);
    change(integer(300));
    expect(images.every((image, i) => Buffer.compare(image, before[i]) === 0)).toBe(true);
    done();
    change(integer(100));
    dictionary.check();
    const read = Dictionary.imagesFor(structuredClone(state));
    for (const [i, image] of read.entries()) image.set(before[i]);
    const made = Dictionary.restored(structuredClone(state), read);
    made.check();
    expect(new Map(made.entries())).toEqual(expected);
    if (integer(4) > 0) continue;
    // Goes on from the checkpoint.
    dictionary = made;
    numbers.clear();
    for (const [term, number] of expected) numbers.set(term, number);
    free.splice(0, free.length, ...finishAtOnce(made.freeNumbers()));
    end = made.numbersEnd;
  }
});

/** Data as read from disk: a copy of the state and of the columns. */
function restored(dictionary: Dictionary): Dictionary {
  const { state, images, done } = dictionary.save();
  const read = Dictionary.imagesFor(state);
  expect(read.map(({ length }) => length)).toEqual(images.map(({ length }) => length));
  for (const [i, image] of read.entries()) image.set(images[i]);
  done();
  const made = Dictionary.restored(structuredClone(state), read);
  made.check();
  return made;
}
