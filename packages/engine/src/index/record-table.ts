// Which records does an inverted index hold, and which of its postings are dead?
//
// A record has a *slot*, a small number that is used again after it: postings name slots, and arrays by slot (lengths,
// scores) are as long as the index has records, while ordinals grow for ever.
//
//           add                  remove                            a sweep that began later ends
//   free ---------> used ----------------------> dead, waiting ------------------------------------> free
//                                                (at once where the record has no postings)
//
// Removing a record only forgets its ordinal: its postings are dead from then on. Once more than a quarter of all
// postings is dead, a sweep begins, which goes through the lists a few at each following change, so that no change takes
// long; it ends after changes to at most an eighth as many postings as there are. Only then are the slots free, for no
// dead posting names them any more.
//
// Postings held ordinals at first, with a look-up for each: a search then took 2.5 times as long.
//
// Invariants: ordinals and used slots are one to one; `dead` is what `total` postings have more than used slots account
// for; within a list, the ordinals of used slots ascend.

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
  /** By slot: the record's ordinal, or `absent` of a free or dead slot; and how many postings it has. */
  readonly #ordinals = new Growable(Uint32Array);
  readonly #sizes = new Growable(Uint32Array);
  readonly #free = new Growable(Uint32Array);
  /** Dead slots, in the order of their removal. */
  readonly #waiting = new Growable(Uint32Array);
  #last = -1;
  #dead = 0;
  /** The list that the sweep comes to next; -1 while none is on. */
  #sweepAt = -1;
  /** How many slots waited when the sweep began. */
  #sweptSlots = 0;

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

  /** By slot: the record's ordinal, or `absent` where there is none (any more). Valid until the next change. */
  get ordinals(): Uint32Array {
    return this.#ordinals.values;
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
    if (postings === 0) this.#free.push(slot);
    else this.#waiting.push(slot);
    this.#dead += postings;
    if (this.#sweepAt < 0) this.#beginSweep();
    this.#sweep(postings);
  }

  get memoryBytes(): number {
    const columns = [this.#ordinals, this.#sizes, this.#free, this.#waiting];
    return columns.reduce((sum, column) => sum + column.memoryBytes, this.#slots.memoryBytes);
  }

  close(): void {
    this.#slots.clear();
    for (const column of [this.#ordinals, this.#sizes, this.#free, this.#waiting]) column.truncate(0);
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
    const slots = this.#slots.size + this.#free.length + this.#waiting.length;
    invariant(slots === this.slotsEnd, `${slots} used, free and dead slots of ${this.slotsEnd}`);
    const { total } = this.#postings;
    invariant(
      alive + this.#dead === total,
      `${alive} postings are alive and ${this.#dead} dead, of ${total}`,
    );
  }

  /** Proves of one list that the ordinals of its used slots ascend. */
  checkList(list: number): void {
    const { count, slots } = this.#postings.read(list);
    let last = -1;
    for (let i = 0; i < count; i++) {
      invariant(slots[i] < this.slotsEnd, `list ${list} names slot ${slots[i]} of ${this.slotsEnd}`);
      const ordinal = this.ordinals[slots[i]];
      if (ordinal === absent) continue;
      invariant(ordinal > last, `list ${list} has ordinal ${ordinal} after ${last}`);
      last = ordinal;
    }
  }

  /** Begins a sweep when enough is dead. */
  #beginSweep(): void {
    const isDue = 4 * this.#dead > this.#postings.total;
    this.#sweepAt = isDue ? 0 : -1;
    this.#sweptSlots = this.#waiting.length;
  }

  /** Goes on with a sweep, as far as befits a change of so many postings. */
  #sweep(changed: number): void {
    if (this.#sweepAt < 0) return;
    const isAlive = (slot: number): boolean => this.ordinals[slot] !== absent;
    for (let budget = sweepFactor * changed + sweepMin; budget > 0; this.#sweepAt++) {
      if (this.#sweepAt >= this.#postings.listsEnd) {
        this.#endSweep();
        return;
      }
      const length = this.#postings.lengthOf(this.#sweepAt);
      budget -= length + 1;
      if (length === 0) continue;
      this.#dead -= this.#postings.sweep(this.#sweepAt, isAlive);
      if (this.#postings.lengthOf(this.#sweepAt) === 0) this.#onEmpty(this.#sweepAt);
    }
  }

  /** Frees the slots that no posting names any more. */
  #endSweep(): void {
    const waiting = this.#waiting;
    for (let i = 0; i < this.#sweptSlots; i++) this.#free.push(waiting.values[i]);
    waiting.values.copyWithin(0, this.#sweptSlots, waiting.length);
    waiting.truncate(waiting.length - this.#sweptSlots);
    this.#beginSweep();
  }
}
