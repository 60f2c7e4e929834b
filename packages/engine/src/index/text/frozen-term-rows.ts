// How are rows stored that do not change any more?
//
// In segments by ascending ordinals (term-rows-reader.ts has their layout). A row that is removed is only marked. When more than half of a
// segment's rows are removed, the rest is rewritten, together with the rest of the segment before it if both are small.

import { invariant } from "../../base/invariant.ts";
import {
  blockOf,
  columnsOf,
  placeIn,
  type Row,
  type RowColumns,
  type RowSegment,
  segmentOf,
} from "./term-rows-reader.ts";

/** The most rows and bytes of a joined segment. */
const joinedRowsMax = 8_192;
const joinedBytesMax = 2 ** 22;

/** Of a segment, besides its columns. */
const segmentBytes = 600;

/** Rows, and which of them were forgotten. */
type MarkedTermRows = RowColumns & {
  /** By row, 1: it was forgotten. */
  readonly forgotten: Uint8Array;
};

type Segment = RowSegment & {
  readonly columns: RowColumns;
  readonly forgotten: Uint8Array;
  forgottenCount: number;
};

/** What a checkpoint stores of a segment, besides its bytes. */
type SegmentState = Omit<MarkedTermRows, "bytes"> & { readonly byteCount: number };

export type TermRowsState = { readonly segments: readonly SegmentState[] };

/** Allocates the bytes of rows of a checkpoint. */
export function imagesFor({ segments }: TermRowsState): Uint8Array[] {
  return segments.map(({ ordinals, byteCount }) => blockOf(ordinals.length, byteCount).bytes);
}

export class FrozenTermRows {
  /** By ascending ordinals. */
  readonly segments: Segment[] = [];
  /** Rows that are not forgotten. */
  #count = 0;

  /** Restores rows from a checkpoint. @param images from `imagesFor`, filled from a checkpoint; the new object owns them */
  static restored({ segments }: TermRowsState, images: readonly Uint8Array[]): FrozenTermRows {
    const rows = new FrozenTermRows();
    for (const [i, { ordinals, begins, forgotten }] of segments.entries()) {
      const columns = columnsOf(images[i].buffer as SharedArrayBuffer, ordinals.length);
      invariant(
        begins.length === ordinals.length + 1 && forgotten.length === ordinals.length,
        `${ordinals.length} rows have ${begins.length} bounds and ${forgotten.length} marks`,
      );
      invariant(ordinals[0] > rows.last, `rows from ${ordinals[0]} on follow those up to ${rows.last}`);
      columns.ordinals.set(ordinals);
      columns.begins.set(begins);
      const segment = segmentFrom(columns, forgotten);
      rows.#count += livingCount(segment);
      rows.segments.push(segment);
    }
    return rows;
  }

  /** Rows that are not forgotten. */
  get count(): number {
    return this.#count;
  }

  /** The greatest ordinal that has a row, which may be forgotten; -1 for none. */
  get last(): number {
    return this.segments.at(-1)?.last ?? -1;
  }

  /** Appends copies of rows of greater ordinals, those that are forgotten left out. */
  append(rows: MarkedTermRows): void {
    const frozen = livingOf([rows]);
    invariant(
      frozen.rows === 0 || frozen.columns.ordinals[0] > this.last,
      () => `rows from ${frozen.columns.ordinals[0]} on are frozen after ${this.last}`,
    );
    if (frozen.rows > 0) this.segments.push(frozen);
    this.#count += frozen.rows;
  }

  /** Forgets a record's row. */
  delete(ordinal: number): void {
    const segment = segmentOf(this.segments, ordinal);
    if (segment === undefined) return;
    const row = placeIn(segment.columns.ordinals, segment.rows, ordinal);
    if (row < 0 || segment.forgotten[row] === 1) return;
    segment.forgotten[row] = 1;
    segment.forgottenCount++;
    this.#count--;
    if (2 * segment.forgottenCount > segment.rows) this.#closeUp(segment);
  }

