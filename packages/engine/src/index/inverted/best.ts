// Which are the k best records that a search has found so far?

import { foundBytes, scratch as scratchFields } from "@quiverdb/kernels/postings";
import { Growable } from "../../base/growable.ts";
import { Greatest, keepBest } from "../../base/top-k.ts";
import { type Candidates, nothing } from "../contract.ts";
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

// ---- Which records of a mutable buffer, or of a segment, have the greatest scores, when all of them are scored?
//
// One search at a time adds scores by slot. The arrays are reused by the next search, with all states zero; a search lists the entries that
// it touches, so that clearing costs no more than the search.

/** Whether a record may be found; null: every one may. Pure, and must not call the index. */
export type Accepts = ((ordinal: number) => boolean) | null;

/** States of a record during a search: it is found, or is not to be. 0: neither is known yet. */
export const found = 1;
export const hidden = 2;

export class RecordScores {
  /** By slot: the score so far. Meaningless while the state is 0. */
  scores = new Float64Array(0);
  states = new Uint8Array(0);
  /** The slots whose state is not 0: the first `count`. */
  touched = new Uint32Array(0);
  count = 0;

  /** Ensures room for slots below `slotsEnd`. */
  begin(slotsEnd: number): void {
    if (this.states.length >= slotsEnd) return;
    const capacity = Math.max(64, 2 * slotsEnd);
    this.scores = new Float64Array(capacity);
    this.states = new Uint8Array(capacity);
    this.touched = new Uint32Array(capacity);
  }

  /** Sets the state of a slot that has none, and its score to 0. */
  touch(slot: number, state: number): void {
    this.states[slot] = state;
    this.scores[slot] = 0;
    this.touched[this.count++] = slot;
  }

  /**
   * The k best of the found records that still exist, with all ties at the boundary.
   * @param ordinals by slot
   * @param removed by slot: 1 where it was removed; null: none was
   * @param accepts asked about those that could be among the best; null: all may be
   */
  best(ordinals: Uint32Array, removed: Uint8Array | null, k: number, accepts: Accepts = null): Candidates {
    if (this.count === 0) return nothing;
    const foundOrdinals = new Growable(Uint32Array);
    const scores = new Growable(Float64Array);
    const greatest = new Greatest(Math.min(k, this.count));
    let floor = greatest.floor;
    for (let i = 0; i < this.count; i++) {
      const slot = this.touched[i];
      const score = this.scores[slot];
      if (this.states[slot] !== found || score < floor) continue;
      if (removed !== null && removed[slot] === 1) continue;
      if (accepts !== null && !accepts(ordinals[slot])) continue;
      greatest.offer(score);
      floor = greatest.floor;
      foundOrdinals.push(ordinals[slot]);
      scores.push(score);
    }
    return keepBest(foundOrdinals.values, scores.values, scores.length, k);
  }

  /** Clears the states for the next search; to be called even where a search fails. */
  end(): void {
    for (let i = 0; i < this.count; i++) this.states[this.touched[i]] = 0;
    this.count = 0;
  }

  get memoryBytes(): number {
    return this.scores.byteLength + this.states.byteLength + this.touched.byteLength;
  }
}
