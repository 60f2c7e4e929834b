// Which vectors are nearest to a query, exactly?
//
// Every search reads every row: the truth that other dense indexes are measured against, the index of collections
// that are small enough, and the scan behind `exact: true`.
//
// A search is exact although its pass over the rows computes in f32. Let D be the exact (f64) distance of a row. The
// kernel's f32 value bounds it, lower <= D <= upper (the bound is proven in vector/ and kernels/rounding). Let U be the
// k-th least `upper` among visible rows so far: k rows with D <= U exist, so a row whose lower bound, and thus D, gives a
// worse score than U cannot be among the k best, nor tie with the k-th. All others are candidates; at the end those
// that the final U leaves are computed exactly. Where f32 overflows, the kernel's value is infinite or NaN (a finite value
// proves that no partial sum overflowed): such rows are candidates always.
//
// On glove100-100k (200 queries, k = 10 and 100) never more than k + 2 rows were computed in f64. At worst, when all rows tie, all are, in time linear in them.
// What else was considered: docs/decisions/flat-exactness.md.
//
// Rows are dense across segments: slot s is row s mod capacity of segment floor(s / capacity), and a removed row's
// place is taken by the last row. Invariants (see check):
//   1. The map has each ordinal once, with the slot that names it; slots are 0 to count - 1.
//   2. All segments but the last are full; there is no empty one but the first, which stays: an index that is filled and
//      emptied by turns (the tail of an HNSW index) would else make a memory each time, which takes a tenth of a millisecond.
//   3. A row's factor is that of its values; its padding is zero.

