// Where are the full-precision vectors of a dense index that are in memory?
//
// In rows of blocks (row-block.ts). A vector gets a row when it comes, and keeps it; that a graph has it changes the state of the row:
//
//   waiting --linked--> linked      the graphs that serve have the vector
//      |                   |
//      '-----remove--------'------> removed: no version sees it
//
// A row is never overwritten and its block never moved, so a search, in this thread or another, takes the rows that there are when it
// begins (`view`), and goes on with those. Memory comes back by blocks:
//
//   eviction     where there are more linked vectors than may be held, the oldest block without waiting rows goes; they are read then
//   compaction   a block of which a quarter is removed is copied without these rows, some MiB at a time; the copy takes its place at once
//
// Who reads a block that is gone keeps it alive. A number of a block is used again when nobody can know it as that of another (`retire`).
//
// What the owner does to rows and what a reader may rely on are one agreement, so both are in this file. Invariants (see check):
//   1. The map has each vector key once, with the slot of its row: number of the block * capacity + row. Other rows are removed ones.
//   2. Names ascend in a block. A row's factor is that of its values; its padding is zero.

import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import { invariant } from "../../base/invariant.ts";
import { finishAtOnce } from "../../base/steps.ts";
import { squaredNorm } from "../../vector/exact.ts";
import { bytesOfFloats } from "../../vector/floats.ts";
import { type Metric, metrics } from "../../vector/metric.ts";
import { assertAscending, type Candidates, nothing, type Visible } from "../contract.ts";
import {
  absent,
  OrdinalMap,
  OrdinalMapReader,
  ordinalMapBytes,
  type SharedOrdinalMap,
} from "../ordinal-map.ts";
import {
  Block,
  type BlockLayout,
  blockBytesOf,
  layOutBlock,
  linked,
  removed,
  type SharedBlock,
  waiting,
} from "./row-block.ts";
import { exactDistances, RowScan, type Segment } from "./row-scan.ts";

/** Bytes of one block, at most and at least. */
const blockBytesMax = 2 ** 30;
const blockBytesMin = 2 ** 18;
/** Where the number of vectors is limited, so many blocks have them. */
const blocksOfLimit = 8;

/** A block is copied when a quarter of its rows is removed, and so many at least. */
const removedShare = 0.25;
const removedMin = 256;
/** Bytes that one step of a compaction duplicates. */
const copiedBytes = 2 ** 22;
/** Memory for so many bytes of rows is asked for at a time. */
const askedBytes = 2 ** 20;
/** Where fewer linked rows are between two waiting ones, a scan reads them, too. */
const gapMax = 32;

/** How blocks are laid out: smaller ones where the number of vectors is limited. */
const layoutFor = (dimension: number, heldMax: number, readers: number, bytesMax: number): BlockLayout => {
  const whole = layOutBlock(dimension, bytesMax, readers);
  const rows = Math.ceil(heldMax / blocksOfLimit);
  if (rows >= whole.capacity) return whole;
  const bytes = Math.max(blockBytesMin, whole.rowsAt + Math.max(1, rows) * whole.rowBytes);
  return layOutBlock(dimension, Math.min(bytesMax, bytes + 2 ** 16), readers);
};

/** Bytes of the rows of so many vectors. @param pages of 1,024 vector keys with one */
export function rowsBytes(dimension: number, rows: number, pages = Math.ceil(rows / 1_024)): number {
  const layout = layOutBlock(dimension, blockBytesMax);
  const full = Math.floor(rows / layout.capacity);
  const rest = rows % layout.capacity;
  return (
    ordinalMapBytes(pages) +
    full * blockBytesOf(layout, layout.capacity) +
    (rest === 0 ? 0 : blockBytesOf(layout, rest))
  );
}

/** What another thread needs to read the rows as they are now. Can be posted to it. */
export type SharedVectorRows = {
  readonly layout: BlockLayout;
  readonly blocks: readonly { readonly number: number; readonly block: SharedBlock }[];
  /** Some are empty. */
  readonly waiting: readonly Segment[];
  readonly waitingCount: number;
  readonly linkedCount: number;
  readonly places: SharedOrdinalMap;
};

/** Rows of one block and their location in shared memory; can be posted to a thread. */
export type RowsOfBlock = {
  /** Row by row; the first `4 * dimension` bytes of each are f32 values. */
  readonly bytes: Uint8Array;
  readonly rowBytes: number;
  /** The vector keys of the rows at the time of the call; `absent` for those that are not linked. */
  readonly vectorKeys: Uint32Array;
};

