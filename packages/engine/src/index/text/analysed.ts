// What does a text index receive from a thread that has analysed texts?
//
// Columns for a batch of records. An entry refers to its term by the position in `terms`, which has each term once. The index maps terms to
// its own numbers, once for each batch rather than for each record.
//
//   record r:  ordinals[r], lengths[r], entries begins[r] to begins[r + 1], forms formBegins[r] to formBegins[r + 1]
//   entry e:   terms[e], frequencies[e]; the next frequencies[e] of `places`

import { lenientText } from "../../base/bytes.ts";
import { Growable } from "../../base/growable.ts";
import type { Steps } from "../../base/steps.ts";
import type { Analyzer } from "../../text/analyzer.ts";
import { isRun, placesOfRun } from "../../text/grams.ts";
import { absent, hashBegin, hashed, hashFactor, type KnownWords } from "./known-words.ts";

export type AnalysedTexts = {
  /** Ascending. */
  readonly ordinals: Uint32Array;
  /** As reported by `Analyzer.read`. */
  readonly lengths: Uint32Array;
  readonly begins: Uint32Array;
  /** Of each entry: the place of its term. */
  readonly entries: Uint32Array;
  readonly frequencies: Uint32Array;
  /** Of each entry's occurrences: the places among the words of the text, ascending; empty where the index keeps none. */
  readonly places: Uint32Array;
  readonly formBegins: Uint32Array;
  /** Of each record's forms: their places in `forms`. */
  readonly formEntries: Uint32Array;
  /** Separated by line feeds, which no term contains; posting one string is faster than posting many. */
  readonly terms: string;
  readonly forms: string;
};

const slotsMin = 1_024;

/** Words of a long text that are analysed at a step. */
const wordsPerStep = 1_024;

const space = 0x20;
/** Characters of runs have at least three bytes in UTF-8, the first of which is this or greater. */
const runByteMin = 0xe1;

/**
 * Analyses texts, in steps.
 * @param texts by ascending ordinal: what makes their words, as `tokenize` does, in UTF-8 with a space between
 */
export function* analyseTexts(
  analyzer: Analyzer,
  words: KnownWords,
  texts: Iterable<readonly [ordinal: number, text: Steps<Uint8Array>]>,
  hasPositions: boolean,
): Steps<AnalysedTexts> {
  const counts = new TextCounts(words, hasPositions);
  for (const [ordinal, made] of texts) {
    const text = yield* made;
    counts.begin(ordinal);
    for (let begin = 0; begin < text.length; ) {
      if (begin > 0) yield;
      begin = takeWords(text, begin, analyzer, words, counts);
    }
    counts.end();
    yield;
  }
  return counts.all();
}

/** Counts some words of a text. @returns where the next one begins */
function takeWords(
  text: Uint8Array,
  from: number,
  analyzer: Analyzer,
  words: KnownWords,
  counts: TextCounts,
): number {
  let begin = from;
  for (let left = wordsPerStep; left > 0 && begin < text.length; left--) {
    let fnv = hashBegin;
    let end = begin;
    for (; end < text.length && text[end] !== space; end++) fnv = Math.imul(fnv ^ text[end], hashFactor);
    const hash = hashed(fnv);
    const word = words.find(text, begin, end, hash);
    if (word >= 0) counts.take(words.termOf(word), words.formOf(word));
    else if (text[begin] >= runByteMin && isRun(lenientText(text.subarray(begin, end))))
      counts.takeRun(lenientText(text.subarray(begin, end)), analyzer);
    else {
      const { term, form } = words.learn(text, begin, end, hash);
      counts.take(term, form);
    }
    begin = end + 1;
  }
  return begin;
}

/** The columns of a batch as they are filled. */
class TextCounts {
  /** Of the record: its length as reported by `Analyzer.read`, and the place of its next word. */
  #length = 0;
  #place = 0;
  readonly #words: KnownWords;
  readonly #hasPositions: boolean;
  readonly #terms = new BatchNames();
  readonly #forms = new BatchNames();
  readonly #ordinals = new Growable(Uint32Array);
  readonly #lengths = new Growable(Uint32Array);
  readonly #begins = new Growable(Uint32Array);
  readonly #entries = new Growable(Uint32Array);
  readonly #frequencies = new Growable(Uint32Array);
  readonly #places = new Growable(Uint32Array);
  readonly #formBegins = new Growable(Uint32Array);
  readonly #formEntries = new Growable(Uint32Array);
  /** By place of a term: 1 + its entry in the last record that had it; the same of a form. */
  readonly #entryOf = new Growable(Uint32Array);
  readonly #formEntryOf = new Growable(Uint32Array);
  /** Of the record's occurrences: their entries and places, where positions are stored. */
  readonly #occurring = new Growable(Uint32Array);
  readonly #occurringAt = new Growable(Uint32Array);

  constructor(words: KnownWords, hasPositions: boolean) {
    this.#words = words;
    this.#hasPositions = hasPositions;
    this.#begins.push(0);
    this.#formBegins.push(0);
  }

