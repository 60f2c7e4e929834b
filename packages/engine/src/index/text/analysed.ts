// What does a text index take of texts that another thread has analysed?
//
// Columns, of many records at a time. Terms are told by their place in `terms`, where each stands once: the numbers that the
// index has for them are its own affair, and it is asked for each of them once a batch rather than once a record.
//
//   record r:  ordinals[r], lengths[r], entries begins[r] to begins[r + 1]
//   entry e:   terms[e], frequencies[e]; the next frequencies[e] of `places`

import type { Analyzer } from "../../text/analyzer.ts";

export type AnalysedTexts = {
  /** Ascending. */
  readonly ordinals: Uint32Array;
  /** In terms. */
  readonly lengths: Uint32Array;
  readonly begins: Uint32Array;
  /** Of each entry: the place of its term. */
  readonly entries: Uint32Array;
  readonly frequencies: Uint32Array;
  /** Of each entry's occurrences: the places among the words of the text, ascending; empty where the index keeps none. */
  readonly places: Uint32Array;
  /** Separated by line feeds, which no term has; a string is posted faster than many. */
  readonly terms: string;
};

/** Analyses texts. @param texts by ascending ordinal: the words, as `segment` makes them */
export function analyseTexts(
  analyzer: Analyzer,
  texts: Iterable<readonly [ordinal: number, words: readonly string[]]>,
  hasPositions: boolean,
): AnalysedTexts {
  const known = new Map<string, number>();
  const ordinals: number[] = [];
  const lengths: number[] = [];
  const begins = [0];
  const entries: number[] = [];
  const frequencies: number[] = [];
  const places: number[] = [];
  for (const [ordinal, words] of texts) {
    const placesOf = new Map<number, number[]>();
    let length = 0;
    const take = (term: string, position: number): void => {
      const number = known.get(term) ?? known.size;
      if (number === known.size) known.set(term, number);
      const others = placesOf.get(number);
      if (others === undefined) placesOf.set(number, [position]);
      else others.push(position);
      length++;
    };
    if (hasPositions) {
      for (const { term, position } of analyzer.analyze(words)) if (term !== null) take(term, position);
    } else for (const term of analyzer.terms(words)) take(term, 0);
    for (const [number, positions] of placesOf) {
      entries.push(number);
      frequencies.push(positions.length);
      if (hasPositions) for (const position of positions) places.push(position);
    }
    ordinals.push(ordinal);
    lengths.push(length);
    begins.push(entries.length);
  }
  return {
    ordinals: Uint32Array.from(ordinals),
    lengths: Uint32Array.from(lengths),
    begins: Uint32Array.from(begins),
    entries: Uint32Array.from(entries),
    frequencies: Uint32Array.from(frequencies),
    places: Uint32Array.from(places),
    terms: [...known.keys()].join("\n"),
  };
}

/** The columns' memory, to be handed over to another thread. */
export function buffersOf(texts: AnalysedTexts): ArrayBuffer[] {
  const { ordinals, lengths, begins, entries, frequencies, places } = texts;
  return [ordinals, lengths, begins, entries, frequencies, places].map(({ buffer }) => buffer as ArrayBuffer);
}

/** No number yet. */
const unknown = 0xffff_ffff;

/** Reads analysed texts one by one, with an index's numbers of terms. */
export class AnalysedReader {
  readonly texts: AnalysedTexts;
  readonly #terms: string[];
  readonly #numbers: Uint32Array;
  #epoch = -1;
  #record = 0;
  #place = 0;

  constructor(texts: AnalysedTexts) {
    this.texts = texts;
    this.#terms = texts.terms === "" ? [] : texts.terms.split("\n");
    this.#numbers = new Uint32Array(this.#terms.length);
  }

  get isAtEnd(): boolean {
    return this.#record === this.texts.ordinals.length;
  }

  /** Of the record that comes next. */
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

  /** The positions of its entries, one entry's behind another's; empty where none are kept. */
  get places(): Uint32Array {
    return this.texts.places.subarray(this.#place, this.#place + this.length);
  }

  /**
   * The numbers of its terms.
   * @param epoch another one than before: numbers that were given then may mean other terms now
   */
  numbers(epoch: number, numberOf: (term: string) => number): number[] {
    if (epoch !== this.#epoch) {
      this.#numbers.fill(unknown);
      this.#epoch = epoch;
    }
    const { begins, entries } = this.texts;
    const numbers: number[] = [];
    for (let entry = begins[this.#record]; entry < begins[this.#record + 1]; entry++) {
      const term = entries[entry];
      if (this.#numbers[term] === unknown) this.#numbers[term] = numberOf(this.#terms[term]);
      numbers.push(this.#numbers[term]);
    }
    return numbers;
  }

  next(): void {
    if (this.texts.places.length > 0) this.#place += this.length;
    this.#record++;
  }
}
