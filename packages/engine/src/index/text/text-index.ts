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
import { EditDistance } from "../../text/edit-distance.ts";
import { segment } from "../../text/segment.ts";
import { Accumulator } from "../accumulator.ts";
import { type Candidates, type Index, nothing, type Visible } from "../contract.ts";
import { absent } from "../ordinal-map.ts";
import { Postings } from "../postings.ts";
import { RecordTable } from "../record-table.ts";
import { Dictionary } from "./dictionary.ts";
import type { OrdinalSet } from "./ordinal-sets.ts";
import { Positions } from "./positions.ts";

export type TextOptions = {
  language: TextLanguage;
  /** Instead of the language's own stop words; null or absent: those. */
  stopWords?: readonly string[] | null;
  /** Saturation of the term frequency, at least 0; typically 0.9 to 1.2. */
  k1: number;
  /** Normalization by length, 0 to 1; typically 0.4 to 0.75. */
  b: number;
  /** Whether it is kept where in a text a term is, for phrases; absent: no. */
  positions?: boolean;
};

/** Whether a record may be found; null: every one may. Pure, and must not call the index. */
export type Accepts = ((ordinal: number) => boolean) | null;

/** A term to search for. */
export type WeightedTerm = {
  readonly term: string;
  /** What its score is multiplied by, greater than 0: how often a plain query has the term. */
  readonly weight: number;
  /** Which records the term counts for; absent or null: all that have it. Its df does not depend on it. */
  readonly within?: Accepts;
};

/** Terms that begin with a prefix, or that are at most `distance` edits (1 or 2) from a word. */
export type TermTest = { readonly prefix: string } | { readonly fuzzy: string; readonly distance: number };

/** What a version has of text: the records that are current in it, and the sum of their lengths in terms. */
export type TextStatistics = {
  readonly documents: number;
  readonly totalLength: number;
};

/** A term that a query and a record share, and what it adds to the record's score. */
export type TextMatch = {
  readonly term: string;
  /** Its weight in the query: how often a plain query has it. */
  readonly weight: number;
  /** How often the record has it; how many records that the version sees have it. */
  readonly tf: number;
  readonly df: number;
  readonly idf: number;
  readonly contribution: number;
};

// States of a record during a search.
const seen = 1;
const hidden = 2;

export class TextIndex implements Index {
  /** What texts and queries go through. */
  readonly analyzer: Analyzer;
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
  /** By slot; null where the index keeps none. */
  readonly #positions: Positions | null;

  constructor({ language, stopWords = null, k1, b, positions = false }: TextOptions) {
    this.analyzer = createAnalyzer(language, stopWords);
    this.#k1 = k1;
    this.#b = b;
    this.#positions = positions ? new Positions() : null;
  }

  get count(): number {
    return this.#records.count;
  }

  /** Whether `positionsOf` can be asked. */
  get keepsPositions(): boolean {
    return this.#positions !== null;
  }

  has(ordinal: number): boolean {
    return this.#records.slotOf(ordinal) !== absent;
  }

  /** Adds a record: the words of its text, as `segment` makes them. One without terms counts as a document. */
  add(ordinal: number, words: readonly string[]): void {
    const terms = this.analyzer.terms(words);
    const frequencies = new Map<string, number>();
    for (const term of terms) frequencies.set(term, (frequencies.get(term) ?? 0) + 1);
    const slot = this.#records.add(ordinal, frequencies.size);
    for (const [term, frequency] of frequencies) this.#postings.append(this.#listOf(term), slot, frequency);
    this.#positions?.set(slot, this.#placesOf(words));
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
    this.#positions?.delete(this.#records.slotOf(ordinal));
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
    return this.searchTerms(this.termsOf(query), k, statistics, visible);
  }

  /** The terms of a plain query in the order in which it has them first, each as often as it has it. */
  termsOf(query: string): WeightedTerm[] {
    const frequencies = new Map<string, number>();
    for (const term of this.analyzer.terms(segment(query)))
      frequencies.set(term, (frequencies.get(term) ?? 0) + 1);
    return Array.from(frequencies, ([term, weight]) => ({ term, weight }));
  }

