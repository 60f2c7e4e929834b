// Which vectors has no graph yet, and how do searches scan them while they come and go?
//
// Rows in blocks (flat/block.ts), in the order of their names, which ascend. A row is never moved and never overwritten as long as anybody
// may read it, so a search, in this thread or another, takes what is there when it begins (`view`), and goes on with that: a row stays
// what it is, wherever its vector is by then.
//
//   waiting --linked--> linked    the vector is in a graph; searches that began before may find it here, too
//      |                   |
//      '-----remove--------+----> removed: no version sees it, and no search finds it from then on
//
// Names are linked about in their order, so rows leave at the front. A block of which nothing waits is dropped; one of which less than half
// waits is copied, without the others, to a new one. Who reads the old one keeps it alive.
//
// What the owner does to rows and what a reader may rely on are one agreement, so both are in this file.

import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import { invariant } from "../../base/invariant.ts";
import { squaredNorm } from "../../vector/exact.ts";
import { bytesOfFloats } from "../../vector/floats.ts";
import type { Metric } from "../../vector/metric.ts";
import { metrics } from "../../vector/metrics.ts";
import { assertAscending, type Candidates, nothing, type Visible } from "../contract.ts";
import { Block, type BlockLayout, blockBytesOf, layOutBlock, type SharedBlock } from "../flat/block.ts";
import { exactDistances } from "../flat/exact-distances.ts";
import { FlatScan } from "../flat/scan.ts";
import { absent } from "../ordinal-map.ts";

/** States of rows. */
const waiting = 0;
const linked = 1;
const removed = 2;

/** A block is copied when so many of its rows do not wait, at least. */
const goneMin = 256;

/** Bytes of one block, at most: so much is copied at a time. */
const blockBytesMax = 2 ** 24;

/** Bytes of a tail of so many rows. */
export function tailBytes(dimension: number, rows: number): number {
  const layout = layOutBlock(dimension, blockBytesMax);
  const full = Math.floor(rows / layout.capacity);
  return (
    full * blockBytesOf(layout, layout.capacity) + blockBytesOf(layout, Math.max(1, rows % layout.capacity))
  );
}

/** What another thread needs to scan a tail as it is now. Can be posted to it. */
export type SharedTail = {
  readonly blocks: readonly { readonly block: SharedBlock; readonly first: number }[];
  readonly count: number;
};

/** Rows of a block, from `first` to before `end`; what was before had left the tail. */
type Rows = { readonly block: Block; readonly first: number; readonly end: number };

/** A tail as it was when a search began. */
export class TailView {
  readonly #metric: Metric;
  readonly #dimension: number;
  readonly #rows: readonly Rows[];
  /** Vectors that waited. */
  readonly count: number;
  readonly passedOver = removed;

  constructor(metric: Metric, dimension: number, rows: readonly Rows[], count: number) {
    this.#metric = metric;
    this.#dimension = dimension;
    this.#rows = rows;
    this.count = count;
  }

  /** The tail of another thread. @param slot of this one */
  static attach(metric: Metric, dimension: number, { blocks, count }: SharedTail, slot: number): TailView {
    const rows = blocks.map(({ block, first }) => ({
      block: Block.attach(block, slot),
      first,
      end: block.length,
    }));
    return new TailView(metric, dimension, rows, count);
  }

  get metric(): Metric {
    return this.#metric;
  }

  firstOf(block: number): number {
    return this.#rows[block].first;
  }

  lengthOf(block: number): number | undefined {
    return this.#rows[block]?.end;
  }

  /** Whether a vector was waiting, and was not removed. */
  has(name: number): boolean {
    return this.#slotOf(name) !== absent;
  }

  /** See FlatIndex.scan. Nothing has to be read from elsewhere. */
  scan(query: Float32Array, k: number, visible: () => Visible): FlatScan {
    invariant(
      query.length === this.#dimension,
      `a query has ${query.length} values instead of ${this.#dimension}`,
    );
    const elsewhere = () => undefined;
    const blocks = this.#blocks;
    invariant(blocks.length > 0, "a tail without rows is scanned");
    return new FlatScan(this, blocks, blocks[0].layout, { query, k, visible, elsewhere }, () => {});
  }

