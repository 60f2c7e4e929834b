// Which numbers do the terms and forms of a text have?
//
// Postings know terms by number. A term has a number for as long as a segment or mutable buffer has postings of it;
// then another term reuses it. Readers of versions before need not be waited for: see dictionary-reader.ts. The vocabulary caches the numbers of frequent words, because most words of a text are among them.

import { Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import type { Steps } from "../../base/steps.ts";
import { type Analyzer, ownCopy } from "../../text/analyzer.ts";
import { isRun } from "../../text/grams.ts";
import { Counters } from "./counters.ts";
import { Dictionary, type DictionaryState, numbersPerStep } from "./dictionary.ts";
import type { Forms } from "./forms.ts";

/** In place of the number of a word's term: it has none. */
const dropped = -1;

/** In place of the number of its term where a word has a form: less than this, by the place of both numbers. */
const withForm = -2;

/**
 * Words whose terms are remembered, in each of two halves. Dictionaries have 300,000 different words, and stemming a word takes as long as
 * looking up twenty: with an eighth of this and one half, building an English index takes a third longer.
 */
const wordsMax = 131_072;

/** Of the string of one of them: a short string and its place in an array, as measured in V8. */
const wordBytes = 40;

/** The analysed text: the distinct numbers of its terms with their frequencies, the forms of its words, and its length. */
type CountedText = {
  readonly numbers: readonly number[];
  readonly frequencies: readonly number[];
  readonly forms: readonly number[];
  readonly length: number;
};

export class Vocabulary {
  dictionary = new Dictionary();
  readonly #analyzer: Analyzer;
  readonly #forms: () => Forms | null;
  /** By number of a term: in how many segments, or mutable buffers, it has postings. */
  readonly #uses = new Counters();
  #freeTerms: number[] = [];
  /** By number of a term: 0 but while a text is counted, then how often the text has it. */
  readonly #frequencies = new Counters();
  /**
   * Words seen before -> the number of their term, `dropped`, or `withForm` less the place of both numbers in `#wordNumbers`:
   * most words of a text need no other look. Numbers in a column of their own take half the time of an object for each word.
   */
  #words = new WordTable();
  #wordNumbers = new Growable(Uint32Array);
  /** Those of before, when there were `wordsMax`. A word that is seen again moves on; the others are forgotten with the next change. */
  #oldWords = new WordTable();
  #oldWordNumbers = new Growable(Uint32Array);
  #forgets = 0;

  /** @param forms where the forms of words are kept; null where they are not */
  constructor(analyzer: Analyzer, forms: () => Forms | null) {
    this.#analyzer = analyzer;
    this.#forms = forms;
  }

  /** How often terms or forms were forgotten, whose numbers can be those of others now. */
  get forgets(): number {
    return this.#forgets;
  }

  /** Counts the words of a text, as `tokenize` makes them. */
  count(words: readonly string[]): CountedText {
    const numbers: number[] = [];
    const forms: number[] = [];
    let length = 0;
    for (const word of words) {
      let number = this.#words.get(word);
      if (number === unknown) {
        if (isRun(word)) {
          length += this.#countRun(word, numbers);
          continue;
        }
        number = this.#numberOfWord(word);
      }
      if (number === dropped) continue;
      if (number < dropped) {
        const at = withForm - number;
        number = this.#wordNumbers.values[at];
        forms.push(this.#wordNumbers.values[at + 1]);
      }
      length++;
      if (this.#frequencies.increase(number) === 0) numbers.push(number);
    }
    const frequencies = numbers.map((number) => this.#frequencies.of(number));
    for (const number of numbers) this.#frequencies.set(number, 0);
    return { numbers, frequencies, forms, length };
  }

  /** Counts the terms of a run, and adds those that are new to the text. @returns its length */
  #countRun(run: string, numbers: number[]): number {
    return this.#analyzer.read([run], (term) => {
      const number = this.numberOf(term);
      if (this.#frequencies.increase(number) === 0) numbers.push(number);
    });
  }

  /** Number of a term -> its positions among the words of a text. */
  placesOf(words: readonly string[]): Map<number, number[]> {
    const places = new Map<number, number[]>();
    this.#analyzer.read(words, (term, _form, place) => {
      const number = this.numberOf(term);
      const known = places.get(number);
      if (known === undefined) places.set(number, [place]);
      else known.push(place);
    });
    return places;
  }

  /** The number of a term, which is assigned if it has none. */
  numberOf(term: string): number {
    const known = this.dictionary.get(term);
    if (known !== undefined) return known;
    const number = this.#freeTerms.pop() ?? this.#uses.length;
    if (number === this.#uses.length) for (const column of this.#columns) column.push();
    invariant(this.#uses.of(number) === 0, () => `the free number ${number} has postings`);
    this.dictionary.add(term, number);
    return number;
  }

  get #columns(): Counters[] {
    return [this.#uses, this.#frequencies];
  }

  /** The entry of `#words` for a word, which is added if missing. */
  #numberOfWord(word: string): number {
    if (this.#words.size >= wordsMax) this.#ageWords();
    const old = this.#oldWords.get(word);
    if (old !== unknown) return this.#moveOn(word, old);
    const { term, form } = this.#analyzer.of(word);
    let number = term === "" ? dropped : this.numberOf(term);
    const forms = this.#forms();
    if (form !== "" && forms !== null) {
      const at = this.#wordNumbers.length;
      this.#wordNumbers.push(number);
      this.#wordNumbers.push(forms.numberOf(form));
      number = withForm - at;
    }
    this.#words.add(word, number);
    return number;
  }

  #moveOn(word: string, old: number): number {
    let number = old;
    if (old <= withForm) {
      const { values } = this.#oldWordNumbers;
      number = withForm - this.#wordNumbers.length;
      this.#wordNumbers.push(values[withForm - old]);
      this.#wordNumbers.push(values[withForm - old + 1]);
    }
    this.#words.add(word, number);
    return number;
  }

  #ageWords(): void {
    this.#oldWords = this.#words;
    this.#oldWordNumbers = this.#wordNumbers;
    this.#words = new WordTable();
    this.#wordNumbers = new Growable(Uint32Array);
  }

  /** There are postings of a term in one more place. */
  use(term: number): void {
    invariant(term < this.#uses.length, () => `number ${term} of ${this.#uses.length} is used`);
    this.#uses.increase(term);
  }

  /** ... and in one less. A term that no record has any more is forgotten. */
  unuse(term: number): void {
    if (this.#uses.decrease(term) > 0) return;
    this.forgetNumbers();
    this.dictionary.remove(term);
    this.#freeTerms.push(term);
  }

  /** Numbers of words that were known can mean others now. */
  forgetNumbers(): void {
    this.forgetWords();
    this.#forgets++;
  }

  /** Clears the cache of words. */
  forgetWords(): void {
    this.#words.clear();
    this.#wordNumbers.truncate(0);
    this.#oldWords.clear();
    this.#oldWordNumbers.truncate(0);
  }

  /** Bytes of the cache, whose entries can be computed again. */
  get spareBytes(): number {
    const words = this.#words.size + this.#oldWords.size;
    const tables = this.#words.memoryBytes + this.#oldWords.memoryBytes;
    return wordBytes * words + tables + this.#wordNumbers.memoryBytes + this.#oldWordNumbers.memoryBytes;
  }

  get memoryBytes(): number {
    return this.restoredBytes + this.spareBytes;
  }

  /** Bytes without the cache. */
  get restoredBytes(): number {
    return this.dictionary.memoryBytes + this.#uses.memoryBytes + this.#frequencies.memoryBytes;
  }

  /** Ensures room for the numbers of a dictionary that is being restored, and whose terms may be used meanwhile. */
  reserve({ numbersEnd }: DictionaryState): void {
    for (const column of this.#columns) column.extend(numbersEnd);
  }

  /** Restores the terms in use. */
  *restore(dictionary: Dictionary): Steps<void> {
    invariant(
      dictionary.numbersEnd <= this.#uses.length,
      `a dictionary of ${dictionary.numbersEnd} numbers is restored, ${this.#uses.length} were reserved`,
    );
    invariant(this.dictionary.size === 0, "a dictionary is restored in place of one with terms");
    this.dictionary = dictionary;
    // Terms that only records of the mutable buffer had.
    for (let number = 0; number < this.#uses.length; number++) {
      if (this.#uses.of(number) === 0 && dictionary.isUsed(number)) dictionary.remove(number);
      if (number % numbersPerStep === numbersPerStep - 1) yield;
    }
    this.#freeTerms = yield* dictionary.freeNumbers();
  }

  close(): void {
    this.dictionary = new Dictionary();
    for (const column of this.#columns) column.clear();
    this.forgetWords();
    this.#freeTerms.length = 0;
  }

  /** Proves that the terms are those that have postings. @param uses in how many places each has them; emptied */
  check(uses: Map<number, number>): void {
    this.dictionary.check();
    for (const [term, number] of this.dictionary.entries()) {
      const used = this.#uses.of(number);
      invariant(used > 0 && used === uses.get(number), `"${term}" has ${used} uses, not ${uses.get(number)}`);
      uses.delete(number);
    }
    invariant(uses.size === 0, `${uses.size} terms with postings are not in the dictionary`);
  }
}

// ---- Which number was remembered for a word?
//
// A hash table with linear probing, for words that are slices of texts. A Map takes three times as long for them: it first computes the hash
// of a new string and stores it there, which does not pay for a string that is looked up once. With 6.5 million words of a dictionary, 0.7 s
// of processor time instead of 2.1.
//
// Words can be chosen to have one hash. So a word is searched in a few slots only, and one that finds none of them free is not remembered.

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
