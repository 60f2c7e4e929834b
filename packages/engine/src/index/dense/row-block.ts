// Where do rows of vectors lie?
//
// In one shared WebAssembly memory, where the kernels read them, behind a scratch memory for each thread that may search, for one search
// at a time:
//
//   0            outAt                      scratchBytes          rowsAt                              memory's end
//   | query f32  | kernel values f32 x 1024 | the next thread's ... | row 0 | row 1 | ... | row `length` - 1 | unused |
//
// A row is the vector's f32 values, padded with zeros to whole SIMD registers. Beside the memory, in chunks of 1,024
// rows in shared memory, stand each row's ordinal, its factor (see vector/metric) and its state. A part has one chunk or several, up to 64:
// each costs a thread that attaches a fraction of a microsecond. Rows are added at the end, and stay as they are; states change. The memory
// grows by an eighth. Pages that were never written take no physical memory.
//
// Another thread attaches to the rows that are there (`shared`, `attach`). Owner and reader share the layout, so both are in this file.
//
// Invariants: length <= capacity; every row below length fits the memory; padding is zero.

import {
  instantiate,
  type KernelName,
  type Kernels,
  padded,
  pageBytes,
  pagesMax,
} from "@quiverdb/kernels/loader";
import { invariant } from "../../base/invariant.ts";
import { attachOnce, nextMemoryId } from "../../base/shared-memory.ts";

/** Rows whose kernel values are computed by one call. */
export const chunkRows = 1_024;
const chunkBits = 10;

/** Rows whose exact sums are computed by one call: their addresses and sums fit where kernel values go. */
export const sumsRows = 128;

/** Bytes to which rows and scratch are aligned: two cache lines. */
const alignment = 128;
const align = (bytes: number): number => Math.ceil(bytes / alignment) * alignment;

/** Where everything lies in a block of vectors of this dimension, and how many rows fit. */
export type BlockLayout = {
  readonly dimension: number;
  readonly dimensionPadded: number;
  readonly rowBytes: number;
  readonly outAt: number;
  /** Of the scratch memory of one thread, and how many there are. */
  readonly scratchBytes: number;
  readonly scratchCount: number;
  readonly rowsAt: number;
  /** Rows of a full block: 2 to the power of `rowBits`, so that the number of a row among all blocks is taken apart by shifts. */
  readonly capacity: number;
  readonly rowBits: number;
  readonly pagesMax: number;
};

/** Lays a block of at most `bytesMax` bytes out, which hold the scratch memories and one row at least. */
export function layOutBlock(dimension: number, bytesMax: number, scratchCount = 1): BlockLayout {
  const dimensionPadded = padded(dimension);
  const rowBytes = 4 * dimensionPadded;
  const outAt = align(rowBytes);
  const scratchBytes = align(outAt + 4 * chunkRows);
  const rowsAt = scratchBytes * scratchCount;
  const pages = Math.min(pagesMax, Math.floor(bytesMax / pageBytes));
  const rows = Math.floor((pages * pageBytes - rowsAt) / rowBytes);
  invariant(rows >= 1, `a block of ${bytesMax} bytes holds no vector of dimension ${dimension}`);
  const rowBits = Math.floor(Math.log2(rows));
  return {
    dimension,
    dimensionPadded,
    rowBytes,
    outAt,
    scratchBytes,
    scratchCount,
    rowsAt,
    capacity: 2 ** rowBits,
    rowBits,
    pagesMax: pages,
  };
}

/** Of the factors, ordinals and states of a chunk. */
const chunkBytes = chunkRows * (8 + 4 + 1);
const chunksFor = (rows: number): number => Math.ceil(rows / chunkRows);

/** Chunks of a part that is added to so many: as many again. What is never written takes no physical memory. */
const partMax = 64;
const chunksOfPart = (before: number): number => Math.min(partMax, Math.max(1, before));

/** Bytes of a block with the given number of rows. */
export const blockBytesOf = ({ rowsAt, rowBytes }: BlockLayout, rows: number): number =>
  rowsAt + rows * rowBytes + chunksFor(rows) * chunkBytes + 200;

/** States of rows (vector-rows.ts): no graph has the vector, those that serve have it, no version sees it. */
export const waiting = 0;
export const linked = 1;
export const removed = 2;

