// How many bytes are written but not yet in a published view?
//
// A search adds a small backlog itself, so small writes are acknowledged at once, and the next write becomes durable while the indexes
// apply this one. With more than `littleBytes` in progress, a write waits until a view contains it: otherwise a search that must see a
// small write would also have to index the large one that became durable right after it.

/** A search indexes this amount itself: a few milliseconds of work, if all of it is text. */
const littleBytes = 64 * 1024;

export class UnindexedBytes {
  /** Passed to the writer. */
  #handedBytes = 0;
  /** Durable, by ascending versions. */
  #durable: { version: number; bytes: number }[] = [];

  /** Records that a write is passed to the writer. Call the result with the version of the write, or without one if it failed. */
  begin(bytes: number): (version?: number) => void {
    this.#handedBytes += bytes;
    let isOver = false;
    return (version) => {
      if (isOver) return;
      isOver = true;
      this.#handedBytes -= bytes;
      if (version !== undefined) this.#durable.push({ version, bytes });
    };
  }

  /** @param served version of the current view */
  isLittle(served: number): boolean {
    this.#durable = this.#durable.filter(({ version }) => version > served);
    return this.#durable.reduce((sum, { bytes }) => sum + bytes, this.#handedBytes) <= littleBytes;
  }
}
