// What does a text index receive from a thread that has analysed texts?
//
// Columns for a batch of records. An entry refers to its term by the position in `terms`, which has each term once. The index maps terms to
// its own numbers, once for each batch rather than for each record (analysed-reader.ts).
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