/** The slots of a call of `distancesOf`. */
let slots = new Uint32Array(256);

/** The rows as they were when a search began. */
export class VectorRowsView {
  readonly metric: Metric;
  readonly layout: BlockLayout;
  /** By number; undefined where a number is not in use. */
  readonly blocks: readonly (Block | undefined)[];
  /** Rows whose vectors no graph had, and a few others. */
  readonly waiting: readonly Segment[];
  readonly waitingCount: number;
  readonly linkedCount: number;
  readonly #places: OrdinalMapReader;
  readonly #ends: readonly number[];
  readonly #rowBits: number;
  readonly #rowMask: number;

  /** @param ends of the rows of the blocks */
  constructor(
    metric: Metric,
    layout: BlockLayout,
    {
      blocks,
      waiting,
      ...counts
    }: Pick<VectorRowsView, "blocks" | "waiting" | "waitingCount" | "linkedCount">,
    ends: readonly number[],
    places: OrdinalMapReader,
  ) {
    this.metric = metric;
    this.layout = layout;
    this.blocks = blocks;
    this.waiting = waiting;
    this.waitingCount = counts.waitingCount;
    this.linkedCount = counts.linkedCount;
    this.#ends = ends;
    this.#places = places;
    this.#rowBits = layout.rowBits;
    this.#rowMask = layout.capacity - 1;
  }

  /** The rows of another thread. @param slot of this one */
  static attach(
    metric: Metric,
    { layout, blocks, places, ...others }: SharedVectorRows,
    slot: number,
  ): VectorRowsView {
    const known: (Block | undefined)[] = [];
    const ends: number[] = [];
    for (const { number, block } of blocks) {
      known[number] = Block.attach(block, slot);
      ends[number] = block.length;
    }
    const waits = others.waiting.filter(({ first, end }) => first < end);
    for (const { number, end } of waits)
      invariant(
        end <= (ends[number] ?? 0),
        () => `rows up to ${end} of block ${number} wait, which has ${ends[number] ?? 0}`,
      );
    const map = new OrdinalMapReader(places);
    return new VectorRowsView(metric, layout, { ...others, blocks: known, waiting: waits }, ends, map);
  }

  /** Whether a vector can be read here. One whose row was copied since cannot: it is read from the store. */
  has(vectorKey: number): boolean {
    return this.#slotOf(vectorKey) !== absent;
  }

  /** The vector of a vector key: a view of its row; undefined if it cannot be read here. */
  vectorOf(vectorKey: number): Float32Array | undefined {
    const slot = this.#slotOf(vectorKey);
    if (slot === absent) return undefined;
    const { capacity, rowBits, dimension } = this.layout;
    const block = this.blocks[slot >>> rowBits] as Block;
    const at = block.rowAt(slot & (capacity - 1));
    return block.floats.subarray(at, at + dimension);
  }

  /** Writes the exact distances of the first `count` vector keys; NaN for those that cannot be read here. `query` is borrowed. */
  distancesOf(query: Float32Array, vectorKeys: Uint32Array, count: number, distances: Float64Array): void {
    invariant(
      count <= vectorKeys.length && count <= distances.length,
      () => `the distances of ${count} of ${vectorKeys.length} vectors go into ${distances.length} places`,
    );
    if (slots.length < count) slots = new Uint32Array(2 * count);
    for (let i = 0; i < count; i++) slots[i] = this.#slotOf(vectorKeys[i]);
    exactDistances(this, query, slots, count, distances);
  }

