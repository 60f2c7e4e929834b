// How does a set of ordinals grow with the records of an index?
//
// A bit for each ordinal from the least one on, in shared memory. Ordinals mostly come in ascending order, so the words grow at the end.

import { grownShared, sharedArray } from "../../base/shared-array.ts";

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
  }

  /** @returns whether it was there */
  remove(ordinal: number): boolean {
    if (!this.has(ordinal)) return false;
    this.#words[(ordinal >>> 5) - this.firstWord] &= ~(1 << (ordinal & 31));
    this.count--;
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
