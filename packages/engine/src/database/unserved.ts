// How much was written that searches do not see yet?
//
// Of little a search takes what is missing along, so its writer is told at once, and the next write is made durable while the indexes
// take this one over. With more than `littleBytes` under way, durable or not, a write waits until it is served: else a search that has
// to see a small write would have to wait for the large one that became durable right behind it.

/** Searches take so much along: some milliseconds of work, where it is all text. */
const littleBytes = 64 * 1024;

export class Unserved {
  /** Handed to the writer. */
  #handedBytes = 0;
  /** Durable, by ascending versions. */
  #durable: { version: number; bytes: number }[] = [];

  /** A write is handed over; to be called back with the version that it made, or with none where it failed. */
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

  /** @param served version that searches see */
  isLittle(served: number): boolean {
    this.#durable = this.#durable.filter(({ version }) => version > served);
    return this.#durable.reduce((sum, { bytes }) => sum + bytes, this.#handedBytes) <= littleBytes;
  }
}
