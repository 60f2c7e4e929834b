// Where in its text does a record have a term?
//
// A position is the place of a word among the words of the text, from 0; words that have no term count, so that a phrase
// knows how far apart its words stand. Each record has one row of bytes:
//
//   | term - the term before | bytes of its positions | position - the one before | ... |   for each term, by ascending number
//
// All are varints: seven bits a byte, the lowest first, 0x80 where more follow. A term takes about three bytes and a
// position one.
//
// Rows lie behind each other in *segments*, by ascending ordinals. The last one is open; `seal` closes it, and from then on its
// bytes never change: a checkpoint is written from them as they are, by another thread. Of a segment that is mostly forgotten
// the rest is written anew, together with what is left of the one before where both are small.

import { Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import { firstFrom } from "../ordinal-sets.ts";

/** Rows and bytes that a segment is joined up to, and bytes after which an open one is to be closed. */
const joinedRowsMax = 8_192;
const joinedBytesMax = 2 ** 22;
const openBytesMax = 2 ** 26;

/** Of a segment, besides its columns. */
const segmentBytes = 600;

/** Rows that were closed. */
type Segment = {
  /** Ascending. */
  readonly ordinals: Uint32Array;
  /** Where each row begins, and at last where the bytes end. */
  readonly begins: Uint32Array;
  /** Whether a row is forgotten. */
  readonly forgotten: Uint8Array;
  /** In shared memory. */
  readonly bytes: Uint8Array;
  forgottenCount: number;
};

/** What a checkpoint keeps of a segment, besides its bytes. */
type SegmentState = Pick<Segment, "ordinals" | "begins" | "forgotten"> & { readonly byteCount: number };

export type PositionsState = { readonly segments: readonly SegmentState[] };

/** A row: bytes of a segment. */
type Row = { readonly bytes: Uint8Array; readonly begin: number; readonly end: number };

export class Positions {
  #segments: Segment[] = [];
  // The open segment. Of a row that was forgotten the ordinal stays.
  readonly #ordinals = new Growable(Uint32Array);
  readonly #begins = new Growable(Uint32Array);
  readonly #forgotten = new Growable(Uint8Array);
  #bytes = new Uint8Array(256);
  #length = 0;
  #count = 0;

  /**
   * Keeps the positions of a record, of a greater ordinal than all before.
   * @param terms unique
   * @param frequencies of each term, at least 1
   * @param places of each term its ascending positions, one term's behind another's
   */
  set(
    ordinal: number,
    terms: readonly number[],
    frequencies: ArrayLike<number>,
    places: ArrayLike<number>,
  ): void {
    invariant(ordinal > this.#last, `positions of ordinal ${ordinal} follow those of ${this.#last}`);
    this.#ordinals.push(ordinal);
    this.#begins.push(this.#length);
    this.#forgotten.push(0);
    this.#count++;
    const begins = new Uint32Array(terms.length);
    for (let i = 1; i < terms.length; i++) begins[i] = begins[i - 1] + frequencies[i - 1];
    const order = Array.from(terms, (_term, i) => i).sort((a, b) => terms[a] - terms[b]);
    let before = 0;
    for (const i of order) {
      this.#write(terms[i] - before);
      before = terms[i];
      const end = begins[i] + frequencies[i];
      let bytes = 0;
      for (let at = begins[i], last = 0; at < end; last = places[at++]) bytes += widthOf(places[at] - last);
      this.#write(bytes);
      for (let at = begins[i], last = 0; at < end; last = places[at++]) this.#write(places[at] - last);
    }
  }

  /** Forgets a record's positions. */
  delete(ordinal: number): void {
    const segment = this.#segmentOf(ordinal);
    if (segment === undefined) {
      const row = placeIn(this.#ordinals.values, this.#ordinals.length, ordinal);
      if (row < 0 || this.#forgotten.values[row] === 1) return;
      this.#forgotten.values[row] = 1;
      this.#count--;
      return;
    }
    const row = placeIn(segment.ordinals, segment.ordinals.length, ordinal);
    if (row < 0 || segment.forgotten[row] === 1) return;
    segment.forgotten[row] = 1;
    segment.forgottenCount++;
    this.#count--;
    if (2 * segment.forgottenCount > segment.ordinals.length) this.#closeUp(segment);
  }

  has(ordinal: number): boolean {
    return this.#rowOf(ordinal) !== undefined;
  }

  /** Whether the open segment is to be closed. */
  get isFull(): boolean {
    return this.#length > openBytesMax;
  }

  /** Closes the open segment's rows of ordinals below `end`: they can be kept in a checkpoint from now on. */
  seal(end: number): void {
    const count = this.#ordinals.length;
    if (count === 0 || this.#ordinals.values[0] >= end) return;
    this.#begins.push(this.#length);
    const rows = firstFrom(this.#ordinals.values, end, count);
    const open: Segment = {
      ordinals: this.#ordinals.values.subarray(0, rows),
      begins: this.#begins.values.subarray(0, rows + 1),
      forgotten: this.#forgotten.values,
      bytes: this.#bytes,
      forgottenCount: 0,
    };
    const sealed = livingOf([open]);
    if (sealed.ordinals.length > 0) this.#segments.push(sealed);
    // The others move to the front.
    const begin = this.#begins.values[rows];
    this.#bytes.copyWithin(0, begin, this.#length);
    this.#length -= begin;
    for (let row = rows; row < count; row++) this.#begins.values[row] -= begin;
    for (const column of [this.#ordinals, this.#begins, this.#forgotten]) {
      column.values.copyWithin(0, rows, count);
      column.length = count - rows;
    }
    if (this.#length === 0 && this.#bytes.length > joinedBytesMax) this.#bytes = new Uint8Array(256);
  }

  /** The ascending positions of a term in a record; empty where the record does not have it. */
  of(ordinal: number, wanted: number): Uint32Array {
    const row = this.#rowOf(ordinal);
    if (row === undefined) return new Uint32Array(0);
    const cursor = new Cursor(row);
    for (let term = 0; cursor.at < row.end; ) {
      term += cursor.read();
      const bytes = cursor.read();
      if (term === wanted) return cursor.positions(cursor.at + bytes);
      if (term > wanted) break;
      cursor.at += bytes;
    }
    return new Uint32Array(0);
  }

  get memoryBytes(): number {
    const columns = [this.#ordinals, this.#begins, this.#forgotten];
    let bytes = columns.reduce((sum, column) => sum + column.memoryBytes, this.#bytes.length);
    for (const segment of this.#segments) bytes += segmentBytes + bytesOf(segment);
    return bytes;
  }

  /** What it would be if all were closed. */
  get restoredBytes(): number {
    const open = this.#length + 9 * this.#ordinals.length;
    return this.#segments.reduce((sum, segment) => sum + segmentBytes + bytesOf(segment), open);
  }

  close(): void {
    this.#segments = [];
    for (const column of [this.#ordinals, this.#begins, this.#forgotten]) column.truncate(0);
    this.#bytes = new Uint8Array(256);
    this.#length = 0;
    this.#count = 0;
  }

  /** What a checkpoint keeps of the records with ordinals below `end`, all of which are sealed: the state and the bytes. */
  save(end: number): { state: PositionsState; images: Uint8Array[] } {
    const kept = this.#segments.filter(({ ordinals }) => ordinals[ordinals.length - 1] < end);
    const segments = kept.map(({ ordinals, begins, forgotten, bytes }) => ({
      ordinals,
      begins,
      // The other two never change.
      forgotten: forgotten.slice(),
      byteCount: bytes.length,
    }));
    return { state: { segments }, images: kept.map(({ bytes }) => bytes) };
  }

  /** Room for the bytes of positions that were kept. */
  static imagesFor({ segments }: PositionsState): Uint8Array[] {
    return segments.map(({ byteCount }) => new Uint8Array(new SharedArrayBuffer(byteCount)));
  }

  /** Positions as they were kept. @param images from `imagesFor`, filled with what was kept; they are taken over */
  static restored({ segments }: PositionsState, images: readonly Uint8Array[]): Positions {
    const positions = new Positions();
    positions.#segments = segments.map(({ ordinals, begins, forgotten }, i) => {
      const forgottenCount = forgotten.reduce((sum, flag) => sum + flag, 0);
      positions.#count += ordinals.length - forgottenCount;
      return { ordinals, begins, forgotten, bytes: images[i], forgottenCount };
    });
    return positions;
  }

  /** Proves that a record's terms and positions ascend; returns how many positions it has. */
  checkRow(ordinal: number): number {
    const row = this.#rowOf(ordinal);
    invariant(row !== undefined, `ordinal ${ordinal} has no positions`);
    const cursor = new Cursor(row);
    let count = 0;
    for (let term = -1; cursor.at < row.end; ) {
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

  /** Proves that so many records have positions, and that segments and their rows ascend. */
  check(records: number): void {
    invariant(this.#count === records, `${this.#count} of ${records} records have positions`);
    let living = 0;
    let last = -1;
    const take = (ordinals: Uint32Array, forgotten: Uint8Array): void => {
      for (let row = 0; row < ordinals.length; row++) {
        invariant(ordinals[row] > last, `positions of ordinal ${ordinals[row]} follow those of ${last}`);
        last = ordinals[row];
        living += 1 - forgotten[row];
      }
    };
    for (const { ordinals, begins, forgotten, bytes } of this.#segments) {
      take(ordinals, forgotten);
      invariant(begins[ordinals.length] === bytes.length, `a segment's rows do not end with its bytes`);
    }
    take(this.#ordinals.values.subarray(0, this.#ordinals.length), this.#forgotten.values);
    invariant(living === records, `${living} rows are there for ${records} records`);
  }

  get #last(): number {
    if (this.#ordinals.length > 0) return this.#ordinals.values[this.#ordinals.length - 1];
    const ordinals = this.#segments.at(-1)?.ordinals;
    return ordinals?.[ordinals.length - 1] ?? -1;
  }

  /** The segment whose range ends with an ordinal or later; undefined: only the open one can have it. */
  #segmentOf(ordinal: number): Segment | undefined {
    let low = 0;
    let high = this.#segments.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const { ordinals } = this.#segments[middle];
      if (ordinals[ordinals.length - 1] < ordinal) low = middle + 1;
      else high = middle;
    }
    return this.#segments[low];
  }

  #rowOf(ordinal: number): Row | undefined {
    const segment = this.#segmentOf(ordinal);
    if (segment !== undefined) {
      const { ordinals, begins, forgotten, bytes } = segment;
      const row = placeIn(ordinals, ordinals.length, ordinal);
      return row < 0 || forgotten[row] === 1
        ? undefined
        : { bytes, begin: begins[row], end: begins[row + 1] };
    }
    const row = placeIn(this.#ordinals.values, this.#ordinals.length, ordinal);
    if (row < 0 || this.#forgotten.values[row] === 1) return undefined;
    const end = row + 1 < this.#begins.length ? this.#begins.values[row + 1] : this.#length;
    return { bytes: this.#bytes, begin: this.#begins.values[row], end };
  }

  /** Writes what is left of a segment anew, with what is left of the one before where both are small. */
  #closeUp(segment: Segment): void {
    const at = this.#segments.indexOf(segment);
    const before = this.#segments[at - 1];
    const isJoined =
      before !== undefined &&
      livingCount(before) + livingCount(segment) <= joinedRowsMax &&
      before.bytes.length + segment.bytes.length <= joinedBytesMax;
    const sources = isJoined ? [before, segment] : [segment];
    const made = livingOf(sources);
    const first = isJoined ? at - 1 : at;
    this.#segments.splice(first, sources.length, ...(made.ordinals.length > 0 ? [made] : []));
  }

  #write(value: number): void {
    if (this.#length + 5 > this.#bytes.length) {
      const larger = new Uint8Array(2 * this.#bytes.length);
      larger.set(this.#bytes);
      this.#bytes = larger;
    }
    let rest = value;
    for (; rest > 0x7f; rest >>>= 7) this.#bytes[this.#length++] = (rest & 0x7f) | 0x80;
    this.#bytes[this.#length++] = rest;
  }
}

const livingCount = ({ ordinals, forgottenCount }: Segment): number => ordinals.length - forgottenCount;

const bytesOf = ({ ordinals, begins, forgotten, bytes }: Segment): number =>
  ordinals.byteLength + begins.byteLength + forgotten.byteLength + bytes.length;

/** A segment of the rows of others that are not forgotten. */
function livingOf(sources: readonly Segment[]): Segment {
  let rows = 0;
  let length = 0;
  for (const { ordinals, begins, forgotten } of sources)
    for (let row = 0; row < ordinals.length; row++) {
      if (forgotten[row] === 1) continue;
      rows++;
      length += begins[row + 1] - begins[row];
    }
  const made: Segment = {
    ordinals: new Uint32Array(rows),
    begins: new Uint32Array(rows + 1),
    forgotten: new Uint8Array(rows),
    bytes: new Uint8Array(new SharedArrayBuffer(length)),
    forgottenCount: 0,
  };
  let at = 0;
  let end = 0;
  for (const { ordinals, begins, forgotten, bytes } of sources)
    for (let row = 0; row < ordinals.length; row++) {
      if (forgotten[row] === 1) continue;
      made.ordinals[at] = ordinals[row];
      made.begins[at++] = end;
      made.bytes.set(bytes.subarray(begins[row], begins[row + 1]), end);
      end += begins[row + 1] - begins[row];
    }
  made.begins[at] = end;
  return made;
}

/** The place of a value among the first `count` ascending ones, or -1. */
function placeIn(values: Uint32Array, count: number, value: number): number {
  const place = firstFrom(values, value, count);
  return place < count && values[place] === value ? place : -1;
}

/** Reads varints one after another. */
class Cursor {
  at: number;
  readonly #bytes: Uint8Array;

  constructor({ bytes, begin }: Row) {
    this.#bytes = bytes;
    this.at = begin;
  }

  read(): number {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = this.#bytes[this.at++];
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

/** Bytes of a varint. */
function widthOf(value: number): number {
  return value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x20_0000 ? 3 : value < 0x1000_0000 ? 4 : 5;
}
