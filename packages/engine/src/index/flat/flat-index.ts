// Which vectors are nearest to a query, exactly?
//
// Every search reads every row. It is the ground truth for other dense indexes, the index of small collections, and the scan behind `exact:
// true`.
//
// scan.ts explains how a scan is exact although it computes in f32, and how it runs in steps while rows are added and removed.
//
// Rows are dense across blocks: slot s is row s mod capacity of block floor(s / capacity), and a removed row's
// place is taken by the last row. Invariants (see check):
//   1. The map has each ordinal once, with the slot that names it; slots are 0 to count - 1.
//   2. All blocks but the last are full. No block is empty but the first, which stays: the tail of an HNSW index is filled and
//      emptied over and over, and making a memory each time would take a tenth of a millisecond.
//   3. A row's factor is that of its values; its padding is zero.
//
// Other threads may read rows while this one changes them (attached-rows.ts): whatever moves or overwrites a row that one of them may know is
// counted (base/sequence-lock.ts).

import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import { invariant } from "../../base/invariant.ts";
import { SequenceLock } from "../../base/sequence-lock.ts";
import { squaredNorm } from "../../vector/exact.ts";
import type { Metric } from "../../vector/metric.ts";
import { metrics } from "../../vector/metrics.ts";
import {
  assertAscending,
  type Candidates,
  type Index,
  nothing,
  seenAndAllowed,
  type Visible,
} from "../contract.ts";
import type { Allowed } from "../ordinal-bitmap.ts";
import { absent, OrdinalMap, ordinalMapBytes } from "../ordinal-map.ts";
import type { AttachableRows } from "./attached-rows.ts";
import { Block, type BlockLayout, blockBytesOf, layOutBlock } from "./block.ts";
import { exactDistances } from "./exact-distances.ts";
import { FlatScan } from "./scan.ts";

export type FlatOptions = {
  /** 1 to 65,535. */
  dimension: number;
  metric: MetricName;
  /** Bytes at which a block is full: 4 GiB at most, the default. Tests cross the boundary with less. */
  blockBytesMax?: number;
  /** Whether records may be added in any order, as in a cache. */
  isUnordered?: boolean;
  /** Threads that may read rows at a time, this one included; default 1. */
  readers?: number;
};

/** Rows of one block and their location in shared memory; can be posted to a thread. */
export type SharedRows = {
  /** Row by row; the first `4 * dimension` bytes of each are f32 values. */
  readonly bytes: Uint8Array;
  readonly rowBytes: number;
  /** Of the rows at the time of the call. */
  readonly ordinals: Uint32Array;
};

/** Bytes of a flat index with the given number of rows. @param pages number of pages of 1,024 ordinals with a row */
export function flatBytes(
  { dimension, blockBytesMax = 2 ** 32 }: Omit<FlatOptions, "metric">,
  rows: number,
  pages: number,
): number {
  const layout = layOutBlock(dimension, blockBytesMax);
  const full = Math.floor(rows / layout.capacity);
  const rest = rows % layout.capacity;
  return (
    ordinalMapBytes(pages) +
    full * blockBytesOf(layout, layout.capacity) +
    (rest === 0 ? 0 : blockBytesOf(layout, rest))
  );
}

export class FlatIndex implements Index {
  readonly dimension: number;
  readonly metric: Metric;
  readonly #layout: BlockLayout;
  readonly #isUnordered: boolean;
  readonly #blocks: Block[] = [];
  readonly #slots = new OrdinalMap();
  /** Scans that have not ended. */
  readonly #scans = new Set<FlatScan>();
  #last = -1;
  readonly #lock = new SequenceLock();
  /** Rows that other threads may know, at most; and what the last of their blocks was. */
  #sharedCount = 0;
  #sharedBlock: { readonly number: number; readonly id: number } | undefined;

  constructor({ dimension, metric, blockBytesMax = 2 ** 32, isUnordered = false, readers = 1 }: FlatOptions) {
    this.dimension = dimension;
    this.#isUnordered = isUnordered;
    this.metric = metrics[metric];
    this.#layout = layOutBlock(dimension, blockBytesMax, readers);
  }

  get count(): number {
    return this.#slots.size;
  }

  has(ordinal: number): boolean {
    return this.#slots.get(ordinal) !== absent;
  }

