// Which ordinals may a search find at all?
//
// A bit for each ordinal between the first and the last of a set, in shared memory: a set is made once, and every index and every
// thread tests against the same words.
//
//   words[i], bit b    ordinal 32 * (firstWord + i) + b
//
// A bit is negligible compared with a record: a million ordinals take 125 kB. A sparse set over all u32 ordinals would take up to 512 MB,
// but the ordinals of a collection are dense.

import { invariant } from "../base/invariant.ts";
import type { OrdinalSet } from "./ordinal-sets.ts";

/** What a thread needs to test against a set of another thread. Can be posted to it. */
export type SharedBitmap = {
  readonly words: Uint32Array<SharedArrayBuffer>;
  readonly firstWord: number;
  readonly count: number;
};

/** A set of ordinals that does not change. */
export class OrdinalBitmap {
  readonly words: Uint32Array<SharedArrayBuffer>;
  /** The ordinals of the first word are from 32 times this on. */
  readonly firstWord: number;
  /** Ordinals of the set. */
  readonly count: number;

  private constructor({ words, firstWord, count }: SharedBitmap) {
    invariant(
      firstWord >= 0 && count <= 32 * words.length,
      () => `a set of ${count} ordinals has ${words.length} words, from ${firstWord} on`,
    );
    this.words = words;
    this.firstWord = firstWord;
    this.count = count;
  }

  /** The set of ascending ordinals, each once. */
  static of(ordinals: OrdinalSet): OrdinalBitmap {
    const { length } = ordinals;
    const firstWord = length === 0 ? 0 : ordinals[0] >>> 5;
    const end = length === 0 ? 0 : (ordinals[length - 1] >>> 5) + 1;
    invariant(
      end >= firstWord,
      `ordinals ascend; the first is ${ordinals[0]}, the last ${ordinals[length - 1]}`,
    );
    const words = new Uint32Array(new SharedArrayBuffer(4 * (end - firstWord)));
    // One store for each word: most sets have many ordinals in each.
    let word = 0;
    let bits = 0;
    for (let i = 0; i < length; i++) {
      const ordinal = ordinals[i];
      const at = (ordinal >>> 5) - firstWord;
      if (at !== word) {
        words[word] = bits;
        word = at;
        bits = 0;
      }
      bits |= 1 << (ordinal & 31);
    }
    if (length > 0) words[word] = bits;
    return new OrdinalBitmap({ words, firstWord, count: length });
  }

  /** The set of the bits of words, which must not change any more. */
  static ofWords(words: Uint32Array<SharedArrayBuffer>, firstWord: number): OrdinalBitmap {
    return new OrdinalBitmap({ words, firstWord, count: countBits(words) });
  }

  /** The set that another thread has made. */
  static attach(shared: SharedBitmap): OrdinalBitmap {
    return new OrdinalBitmap(shared);
  }

  get shared(): SharedBitmap {
    const { words, firstWord, count } = this;
    return { words, firstWord, count };
  }

  has(ordinal: number): boolean {
    const at = (ordinal >>> 5) - this.firstWord;
    return at >= 0 && at < this.words.length && ((this.words[at] >>> (ordinal & 31)) & 1) === 1;
  }

  /** The ordinals, ascending, one by one: where there can be many, and the work on them is done in steps. */
  *ordinals(): Generator<number> {
    for (let at = 0; at < this.words.length; at++) {
      const first = (this.firstWord + at) * 32;
      for (let bits = this.words[at]; bits !== 0; bits &= bits - 1)
        yield first + 31 - Math.clz32(bits & -bits);
    }
  }

  /** The ordinals, ascending: a new array. */
  toOrdinals(): OrdinalSet {
    const ordinals = new Uint32Array(this.count);
    let count = 0;
    for (let at = 0; at < this.words.length; at++) {
      const first = (this.firstWord + at) * 32;
      for (let bits = this.words[at]; bits !== 0; bits &= bits - 1)
        ordinals[count++] = first + 31 - Math.clz32(bits & -bits);
    }
    invariant(count === this.count, `a set of ${this.count} ordinals has ${count} bits`);
    return ordinals;
  }
}

/** Bits that are set. */
export function countBits(words: Uint32Array): number {
  let count = 0;
  for (let i = 0; i < words.length; i++) count += bitsOf(words[i]);
  return count;
}

