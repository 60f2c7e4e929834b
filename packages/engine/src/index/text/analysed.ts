// What does a text index receive from a thread that has analysed texts?
//
// Columns for a batch of records. An entry refers to its term by the position in `terms`, which has each term once. The index maps terms to
// its own numbers, once for each batch rather than for each record.
//
//   record r:  ordinals[r], lengths[r], entries begins[r] to begins[r + 1], forms formBegins[r] to formBegins[r + 1]
//   entry e:   terms[e], frequencies[e]; the next frequencies[e] of `places`

import type { Steps } from "../../base/steps.ts";
import type { Analyzer } from "../../text/analyzer.ts";
import { isRun, placesOfRun } from "../../text/grams.ts";

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

/** Words of a long text that are analysed at a step. */
const wordsPerStep = 1_024;

/**
 * Analyses texts, in steps.
 * @param texts by ascending ordinal: what makes the words, as `tokenize` does
 */
export function* analyseTexts(
  analyzer: Analyzer,
  texts: Iterable<readonly [ordinal: number, words: Steps<readonly string[]>]>,
  hasPositions: boolean,
): Steps<AnalysedTexts> {
  const terms = new Names();
  const forms = new Names();
  const ordinals: number[] = [];
  const lengths: number[] = [];
  const begins = [0];
  const entries: number[] = [];
  const frequencies: number[] = [];
  const places: number[] = [];
  const formBegins = [0];
  const formEntries: number[] = [];
  /** By place of a form: the record that has it last. */
  const lastOf: number[] = [];
  const known = new Map<string, KnownWord>();
  const learn = (word: string): KnownWord => {
    const { term, form } = analyzer.of(word);
    const learnt = {
      term: term === "" ? absent : terms.placeOf(term),
      form: form === "" ? absent : forms.placeOf(form),
    };
    known.set(word, learnt);
    return learnt;
  };
  for (const [ordinal, text] of texts) {
    const words = yield* text;
    const placesOf = new Map<number, number[]>();
    const take = (term: number, place: number): void => {
      const others = placesOf.get(term);
      if (others === undefined) placesOf.set(term, [place]);
      else others.push(place);
    };
    let place = 0;
    let length = 0;
    for (const [i, word] of words.entries()) {
      if (i % wordsPerStep === wordsPerStep - 1) yield;
      if (isRun(word)) {
        const first = place;
        length += analyzer.read([word], (term, _form, at) => take(terms.placeOf(term), first + at));
        place += placesOfRun(word);
        continue;
      }
      const { term, form } = known.get(word) ?? learn(word);
      if (term !== absent) {
        take(term, place);
        length++;
      }
      place++;
      if (form === absent || lastOf[form] === ordinal) continue;
      lastOf[form] = ordinal;
      formEntries.push(form);
    }
    for (const [number, positions] of placesOf) {
      entries.push(number);
      frequencies.push(positions.length);
      if (hasPositions) for (const position of positions) places.push(position);
    }
    ordinals.push(ordinal);
    lengths.push(length);
    begins.push(entries.length);
    formBegins.push(formEntries.length);
    yield;
  }
  return {
    ordinals: Uint32Array.from(ordinals),
    lengths: Uint32Array.from(lengths),
    begins: Uint32Array.from(begins),
    entries: Uint32Array.from(entries),
    frequencies: Uint32Array.from(frequencies),
    places: Uint32Array.from(places),
    formBegins: Uint32Array.from(formBegins),
    formEntries: Uint32Array.from(formEntries),
    terms: terms.joined,
    forms: forms.joined,
  };
}

/** The places of a word's term and form among those of the batch. */
type KnownWord = { readonly term: number; readonly form: number };

const absent = -1;

/** Names in the order in which they are first met. */
class Names {
  readonly #places = new Map<string, number>();

  placeOf(name: string): number {
    const known = this.#places.get(name);
    if (known !== undefined) return known;
    this.#places.set(name, this.#places.size);
    return this.#places.size - 1;
  }

  get joined(): string {
    return [...this.#places.keys()].join("\n");
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
