// How are rows of vectors compared with a query, exactly and in steps?
//
// A scan is exact although its pass over the rows computes in f32. Let D be the exact (f64) distance of a row. The
// kernel's f32 value bounds it, lower <= D <= upper (the bound is proven in vector/ and kernels/rounding). Let U be the
// k-th least `upper` among visible rows so far: k rows with D <= U exist, so a row whose lower bound, and thus D, gives a
// worse score than U cannot be among the k best, nor tie with the k-th. Where a floor is asked for, U is at most its distance. All others are candidates; at the end those
// that the final U leaves are computed exactly. Where f32 overflows, the kernel's value is infinite or NaN (a finite value
// proves that no partial sum overflowed): such rows are candidates always.
//
// On glove100-100k (200 queries, k = 10 and 100) never more than k + 2 rows were computed in f64. At worst, when all rows tie,
// all are, in time linear in them. What else was considered: docs/decisions/hnsw-speed.md.
//
// Between two steps rows may be added and removed: a scan goes on with the rows that there were when it began, and passes over those that
// are removed by the time it comes to them.

import { Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import type { Steps } from "../../base/steps.ts";
import { Greatest, keepBest } from "../../base/top-k.ts";
import type { KernelBound, Metric } from "../../vector/metric.ts";
import type { Candidates, Visible } from "../contract.ts";
import { absent } from "../ordinal-map.ts";
import { type Block, type BlockLayout, chunkRows, removed, sumsRows } from "./row-block.ts";

/** Some rows of a block: from `first` to before `end`. */
export type Segment = { readonly number: number; readonly first: number; readonly end: number };

type ScanRequest = {
  /** Borrowed until the scan has ended. */
  readonly query: Float32Array;
  /** At least 1. */
  readonly k: number;
  /** Rows with a worse score do not matter, and may or may not be found; default: all matter. */
  readonly floor?: number;
  /** Returns the visibility test; called at the start of each step. */
  visible(): Visible;
};

/** From this many candidates on, the scan drops those beyond the current threshold each time their number has doubled. */
const sieveMin = 4_096;

export class RowScan {
  readonly #rows: Rows;
  readonly #segments: readonly Segment[];
  readonly #request: ScanRequest;
  readonly #bound: KernelBound;
  #visible: Visible = null;
  /** The k least upper bounds, negated. */
  readonly #uppers: Greatest;
  /** Rows with a lower bound above this cannot matter. */
  #ceiling = Number.POSITIVE_INFINITY;
  /** Candidates, the slots of their rows, and the lower bounds of their distances. */
  readonly #ordinals = new Growable(Uint32Array);
  readonly #slots = new Growable(Uint32Array);
  readonly #lowers = new Growable(Float64Array);
  #sieveAt = sieveMin;

  constructor(rows: Rows, segments: readonly Segment[], request: ScanRequest) {
    invariant(request.k >= 1, () => `the ${request.k} nearest rows are searched`);
    this.#rows = rows;
    this.#segments = segments;
    this.#request = request;
    this.#bound = rows.metric.kernelBound(request.query, rows.layout.dimensionPadded);
    this.#uppers = new Greatest(request.k);
    const { floor = Number.NEGATIVE_INFINITY } = request;
    if (floor > Number.NEGATIVE_INFINITY) this.#ceiling = rows.metric.distanceCeiling(floor);
  }

  /** The k best, and what ties with the k-th, of those that are not below the floor; in f64. A step is a chunk of rows. */
  *search(): Steps<Candidates> {
    const { metric, blocks } = this.#rows;
    for (const { number, first, end } of this.#segments) {
      const block = blocks[number];
      invariant(block !== undefined, () => `there is no block ${number}, whose rows are scanned`);
      for (let row = first; row < end; ) {
        this.#visible = this.#request.visible();
        block.setQuery(this.#request.query);
        const count = Math.min(chunkRows - (row % chunkRows), end - row);
        this.#compareChunk(block.kernelValues(metric.kernel, row, count), block, number, row);
        row += count;
        yield;
      }
    }
    return this.#best();
  }

  #best(): Candidates {
    const { query, k } = this.#request;
    const { metric } = this.#rows;
    this.#sieve();
    const count = this.#ordinals.length;
    const scores = new Float64Array(count);
    exactDistances(this.#rows, query, this.#slots.values, count, scores);
    for (let i = 0; i < count; i++) scores[i] = metric.score(scores[i]);
    return keepBest(this.#ordinals.values, scores, count, k);
  }

  /** Takes the values of the rows from `row` on, which lie in one chunk. */
  #compareChunk(values: Float32Array, block: Block, number: number, row: number): void {
    const chunk = Math.floor(row / chunkRows);
    const from = row % chunkRows;
    const slot = number * this.#rows.layout.capacity + row;
    const [factors, ordinals, states] = [block.factors[chunk], block.ordinals[chunk], block.states[chunk]];
    const { scale, scaleByFactor, relative, slack, slackByFactor } = this.#bound;
    const nearer = 1 - relative;
    let ceiling = this.#ceiling;
    for (let i = 0; i < values.length; i++) {
      const factor = factors[from + i];
      const centre = values[i] * (scale + scaleByFactor * factor);
      const lower = centre * nearer - (slack + slackByFactor * factor);
      // Plus infinity means an overflow of unknown sign, and NaN compares as false: both remain candidates.
      if (lower > ceiling && lower < Number.POSITIVE_INFINITY) continue;
      if (states[from + i] === removed) continue;
      if (this.#visible !== null && !this.#visible(ordinals[from + i])) continue;
      const upper = centre * (1 + relative) + (slack + slackByFactor * factor);
      this.#take(ordinals[from + i], slot + i, lower, upper);
      ceiling = this.#ceiling;
    }
  }

  #take(ordinal: number, slot: number, lower: number, upper: number): void {
    const overflowed = !Number.isFinite(lower);
    this.#ordinals.push(ordinal);
    this.#slots.push(slot);
    this.#lowers.push(overflowed ? Number.NEGATIVE_INFINITY : lower);
    if (!overflowed && -upper > this.#uppers.floor) {
      this.#uppers.offer(-upper);
      const least = -this.#uppers.floor;
      if (least < Number.POSITIVE_INFINITY) {
        const { metric } = this.#rows;
        this.#ceiling = Math.min(this.#ceiling, metric.distanceCeiling(metric.score(least)));
      }
    }
    if (this.#ordinals.length >= this.#sieveAt) {
      this.#sieve();
      this.#sieveAt = Math.max(sieveMin, 2 * this.#ordinals.length);
    }
  }

  #sieve(): void {
    const [ordinals, slots, lowers] = [this.#ordinals.values, this.#slots.values, this.#lowers.values];
    let kept = 0;
    for (let i = 0; i < this.#ordinals.length; i++) {
      if (lowers[i] > this.#ceiling) continue;
      ordinals[kept] = ordinals[i];
      slots[kept] = slots[i];
      lowers[kept++] = lowers[i];
    }
    for (const column of [this.#ordinals, this.#slots, this.#lowers]) column.length = kept;
  }
}

// ---- How far are some rows of blocks from a query, exactly?

/** Where rows are: slot s is row s mod 2^rowBits of block s / 2^rowBits. */
type Rows = {
  readonly metric: Metric;
  readonly layout: BlockLayout;
  /** By number. */
  readonly blocks: readonly (Block | undefined)[];
};

/** The rows of a call that are in one block, and their places in the list. */
const rows = new Uint32Array(sumsRows);
const places = new Uint32Array(sumsRows);

/** Writes the exact distances of the rows in the first `count` slots; NaN where a slot is `absent`. `query` is borrowed. */
export function exactDistances(
  { metric, layout: { rowBits }, blocks }: Rows,
  query: Float32Array,
  slots: Uint32Array,
  count: number,
  distances: Float64Array,
): void {
  const { exactKind } = metric;
  const distanceOf = metric.distanceOfSums(query);
  const rowMask = 2 ** rowBits - 1;
  distances.fill(Number.NaN, 0, count);
  for (let from = 0; from < count; from += sumsRows) {
    const end = Math.min(from + sumsRows, count);
    for (let number = 0; number < blocks.length; number++) {
      const block = blocks[number];
      if (block === undefined) continue;
      let rowCount = 0;
      for (let i = from; i < end; i++) {
        const slot = slots[i];
        if (slot >>> rowBits !== number || slot === absent) continue;
        rows[rowCount] = slot & rowMask;
        places[rowCount++] = i;
      }
      if (rowCount === 0) continue;
      block.setQuery(query);
      const sums = block.exactSums(rows, rowCount, exactKind);
      for (let i = 0; i < rowCount; i++) distances[places[i]] = distanceOf(sums[2 * i], sums[2 * i + 1]);
    }
  }
}
