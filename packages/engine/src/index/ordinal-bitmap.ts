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