  begin(ordinal: number): void {
    this.#ordinals.push(ordinal);
    this.#length = 0;
    this.#place = 0;
  }

  /** A word of the record. @param term, form numbers of known-words.ts */
  take(term: number, form: number): void {
    if (term !== absent) {
      this.#length++;
      this.#takeTerm(term, this.#place);
    }
    this.#place++;
    if (form === absent) return;
    const formPlace = this.#forms.placeOf(form);
    if (this.#isOfRecord(this.#formEntryOf, formPlace, this.#formBegins)) return;
    this.#formEntries.push(formPlace);
    this.#formEntryOf.values[formPlace] = this.#formEntries.length;
  }

  takeRun(run: string, analyzer: Analyzer): void {
    this.#length += analyzer.read([run], (term, _form, at) =>
      this.#takeTerm(this.#words.termNumberOf(term), this.#place + at),
    );
    this.#place += placesOfRun(run);
  }

  #takeTerm(term: number, place: number): void {
    const termPlace = this.#terms.placeOf(term);
    if (!this.#isOfRecord(this.#entryOf, termPlace, this.#begins)) {
      this.#entries.push(termPlace);
      this.#frequencies.push(0);
      this.#entryOf.values[termPlace] = this.#entries.length;
    }
    const entry = this.#entryOf.values[termPlace] - 1;
    this.#frequencies.values[entry]++;
    if (!this.#hasPositions) return;
    this.#occurring.push(entry);
    this.#occurringAt.push(place);
  }

