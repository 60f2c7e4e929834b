// Where do the vectors of a body lie?
//
// In few pieces of memory that they share, and that are freed together: thousands of arrays of their own cost more than the numbers in them.
// A body of one vector takes no more than that one: nobody frees what a query has, and V8 marks its heap for every 64 MB that it has lost
// sight of. With 128 KiB for each query a search through REST cost a tenth more.

import { release } from "@quiverdb/engine/database/contract";

const chunkFloatsMax = 32 * 1024;

export class FloatArena {
  readonly #chunks: Float32Array<ArrayBuffer>[] = [];
  #used = 0;

  /** Room for so many floats, which the caller must write all. */
  take(count: number): Float32Array<ArrayBuffer> {
    let chunk = this.#chunks.at(-1);
    if (chunk === undefined || this.#used + count > chunk.length) {
      chunk = new Float32Array(Math.max(count, Math.min(chunkFloatsMax, 2 * (chunk?.length ?? 0))));
      this.#chunks.push(chunk);
      this.#used = 0;
    }
    this.#used += count;
    return chunk.subarray(this.#used - count, this.#used);
  }

  /** Frees the memory. The vectors must not be used any more. */
  free(): void {
    for (const chunk of this.#chunks.splice(0)) release(chunk);
  }
}