/** What a thread needs to search the rows of a block that another thread owns. Can be posted to it. */
export type SharedBlock = {
  readonly id: number;
  readonly layout: BlockLayout;
  readonly memory: WebAssembly.Memory;
  /** Factors, ordinals and states of the rows. */
  readonly parts: readonly SharedArrayBuffer[];
  readonly length: number;
};

export class Block {
  readonly layout: BlockLayout;
  readonly #id = nextMemoryId();
  readonly #parts: SharedArrayBuffer[] = [];
  /** Ordinals, factors and states of the rows, in chunks of `chunkRows`. */
  readonly ordinals: Uint32Array[] = [];
  readonly factors: Float64Array[] = [];
  readonly states: Uint8Array[] = [];
  length = 0;
  /** The whole memory as floats and as bytes; replaced when it grows. */
  floats!: Float32Array;
  bytes!: Uint8Array;
  /** Where the kernel for exact sums finds rows and leaves sums: in place of kernel values. */
  #addresses!: Uint32Array;
  #sums!: Float64Array;
  readonly #memory: WebAssembly.Memory;
  readonly #kernels: Kernels;
  /** Where the scratch memory of this thread lies. */
  readonly #scratch: number;

  /** Makes a block, or, with `memory`, attaches to one of this layout. @param number of this thread's scratch memory */
  constructor(layout: BlockLayout, number = 0, memory?: WebAssembly.Memory) {
    invariant(
      number >= 0 && number < layout.scratchCount,
      `scratch memory ${number} of a block that has ${layout.scratchCount}`,
    );
    this.layout = layout;
    this.#scratch = number * layout.scratchBytes;
    this.#memory = memory ?? memoryFor(layout);
    this.#kernels = instantiate(this.#memory);
    this.#view();
  }

