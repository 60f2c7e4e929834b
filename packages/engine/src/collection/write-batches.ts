// How are many records written into a store that nobody uses yet?
//
// In several writes, since the store keeps what a write changes in memory.

import { limits } from "@quiverdb/protocol/limits";
import type { Store, Writer } from "../storage/store.ts";

/**
 * Bytes that one id or document counts for in a write: each changes a different page, and the store keeps changed pages in memory until
 * the end of the write.
 */
export const pageBytes = 4096;

/** Collects changes into store writes of limited size. */
export class Batches {
  readonly #store: Store;
  #waiting: ((writer: Writer) => void)[] = [];
  #bytes = 0;

  constructor(store: Store) {
    this.#store = store;
  }

  add(bytes: number, write: (writer: Writer) => void): void {
    this.#waiting.push(write);
    this.#bytes += bytes + 64;
    if (this.#bytes >= limits.restoreWriteBytes) this.flush();
  }

  flush(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    this.#bytes = 0;
    if (waiting.length === 0) return;
    this.#store.write((writer) => {
      for (const write of waiting) write(writer);
    });
  }
}
