// How are the rows of records read (term-rows.ts), in any thread?
//
// A frozen segment is one piece of shared memory:
//
//   ordinals u32, ascending | where each row begins, and at last where the bytes end, u32 | bytes
//
// The writer reads the rows that there are. Other threads are told where the rows were at a moment. Rows that are forgotten later are there
// for them: whether a record counts is decided by what the searched version sees.

import type { Column } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import { firstFrom } from "../ordinal-sets.ts";

/** A row: bytes of a segment; borrowed until the rows change. */
export type Row = { readonly bytes: Uint8Array; readonly begin: number; readonly end: number };

/** The parts of a segment. */
export type RowColumns = {
  readonly ordinals: Uint32Array;
  readonly begins: Uint32Array;
  readonly bytes: Uint8Array;
};

/** A frozen segment. */
export type RowSegment = {
  readonly block: SharedArrayBuffer;
  readonly rows: number;
  /** The greatest ordinal. */
  readonly last: number;
  /** Made when one of its rows is read first. */
  columns?: RowColumns;
  /** By row, 1: it was forgotten. Absent: nobody has told this thread of any. */
  readonly forgotten?: Uint8Array;
};

/** Rows, as they are, or as they were at a moment: then they can be posted to another thread. */
export type Rows = {
  /** By ascending ordinals. */
  readonly segments: readonly RowSegment[];
  /** Those of greater ordinals. */
  readonly open: {
    readonly ordinals: Column;
    readonly begins: { readonly values: Uint32Array };
    readonly forgotten?: { readonly values: Uint8Array };
    readonly bytes: Uint8Array;
    /** Bytes in use. */
    readonly length: number;
  };
};

/** The parts of a segment of so many rows. */
export const columnsOf = (block: SharedArrayBuffer, rows: number): RowColumns => ({
  ordinals: new Uint32Array(block, 0, rows),
  begins: new Uint32Array(block, 4 * rows, rows + 1),
  bytes: new Uint8Array(block, 8 * rows + 4),
});

/** Room for a segment of so many rows and bytes. */
export const blockOf = (rows: number, bytes: number): RowColumns =>
  columnsOf(new SharedArrayBuffer(8 * rows + 4 + bytes), rows);

/** Rows, for reading. */
export class TermRowsReader {
  protected readonly segments: Rows["segments"];
  protected readonly open: Rows["open"];

  constructor({ segments, open }: Rows) {
    this.segments = segments;
    this.open = open;
    const { ordinals, bytes, length } = open;
    const last = segments.at(-1)?.last ?? -1;
    invariant(
      ordinals.length === 0 || ordinals.values[0] > last,
      () => `the open rows begin with ordinal ${ordinals.values[0]}, after ${last}`,
    );
    invariant(length <= bytes.length, () => `open rows end at ${length} of ${bytes.length} bytes`);
  }

  /** The row of a record; undefined where it has none. */
  of(ordinal: number): Row | undefined {
    const segment = segmentOf(this.segments, ordinal);
    if (segment !== undefined) {
      const { ordinals, begins, bytes } = columnsIn(segment);
      const row = placeIn(ordinals, ordinals.length, ordinal);
      if (row < 0 || segment.forgotten?.[row] === 1) return undefined;
      return { bytes, begin: begins[row], end: begins[row + 1] };
    }
    const { ordinals, begins, forgotten, bytes, length } = this.open;
    const row = placeIn(ordinals.values, ordinals.length, ordinal);
    if (row < 0 || forgotten?.values[row] === 1) return undefined;
    const end = row + 1 < ordinals.length ? begins.values[row + 1] : length;
    return { bytes, begin: begins.values[row], end };
  }
}

function columnsIn(segment: RowSegment): RowColumns {
  if (segment.columns !== undefined) return segment.columns;
  const columns = columnsOf(segment.block, segment.rows);
  invariant(
    columns.ordinals[segment.rows - 1] === segment.last &&
      columns.begins[segment.rows] === columns.bytes.length,
    () => `a segment of rows up to ${segment.last} ends with ${columns.ordinals[segment.rows - 1]}`,
  );
  segment.columns = columns;
  return columns;
}

/** The segment whose range ends with an ordinal or later; undefined where none does. */
export function segmentOf<Segment extends RowSegment>(
  segments: readonly Segment[],
  ordinal: number,
): Segment | undefined {
  let low = 0;
  let high = segments.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (segments[middle].last < ordinal) low = middle + 1;
    else high = middle;
  }
  return segments[low];
}

/** The place of a value among the first `count` ascending ones, or -1. */
export function placeIn(values: Uint32Array, count: number, value: number): number {
  const place = firstFrom(values, value, count);
  return place < count && values[place] === value ? place : -1;
}

/** Reads the numbers of a row one after another. */
export class RowReader {
  at: number;
  readonly #bytes: Uint8Array;
  readonly #end: number;

  constructor({ bytes, begin, end }: Row) {
    this.#bytes = bytes;
    this.at = begin;
    this.#end = end;
  }

  get isAtEnd(): boolean {
    return this.at >= this.#end;
  }

  read(): number {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = this.#bytes[this.at++];
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value >>> 0;
    }
  }

  skip(bytes: number): void {
    this.at += bytes;
  }
}

/** Bytes of a number in a row. */
export function widthOf(value: number): number {
  return value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x20_0000 ? 3 : value < 0x1000_0000 ? 4 : 5;
}
