// Which number was remembered for a word?
//
// A hash table with linear probing, for words that are slices of texts. A Map takes three times as long for them: it first computes the hash
// of a new string and stores it there, which does not pay for a string that is looked up once. With 6.5 million words of a dictionary, 0.7 s
// of processor time instead of 2.1.
//
// Words can be chosen to have one hash. So a word is searched in a few slots only, and one that finds none of them free is not remembered.

import { ownCopy } from "../../text/analyzer.ts";

/** In place of the number of a word that is not remembered. Numbers are greater. */
export const unknown = -(2 ** 31);

const slotsMin = 1_024;

/** Slots in which a word is searched. With half of the slots free, few words need more than ten. */
const probesMax = 64;

export class WordTable {
  /** By slot: the place of its word, from 1; 0: the slot is free. At least half of the slots are free. */
  #slots = new Uint32Array(slotsMin);
  /** By place: word, hash and number. */
  readonly #words: string[] = [];
  #hashes = new Int32Array(slotsMin / 2);
  #numbers = new Int32Array(slotsMin / 2);

  get size(): number {
    return this.#words.length;
  }

  /** The number of a word, or `unknown`. */
  get(word: string): number {
    const hash = hashOf(word);
    const slots = this.#slots;
    for (let probe = 0; probe < probesMax; probe++) {
      const place = slots[(hash + probe) & (slots.length - 1)] - 1;
      if (place < 0) return unknown;
      if (this.#hashes[place] === hash && this.#words[place] === word) return this.#numbers[place];
    }
    return unknown;
  }

  /** Remembers a word, which is copied and must not be remembered yet, if it finds a free slot. */
  add(word: string, number: number): void {
    const place = this.#words.length;
    if (place === this.#hashes.length) this.#grow();
    this.#hashes[place] = hashOf(word);
    this.#numbers[place] = number;
    // Words are slices of texts, which they must not keep.
    if (this.#enter(place)) this.#words.push(ownCopy(word));
  }

  clear(): void {
    if (this.#words.length === 0) return;
    this.#words.length = 0;
    this.#slots = new Uint32Array(slotsMin);
    this.#hashes = new Int32Array(slotsMin / 2);
    this.#numbers = new Int32Array(slotsMin / 2);
  }

  /** Bytes besides the words themselves. */
  get memoryBytes(): number {
    return this.#slots.byteLength + this.#hashes.byteLength + this.#numbers.byteLength;
  }

  /** @returns whether there is a free slot */
  #enter(place: number): boolean {
    const slots = this.#slots;
    for (let probe = 0; probe < probesMax; probe++) {
      const slot = (this.#hashes[place] + probe) & (slots.length - 1);
      if (slots[slot] !== 0) continue;
      slots[slot] = place + 1;
      return true;
    }
    return false;
  }

  #grow(): void {
    const grown = (numbers: Int32Array<ArrayBuffer>) => {
      const copy = new Int32Array(2 * numbers.length);
      copy.set(numbers);
      return copy;
    };
    this.#hashes = grown(this.#hashes);
    this.#numbers = grown(this.#numbers);
    this.#slots = new Uint32Array(2 * this.#slots.length);
    for (let place = 0; place < this.#words.length; place++) this.#enter(place);
  }
}

/** FNV-1a over UTF-16 code units, with the bits mixed at the end as in MurmurHash3. */
export function hashOf(word: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < word.length; i++) hash = Math.imul(hash ^ word.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return hash ^ (hash >>> 13);
}