  /**
   * Begins to compare a query with all rows in steps. `query` is borrowed until it has ended.
   * @param k at least 1
   * @param visible returns the visibility test; called at the start of each step
   */
  scanAll(query: Float32Array, k: number, visible: () => Visible): RowScan {
    const all = this.blocks.flatMap((block, number) =>
      block === undefined ? [] : [{ number, first: 0, end: this.#ends[number] }],
    );
    return this.#scan(all, query, k, visible);
  }

  /** The same with the rows that wait. */
  scanWaiting(query: Float32Array, k: number, visible: () => Visible): RowScan {
    return this.#scan(this.waiting, query, k, visible);
  }

  /** The k nearest of the rows that wait, with all ties. */
  searchWaiting(query: Float32Array, k: number, visible: Visible): Candidates {
    if (this.waitingCount === 0) return nothing;
    return finishAtOnce(this.scanWaiting(query, Math.min(k, this.waitingCount), () => visible).search());
  }

  #scan(segments: readonly Segment[], query: Float32Array, k: number, visible: () => Visible): RowScan {
    const { dimension } = this.layout;
    invariant(query.length === dimension, `a query has ${query.length} values instead of ${dimension}`);
    invariant(Number.isFinite(squaredNorm(query, 0, dimension)), "a query has a value that is not finite");
    return new RowScan(this, segments, { query, k, visible });
  }

  /** The slot of a vector key's row; `absent` for a row that was made later. */
  #slotOf(vectorKey: number): number {
    const slot = this.#places.get(vectorKey);
    if (slot !== absent) {
      // Of a number that has no block here the end is 0, or none. The map can be a later one, but names no row of these blocks as another's:
      // numbers of blocks, and pages of the map, are used again when nobody can begin to search this view (`retire`).
      if ((slot & this.#rowMask) < this.#ends[slot >>> this.#rowBits]) return slot;
    }
    return this.waiting.length === 0 ? absent : this.#waitingSlotOf(vectorKey);
  }

  /**
   * The slot of a vector that waited. The map does not have it any more where its row was copied since, or its block dropped; and who has
   * attached to the graphs may not find a vector there that was linked since.
   */
  #waitingSlotOf(vectorKey: number): number {
    for (const { number, first, end } of this.waiting) {
      const block = this.blocks[number] as Block;
      let [low, high] = [first, end];
      while (low < high) {
        const middle = (low + high) >>> 1;
        if (block.ordinalOf(middle) < vectorKey) low = middle + 1;
        else high = middle;
      }
      if (low < end && block.ordinalOf(low) === vectorKey && block.stateOf(low) !== removed)
        return number * this.layout.capacity + low;
    }
    return absent;
  }
}

/** A block, how many of its rows wait and are linked, and the first row that may wait. */
type Held = {
  readonly block: Block;
  readonly number: number;
  waiting: number;
  linked: number;
  first: number;
};

/** A block that is being copied: the rows that the copy has, in order, and the next one to look at. */
type Compaction = { readonly from: Held; readonly to: Block; readonly rows: number[]; at: number };

export type VectorRowsOptions = {
  /** 1 to 65,535. */
  readonly dimension: number;
  readonly metric: MetricName;
  /** Threads that may read rows at a time, this one included; default 1. */
  readonly readers?: number;
  /** Linked vectors that are held, at most, beside those of one block; default: all. */
  readonly heldMax?: number;
  /** Whether this many more bytes may be allocated for vectors that are linked; default: always. */
  readonly mayTake?: ((bytes: number) => boolean) | undefined;
  /** Calls when no search goes on that has begun before; default: at once. */
  readonly retire?: ((free: () => void) => void) | undefined;
  /** Bytes at which a block is full; default 1 GiB. Tests cross the boundary with less. */
  readonly blockBytesMax?: number;
};

export class VectorRows {
  readonly dimension: number;
  readonly metric: Metric;
  readonly #options: VectorRowsOptions;
  readonly #heldMax: number;
  readonly #layout: BlockLayout;
  readonly #places: OrdinalMap;
  /** The oldest first. */
  #held: Held[] = [];
  /** Those to which rows are added of vectors that come, and of linked ones that are read. */
  #open: { [waiting]?: Held | undefined; [linked]?: Held | undefined } = {};
  #byNumber: (Held | undefined)[] = [];
  readonly #freeNumbers: number[] = [];
  #numbers = 0;
  #waiting = 0;
  #linked = 0;
  #last = -1;
  /** Rows that may be added before memory is asked for again. */
  #granted = 0;
  #compaction: Compaction | undefined;
  /** The rows as they are; undefined when they have changed since it was asked for. */
  #view: VectorRowsView | undefined;

  constructor(options: VectorRowsOptions) {
    const { dimension, metric, readers = 1, heldMax = Number.POSITIVE_INFINITY, retire } = options;
    this.dimension = dimension;
    this.metric = metrics[metric];
    this.#options = options;
    this.#heldMax = heldMax;
    this.#layout = layoutFor(dimension, heldMax, readers, options.blockBytesMax ?? blockBytesMax);
    this.#places = new OrdinalMap(retire);
  }

  /** Vectors that wait to be linked. */
  get waitingCount(): number {
    return this.#waiting;
  }

  /** Linked vectors that are held. */
  get linkedCount(): number {
    return this.#linked;
  }

