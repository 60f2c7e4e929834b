// Which names wait to be linked, and which are being linked?
//
//   enqueue -> queue -> assigned to a builder -> linked
//                \____________ cancel _____________/  the node is killed when the builder is done
//
// Names wait in ascending order, and are assigned in that order.

/** The queue is compacted when this many of its names were assigned. */
const handedOutMax = 65_536;

export class LinkQueue {
  /** Names that wait for a builder, ascending from `#head` on. */
  #names: number[] = [];
  #head = 0;
  /** First names of the insertions that are being done. */
  readonly #inserting = new Set<number>();
  readonly #handedOut = new Set<number>();
  /** Names that were removed while a builder links them. */
  readonly #cancelled = new Set<number>();

  /** Queues a name. Names must ascend. */
  add(name: number): void {
    this.#names.push(name);
  }

  get isEmpty(): boolean {
    return this.#head >= this.#names.length;
  }

  /** Waiting names, including those that are no longer needed. */
  get length(): number {
    return this.#names.length - this.#head;
  }

  /** Whether a builder is linking names. */
  get isLinking(): boolean {
    return this.#handedOut.size > 0;
  }

  /** Every needed name below this one is linked; infinity if none waits. */
  get linkedEnd(): number {
    let end = this.isEmpty ? Number.POSITIVE_INFINITY : this.#names[this.#head];
    for (const first of this.#inserting) end = Math.min(end, first);
    return end;
  }

  get memoryBytes(): number {
    return 8 * this.#names.length;
  }

  /** The name that waits for the longest. */
  get first(): number {
    return this.#names[this.#head];
  }

  /** Skips names that are no longer needed; returns whether any are left. */
  skipUnwanted(isWanted: (name: number) => boolean): boolean {
    while (!this.isEmpty && !isWanted(this.first)) this.#head++;
    if (!this.isEmpty) return true;
    this.#names.length = 0;
    this.#head = 0;
    return false;
  }

  /** Passes over the first name. */
  skip(): void {
    this.#head++;
  }

  /** Takes the first name for a builder. */
  handOut(): void {
    this.#handedOut.add(this.first);
    this.#head++;
  }

  /** Names from this one on were assigned as one job. */
  begin(first: number): void {
    if (this.#head > handedOutMax) {
      this.#names = this.#names.slice(this.#head);
      this.#head = 0;
    }
    this.#inserting.add(first);
  }

  /** The job is done; `settle` is called for each of its names next. */
  end(first: number): void {
    this.#inserting.delete(first);
  }

  /** A builder has linked a name; returns whether it is still needed. */
  settle(name: number): boolean {
    this.#handedOut.delete(name);
    return !this.#cancelled.delete(name);
  }

  /** A name is no longer needed. If it waits, it is skipped later. */
  cancel(name: number): void {
    if (this.#handedOut.has(name)) this.#cancelled.add(name);
  }

  clear(): void {
    this.#names = [];
    this.#head = 0;
  }

  /** Names that wait. */
  waiting(): readonly number[] {
    return this.#names.slice(this.#head);
  }
}