  /**
   * `search` for terms, which are added up in the order given.
   * @param accepts which of the visible records may be found. Statistics, and so scores, do not depend on it
   */
  searchTerms(
    terms: readonly WeightedTerm[],
    k: number,
    statistics: TextStatistics,
    visible: Visible,
    accepts: Accepts = null,
  ): Candidates {
    if (k <= 0) return nothing;
    this.#accumulator.begin(this.#records.slotsEnd);
    try {
      for (const { term, weight, within = null } of terms) {
        const list = this.#dictionary.get(term);
        if (list === undefined) continue;
        if (within === null) this.#accumulate(list, weight, statistics, visible);
        else this.#accumulateWithin(list, weight, within, statistics, visible);
      }
      return this.#accumulator.best(this.#records, k, seen, accepts);
    } finally {
      this.#accumulator.end();
    }
  }

  /** All terms of records that are held, or were until lately, that pass a test; in no particular order. */
  expand(test: TermTest): string[] {
    return this.#dictionary.termsThat(testOf(test));
  }

  /** The records held that have a term, whatever version sees them. */
  holdersOf(term: string): OrdinalSet {
    const list = this.#dictionary.get(term);
    if (list === undefined) return new Uint32Array(0);
    const { count, slots } = this.#postings.read(list);
    const { ordinals } = this.#records;
    const holders = new Uint32Array(count);
    let held = 0;
    for (let i = 0; i < count; i++) {
      const ordinal = ordinals[slots[i]];
      if (ordinal !== absent) holders[held++] = ordinal;
    }
    return holders.subarray(0, held);
  }

