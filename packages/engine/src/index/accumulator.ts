// Which scores does a search add up, and which are the best of them?
//
// One search at a time adds scores by slot. The arrays stay for the next search, all states zero; what a search
// touched, it lists, so that clearing costs what the search cost.

import { Growable } from "../base/growable.ts";
import { Greatest, keepBest } from "../base/top-k.ts";
import { type Candidates, nothing, type Visible } from "./contract.ts";
import { absent } from "./ordinal-map.ts";
import type { RecordTable } from "./record-table.ts";

export class Accumulator {
  /** By slot: the score so far. Meaningless while the state is 0. */
  scores = new Float64Array(0);
  /** By slot: 0, or what the search makes of the record. */
  states = new Uint8Array(0);
  /** The slots whose state is not 0: the first `count`. */
  touched = new Uint32Array(0);
  count = 0;

  /** Makes room for slots below `slotsEnd`. */
  begin(slotsEnd: number): void {
    if (this.states.length >= slotsEnd && this.states.length <= 4 * slotsEnd + 64) return;
    const capacity = Math.ceil(slotsEnd * 1.25);
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
   * The k best of the touched records that are still there, in `state` and visible, with all ties at the boundary.
   * `visible` is asked about a record only when its score is among the k best of those before it.
   */
  best(records: RecordTable, k: number, state: number, visible: Visible): Candidates {
    if (k <= 0 || this.count === 0) return nothing;
    const ordinals = new Growable(Uint32Array);
    const scores = new Growable(Float64Array);
    const greatest = new Greatest(Math.min(k, this.count));
    const ordinalsBySlot = records.ordinals;
    let floor = greatest.floor;
    for (let i = 0; i < this.count; i++) {
      const slot = this.touched[i];
      const score = this.scores[slot];
      if (score < floor || this.states[slot] !== state) continue;
      const ordinal = ordinalsBySlot[slot];
      if (ordinal === absent || (visible !== null && !visible(ordinal))) continue;
      greatest.offer(score);
      floor = greatest.floor;
      ordinals.push(ordinal);
      scores.push(score);
    }
    return keepBest(ordinals.values, scores.values, scores.length, k);
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
