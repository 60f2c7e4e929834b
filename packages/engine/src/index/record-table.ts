// Which records does an inverted index hold, and which of its postings are dead?
//
// A record has a *slot*, a small number that its ordinal leads to and that is used again after it: arrays by slot
// (lengths, scores) are as long as the index has records, while ordinals grow for ever. Removing a record only forgets
// its slot. Its postings are dead from then on, for their ordinal leads nowhere; once more than a quarter of all
// postings is dead, a sweep begins that goes through the lists a few at each following change, so that no change takes
// long. A sweep ends after changes to at most an eighth as many postings as there are.
//
// Invariants: ordinals and slots are one to one; `dead` is what `total` postings have more than living records.

import { Growable } from "../base/growable.ts";
import { invariant } from "../base/invariant.ts";
import { assertAscending } from "./contract.ts";
import { absent, OrdinalMap } from "./ordinal-map.ts";
import type { Postings } from "./postings.ts";

/** Postings swept for each posting added or removed while a sweep is on, and for each such change besides. */
const sweepFactor = 8;
const sweepMin = 64;

export class RecordTable {
  readonly #postings: Postings<Float32Array | Uint32Array>;
  readonly #onEmpty: (list: number) => void;
  readonly #slots = new OrdinalMap();
  /** By slot: the record's ordinal, or `absent` of a free slot; and how many postings it has. */
  readonly #ordinals = new Growable(Uint32Array);
  readonly #sizes = new Growable(Uint32Array);
  readonly #free = new Growable(Uint32Array);
  #last = -1;
  #dead = 0;
  /** The list that the sweep comes to next; -1 while none is on. */
  #sweepAt = -1;

  /** @param onEmpty told each list that a sweep has left without postings */
  constructor(postings: Postings<Float32Array | Uint32Array>, onEmpty: (list: number) => void) {
    this.#postings = postings;
    this.#onEmpty = onEmpty;
  }

  get count(): number {
    return this.#slots.size;
  }

  /** Slots are below this. */
  get slotsEnd(): number {
    return this.#ordinals.length;
  }

  /** Postings of removed records that are still there. */
  get dead(): number {
    return this.#dead;
  }

  /** The slot of an ordinal, or `absent`. */
  slotOf(ordinal: number): number {
    return this.#slots.get(ordinal);
  }

  /** The ordinal in a slot, or `absent`. */
  ordinalIn(slot: number): number {
    return this.#ordinals.values[slot];
  }

  /** Gives a new record, which has or will get so many postings, a slot. Its ordinal is greater than all before. */
  add(ordinal: number, postings: number): number {
    assertAscending(ordinal, this.#last);
    this.#last = ordinal;
    this.#sweep(postings);
    let slot = this.slotsEnd;
    if (this.#free.length > 0) {
      slot = this.#free.values[this.#free.length - 1];
      this.#free.truncate(this.#free.length - 1);
      this.#ordinals.values[slot] = ordinal;
      this.#sizes.values[slot] = postings;
    } else {
      this.#ordinals.push(ordinal);
      this.#sizes.push(postings);
    }
    this.#slots.set(ordinal, slot);
    return slot;
  }

  /** Forgets a record that is there; its postings are dead. */
  remove(ordinal: number): void {
    const slot = this.slotOf(ordinal);
    const postings = this.#sizes.values[slot];
    this.#slots.delete(ordinal);
    this.#ordinals.values[slot] = absent;
    this.#free.push(slot);
    this.#dead += postings;
    if (this.#sweepAt < 0 && 4 * this.#dead > this.#postings.total) this.#sweepAt = 0;
    this.#sweep(postings);
  }

  get memoryBytes(): number {
    const columns = [this.#ordinals, this.#sizes, this.#free];
    return columns.reduce((sum, column) => sum + column.memoryBytes, this.#slots.memoryBytes);
  }

  close(): void {
    this.#slots.clear();
    for (const column of [this.#ordinals, this.#sizes, this.#free]) column.truncate(0);
    this.#dead = 0;
    this.#sweepAt = -1;
  }

  check(): void {
    this.#slots.check();
    let alive = 0;
    for (const [ordinal, slot] of this.#slots.entries()) {
      const named = this.#ordinals.values[slot];
      invariant(
        slot < this.slotsEnd && named === ordinal,
        `ordinal ${ordinal} has slot ${slot}, which names ${named}`,
      );
      invariant(ordinal <= this.#last, `ordinal ${ordinal} is beyond the last, ${this.#last}`);
      alive += this.#sizes.values[slot];
    }
    const slots = this.#slots.size + this.#free.length;
    invariant(slots === this.slotsEnd, `${slots} used and free slots of ${this.slotsEnd}`);
    const { total } = this.#postings;
    invariant(
      alive + this.#dead === total,
      `${alive} postings are alive and ${this.#dead} dead, of ${total}`,
    );
  }

  #sweep(changed: number): void {
    if (this.#sweepAt < 0) return;
    const isAlive = (ordinal: number): boolean => this.slotOf(ordinal) !== absent;
    for (let budget = sweepFactor * changed + sweepMin; budget > 0; this.#sweepAt++) {
      if (this.#sweepAt >= this.#postings.listsEnd) {
        this.#sweepAt = 4 * this.#dead > this.#postings.total ? 0 : -1;
        return;
      }
      const length = this.#postings.lengthOf(this.#sweepAt);
      budget -= length + 1;
      if (length === 0) continue;
      this.#dead -= this.#postings.sweep(this.#sweepAt, isAlive);
      if (this.#postings.lengthOf(this.#sweepAt) === 0) this.#onEmpty(this.#sweepAt);
    }
  }
}