  /** Rewrites the remaining rows of a segment, together with those of the previous one if both are small. */
  #closeUp(segment: Segment): void {
    const at = this.segments.indexOf(segment);
    const before = this.segments[at - 1];
    const isJoined =
      before !== undefined &&
      livingCount(before) + livingCount(segment) <= joinedRowsMax &&
      before.columns.bytes.length + segment.columns.bytes.length <= joinedBytesMax;
    const sources = isJoined ? [before, segment] : [segment];
    const made = livingOf(sources.map(({ columns, forgotten }) => ({ ...columns, forgotten })));
    const living = sources.reduce((sum, source) => sum + livingCount(source), 0);
    invariant(made.rows === living, `${made.rows} of ${living} rows are kept`);
    const first = isJoined ? at - 1 : at;
    this.segments.splice(first, sources.length, ...(made.rows > 0 ? [made] : []));
  }

  /** What another thread needs to read the segments that there are now. */
  get shared(): readonly RowSegment[] {
    return this.segments.map(({ block, rows, last }) => ({ block, rows, last }));
  }

  get memoryBytes(): number {
    return this.segments.reduce((sum, segment) => sum + segmentBytes + bytesOf(segment), 0);
  }

  close(): void {
    this.segments.length = 0;
    this.#count = 0;
  }

  /** What a checkpoint stores of the records with ordinals below `end`: the state and the bytes. */
  save(end: number): { state: TermRowsState; images: Uint8Array[] } {
    const kept = this.segments.filter(({ last }) => last < end);
    const segments = kept.map(({ columns: { ordinals, begins, bytes }, forgotten }) => ({
      ordinals: ordinals.slice(),
      begins: begins.slice(),
      forgotten: forgotten.slice(),
      byteCount: bytes.length,
    }));
    return { state: { segments }, images: kept.map(({ columns }) => columns.bytes) };
  }

  /** Every row that was not forgotten. */
  *all(): Generator<Row> {
    for (const { columns, forgotten } of this.segments) {
      const { ordinals, begins, bytes } = columns;
      for (let row = 0; row < ordinals.length; row++)
        if (forgotten[row] === 0) yield { bytes, begin: begins[row], end: begins[row + 1] };
    }
  }

  /** Verifies that segments and their rows ascend, and how many there are. */
  check(): void {
    let living = 0;
    let last = -1;
    for (const { columns, forgotten, last: lastOfSegment } of this.segments) {
      const { ordinals, begins, bytes } = columns;
      living += checkRows(ordinals, forgotten, last);
      last = lastOfSegment;
      invariant(begins[ordinals.length] === bytes.length, `a segment's rows do not end with its bytes`);
    }
    invariant(living === this.#count, `there are ${living} frozen rows, not ${this.#count}`);
  }
}

/** Verifies that the ordinals of rows ascend from after `last`; returns how many are not forgotten. */
export function checkRows(ordinals: Uint32Array, forgotten: Uint8Array, last: number): number {
  let living = 0;
  for (let row = 0, before = last; row < ordinals.length; before = ordinals[row++]) {
    invariant(ordinals[row] > before, `the row of ordinal ${ordinals[row]} follows that of ${before}`);
    living += 1 - forgotten[row];
  }
  return living;
}

const livingCount = ({ rows, forgottenCount }: Segment): number => rows - forgottenCount;

const bytesOf = ({ columns: { ordinals, begins, bytes }, forgotten }: Segment): number =>
  ordinals.byteLength + begins.byteLength + forgotten.byteLength + bytes.length;

/** @param forgotten kept */
function segmentFrom(columns: RowColumns, forgotten: Uint8Array): Segment {
  const { ordinals } = columns;
  return {
    block: ordinals.buffer as SharedArrayBuffer,
    rows: ordinals.length,
    last: ordinals[ordinals.length - 1],
    columns,
    forgotten,
    forgottenCount: forgotten.reduce((sum, flag) => sum + flag, 0),
  };
}

/** A segment of the rows of others that are not forgotten. */
function livingOf(sources: readonly MarkedTermRows[]): Segment {
  let rows = 0;
  let length = 0;
  for (const { ordinals, begins, forgotten } of sources)
    for (let row = 0; row < ordinals.length; row++) {
      if (forgotten[row] === 1) continue;
      rows++;
      length += begins[row + 1] - begins[row];
    }
  const made = blockOf(rows, length);
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
  return segmentFrom(made, new Uint8Array(rows));
}
