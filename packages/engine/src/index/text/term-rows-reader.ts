// How are the rows of records read (term-rows.ts), in any thread?
//
// A frozen segment is one piece of shared memory:
//
//   ordinals u32, ascending | where each row begins, and at last where the bytes end, u32 | bytes
//
// A thread that reads the rows of another is told where they were at a moment. Rows that are forgotten later are there for it: whether
// a record counts is decided by what the searched version sees.

import type { Column } from "../../base/growable.ts";
import { firstFrom } from "../ordinal-sets.ts";

/** A row: bytes of a segment; borrowed until the rows change. */
export type Row = { readonly bytes: Uint8Array; readonly begin: number; readonly end: number };

export interface RowSource {
  /** The row of a record; undefined where it has none. */
  of(ordinal: number): Row | undefined;
}

/** The parts of a segment. */
export type RowColumns = {
  readonly ordinals: Uint32Array;
  readonly begins: Uint32Array;
  readonly bytes: Uint8Array;
};

/** Rows as they are at a moment. Can be posted to another thread. */
export type SharedTermRows = {
  /** By ascending ordinals. */
  readonly segments: readonly {
    readonly block: SharedArrayBuffer;
    readonly rows: number;
    readonly last: number;
  }[];
  readonly open: {
    readonly ordinals: Column;
    readonly begins: Uint32Array;
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

/** The rows of another thread. */
export class TermRowsReader implements RowSource {
  readonly #shared: SharedTermRows;
  readonly #columns = new Map<number, RowColumns>();

  constructor(shared: SharedTermRows) {
    this.#shared = shared;
  }

  of(ordinal: number): Row | undefined {
    const { segments, open } = this.#shared;
    let low = 0;
    let high = segments.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (segments[middle].last < ordinal) low = middle + 1;
      else high = middle;
    }
    if (low < segments.length) {
      const { ordinals, begins, bytes } = this.#columnsOf(low);
      const row = placeIn(ordinals, ordinals.length, ordinal);
      return row < 0 ? undefined : { bytes, begin: begins[row], end: begins[row + 1] };
    }
    const { ordinals, begins, bytes, length } = open;
    const row = placeIn(ordinals.values, ordinals.length, ordinal);
    if (row < 0) return undefined;
    return { bytes, begin: begins[row], end: row + 1 < ordinals.length ? begins[row + 1] : length };
  }

  #columnsOf(segment: number): RowColumns {
    const known = this.#columns.get(segment);
    if (known !== undefined) return known;
    const { block, rows } = this.#shared.segments[segment];
    const columns = columnsOf(block, rows);
    this.#columns.set(segment, columns);
    return columns;
  }
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
