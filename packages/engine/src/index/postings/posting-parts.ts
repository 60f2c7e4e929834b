// Where are the records of a posting index?
//
// In *runs*, which never change but for the bits of removed records, and in one tail or two, by ascending ranges of ordinals that do not
// overlap. The writer (posting-index.ts, run-set.ts) changes what is here; readers (posting-reader.ts, posting-search.ts) look at it.

import { absent } from "../ordinal-map.ts";
import type { Run } from "./run.ts";
import type { Tail } from "./tail.ts";

export type AnyTail = Tail<Float32Array | Uint32Array>;

export class PostingParts {
  /** Postings have frequencies, and records a length. */
  readonly isText: boolean;
  /** By ascending ordinals. */
  runs: Run[] = [];
  /** One, or one that is being sealed and the one that records are added to. */
  readonly tails: AnyTail[] = [];
  /** Records that are held and were retired. */
  readonly retired = new Set<number>();
  /** Whether a weight that was ever added is negative. */
  hadNegative = false;
  /** Another number whenever lists have come to other places. */
  layout = 0;

  constructor(isText: boolean) {
    this.isText = isText;
  }

  get count(): number {
    return this.runs.reduce((sum, run) => sum + run.count, this.tailCount);
  }

  /** Records that are in no run. */
  get tailCount(): number {
    return this.tails.reduce((sum, tail) => sum + tail.count, 0);
  }

  /** The tail that records are added to. */
  get youngest(): AnyTail {
    return this.tails[this.tails.length - 1];
  }

  has(ordinal: number): boolean {
    const run = this.runOf(ordinal);
    return run !== undefined ? run.recordOf(ordinal) >= 0 : this.tailOf(ordinal) !== undefined;
  }

  /** The number of the run whose range has an ordinal, or -1. */
  runNumberOf(ordinal: number): number {
    let low = 0;
    let high = this.runs.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.runs[middle].lastOrdinal < ordinal) low = middle + 1;
      else high = middle;
    }
    return low < this.runs.length ? low : -1;
  }

  runOf(ordinal: number): Run | undefined {
    return this.runs[this.runNumberOf(ordinal)];
  }

  /** The tail that a record is in. */
  tailOf(ordinal: number): AnyTail | undefined {
    return this.tails.find((tail) => tail.slotOf(ordinal) >= 0);
  }

  /** Ordinals that are held, descending. */
  *fromYoungest(): Generator<number> {
    for (const { ordinals, slotsEnd } of this.tails.toReversed())
      for (let slot = slotsEnd - 1; slot >= 0; slot--)
        if (ordinals.values[slot] !== absent) yield ordinals.values[slot];
    for (let i = this.runs.length - 1; i >= 0; i--) {
      const run = this.runs[i];
      for (let record = run.recordCount - 1; record >= 0; record--)
        if (!run.isRemoved(record)) yield run.ordinals[record];
    }
  }

  /** All records that are held, and their lengths, by ascending ordinal. */
  *records(): Generator<[ordinal: number, length: number]> {
    for (const run of this.runs)
      for (let record = 0; record < run.recordCount; record++)
        if (!run.isRemoved(record)) yield [run.ordinals[record], run.lengths[record] ?? 0];
    for (const tail of this.tails)
      for (let slot = 0; slot < tail.slotsEnd; slot++) {
        const ordinal = tail.ordinals.values[slot];
        if (ordinal !== absent) yield [ordinal, tail.lengths.values[slot]];
      }
  }
}