  /** Adds a record: `values` are 4 * dimension bytes of finite little-endian f32, at any offset, and are copied. */
  add(ordinal: number, values: Uint8Array): void {
    if (!this.#isUnordered) assertAscending(ordinal, this.#last);
    else if (this.has(ordinal)) invariant(false, `ordinal ${ordinal} is added twice`);
    const bytes = 4 * this.dimension;
    if (values.byteLength !== bytes) {
      invariant(false, `a vector has ${values.byteLength} bytes instead of ${bytes}`);
    }
    if (this.count < this.#sharedCount) this.#changing(() => this.#push(ordinal, values));
    else this.#push(ordinal, values);
    this.#last = Math.max(this.#last, ordinal);
  }

  #push(ordinal: number, values: Uint8Array): void {
    const slot = this.count;
    const number = Math.floor(slot / this.#layout.capacity);
    if (number === this.#blocks.length) this.#blocks.push(new Block(this.#layout));
    const block = this.#blocks[number];
    const row = block.push(ordinal, values);
    const squared = squaredNorm(block.floats, block.rowAt(row), this.dimension);
    if (!Number.isFinite(squared)) {
      block.pop();
      if (block.length === 0 && number > 0) this.#blocks.pop();
      invariant(false, `the vector of ordinal ${ordinal} has a value that is not finite`);
    }
    block.setFactor(row, this.metric.rowFactor(squared));
    this.#slots.set(ordinal, slot);
  }

  /** Changes what other threads may be reading. */
  #changing(act: () => void): void {
    this.#lock.begin();
    try {
      act();
    } finally {
      const known = this.#sharedBlock;
      if (known !== undefined && this.#blocks[known.number]?.id !== known.id) {
        this.#sharedBlock = undefined;
        this.#lock.exchange();
      }
      this.#lock.end();
    }
  }

  /** Nothing to do: a closed record is found as before, and `visible` decides. */
  retire(_ordinal: number): void {}

  remove(ordinal: number): void {
    const slot = this.#slots.get(ordinal);
    if (slot === absent) return;
    const { capacity } = this.#layout;
    const last = this.#blocks[this.#blocks.length - 1];
    const moved = last.ordinalOf(last.length - 1);
    for (const scan of this.#scans) scan.onRemove(ordinal, slot, moved, this.count - 1);
    this.#changing(() => {
      if (moved !== ordinal) {
        last.moveLastTo(this.#blocks[Math.floor(slot / capacity)], slot % capacity);
        this.#slots.set(moved, slot);
      }
      this.#slots.delete(ordinal);
      last.pop();
      if (last.length === 0 && this.#blocks.length > 1) this.#blocks.pop();
    });
  }

  /**
   * The k nearest records by exact score, with all ties at the boundary. `query` has `dimension` finite values and is
   * borrowed. `visible` and `allowed` are asked only about rows that may be among them.
   */
  search(query: Float32Array, k: number, visible: Visible, allowed: Allowed = null): Candidates {
    if (k <= 0 || this.count === 0) return nothing;
    const sees = seenAndAllowed(visible, allowed);
    const scan = this.scan(query, Math.min(k, this.count), () => sees);
    try {
      scan.run(() => false);
      return scan.finish();
    } finally {
      scan.end();
    }
  }

  /**
   * Starts a search in steps. It finds the records that are in the index now, whatever is added and removed meanwhile, and must be ended by
   * `end`. `query` is borrowed until then.
   * @param k at least 1
   * @param visible returns the visibility test; called at the start of each step
   * @param elsewhere the vector of a record that was removed from this index since; undefined if no version sees it
   */
  scan(
    query: Float32Array,
    k: number,
    visible: () => Visible,
    elsewhere: (ordinal: number) => Float32Array | undefined = () => undefined,
  ): FlatScan {
    const { dimension } = this;
    invariant(query.length === dimension, `a query has ${query.length} values instead of ${dimension}`);
    invariant(Number.isFinite(squaredNorm(query, 0, dimension)), "a query has a value that is not finite");
    const scan = new FlatScan(this, this.#blocks, this.#layout, { query, k, visible, elsewhere }, () =>
      this.#scans.delete(scan),
    );
    this.#scans.add(scan);
    return scan;
  }

  /** Rows of a block; undefined where there is none. */
  lengthOf(block: number): number | undefined {
    return this.#blocks[block]?.length;
  }

  /** Writes the exact distances of the first `count` records; NaN for those that are not held. `query` is borrowed. */
  distancesOf(query: Float32Array, ordinals: Uint32Array, count: number, distances: Float64Array): void {
    exactDistances(this.metric, query, count, distances, {
      blocks: this.#blocks,
      capacity: this.#layout.capacity,
      slotOf: (i) => this.#slots.get(ordinals[i]),
    });
  }

  /** A record's vector, as a view that the next change can invalidate; undefined if it is not in the index. */
  vectorOf(ordinal: number): Float32Array | undefined {
    const slot = this.#slots.get(ordinal);
    if (slot === absent) return undefined;
    const { capacity } = this.#layout;
    const block = this.#blocks[Math.floor(slot / capacity)];
    const at = block.rowAt(slot % capacity);
    return block.floats.subarray(at, at + this.dimension);
  }

  /** The ordinal of the record in a slot, 0 to count - 1. */
  ordinalAt(slot: number): number {
    const { capacity } = this.#layout;
    return this.#blocks[Math.floor(slot / capacity)].ordinalOf(slot % capacity);
  }

  /** The rows for threads that read them while this one changes them. */
  get attachable(): AttachableRows {
    this.#sharedCount = Math.max(this.#sharedCount, this.count);
    const number = this.#blocks.length - 1;
    this.#sharedBlock = number < 0 ? undefined : { number, id: this.#blocks[number].id };
    return {
      words: this.#lock.words,
      era: this.#lock.era,
      slots: this.#slots.shared,
      capacity: this.#layout.capacity,
      blocks: this.#blocks.map((block) => block.shared),
    };
  }

  /** All rows, for another thread to read. */
  sharedRows(): SharedRows[] {
    const { rowBytes, rowsAt } = this.#layout;
    return this.#blocks.map((block) => ({
      bytes: block.bytes.subarray(rowsAt, rowsAt + block.length * rowBytes),
      rowBytes,
      ordinals: Uint32Array.from({ length: block.length }, (_, row) => block.ordinalOf(row)),
    }));
  }