  /** What a search finds that begins now. */
  get view(): VectorRowsView {
    this.#view ??= new VectorRowsView(
      this.metric,
      this.#layout,
      {
        blocks: this.#byNumber.map((held) => held?.block),
        waiting: this.#held.flatMap(waitingOf),
        waitingCount: this.#waiting,
        linkedCount: this.#linked,
      },
      this.#byNumber.map((held) => held?.block.length ?? 0),
      this.#places,
    );
    return this.#view;
  }

  get shared(): SharedVectorRows {
    return {
      layout: this.#layout,
      blocks: this.#held.map(({ number, block }) => ({ number, block: block.shared })),
      waiting: filledUp(this.view.waiting),
      waitingCount: this.#waiting,
      linkedCount: this.#linked,
      places: this.#places.shared,
    };
  }

  has(vectorKey: number): boolean {
    return this.#places.get(vectorKey) !== absent;
  }

  /** A vector, as a view of its row; undefined if it is not held. */
  vectorOf(vectorKey: number): Float32Array | undefined {
    const found = this.#find(vectorKey);
    if (found === undefined) return undefined;
    const at = found.held.block.rowAt(found.row);
    return found.held.block.floats.subarray(at, at + this.dimension);
  }

  /** A vector of finite values waits, and is copied. Names ascend. */
  add(vectorKey: number, vector: Float32Array): void {
    assertAscending(vectorKey, this.#last);
    this.#push(vectorKey, vector, waiting).waiting++;
    this.#waiting++;
    this.#last = vectorKey;
    // A vector that waits is held in any case; where memory is short, others make room for so many.
    if (this.#granted === 0 && !this.#ask()) {
      this.#granted = Math.ceil(askedBytes / this.#layout.rowBytes);
      this.#evict(1);
    }
    this.#granted--;
  }

  /** Whether one more vector that is linked already may be held. */
  mayHold(): boolean {
    return this.#linked < this.#heldMax && (this.#granted > 0 || this.#ask());
  }

  /** Holds a vector that is linked already, and was read. Names ascend. */
  hold(vectorKey: number, vector: Float32Array): void {
    invariant(!this.has(vectorKey), () => `the vector of ${vectorKey} is held twice`);
    this.#granted--;
    const held = this.#push(vectorKey, vector, linked);
    held.block.setState(held.block.length - 1, linked);
    held.linked++;
    this.#linked++;
  }

  /** Asks for memory of some rows. */
  #ask(): boolean {
    const rows = Math.ceil(askedBytes / this.#layout.rowBytes);
    const { mayTake } = this.#options;
    if (mayTake !== undefined && !mayTake(rows * this.#layout.rowBytes)) return false;
    this.#granted = rows;
    return true;
  }

  /** Names ascend among the rows of each state, and so in every block. */
  #push(vectorKey: number, vector: Float32Array, state: typeof waiting | typeof linked): Held {
    const squared = squaredNorm(vector, 0, this.dimension);
    invariant(Number.isFinite(squared), `the vector of ordinal ${vectorKey} has a value that is not finite`);
    const { capacity } = this.#layout;
    let held = this.#open[state];
    if (held === undefined || held.block.length === capacity || held === this.#compaction?.from) {
      held = this.#take(new Block(this.#layout));
      this.#open[state] = held;
    }
    const row = held.block.push(vectorKey, bytesOfFloats(vector), this.metric.rowFactor(squared));
    this.#places.set(vectorKey, held.number * capacity + row);
    this.#view = undefined;
    return held;
  }

  /** A block, with a number, comes last. */
  #take(block: Block): Held {
    const number = this.#freeNumbers.pop() ?? this.#numbers++;
    invariant((number + 1) * this.#layout.capacity < absent, "the blocks of vectors have no numbers left");
    const held = { block, number, waiting: 0, linked: 0, first: 0 };
    this.#byNumber[number] = held;
    this.#held.push(held);
    return held;
  }

  /** A block is no longer one of these. */
  #drop(held: Held): void {
    invariant(this.#byNumber[held.number] === held, () => `block ${held.number} is dropped twice`);
    this.#held = this.#held.filter((other) => other !== held);
    this.#byNumber[held.number] = undefined;
    const free = () => this.#freeNumbers.push(held.number);
    if (this.#options.retire === undefined) free();
    else this.#options.retire(free);
    for (const state of [waiting, linked] as const)
      if (this.#open[state] === held) this.#open[state] = undefined;
    if (this.#compaction?.from === held) this.#compaction = undefined;
    this.#view = undefined;
  }

  /** The graphs that serve have the vector now. */
  onLinked(vectorKey: number): void {
    const found = this.#find(vectorKey);
    if (found === undefined || found.held.block.stateOf(found.row) !== waiting) return;
    found.held.block.setState(found.row, linked);
    found.held.waiting--;
    found.held.linked++;
    this.#waiting--;
    this.#linked++;
    invariant(
      found.held.waiting >= 0 && this.#waiting >= 0,
      () => `${this.#waiting} rows wait, ${found.held.waiting} of them in block ${found.held.number}`,
    );
    this.#view = undefined;
    if (this.#linked > this.#heldMax) this.#evict(1);
  }

  /** No version sees the vector any more. */
  remove(vectorKey: number): void {
    const found = this.#find(vectorKey);
    if (found === undefined) return;
    const { held, row } = found;
    if (held.block.stateOf(row) === waiting) {
      held.waiting--;
      this.#waiting--;
    } else {
      held.linked--;
      this.#linked--;
    }
    invariant(
      held.waiting >= 0 && held.linked >= 0,
      () => `block ${held.number} has ${held.waiting} rows that wait and ${held.linked} that are linked`,
    );
    held.block.setState(row, removed);
    this.#places.delete(vectorKey);
    this.#view = undefined;
    if (held.waiting + held.linked === 0) this.#drop(held);
  }

  /** Bytes of blocks that `giveUp` can drop. */
  get spareBytes(): number {
    return this.#held.reduce((sum, held) => sum + (held.waiting === 0 ? held.block.memoryBytes : 0), 0);
  }

  /** Drops the oldest blocks without waiting rows, until so many bytes are free. */
  giveUp(bytes: number): void {
    this.#evict(bytes);
    this.#granted = 0;
  }

  #evict(bytes: number): void {
    let left = bytes;
    for (const held of this.#held) {
      if (left <= 0) return;
      if (held.waiting > 0) continue;
      const { block } = held;
      for (let row = 0; row < block.length; row++)
        if (block.stateOf(row) !== removed) this.#places.delete(block.ordinalOf(row));
      this.#linked -= held.linked;
      left -= block.memoryBytes;
      this.#drop(held);
    }
  }

  /** Copies a part of a block of which much is removed. @returns whether there is more to do */
  compact(): boolean {
    this.#compaction ??= this.#beginCompaction();
    const copying = this.#compaction;
    if (copying === undefined) return false;
    const { from, to, rows } = copying;
    const { block } = from;
    const end = Math.min(block.length, copying.at + Math.ceil(copiedBytes / this.#layout.rowBytes));
    for (; copying.at < end; copying.at++) {
      const row = copying.at;
      if (block.stateOf(row) === removed) continue;
      to.push(block.ordinalOf(row), block.rowBytesOf(row), block.factorOf(row));
      rows.push(row);
    }
    if (copying.at < block.length) return true;
    this.#exchange(copying);
    return this.#needing() !== undefined;
  }

  #needing(): Held | undefined {
    return this.#held.find(({ block, waiting, linked }) => {
      const gone = block.length - waiting - linked;
      return gone >= Math.max(removedMin, removedShare * block.length);
    });
  }

  #beginCompaction(): Compaction | undefined {
    const from = this.#needing();
    return from && { from, to: new Block(this.#layout), rows: [], at: 0 };
  }

  /** The copy takes the place of a block, with what has become of its rows meanwhile. */
  #exchange({ from, to, rows }: Compaction): void {
    invariant(
      rows.length === to.length && this.#byNumber[from.number] === from,
      () => `block ${from.number} is replaced by ${to.length} of ${rows.length} copied rows`,
    );
    this.#compaction = undefined;
    const held = this.#take(to);
    this.#held.pop();
    const { capacity } = this.#layout;
    for (const [row, before] of rows.entries()) {
      const state = from.block.stateOf(before);
      to.setState(row, state);
      if (state === removed) continue;
      if (state === waiting) held.waiting++;
      else held.linked++;
      this.#places.set(to.ordinalOf(row), held.number * capacity + row);
    }
    this.#held = this.#held.map((other) => (other === from ? held : other));
    this.#drop(from);
  }

  /** Names that wait, ascending. */
  waitingNames(): number[] {
    const vectorKeys: number[] = [];
    for (const { block, waiting: count, first } of this.#held)
      for (let row = first, left = count; left > 0; row++)
        if (block.stateOf(row) === waiting) {
          vectorKeys.push(block.ordinalOf(row));
          left--;
        }
    return vectorKeys.sort((a, b) => a - b);
  }

  /** The linked rows, for another thread to read. */
  linkedRows(): RowsOfBlock[] {
    const { rowBytes, rowsAt } = this.#layout;
    return this.#held.map(({ block }) => ({
      bytes: block.bytes.subarray(rowsAt, rowsAt + block.length * rowBytes),
      rowBytes,
      vectorKeys: Uint32Array.from({ length: block.length }, (_, row) =>
        block.stateOf(row) === linked ? block.ordinalOf(row) : absent,
      ),
    }));
  }

  get memoryBytes(): number {
    const copied = this.#compaction?.to.memoryBytes ?? 0;
    return this.#places.memoryBytes + this.#held.reduce((sum, { block }) => sum + block.memoryBytes, copied);
  }

  close(): void {
    this.#held = [];
    this.#byNumber = [];
    this.#open = {};
    this.#places.clear();
    this.#compaction = undefined;
    this.#view = undefined;
    this.#waiting = 0;
    this.#linked = 0;
  }

  check(): void {
    const { capacity, dimensionPadded } = this.#layout;
    this.#places.check();
    const counts = { waiting: 0, linked: 0 };
    for (const { block, number, ...counted } of this.#held) {
      invariant(block.length <= capacity, `the block ${number} has ${block.length} rows`);
      const here = { waiting: 0, linked: 0 };
      for (let row = 0; row < block.length; row++) {
        const vectorKey = block.ordinalOf(row);
        invariant(
          row === 0 || block.ordinalOf(row - 1) < vectorKey,
          `the vector key ${vectorKey} does not ascend`,
        );
        const at = block.rowAt(row);
        const factor = this.metric.rowFactor(squaredNorm(block.floats, at, this.dimension));
        const kept = block.factorOf(row);
        invariant(kept === factor, `the factor of ${vectorKey} is ${kept} instead of ${factor}`);
        for (let i = this.dimension; i < dimensionPadded; i++)
          invariant(block.floats[at + i] === 0, `the padding of the row of ${vectorKey} is not zero`);
        const state = block.stateOf(row);
        if (state === removed) continue;
        here[state === waiting ? "waiting" : "linked"]++;
        const slot = this.#places.get(vectorKey);
        invariant(
          slot === number * capacity + row,
          `the map has ${vectorKey} at ${slot}, and a row of ${number}`,
        );
      }
      invariant(
        here.waiting === counted.waiting && here.linked === counted.linked,
        `the block ${number} counts ${counted.waiting} + ${counted.linked} rows, and has ${here.waiting} + ${here.linked}`,
      );
      counts.waiting += here.waiting;
      counts.linked += here.linked;
    }
    invariant(counts.waiting === this.#waiting && counts.linked === this.#linked, "the rows are miscounted");
    const rows = counts.waiting + counts.linked;
    invariant(rows === this.#places.size, `${rows} rows for ${this.#places.size} names`);
  }

  #find(vectorKey: number): { held: Held; row: number } | undefined {
    const slot = this.#places.get(vectorKey);
    if (slot === absent) return undefined;
    const { rowBits, capacity } = this.#layout;
    return { held: this.#byNumber[slot >>> rowBits] as Held, row: slot & (capacity - 1) };
  }
}

const noRows: Segment = { number: 0, first: 0, end: 0 };
/** Segments are posted by multiples of this. */
const postedSegments = 4;

/** Segments for other threads, filled up with empty ones: a board (views/board.ts) tells numbers, and not how many there are. */
function filledUp(segments: readonly Segment[]): Segment[] {
  const length = postedSegments * Math.max(1, Math.ceil(segments.length / postedSegments));
  return Array.from({ length }, (_, i) => segments[i] ?? noRows);
}

/** The segments of a block whose rows wait. */
function waitingOf(held: Held): Segment[] {
  const { block, number } = held;
  const segments: { number: number; first: number; end: number }[] = [];
  for (let row = held.first, left = held.waiting; left > 0; row++) {
    if (block.stateOf(row) !== waiting) continue;
    left--;
    const before = segments.at(-1);
    if (before !== undefined && row - before.end <= gapMax) before.end = row + 1;
    else segments.push({ number, first: row, end: row + 1 });
  }
  held.first = segments[0]?.first ?? block.length;
  return segments;
}
