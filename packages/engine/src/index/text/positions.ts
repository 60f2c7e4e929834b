// Where in its text does a record have a term?
//
// A position is the place of a word among the words of the text, from 0; words that have no term count, so that a phrase
// knows how far apart its words stand. Each record has one row of bytes:
//
//   | term - the term before | bytes of its positions | position - the one before | ... |   for each term, by ascending number
//
// All are varints: seven bits a byte, the lowest first, 0x80 where more follow. A term takes about three bytes and a
// position one.

import { invariant } from "../../base/invariant.ts";

/** What the engine spends on a typed array of its own besides its bytes. */
const arrayBytes = 160;
/** Of a Map of small numbers, as measured in V8. */
const mapEntryBytes = 28;

export class Positions {
  /** By ordinal. */
  readonly #rows = new Map<number, Uint8Array>();
  #bytes = 0;
  #scratch = new Uint8Array(256);
  #length = 0;

  /** Keeps the positions of a record that has none yet: of each term its ascending positions, at least one. */
  set(ordinal: number, positions: ReadonlyMap<number, readonly number[]>): void {
    this.#length = 0;
    let before = 0;
    for (const [term, places] of [...positions].sort(([a], [b]) => a - b)) {
      this.#write(term - before);
      before = term;
      this.#write(gapsOf(places).reduce((sum, gap) => sum + widthOf(gap), 0));
      for (const gap of gapsOf(places)) this.#write(gap);
    }
    invariant(!this.#rows.has(ordinal), `ordinal ${ordinal} has positions already`);
    this.#rows.set(ordinal, this.#scratch.slice(0, this.#length));
    this.#bytes += this.#length + arrayBytes;
  }

  /** Forgets a record's positions. */
  delete(ordinal: number): void {
    const row = this.#rows.get(ordinal);
    if (row === undefined) return;
    this.#bytes -= row.length + arrayBytes;
    this.#rows.delete(ordinal);
  }

  has(ordinal: number): boolean {
    return this.#rows.has(ordinal);
  }

  /** The ascending positions of a term in a record; empty where the record does not have it. */
  of(ordinal: number, wanted: number): Uint32Array {
    const row = this.#rows.get(ordinal);
    if (row === undefined) return new Uint32Array(0);
    const cursor = new Cursor(row);
    for (let term = 0; cursor.at < row.length; ) {
      term += cursor.read();
      const bytes = cursor.read();
      if (term === wanted) return cursor.positions(cursor.at + bytes);
      if (term > wanted) break;
      cursor.at += bytes;
    }
    return new Uint32Array(0);
  }

  get memoryBytes(): number {
    return this.#bytes + mapEntryBytes * this.#rows.size + this.#scratch.length;
  }

  close(): void {
    this.#rows.clear();
    this.#bytes = 0;
  }

  /** Proves that a record's terms and positions ascend; returns how many positions it has. */
  checkRow(ordinal: number): number {
    const row = this.#rows.get(ordinal);
    invariant(row !== undefined, `ordinal ${ordinal} has no positions`);
    const cursor = new Cursor(row);
    let count = 0;
    for (let term = -1; cursor.at < row.length; ) {
      const next = Math.max(term, 0) + cursor.read();
      invariant(next > term, `ordinal ${ordinal} has positions of term ${next} after ${term}`);
      term = next;
      const bytes = cursor.read();
      const places = cursor.positions(cursor.at + bytes);
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

  /** Proves that so many records have positions, and that the counted bytes are those that are there. */
  check(records: number): void {
    invariant(this.#rows.size === records, `${this.#rows.size} of ${records} records have positions`);
    let bytes = 0;
    for (const row of this.#rows.values()) bytes += row.length + arrayBytes;
    invariant(bytes === this.#bytes, `positions take ${bytes} bytes, counted were ${this.#bytes}`);
  }

  #write(value: number): void {
    if (this.#length + 5 > this.#scratch.length) {
      const larger = new Uint8Array(2 * this.#scratch.length);
      larger.set(this.#scratch);
      this.#scratch = larger;
    }
    let rest = value;
    for (; rest > 0x7f; rest >>>= 7) this.#scratch[this.#length++] = (rest & 0x7f) | 0x80;
    this.#scratch[this.#length++] = rest;
  }
}

/** Reads varints one after another. */
class Cursor {
  at = 0;
  readonly #row: Uint8Array;

  constructor(row: Uint8Array) {
    this.#row = row;
  }

  read(): number {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = this.#row[this.at++];
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value >>> 0;
    }
  }

  /** The positions whose gaps end at `end`. */
  positions(end: number): Uint32Array {
    // Each takes a byte at least.
    const positions = new Uint32Array(end - this.at);
    let count = 0;
    for (let position = 0; this.at < end; ) {
      position += this.read();
      positions[count++] = position;
    }
    return positions.subarray(0, count);
  }
}

function gapsOf(positions: readonly number[]): number[] {
  return positions.map((position, i) => position - (i === 0 ? 0 : positions[i - 1]));
}

/** Bytes of a varint. */
function widthOf(value: number): number {
  return value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x20_0000 ? 3 : value < 0x1000_0000 ? 4 : 5;
}
