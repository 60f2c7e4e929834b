// What does an index store for each record, besides its postings?
//
// A row of numbers for each record: where it has its terms (positions.ts), or which forms its words have (forms.ts). Numbers are
// varints: seven bits a byte, the lowest first, 0x80 where more follow.
//
// Rows are stored one after the other in *segments*, by ascending ordinals. The last one is open; `freeze` closes it, and from then on its
// bytes never change: another thread writes a checkpoint straight from them. When more than half of a segment's rows are removed, the rest
// is rewritten, together with the rest of the segment before it if both are small.
//
// Other threads read rows as they were at a moment (rows-reader.ts). So ordinals, beginnings and bytes lie in shared memory, those of a
// frozen segment in one piece, and what is written is never moved or overwritten: what grows or shrinks is replaced.
//
// The open segment and the frozen ones answer the same questions, so they are one class.

import { Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import { sharedArray } from "../../base/shared-array.ts";
import { firstFrom } from "../ordinal-sets.ts";
import {
  blockOf,
  columnsOf,
  placeIn,
  type Row,
  type RowColumns,
  type RowSource,
  type SharedRows,
} from "./rows-reader.ts";

/** The most rows and bytes of a joined segment, and the bytes at which the open one is closed. */
const joinedRowsMax = 8_192;
const joinedBytesMax = 2 ** 22;
const openBytesMax = 2 ** 26;

/** Of a number, as a varint. */
const numberBytesMax = 5;

/** Of a segment, besides its columns. */
const segmentBytes = 600;

/** Rows that were closed. */
type Segment = RowColumns & {
  /** Whether a row is forgotten. */
  readonly forgotten: Uint8Array;
  forgottenCount: number;
};

/** What a checkpoint stores of a segment, besides its bytes. */
type SegmentState = Pick<Segment, "ordinals" | "begins" | "forgotten"> & { readonly byteCount: number };

export type RowsState = { readonly segments: readonly SegmentState[] };

/** Bytes of an empty open segment. */
const openBytesMin = 256;

export class RecordRows implements RowSource {
  #segments: Segment[] = [];
  // The open segment. Of a row that was forgotten the ordinal stays.
  #ordinals = new Growable(Uint32Array, 16, true);
  #begins = new Growable(Uint32Array, 16, true);
  #forgotten = new Growable(Uint8Array);
  #bytes: Uint8Array = sharedArray(Uint8Array, openBytesMin);
  #length = 0;
  #count = 0;

  /** Begins the row of a record, of a greater ordinal than all before. */
  begin(ordinal: number): void {
    invariant(ordinal > this.#last, `the row of ordinal ${ordinal} follows that of ${this.#last}`);
    this.#ordinals.push(ordinal);
    this.#begins.push(this.#length);
    this.#forgotten.push(0);
    this.#count++;
  }

  /** Ensures room for the given number of numbers. */
  reserve(numbers: number): void {
    const needed = this.#length + numberBytesMax * numbers;
    if (needed <= this.#bytes.length) return;
    const larger = sharedArray(Uint8Array, Math.max(2 * this.#bytes.length, needed));
    larger.set(this.#bytes);
    this.#bytes = larger;
  }

  /** Writes the first `count` numbers at the end of the row that was begun. */
  writeAll(numbers: Uint32Array, count: number): void {
    this.reserve(count);
    const bytes = this.#bytes;
    let at = this.#length;
    for (let i = 0; i < count; i++) {
      let rest = numbers[i];
      for (; rest > 0x7f; rest >>>= 7) bytes[at++] = (rest & 0x7f) | 0x80;
      bytes[at++] = rest;
    }
    this.#length = at;
  }

  /** Appends a number below 2^32 to the current row; there must be room. */
  write(value: number): void {
    let rest = value;
    for (; rest > 0x7f; rest >>>= 7) this.#bytes[this.#length++] = (rest & 0x7f) | 0x80;
    this.#bytes[this.#length++] = rest;
  }

  /** Forgets a record's row. */
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
    return this.of(ordinal) !== undefined;
  }

  /** Whether the open segment is to be closed. */
  get isFull(): boolean {
    return this.#length > openBytesMax;
  }

  /** Freezes the open segment's rows of ordinals below `end`: from now on a checkpoint can contain them. */
  freeze(end: number): void {
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
    const frozen = livingOf([open]);
    if (frozen.ordinals.length > 0) this.#segments.push(frozen);
    this.#reopen(rows);
  }

  /** Begins the open segment anew, with its rows from one on. */
  #reopen(first: number): void {
    const [ordinals, begins, forgotten] = [this.#ordinals, this.#begins, this.#forgotten];
    const from = begins.values[first];
    const bytes = this.#bytes.subarray(from, this.#length);
    this.#ordinals = new Growable(Uint32Array, ordinals.length - first, true);
    this.#begins = new Growable(Uint32Array, ordinals.length - first, true);
    this.#forgotten = new Growable(Uint8Array, ordinals.length - first);
    for (let row = first; row < ordinals.length; row++) {
      this.#ordinals.push(ordinals.values[row]);
      this.#begins.push(begins.values[row] - from);
      this.#forgotten.push(forgotten.values[row]);
    }
    this.#bytes = sharedArray(Uint8Array, Math.max(openBytesMin, bytes.length));
    this.#bytes.set(bytes);
    this.#length = bytes.length;
  }

  /** What another thread needs to read the rows that there are now, those that are forgotten included. */
  get shared(): SharedRows {
    return {
      segments: this.#segments.map(({ ordinals }) => ({
        block: ordinals.buffer as SharedArrayBuffer,
        rows: ordinals.length,
        last: ordinals[ordinals.length - 1],
      })),
      open: {
        ordinals: this.#ordinals.column,
        begins: this.#begins.values,
        bytes: this.#bytes,
        length: this.#length,
      },
    };
  }

  get memoryBytes(): number {
    const columns = [this.#ordinals, this.#begins, this.#forgotten];
    let bytes = columns.reduce((sum, column) => sum + column.memoryBytes, this.#bytes.length);
    for (const segment of this.#segments) bytes += segmentBytes + bytesOf(segment);
    return bytes;
  }

  /** The value if all rows were frozen. */
  get restoredBytes(): number {
    const open = this.#length + 9 * this.#ordinals.length;
    return this.#segments.reduce((sum, segment) => sum + segmentBytes + bytesOf(segment), open);
  }

  close(): void {
    this.#segments = [];
    this.#begins.push(this.#length);
    this.#reopen(this.#ordinals.length);
    this.#count = 0;
  }

  /** What a checkpoint stores of the records with ordinals below `end`, all of which are frozen: the state and the bytes. */
  save(end: number): { state: RowsState; images: Uint8Array[] } {
    const kept = this.#segments.filter(({ ordinals }) => ordinals[ordinals.length - 1] < end);
    const segments = kept.map(({ ordinals, begins, forgotten, bytes }) => ({
      ordinals: ordinals.slice(),
      begins: begins.slice(),
      forgotten: forgotten.slice(),
      byteCount: bytes.length,
    }));
    return { state: { segments }, images: kept.map(({ bytes }) => bytes) };
  }

  /** Allocates the bytes of rows of a checkpoint. */
  static imagesFor({ segments }: RowsState): Uint8Array[] {
    return segments.map(({ ordinals, byteCount }) => blockOf(ordinals.length, byteCount).bytes);
  }

  /** Restores rows from a checkpoint. @param images from `imagesFor`, filled from a checkpoint; the new object owns them */
  static restored({ segments }: RowsState, images: readonly Uint8Array[]): RecordRows {
    const rows = new RecordRows();
    rows.#segments = segments.map((state, i) => {
      const { forgotten } = state;
      const columns = columnsOf(images[i].buffer as SharedArrayBuffer, state.ordinals.length);
      columns.ordinals.set(state.ordinals);
      columns.begins.set(state.begins);
      const forgottenCount = forgotten.reduce((sum, flag) => sum + flag, 0);
      rows.#count += forgotten.length - forgottenCount;
      return { ...columns, forgotten, forgottenCount };
    });
    return rows;
  }

  /** Reports every row that was not removed. */
  each(visit: (row: Row) => void): void {
    for (const { ordinals, begins, forgotten, bytes } of this.#segments)
      for (let row = 0; row < ordinals.length; row++)
        if (forgotten[row] === 0) visit({ bytes, begin: begins[row], end: begins[row + 1] });
    for (let row = 0; row < this.#ordinals.length; row++) {
      const found = this.#forgotten.values[row] === 0 ? this.of(this.#ordinals.values[row]) : undefined;
      if (found !== undefined) visit(found);
    }
  }

  /** Verifies that the given number of records have rows, and that segments and their rows ascend. */
  check(records: number): void {
    invariant(this.#count === records, `${this.#count} of ${records} records have rows`);
    let living = 0;
    let last = -1;
    const take = (ordinals: Uint32Array, forgotten: Uint8Array): void => {
      for (let row = 0; row < ordinals.length; row++) {
        invariant(ordinals[row] > last, `the row of ordinal ${ordinals[row]} follows that of ${last}`);
        last = ordinals[row];
        living += 1 - forgotten[row];
      }
    };
    for (const { ordinals, begins, forgotten, bytes } of this.#segments) {
      take(ordinals, forgotten);
      invariant(begins[ordinals.length] === bytes.length, `a segment's rows do not end with its bytes`);
    }
    take(this.#ordinals.values.subarray(0, this.#ordinals.length), this.#forgotten.values);
    invariant(living === records, `there are ${living} rows for ${records} records`);
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

  /** The row of a record; undefined if it has none. */
  of(ordinal: number): Row | undefined {
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

  /** Rewrites the remaining rows of a segment, together with those of the previous one if both are small. */
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
    ...blockOf(rows, length),
    forgotten: new Uint8Array(rows),
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
