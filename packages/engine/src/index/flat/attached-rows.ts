// How far are rows of a flat index of another thread from a query?
//
// The owner adds, moves and removes rows meanwhile (flat-index.ts). What a reader computes while one is moved or overwritten is thrown away
// (base/sequence-lock.ts), and the reader gets the vectors from elsewhere, as it does for rows that were added since it attached.

import { SequenceReader, type SharedSequence } from "../../base/sequence-lock.ts";
import type { Metric } from "../../vector/metric.ts";
import { absent, OrdinalMapReader, type SharedOrdinalMap } from "../ordinal-map.ts";
import { Block, type SharedBlock } from "./block.ts";
import { exactDistances } from "./exact-distances.ts";

/** What a thread needs to compare a query with the rows as they are. Can be posted to it. */
export type AttachableRows = {
  readonly words: SharedSequence;
  readonly era: number;
  readonly slots: SharedOrdinalMap;
  readonly capacity: number;
  readonly blocks: readonly SharedBlock[];
};

export class AttachedRows {
  readonly #metric: Metric;
  readonly #sequence: SequenceReader;
  readonly #slots: OrdinalMapReader;
  readonly #capacity: number;
  readonly #blocks: readonly Block[];
  /** Rows that there were. */
  readonly count: number;

  /** @param slot of this thread */
  constructor(metric: Metric, { words, era, slots, capacity, blocks }: AttachableRows, slot: number) {
    this.#metric = metric;
    this.#sequence = new SequenceReader(words, era);
    this.#slots = new OrdinalMapReader(slots);
    this.#capacity = capacity;
    this.#blocks = blocks.map((block) => Block.attach(block, slot));
    this.count = blocks.reduce((sum, { length }) => sum + length, 0);
  }

  /** Whether a record's row could be read now. */
  has(ordinal: number): boolean {
    return this.#sequence.begin() && this.#slotOf(ordinal) !== absent;
  }

  /** Writes the exact distances of the first `count` records; NaN for those that cannot be read here now. `query` is borrowed. */
  distancesOf(query: Float32Array, ordinals: Uint32Array, count: number, distances: Float64Array): void {
    if (this.#sequence.begin()) {
      exactDistances(this.#metric, query, count, distances, {
        blocks: this.#blocks,
        capacity: this.#capacity,
        slotOf: (i) => this.#slotOf(ordinals[i]),
      });
      if (this.#sequence.isUnchanged()) return;
    }
    distances.fill(Number.NaN, 0, count);
  }

  /** The map of another time can name a slot that has another record by now. */
  #slotOf(ordinal: number): number {
    const slot = this.#slots.get(ordinal);
    if (slot === absent) return absent;
    const block = this.#blocks[Math.floor(slot / this.#capacity)];
    const row = slot % this.#capacity;
    return block !== undefined && row < block.length && block.ordinalOf(row) === ordinal ? slot : absent;
  }
}
