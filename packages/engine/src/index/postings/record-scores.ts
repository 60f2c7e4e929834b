// Which records of a mutable buffer, or of a segment, have the greatest scores, when all of them are scored?
//
// One search at a time adds scores by slot. The arrays are reused by the next search, with all states zero; a search lists the entries that
// it touches, so that clearing costs no more than the search.

import { Growable } from "../../base/growable.ts";
import { Greatest, keepBest } from "../../base/top-k.ts";
import { type Candidates, nothing } from "../contract.ts";

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
