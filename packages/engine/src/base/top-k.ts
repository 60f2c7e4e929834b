// Which are the k greatest of many numbers, and what ties with them?

/**
 * The k greatest of the numbers offered so far, as a binary heap with the least of them on top. An offer that is
 * not among them costs one comparison; one that is, log2(k) steps.
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

  /** Takes a number, which is not NaN, into account. */
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
  readonly ordinals: Uint32Array;
  readonly scores: Float64Array;
};

/**
 * The k best of the first `count` ordinals, and all others whose score equals the k-th. The arrays are borrowed;
 * the answer has its own. Takes time in proportion to `count` times log2(k) at worst, however many tie.
 */
export function keepBest(ordinals: Uint32Array, scores: Float64Array, count: number, k: number): Scored {
  if (k <= 0) return { count: 0, ordinals: new Uint32Array(0), scores: new Float64Array(0) };
  const greatest = new Greatest(Math.min(k, Math.max(count, 1)));
  for (let i = 0; i < count; i++) greatest.offer(scores[i]);
  const floor = greatest.floor;
  let kept = 0;
  for (let i = 0; i < count; i++) if (scores[i] >= floor) kept++;
  const best = { count: kept, ordinals: new Uint32Array(kept), scores: new Float64Array(kept) };
  for (let i = 0, to = 0; i < count; i++) {
    if (scores[i] < floor) continue;
    best.ordinals[to] = ordinals[i];
    best.scores[to++] = scores[i];
  }
  return best;
}
