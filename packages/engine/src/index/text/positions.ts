// Where in its text does a record have a term?
//
// A position is the index of a word among the words of the text, from 0. Words without a term count, so that a phrase can check the
// distances of its words. Each record has one row of bytes (term-rows.ts):
//
//   | term - the term before | bytes of its positions | position - the one before | ... |   for each term, by ascending number
//
// All are varints. A term takes about three bytes and a position one.

import { invariant } from "../../base/invariant.ts";
import type { TermRowsState } from "./frozen-term-rows.ts";
import { TermRows } from "./term-rows.ts";
import { RowReader, type TermRowsReader, widthOf } from "./term-rows-reader.ts";

/** Positions, for reading. */
export class PositionsReader {
  readonly rows: TermRowsReader;

  constructor(rows: TermRowsReader) {
    this.rows = rows;
  }

  /** The ascending positions of a term in a record; empty where the record does not have it. */
  of(ordinal: number, wanted: number): Uint32Array {
    const row = this.rows.of(ordinal);
    if (row === undefined) return new Uint32Array(0);
    const reader = new RowReader(row);
    for (let term = 0; !reader.isAtEnd; ) {
      term += reader.read();
      const bytes = reader.read();
      if (term === wanted) return positionsIn(reader, bytes);
      if (term > wanted) break;
      reader.skip(bytes);
    }
    return new Uint32Array(0);
  }
}

export class Positions extends PositionsReader {
  declare readonly rows: TermRows;

  /** @param rows of positions from a checkpoint; absent: none */
  constructor(rows: TermRows = new TermRows()) {
    super(rows);
  }

  /**
   * Stores the positions of a record, whose ordinal is greater than all before.
   * @param terms unique
   * @param frequencies of each term, at least 1
   * @param places the ascending positions of each term, term by term
   */
  set(
    ordinal: number,
    terms: readonly number[],
    frequencies: ArrayLike<number>,
    places: ArrayLike<number>,
  ): void {
    const { rows } = this;
    invariant(
      terms.length === frequencies.length,
      () => `ordinal ${ordinal} has ${terms.length} terms with ${frequencies.length} frequencies`,
    );
    rows.begin(ordinal);
    rows.reserve(2 * terms.length + places.length);
    const begins = new Uint32Array(terms.length);
    for (let i = 1; i < terms.length; i++) begins[i] = begins[i - 1] + frequencies[i - 1];
    const end = terms.length === 0 ? 0 : begins[terms.length - 1] + frequencies[terms.length - 1];
    invariant(
      end === places.length,
      () => `the terms of ordinal ${ordinal} occur ${end} times, at ${places.length} positions`,
    );
    const order = Array.from(terms, (_term, i) => i).sort((a, b) => terms[a] - terms[b]);
    let before = 0;
    for (const i of order) {
      rows.write(terms[i] - before);
      before = terms[i];
      const end = begins[i] + frequencies[i];
      let bytes = 0;
      for (let at = begins[i], last = 0; at < end; last = places[at++]) bytes += widthOf(places[at] - last);
      rows.write(bytes);
      for (let at = begins[i], last = 0; at < end; last = places[at++]) rows.write(places[at] - last);
    }
  }

  /** Proves that a record's terms and positions ascend; returns how often it has its terms. */
  checkRow(ordinal: number): number {
    const row = this.rows.of(ordinal);
    invariant(row !== undefined, `ordinal ${ordinal} has no positions`);
    const reader = new RowReader(row);
    let count = 0;
    for (let term = -1; !reader.isAtEnd; ) {
      const next = Math.max(term, 0) + reader.read();
      invariant(next > term, `ordinal ${ordinal} has positions of term ${next} after ${term}`);
      term = next;
      const places = positionsIn(reader, reader.read());
      invariant(places.length > 0, `ordinal ${ordinal} has no positions in term ${term}`);
      for (let i = 1; i < places.length; i++)
        invariant(
          places[i] > places[i - 1],
          `ordinal ${ordinal} has position ${places[i]} after ${places[i - 1]}`,
        );
      count += places.length;
    }
    return count;
  }
}

export type PositionsState = TermRowsState;

/** Decodes positions from the given number of bytes of gaps. */
function positionsIn(reader: RowReader, bytes: number): Uint32Array {
  // Each takes at least one byte.
  const positions = new Uint32Array(bytes);
  const end = reader.at + bytes;
  let count = 0;
  for (let position = 0; reader.at < end; ) {
    position += reader.read();
    positions[count++] = position;
  }
  return positions.subarray(0, count);
}