  /**
   * Where a record that is held has a term: places among the words of its text, from 0 and ascending; words without a
   * term count. Empty where it does not have the term. The index must keep positions.
   */
  positionsOf(term: string, ordinal: number): Uint32Array {
    invariant(this.#positions !== null, "the index keeps no positions");
    const list = this.#dictionary.get(term);
    return list === undefined ? new Uint32Array(0) : this.#positions.of(this.#records.slotOf(ordinal), list);
  }

  get memoryBytes(): number {
    const parts = [this.#postings, this.#dictionary, this.#records, this.#accumulator];
    const columns = this.#lengths.memoryBytes + this.#retired.memoryBytes;
    return parts.reduce((sum, part) => sum + part.memoryBytes, columns + (this.#positions?.memoryBytes ?? 0));
  }

  close(): void {
    this.#postings.close();
    this.#records.close();
    this.#dictionary.close();
    this.#positions?.close();
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
        this.#checkPositions(list, slots[i], values[i]);
      }
    }
    const { total } = this.#postings;
    invariant(postings === total, `the terms have ${postings} postings of ${total}`);
    this.#checkLengths(found);
    this.#positions?.check();
  }

  /** Proves that a record has as many positions of a term as its posting says. */
  #checkPositions(list: number, slot: number, tf: number): void {
    if (this.#positions === null || this.#records.ordinals[slot] === absent) return;
    const count = this.#positions.of(slot, list).length;
    invariant(count === tf, `slot ${slot} has ${count} positions in list ${list}, and ${tf} occurrences`);
  }

  /** Compares the records' lengths, and the statistics, with the lengths that the postings add up to. */
  #checkLengths(found: Float64Array): void {
    let documents = 0;
    let totalLength = 0;
    for (let slot = 0; slot < this.#records.slotsEnd; slot++) {
      const ordinal = this.#records.ordinals[slot];
      const hasPositions = this.#positions?.has(slot) ?? false;
      invariant(!hasPositions || ordinal !== absent, `slot ${slot} has positions and no record`);
      if (ordinal === absent) continue;
      const length = this.#lengths.values[slot];
      const positions = this.#positions?.checkRun(slot) ?? length;
      invariant(positions === length, `ordinal ${ordinal} has ${positions} positions and ${length} terms`);
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

  /** List -> positions of its term among the words of a text. All terms have lists. */
  #placesOf(words: readonly string[]): Map<number, number[]> {
    const places = new Map<number, number[]>();
    for (const { term, position } of this.analyzer.analyze(words)) {
      if (term === null) continue;
      const list = this.#listOf(term);
      const known = places.get(list);
      if (known === undefined) places.set(list, [position]);
      else known.push(position);
    }
    return places;
  }

  /** Adds one term's contribution to the scores of the visible records. */
  #accumulate(list: number, termWeight: number, statistics: TextStatistics, visible: Visible): void {
    const { scores } = this.#accumulator;
    const lengths = this.#lengths.values;
    const { count, slots, values: frequencies } = this.#postings.read(list);
    const df = this.#countVisible(slots, count, visible);
    const weight = termWeight * idf(statistics.documents, df);
    const fixed = this.#k1 * (1 - this.#b);
    const perTerm = this.#perTerm(statistics);
    for (let i = 0; i < count; i++) {
      const slot = slots[i];
      const tf = frequencies[i];
      // What hidden records score is never read.
      scores[slot] += (weight * tf) / (tf + fixed + perTerm * lengths[slot]);
    }
  }

  /** Adds a term's contribution to the scores of those visible records that it counts for; touches no others. */
  #accumulateWithin(
    list: number,
    termWeight: number,
    within: (ordinal: number) => boolean,
    statistics: TextStatistics,
    visible: Visible,
  ): void {
    const accumulator = this.#accumulator;
    const { count, slots, values: frequencies } = this.#postings.read(list);
    const weight = termWeight * idf(statistics.documents, this.#countSeen(slots, count, visible));
    const fixed = this.#k1 * (1 - this.#b);
    const perTerm = this.#perTerm(statistics);
    for (let i = 0; i < count; i++) {
      const slot = slots[i];
      const ordinal = this.#records.ordinals[slot];
      if (ordinal === absent || !within(ordinal)) continue;
      if (accumulator.states[slot] === 0)
        accumulator.touch(slot, visible === null || visible(ordinal) ? seen : hidden);
      const tf = frequencies[i];
      accumulator.scores[slot] += (weight * tf) / (tf + fixed + perTerm * this.#lengths.values[slot]);
    }
  }

  /** What each term of a record's text adds to the denominators of its scores. */
  #perTerm({ documents, totalLength }: TextStatistics): number {
    const averageLength = documents > 0 ? totalLength / documents : 0;
    // Without an average there are no lengths to compare; a version that sees a posting has one.
    return averageLength > 0 ? (this.#k1 * this.#b) / averageLength : 0;
  }

  /** How many records of `count` postings are visible. */
  #countSeen(slots: Uint32Array, count: number, visible: Visible): number {
    let df = 0;
    for (let i = 0; i < count; i++) {
      const ordinal = this.#records.ordinals[slots[i]];
      if (ordinal !== absent && (visible === null || visible(ordinal))) df++;
    }
    return df;
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
   * What the scores of `searchTerms` are made of. Added up in the order of the calls, beginning with 0, a record's
   * contributions are its score, bit for bit.
   * @param ordinals records that are held and visible, each once
   * @param terms, statistics, visible those of the search
   * @param onMatch told each of `terms` that counts for a record, and the record's place in `ordinals`; of one record in
   * the order of `terms`. What it throws ends the call
   */
  explain(
    ordinals: readonly number[],
    terms: readonly WeightedTerm[],
    statistics: TextStatistics,
    visible: Visible,
    onMatch: (at: number, match: TextMatch) => void,
  ): void {
    const { documents } = statistics;
    const places = new Map(ordinals.map((ordinal, at) => [this.#records.slotOf(ordinal), at]));
    const fixed = this.#k1 * (1 - this.#b);
    const perTerm = this.#perTerm(statistics);
    for (const { term, weight: termWeight, within = null } of terms) {
      const list = this.#dictionary.get(term);
      if (list === undefined) continue;
      const { count, slots, values } = this.#postings.read(list);
      const df = this.#countSeen(slots, count, visible);
      const weight = termWeight * idf(documents, df);
      for (let i = 0; i < count; i++) {
        const at = places.get(slots[i]);
        if (at === undefined || (within !== null && !within(ordinals[at]))) continue;
        const tf = values[i];
        // The same steps as in #accumulate, so that the same bits come out.
        const contribution = (weight * tf) / (tf + fixed + perTerm * this.#lengths.values[slots[i]]);
        onMatch(at, { term, weight: termWeight, tf, df, idf: idf(documents, df), contribution });
      }
    }
  }
}

/** How much a term says that `df` of `documents` records have: at least 0. */
function idf(documents: number, df: number): number {
  return Math.log(1 + (Math.max(documents, df) - df + 0.5) / (df + 0.5));
}

function testOf(test: TermTest): (term: string) => boolean {
  if ("prefix" in test) return (term) => term.startsWith(test.prefix);
  const { fuzzy, distance } = test;
  const distances = new EditDistance(fuzzy);
  return (term) => distances.to(term, distance) <= distance;
}
