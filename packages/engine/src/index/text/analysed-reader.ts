// Which numbers has an index for the terms and forms of analysed texts?

import type { AnalysedTexts } from "./analysed.ts";

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
