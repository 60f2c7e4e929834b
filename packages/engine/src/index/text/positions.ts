// Where in its text does a record have a term?
//
// A position is the place of a word among the words of the text, from 0; words that have no term count, so that a phrase
// knows how far apart its words stand. Each record has one run of bytes, by slot (see record-table.ts):
//
//   | list - the list before | bytes of its positions | position - the one before | ... |   for each term, lists ascending
//
// All are varints: seven bits a byte, the lowest first, 0x80 where more follow. A term takes about three bytes and a
// position one.

import { invariant } from "../../base/invariant.ts";

/** What the engine spends on a typed array of its own besides its bytes. */
const arrayBytes = 160;

export class Positions {
  readonly #runs: (Uint8Array | undefined)[] = [];
  #bytes = 0;
  #scratch = new Uint8Array(256);
  #length = 0;

  /** Keeps the positions of a record that has none yet: of each list its ascending positions, at least one. */
  set(slot: number, positions: ReadonlyMap<number, readonly number[]>): void {
    this.#length = 0;
    let before = 0;
    for (const [list, places] of [...positions].sort(([a], [b]) => a - b)) {
      this.#write(list - before);
      before = list;
      this.#write(gapsOf(places).reduce((sum, gap) => sum + widthOf(gap), 0));
      for (const gap of gapsOf(places)) this.#write(gap);
    }
    invariant(this.#runs[slot] === undefined, `slot ${slot} has positions already`);
    // Slots ascend by one, so the array never has holes.
    this.#runs[slot] = this.#scratch.slice(0, this.#length);
    this.#bytes += this.#length + arrayBytes;
  }

  /** Forgets a record's positions. */
  delete(slot: number): void {
    const run = this.#runs[slot];
    if (run === undefined) return;
    this.#bytes -= run.length + arrayBytes;
    this.#runs[slot] = undefined;
  }

  has(slot: number): boolean {
    return this.#runs[slot] !== undefined;
  }

  /** The ascending positions of a list's term in a record; empty where the record does not have it. */
  of(slot: number, wanted: number): Uint32Array {
    const run = this.#runs[slot];
    if (run === undefined) return new Uint32Array(0);
    const cursor = new Cursor(run);
    for (let list = 0; cursor.at < run.length; ) {
      list += cursor.read();
      const bytes = cursor.read();
      if (list === wanted) return cursor.positions(cursor.at + bytes);
      if (list > wanted) break;
      cursor.at += bytes;
    }
    return new Uint32Array(0);
  }

  get memoryBytes(): number {
    return this.#bytes + 8 * this.#runs.length + this.#scratch.length;
  }

  close(): void {
    this.#runs.length = 0;
    this.#bytes = 0;
  }

  /** Proves that a record's lists and positions ascend; returns how many positions it has. */
  checkRun(slot: number): number {
    const run = this.#runs[slot];
    invariant(run !== undefined, `slot ${slot} has no positions`);
    const cursor = new Cursor(run);
    let count = 0;
    for (let list = -1; cursor.at < run.length; ) {
      const next = Math.max(list, 0) + cursor.read();
      invariant(next > list, `slot ${slot} has positions of list ${next} after ${list}`);
      list = next;
      const bytes = cursor.read();
      const places = cursor.positions(cursor.at + bytes);
      invariant(places.length > 0, `slot ${slot} has no positions in list ${list}`);
      for (let i = 1; i < places.length; i++)
        invariant(places[i] > places[i - 1], `slot ${slot} has position ${places[i]} after ${places[i - 1]}`);
      count += places.length;
    }
    return count;
  }

  /** Proves that the counted bytes are those that are there. */
  check(): void {
    let bytes = 0;
    for (const run of this.#runs) if (run !== undefined) bytes += run.length + arrayBytes;
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
  readonly #run: Uint8Array;

  constructor(run: Uint8Array) {
    this.#run = run;
  }

  read(): number {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = this.#run[this.at++];
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
