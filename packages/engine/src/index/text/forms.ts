// Which words of the texts differ from their term?
//
// A prefix or fuzzy word is about words as they are written, and terms are stems: of "navigation" the index has "navig". So
// where a language has a stemmer, the *forms* of words (analyzer.ts) that differ from their term are stored beside the terms:
//
//   dictionary   form -> number
//   counts       by number: how many records have a word of the form
//   rows         of each record: the numbers of its forms, as numbers of a row (term-rows.ts)
//
// The index does not store a form's term: the analyzer computes it. The rows keep the counts right when records are removed, and make
// them right for the searched version: a search subtracts the rows of records that it does not see. When many forms have no record
// any more, they are looked for in steps, and their numbers are reused.

import { invariant } from "../../base/invariant.ts";
import type { Steps } from "../../base/steps.ts";
import { Counters } from "./counters.ts";
import { Dictionary, type DictionaryState, numbersPerStep } from "./dictionary.ts";
import { FormsReader, numbersOf, type SharedForms } from "./forms-reader.ts";
import { FrozenTermRows, imagesFor, type TermRowsState } from "./frozen-term-rows.ts";
import { TermRows } from "./term-rows.ts";

/** What a checkpoint stores, besides the columns and bytes. */
export type FormsState = { readonly dictionary: DictionaryState; readonly rows: TermRowsState };

/** Forms without records are dropped when there are this many, and a quarter of all. */
const unusedMax = 1_024;

/** Forms that are looked at for each record that is removed, while those without records are dropped. */
const sweptPerRemoval = 1_024;

export class Forms extends FormsReader {
  declare protected dictionary: Dictionary;
  declare protected readonly counts: Counters;
  declare readonly rows: TermRows;
  /** By number: 1 + the ordinal added last that has it. */
  readonly #lastAdded = new Counters();
  #free: number[] = [];
  /** The forms of the record that is added. */
  #added = new Uint32Array(256);
  /** Forms in the dictionary that no record has. */
  #unused = 0;
  /** While those without records are dropped: the next number. */
  #swept: number | undefined;

  constructor(dictionary = new Dictionary(), rows = new TermRows()) {
    super(dictionary, new Counters(), rows);
  }

  /** What another thread needs to read the forms as they are now. */
  get shared(): SharedForms {
    return { dictionary: this.dictionary.shared, counts: this.counts.shared, rows: this.rows.shared };
  }

  /** The number of a form, which it has until `remove` says otherwise. */
  numberOf(form: string): number {
    const known = this.dictionary.get(form);
    if (known !== undefined) return known;
    const number = this.#free.pop() ?? this.counts.length;
    if (number === this.counts.length) this.#grow();
    this.dictionary.add(form, number);
    this.#unused++;
    return number;
  }

