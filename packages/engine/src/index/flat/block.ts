// Where do the rows of a flat index lie?
//
// In one shared WebAssembly memory, where the kernels read them, behind a scratch memory for each thread that may search, for one search
// at a time:
//
//   0            outAt                      scratchBytes          rowsAt                              memory's end
//   | query f32  | kernel values f32 x 1024 | the next thread's ... | row 0 | row 1 | ... | row `length` - 1 | unused |
//
// A row is the vector's f32 values, padded with zeros to whole SIMD registers. Beside the memory, in chunks of 1,024
// rows in shared memory, stand each row's ordinal, its factor (see vector/metric) and its state. A part has one chunk or several, up to 64:
// each costs a thread that attaches a fraction of a microsecond. Rows are dense: `moveLastTo` fills a gap
// with the last row. The memory grows by an eighth. Pages that were never written take no physical memory.
//
// Another thread attaches to the rows that are there (`shared`, `attach`). It may go on for as long as those are neither moved nor
// overwritten, which is up to who owns the block (index/hnsw/tail.ts): rows may be added, and states change. Owner and reader share the layout, so
// both are in this file.
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
import { attachOnce, nextMemoryId } from "../attached.ts";

/** Rows whose kernel values are computed by one call. */
export const chunkRows = 1_024;

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
  readonly capacity: number;
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
  const capacity = Math.floor((pages * pageBytes - rowsAt) / rowBytes);
  invariant(capacity >= 1, `a block of ${bytesMax} bytes holds no vector of dimension ${dimension}`);
  return {
    dimension,
    dimensionPadded,
    rowBytes,
    outAt,
    scratchBytes,
    scratchCount,
    rowsAt,
    capacity,
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

/** What a row is, for who owns the block; 0 when it is added. */
type State = 0 | 1 | 2;

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
  #id = nextMemoryId();
  readonly #parts: SharedArrayBuffer[] = [];
  /** Ordinals, factors and states of the rows, in chunks of `chunkRows`. */
  readonly ordinals: Uint32Array[] = [];
  readonly factors: Float64Array[] = [];
  readonly states: Uint8Array[] = [];
  length = 0;
  /** Rows that were ever there in this memory, and chunks that ever had some. */
  #touched = 0;
  #written = 0;
  /** The whole memory as floats and as bytes; replaced when it grows. */
  floats!: Float32Array;
  bytes!: Uint8Array;
  /** Where the kernel for exact sums finds rows and leaves sums: in place of kernel values. */
  #addresses!: Uint32Array;
  #sums!: Float64Array;
  #memory: WebAssembly.Memory;
  #kernels: Kernels;
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
    this.#memory = memory ?? memoryFor(layout, 0);
    this.#kernels = instantiate(this.#memory);
    this.#view();
  }

  /** Changes when the memory is exchanged, or a part is dropped: who has attached does not see what the owner writes from then on. */
  get id(): number {
    return this.#id;
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
    return block;
  }

  /** What the memory has grown by beyond the rows that were ever there was never written, so the system gives no pages for it. */
  get memoryBytes(): number {
    const unused = this.#written - chunksFor(this.#touched);
    return blockBytesOf(this.layout, this.#touched) + unused * chunkBytes;
  }

  /** Whether it has more memory than one that was just made. */
  get hasGrown(): boolean {
    return this.bytes.byteLength > pagesFor(this.layout, 0) * pageBytes;
  }

  /** Where a row begins, in floats. */
  rowAt(row: number): number {
    return (this.layout.rowsAt + row * this.layout.rowBytes) / 4;
  }

  ordinalOf(row: number): number {
    return this.ordinals[Math.floor(row / chunkRows)][row % chunkRows];
  }

  factorOf(row: number): number {
    return this.factors[Math.floor(row / chunkRows)][row % chunkRows];
  }

  stateOf(row: number): number {
    return this.states[Math.floor(row / chunkRows)][row % chunkRows];
  }

  setState(row: number, state: State): void {
    this.states[Math.floor(row / chunkRows)][row % chunkRows] = state;
  }

  /** Makes a row at the end from little-endian f32 bytes, which are copied, and returns its number. */
  push(ordinal: number, values: Uint8Array): number {
    const row = this.length;
    invariant(row < this.layout.capacity, "a row is added to a full block");
    this.#reserve(row + 1);
    const at = this.layout.rowsAt + row * this.layout.rowBytes;
    // The padding is zero already: rows only ever lay at multiples of the row's size.
    this.bytes.set(values, at);
    if (row % chunkRows === 0 && this.ordinals.length === row / chunkRows)
      this.#addPart(new SharedArrayBuffer(chunksOfPart(this.ordinals.length) * chunkBytes));
    this.ordinals[Math.floor(row / chunkRows)][row % chunkRows] = ordinal;
    this.setState(row, 0);
    this.length++;
    this.#touched = Math.max(this.#touched, this.length);
    this.#written = Math.max(this.#written, chunksFor(this.length));
    return row;
  }

  #addPart(part: SharedArrayBuffer): void {
    this.#parts.push(part);
    for (let at = 0; at < part.byteLength; at += chunkBytes) {
      this.factors.push(new Float64Array(part, at, chunkRows));
      this.ordinals.push(new Uint32Array(part, at + 8 * chunkRows, chunkRows));
      this.states.push(new Uint8Array(part, at + 12 * chunkRows, chunkRows));
    }
  }

  /** Drops the parts that begin behind so many chunks. */
  #keepChunks(count: number): void {
    for (let last = this.#parts.at(-1); last !== undefined; last = this.#parts.at(-1)) {
      const left = this.ordinals.length - last.byteLength / chunkBytes;
      if (left < count) return;
      this.#id = nextMemoryId();
      this.#parts.pop();
      for (const column of [this.factors, this.ordinals, this.states]) column.length = left;
      this.#written = Math.min(this.#written, left);
    }
  }

  setFactor(row: number, factor: number): void {
    this.factors[Math.floor(row / chunkRows)][row % chunkRows] = factor;
  }

  /** Copies this block's last row over row `row` of `target`, which may be this one. */
  moveLastTo(target: Block, row: number): void {
    const last = this.length - 1;
    const from = this.layout.rowsAt + last * this.layout.rowBytes;
    const values = this.bytes.subarray(from, from + this.layout.rowBytes);
    target.bytes.set(values, target.layout.rowsAt + row * target.layout.rowBytes);
    target.ordinals[Math.floor(row / chunkRows)][row % chunkRows] = this.ordinalOf(last);
    target.setFactor(row, this.factorOf(last));
  }

  /** Forgets the last row. Memory that is then mostly unused is exchanged for a smaller one. */
  pop(): void {
    this.length--;
    const chunks = Math.ceil(this.length / chunkRows);
    // One chunk more is kept, so that adding and removing at a boundary does not make and drop it each time.
    this.#keepChunks(chunks + 1);
    const { rowsAt, rowBytes } = this.layout;
    const usedBytes = rowsAt + this.length * rowBytes;
    const isMostlyUnused = this.bytes.byteLength > 4 * pageBytes && 4 * usedBytes < this.bytes.byteLength;
    if (isMostlyUnused || (this.length === 0 && this.hasGrown)) this.shrink();
  }

  /** Puts the query where the kernels find it. */
  setQuery(query: Float32Array): void {
    this.floats.set(query, this.#scratch / 4);
  }

  /** Computes the kernel values of the `count` rows from `row` on; the answer is a view that the next call overwrites. */
  kernelValues(kernel: KernelName, row: number, count: number): Float32Array {
    const { rowsAt, rowBytes, dimensionPadded, outAt } = this.layout;
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

  /** Exchanges the memory for one that the rows fill. */
  shrink(): void {
    const old = this.bytes.subarray(0, this.layout.rowsAt + this.length * this.layout.rowBytes);
    this.#memory = memoryFor(this.layout, this.length);
    this.#id = nextMemoryId();
    this.#kernels = instantiate(this.#memory);
    this.#view();
    this.bytes.set(old);
    this.#touched = this.length;
    this.#keepChunks(Math.max(1, chunksFor(this.length)));
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

/** Pages of a memory for the given number of rows, at least one. */
const pagesFor = ({ rowsAt, rowBytes }: BlockLayout, rows: number): number =>
  Math.ceil((rowsAt + Math.max(1, rows) * rowBytes) / pageBytes);

/** A memory for the given number of rows, at least one, that can grow to the layout's limit. */
function memoryFor(layout: BlockLayout, rows: number): WebAssembly.Memory {
  return new WebAssembly.Memory({
    initial: pagesFor(layout, rows),
    maximum: layout.pagesMax,
    shared: true,
  });
}
