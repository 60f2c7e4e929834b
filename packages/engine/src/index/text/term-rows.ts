// What does an index store for each record, besides its postings?
//
// A row of numbers for each record: where it has its terms (positions.ts), or which forms its words have (forms.ts). Numbers are
// varints: seven bits a byte, the lowest first, 0x80 where more follow.
//
// Rows are stored one after the other in *segments*, by ascending ordinals. The last one is open; `freeze` closes it (frozen-term-rows.ts), and
// from then on its bytes never change: another thread writes a checkpoint straight from them.
//
// All threads read rows through term-rows-reader.ts, other ones than the writer's as they were at a moment. So ordinals, beginnings and bytes
// lie in shared memory, those of a frozen segment in one piece, and what is written is never moved or overwritten: what grows or shrinks
// is replaced.

import { Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import { grownShared, sharedArray } from "../../base/shared-memory.ts";
import { firstFrom } from "../ordinal-sets.ts";
import { checkRows, FrozenTermRows, type TermRowsState } from "./frozen-term-rows.ts";
import { placeIn, type Row, type Rows, TermRowsReader } from "./term-rows-reader.ts";

/** Bytes at which the open segment is closed. */
const openBytesMax = 2 ** 26;

/** Of a number, as a varint. */
const numberBytesMax = 5;

/** Bytes of an empty open segment. */
const openBytesMin = 256;

/** The open segment. Of a row that was forgotten the ordinal stays. */
type OpenRows = {
  ordinals: Growable<Uint32Array>;
  begins: Growable<Uint32Array>;
  forgotten: Growable<Uint8Array>;
  bytes: Uint8Array;
  length: number;
};

const openRows = (rows: number, bytes: number): OpenRows => ({
  ordinals: new Growable(Uint32Array, rows, true),
  begins: new Growable(Uint32Array, rows, true),
  forgotten: new Growable(Uint8Array, rows),
  bytes: sharedArray(Uint8Array, Math.max(openBytesMin, bytes)),
  length: 0,
});

export class TermRows extends TermRowsReader {
  declare protected readonly open: OpenRows;
  readonly #frozen: FrozenTermRows;
  /** Rows of the open segment that are not forgotten. */
  #openCount = 0;

  /** @param frozen rows of a checkpoint; absent: none */
  constructor(frozen = new FrozenTermRows()) {
    super({ segments: frozen.segments, open: openRows(16, 0) });
    this.#frozen = frozen;
  }

  /** Begins the row of a record, of a greater ordinal than all before. */
  begin(ordinal: number): void {
    invariant(ordinal > this.#last, `the row of ordinal ${ordinal} follows that of ${this.#last}`);
    const { open } = this;
    open.ordinals.push(ordinal);
    open.begins.push(open.length);
    open.forgotten.push(0);
    this.#openCount++;
  }

  /** Ensures room for the given number of numbers. */
  reserve(numbers: number): void {
    const { open } = this;
    const needed = open.length + numberBytesMax * numbers;
    if (needed > open.bytes.length)
      open.bytes = grownShared(Uint8Array, open.bytes, Math.max(2 * open.bytes.length, needed));
  }

  /** Writes the first `count` numbers at the end of the row that was begun. */
  writeAll(numbers: Uint32Array, count: number): void {
    this.reserve(count);
    const { open } = this;
    invariant(open.ordinals.length > 0, "numbers are written before a row is begun");
    const { bytes } = open;
    let at = open.length;
    for (let i = 0; i < count; i++) {
      let rest = numbers[i];
      for (; rest > 0x7f; rest >>>= 7) bytes[at++] = (rest & 0x7f) | 0x80;
      bytes[at++] = rest;
    }
    open.length = at;
  }

  /** Appends a number below 2^32 to the current row; there must be room. */
  write(value: number): void {
    const { open } = this;
    let rest = value;
    for (; rest > 0x7f; rest >>>= 7) open.bytes[open.length++] = (rest & 0x7f) | 0x80;
    open.bytes[open.length++] = rest;
  }

  /** Forgets a record's row. */
  delete(ordinal: number): void {
    if (ordinal <= this.#frozen.last) {
      this.#frozen.delete(ordinal);
      return;
    }
    const { ordinals, forgotten } = this.open;
    const row = placeIn(ordinals.values, ordinals.length, ordinal);
    if (row < 0 || forgotten.values[row] === 1) return;
    forgotten.values[row] = 1;
    this.#openCount--;
  }

  /** Whether the open segment is to be closed. */
  get isFull(): boolean {
    return this.open.length > openBytesMax;
  }

  /** Freezes the open segment's rows of ordinals below `end`: from now on a checkpoint can contain them. */
  freeze(end: number): void {
    const { ordinals, begins, forgotten, bytes, length } = this.open;
    if (ordinals.length === 0 || ordinals.values[0] >= end) return;
    invariant(
      begins.length === ordinals.length && begins.values[begins.length - 1] <= length,
      () => `${ordinals.length} rows have ${begins.length} beginnings, in ${length} bytes`,
    );
    begins.push(length);
    const rows = firstFrom(ordinals.values, end, ordinals.length);
    this.#frozen.append({
      ordinals: ordinals.values.subarray(0, rows),
      begins: begins.values.subarray(0, rows + 1),
      forgotten: forgotten.values,
      bytes,
    });
    this.#reopen(rows);
  }

  /** Begins the open segment anew, with its rows from one on. */
  #reopen(first: number): void {
    const { ordinals, begins, forgotten, bytes, length } = this.open;
    const from = begins.values[first];
    const open = openRows(ordinals.length - first, length - from);
    this.#openCount = 0;
    for (let row = first; row < ordinals.length; row++) {
      open.ordinals.push(ordinals.values[row]);
      open.begins.push(begins.values[row] - from);
      open.forgotten.push(forgotten.values[row]);
      this.#openCount += 1 - forgotten.values[row];
    }
    open.bytes.set(bytes.subarray(from, length));
    open.length = length - from;
    invariant(
      open.begins.length === 0 || open.begins.values[0] === 0,
      () => `the open rows begin at ${open.begins.values[0]}`,
    );
    Object.assign(this.open, open);
  }

  /** What another thread needs to read the rows that there are now, those that are forgotten included. */
  get shared(): Rows {
    const { ordinals, begins, bytes, length } = this.open;
    const open = { ordinals: ordinals.column, begins: { values: begins.values }, bytes, length };
    return { segments: this.#frozen.shared, open };
  }

  get memoryBytes(): number {
    const { ordinals, begins, forgotten, bytes } = this.open;
    const columns = [ordinals, begins, forgotten];
    const open = columns.reduce((sum, column) => sum + column.memoryBytes, bytes.length);
    return open + this.#frozen.memoryBytes;
  }

  /** The value if all rows were frozen. */
  get restoredBytes(): number {
    return this.open.length + 9 * this.open.ordinals.length + this.#frozen.memoryBytes;
  }

  close(): void {
    this.#frozen.close();
    this.open.begins.push(this.open.length);
    this.#reopen(this.open.ordinals.length);
  }

  /** What a checkpoint stores of the records with ordinals below `end`, all of which are frozen: the state and the bytes. */
  save(end: number): { state: TermRowsState; images: Uint8Array[] } {
    const { ordinals } = this.open;
    invariant(
      ordinals.length === 0 || ordinals.values[0] >= end,
      `a checkpoint up to ${end} leaves out the open row of ${ordinals.values[0]}`,
    );
    return this.#frozen.save(end);
  }

  /** Every row that was not removed. */
  *all(): Generator<Row> {
    yield* this.#frozen.all();
    const { ordinals, forgotten } = this.open;
    for (let row = 0; row < ordinals.length; row++) {
      const found = forgotten.values[row] === 0 ? this.of(ordinals.values[row]) : undefined;
      if (found !== undefined) yield found;
    }
  }

  /** Verifies that the given number of records have rows, and that segments and their rows ascend. */
  check(records: number): void {
    const count = this.#frozen.count + this.#openCount;
    invariant(count === records, `${count} of ${records} records have rows`);
    this.#frozen.check();
    const { ordinals, forgotten } = this.open;
    const added = ordinals.values.subarray(0, ordinals.length);
    const living = checkRows(added, forgotten.values, this.#frozen.last);
    invariant(living === this.#openCount, `there are ${living} open rows, not ${this.#openCount}`);
  }

  get #last(): number {
    const { length, values } = this.open.ordinals;
    return length > 0 ? values[length - 1] : this.#frozen.last;
  }
}
