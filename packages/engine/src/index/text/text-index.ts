// Which texts match a query best, by BM25?
//
// An inverted index: for each term, the records that have it and how often (tf); for each record, its number of terms
// (dl). The score is the sum, over the query's terms, each as often as the query has it, of
//
//     idf * tf / (tf + k1 * (1 - b + b * dl / avgdl))          idf = ln(1 + (N - df + 0.5) / (df + 0.5))
//
// Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, 2009, with Lucene's idf, which is
// never negative, and without the constant factor (k1 + 1), as in Lucene since version 8. Unlike Lucene's, dl is the exact
// length. All is f64; terms are added in the order in which the query has them first, a term's repetitions at once.
//
// The statistics are those of the searched version, so that old versions score as they did: N and avgdl are passed in,
// captured when that version was current, and df counts the records that it sees.

import type { TextLanguage } from "@quiver/protocol/shapes/index-definition";
import { Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import { type Analyzer, createAnalyzer } from "../../text/analyzer.ts";
import { segment } from "../../text/segment.ts";
import { Accumulator } from "../accumulator.ts";
import { type Candidates, type Index, nothing, type Visible } from "../contract.ts";
import { absent } from "../ordinal-map.ts";
import { Postings } from "../postings.ts";
import { RecordTable } from "../record-table.ts";
import { Dictionary } from "./dictionary.ts";

export type TextOptions = {
  language: TextLanguage;
  /** Instead of the language's own stop words; null or absent: those. */
  stopWords?: readonly string[] | null;
  /** Saturation of the term frequency, at least 0; typically 0.9 to 1.2. */
  k1: number;
  /** Normalization by length, 0 to 1; typically 0.4 to 0.75. */
  b: number;
};

/** What a version has of text: the records that are current in it, and the sum of their lengths in terms. */
export type TextStatistics = {
  readonly documents: number;
  readonly totalLength: number;
};

/** A term that a query and a record share, and what it adds to the record's score. */
export type TextMatch = {
  readonly term: string;
  /** How often the query has it, and the record; how many records that the version sees have it. */
  readonly queryFrequency: number;
  readonly tf: number;
  readonly df: number;
  readonly idf: number;
  readonly contribution: number;
};

// States of a record during a search.
const seen = 1;
const hidden = 2;

export class TextIndex implements Index {
  readonly #analyzer: Analyzer;
  readonly #k1: number;
  readonly #b: number;
  readonly #postings = new Postings(Uint32Array);
  readonly #dictionary = new Dictionary();
  readonly #records = new RecordTable(this.#postings, (list) => this.#drop(list));
  /** By slot: the record's number of terms, and 1 when it was retired. */
  readonly #lengths = new Growable(Uint32Array);
  readonly #retired = new Growable(Uint8Array);
  #documents = 0;
  #totalLength = 0;
  readonly #accumulator = new Accumulator();

  constructor({ language, stopWords = null, k1, b }: TextOptions) {
    this.#analyzer = createAnalyzer(language, stopWords);
    this.#k1 = k1;
    this.#b = b;
  }

  get count(): number {
    return this.#records.count;
  }

  has(ordinal: number): boolean {
    return this.#records.slotOf(ordinal) !== absent;
  }

  /** Adds a record: the words of its text, as `segment` makes them. One without terms counts as a document. */
  add(ordinal: number, words: readonly string[]): void {
    const terms = this.#analyzer.terms(words);
    const frequencies = new Map<string, number>();
    for (const term of terms) frequencies.set(term, (frequencies.get(term) ?? 0) + 1);
    const slot = this.#records.add(ordinal, frequencies.size);
    for (const [term, frequency] of frequencies) this.#postings.append(this.#listOf(term), slot, frequency);
    if (slot === this.#lengths.length) {
      this.#lengths.push(terms.length);
      this.#retired.push(0);
    } else {
      this.#lengths.values[slot] = terms.length;
      this.#retired.values[slot] = 0;
    }
    this.#documents++;
    this.#totalLength += terms.length;
  }

  /** The record no longer counts in `statistics`; versions that see it find it as before. */
  retire(ordinal: number): void {
    const slot = this.#records.slotOf(ordinal);
    if (slot === absent || this.#retired.values[slot] === 1) return;
    this.#retired.values[slot] = 1;
    this.#documents--;
    this.#totalLength -= this.#lengths.values[slot];
  }

  remove(ordinal: number): void {
    if (!this.has(ordinal)) return;
    this.retire(ordinal);
    this.#records.remove(ordinal);
  }

  /** N and the sum of lengths of the records that are current now. */
  statistics(): TextStatistics {
    return { documents: this.#documents, totalLength: this.#totalLength };
  }

  /**
   * The k records with the greatest scores, with all ties at the boundary, of those that have a term of the query.
   * `statistics` are those of the searched version, and `visible` says what it sees.
   */
  search(query: string, k: number, statistics: TextStatistics, visible: Visible): Candidates {
    if (k <= 0) return nothing;
    const terms = this.#termsOf(query);
    this.#accumulator.begin(this.#records.slotsEnd);
    try {
      for (const [list, repetitions] of terms) this.#accumulate(list, repetitions, statistics, visible);
      return this.#accumulator.best(this.#records, k, seen, null);
    } finally {
      this.#accumulator.end();
    }
  }

  get memoryBytes(): number {
    const parts = [this.#postings, this.#dictionary, this.#records, this.#accumulator];
    const columns = this.#lengths.memoryBytes + this.#retired.memoryBytes;
    return parts.reduce((sum, part) => sum + part.memoryBytes, columns);
  }

  close(): void {
    this.#postings.close();
    this.#records.close();
    this.#dictionary.close();
    this.#lengths.truncate(0);
    this.#retired.truncate(0);
    this.#documents = 0;
    this.#totalLength = 0;
  }

  check(): void {
    this.#postings.check();
    this.#records.check();
    this.#dictionary.check();
    const found = new Float64Array(this.#records.slotsEnd);
    let postings = 0;
    for (const [term, list] of this.#dictionary.entries()) {
      this.#records.checkList(list);
      const { count, slots, values } = this.#postings.read(list);
      invariant(count > 0, `the term "${term}" has an empty list`);
      postings += count;
      for (let i = 0; i < count; i++) {
        invariant(values[i] > 0, `slot ${slots[i]} has the term "${term}" ${values[i]} times`);
        found[slots[i]] += values[i];
      }
    }
    const { total } = this.#postings;
    invariant(postings === total, `the terms have ${postings} postings of ${total}`);
    this.#checkLengths(found);
  }

  /** Compares the records' lengths, and the statistics, with the lengths that the postings add up to. */
  #checkLengths(found: Float64Array): void {
    let documents = 0;
    let totalLength = 0;
    for (let slot = 0; slot < this.#records.slotsEnd; slot++) {
      const ordinal = this.#records.ordinals[slot];
      if (ordinal === absent) continue;
      const length = this.#lengths.values[slot];
      invariant(found[slot] === length, `ordinal ${ordinal} has ${found[slot]} terms instead of ${length}`);
      if (this.#retired.values[slot] === 1) continue;
      documents++;
      totalLength += length;
    }
    invariant(
      documents === this.#documents && totalLength === this.#totalLength,
      `${documents} documents have ${totalLength} terms, counted were ${this.#documents} and ${this.#totalLength}`,
    );
  }

  /** List -> how often the query has its term, in the order of first appearance; unknown terms are left out. */
  #termsOf(query: string): Map<number, number> {
    const lists = new Map<number, number>();
    for (const term of this.#analyzer.terms(segment(query))) {
      const list = this.#dictionary.get(term);
      if (list !== undefined) lists.set(list, (lists.get(list) ?? 0) + 1);
    }
    return lists;
  }

  /** Adds one term's contribution to the scores of the visible records. */
  #accumulate(list: number, repetitions: number, statistics: TextStatistics, visible: Visible): void {
    const { scores } = this.#accumulator;
    const lengths = this.#lengths.values;
    const { count, slots, values: frequencies } = this.#postings.read(list);
    const df = this.#countVisible(slots, count, visible);
    const weight = repetitions * idf(statistics.documents, df);
    const averageLength = statistics.documents > 0 ? statistics.totalLength / statistics.documents : 0;
    const fixed = this.#k1 * (1 - this.#b);
    // Without an average there are no lengths to compare; a version that sees a posting has one.
    const perTerm = averageLength > 0 ? (this.#k1 * this.#b) / averageLength : 0;
    for (let i = 0; i < count; i++) {
      const slot = slots[i];
      const tf = frequencies[i];
      // What hidden records score is never read.
      scores[slot] += (weight * tf) / (tf + fixed + perTerm * lengths[slot]);
    }
  }

  /** Touches the records of `count` postings that are touched for the first time; returns how many are visible. */
  #countVisible(slots: Uint32Array, count: number, visible: Visible): number {
    const accumulator = this.#accumulator;
    const { states } = accumulator;
    const { ordinals } = this.#records;
    let df = 0;
    for (let i = 0; i < count; i++) {
      const slot = slots[i];
      if (states[slot] === 0) {
        const ordinal = ordinals[slot];
        const isSeen = ordinal !== absent && (visible === null || visible(ordinal));
        accumulator.touch(slot, isSeen ? seen : hidden);
      }
      if (states[slot] === seen) df++;
    }
    return df;
  }

  #listOf(term: string): number {
    let list = this.#dictionary.get(term);
    if (list === undefined) {
      list = this.#postings.create();
      this.#dictionary.add(term, list);
    }
    return list;
  }

  /** Forgets a term that no record has any more. */
  #drop(list: number): void {
    this.#dictionary.remove(list);
    this.#postings.destroy(list);
  }

  /** Terms of a record that is held. */
  lengthOf(ordinal: number): number {
    const slot = this.#records.slotOf(ordinal);
    invariant(slot !== absent, `ordinal ${ordinal} is not held`);
    return this.#lengths.values[slot];
  }

  /**
   * What the scores of a search are made of. Added up in the order of the calls, beginning with 0, a record's
   * contributions are its score, bit for bit.
   * @param ordinals records that are held and visible, each once
   * @param query, statistics, visible those of the search
   * @param onMatch told each term that a record shares with the query, and the record's place in `ordinals`; of one record
   * in the order in which the query has them first. What it throws ends the call
   */
  explain(
    ordinals: readonly number[],
    query: string,
    statistics: TextStatistics,
    visible: Visible,
    onMatch: (at: number, match: TextMatch) => void,
  ): void {
    const { documents, totalLength } = statistics;
    const places = new Map(ordinals.map((ordinal, at) => [this.#records.slotOf(ordinal), at]));
    const frequencies = new Map<string, number>();
    for (const term of this.#analyzer.terms(segment(query)))
      frequencies.set(term, (frequencies.get(term) ?? 0) + 1);
    const fixed = this.#k1 * (1 - this.#b);
    const averageLength = documents > 0 ? totalLength / documents : 0;
    const perTerm = averageLength > 0 ? (this.#k1 * this.#b) / averageLength : 0;
    for (const [term, queryFrequency] of frequencies) {
      const list = this.#dictionary.get(term);
      if (list === undefined) continue;
      const { count, slots, values } = this.#postings.read(list);
      let df = 0;
      for (let i = 0; i < count; i++) {
        const ordinal = this.#records.ordinals[slots[i]];
        if (ordinal !== absent && (visible === null || visible(ordinal))) df++;
      }
      const weight = queryFrequency * idf(documents, df);
      for (let i = 0; i < count; i++) {
        const at = places.get(slots[i]);
        if (at === undefined) continue;
        const tf = values[i];
        // The same steps as in #accumulate, so that the same bits come out.
        const contribution = (weight * tf) / (tf + fixed + perTerm * this.#lengths.values[slots[i]]);
        onMatch(at, { term, queryFrequency, tf, df, idf: idf(documents, df), contribution });
      }
    }
  }
}

/** How much a term says that `df` of `documents` records have: at least 0. */
function idf(documents: number, df: number): number {
  return Math.log(1 + (Math.max(documents, df) - df + 0.5) / (df + 0.5));
}
