// Which term and form has a word of a text, given as bytes?
//
// Nearly all words of a text were seen before. They are found here by their UTF-8 bytes, in a hash table with linear probing, so that a known
// word costs no string. The passages of bench/text/passages.ts, 5.8 million words, take 4 s of processor time in this way; with strings and a
// Map for each batch, 13. A word that is new is analysed and remembered.
//
// Words can be chosen to have one hash. So a word is searched in a few slots only, and one that finds none of them free is not remembered.

import { lenientText } from "../../base/bytes.ts";
import { Growable } from "../../base/growable.ts";
import type { Analyzer } from "../../text/analyzer.ts";

/** In place of a number: the word has no term, or no form. */
export const absent = 0xffff_ffff;

/** Dictionaries have 300,000 different words. Some 15 MB. */
const wordsMax = 2 ** 18;
const slotsMin = 1_024;

/** Slots in which a word is searched. With half of the slots free, few words need more than ten. */
const probesMax = 64;

/** Columns of a word: its hash, where its bytes begin and end, and the numbers of its term and form. */
const hashColumn = 0;
const beginColumn = 1;
const endColumn = 2;
const termColumn = 3;
const formColumn = 4;
const columns = 5;

/** Names that have the number of their place. */
class Names {
  readonly all: string[] = [];
  readonly #numbers = new Map<string, number>();

  numberOf(name: string): number {
    const known = this.#numbers.get(name);
    if (known !== undefined) return known;
    this.#numbers.set(name, this.all.length);
    return this.all.push(name) - 1;
  }
}

export class KnownWords {
  readonly #analyzer: Analyzer;
  readonly #terms = new Names();
  readonly #forms = new Names();
  /** By slot: the number of its word, from 1; 0: the slot is free. At least half of the slots are free. */
  #slots = new Uint32Array(slotsMin);
  /** Of each word, side by side, because the table is larger than a cache: see the names of these columns. */
  readonly #words = new Growable(Uint32Array);
  /** Of all words, one after the other. */
  readonly #bytes = new Growable(Uint8Array);

  constructor(analyzer: Analyzer) {
    this.#analyzer = analyzer;
  }

  /** Terms and forms by number. */
  get terms(): readonly string[] {
    return this.#terms.all;
  }

  get forms(): readonly string[] {
    return this.#forms.all;
  }

  /** The number of a term. */
  termNumberOf(term: string): number {
    return this.#terms.numberOf(term);
  }

  /** Whether there is so much that it is time to begin anew. */
  get isFull(): boolean {
    return this.#words.length >= columns * wordsMax || this.terms.length >= 2 * wordsMax;
  }

  /** The number of a word that is remembered, or -1. @param hash of its bytes (`hashed`) */
  find(text: Uint8Array, begin: number, end: number, hash: number): number {
    const slots = this.#slots;
    const words = this.#words.values;
    const bytes = this.#bytes.values;
    for (let probe = 0; probe < probesMax; probe++) {
      const word = slots[(hash + probe) & (slots.length - 1)] - 1;
      if (word < 0) return -1;
      const of = columns * word;
      if ((words[of + hashColumn] | 0) !== hash) continue;
      const first = words[of + beginColumn];
      if (words[of + endColumn] - first !== end - begin) continue;
      let at = begin;
      while (at < end && bytes[first + at - begin] === text[at]) at++;
      if (at === end) return word;
    }
    return -1;
  }

  /** The number of the term of a remembered word, or `absent`. */
  termOf(word: number): number {
    return this.#words.values[columns * word + termColumn];
  }

  formOf(word: number): number {
    return this.#words.values[columns * word + formColumn];
  }

  /** Analyses a word, which is no run, and remembers it if it finds a free slot: it is the last one then. */
  learn(text: Uint8Array, begin: number, end: number, hash: number): { term: number; form: number } {
    const { term, form } = this.#analyzer.of(lenientText(text.subarray(begin, end)));
    const numbers = {
      term: term === "" ? absent : this.#terms.numberOf(term),
      form: form === "" ? absent : this.#forms.numberOf(form),
    };
    const word = this.#words.length / columns;
    if (2 * (word + 1) > this.#slots.length) this.#grow();
    if (!this.#enter(word, hash)) return numbers;
    const first = this.#bytes.length;
    this.#bytes.reserve(end - begin);
    this.#bytes.values.set(text.subarray(begin, end), first);
    this.#bytes.length += end - begin;
    for (const value of [hash, first, this.#bytes.length, numbers.term, numbers.form])
      this.#words.push(value);
    return numbers;
  }

  /** @returns whether there is a free slot */
  #enter(word: number, hash: number): boolean {
    const slots = this.#slots;
    for (let probe = 0; probe < probesMax; probe++) {
      const slot = (hash + probe) & (slots.length - 1);
      if (slots[slot] !== 0) continue;
      slots[slot] = word + 1;
      return true;
    }
    return false;
  }

  #grow(): void {
    this.#slots = new Uint32Array(2 * this.#slots.length);
    const { values, length } = this.#words;
    for (let word = 0; word < length / columns; word++)
      this.#enter(word, values[columns * word + hashColumn] | 0);
  }
}

/**
 * FNV-1a of bytes, to begin with and for each byte; `hashed` mixes the bits at the end, as MurmurHash3 does. Hashes are integers with a sign:
 * those without one are floats to the engine, which takes several times as long.
 */
export const hashBegin = 0x811c9dc5 | 0;
export const hashFactor = 0x01000193;

export function hashed(fnv: number): number {
  const mixed = Math.imul(fnv ^ (fnv >>> 16), 0x85ebca6b);
  return mixed ^ (mixed >>> 13);
}
