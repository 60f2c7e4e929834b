// Which are the least of many items, in steps and in little memory?
//
// Items are gathered until there are twice as many as wanted; then they are sorted, the greater ones dropped, and what is not less than the
// last of the rest is no longer taken. So each item costs a comparison, and a sort of a few items for each that is taken.

import { type Steps, sortInSteps } from "./steps.ts";

/** Fewer items are not worth a sort. */
const gatheredMin = 1_024;

export class Least<T> {
  readonly #wanted: number;
  readonly #compare: (a: T, b: T) => number;
  #items: T[] = [];
  /** The last of the wanted items, once there are so many. */
  #last: { readonly item: T } | undefined;

  /**
   * @param wanted how many, at least 1
   * @param compare a total order: of equal items any may be dropped
   */
  constructor(wanted: number, compare: (a: T, b: T) => number) {
    this.#wanted = wanted;
    this.#compare = compare;
  }

  /** Offers an item. @returns whether `cut` is due, before the next one is offered */
  offer(item: T): boolean {
    if (this.#last !== undefined && this.#compare(item, this.#last.item) >= 0) return false;
    return this.#items.push(item) >= Math.max(gatheredMin, 2 * this.#wanted);
  }

  /** How many items are missing to as many as wanted. */
  get missing(): number {
    return Math.max(0, this.#wanted - this.#items.length);
  }

  /** Drops what is not wanted. */
  *cut(): Steps<void> {
    this.#items = yield* sortInSteps(this.#items, this.#compare);
    if (this.missing > 0) return;
    this.#items.length = this.#wanted;
    this.#last = { item: this.#items[this.#wanted - 1] };
  }

  /** The least items, ascending, as many as wanted or all that were offered. It must not be used afterwards. */
  *take(): Steps<T[]> {
    yield* this.cut();
    return this.#items;
  }
}
