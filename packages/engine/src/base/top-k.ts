// Which are the k greatest of many numbers, and what ties with them?

import { type Steps, sortInSteps } from "./steps.ts";

/**
 * The k greatest of the numbers offered so far, as a binary heap with the least of them on top. Rejecting an offer costs one comparison,
 * accepting it log2(k) steps.
 */
export class Greatest {
  readonly k: number;
  readonly #heap: Float64Array;
  #count = 0;

  /** `k` is at least 1. */
  constructor(k: number) {
    this.k = k;
    this.#heap = new Float64Array(k);
  }

  /** The k-th greatest number offered; minus infinity while fewer than k were. */
  get floor(): number {
    return this.#count < this.k ? Number.NEGATIVE_INFINITY : this.#heap[0];
  }

  /** Offers a number, which must not be NaN. */
  offer(value: number): void {
    if (this.#count < this.k) this.#rise(value);
    else if (value > this.#heap[0]) this.#sink(value);
  }

  #rise(value: number): void {
    const heap = this.#heap;
    let at = this.#count++;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (heap[parent] <= value) break;
      heap[at] = heap[parent];
      at = parent;
    }
    heap[at] = value;
  }

  /** Replaces the top. */
  #sink(value: number): void {
    const heap = this.#heap;
    const count = this.#count;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= count) break;
      if (child + 1 < count && heap[child + 1] < heap[child]) child++;
      if (heap[child] >= value) break;
      heap[at] = heap[child];
      at = child;
    }
    heap[at] = value;
  }
}

/** Ordinals and their scores, side by side; `count` is the length of both. In no particular order. */
export type Scored = {
  readonly count: number;
  readonly ordinals: readonly number[];
  readonly scores: readonly number[];
};

/**
 * The k best of the first `count` ordinals, and all others whose score equals the k-th. The arrays are borrowed; the result has its own.
 * Takes time proportional to `count` times log2(k) at worst, however many tie.
 */
export function keepBest(ordinals: Uint32Array, scores: Float64Array, count: number, k: number): Scored {
  if (k <= 0) return { count: 0, ordinals: [], scores: [] };
  const floor = count <= sortedMax ? kthOfFew(scores, count, k) : kthGreatest(scores, count, k);
  // Plain arrays: a typed array of more than 64 bytes is made outside of the heap, which takes longer than all of this.
  const best = { ordinals: [] as number[], scores: [] as number[] };
  for (let i = 0; i < count; i++) {
    if (scores[i] < floor) continue;
    best.ordinals.push(ordinals[i]);
    best.scores.push(scores[i]);
  }
  return { count: best.ordinals.length, ...best };
}

/** The least score; infinity of none. All ties are kept, so there can be more than a call takes as arguments. */
export function leastOf({ scores }: Scored): number {
  let least = Number.POSITIVE_INFINITY;
  for (const score of scores) if (score < least) least = score;
  return least;
}

function kthGreatest(scores: Float64Array, count: number, k: number): number {
  const greatest = new Greatest(Math.min(k, count));
  for (let i = 0; i < count; i++) greatest.offer(scores[i]);
  return greatest.floor;
}

/** Up to this many numbers, insertion sort is used. Most dense searches have no more candidates. */
const sortedMax = 48;
const sorted = new Float64Array(sortedMax);

/** The k-th greatest number, or the least if there are fewer than k. Building a heap instead takes twice as long. */
function kthOfFew(scores: Float64Array, count: number, k: number): number {
  const length = Math.min(k, count);
  for (let i = 0; i < count; i++) {
    const score = scores[i];
    let at = Math.min(i, length);
    for (; at > 0 && sorted[at - 1] < score; at--) if (at < length) sorted[at] = sorted[at - 1];
    if (at < length) sorted[at] = score;
  }
  return length === 0 ? Number.NEGATIVE_INFINITY : sorted[length - 1];
}

// ---- Which are the least of many items, in steps and in little memory?
//
// Items are gathered until there are twice as many as wanted; then they are sorted, the greater ones dropped, and what is not less than the
// last of the rest is no longer taken. So each item costs a comparison, and a sort of a few items for each that is taken.

/** Fewer items are not worth a sort. */
const gatheredMin = 1_024;

export class Least<T> {
  readonly #wanted: number;
  readonly #compare: (a: T, b: T) => number;
  #items: T[] = [];
  /** The last of the wanted items, once there are so many. */
  #last: { readonly item: T } | undefined;

  /**
   * @param wanted how many, at least 1
   * @param compare a total order: of equal items any may be dropped
   */
  constructor(wanted: number, compare: (a: T, b: T) => number) {
    this.#wanted = wanted;
    this.#compare = compare;
  }

  /** Offers an item. @returns whether `cut` is due, before the next one is offered */
  offer(item: T): boolean {
    if (this.#last !== undefined && this.#compare(item, this.#last.item) >= 0) return false;
    return this.#items.push(item) >= Math.max(gatheredMin, 2 * this.#wanted);
  }

  /** How many items are missing to as many as wanted. */
  get missing(): number {
    return Math.max(0, this.#wanted - this.#items.length);
  }

  /** Drops what is not wanted. */
  *cut(): Steps<void> {
    this.#items = yield* sortInSteps(this.#items, this.#compare);
    if (this.missing > 0) return;
    this.#items.length = this.#wanted;
    this.#last = { item: this.#items[this.#wanted - 1] };
  }

  /** The least items, ascending, as many as wanted or all that were offered. It must not be used afterwards. */
  *take(): Steps<T[]> {
    yield* this.cut();
    return this.#items;
  }
}