  /** Adds the forms of a record, of a greater ordinal than all before. @param numbers some of them perhaps several times */
  add(ordinal: number, numbers: ArrayLike<number>): void {
    if (numbers.length === 0) return;
    if (this.#added.length < numbers.length) this.#added = new Uint32Array(2 * numbers.length);
    const added = this.#added;
    let count = 0;
    for (let i = 0; i < numbers.length; i++) {
      const number = numbers[i];
      if (this.#lastAdded.of(number) === ordinal + 1) continue;
      this.#lastAdded.set(number, ordinal + 1);
      if (this.counts.increase(number) === 0) this.#unused--;
      added[count++] = number;
    }
    invariant(this.#unused >= 0, () => `${this.#unused} forms have no record`);
    this.rows.begin(ordinal);
    this.rows.writeAll(added, count);
  }

  /** Takes a record's forms out. @returns whether numbers that were returned before may now belong to other forms */
  remove(ordinal: number): boolean {
    const row = this.rows.of(ordinal);
    if (row === undefined) return false;
    this.removals++;
    for (const number of numbersOf(row)) if (this.counts.decrease(number) === 0) this.#unused++;
    this.rows.delete(ordinal);
    if (this.#unused >= unusedMax && 4 * this.#unused >= this.dictionary.size) this.#swept ??= 0;
    return this.#sweep(sweptPerRemoval);
  }

  /** Drops forms without records among the next ones. @returns whether there were any */
  #sweep(count: number): boolean {
    if (this.#swept === undefined) return false;
    const { length } = this.#free;
    const end = Math.min(this.counts.length, this.#swept + count);
    for (let number = this.#swept; number < end; number++) {
      if (this.counts.of(number) > 0 || !this.dictionary.isUsed(number)) continue;
      this.dictionary.remove(number);
      this.#free.push(number);
      this.#unused--;
    }
    this.#swept = end < this.counts.length ? end : undefined;
    invariant(
      this.#unused >= 0 && this.dictionary.size + this.#free.length === this.counts.length,
      () => `${this.dictionary.size} forms and ${this.#free.length} free numbers, of ${this.counts.length}`,
    );
    return this.#free.length > length;
  }

  get memoryBytes(): number {
    return this.#columnBytes + this.rows.memoryBytes;
  }

  /** The value if all rows were frozen. */
  get restoredBytes(): number {
    return this.#columnBytes + this.rows.restoredBytes;
  }

  get #columnBytes(): number {
    return this.dictionary.memoryBytes + this.counts.memoryBytes + this.#lastAdded.memoryBytes;
  }

  /** What a checkpoint stores of the records with ordinals below `end`, all of which are frozen. */
  save(end: number): { state: FormsState; images: Uint8Array[]; done(): void } {
    const dictionary = this.dictionary.save();
    const rows = this.rows.save(end);
    return {
      state: { dictionary: dictionary.state, rows: rows.state },
      images: [...dictionary.images, ...rows.images],
      done: dictionary.done,
    };
  }

  /** Allocates the columns and bytes of forms of a checkpoint. */
  static imagesFor({ dictionary, rows }: FormsState): Uint8Array[] {
    return [...Dictionary.imagesFor(dictionary), ...imagesFor(rows)];
  }

  /** Restores forms from a checkpoint. @param images from `imagesFor`, filled from a checkpoint; the new object owns them */
  static *restored({ dictionary, rows }: FormsState, images: readonly Uint8Array[]): Steps<Forms> {
    const columns = images.length - rows.segments.length;
    invariant(columns >= 0, `${images.length} images are of ${rows.segments.length} segments of rows`);
    const forms = new Forms(
      Dictionary.restored(dictionary, images.slice(0, columns)),
      new TermRows(FrozenTermRows.restored(rows, images.slice(columns))),
    );
    for (let number = 0; number < dictionary.numbersEnd; number++) {
      forms.#grow();
      if (number % numbersPerStep === numbersPerStep - 1) yield;
    }
    let read = 0;
    for (const row of forms.rows.all())
      for (const number of numbersOf(row)) {
        forms.counts.increase(number);
        if (++read % numbersPerStep === 0) yield;
      }
    forms.#free = yield* forms.dictionary.freeNumbers();
    forms.#unused = dictionary.size;
    for (let number = 0; number < dictionary.numbersEnd; number++) {
      if (forms.counts.of(number) > 0) forms.#unused--;
      if (number % numbersPerStep === numbersPerStep - 1) yield;
    }
    for (forms.#swept = 0; forms.#swept !== undefined; yield) forms.#sweep(numbersPerStep);
    return forms;
  }

  close(): void {
    this.dictionary = new Dictionary();
    this.rows.close();
    this.counts.clear();
    this.#lastAdded.clear();
    this.#free = [];
    this.#unused = 0;
    this.#swept = undefined;
  }

  /** Proves that counts are those of the rows. */
  check(): void {
    this.dictionary.check();
    const counts = new Map<number, number>();
    let records = 0;
    for (const row of this.rows.all()) {
      records++;
      const numbers = [...numbersOf(row)];
      invariant(new Set(numbers).size === numbers.length, "a record has a form twice");
      for (const number of numbers) counts.set(number, (counts.get(number) ?? 0) + 1);
    }
    this.rows.check(records);
    let unused = 0;
    for (const [form, number] of this.dictionary.entries()) {
      const count = counts.get(number) ?? 0;
      if (count === 0) unused++;
      invariant(
        this.counts.of(number) === count,
        `"${form}" is a form of ${count} records, not ${this.counts.of(number)}`,
      );
      counts.delete(number);
    }
    invariant(counts.size === 0, `${counts.size} forms of records are not in the dictionary`);
    invariant(unused === this.#unused, `${unused} forms have no record, not ${this.#unused}`);
  }

  #grow(): void {
    this.counts.push();
    this.#lastAdded.push();
  }
}