import type { MetricName } from "@quiver/protocol/shapes/index-definition";
import { Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import { Greatest, keepBest } from "../../base/top-k.ts";
import { squaredNorm } from "../../vector/exact.ts";
import type { KernelBound, Metric } from "../../vector/metric.ts";
import { metrics } from "../../vector/metrics.ts";
import { assertAscending, type Candidates, type Index, nothing, type Visible } from "../contract.ts";
import { absent, OrdinalMap } from "../ordinal-map.ts";
import { blockRows, layOutSegment, Segment, type SegmentLayout, sumsRows } from "./segment.ts";

export type FlatOptions = {
  /** 1 to 65,535. */
  dimension: number;
  metric: MetricName;
  /** Bytes at which a segment is full: 4 GiB at most, the default. Tests cross the boundary with less. */
  segmentBytesMax?: number;
  /** Whether records may come in any order, as into a cache. */
  isUnordered?: boolean;
};

export class FlatIndex implements Index {
  readonly dimension: number;
  readonly metric: Metric;
  readonly #layout: SegmentLayout;
  readonly #isUnordered: boolean;
  readonly #segments: Segment[] = [];
  readonly #slots = new OrdinalMap();
  #last = -1;

  constructor({ dimension, metric, segmentBytesMax = 2 ** 32, isUnordered = false }: FlatOptions) {
    this.dimension = dimension;
    this.#isUnordered = isUnordered;
    this.metric = metrics[metric];
    this.#layout = layOutSegment(dimension, segmentBytesMax);
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
    const slot = this.count;
    const number = Math.floor(slot / this.#layout.capacity);
    if (number === this.#segments.length) this.#segments.push(new Segment(this.#layout));
    const segment = this.#segments[number];
    const row = segment.push(ordinal, values);
    const squared = squaredNorm(segment.floats, segment.rowAt(row), this.dimension);
    if (!Number.isFinite(squared)) {
      segment.pop();
      if (segment.length === 0 && number > 0) this.#segments.pop();
      invariant(false, `the vector of ordinal ${ordinal} has a value that is not finite`);
    }
    segment.setFactor(row, this.metric.rowFactor(squared));
    this.#slots.set(ordinal, slot);
    this.#last = Math.max(this.#last, ordinal);
  }

  /** Nothing to do: a closed record is found as before, and `visible` decides. */
  retire(_ordinal: number): void {}

  remove(ordinal: number): void {
    const slot = this.#slots.get(ordinal);
    if (slot === absent) return;
    const { capacity } = this.#layout;
    const last = this.#segments[this.#segments.length - 1];
    const moved = last.ordinalOf(last.length - 1);
    if (moved !== ordinal) {
      last.moveLastTo(this.#segments[Math.floor(slot / capacity)], slot % capacity);
      this.#slots.set(moved, slot);
    }
    this.#slots.delete(ordinal);
    last.pop();
    if (last.length === 0 && this.#segments.length > 1) this.#segments.pop();
  }

  /**
   * The k nearest records by exact score, with all ties at the boundary. `query` has `dimension` finite values and is
   * borrowed. `visible` is asked only about rows that may be among them.
   */
  search(query: Float32Array, k: number, visible: Visible): Candidates {
    const { dimension } = this;
    invariant(query.length === dimension, `a query has ${query.length} values instead of ${dimension}`);
    invariant(Number.isFinite(squaredNorm(query, 0, dimension)), "a query has a value that is not finite");
    if (k <= 0 || this.count === 0) return nothing;
    const bound = this.metric.kernelBound(query, this.#layout.dimensionPadded);
    const scan = new Scan(this.metric, bound, Math.min(k, this.count), visible);
    this.#segments.forEach((segment, number) => {
      segment.setQuery(query);
      for (let row = 0; row < segment.length; row += blockRows) {
        const values = segment.kernelValues(
          this.metric.kernel,
          row,
          Math.min(blockRows, segment.length - row),
        );
        const block = row / blockRows;
        scan.block(
          values,
          segment.factors[block],
          segment.ordinals[block],
          number * this.#layout.capacity + row,
        );
      }
    });
    return this.#exactly(query, scan, k);
  }

  /** Writes the exact distances of the first `count` records; NaN for those that are not held. `query` is borrowed. */
  distancesOf(query: Float32Array, ordinals: Uint32Array, count: number, distances: Float64Array): void {
    this.#distances(query, (i) => this.#slots.get(ordinals[i]), count, distances);
  }

  /** Writes the exact distances of the rows in slots; NaN for `absent`. */
  #distances(
    query: Float32Array,
    slotOf: (i: number) => number,
    count: number,
    distances: Float64Array,
  ): void {
    const { capacity } = this.#layout;
    const { exactKind } = this.metric;
    const distanceOf = this.metric.distanceOfSums(query);
    for (let from = 0; from < count; from += sumsRows) {
      const length = Math.min(sumsRows, count - from);
      for (let i = 0; i < length; i++) slots[i] = slotOf(from + i);
      distances.fill(Number.NaN, from, from + length);
      for (let number = 0; number < this.#segments.length; number++) {
        const segment = this.#segments[number];
        let rowCount = 0;
        for (let i = 0; i < length; i++) {
          const row = slots[i] - number * capacity;
          if (row < 0 || row >= segment.length) continue;
          rows[rowCount] = row;
          places[rowCount++] = from + i;
        }
        if (rowCount === 0) continue;
        segment.setQuery(query);
        const sums = segment.exactSums(rows, rowCount, exactKind);
        for (let i = 0; i < rowCount; i++) distances[places[i]] = distanceOf(sums[2 * i], sums[2 * i + 1]);
      }
    }
  }

  /** A record's vector, a view that the next change can move; undefined where it is not held. */
  vectorOf(ordinal: number): Float32Array | undefined {
    const slot = this.#slots.get(ordinal);
    if (slot === absent) return undefined;
    const { capacity } = this.#layout;
    const segment = this.#segments[Math.floor(slot / capacity)];
    const at = segment.rowAt(slot % capacity);
    return segment.floats.subarray(at, at + this.dimension);
  }

  /** The ordinal of the record in a slot, 0 to count - 1. */
  ordinalAt(slot: number): number {
    const { capacity } = this.#layout;
    return this.#segments[Math.floor(slot / capacity)].ordinalOf(slot % capacity);
  }

  /** All ordinals, ascending. */
  ordinals(): number[] {
    return Array.from(this.#slots.entries(), ([ordinal]) => ordinal);
  }

  get memoryBytes(): number {
    return this.#slots.memoryBytes + this.#segments.reduce((sum, segment) => sum + segment.memoryBytes, 0);
  }

  close(): void {
    this.#segments.length = 0;
    this.#slots.clear();
  }

  check(): void {
    const { capacity, dimensionPadded } = this.#layout;
    this.#slots.check();
    this.#segments.forEach((segment, number) => {
      const full =
        number < this.#segments.length - 1 ? capacity : Math.max(Math.min(1, number), segment.length);
      invariant(
        segment.length === full && segment.length <= capacity,
        `segment ${number} has ${segment.length} rows`,
      );
      for (let row = 0; row < segment.length; row++) {
        const slot = number * capacity + row;
        const ordinal = segment.ordinalOf(row);
        const mapped = this.#slots.get(ordinal);
        invariant(mapped === slot, `slot ${slot} names ordinal ${ordinal}, which the map puts at ${mapped}`);
        invariant(ordinal <= this.#last, `ordinal ${ordinal} is beyond the last, ${this.#last}`);
        const at = segment.rowAt(row);
        const factor = this.metric.rowFactor(squaredNorm(segment.floats, at, this.dimension));
        const kept = segment.factorOf(row);
        invariant(kept === factor, `the factor of slot ${slot} is ${kept} instead of ${factor}`);
        for (let i = this.dimension; i < dimensionPadded; i++) {
          invariant(segment.floats[at + i] === 0, `the padding of slot ${slot} is not zero`);
        }
      }
    });
    const rows = this.#segments.reduce((sum, segment) => sum + segment.length, 0);
    invariant(rows === this.#slots.size, `${rows} rows for ${this.#slots.size} ordinals`);
  }

  /** Computes the scan's candidates in f64 and keeps the best. */
  #exactly(query: Float32Array, scan: Scan, k: number): Candidates {
    const slots = scan.finish();
    const ordinals = slots.map((slot) => this.ordinalAt(slot));
    const scores = new Float64Array(slots.length);
    this.#distances(query, (i) => slots[i], slots.length, scores);
    for (let i = 0; i < scores.length; i++) scores[i] = this.metric.score(scores[i]);
    return keepBest(ordinals, scores, slots.length, k);
  }
}

/** Slots whose distances are computed at a time, the rows of them that are in one segment, and the places of those. */
const slots = new Uint32Array(sumsRows);
const rows = new Uint32Array(sumsRows);
const places = new Uint32Array(sumsRows);

/** Candidates are sieved by the threshold reached meanwhile each time their number has doubled, and from here on. */
const sieveMin = 4_096;

/** One search's pass over the kernel values: keeps the rows whose distance may be among the k least. */
class Scan {
  readonly #metric: Metric;
  readonly #bound: KernelBound;
  readonly #visible: Visible;
  /** The k least upper bounds, negated. */
  readonly #uppers: Greatest;
  /** Rows with a lower bound above this cannot matter. */
  #ceiling = Number.POSITIVE_INFINITY;
  readonly #slots = new Growable(Uint32Array);
  readonly #lowers = new Growable(Float64Array);
  #sieveAt = sieveMin;

  constructor(metric: Metric, bound: KernelBound, k: number, visible: Visible) {
    this.#metric = metric;
    this.#bound = bound;
    this.#visible = visible;
    this.#uppers = new Greatest(k);
  }

  /** Takes the rows from `firstSlot` on: their kernel values, factors and ordinals. */
  block(values: Float32Array, factors: Float64Array, ordinals: Uint32Array, firstSlot: number): void {
    const { scale, scaleByFactor, relative, slack, slackByFactor } = this.#bound;
    const nearer = 1 - relative;
    let ceiling = this.#ceiling;
    for (let i = 0; i < values.length; i++) {
      const factor = factors[i];
      const centre = values[i] * (scale + scaleByFactor * factor);
      const lower = centre * nearer - (slack + slackByFactor * factor);
      // Plus infinity means an overflow that can have had either sign, and NaN compares as false: both go on.
      if (lower > ceiling && lower < Number.POSITIVE_INFINITY) continue;
      if (this.#visible !== null && !this.#visible(ordinals[i])) continue;
      const upper = centre * (1 + relative) + (slack + slackByFactor * factor);
      this.#take(firstSlot + i, lower, upper);
      ceiling = this.#ceiling;
    }
  }

  /** The slots that the final threshold leaves, ascending. */
  finish(): Uint32Array {
    this.#sieve();
    return this.#slots.values.subarray(0, this.#slots.length);
  }

  #take(slot: number, lower: number, upper: number): void {
    const overflowed = !Number.isFinite(lower);
    this.#slots.push(slot);
    this.#lowers.push(overflowed ? Number.NEGATIVE_INFINITY : lower);
    if (!overflowed && -upper > this.#uppers.floor) {
      this.#uppers.offer(-upper);
      const least = -this.#uppers.floor;
      if (least < Number.POSITIVE_INFINITY) {
        this.#ceiling = this.#metric.distanceCeiling(this.#metric.score(least));
      }
    }
    if (this.#slots.length >= this.#sieveAt) {
      this.#sieve();
      this.#sieveAt = Math.max(sieveMin, 2 * this.#slots.length);
    }
  }

  #sieve(): void {
    const slots = this.#slots.values;
    const lowers = this.#lowers.values;
    let kept = 0;
    for (let i = 0; i < this.#slots.length; i++) {
      if (lowers[i] > this.#ceiling) continue;
      slots[kept] = slots[i];
      lowers[kept++] = lowers[i];
    }
    this.#slots.length = kept;
    this.#lowers.length = kept;
  }
}
