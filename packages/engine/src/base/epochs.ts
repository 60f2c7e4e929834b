// When may a writer reuse memory that readers in other threads may still be reading?
//
// Epoch-based reclamation (Fraser, "Practical lock-freedom", 2004). The writer numbers its publications: each is an *epoch*. A reader
// pins the epoch that it reads. Memory that the writer has replaced is freed once no reader is pinned to an epoch in which it was
// still reachable.
//
//   writer    replace X -> retire(free X) -> advance: epoch e+1 --------------------------> reclaim: frees X
//   reader         pin: epoch e ......... reads X ............................. unpin ---^
//
// One table of words in shared memory holds the current epoch, the *floor* (no epoch below it may be pinned any more), and one slot for
// each reading thread with the oldest epoch that the thread has pinned. Only the writer advances and raises the floor; only its thread
// writes a slot.
//
// Pinning an older epoch races with reclaiming it. The reader stores its slot and then loads the floor; the writer stores the floor and
// then loads the slots. Atomics are sequentially consistent, so at least one of them sees the other: the reader gives up, or the writer
// lowers the floor again.
//
// A third word counts how often everything that was published before was withdrawn: a reader that holds a publication compares it with
// the count of its time.
//
// Epochs are u32 that wrap around and are compared by their difference: no pin lasts for 2^31 publications.

import { invariant } from "./invariant.ts";

/** What a reading thread needs to pin epochs. Can be posted to it. */
export type SharedEpochs = { readonly words: Int32Array<SharedArrayBuffer> };

/** Places of the words. Each slot has a cache line of its own. */
const currentAt = 0;
const floorAt = 1;
const withdrawnAt = 2;
const numberAt = 3;
const slotWords = 16;

/** The content of a slot whose thread has nothing pinned. Never an epoch. */
const idle = 0;

const slotAt = (slot: number): number => slotWords * (slot + 1);

/** Whether epoch `a` is before `b`. */
export const isBefore = (a: number, b: number): boolean => ((a - b) | 0) < 0;

/** Tables that this thread has made. */
let tables = 0;

/** The number of a table: the same in all threads, and of one table of a writing thread only. */
export const tableNumber = ({ words }: SharedEpochs): number => words[numberAt];

/** The writer's side of the table. */
export class Epochs {
  readonly #words: Int32Array<SharedArrayBuffer>;
  readonly #slots: number;
  /** By ascending epoch. */
  readonly #retired: { readonly epoch: number; readonly free: () => void }[] = [];

  /** @param slots reading threads, at most */
  constructor(slots: number) {
    invariant(Number.isInteger(slots) && slots >= 1, `an epoch table has ${slots} slots`);
    this.#slots = slots;
    this.#words = new Int32Array(new SharedArrayBuffer(4 * slotWords * (slots + 1)));
    this.#words[currentAt] = 1;
    this.#words[floorAt] = 1;
    this.#words[numberAt] = ++tables;
  }

  get shared(): SharedEpochs {
    return { words: this.#words };
  }

  /** The epoch of the latest publication. */
  get current(): number {
    return this.#words[currentAt];
  }

  /** How often `withdraw` was called. */
  get withdrawn(): number {
    return this.#words[withdrawnAt];
  }

  /** Nothing that was published is to be used by further searches. */
  withdraw(): void {
    Atomics.add(this.#words, withdrawnAt, 1);
  }

  /** Replacements that are not freed yet. */
  get retiredCount(): number {
    return this.#retired.length;
  }

  /** Begins the next epoch, when something was published. @returns its number */
  advance(): number {
    let next = (this.current + 1) | 0;
    if (next === idle) next++;
    Atomics.store(this.#words, currentAt, next);
    return next;
  }

  /** Frees something, reachable in the current epoch and not in the next one, when no reader can reach it any more. */
  retire(free: () => void): void {
    this.#retired.push({ epoch: this.current, free });
  }

  /** The oldest epoch that may be pinned from now on. Readers that are pinned to an older one do not exist. */
  raiseFloor(): number {
    const before = this.#words[floorAt];
    const wanted = this.#oldestPinned(before);
    if (wanted === before) return before;
    Atomics.store(this.#words, floorAt, wanted);
    // A reader that pinned in between may have seen the floor of before.
    const floor = this.#oldestPinned(before);
    if (!isBefore(floor, wanted)) return wanted;
    Atomics.store(this.#words, floorAt, floor);
    return floor;
  }

  /** Frees what no reader can reach. Nothing of the current epoch is freed. @returns how many replacements were freed */
  reclaim(): number {
    if (this.#retired.length === 0) return 0;
    const floor = this.raiseFloor();
    let count = 0;
    while (count < this.#retired.length && isBefore(this.#retired[count].epoch, floor)) count++;
    for (const { free } of this.#retired.splice(0, count)) free();
    return count;
  }

  /** Ends the pins of a thread that has died. */
  abandon(slot: number): void {
    Atomics.store(this.#words, slotAt(slot), idle);
  }

  /** @param floor a slot below it is of a reader that is about to give up */
  #oldestPinned(floor: number): number {
    let oldest = this.current;
    for (let slot = 0; slot < this.#slots; slot++) {
      const pinned = Atomics.load(this.#words, slotAt(slot));
      if (pinned !== idle && isBefore(pinned, oldest)) oldest = isBefore(pinned, floor) ? floor : pinned;
    }
    return oldest;
  }
}

/** The side of one reading thread, which has its slot alone. */
export class EpochReader {
  readonly #words: Int32Array<SharedArrayBuffer>;
  readonly #at: number;
  /** Pins of this thread by epoch, oldest first: searches that run in steps overlap. */
  readonly #pins = new Map<number, number>();

  constructor({ words }: SharedEpochs, slot: number) {
    invariant(slotAt(slot) + slotWords <= words.length, `the epoch table has no slot ${slot}`);
    this.#words = words;
    this.#at = slotAt(slot);
  }

  /** The epoch of the latest publication. */
  get current(): number {
    return Atomics.load(this.#words, currentAt);
  }

  /** How often the writer has withdrawn what it had published. */
  get withdrawn(): number {
    return Atomics.load(this.#words, withdrawnAt);
  }

  /**
   * Pins an epoch that was published: from now on nothing is freed that was reachable in it.
   * @returns false where that may have been freed already; then a later epoch must be read
   */
  tryPin(epoch: number): boolean {
    const before = this.#oldest;
    if (before === undefined || isBefore(epoch, before)) {
      Atomics.store(this.#words, this.#at, epoch);
      if (isBefore(epoch, Atomics.load(this.#words, floorAt))) {
        Atomics.store(this.#words, this.#at, before ?? idle);
        return false;
      }
    }
    this.#pins.set(epoch, (this.#pins.get(epoch) ?? 0) + 1);
    return true;
  }

  /** Pins the epoch of the latest publication. */
  pin(): number {
    for (;;) {
      const epoch = this.current;
      if (this.tryPin(epoch)) return epoch;
    }
  }

  unpin(epoch: number): void {
    const pins = this.#pins.get(epoch) ?? 0;
    invariant(pins > 0, `epoch ${epoch} is unpinned but not pinned`);
    if (pins > 1) this.#pins.set(epoch, pins - 1);
    else this.#pins.delete(epoch);
    Atomics.store(this.#words, this.#at, this.#oldest ?? idle);
  }

  get #oldest(): number | undefined {
    let oldest: number | undefined;
    for (const epoch of this.#pins.keys())
      if (oldest === undefined || isBefore(epoch, oldest)) oldest = epoch;
    return oldest;
  }
}
