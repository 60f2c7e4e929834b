// Which forms of words have records that a version sees?
//
// Other threads are given the counts, the rows and the dictionary as they are at a moment (`attach`). Rows of records that are
// removed later are still there for them, as the records that are hidden from a version are subtracted from the counts of that moment.

import { finishAtOnce, type Steps } from "../../base/steps.ts";
import { CountsReader, type SharedCounts } from "./counters.ts";
import { type DictionaryColumns, DictionaryReader } from "./dictionary-reader.ts";
import { type Row, RowReader, type Rows, TermRowsReader } from "./term-rows-reader.ts";
import type { UnitsTest } from "./word-test.ts";

/** Numbers of rows that are read at a step. */
const numbersPerStep = 16 * 1024;
/** Counting in steps restarts this often when records were removed in between; after that it counts in one step. */
const attemptsMax = 3;

/** Forms as they are at a moment. Can be posted to another thread. */
export type SharedForms = {
  readonly dictionary: DictionaryColumns;
  readonly counts: SharedCounts;
  readonly rows: Rows;
};

/** Forms, for reading. */
export class FormsReader {
  protected dictionary: DictionaryReader;
  /** By number: how many of the records held have a word of the form. */
  protected readonly counts: CountsReader;
  readonly rows: TermRowsReader;
  /** Records that were taken out. */
  protected removals = 0;

  constructor(dictionary: DictionaryReader, counts: CountsReader, rows: TermRowsReader) {
    this.dictionary = dictionary;
    this.counts = counts;
    this.rows = rows;
  }

  /** The forms of another thread: of the records that it held at a moment. */
  static attach({ dictionary, counts, rows }: SharedForms): FormsReader {
    return new FormsReader(
      new DictionaryReader(dictionary),
      new CountsReader(counts),
      new TermRowsReader(rows),
    );
  }

  /**
   * The forms that pass a test and that a record has, in no particular order; in steps, between which records may be added and removed.
   * Records that are added meanwhile do not count.
   * @param passes called with code units: those of a form are from `begin` to `end`, exclusive
   * @param hidden the ordinals of records that do not count; called again after records were removed
   */
  *formsThat(passes: UnitsTest, hidden: () => Iterable<number>): Steps<string[]> {
    const passed = yield* this.dictionary.termsThat(passes);
    for (let attempt = 0; attempt < attemptsMax; attempt++) {
      const counted = yield* this.#thoseOfRecords(passed, hidden());
      if (counted !== null) return counted;
    }
    return finishAtOnce(this.#thoseOfRecords(passed, hidden())) as string[];
  }

  /**
   * The forms that pass a test and that one of some records has, in steps.
   * @param ordinals of records that are held until the end
   */
  *formsAmong(passes: UnitsTest, ordinals: Iterable<number>): Steps<string[]> {
    const passed = yield* this.dictionary.termsThat(passes);
    const numbers = passed.map((form) => this.dictionary.get(form));
    const wanted = new Set(numbers);
    const found = new Set<number>();
    let read = 0;
    for (const ordinal of ordinals) {
      const row = this.rows.of(ordinal);
      if (row === undefined) continue;
      for (const number of numbersOf(row)) {
        if (wanted.has(number)) found.add(number);
        read++;
      }
      if (found.size === wanted.size) break;
      if (read < numbersPerStep) continue;
      read = 0;
      yield;
    }
    return passed.filter((_, i) => found.has(numbers[i] as number));
  }

  /** The forms that a record has that is not hidden. @returns null where records have gone meanwhile */
  *#thoseOfRecords(forms: readonly string[], hidden: Iterable<number>): Steps<string[] | null> {
    const { removals } = this;
    // All at once, so that what is added later is neither counted nor subtracted.
    const counts = new Map<number, number>();
    const numbers = forms.map((form) => this.dictionary.get(form));
    for (const number of numbers) if (number !== undefined) counts.set(number, this.counts.of(number));
    const ordinals = counts.size === 0 ? [] : [...hidden];
    let read = 0;
    for (const ordinal of ordinals) {
      const row = this.rows.of(ordinal);
      if (row === undefined) continue;
      for (const number of numbersOf(row)) {
        const count = counts.get(number);
        if (count !== undefined) counts.set(number, count - 1);
        read++;
      }
      if (read < numbersPerStep) continue;
      read = 0;
      yield;
      if (this.removals !== removals) return null;
    }
    return forms.filter((_, i) => {
      const number = numbers[i];
      return number !== undefined && (counts.get(number) as number) > 0;
    });
  }
}

/** The numbers of the forms of a record. */
export function* numbersOf(row: Row): Generator<number> {
  const reader = new RowReader(row);
  while (!reader.isAtEnd) yield reader.read();
}
