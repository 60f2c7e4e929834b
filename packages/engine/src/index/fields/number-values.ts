// Which records have a number, or a moment, beyond a bound?
//
// The values lie in buckets by their order, at most `bucketsMax`; a bucket has pairs of value and ordinal in no order. Between two buckets is
// a bitmap of all records with a value before that boundary:
//
//   values    -inf ..... b1 ........ b2 ............ b3 ..... +inf
//   buckets   |    0     |     1     |       2       |    3     |
//   below          (none)      [1]         [2]             [3]          below[i]: some value is less than b(i)
//
// So "less than x" is one bitmap and the pairs of one bucket, about a sixty-fourth of the records: its cost does not grow with the records
// that match. "At least x" is what is left of all records with a value; only a record with several values can be in both, so those have
// bitmaps in the other direction, too (`above`). A bucket is halved when it has twice its share of the pairs, and the two neighbours with
// the fewest pairs are joined where there are too many. Pairs with one value are never parted, so a bucket of one
// value can have any number of them. It is read only where no bitmap knows the answer, and then in steps.
//
// What was tried: bit slices of the values' ranks take a third of the memory, and 40 passes over all records in place of one.

import { Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import { sharedArray } from "../../base/shared-memory.ts";
import type { Steps } from "../../base/steps.ts";
import type { ValuePart } from "../field-index.ts";
import type { BitmapBuilder } from "../ordinal-bitmap.ts";
import { GrowingBitmap } from "./value-sets.ts";

const bucketsMax = 64;
/** Smaller buckets are not halved. */
const pairsMin = 512;

/** Pairs that are copied, and that are compared, at a step. */
const pairsPerStep = 1_024;
const pairsReadPerStep = 65_536;

/** Pairs that do not change, with the least and the greatest of their values. */
class Pairs implements ValuePart<number> {
  readonly values: Float64Array;
  readonly ordinals: Uint32Array;
  readonly length: number;
  readonly least: number;
  readonly greatest: number;

  constructor(
    values: Float64Array,
    ordinals: Uint32Array,
    { length, least, greatest }: { length: number; least: number; greatest: number },
  ) {
    this.values = values;
    this.ordinals = ordinals;
    this.length = length;
    this.least = least;
    this.greatest = greatest;
  }

  *[Symbol.iterator](): Generator<readonly [value: number, ordinal: number]> {
    for (let i = 0; i < this.length; i++) yield [this.values[i], this.ordinals[i]];
  }
}

class Bucket {
  /** The least value that belongs into it. */
  readonly from: number;
  readonly values = new Growable(Float64Array, 16);
  readonly ordinals = new Growable(Uint32Array, 16);
  least = Number.POSITIVE_INFINITY;
  greatest = Number.NEGATIVE_INFINITY;

  constructor(from: number) {
    this.from = from;
  }

  get length(): number {
    return this.values.length;
  }

  /** The pairs as they are now: those that are added later are behind them. */
  get pairs(): Pairs {
    const { values, ordinals, length, least, greatest } = this;
    return new Pairs(values.values, ordinals.values, { length, least, greatest });
  }

  /** Whether all pairs have the same value. There can be any number of such pairs, because they are never parted. */
  get isOneValue(): boolean {
    return this.least === this.greatest;
  }

  add(value: number, ordinal: number): void {
    this.values.push(value);
    this.ordinals.push(ordinal);
    this.least = Math.min(this.least, value);
    this.greatest = Math.max(this.greatest, value);
  }

  get memoryBytes(): number {
    return this.values.memoryBytes + this.ordinals.memoryBytes;
  }
}

/** What a checkpoint stores of the values, besides the pairs. */
export type NumberState = { readonly buckets: readonly { readonly from: number; readonly length: number }[] };

export class NumberValues {
  #buckets: Bucket[] = [new Bucket(Number.NEGATIVE_INFINITY)];
  /** below[i]: records with a value in a bucket before i. */
  #below: GrowingBitmap[] = [new GrowingBitmap()];
  /** above[i]: of the records with several values, those with one in bucket i or behind it. */
  #above: GrowingBitmap[] = [new GrowingBitmap()];
  readonly #all = new GrowingBitmap();
  readonly #several = new GrowingBitmap();
  /** Pairs in all buckets. */
  pairs = 0;

  /** Adds a record with its values, at least one. Ordinals ascend. */
  add(ordinal: number, values: readonly number[]): void {
    invariant(values.length > 0, () => `ordinal ${ordinal} is added without a value`);
    const different = values.length === 1 ? values : [...new Set(values)];
    this.#all.add(ordinal);
    if (different.length > 1) this.#several.add(ordinal);
    for (const value of different) this.#addPair(ordinal, value === 0 ? 0 : value, different.length > 1);
  }

  #addPair(ordinal: number, value: number, isOneOfSeveral: boolean): void {
    const at = this.#bucketOf(value);
    const bucket = this.#buckets[at];
    bucket.add(value, ordinal);
    this.pairs++;
    for (let i = at + 1; i < this.#buckets.length; i++) this.#below[i].add(ordinal);
    if (isOneOfSeveral) for (let i = 0; i <= at; i++) this.#above[i].add(ordinal);
    if (bucket.length >= Math.max(pairsMin, (2 * this.pairs) / bucketsMax)) this.#halve(at);
  }

  /** The bucket that a value belongs into. */
  #bucketOf(value: number): number {
    let from = 0;
    let to = this.#buckets.length - 1;
    while (from < to) {
      const middle = (from + to + 1) >>> 1;
      if (this.#buckets[middle].from <= value) from = middle;
      else to = middle - 1;
    }
    return from;
  }

  #halve(at: number): void {
    const bucket = this.#buckets[at];
    if (bucket.isOneValue) return;
    const sorted = bucket.values.values.slice(0, bucket.length).sort();
    let boundary = sorted[sorted.length >>> 1];
    // A boundary is the least value of its bucket, and the one before must not be empty.
    if (boundary === bucket.least) boundary = sorted.find((value) => value > bucket.least) as number;
    invariant(
      boundary > bucket.least && boundary > bucket.from,
      () => `a bucket from ${bucket.from} on is halved at ${boundary}`,
    );
    const [left, right] = [new Bucket(bucket.from), new Bucket(boundary)];
    const below = this.#below[at].copy();
    const above = at + 1 < this.#above.length ? this.#above[at + 1].copy() : new GrowingBitmap();
    for (let i = 0; i < bucket.length; i++) {
      const value = bucket.values.values[i];
      const ordinal = bucket.ordinals.values[i];
      (value < boundary ? left : right).add(value, ordinal);
      if (value < boundary) below.add(ordinal);
      else if (this.#several.has(ordinal)) above.add(ordinal);
    }
    invariant(
      left.length > 0 && left.length + right.length === bucket.length,
      () => `a bucket of ${bucket.length} is halved into ${left.length} and ${right.length}`,
    );
    this.#buckets.splice(at, 1, left, right);
    this.#below.splice(at + 1, 0, below);
    this.#above.splice(at + 1, 0, above);
    if (this.#buckets.length > bucketsMax) this.#join();
  }

  /** Joins the two neighbours with the fewest pairs. */
  #join(): void {
    let at = 0;
    const pairsAt = (i: number) => this.#buckets[i].length + this.#buckets[i + 1].length;
    for (let i = 1; i + 1 < this.#buckets.length; i++) if (pairsAt(i) < pairsAt(at)) at = i;
    const [left, right] = this.#buckets.slice(at, at + 2);
    for (let i = 0; i < right.length; i++) left.add(right.values.values[i], right.ordinals.values[i]);
    this.#buckets.splice(at + 1, 1);
    this.#below.splice(at + 1, 1);
    this.#above.splice(at + 1, 1);
  }

  /** Adds the records with a value that is less than a bound; `orEqual`: or equal to it. */
  addLess(into: BitmapBuilder, bound: number, orEqual: boolean): void {
    const at = this.#bucketOf(bound);
    const bucket = this.#buckets[at];
    const isLess = (value: number): boolean => value < bound || (orEqual && value === bound);
    if (bucket.isOneValue) {
      addAll(into, isLess(bucket.least) ? this.#upTo(at) : this.#below[at]);
      return;
    }
    addAll(into, this.#below[at]);
    const { values, ordinals, length } = bucket.pairs;
    for (let i = 0; i < length; i++) if (isLess(values[i])) into.add(ordinals[i]);
  }

  /** Adds the records with a value that is greater than a bound; `orEqual`: or equal to it. */
  addGreater(into: BitmapBuilder, bound: number, orEqual: boolean, empty: () => BitmapBuilder): void {
    const less = empty();
    this.addLess(less, bound, !orEqual);
    less.addWords(this.#several.words, Math.max(0, this.#several.firstWord));
    const greater = addAll(empty(), this.#all).andNot(less);
    into.or(greater);
    less.discard();
    greater.discard();
    if (this.#several.count === 0) return;
    const at = this.#bucketOf(bound);
    const bucket = this.#buckets[at];
    const isGreater = (value: number): boolean => value > bound || (orEqual && value === bound);
    const first = bucket.isOneValue && isGreater(bucket.least) ? at : at + 1;
    if (first < this.#above.length) addAll(into, this.#above[first]);
    if (bucket.isOneValue) return;
    const { values, ordinals, length } = bucket.pairs;
    for (let i = 0; i < length; i++) if (isGreater(values[i])) into.add(ordinals[i]);
  }

  /** Adds the records with one of some values, in steps. */
  *addEqual(into: BitmapBuilder, wanted: ReadonlySet<number>, empty: () => BitmapBuilder): Steps<void> {
    const buckets = new Map<Bucket, number>();
    for (const value of wanted) {
      const at = this.#bucketOf(value);
      buckets.set(this.#buckets[at], at);
    }
    // What can be had without reading pairs first, before buckets are halved or joined.
    const rest = [...buckets].filter(([bucket, at]) => !this.#addEqualAt(into, bucket, at, wanted, empty));
    const pairs = rest.map(([bucket]) => bucket.pairs);
    const [only] = wanted;
    let read = 0;
    for (const { values, ordinals, length } of pairs)
      for (let from = 0; from < length; from += pairsReadPerStep) {
        const end = Math.min(length, from + pairsReadPerStep);
        if (wanted.size === 1) {
          for (let i = from; i < end; i++) if (values[i] === only) into.add(ordinals[i]);
        } else for (let i = from; i < end; i++) if (wanted.has(values[i])) into.add(ordinals[i]);
        read += end - from;
        if (read < pairsReadPerStep) continue;
        read = 0;
        yield;
      }
  }

  /** Adds what a bucket of one value has, where bitmaps tell. @returns whether they do */
  #addEqualAt(
    into: BitmapBuilder,
    { isOneValue, least }: Bucket,
    at: number,
    wanted: ReadonlySet<number>,
    empty: () => BitmapBuilder,
  ): boolean {
    if (!isOneValue) return false;
    if (!wanted.has(least)) return true;
    // A record with several values can be in a bucket and before it.
    if (this.#several.count > 0) return false;
    const below = addAll(empty(), this.#below[at]);
    const equal = addAll(empty(), this.#upTo(at)).andNot(below);
    into.or(equal);
    below.discard();
    equal.discard();
    return true;
  }

  /** The records with a value in a bucket or before it. */
  #upTo(at: number): GrowingBitmap {
    return at + 1 < this.#below.length ? this.#below[at + 1] : this.#all;
  }

  /** All pairs that there are now, in parts with ascending values, whatever is added meanwhile. */
  parts(): ValuePart<number>[] {
    // A bucket that is halved or joined to another one keeps its first pairs.
    return this.#buckets.map(({ pairs }) => pairs);
  }

  /** The same, one by one. */
  *entries(): Generator<readonly [value: number, ordinal: number]> {
    for (const part of this.parts()) yield* part;
  }

  /** The same values of the records that are kept, in steps. */
  *without(keeps: (ordinal: number) => boolean): Steps<NumberValues> {
    const made = new NumberValues();
    for (const ordinal of this.#several.ordinals()) if (keeps(ordinal)) made.#several.add(ordinal);
    let count = 0;
    for (const [value, ordinal] of this.entries()) {
      if (keeps(ordinal)) {
        made.#all.add(ordinal);
        made.#addPair(ordinal, value, this.#several.has(ordinal));
      }
      if (++count % pairsPerStep === 0) yield;
    }
    return made;
  }

  /** What a checkpoint stores: the buckets, and the pairs of all of them. The columns are copies, in shared memory. */
  save(): { state: NumberState; columns: [Float64Array, Uint32Array] } {
    const columns: [Float64Array, Uint32Array] = [
      sharedArray(Float64Array, this.pairs),
      sharedArray(Uint32Array, this.pairs),
    ];
    let end = 0;
    const buckets = this.#buckets.map(({ from, values, ordinals, length }) => {
      columns[0].set(values.values.subarray(0, length), end);
      columns[1].set(ordinals.values.subarray(0, length), end);
      end += length;
      return { from, length };
    });
    invariant(end === this.pairs, `${end} of ${this.pairs} pairs are saved`);
    return { state: { buckets }, columns };
  }

  /** @param columns values and ordinals of the pairs, bucket by bucket */
  static restored(
    { buckets }: NumberState,
    [values, ordinals]: readonly [Float64Array, Uint32Array],
  ): NumberValues {
    const restored = new NumberValues();
    let end = 0;
    restored.#buckets = buckets.map(({ from, length }) => {
      const bucket = new Bucket(from);
      for (const until = end + length; end < until; end++) bucket.add(values[end], ordinals[end]);
      return bucket;
    });
    restored.pairs = end;
    invariant(
      end === values.length && end === ordinals.length,
      `buckets have ${end} pairs of ${values.length} values and ${ordinals.length} ordinals`,
    );
    for (const [, ordinal] of restored.entries())
      if (!restored.#all.add(ordinal)) restored.#several.add(ordinal);
    const below = new GrowingBitmap();
    restored.#below = restored.#buckets.map((bucket) => {
      const before = below.copy();
      for (let i = 0; i < bucket.length; i++) below.add(bucket.ordinals.values[i]);
      return before;
    });
    const above = new GrowingBitmap();
    restored.#above = restored.#buckets
      .toReversed()
      .map((bucket) => {
        for (let i = 0; i < bucket.length; i++)
          if (restored.#several.has(bucket.ordinals.values[i])) above.add(bucket.ordinals.values[i]);
        return above.copy();
      })
      .reverse();
    return restored;
  }

  get memoryBytes(): number {
    let bytes = this.#all.memoryBytes + this.#several.memoryBytes;
    for (const bitmap of [...this.#below, ...this.#above]) bytes += bitmap.memoryBytes;
    for (const bucket of this.#buckets) bytes += bucket.memoryBytes;
    return bytes;
  }

  check(): void {
    const [first] = this.#buckets;
    invariant(first.from === Number.NEGATIVE_INFINITY, `the first bucket begins at ${first.from}`);
    let pairs = 0;
    for (const [at, bucket] of this.#buckets.entries()) {
      pairs += bucket.length;
      const next = this.#buckets[at + 1]?.from ?? Number.POSITIVE_INFINITY;
      for (const value of bucket.values.values.subarray(0, bucket.length))
        invariant(
          value >= bucket.from && (value < next || next === Number.POSITIVE_INFINITY),
          `the value ${value} is in the bucket from ${bucket.from} to ${next}`,
        );
      const below = new Set<number>();
      const above = new Set<number>();
      for (const [i, { ordinals, length }] of this.#buckets.entries())
        for (const ordinal of ordinals.values.subarray(0, length)) {
          if (i < at) below.add(ordinal);
          else if (this.#several.has(ordinal)) above.add(ordinal);
        }
      assertSame(this.#below[at], below, `below ${bucket.from}`);
      assertSame(this.#above[at], above, `from ${bucket.from} on`);
    }
    invariant(pairs === this.pairs, `${pairs} pairs, not ${this.pairs}`);
  }
}

function addAll(into: BitmapBuilder, bitmap: GrowingBitmap): BitmapBuilder {
  return bitmap.count === 0 ? into : into.addWords(bitmap.words, bitmap.firstWord);
}

function assertSame(bitmap: GrowingBitmap, ordinals: ReadonlySet<number>, what: string): void {
  const found = [...bitmap.ordinals()];
  invariant(
    found.length === ordinals.size && found.every((ordinal) => ordinals.has(ordinal)),
    `${found.length} records are ${what}, not ${ordinals.size}`,
  );
}
