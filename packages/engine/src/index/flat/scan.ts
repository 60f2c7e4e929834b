// How are all rows of a flat index compared with a query, exactly and in steps?
//
// A scan is exact although its pass over the rows computes in f32. Let D be the exact (f64) distance of a row. The
// kernel's f32 value bounds it, lower <= D <= upper (the bound is proven in vector/ and kernels/rounding). Let U be the
// k-th least `upper` among visible rows so far: k rows with D <= U exist, so a row whose lower bound, and thus D, gives a
// worse score than U cannot be among the k best, nor tie with the k-th. All others are candidates; at the end those
// that the final U leaves are computed exactly. Where f32 overflows, the kernel's value is infinite or NaN (a finite value
// proves that no partial sum overflowed): such rows are candidates always.
//
// On glove100-100k (200 queries, k = 10 and 100) never more than k + 2 rows were computed in f64. At worst, when all rows tie,
// all are, in time linear in them. What else was considered: docs/decisions/flat-exactness.md.
//
// Between two steps the index may change:
//
//        scanned            position         not yet scanned
//   | x . . . . . . . . . . . . | . . . . . . . . . . . . y |
//     x is removed, and y comes into its place: y is *missed*, for the scan does not go back
//     z is removed before the scan came to it:  z is missed
//     x comes back, at the end:                 it is passed over, for its bounds have been counted
//
// `elsewhere` reads missed records, and candidates that the index no longer holds, from where they are now. Where rows are never moved
// (index/hnsw/tail.ts), there are none.

import { Growable } from "../../base/growable.ts";
import { Greatest, keepBest } from "../../base/top-k.ts";
import type { KernelBound, Metric } from "../../vector/metric.ts";
import type { Candidates, Visible } from "../contract.ts";
import { type Block, type BlockLayout, chunkRows } from "./block.ts";

/** What a scan needs from the index besides its rows. */
type Scanned = {
  readonly metric: Metric;
  /** The first row of a block that is scanned; absent: 0. */
  firstOf?(block: number): number;
  /** Where the rows of a block end that are scanned; undefined: there is no such block. */
  lengthOf(block: number): number | undefined;
  /** The state of rows that are passed over; absent: there are none. */
  readonly passedOver?: number;
  distancesOf(query: Float32Array, ordinals: Uint32Array, count: number, distances: Float64Array): void;
};

/** The search parameters; see FlatIndex.scan. */
export type ScanRequest = {
  readonly query: Float32Array;
  readonly k: number;
  visible(): Visible;
  elsewhere(ordinal: number): Float32Array | undefined;
};

/** From this many candidates on, the scan drops those beyond the current threshold each time their number has doubled. */
const sieveMin = 4_096;

export class FlatScan {
  readonly #index: Scanned;
  readonly #blocks: readonly Block[];
  readonly #capacity: number;
  readonly #request: ScanRequest;
  readonly #bound: KernelBound;
  readonly #onEnd: () => void;
  /** The first slot that was not looked at. */
  #position = 0;
  #visible: Visible = null;
  /** The k least upper bounds, negated. */
  readonly #uppers: Greatest;
  /** Rows with a lower bound above this cannot matter. */
  #ceiling = Number.POSITIVE_INFINITY;
  /** Candidates, and the lower bounds of their distances. */
  readonly #ordinals = new Growable(Uint32Array);
  readonly #lowers = new Growable(Float64Array);
  #sieveAt = sieveMin;
  readonly #missed = new Set<number>();
  /** Records that were scanned and then removed. */
  readonly #passed = new Set<number>();

  constructor(
    index: Scanned,
    blocks: readonly Block[],
    layout: BlockLayout,
    request: ScanRequest,
    onEnd: () => void,
  ) {
    this.#index = index;
    this.#blocks = blocks;
    this.#capacity = layout.capacity;
    this.#request = request;
    this.#bound = index.metric.kernelBound(request.query, layout.dimensionPadded);
    this.#uppers = new Greatest(request.k);
    this.#onEnd = onEnd;
  }

