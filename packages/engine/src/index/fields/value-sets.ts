// How does a set of ordinals grow with the records of an index?
//
// A bit for each ordinal from the least one on, in shared memory. Ordinals mostly come in ascending order, so the words grow at the end.

import { invariant } from "../../base/invariant.ts";
import { grownShared, sharedArray } from "../../base/shared-memory.ts";
import type { Steps } from "../../base/steps.ts";
import type { ValuePart } from "../field-index.ts";
import type { BitmapBuilder } from "../ordinal-bitmap.ts";

/** Words are added this fraction at a time. */
const growth = 1.25;
const wordsMin = 16;

export class GrowingBitmap {
  /** The words; those from `length` on are zero. */
  #words: Uint32Array = sharedArray(Uint32Array, wordsMin);
  /** The first word has the ordinals from 32 times this on. */
  firstWord = -1;
  #length = 0;
  count = 0;

  /** The words in use: borrowed, until the next change. */
  get words(): Uint32Array {
    return this.#words.subarray(0, this.#length);
  }

  has(ordinal: number): boolean {
    const at = (ordinal >>> 5) - this.firstWord;
    return at >= 0 && at < this.#length && ((this.#words[at] >>> (ordinal & 31)) & 1) === 1;
  }

  /** @returns whether the ordinal is new */
  add(ordinal: number): boolean {
    const word = ordinal >>> 5;
    if (this.firstWord < 0) this.firstWord = word;
    else if (word < this.firstWord) this.#beginAt(word);
    const at = word - this.firstWord;
    if (at >= this.#words.length)
      this.#words = grownShared(Uint32Array, this.#words, Math.ceil(growth * (at + 1)));
    if (at >= this.#length) this.#length = at + 1;
    const bit = 1 << (ordinal & 31);
    if ((this.#words[at] & bit) !== 0) return false;
    this.#words[at] |= bit;
    this.count++;
    return true;
  }

  #beginAt(word: number): void {
    const before = this.firstWord - word;
    const words = sharedArray(Uint32Array, Math.ceil(growth * (before + this.#length)));
    words.set(this.words, before);
    this.#words = words;
    this.#length += before;
    this.firstWord = word;
    invariant(
      this.#length <= this.#words.length,
      () => `${this.#length} of ${this.#words.length} words are in use`,
    );
  }

  /** @returns whether it was there */
  remove(ordinal: number): boolean {
    if (!this.has(ordinal)) return false;
    this.#words[(ordinal >>> 5) - this.firstWord] &= ~(1 << (ordinal & 31));
    this.count--;
    invariant(this.count >= 0, () => `a set has ${this.count} ordinals`);
    return true;
  }

  /** The ordinals, ascending. */
  *ordinals(): Generator<number> {
    for (let at = 0; at < this.#length; at++) {
      const first = 32 * (this.firstWord + at);
      for (let bits = this.#words[at]; bits !== 0; bits &= bits - 1)
        yield first + 31 - Math.clz32(bits & -bits);
    }
  }

  /** A set with the same ordinals. */
  copy(): GrowingBitmap {
    const copy = new GrowingBitmap();
    copy.#words = grownShared(
      Uint32Array,
      this.words as Uint32Array,
      Math.max(wordsMin, Math.ceil(growth * this.#length)),
    );
    copy.firstWord = this.firstWord;
    copy.#length = this.#length;
    copy.count = this.count;
    return copy;
  }

  /** A set of words of a checkpoint, which it takes over. */
  static restored(words: Uint32Array, firstWord: number, count: number): GrowingBitmap {
    invariant(
      count <= 32 * words.length && (count === 0 || firstWord >= 0),
      `a set of ${count} ordinals is restored from ${words.length} words, from ${firstWord} on`,
    );
    const restored = new GrowingBitmap();
    restored.#words = words;
    restored.firstWord = firstWord;
    restored.#length = words.length;
    restored.count = count;
    return restored;
  }

  get memoryBytes(): number {
    return this.#words.byteLength;
  }
}

// ---- Which records have true, and which have false?

export class BooleanValues {
  readonly yes: GrowingBitmap;
  readonly no: GrowingBitmap;

  constructor(yes = new GrowingBitmap(), no = new GrowingBitmap()) {
    this.yes = yes;
    this.no = no;
  }

  get pairs(): number {
    return this.yes.count + this.no.count;
  }

  add(ordinal: number, values: readonly boolean[]): void {
    for (const value of values) (value ? this.yes : this.no).add(ordinal);
  }

  /** Adds the records with a value. */
  addEqual(into: BitmapBuilder, value: boolean): void {
    const { words, firstWord } = value ? this.yes : this.no;
    into.addWords(words, Math.max(0, firstWord));
  }

  /** All pairs, false before true. */
  parts(): ValuePart<boolean>[] {
    return [part(false, this.no), part(true, this.yes)];
  }

  *entries(): Generator<readonly [value: boolean, ordinal: number]> {
    for (const each of this.parts()) yield* each;
  }

  /** The same values of the records that are kept, in steps. */
  *without(keeps: (ordinal: number) => boolean): Steps<BooleanValues> {
    const made = new BooleanValues();
    let count = 0;
    for (const [value, ordinal] of this.entries()) {
      if (keeps(ordinal)) made.add(ordinal, [value]);
      if (++count % pairsPerStep === 0) yield;
    }
    return made;
  }

  get memoryBytes(): number {
    return this.yes.memoryBytes + this.no.memoryBytes;
  }

  /** Bitmaps have nothing that could disagree. */
  check(): void {}
}

const part = (value: boolean, records: GrowingBitmap): ValuePart<boolean> => ({
  least: value,
  greatest: value,
  [Symbol.iterator]: () => pairsOf(value, records.ordinals()),
});

/** A value with each of its records. */
export function* pairsOf<V>(
  value: V,
  ordinals: Iterable<number>,
): Generator<readonly [value: V, ordinal: number]> {
  for (const ordinal of ordinals) yield [value, ordinal] as const;
}

/** Pairs that are copied at a step. */
const pairsPerStep = 4_096;