  /** All ordinals, ascending. */
  ordinals(): number[] {
    return Array.from(this.#slots.entries(), ([ordinal]) => ordinal);
  }

  get memoryBytes(): number {
    return this.#slots.memoryBytes + this.#blocks.reduce((sum, block) => sum + block.memoryBytes, 0);
  }

  get restoredBytes(): number {
    return this.memoryBytes;
  }

  /** Frees memory that the current rows do not need. */
  shrink(): void {
    this.#changing(() => this.#blocks.at(-1)?.shrink());
  }

  close(): void {
    this.#lock.exchange();
    this.#blocks.length = 0;
    this.#slots.clear();
  }

  check(): void {
    const { capacity, dimensionPadded } = this.#layout;
    this.#slots.check();
    this.#blocks.forEach((block, number) => {
      const full = number < this.#blocks.length - 1 ? capacity : Math.max(Math.min(1, number), block.length);
      invariant(
        block.length === full && block.length <= capacity,
        `block ${number} has ${block.length} rows`,
      );
      for (let row = 0; row < block.length; row++) {
        const slot = number * capacity + row;
        const ordinal = block.ordinalOf(row);
        const mapped = this.#slots.get(ordinal);
        invariant(mapped === slot, `slot ${slot} names ordinal ${ordinal}, which the map puts at ${mapped}`);
        invariant(ordinal <= this.#last, `ordinal ${ordinal} is beyond the last, ${this.#last}`);
        const at = block.rowAt(row);
        const factor = this.metric.rowFactor(squaredNorm(block.floats, at, this.dimension));
        const kept = block.factorOf(row);
        invariant(kept === factor, `the factor of slot ${slot} is ${kept} instead of ${factor}`);
        for (let i = this.dimension; i < dimensionPadded; i++) {
          invariant(block.floats[at + i] === 0, `the padding of slot ${slot} is not zero`);
        }
      }
    });
    const rows = this.#blocks.reduce((sum, block) => sum + block.length, 0);
    invariant(rows === this.#slots.size, `${rows} rows for ${this.#slots.size} ordinals`);
  }
}
