// When is work worth its time that only makes searches faster?
//
// Writes that follow each other closely leave some milliseconds between them. What is begun then, the next write finds in its way: where
// each write was followed by a freeze and merges, they moved a posting six times instead of three. So a collection is *idle* a moment
// after its last change.
//
// When a collection has not changed for a while, its indexes put themselves in order (Index.tidy): an inverted index merges its segments
// to as few as possible, because a search enters each of them with all of its terms. That is not done while the collection is merely idle
// between two writes: each small write could then cost a merge of all that there is, and a checkpoint of it.

import { inBackground, type Timer } from "../base/host.ts";
import type { Leisure } from "../index/contract.ts";

/** Milliseconds without a change after which a collection is idle, and after which it rests. */
const idleMs = 100;
const restMs = 1_000;

/** The next rest begins no earlier than so many times the time that the last one took, so that small writes with pauses cost little. */
const pauseFactor = 500;

export class IdleCompaction {
  readonly #onBegin: () => void;
  #timer: Timer | undefined;
  /** The version at which the collection is idle, or was last. */
  #idleAt = -1;
  /** The version of the present rest, which ends when everything is in order, or something changes. */
  #restingAt = -1;
  /** What was put in order last: these indexes, at this version. */
  #orderedAt = -1;
  #ordered = new WeakSet<object>();
  /** What the present or last rest has taken, and the earliest begin of the next. */
  #spentMs = 0;
  #nextMs = 0;

  /** @param onBegin called when a rest begins; the work is done in time slices, as all indexing is */
  constructor(onBegin: () => void) {
    this.#onBegin = onBegin;
  }

  /** The collection has nothing to do at this version, with the leisure that it has, and has these indexes. */
  idle(version: number, indexes: readonly object[]): void {
    if (version === this.#restingAt) return;
    if (version === this.#orderedAt && indexes.every((index) => this.#ordered.has(index))) return;
    this.stop();
    const isIdle = version === this.#idleAt;
    const waitMs = isIdle ? Math.max(restMs - idleMs, this.#nextMs - performance.now()) : idleMs;
    this.#timer = inBackground(
      setTimeout(() => {
        this.#timer = undefined;
        if (isIdle) {
          this.#spentMs = 0;
          this.#restingAt = version;
        } else this.#idleAt = version;
        this.#onBegin();
      }, waitMs),
    );
  }

  /** How much time there is at this version, the newest. */
  leisureAt(version: number): Leisure {
    if (version === this.#restingAt) return "resting";
    return version === this.#idleAt ? "idle" : "busy";
  }

  /**
   * Books milliseconds of the rest. A merge that it has begun and a change interrupts goes on with the changes, and is not booked.
   * @param ordered the indexes, where there is nothing more to put in order
   */
  spent(ms: number, ordered?: readonly object[]): void {
    this.#spentMs += ms;
    this.#nextMs = performance.now() + pauseFactor * this.#spentMs;
    if (ordered === undefined) return;
    this.#orderedAt = this.#restingAt;
    this.#ordered = new WeakSet(ordered);
    this.#restingAt = -1;
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