  /** The k nearest of what waited, with all ties. */
  search(query: Float32Array, k: number, visible: Visible): Candidates {
    if (this.count === 0) return nothing;
    const scan = this.scan(query, Math.min(k, this.count), () => visible);
    scan.run(() => false);
    return scan.finish();
  }

  /** Writes the exact distances of the first `count` names; NaN for those that are not there. */
  distancesOf(query: Float32Array, names: Uint32Array, count: number, distances: Float64Array): void {
    const blocks = this.#blocks;
    exactDistances(this.#metric, query, count, distances, {
      blocks,
      capacity: blocks[0]?.layout.capacity ?? 1,
      slotOf: (i) => this.#slotOf(names[i]),
    });
  }

  /** A vector that waited and was not removed: a view. */
  vectorOf(name: number): Float32Array | undefined {
    const slot = this.#slotOf(name);
    if (slot === absent) return undefined;
    const { capacity } = this.#rows[0].block.layout;
    return vectorAt(this.#rows[Math.floor(slot / capacity)].block, slot % capacity);
  }

  get #blocks(): Block[] {
    return this.#rows.map(({ block }) => block);
  }

  #slotOf(name: number): number {
    for (const [number, { block, first, end }] of this.#rows.entries()) {
      const row = rowOf(block, end, name);
      if (row >= first) return block.stateOf(row) === removed ? absent : number * block.layout.capacity + row;
    }
    return absent;
  }
}

/** The row of a name among the first rows of a block; -1: none. */
function rowOf(block: Block, length: number, name: number): number {
  if (length === 0 || block.ordinalOf(length - 1) < name) return -1;
  let [low, end] = [0, length];
  while (low < end) {
    const middle = (low + end) >>> 1;
    if (block.ordinalOf(middle) < name) low = middle + 1;
    else end = middle;
  }
  return block.ordinalOf(low) === name ? low : -1;
}

function vectorAt(block: Block, row: number): Float32Array {
  const at = block.rowAt(row);
  return block.floats.subarray(at, at + block.layout.dimension);
}

/** What the tail knows of a block: how many of its rows wait, and that none before the first does. */
type Held = { readonly block: Block; first: number; waiting: number };

export class Tail {
  readonly #metric: Metric;
  readonly #layout: BlockLayout;
  readonly #dimension: number;
  #held: Held[] = [];
  #count = 0;
  #last = -1;
  /** The tail as it is; undefined when it has changed since it was asked for. */
  #view: TailView | undefined;
  /** Whether anybody may read the last block. */
  #isSeen = false;

  /** @param scratchCount threads that may scan at a time */
  constructor(dimension: number, metric: MetricName, scratchCount: number) {
    this.#metric = metrics[metric];
    this.#dimension = dimension;
    this.#layout = layOutBlock(dimension, blockBytesMax, scratchCount);
  }

  /** Vectors that wait. */
  get count(): number {
    return this.#count;
  }

