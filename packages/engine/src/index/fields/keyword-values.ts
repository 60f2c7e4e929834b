// Which records have a string?
//
// A dictionary numbers the strings; each has the chain of its records, newest first, through two columns:
//
//   by string   | newest entry + 1 | entries |        by entry   | ordinal | entry before + 1 |
//
// So a new record appends to two columns and nothing moves. A string that many records have (one in `frequentShare`) has a bitmap, too,
// so no chain that is walked is longer than that share of the records.
//
// The dictionary knows no empty strings, so each string has a mark before it.

import { compareText } from "../../base/bytes.ts";
import { Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import { sharedArray } from "../../base/shared-memory.ts";
import { type Steps, sortInSteps } from "../../base/steps.ts";
import type { ValuePart } from "../field-index.ts";
import type { BitmapBuilder } from "../ordinal-bitmap.ts";
import { Dictionary, type DictionaryState } from "../text/dictionary.ts";
import { GrowingBitmap, pairsOf } from "./value-sets.ts";

const mark = "=";
const frequentShare = 64;
/** Strings with fewer records have no bitmap. */
const frequentMin = 256;

/** Strings that are tested, and records that are added, at a step. */
const stringsPerStep = 1_024;
const recordsPerStep = 16_384;

/** Pairs that are copied at a step. */
const pairsPerStep = 4_096;

/** What a checkpoint stores, besides the columns. */
export type KeywordState = { readonly dictionary: DictionaryState; readonly entries: number };

export class KeywordValues {
  #dictionary = new Dictionary();
  #newest = new Growable<Uint32Array>(Uint32Array, 16, true);
  #counts = new Growable<Uint32Array>(Uint32Array, 16, true);
  #ordinals = new Growable<Uint32Array>(Uint32Array, 16, true);
  #before = new Growable<Uint32Array>(Uint32Array, 16, true);
  readonly #frequent = new Map<number, GrowingBitmap>();
  /** Records that were added. */
  #records = 0;
  /** The first numbers, as many as were sorted the last time, in the order of their strings. */
  #sorted = new Uint32Array(0);

  /** Entries of all strings. */
  get pairs(): number {
    return this.#ordinals.length;
  }

  /** Adds a record with its strings. Ordinals ascend. */
  add(ordinal: number, strings: readonly string[]): void {
    this.#records++;
    for (const string of strings) this.#addEntry(ordinal, this.#numberOf(string));
  }

  #numberOf(string: string): number {
    const term = mark + string;
    const known = this.#dictionary.get(term);
    if (known !== undefined) return known;
    const number = this.#newest.length;
    invariant(
      number === this.#counts.length && number === this.#dictionary.size,
      () => `${this.#dictionary.size} strings have ${number} chains with ${this.#counts.length} counts`,
    );
    this.#dictionary.add(term, number);
    this.#newest.push(0);
    this.#counts.push(0);
    return number;
  }

  #addEntry(ordinal: number, number: number): void {
    const newest = this.#newest.values[number];
    // A string that a record has twice.
    if (newest > 0 && this.#ordinals.values[newest - 1] === ordinal) return;
    invariant(
      newest === 0 || this.#ordinals.values[newest - 1] < ordinal,
      () => `ordinal ${ordinal} is added behind ${this.#ordinals.values[newest - 1]}`,
    );
    this.#before.push(newest);
    this.#ordinals.push(ordinal);
    this.#newest.values[number] = this.#ordinals.length;
    const count = ++this.#counts.values[number];
    const bitmap = this.#frequent.get(number);
    if (bitmap !== undefined) bitmap.add(ordinal);
    else if (count >= Math.max(frequentMin, this.#records / frequentShare)) this.#makeFrequent(number);
  }

  #makeFrequent(number: number): void {
    const bitmap = new GrowingBitmap();
    const ordinals = [...this.#chain(number)];
    for (let i = ordinals.length - 1; i >= 0; i--) bitmap.add(ordinals[i]);
    invariant(
      bitmap.count === this.#counts.values[number],
      () => `a string of ${this.#counts.values[number]} records has ${bitmap.count} in its chain`,
    );
    this.#frequent.set(number, bitmap);
  }

  /** The records of a string, newest first. */
  *#chain(number: number): Generator<number> {
    const ordinals = this.#ordinals.values;
    const before = this.#before.values;
    for (let entry = this.#newest.values[number]; entry > 0; entry = before[entry - 1])
      yield ordinals[entry - 1];
  }

  /** Adds the records of a string. @returns how many */
  #addRecords(into: BitmapBuilder, number: number): number {
    const bitmap = this.#frequent.get(number);
    if (bitmap !== undefined) {
      into.addWords(bitmap.words, bitmap.firstWord);
      return 0;
    }
    const ordinals = this.#ordinals.values;
    const before = this.#before.values;
    for (let entry = this.#newest.values[number]; entry > 0; entry = before[entry - 1])
      into.add(ordinals[entry - 1]);
    return this.#counts.values[number];
  }

  /** Adds the records with one of some strings, in steps. */
  *addEqual(into: BitmapBuilder, strings: Iterable<string>): Steps<void> {
    let work = 0;
    for (const string of strings) {
      const number = this.#dictionary.get(mark + string);
      work += 1 + (number === undefined ? 0 : this.#addRecords(into, number));
      if (work < recordsPerStep) continue;
      work = 0;
      yield;
    }
  }

  /** Adds the records with a string that passes a test, in steps. Every string is tested. */
  *addThat(into: BitmapBuilder, passes: (string: string) => boolean): Steps<void> {
    let work = 0;
    for (let number = 0; number < this.#newest.length; number++) {
      if (passes(this.stringOf(number))) work += this.#addRecords(into, number);
      work += recordsPerStep / stringsPerStep;
      if (work < recordsPerStep) continue;
      work = 0;
      yield;
    }
  }

  /** The string of a number below `size`. */
  stringOf(number: number): string {
    return this.#dictionary.termOf(number).slice(mark.length);
  }

  /** Different strings. */
  get size(): number {
    return this.#newest.length;
  }

  /** The pairs of the string of a number. */
  part(number: number): ValuePart<string> {
    const string = this.stringOf(number);
    return {
      least: string,
      greatest: string,
      [Symbol.iterator]: () => pairsOf(string, this.#chain(number)),
    };
  }

  /** All pairs, in a part for each string, in no order. */
  *parts(): Generator<ValuePart<string>> {
    for (let number = 0; number < this.#newest.length; number++) yield this.part(number);
  }

  *entries(): Generator<readonly [value: string, ordinal: number]> {
    for (const each of this.parts()) yield* each;
  }

  /** The numbers of all strings in the order of the strings, in steps. Those that were sorted before are not sorted again. */
  *sorted(): Steps<Uint32Array> {
    const before = this.#sorted;
    const { size } = this;
    if (before.length === size) return before;
    const added: { readonly number: number; readonly string: string }[] = [];
    for (let number = before.length; number < size; number++)
      if (added.push({ number, string: this.stringOf(number) }) % stringsPerStep === 0) yield;
    const sorted = new Uint32Array(size);
    let [from, to, placed] = [0, 0, 0];
    for (const { number, string } of yield* sortInSteps(added, (a, b) => compareText(a.string, b.string))) {
      const at = this.placeIn(before, string, from);
      sorted.set(before.subarray(from, at), to);
      to += at - from;
      from = at;
      sorted[to++] = number;
      if (++placed % stringsPerStep === 0) yield;
    }
    sorted.set(before.subarray(from), to);
    to += before.length - from;
    invariant(to === size, () => `${to} of ${size} strings were sorted`);
    this.#sorted = sorted;
    return sorted;
  }

  /** The place of the first string that is not less than another one. @param sorted numbers in the order of their strings */
  placeIn(sorted: Uint32Array, string: string, from = 0): number {
    let end = sorted.length;
    while (from < end) {
      const middle = (from + end) >>> 1;
      if (compareText(this.stringOf(sorted[middle]), string) < 0) from = middle + 1;
      else end = middle;
    }
    return from;
  }

  get #columns(): Growable<Uint32Array>[] {
    return [this.#newest, this.#counts, this.#ordinals, this.#before];
  }

  /** The same strings of the records that are kept, in steps. */
  *without(keeps: (ordinal: number) => boolean): Steps<KeywordValues> {
    const made = new KeywordValues();
    made.#records = this.#records;
    let work = 0;
    for (let number = 0; number < this.size; number++) {
      const kept = [...this.#chain(number)].filter(keeps).reverse();
      if (kept.length > 0) {
        const own = made.#numberOf(this.stringOf(number));
        for (const ordinal of kept) made.#addEntry(ordinal, own);
      }
      work += 1 + this.#counts.values[number];
      if (work < pairsPerStep) continue;
      work = 0;
      yield;
    }
    return made;
  }

  /** What a checkpoint stores. The images are copies, in shared memory. */
  save(): { state: KeywordState; images: Uint8Array[] } {
    const { state: dictionary, images, done } = this.#dictionary.save();
    const columns = this.#columns.map(({ values, length }) => bytesOf(values.subarray(0, length)));
    const copies = [...images, ...columns].map((bytes) => {
      const copy = sharedArray(Uint8Array, bytes.length);
      copy.set(bytes);
      return copy;
    });
    done();
    return { state: { dictionary, entries: this.pairs }, images: copies };
  }

  /** Empty images of a checkpoint, to be filled with its bytes. */
  static imagesFor({ dictionary, entries }: KeywordState): Uint8Array[] {
    const strings = dictionary.numbersEnd;
    return [
      ...Dictionary.imagesFor(dictionary),
      ...[strings, strings, entries, entries].map((length) => bytesOf(sharedArray(Uint32Array, length))),
    ];
  }

  /** @param images that were filled; they belong to the new object */
  static restored(
    { dictionary }: KeywordState,
    images: readonly Uint8Array[],
    records: number,
  ): KeywordValues {
    const restored = new KeywordValues();
    const columns = images.slice(-4).map((bytes) => {
      const column = new Growable<Uint32Array>(Uint32Array, 0, true);
      column.values = new Uint32Array(bytes.buffer);
      column.length = column.values.length;
      return column;
    });
    restored.#dictionary = Dictionary.restored(dictionary, images.slice(0, -4));
    [restored.#newest, restored.#counts, restored.#ordinals, restored.#before] = columns;
    restored.#records = records;
    const [newest, counts, ordinals, previous] = columns;
    invariant(
      newest.length === dictionary.size && counts.length === dictionary.size,
      `${dictionary.size} strings have ${newest.length} chains with ${counts.length} counts`,
    );
    invariant(
      ordinals.length === previous.length,
      `${ordinals.length} entries lead to ${previous.length} others`,
    );
    for (let number = 0; number < restored.#newest.length; number++)
      if (restored.#counts.values[number] >= Math.max(frequentMin, records / frequentShare))
        restored.#makeFrequent(number);
    return restored;
  }

  get memoryBytes(): number {
    let bytes = this.#dictionary.memoryBytes + this.#sorted.byteLength;
    for (const column of this.#columns) bytes += column.memoryBytes;
    for (const bitmap of this.#frequent.values()) bytes += bitmap.memoryBytes;
    return bytes;
  }

  check(): void {
    this.#dictionary.check();
    let entries = 0;
    for (let number = 0; number < this.#newest.length; number++) {
      const ordinals = [...this.#chain(number)];
      entries += ordinals.length;
      invariant(
        ordinals.length === this.#counts.values[number],
        `a string has ${ordinals.length} records, not ${this.#counts.values[number]}`,
      );
      invariant(
        ordinals.every((ordinal, i) => i === 0 || ordinal < ordinals[i - 1]),
        "the records of a string do not descend",
      );
      const bitmap = this.#frequent.get(number);
      if (bitmap === undefined) continue;
      const isSame = bitmap.count === ordinals.length && ordinals.every((ordinal) => bitmap.has(ordinal));
      invariant(isSame, `the bitmap of a string with ${ordinals.length} records has ${bitmap.count}`);
    }
    for (let at = 1; at < this.#sorted.length; at++)
      invariant(
        compareText(this.stringOf(this.#sorted[at - 1]), this.stringOf(this.#sorted[at])) < 0,
        `of the sorted strings, number ${at} is not behind the one before it`,
      );
    invariant(entries === this.pairs, `${entries} of ${this.pairs} entries are in a chain`);
  }
}

const bytesOf = ({ buffer, byteLength }: Uint32Array): Uint8Array => new Uint8Array(buffer, 0, byteLength);