  /** Scans at least one chunk of rows, and continues until the time is over; returns whether the scan is complete. */
  run(isTimeOver: () => boolean): boolean {
    this.#visible = this.#request.visible();
    let prepared: Block | undefined;
    for (;;) {
      const number = Math.floor(this.#position / this.#capacity);
      const block = this.#blocks[number];
      let row = this.#position % this.#capacity;
      const length = this.#index.lengthOf(number);
      if (length === undefined) return true;
      const first = this.#index.firstOf?.(number) ?? 0;
      if (row < first) {
        this.#position += first - row;
        row = first;
      }
      if (row >= length) {
        if (this.#index.lengthOf(number + 1) === undefined) return true;
        this.#position = (number + 1) * this.#capacity;
        continue;
      }
      if (block !== prepared) block.setQuery(this.#request.query);
      prepared = block;
      // Rows are added between steps, so a step may begin within a chunk.
      const inChunk = row % chunkRows;
      const count = Math.min(chunkRows - inChunk, length - row);
      const chunk = (row - inChunk) / chunkRows;
      const values = block.kernelValues(this.#index.metric.kernel, row, count);
      this.#compareChunk(values, block, chunk, inChunk);
      this.#position += count;
      if (isTimeOver()) return false;
    }
  }

  /** The k best, and what ties with the k-th; in f64. */
  finish(): Candidates {
    const { query, k, elsewhere } = this.#request;
    const { metric } = this.#index;
    this.#sieve();
    const ordinals = this.#withMissed(this.#ordinals.values.subarray(0, this.#ordinals.length));
    const scores = new Float64Array(ordinals.length);
    this.#index.distancesOf(query, ordinals, ordinals.length, scores);
    let count = 0;
    for (let i = 0; i < ordinals.length; i++) {
      let distance = scores[i];
      if (Number.isNaN(distance)) {
        const vector = elsewhere(ordinals[i]);
        if (vector === undefined) continue;
        distance = metric.exactDistance(query)(vector, 0);
      }
      ordinals[count] = ordinals[i];
      scores[count++] = metric.score(distance);
    }
    return keepBest(ordinals, scores, count, k);
  }

  /** Adds the records that the scan has missed, if they are visible to the searched version: their visibility was not tested before. */
  #withMissed(ordinals: Uint32Array): Uint32Array {
    if (this.#missed.size === 0) return ordinals;
    const visible = this.#request.visible();
    const found = new Set(ordinals);
    for (const ordinal of this.#missed) if (visible === null || visible(ordinal)) found.add(ordinal);
    return Uint32Array.from(found);
  }

  /** Ends the scan; the index stops reporting its changes. */
  end(): void {
    this.#onEnd();
  }

  /** Called when a record is removed from a slot and the record of the last slot moves there. */
  onRemove(ordinal: number, slot: number, moved: number, last: number): void {
    if (slot >= this.#position) this.#missed.add(ordinal);
    else {
      this.#passed.add(ordinal);
      if (last >= this.#position) this.#missed.add(moved);
    }
  }

  /** Takes the values of rows that lie in a chunk from place `from` on. */
  #compareChunk(values: Float32Array, block: Block, chunk: number, from: number): void {
    const [factors, ordinals, states] = [block.factors[chunk], block.ordinals[chunk], block.states[chunk]];
    const { passedOver } = this.#index;
    const { scale, scaleByFactor, relative, slack, slackByFactor } = this.#bound;
    const nearer = 1 - relative;
    let ceiling = this.#ceiling;
    for (let i = 0; i < values.length; i++) {
      const factor = factors[from + i];
      const centre = values[i] * (scale + scaleByFactor * factor);
      const lower = centre * nearer - (slack + slackByFactor * factor);
      // Plus infinity means an overflow of unknown sign, and NaN compares as false: both remain candidates.
      if (lower > ceiling && lower < Number.POSITIVE_INFINITY) continue;
      if (passedOver !== undefined && states[from + i] === passedOver) continue;
      if (this.#visible !== null && !this.#visible(ordinals[from + i])) continue;
      const upper = centre * (1 + relative) + (slack + slackByFactor * factor);
      this.#take(ordinals[from + i], lower, upper);
      ceiling = this.#ceiling;
    }
  }

  #take(ordinal: number, lower: number, upper: number): void {
    // A record that was added again has already been counted; counting it twice would base the threshold on fewer than k records.
    if (this.#passed.size > 0 && this.#passed.has(ordinal)) return;
    const overflowed = !Number.isFinite(lower);
    this.#ordinals.push(ordinal);
    this.#lowers.push(overflowed ? Number.NEGATIVE_INFINITY : lower);
    if (!overflowed && -upper > this.#uppers.floor) {
      this.#uppers.offer(-upper);
      const least = -this.#uppers.floor;
      if (least < Number.POSITIVE_INFINITY) {
        const { metric } = this.#index;
        this.#ceiling = metric.distanceCeiling(metric.score(least));
      }
    }
    if (this.#ordinals.length >= this.#sieveAt) {
      this.#sieve();
      this.#sieveAt = Math.max(sieveMin, 2 * this.#ordinals.length);
    }
  }

  #sieve(): void {
    const ordinals = this.#ordinals.values;
    const lowers = this.#lowers.values;
    let kept = 0;
    for (let i = 0; i < this.#ordinals.length; i++) {
      if (lowers[i] > this.#ceiling) continue;
      ordinals[kept] = ordinals[i];
      lowers[kept++] = lowers[i];
    }
    this.#ordinals.length = kept;
    this.#lowers.length = kept;
  }
}