  /** What a search finds that begins now. */
  get view(): TailView {
    this.#isSeen = true;
    this.#view ??= new TailView(
      this.#metric,
      this.#dimension,
      this.#held.map(({ block, first }) => ({ block, first, end: block.length })),
      this.#count,
    );
    return this.#view;
  }

  get shared(): SharedTail {
    this.#isSeen = true;
    return {
      blocks: this.#held.map(({ block, first }) => ({ block: block.shared, first })),
      count: this.#count,
    };
  }

  has(name: number): boolean {
    return this.#find(name) !== undefined;
  }

  /** A vector that waits: a view, until the next change. */
  vectorOf(name: number): Float32Array | undefined {
    const found = this.#find(name);
    return found && vectorAt(found.held.block, found.row);
  }

  /** A vector of finite values waits, and is copied. Names ascend. */
  add(name: number, vector: Float32Array): void {
    assertAscending(name, this.#last);
    const squared = squaredNorm(vector, 0, this.#dimension);
    invariant(Number.isFinite(squared), `the vector of ordinal ${name} has a value that is not finite`);
    let held = this.#held.at(-1);
    if (held === undefined || held.block.length === this.#layout.capacity) {
      held = { block: new Block(this.#layout), first: 0, waiting: 0 };
      this.#held.push(held);
      this.#isSeen = false;
    }
    const row = held.block.push(name, bytesOfFloats(vector));
    held.block.setFactor(row, this.#metric.rowFactor(squared));
    held.waiting++;
    this.#count++;
    this.#last = name;
    this.#view = undefined;
  }

  /** The graphs that serve have the vector now. */
  onLinked(name: number): void {
    const found = this.#find(name);
    if (found !== undefined) this.#leave(found.held, found.row, linked);
  }

  /** No version sees the vector any more. */
  remove(name: number): void {
    for (const held of this.#held) {
      const { block } = held;
      const row = rowOf(block, block.length, name);
      if (row < 0) continue;
      // Searches may still find it here, though it is linked.
      if (block.stateOf(row) === linked) block.setState(row, removed);
      else if (block.stateOf(row) === waiting) this.#leave(held, row, removed);
      return;
    }
  }

  /** Names that wait, ascending. */
  ordinals(): number[] {
    const names: number[] = [];
    for (const { block, first } of this.#held)
      for (let row = first; row < block.length; row++)
        if (block.stateOf(row) === waiting) names.push(block.ordinalOf(row));
    return names;
  }

  get memoryBytes(): number {
    return this.#held.reduce((sum, { block }) => sum + block.memoryBytes, 0);
  }

  close(): void {
    this.#held = [];
    this.#count = 0;
    this.#view = undefined;
  }

  check(): void {
    let count = 0;
    let last = -1;
    for (const { block, first, waiting: counted } of this.#held) {
      let here = 0;
      for (let row = 0; row < block.length; row++) {
        const name = block.ordinalOf(row);
        invariant(name > last && name <= this.#last, `the name ${name} of the tail comes after ${last}`);
        last = name;
        if (block.stateOf(row) !== waiting) continue;
        here++;
        invariant(row >= first, `the row ${row} waits before ${first}, the first one`);
        const factor = this.#metric.rowFactor(squaredNorm(block.floats, block.rowAt(row), this.#dimension));
        const kept = block.factorOf(row);
        invariant(kept === factor, `the factor of ${name} is ${kept} instead of ${factor}`);
      }
      invariant(here === counted, `${here} rows wait of a block that counts ${counted}`);
      count += here;
    }
    invariant(count === this.#count, `${count} rows wait of a tail that counts ${this.#count}`);
  }

  #find(name: number): { held: Held; row: number } | undefined {
    for (const held of this.#held) {
      const row = rowOf(held.block, held.block.length, name);
      if (row >= 0) return held.block.stateOf(row) === waiting ? { held, row } : undefined;
    }
    return undefined;
  }

  #leave(held: Held, row: number, state: typeof linked | typeof removed): void {
    const { block } = held;
    block.setState(row, state);
    held.waiting--;
    this.#count--;
    this.#view = undefined;
    while (held.first < block.length && block.stateOf(held.first) !== waiting) held.first++;
    if (held.waiting === 0) this.#empty(held);
    else if (block.length - held.waiting >= goneMin && 2 * held.waiting < block.length) this.#copy(held);
  }

  /** Nothing of a block waits any more. One that has not grown stays, for a tail is filled and emptied over and over. */
  #empty(held: Held): void {
    const isLast = held === this.#held.at(-1);
    if (!isLast || held.block.hasGrown) this.#held = this.#held.filter((other) => other !== held);
    else if (!this.#isSeen) {
      held.block.length = 0;
      held.first = 0;
    }
  }

  /** Puts a block in place of another that has only those of its rows that wait. */
  #copy(held: Held): void {
    const { block, first } = held;
    const copy = new Block(this.#layout);
    for (let row = first; row < block.length; row++)
      if (block.stateOf(row) === waiting)
        copy.setFactor(
          copy.push(block.ordinalOf(row), bytesOfFloats(vectorAt(block, row))),
          block.factorOf(row),
        );
    const copied = { block: copy, first: 0, waiting: copy.length };
    this.#held = this.#held.map((other) => (other === held ? copied : other));
  }
}