  /** Whether the record has an entry of a name. @param begins of the entries of records */
  #isOfRecord(entryOf: Growable<Uint32Array>, place: number, begins: Growable<Uint32Array>): boolean {
    if (place === entryOf.length) entryOf.push(0);
    return entryOf.values[place] > begins.values[begins.length - 1];
  }

  /** Ends the record. */
  end(): void {
    if (this.#hasPositions) this.#placeOccurrences();
    this.#lengths.push(this.#length);
    this.#begins.push(this.#entries.length);
    this.#formBegins.push(this.#formEntries.length);
  }

  /** Puts the places of the record's occurrences in the order of its entries. */
  #placeOccurrences(): void {
    const first = this.#begins.values[this.#begins.length - 1];
    const next = new Uint32Array(this.#entries.length - first + 1);
    next[0] = this.#places.length;
    for (let i = 1; i < next.length; i++) next[i] = next[i - 1] + this.#frequencies.values[first + i - 1];
    const count = this.#occurring.length;
    this.#places.reserve(count);
    for (let i = 0; i < count; i++)
      this.#places.values[next[this.#occurring.values[i] - first]++] = this.#occurringAt.values[i];
    this.#places.length += count;
    this.#occurring.truncate(0);
    this.#occurringAt.truncate(0);
  }

  all(): AnalysedTexts {
    const columnOf = ({ values, length }: Growable<Uint32Array>) => values.slice(0, length);
    return {
      ordinals: columnOf(this.#ordinals),
      lengths: columnOf(this.#lengths),
      begins: columnOf(this.#begins),
      entries: columnOf(this.#entries),
      frequencies: columnOf(this.#frequencies),
      places: columnOf(this.#places),
      formBegins: columnOf(this.#formBegins),
      formEntries: columnOf(this.#formEntries),
      terms: this.#terms.joined(this.#words.terms),
      forms: this.#forms.joined(this.#words.forms),
    };
  }
}

/**
 * The names of a batch, in the order in which they are first met. A hash table with linear probing: by number of all names, a column would be
 * far longer than a cache, and new memory for each batch.
 */
class BatchNames {
  /** Pairs, at most half of which are taken: 1 + the number of a name, and its place. */
  #slots = new Uint32Array(2 * slotsMin);
  readonly #numbers = new Growable(Uint32Array);

  placeOf(number: number): number {
    const slot = this.#slotOf(number);
    if (this.#slots[slot] !== 0) return this.#slots[slot + 1];
    const place = this.#numbers.length;
    this.#slots[slot] = number + 1;
    this.#slots[slot + 1] = place;
    this.#numbers.push(number);
    if (4 * this.#numbers.length > this.#slots.length) this.#grow();
    return place;
  }

  /** Where a number is, or would go. */
  #slotOf(number: number): number {
    const mask = this.#slots.length - 2;
    let slot = (2 * (Math.imul(number, 0x9e3779b1) >>> 9)) & mask;
    while (this.#slots[slot] !== 0 && this.#slots[slot] !== number + 1) slot = (slot + 2) & mask;
    return slot;
  }

  #grow(): void {
    const before = this.#slots;
    this.#slots = new Uint32Array(2 * before.length);
    for (let at = 0; at < before.length; at += 2)
      if (before[at] !== 0) {
        const slot = this.#slotOf(before[at] - 1);
        this.#slots[slot] = before[at];
        this.#slots[slot + 1] = before[at + 1];
      }
  }

  joined(names: readonly string[]): string {
    const { values, length } = this.#numbers;
    let joined = length === 0 ? "" : names[values[0]];
    for (let place = 1; place < length; place++) joined += `\n${names[values[place]]}`;
    return joined;
  }
}

/** The memory of the columns, for a transfer to another thread. */
export function buffersOf(texts: AnalysedTexts): ArrayBuffer[] {
  return Object.values(texts).flatMap((column) =>
    typeof column === "string" ? [] : [column.buffer as ArrayBuffer],
  );
}

// ---- Which numbers has an index for the terms and forms of analysed texts?

/** No number yet. */
const unknown = 0xffff_ffff;

/** The numbers that an index has for the names of a batch. */
class Numbers {
  readonly #joined: string;
  #names: string[] = [];
  #numbers = new Uint32Array(0);
  /** Places of the record before this one have a number. */
  #learnt = 0;

  constructor(joined: string) {
    this.#joined = joined;
  }

  /** Call it before anything else. Batches wait for their turn as one string each, which is less work for the collector of garbage. */
  forget(): void {
    if (this.#names.length === 0 && this.#joined !== "") this.#names = this.#joined.split("\n");
    this.#learnt = 0;
    this.#numbers = new Uint32Array(this.#names.length).fill(unknown);
  }

  /** Looks up this many of the unknown numbers. @returns whether all are known */
  learn(places: Uint32Array, numberOf: (name: string) => number, most: number): boolean {
    let asked = 0;
    for (; this.#learnt < places.length; this.#learnt++) {
      const place = places[this.#learnt];
      if (this.#numbers[place] !== unknown) continue;
      if (asked++ === most) return false;
      this.#numbers[place] = numberOf(this.#names[place]);
    }
    return true;
  }

  /** Advances to the next record. */
  begin(): void {
    this.#learnt = 0;
  }

  of(places: Uint32Array, numberOf: (name: string) => number): number[] {
    const numbers: number[] = [];
    for (const place of places) {
      if (this.#numbers[place] === unknown) this.#numbers[place] = numberOf(this.#names[place]);
      numbers.push(this.#numbers[place]);
    }
    return numbers;
  }
}

/** Reads analysed texts one by one, with an index's numbers of terms and forms. */
export class AnalysedReader {
  readonly texts: AnalysedTexts;
  readonly #terms: Numbers;
  readonly #forms: Numbers;
  #epoch = -1;
  #record = 0;
  #place = 0;

  constructor(texts: AnalysedTexts) {
    this.texts = texts;
    this.#terms = new Numbers(texts.terms);
    this.#forms = new Numbers(texts.forms);
  }

  get isAtEnd(): boolean {
    return this.#record === this.texts.ordinals.length;
  }

  /** Of the record before, in terms. */
  get previousLength(): number {
    return this.#record === 0 ? 0 : this.texts.lengths[this.#record - 1];
  }

  /** Of the next record. */
  get ordinal(): number {
    return this.texts.ordinals[this.#record];
  }

  get length(): number {
    return this.texts.lengths[this.#record];
  }

  get frequencies(): Uint32Array {
    const { begins, frequencies } = this.texts;
    return frequencies.subarray(begins[this.#record], begins[this.#record + 1]);
  }

  /** The positions of its entries, entry by entry; empty if none are stored. */
  get places(): Uint32Array {
    return this.texts.places.subarray(this.#place, this.#place + this.#occurrences);
  }

  /**
   * The numbers of its terms.
   * @param epoch another one than before: numbers that were given then may mean other terms and forms now
   */
  numbers(epoch: number, numberOf: (term: string) => number): number[] {
    this.#begin(epoch);
    return this.#terms.of(this.#entries, numberOf);
  }

  /**
   * Looks up this many of its unknown numbers, so that those of a long text need not be looked up in one step.
   * @returns whether all are known
   */
  learn(
    epoch: number,
    numberOf: (term: string) => number,
    formNumberOf: (form: string) => number,
    most: number,
  ): boolean {
    this.#begin(epoch);
    return (
      this.#terms.learn(this.#entries, numberOf, most) &&
      this.#forms.learn(this.#formEntries, formNumberOf, most)
    );
  }

  get #entries(): Uint32Array {
    const { begins, entries } = this.texts;
    return entries.subarray(begins[this.#record], begins[this.#record + 1]);
  }

  get #formEntries(): Uint32Array {
    const { formBegins, formEntries } = this.texts;
    return formEntries.subarray(formBegins[this.#record], formBegins[this.#record + 1]);
  }

  /** The numbers of its forms. @param epoch as for `numbers` */
  formNumbers(epoch: number, numberOf: (form: string) => number): number[] {
    this.#begin(epoch);
    return this.#forms.of(this.#formEntries, numberOf);
  }

  next(): void {
    if (this.texts.places.length > 0) this.#place += this.#occurrences;
    this.#record++;
    this.#terms.begin();
    this.#forms.begin();
  }

  get #occurrences(): number {
    return this.frequencies.reduce((sum, frequency) => sum + frequency, 0);
  }

  #begin(epoch: number): void {
    if (epoch === this.#epoch) return;
    this.#terms.forget();
    this.#forms.forget();
    this.#epoch = epoch;
  }
}