/** Bits of a word that are set. */
export function bitsOf(word: number): number {
  let bits = word - ((word >>> 1) & 0x5555_5555);
  bits = (bits & 0x3333_3333) + ((bits >>> 2) & 0x3333_3333);
  return Math.imul((bits + (bits >>> 4)) & 0x0f0f_0f0f, 0x0101_0101) >>> 24;
}

/** The ordinals that may be found at all; null: every one. A search finds only what its version sees, and what is allowed. */
export type Allowed = OrdinalBitmap | null;

// ---- How is a set of ordinals computed from others?
//
// In words of its own, in place: an operation allocates nothing, and the bits are counted once, at the end. Allocating shared memory is the
// greatest cost of a set: for a million ordinals 50 µs, as against 15 µs for an operation (docs/decisions/filters.md). So builders that are
// no longer needed leave their words to later ones.

type Words = Uint32Array<SharedArrayBuffer>;

/** Words that are zero and belong to nobody. */
const spare: Words[] = [];
const spareMax = 8;

function zeroWords(length: number): Words {
  const at = spare.findIndex((words) => words.length === length);
  if (at < 0) return new Uint32Array(new SharedArrayBuffer(4 * length));
  return spare.splice(at, 1)[0].fill(0);
}

/** A set of ordinals below an end, which is being made. */
export class BitmapBuilder {
  #words: Words;
  readonly #end: number;

  constructor(end: number) {
    this.#end = end;
    this.#words = zeroWords(Math.ceil(end / 32));
  }

  add(ordinal: number): void {
    this.#words[ordinal >>> 5] |= 1 << (ordinal & 31);
  }

  remove(ordinal: number): void {
    this.#words[ordinal >>> 5] &= ~(1 << (ordinal & 31));
  }

  has(ordinal: number): boolean {
    return ((this.#words[ordinal >>> 5] >>> (ordinal & 31)) & 1) === 1;
  }

  /** Adds the ordinals of words, whose first has the ordinals from 32 * `first` on; those from the end on are left out. */
  addWords(words: Uint32Array, first: number): this {
    const mine = this.#words;
    const length = Math.min(words.length, mine.length - first);
    for (let i = 0; i < length; i++) mine[first + i] |= words[i];
    return this.#cut();
  }

  /** Takes out the ordinals of words. */
  removeWords(words: Uint32Array, first: number): this {
    const mine = this.#words;
    const length = Math.min(words.length, mine.length - first);
    for (let i = 0; i < length; i++) mine[first + i] &= ~words[i];
    return this;
  }

  /** Keeps the ordinals of words. */
  keepWords(words: Uint32Array, first: number): this {
    const mine = this.#words;
    const until = Math.max(0, Math.min(mine.length, first + words.length));
    mine.fill(0, 0, Math.min(first, mine.length));
    for (let i = Math.min(first, until); i < until; i++) mine[i] &= words[i - first];
    mine.fill(0, until);
    return this;
  }

  or(other: BitmapBuilder): this {
    return this.addWords(other.#words, 0);
  }

  and(other: BitmapBuilder): this {
    return this.keepWords(other.#words, 0);
  }

  andNot(other: BitmapBuilder): this {
    return this.removeWords(other.#words, 0);
  }

  /** Makes it the set of all ordinals below the end that it does not have. */
  complement(): this {
    const words = this.#words;
    for (let i = 0; i < words.length; i++) words[i] = ~words[i];
    return this.#cut();
  }

  get isEmpty(): boolean {
    return this.#words.every((word) => word === 0);
  }

  /** The ordinals, ascending. */
  *ordinals(): Generator<number> {
    const words = this.#words;
    for (let at = 0; at < words.length; at++)
      for (let bits = words[at]; bits !== 0; bits &= bits - 1) yield at * 32 + 31 - Math.clz32(bits & -bits);
  }

  /** The set. The builder must not be used afterwards. */
  finish(): OrdinalBitmap {
    return OrdinalBitmap.ofWords(this.#take(), 0);
  }

  /** Leaves the words to another builder. The builder must not be used afterwards. */
  discard(): void {
    const words = this.#take();
    if (spare.push(words) > spareMax) spare.shift();
  }

  #take(): Words {
    const words = this.#words;
    invariant(words.length === Math.ceil(this.#end / 32), "a builder of a set is used after its end");
    this.#words = new Uint32Array(new SharedArrayBuffer(0));
    return words;
  }

  /** Takes out the ordinals from the end on. */
  #cut(): this {
    const bits = this.#end & 31;
    if (bits !== 0) this.#words[this.#words.length - 1] &= 2 ** bits - 1;
    return this;
  }
}
