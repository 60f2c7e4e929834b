// Which are the k best records that a search has found so far?

import { foundBytes, scratch as scratchFields } from "@quiverdb/kernels/postings";
import { keepBest } from "../../base/top-k.ts";
import type { Candidates } from "../contract.ts";
import type { SegmentMemory } from "./segment-memory.ts";
import type { SegmentReader } from "./segment-reader.ts";

/** The candidates found so far, and the heap of the k best scores in the arena that used it last. */
export class Best {
  readonly #k: number;
  // Plain arrays, because a typed array of more than 64 bytes is allocated outside the heap, and only few records are found.
  readonly #ordinals: number[] = [];
  readonly #scores: number[] = [];
  #arena: SegmentMemory | undefined;
  #heap: number[];

  constructor(k: number, first: Candidates) {
    this.#k = k;
    this.add(first);
    // Ascending numbers are a heap.
    this.#heap = [...first.scores].sort((a, b) => a - b).slice(-k);
  }

  /** Adds candidates without updating the heap. */
  add({ count, ordinals, scores }: Candidates): void {
    for (let i = 0; i < count; i++) {
      this.#ordinals.push(ordinals[i]);
      this.#scores.push(scores[i]);
    }
  }

  /** The k-th best score; minus infinity while there are fewer. */
  get floor(): number {
    return this.#heap.length < this.#k ? Number.NEGATIVE_INFINITY : this.#heap[0];
  }

  /** Moves the heap into an arena, which has room for it. */
  enter(arena: SegmentMemory): void {
    if (this.#arena === arena) return;
    this.#fetchHeap();
    this.#arena = arena;
    arena.doubles.set(this.#heap, arena.field("heap") >>> 3);
    arena.words[(arena.scratch + scratchFields.heapCount) >>> 2] = this.#heap.length;
  }

  /** Takes what a search of a segment has found and can still be among the best. */
  take(segment: SegmentReader, floor: number): void {
    const { doubles, words, scratch } = segment.arena;
    const count = segment.arena.field("foundCount");
    for (let i = 0, at = segment.arena.field("found"); i < count; i++, at += foundBytes) {
      const score = doubles[at >>> 3];
      if (score < floor) continue;
      this.#ordinals.push(segment.ordinals[words[(at + 8) >>> 2]]);
      this.#scores.push(score);
    }
    words[(scratch + scratchFields.foundCount) >>> 2] = 0;
  }

  /** The k best of all that was found and is on the heap, and what ties with the last. */
  bestOfHeap(): Candidates {
    this.#fetchHeap();
    const { floor } = this;
    const best = { ordinals: [] as number[], scores: [] as number[] };
    for (let i = 0; i < this.#scores.length; i++) {
      if (this.#scores[i] < floor) continue;
      best.ordinals.push(this.#ordinals[i]);
      best.scores.push(this.#scores[i]);
    }
    return { count: best.ordinals.length, ...best };
  }

  /** ... of all that was added. */
  bestOfAdded(): Candidates {
    const scores = Float64Array.from(this.#scores);
    return keepBest(Uint32Array.from(this.#ordinals), scores, scores.length, this.#k);
  }

  #fetchHeap(): void {
    if (this.#arena === undefined) return;
    const { doubles } = this.#arena;
    const from = this.#arena.field("heap") >>> 3;
    const count = this.#arena.field("heapCount");
    this.#heap = [];
    for (let i = 0; i < count; i++) this.#heap.push(doubles[from + i]);
  }
}
