// Which vector keys wait to be linked, and which are being linked?
//
//   enqueue -> queue -> assigned to a builder -> linked
//                \____________ cancel _____________/  the node is killed when the builder is done
//
// Names wait in ascending order, and are assigned in that order.

import { invariant } from "../../base/invariant.ts";

/** The queue is compacted when this many of its vector keys were assigned. */
const handedOutMax = 65_536;

export class LinkQueue {
  /** Names that wait for a builder, ascending from `#head` on. */
  #vectorKeys: number[] = [];
  #head = 0;
  /** First vector keys of the insertions that are being done. */
  readonly #inserting = new Set<number>();
  readonly #handedOut = new Set<number>();
  /** Names that were removed while a builder links them. */
  readonly #cancelled = new Set<number>();

  /** Queues a vector key. Vector keys must ascend. */
  add(vectorKey: number): void {
    const last = this.#vectorKeys.at(-1);
    invariant(
      last === undefined || vectorKey > last,
      () => `the vector key ${vectorKey} is queued after ${last}`,
    );
    this.#vectorKeys.push(vectorKey);
  }

  get isEmpty(): boolean {
    return this.#head >= this.#vectorKeys.length;
  }

  /** Waiting vector keys, including those that are no longer needed. */
  get length(): number {
    return this.#vectorKeys.length - this.#head;
  }

  /** Whether a builder is linking vector keys. */
  get isLinking(): boolean {
    return this.#handedOut.size > 0;
  }

  /** Every needed vector key below this one is linked; infinity if none waits. */
  get linkedEnd(): number {
    let end = this.isEmpty ? Number.POSITIVE_INFINITY : this.#vectorKeys[this.#head];
    for (const first of this.#inserting) end = Math.min(end, first);
    return end;
  }

  get memoryBytes(): number {
    return 8 * this.#vectorKeys.length;
  }

  /** The vector key that waits for the longest. */
  get first(): number {
    return this.#vectorKeys[this.#head];
  }

  /** Skips vector keys that are no longer needed; returns whether any are left. */
  skipUnwanted(isWanted: (vectorKey: number) => boolean): boolean {
    while (!this.isEmpty && !isWanted(this.first)) this.#head++;
    if (!this.isEmpty) return true;
    this.#vectorKeys.length = 0;
    this.#head = 0;
    return false;
  }

  /** Passes over the first vector key. */
  skip(): void {
    this.#head++;
  }

  /** Takes the first vector key for a builder. */
  handOut(): void {
    invariant(!this.isEmpty, "a vector key is handed out, and none waits");
    invariant(!this.#handedOut.has(this.first), () => `the vector key ${this.first} is handed out twice`);
    this.#handedOut.add(this.first);
    this.#head++;
  }

  /** Names from this one on were assigned as one job. */
  begin(first: number): void {
    if (this.#head > handedOutMax) {
      this.#vectorKeys = this.#vectorKeys.slice(this.#head);
      this.#head = 0;
    }
    invariant(this.#handedOut.has(first), () => `a job begins with ${first}, which was not handed out`);
    this.#inserting.add(first);
  }

  /** The job is done; `settle` is called for each of its vector keys next. */
  end(first: number): void {
    const hadBegun = this.#inserting.delete(first);
    invariant(hadBegun, () => `a job ends that has not begun with ${first}`);
  }

  /** A builder has linked a vector key; returns whether it is still needed. */
  settle(vectorKey: number): boolean {
    const wasHandedOut = this.#handedOut.delete(vectorKey);
    invariant(wasHandedOut, () => `the vector key ${vectorKey} is linked, and was not handed out`);
    return !this.#cancelled.delete(vectorKey);
  }

  /** A vector key is no longer needed. If it waits, it is skipped later. */
  cancel(vectorKey: number): void {
    if (this.#handedOut.has(vectorKey)) this.#cancelled.add(vectorKey);
  }

  clear(): void {
    this.#vectorKeys = [];
    this.#head = 0;
  }

  /** Names that wait. */
  waiting(): readonly number[] {
    return this.#vectorKeys.slice(this.#head);
  }
}