  get shared(): SharedBlock {
    return {
      id: this.#id,
      layout: this.layout,
      memory: this.#memory,
      parts: [...this.#parts],
      length: this.length,
    };
  }

  /** The block of another thread, in which this one works in the scratch memory of the given number. */
  static attach({ id, layout, memory, parts, length }: SharedBlock, number: number): Block {
    const block = attachOnce(id, number, () => new Block(layout, number, memory));
    for (const part of parts.slice(block.#parts.length)) block.#addPart(part);
    block.length = Math.max(block.length, length);
    // Growing by nothing tells this thread of what the owner has grown.
    if (layout.rowsAt + length * layout.rowBytes > block.bytes.byteLength) block.#memory.grow(0);
    block.#view();
    invariant(
      block.states.length * chunkRows >= length,
      () => `${length} rows were described with room for ${block.states.length * chunkRows}`,
    );
    invariant(
      layout.rowsAt + length * layout.rowBytes <= block.bytes.byteLength,
      () => `${length} rows were described, of which ${block.bytes.byteLength} bytes are seen`,
    );
    return block;
  }

  /** What the memory has grown by beyond the rows was never written, so the system gives no pages for it. */
  get memoryBytes(): number {
    return blockBytesOf(this.layout, this.length);
  }

  /** Where a row begins, in floats. */
  rowAt(row: number): number {
    return (this.layout.rowsAt + row * this.layout.rowBytes) / 4;
  }

  ordinalOf(row: number): number {
    return this.ordinals[row >>> chunkBits][row & (chunkRows - 1)];
  }

  factorOf(row: number): number {
    return this.factors[Math.floor(row / chunkRows)][row % chunkRows];
  }

  stateOf(row: number): number {
    return this.states[Math.floor(row / chunkRows)][row % chunkRows];
  }

  setState(row: number, state: number): void {
    invariant(row >= 0 && row < this.length, () => `row ${row} of ${this.length} gets the state ${state}`);
    this.states[Math.floor(row / chunkRows)][row % chunkRows] = state;
  }

  /** The bytes of a row, with its padding: a view. */
  rowBytesOf(row: number): Uint8Array {
    const at = this.layout.rowsAt + row * this.layout.rowBytes;
    return this.bytes.subarray(at, at + this.layout.rowBytes);
  }

  /** Makes a row at the end, which waits, from little-endian f32 bytes, which are copied, and returns its number. */
  push(ordinal: number, values: Uint8Array, factor: number): number {
    const row = this.length;
    invariant(row < this.layout.capacity, "a row is added to a full block");
    invariant(
      row === 0 || ordinal > this.ordinalOf(row - 1),
      () => `the row of ${ordinal} follows that of ${this.ordinalOf(row - 1)}`,
    );
    this.#reserve(row + 1);
    this.bytes.set(values, this.layout.rowsAt + row * this.layout.rowBytes);
    const [chunk, place] = [Math.floor(row / chunkRows), row % chunkRows];
    if (this.ordinals.length === chunk)
      this.#addPart(new SharedArrayBuffer(chunksOfPart(chunk) * chunkBytes));
    this.ordinals[chunk][place] = ordinal;
    this.factors[chunk][place] = factor;
    this.length++;
    return row;
  }

  /** Forgets all rows; their memory is used again. No other thread may have attached to them. */
  clear(): void {
    for (const states of this.states) states.fill(waiting);
    this.length = 0;
  }

  #addPart(part: SharedArrayBuffer): void {
    this.#parts.push(part);
    for (let at = 0; at < part.byteLength; at += chunkBytes) {
      this.factors.push(new Float64Array(part, at, chunkRows));
      this.ordinals.push(new Uint32Array(part, at + 8 * chunkRows, chunkRows));
      this.states.push(new Uint8Array(part, at + 12 * chunkRows, chunkRows));
    }
  }

  /** Puts the query where the kernels find it. */
  setQuery(query: Float32Array): void {
    const { dimension } = this.layout;
    invariant(query.length === dimension, () => `a query has ${query.length} values instead of ${dimension}`);
    this.floats.set(query, this.#scratch / 4);
  }

  /** Computes the kernel values of the `count` rows from `row` on; the answer is a view that the next call overwrites. */
  kernelValues(kernel: KernelName, row: number, count: number): Float32Array {
    const { rowsAt, rowBytes, dimensionPadded, outAt } = this.layout;
    invariant(
      count <= chunkRows && row + count <= this.length,
      () => `${count} rows from ${row} on are compared, of ${this.length}`,
    );
    const at = this.#scratch + outAt;
    this.#kernels[kernel](this.#scratch, rowsAt + row * rowBytes, count, dimensionPadded, at);
    return this.floats.subarray(at / 4, at / 4 + count);
  }

  /**
   * Exact sums of the first `count` of some rows, `sumsRows` at most, two each (kernels/assembly/exact-sums.ts); a view that the
   * next call overwrites.
   */
  exactSums(rows: Uint32Array, count: number, kind: 0 | 1): Float64Array {
    const { rowsAt, rowBytes, outAt, dimension } = this.layout;
    invariant(count <= sumsRows, () => `the sums of ${count} rows are asked for, of ${sumsRows} at most`);
    const addresses = this.#addresses;
    for (let i = 0; i < count; i++) addresses[i] = rowsAt + rows[i] * rowBytes;
    const at = this.#scratch + outAt;
    this.#kernels.exactSums(this.#scratch, at, count, dimension, kind, at + 4 * sumsRows);
    return this.#sums;
  }

  #reserve(rows: number): void {
    const needed = this.layout.rowsAt + rows * this.layout.rowBytes;
    if (needed <= this.bytes.byteLength) return;
    const pages = this.bytes.byteLength / pageBytes;
    const wanted = Math.max(Math.ceil(needed / pageBytes), Math.floor(pages * 1.125));
    this.#memory.grow(Math.min(wanted, this.layout.pagesMax) - pages);
    this.#view();
  }

  #view(): void {
    const { buffer } = this.#memory;
    const at = this.#scratch + this.layout.outAt;
    this.bytes = new Uint8Array(buffer);
    this.floats = new Float32Array(buffer);
    this.#addresses = new Uint32Array(buffer, at, sumsRows);
    this.#sums = new Float64Array(buffer, at + 4 * sumsRows, 2 * sumsRows);
  }
}

/** A memory for one row, that can grow to the layout's limit. */
const memoryFor = ({ rowsAt, rowBytes, pagesMax }: BlockLayout): WebAssembly.Memory =>
  new WebAssembly.Memory({
    initial: Math.ceil((rowsAt + rowBytes) / pageBytes),
    maximum: pagesMax,
    shared: true,
  });
