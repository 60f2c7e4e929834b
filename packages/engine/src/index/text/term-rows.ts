// What does an index store for each record, besides its postings?
//
// A row of numbers for each record: where it has its terms (positions.ts), or which forms its words have (forms.ts). Numbers are
// varints: seven bits a byte, the lowest first, 0x80 where more follow.
//
// Rows are stored one after the other in *segments*, by ascending ordinals. The last one is open; `freeze` closes it (frozen-term-rows.ts), and
// from then on its bytes never change: another thread writes a checkpoint straight from them.
//
// Other threads read rows as they were at a moment (term-rows-reader.ts). So ordinals, beginnings and bytes lie in shared memory, those of a
// frozen segment in one piece, and what is written is never moved or overwritten: what grows or shrinks is replaced.

import { Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import { grownShared, sharedArray } from "../../base/shared-memory.ts";
import { firstFrom } from "../ordinal-sets.ts";
import { checkRows, FrozenTermRows, type TermRowsState } from "./frozen-term-rows.ts";
import { placeIn, type Row, type RowSource, type SharedTermRows } from "./term-rows-reader.ts";

/** Bytes at which the open segment is closed. */
const openBytesMax = 2 ** 26;

/** Of a number, as a varint. */
const numberBytesMax = 5;

/** Bytes of an empty open segment. */
const openBytesMin = 256;

export class TermRows implements RowSource {
  readonly #frozen: FrozenTermRows;
  // The open segment. Of a row that was forgotten the ordinal stays.
  #ordinals = new Growable(Uint32Array, 16, true);
  #begins = new Growable(Uint32Array, 16, true);
  #forgotten = new Growable(Uint8Array);
  #bytes: Uint8Array = sharedArray(Uint8Array, openBytesMin);
  #length = 0;
  /** Rows of the open segment that are not forgotten. */
  #openCount = 0;

  /** @param frozen rows of a checkpoint; absent: none */
  constructor(frozen = new FrozenTermRows()) {
    this.#frozen = frozen;
  }

  /** Begins the row of a record, of a greater ordinal than all before. */
  begin(ordinal: number): void {
    invariant(ordinal > this.#last, `the row of ordinal ${ordinal} follows that of ${this.#last}`);
    this.#ordinals.push(ordinal);
    this.#begins.push(this.#length);
    this.#forgotten.push(0);
    this.#openCount++;
  }

  /** Ensures room for the given number of numbers. */
  reserve(numbers: number): void {
    const needed = this.#length + numberBytesMax * numbers;
    if (needed > this.#bytes.length)
      this.#bytes = grownShared(Uint8Array, this.#bytes, Math.max(2 * this.#bytes.length, needed));
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
    if (ordinal <= this.#frozen.last) {
      this.#frozen.delete(ordinal);
      return;
    }
    const row = placeIn(this.#ordinals.values, this.#ordinals.length, ordinal);
    if (row < 0 || this.#forgotten.values[row] === 1) return;
    this.#forgotten.values[row] = 1;
    this.#openCount--;
  }

  /** The row of a record; undefined if it has none. */
  of(ordinal: number): Row | undefined {
    if (ordinal <= this.#frozen.last) return this.#frozen.of(ordinal);
    const row = placeIn(this.#ordinals.values, this.#ordinals.length, ordinal);
    if (row < 0 || this.#forgotten.values[row] === 1) return undefined;
    const end = row + 1 < this.#begins.length ? this.#begins.values[row + 1] : this.#length;
    return { bytes: this.#bytes, begin: this.#begins.values[row], end };
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
    this.#frozen.append({
      ordinals: this.#ordinals.values.subarray(0, rows),
      begins: this.#begins.values.subarray(0, rows + 1),
      forgotten: this.#forgotten.values,
      bytes: this.#bytes,
    });
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
    this.#openCount = 0;
    for (let row = first; row < ordinals.length; row++) {
      this.#ordinals.push(ordinals.values[row]);
      this.#begins.push(begins.values[row] - from);
      this.#forgotten.push(forgotten.values[row]);
      this.#openCount += 1 - forgotten.values[row];
    }
    this.#bytes = sharedArray(Uint8Array, Math.max(openBytesMin, bytes.length));
    this.#bytes.set(bytes);
    this.#length = bytes.length;
  }

  /** What another thread needs to read the rows that there are now, those that are forgotten included. */
  get shared(): SharedTermRows {
    return {
      segments: this.#frozen.shared,
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
    const open = columns.reduce((sum, column) => sum + column.memoryBytes, this.#bytes.length);
    return open + this.#frozen.memoryBytes;
  }

  /** The value if all rows were frozen. */
  get restoredBytes(): number {
    return this.#length + 9 * this.#ordinals.length + this.#frozen.memoryBytes;
  }

  close(): void {
    this.#frozen.close();
    this.#begins.push(this.#length);
    this.#reopen(this.#ordinals.length);
  }

  /** What a checkpoint stores of the records with ordinals below `end`, all of which are frozen: the state and the bytes. */
  save(end: number): { state: TermRowsState; images: Uint8Array[] } {
    return this.#frozen.save(end);
  }

  /** Every row that was not removed. */
  *all(): Generator<Row> {
    yield* this.#frozen.all();
    for (let row = 0; row < this.#ordinals.length; row++) {
      const found = this.#forgotten.values[row] === 0 ? this.of(this.#ordinals.values[row]) : undefined;
      if (found !== undefined) yield found;
    }
  }

  /** Verifies that the given number of records have rows, and that segments and their rows ascend. */
  check(records: number): void {
    const count = this.#frozen.count + this.#openCount;
    invariant(count === records, `${count} of ${records} records have rows`);
    this.#frozen.check();
    const ordinals = this.#ordinals.values.subarray(0, this.#ordinals.length);
    const living = checkRows(ordinals, this.#forgotten.values, this.#frozen.last);
    invariant(living === this.#openCount, `there are ${living} open rows, not ${this.#openCount}`);
  }

  get #last(): number {
    const { length, values } = this.#ordinals;
    return length > 0 ? values[length - 1] : this.#frozen.last;
  }
}
